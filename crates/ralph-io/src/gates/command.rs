//! Runs a gate's command, saves its output in a log, and keeps a part of it for the next prompt.
//!
//! Not here: which gates run, and what follows from a failure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::checking::empty_test_run::TestCount;
use ralph_core::checking::gate::excerpt::OutputExcerpt;
use ralph_core::checking::gate::{explain_false_pass, format_log_name};
use ralph_core::checking::stuck::{ErrorHasher, FailingChecks};
use ralph_core::plain::Plain;
use ralph_core::ports::{GateOrder, Gates};
use ralph_core::sandbox::gate_signs::{self, OutsideView};
use ralph_model::child::{ChildEnd, Ending, Limit};
use ralph_model::gate::{Gate, GateResult, GateStatus};
use ralph_model::units::Millis;

use super::log::{GateLog, LARGEST_LOG};
use super::slots::GateSlots;
use crate::mask::{MaskStream, Masker};
use crate::process::{
    Chunk, DiskLimit, OutputActivity, ProcessLimits, Spawn, StdinSource, Watch,
    supervise_with_ticks,
};
use crate::sandbox::Launcher;
use crate::sandbox::proxy::Proxy;
use crate::store::ProjectLayout;
use crate::store::layout::PROJECT_DIRECTORY;

/// Runs the inner shell with both streams in one pipe, the only way to keep them in order. The
/// command is an argument, so that line numbers in the shell's messages match the command.
const SHELL: &str = "exec sh -c \"$0\" 2>&1";

/// A server of this machine accepts a connection at once.
const CONNECTING: Duration = Duration::from_millis(500);

/// Runs gates as shell commands.
#[derive(Debug)]
pub struct CommandGates {
    layout: ProjectLayout,
    env: Vec<(OsString, OsString)>,
    watch: Watch,
    masker: Masker,
    launcher: Launcher,
    /// How many bytes a gate may print.
    output: Option<u64>,
    space: Option<DiskLimit>,
    proxy: Option<Proxy>,
    slots: Option<GateSlots>,
    /// The number of a gate among those whose logs would have the same name, from 1.
    places: BTreeMap<String, u32>,
}

impl CommandGates {
    /// Returns a runner for these gates in a project directory, with exactly this environment.
    pub fn new(
        layout: ProjectLayout,
        env: Vec<(OsString, OsString)>,
        watch: Watch,
        gates: &[Gate],
    ) -> Self {
        let mut seen = BTreeMap::new();
        let places = gates.iter().map(|gate| {
            let place = seen.entry(format_log_name(0, gate.check.label())).or_insert(0);
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
            proxy: None,
            slots: None,
            places,
        }
    }

    /// Masks secrets in logs and prompts.
    #[must_use]
    pub fn with_masker(self, masker: Masker) -> Self {
        Self { masker, ..self }
    }

    /// Sets how gates are started.
    #[must_use]
    pub fn with_launcher(self, launcher: Launcher) -> Self {
        Self { launcher, ..self }
    }

    /// Limits how many bytes a gate may print.
    #[must_use]
    pub fn with_output_limit(self, output: Option<u64>) -> Self {
        Self { output, ..self }
    }

    /// Limits how much disk space a gate may use.
    #[must_use]
    pub fn with_space_limit(self, space: Option<DiskLimit>) -> Self {
        Self { space, ..self }
    }

    /// Sets the proxy that gates may use, which knows what it refused.
    #[must_use]
    pub fn with_proxy(self, proxy: Option<Proxy>) -> Self {
        Self { proxy, ..self }
    }

    /// Limits how many gates run at the same time, in all processes of a run.
    #[must_use]
    pub fn with_slots(self, slots: Option<GateSlots>) -> Self {
        Self { slots, ..self }
    }

    fn log_name(&self, order: &GateOrder<'_>) -> String {
        let name = format_log_name(order.iteration.0, order.gate.check.label());
        match (self.places.get(&order.gate.name), name.strip_suffix(".log")) {
            (Some(place @ 2..), Some(stem)) => format!("{stem}_{place}.log"),
            (Some(_) | None, _) => name,
        }
    }

    fn open_log(&self, name: &str) -> io::Result<GateLog> {
        let directory = self.layout.create_project_directory(&[]).map_err(io::Error::other)?;
        GateLog::create(&directory.join(name), LARGEST_LOG)
    }
}

impl Gates for CommandGates {
    fn run_gate(&mut self, order: &GateOrder<'_>, tick: &mut dyn FnMut(Millis)) -> GateResult {
        let gate = order.gate;
        let command = order.command;
        let name = self.log_name(order);
        let mut output = GateOutput {
            log: self.open_log(&name),
            mask: self.masker.new_stream(),
            plain: Plain::default(),
            excerpt: OutputExcerpt::new(order.output_chars, gate.truncate),
            hasher: ErrorHasher::for_directory(
                &gate.name,
                &self.layout.project().to_string_lossy(),
            ),
            failing: FailingChecks::default(),
            count: TestCount::default(),
            end: OutputEnd::default(),
        };
        let spawn = Spawn {
            program: "sh".into(),
            args: vec!["-c".into(), SHELL.into(), command.into()],
            cwd: self.layout.project().to_owned(),
            env: self.env.clone(),
            stdin: StdinSource::Null,
            limits: ProcessLimits {
                soft: Some(gate.soft_limit.into()),
                hard: Some(gate.hard_limit.into()),
                output: self.output,
                space: self.space.clone(),
                ..ProcessLimits::default()
            },
        };
        let mut on_chunk = |chunk: Chunk<'_>| {
            let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = chunk;
            output.push_bytes(bytes);
            OutputActivity::Useful
        };
        // Its time limits begin when it has a slot.
        let slot = self.slots.as_ref().and_then(|slots| slots.wait_for_slot(&self.watch));
        let end = match self.launcher.wrap_spawn(spawn) {
            Ok(spawn) => {
                let mut tick = |ran: Duration| tick(ran.into());
                supervise_with_ticks(&spawn, &self.watch, &mut on_chunk, &mut tick)
            }
            Err(reason) => ChildEnd::from_ending(Ending::NotStarted { reason }),
        };
        drop(slot);
        let removed = self.launcher.clean_up();
        let log: PathBuf = Path::new(PROJECT_DIRECTORY).join(name);
        output.push_rest();
        for removed in &removed {
            output.add_remark(Some(&format!("[ralph] {removed}")));
        }
        let is_success = end.ending.is_success();
        let reason =
            if is_success { explain_false_pass(gate, &output.count.tests_seen()) } else { None };
        let is_failed = !is_success || reason.is_some();
        let refusals = self.proxy.as_ref().map(Proxy::take_refusals).unwrap_or_default();
        let spec = is_failed.then(|| self.launcher.gate_view()).flatten();
        let sandbox = spec.and_then(|spec| {
            let outside = OutsideView {
                exists: &|path| Path::new(path).symlink_metadata().is_ok(),
                is_listening: &is_listening,
                refusals: &refusals,
            };
            gate_signs::find_sign(&output.end.text, &output.failing.names(), &spec, &outside)
        });
        let note = describe_end(gate, &end);
        let remark = reason.as_ref().map(|reason| format!("[ralph] {reason}")).or(note.clone());
        output.add_remark(remark.as_deref());
        GateResult {
            gate: gate.name.clone(),
            command: command.to_owned(),
            severity: order.severity,
            status: if is_failed { GateStatus::Failed } else { GateStatus::Passed },
            log: output.log.is_ok().then(|| log.to_string_lossy().into_owned()),
            hash: is_failed.then(|| output.hasher.clone().finish_hash()),
            failing: if is_failed { output.failing.names() } else { Vec::new() },
            tests: output.count.tests_run(),
            output: output.finish(note),
            reason,
            sandbox: sandbox.map(Box::new),
            end: Some(end),
            is_verdict: false,
        }
    }
}

/// Returns whether a server of this machine listens on a port.
fn is_listening(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, CONNECTING).is_ok()
}

/// Processes the output of a gate.
struct GateOutput {
    log: io::Result<GateLog>,
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

impl GateOutput {
    fn push_bytes(&mut self, bytes: &[u8]) {
        let clean = self.mask.mask_next(bytes);
        self.push_masked(&clean);
    }

    fn push_masked(&mut self, clean: &[u8]) {
        let mut text = String::new();
        self.plain.feed(clean, &mut text);
        self.scan_text(&text);
        self.write_log(|log| log.write(clean));
    }

    /// Processes what is left at the end of the output.
    fn push_rest(&mut self) {
        let rest = self.mask.finish();
        self.push_masked(&rest);
        let mut text = String::new();
        self.plain.finish(&mut text);
        self.scan_text(&text);
    }

    /// Ends the log with a remark of ralph's, which becomes part of the failure as well.
    fn add_remark(&mut self, remark: Option<&str>) {
        self.write_log(|log| log.add_note(remark));
        if let Some(remark) = remark {
            self.hasher.feed_text(&format!("\n{remark}"));
        }
    }

    fn scan_text(&mut self, text: &str) {
        self.excerpt.feed_text(text);
        self.hasher.feed_text(text);
        self.failing.feed_text(text);
        self.count.feed_text(text);
        self.end.feed(text);
    }

    /// Returns the text for the next prompt, followed by ralph's own notes.
    fn finish(self, note: Option<String>) -> String {
        let lost =
            self.log.err().map(|error| format!("[ralph] the log could not be written: {error}"));
        let output = self.excerpt.to_text();
        let parts = [Some(output.trim_end().to_owned()), note, lost];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Writes to the log. If that fails, the log is abandoned; the gate continues.
    fn write_log(&mut self, write: impl FnOnce(&mut GateLog) -> io::Result<()>) {
        if let Ok(log) = &mut self.log
            && let Err(error) = write(log)
        {
            self.log = Err(error);
        }
    }
}

/// Describes an end that is more than an exit code.
fn describe_end(gate: &Gate, end: &ChildEnd) -> Option<String> {
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
