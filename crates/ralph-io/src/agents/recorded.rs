//! Reading whole streams in tests: as recorded, with the end they came with, and mutilated.
//!
//! Not here: the streams, and what is expected of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use ralph_core::child::{ChildEnd, Ending, Leftovers, SoftLimit};
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Reading, Reply};
use ralph_core::recipe::AgentKind;
use ralph_core::units::{Millis, Timestamp};

use super::call::tests::request;
use super::{Call, Evidence, Heard, Weight, judge, translator};

/// 2026-11-15T00:48:30Z.
pub(super) const NOW: Timestamp = Timestamp(1_794_703_710_000);

/// The recorded output of one version of an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded {
    pub(super) kind: AgentKind,
    pub(super) version: &'static str,
}

impl Recorded {
    pub(super) fn directory(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(self.kind.name())
            .join(self.version)
    }

    pub(super) fn file(self, name: &str) -> String {
        let path = self.directory().join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns how many streams there are.
    pub(super) fn count(self) -> usize {
        count(&self.directory())
    }

    /// Reads a whole stream as the port does.
    pub(super) fn read(self, stream: &str, stderr: &str, ending: Ending) -> (Vec<Heard>, Reply) {
        let request = request(self.kind, &[], "Do it. Then print <promise>COMPLETE</promise>.");
        read(&request, stream, stderr, ending, NOW)
    }

    /// Reads every line of a stream cut at one place, with something else put in or behind.
    pub(super) fn mutilate(self, stream: &str, cut: usize, other: &str) {
        let mut lines = vec![other.to_owned()];
        for line in stream.lines() {
            let at = (0..=cut.min(line.len())).rev().find(|at| line.is_char_boundary(*at));
            let (head, tail) = line.split_at(at.unwrap_or(0));
            lines.extend([format!("{head}{other}{tail}"), format!("{head}{other}")]);
        }
        let _ = self.read(&lines.join("\n"), other, exit(1));
    }
}

/// Returns how many streams a directory has.
pub(super) fn count(directory: &Path) -> usize {
    std::fs::read_dir(directory)
        .expect("the recorded streams are there")
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|it| it == "ndjson"))
        .count()
}

/// Reads a whole stream as the port does.
pub(crate) fn read(
    request: &Request,
    stream: &str,
    stderr: &str,
    ending: Ending,
    now: Timestamp,
) -> (Vec<Heard>, Reply) {
    let mut translator = translator(request, Path::new("/project"));
    let mut reading = Reading::wanting(request.schema.as_ref());
    let mut all: Vec<Heard> = stream.lines().map(|line| translator.line(line)).collect();
    all.push(translator.finish());
    for event in all.iter().flat_map(|heard| &heard.events) {
        reading.hear(event);
    }
    let end = ChildEnd {
        ending,
        ran: Millis::ZERO,
        soft_limit: SoftLimit::Kept,
        leftovers: Leftovers::default(),
    };
    let evidence = Evidence {
        reading: &reading,
        end: &end,
        stderr_tail: stderr,
        stdout_tail: stream,
        now,
        zone: &TimeZone::UTC,
    };
    let failure = judge(&translator, &request.agent, &evidence);
    (all, reading.into_reply(end, failure))
}

/// Returns a letter for what each line says of the progress.
pub(super) fn weights(all: &[Heard]) -> String {
    let letter = |heard: &Heard| match heard.weight {
        Weight::Noise => '.',
        Weight::Useful => 'u',
        Weight::Final => 'F',
    };
    all.iter().map(letter).collect()
}

pub(super) const fn exit(code: i32) -> Ending {
    Ending::Exited { code }
}

/// Shows what was read, for a snapshot.
pub(super) fn show(name: &str, all: &[Heard], reply: &Reply) -> String {
    let events: Vec<&str> = all.iter().flat_map(|heard| &heard.events).map(kind).collect();
    let weights = weights(all);
    let usage = reply.usage;
    let mut shown = format!("{name} ({})\n  lines   {weights}\n", reply.end.ending);
    let _ = writeln!(shown, "  events  {}", events.join(" "));
    let _ = writeln!(shown, "  text    {:?}\n  signal  {:?}", reply.text, reply.signal);
    let _ = writeln!(
        shown,
        "  tools   {}, {} failed; {} unparsed; session {:?}; model {:?}",
        reply.tools, reply.tool_errors, reply.unparsed, reply.session, reply.model,
    );
    let _ = writeln!(
        shown,
        "  usage   {} in, {} out, {} read, {} written; {:?}",
        usage.input.0,
        usage.output.0,
        usage.cache_read.0,
        usage.cache_write.0,
        usage.cost.map(|cost| cost.0),
    );
    if let Some(failure) = &reply.failure {
        let _ = writeln!(shown, "  failure {:?}: {}", failure.class, failure.words);
        let _ = writeln!(shown, "  hint    {:?}", failure.hint);
    }
    shown
}

/// Shows a call, for a snapshot.
pub(super) fn show_call(call: Call) -> String {
    let mut shown = format!("{} {:?}\n", call.program, call.args);
    let stdin = String::from_utf8_lossy(&call.stdin).into_owned();
    let _ = writeln!(shown, "stdin {stdin:?}, idle {:?}", call.idle);
    let _ = writeln!(shown, "without {:?}", call.env_remove);
    for (name, value) in call.env {
        let _ = writeln!(shown, "{name}={value}");
    }
    shown
}

/// Returns a word for an event.
pub(super) fn kind(event: &AgentEvent) -> &'static str {
    match event {
        AgentEvent::Session { .. } => "session",
        AgentEvent::Text { .. } => "text",
        AgentEvent::Reasoning { .. } => "reasoning",
        AgentEvent::ToolStarted { .. } => "tool",
        AgentEvent::ToolEnded { .. } => "end",
        AgentEvent::Todo { .. } => "todo",
        AgentEvent::FileChanged { .. } => "file",
        AgentEvent::Usage { .. } => "usage",
        AgentEvent::RateLimit { .. } => "limit",
        AgentEvent::Notice { .. } => "notice",
        AgentEvent::Result { .. } => "result",
        AgentEvent::Unparsed { .. } => "unparsed",
    }
}
