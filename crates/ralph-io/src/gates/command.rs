//! Runs a gate's command, keeps its output in a log, and a part of it for the next prompt.
//!
//! Not here: which gates run, and what follows from a failure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use ralph_core::child::{ChildEnd, Ending, Limit};
use ralph_core::gate::{Check, Gate, GateResult, GateStatus, log_name};
use ralph_core::ports::{GateOrder, Gates};
use ralph_core::text::Excerpt;

use super::log::{LARGEST_LOG, Log};
use crate::plain::Plain;
use crate::process::{Chunk, Heard, Limits, Spawn, Stdin, Watch, supervise};
use crate::store::Layout;
use crate::store::layout::PROJECT_DIRECTORY;

/// Runs the inner shell with both streams in one pipe, which alone keeps them in order. The
/// command stays an argument, so that the shell's messages name its own lines.
const SHELL: &str = "exec sh -c \"$0\" 2>&1";

/// Runs gates as shell commands.
#[derive(Debug)]
pub struct CommandGates {
    layout: Layout,
    env: Vec<(OsString, OsString)>,
    watch: Watch,
    /// The place of a gate among those whose logs would have the same name, from 1.
    places: BTreeMap<String, u32>,
}

impl CommandGates {
    /// Returns what runs these gates in a project directory, with exactly this environment.
    pub fn new(
        layout: Layout,
        env: Vec<(OsString, OsString)>,
        watch: Watch,
        gates: &[Gate],
    ) -> Self {
        let mut seen = BTreeMap::new();
        let places = gates.iter().map(|gate| {
            let place = seen.entry(log_name(0, gate.check.label())).or_insert(0);
            *place += 1;
            (gate.name.clone(), *place)
        });
        let places = places.collect();
        Self { layout, env, watch, places }
    }

    fn log_name(&self, order: &GateOrder<'_>) -> String {
        let name = log_name(order.iteration.0, order.gate.check.label());
        match (self.places.get(&order.gate.name), name.strip_suffix(".log")) {
            (Some(place @ 2..), Some(stem)) => format!("{stem}_{place}.log"),
            (Some(_) | None, _) => name,
        }
    }

    fn open_log(&self, name: &str) -> io::Result<Log> {
        let directory = self.layout.project_directory(&[]).map_err(io::Error::other)?;
        Log::create(&directory.join(name), LARGEST_LOG)
    }
}

impl Gates for CommandGates {
    fn check(&mut self, order: &GateOrder<'_>) -> GateResult {
        let gate = order.gate;
        let Check::Command(command) = &gate.check;
        let name = self.log_name(order);
        let mut output = Output {
            log: self.open_log(&name),
            plain: Plain::default(),
            excerpt: Excerpt::new(order.output_chars, gate.truncate),
        };
        let spawn = Spawn {
            program: "sh".into(),
            args: vec!["-c".into(), SHELL.into(), command.into()],
            cwd: self.layout.project().to_owned(),
            env: self.env.clone(),
            stdin: Stdin::Null,
            limits: Limits {
                soft: Some(gate.soft_limit.into()),
                hard: Some(gate.hard_limit.into()),
                ..Limits::default()
            },
        };
        let end = supervise(&spawn, &self.watch, &mut |chunk| {
            let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = chunk;
            output.hear(bytes);
            Heard::Useful
        });
        let log: PathBuf = Path::new(PROJECT_DIRECTORY).join(name);
        GateResult {
            gate: gate.name.clone(),
            command: command.clone(),
            severity: order.severity,
            status: if end.ending.is_success() { GateStatus::Passed } else { GateStatus::Failed },
            log: output.log.is_ok().then(|| log.to_string_lossy().into_owned()),
            output: output.finish(note(gate, &end)),
            end: Some(end),
        }
    }
}

/// Where a gate's output goes.
struct Output {
    log: io::Result<Log>,
    plain: Plain,
    excerpt: Excerpt,
}

impl Output {
    fn hear(&mut self, bytes: &[u8]) {
        let mut text = String::new();
        self.plain.feed(bytes, &mut text);
        self.excerpt.feed(&text);
        self.log(|log| log.write(bytes));
    }

    /// Returns the text for the next prompt, with ralph's own notes after it.
    fn finish(mut self, note: Option<String>) -> String {
        let mut text = String::new();
        self.plain.finish(&mut text);
        self.excerpt.feed(&text);
        self.log(|log| log.note(note.as_deref()));
        let lost =
            self.log.err().map(|error| format!("[ralph] the log could not be written: {error}"));
        let output = self.excerpt.text();
        let parts = [Some(output.trim_end().to_owned()), note, lost];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// A log that cannot be written is given up; the gate goes on.
    fn log(&mut self, write: impl FnOnce(&mut Log) -> io::Result<()>) {
        if let Ok(log) = &mut self.log
            && let Err(error) = write(log)
        {
            self.log = Err(error);
        }
    }
}

/// Says what an exit code does not.
fn note(gate: &Gate, end: &ChildEnd) -> Option<String> {
    match &end.ending {
        Ending::Exited { .. } => None,
        Ending::TimedOut { limit: Limit::Hard, .. } => {
            Some(format!("[ralph] timed out after {}", gate.hard_limit))
        }
        ending @ (Ending::Signalled { .. }
        | Ending::TimedOut { limit: Limit::Idle, .. }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }
        | Ending::NotStarted { .. }) => Some(format!("[ralph] {ending}")),
    }
}

#[cfg(test)]
mod tests;
