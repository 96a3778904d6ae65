//! Runs a gate's command, saves its output in a log, and keeps a part of it for the next prompt.
//!
//! Not here: which gates run, and what follows from a failure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::child::{ChildEnd, Ending, Limit};
use ralph_core::gate::excerpt::OutputExcerpt;
use ralph_core::gate::{Gate, GateResult, GateStatus, empty_run, log_name};
use ralph_core::ids::IterationNumber;
use ralph_core::ports::{GateOrder, Gates};
use ralph_core::sandbox::signs;
use ralph_core::stuck::{ErrorHasher, FailingChecks};
use ralph_core::units::Millis;
use ralph_core::vacuous::TestCount;

use super::log::{LARGEST_LOG, Log};
use crate::mask::{MaskStream, Masker};
use crate::process::{Chunk, Heard, Limits, Space, Spawn, Stdin, Watch, supervise_telling};
use crate::sandbox::Launcher;
use crate::store::Layout;
use crate::store::layout::PROJECT_DIRECTORY;
use ralph_core::plain::Plain;

/// Runs the inner shell with both streams in one pipe, the only way to keep them in order. The
/// command is an argument, so that line numbers in the shell's messages match the command.
const SHELL: &str = "exec sh -c \"$0\" 2>&1";

/// Runs gates as shell commands.
#[derive(Debug)]
pub struct CommandGates {
    layout: Layout,
    env: Vec<(OsString, OsString)>,
    watch: Watch,
    masker: Masker,
    launcher: Launcher,
    /// How many bytes a gate may print.
    output: Option<u64>,
    space: Option<Space>,
    /// The number of a gate among those whose logs would have the same name, from 1.
    places: BTreeMap<String, u32>,
}

impl CommandGates {
    /// Returns a runner for these gates in a project directory, with exactly this environment.
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
        Self {
            layout,
            env,
            watch,
            masker: Masker::default(),
            launcher: Launcher::Direct,
            output: None,
            space: None,
            places,
        }
    }

    /// Masks secrets in logs and prompts.
    #[must_use]
    pub fn masking(self, masker: Masker) -> Self {
        Self { masker, ..self }
    }

    /// Sets how gates are started.
    #[must_use]
    pub fn launched_by(self, launcher: Launcher) -> Self {
        Self { launcher, ..self }
    }

    /// Limits how many bytes a gate may print.
    #[must_use]
    pub fn printing_at_most(self, output: Option<u64>) -> Self {
        Self { output, ..self }
    }

    /// Limits how much disk space a gate may use.
    #[must_use]
    pub fn writing_at_most(self, space: Option<Space>) -> Self {
        Self { space, ..self }
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
    fn check(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult {
        let gate = order.gate;
        let command = order.command;
        let name = self.log_name(order);
        let mut output = Output {
            log: self.open_log(&name),
            mask: self.masker.stream(),
            plain: Plain::default(),
            excerpt: OutputExcerpt::new(order.output_chars, gate.truncate),
            hasher: ErrorHasher::in_directory(&gate.name, &self.layout.project().to_string_lossy()),
            failing: FailingChecks::default(),
            count: TestCount::default(),
            end: OutputEnd::default(),
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
                output: self.output,
                space: self.space.clone(),
                ..Limits::default()
            },
        };
        let mut on_chunk = |chunk: Chunk<'_>| {
            let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = chunk;
            output.hear(bytes);
            Heard::Useful
        };
        let end = match self.launcher.launch(spawn) {
            Ok(spawn) => {
                let mut tick = |ran: Duration| tick(ran.into());
                supervise_telling(&spawn, &self.watch, &mut on_chunk, &mut tick)
            }
            Err(reason) => ChildEnd::by(Ending::NotStarted { reason }),
        };
        let removed = self.launcher.clear();
        let log: PathBuf = Path::new(PROJECT_DIRECTORY).join(name);
        output.hear_rest();
        for removed in &removed {
            output.conclude(Some(&format!("[ralph] {removed}")));
        }
        let is_success = end.ending.is_success();
        let reason = if is_success { empty_run(gate, &output.count.seen()) } else { None };
        let is_failed = !is_success || reason.is_some();
        // In later iterations a failure may also come from changes of the agent.
        let is_baseline = order.iteration == IterationNumber(0);
        let spec = (is_failed && is_baseline).then(|| self.launcher.gate_cell()).flatten();
        let sandbox = spec.and_then(|spec| {
            let exists = |path: &str| Path::new(path).symlink_metadata().is_ok();
            signs::find_sign(&output.end.text, &output.failing.names(), &spec, &exists)
        });
        let note = note(gate, &end);
        let remark = reason.as_ref().map(|reason| format!("[ralph] {reason}")).or(note.clone());
        output.conclude(remark.as_deref());
        GateResult {
            gate: gate.name.clone(),
            command: command.to_owned(),
            severity: order.severity,
            status: if is_failed { GateStatus::Failed } else { GateStatus::Passed },
            log: output.log.is_ok().then(|| log.to_string_lossy().into_owned()),
            hash: is_failed.then(|| output.hasher.clone().finish()),
            failing: if is_failed { output.failing.names() } else { Vec::new() },
            output: output.finish(note),
            reason,
            sandbox: sandbox.map(Box::new),
            end: Some(end),
        }
    }
}

/// Processes the output of a gate.
struct Output {
    log: io::Result<Log>,
    mask: MaskStream,
    plain: Plain,
    excerpt: OutputExcerpt,
    hasher: ErrorHasher,
    failing: FailingChecks,
    count: TestCount,
    end: OutputEnd,
}

/// The end of the output, which is searched for signs of the sandbox.
#[derive(Debug, Default)]
struct OutputEnd {
    text: String,
}

impl OutputEnd {
    /// How many bytes of the end are kept, at least; at most twice as many.
    const KEPT: usize = 16 << 10;

    fn feed(&mut self, text: &str) {
        self.text.push_str(text);
        if self.text.len() > 2 * Self::KEPT {
            let mut cut = self.text.len() - Self::KEPT..self.text.len();
            let from = cut.find(|at| self.text.is_char_boundary(*at));
            self.text.drain(..from.unwrap_or_default());
        }
    }
}

impl Output {
    fn hear(&mut self, bytes: &[u8]) {
        let clean = self.mask.feed(bytes);
        self.take(&clean);
    }

    fn take(&mut self, clean: &[u8]) {
        let mut text = String::new();
        self.plain.feed(clean, &mut text);
        self.read(&text);
        self.log(|log| log.write(clean));
    }

    /// Processes what is left at the end of the output.
    fn hear_rest(&mut self) {
        let rest = self.mask.finish();
        self.take(&rest);
        let mut text = String::new();
        self.plain.finish(&mut text);
        self.read(&text);
    }

    /// Ends the log with a remark of ralph's, which becomes part of the failure as well.
    fn conclude(&mut self, remark: Option<&str>) {
        self.log(|log| log.note(remark));
        if let Some(remark) = remark {
            self.hasher.feed(&format!("\n{remark}"));
        }
    }

    fn read(&mut self, text: &str) {
        self.excerpt.feed(text);
        self.hasher.feed(text);
        self.failing.feed(text);
        self.count.feed(text);
        self.end.feed(text);
    }

    /// Returns the text for the next prompt, followed by ralph's own notes.
    fn finish(self, note: Option<String>) -> String {
        let lost =
            self.log.err().map(|error| format!("[ralph] the log could not be written: {error}"));
        let output = self.excerpt.text();
        let parts = [Some(output.trim_end().to_owned()), note, lost];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Writes to the log. If that fails, the log is abandoned; the gate continues.
    fn log(&mut self, write: impl FnOnce(&mut Log) -> io::Result<()>) {
        if let Ok(log) = &mut self.log
            && let Err(error) = write(log)
        {
            self.log = Err(error);
        }
    }
}

/// Describes an end that is more than an exit code.
fn note(gate: &Gate, end: &ChildEnd) -> Option<String> {
    match &end.ending {
        Ending::Exited { .. } => None,
        Ending::TimedOut { limit: Limit::Hard, .. } => {
            Some(format!("[ralph] timed out after {}", gate.hard_limit))
        }
        ending @ (Ending::Signalled { .. }
        | Ending::TimedOut {
            limit: Limit::Idle | Limit::Output | Limit::Growth | Limit::Disk,
            ..
        }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }
        | Ending::NotStarted { .. }) => Some(format!("[ralph] {ending}")),
    }
}

#[cfg(test)]
mod tests;
