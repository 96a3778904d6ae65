//! Tables of recorded streams, each with how its process ended; for tests.
//!
//! Not here: reading a stream (`recorded`), the streams themselves, which are in `tests/data`,
//! and what is expected of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ralph_core::child::Ending;
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Reply};
use ralph_core::recipe::AgentKind;

use super::call::tests::{context, request};
pub(super) use super::recorded::NOW;
use super::{Heard, recorded};

/// The recorded streams of one version of an agent.
pub(super) struct Recorded {
    pub(super) kind: AgentKind,
    pub(super) version: &'static str,
    /// Each stream with how its process ended.
    pub(super) streams: &'static [(&'static str, Ending)],
}

impl Recorded {
    fn directory(&self) -> PathBuf {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        data.join(self.kind.name()).join(self.version)
    }

    pub(super) fn stream(&self, name: &str) -> String {
        let path = self.directory().join(format!("{name}.ndjson"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns a reading of every stream, for people to check.
    pub(super) fn readings(&self) -> String {
        let count = recorded::count(&self.directory());
        assert_eq!(count, self.streams.len(), "every stream is in the table");
        let mut shown = String::new();
        for (name, ending) in self.streams {
            let (all, reply) = read(self.kind, &self.stream(name), "", ending.clone());
            let _ = writeln!(shown, "{name} ({ending})");
            show(&mut shown, &all, &reply);
        }
        shown
    }
}

fn show(shown: &mut String, all: &[Heard], reply: &Reply) {
    let kinds: Vec<&str> = all.iter().flat_map(|heard| &heard.events).map(kind).collect();
    let weights = recorded::weights(all);
    let _ = writeln!(shown, "  lines   {weights}");
    let _ = writeln!(shown, "{}", format!("  events  {}", kinds.join(" ")).trim_end());
    let _ = writeln!(shown, "  text    {:?}\n  signal  {:?}", reply.text, reply.signal);
    let usage = reply.usage;
    let _ = writeln!(
        shown,
        "  tools   {}, {} failed; {} unparsed",
        reply.tools, reply.tool_errors, reply.unparsed
    );
    let _ = writeln!(
        shown,
        "  usage   {} in, {} out, {} read, {} written, {:?}",
        usage.input.0,
        usage.output.0,
        usage.cache_read.0,
        usage.cache_write.0,
        usage.cost.map(|cost| cost.0),
    );
    let _ = writeln!(shown, "  session {:?}, {:?}", reply.session, reply.model);
    if let Some(failure) = &reply.failure {
        let _ = writeln!(shown, "  failure {:?}: {}", failure.class, failure.words);
        let _ = writeln!(shown, "  hint    {:?}", failure.hint);
    }
}

/// Reads a whole stream as the port does.
pub(super) fn read(
    kind: AgentKind,
    stream: &str,
    stderr: &str,
    ending: Ending,
) -> (Vec<Heard>, Reply) {
    recorded::read(&request(kind, &[], "Do it."), stream, stderr, ending, NOW)
}

/// Returns the tools that were started, each in a line.
pub(super) fn summaries(all: &[Heard]) -> Vec<String> {
    let mut found = Vec::new();
    for event in all.iter().flat_map(|heard| &heard.events) {
        if let AgentEvent::ToolStarted { name, summary, .. } = event {
            found.push(format!("{name}: {summary}"));
        }
    }
    found
}

/// Returns a call as a person would check it.
pub(super) fn shown_call(request: &Request) -> String {
    let call = crate::agents::call(request, &context()).expect("a small prompt fits anywhere");
    let mut shown = format!("{} {}\n", call.program, call.args.join(" "));
    let stdin = String::from_utf8_lossy(&call.stdin);
    let _ = writeln!(shown, "stdin {stdin:?}, idle {:?}", call.idle);
    for name in &call.env_remove {
        let _ = writeln!(shown, "without {name}");
    }
    for (name, value) in call.env.iter().filter(|(name, _)| !name.starts_with("RALPH_")) {
        let _ = writeln!(shown, "{name}={value}");
    }
    shown
}

/// Reads every recorded line, cut and mended with something else. Nothing may panic.
pub(super) fn read_mutated(recorded: &Recorded, name: usize, cut: usize, other: &str) {
    let (name, _) = &recorded.streams[name % recorded.streams.len()];
    let mut streams = vec![other.to_owned()];
    for line in recorded.stream(name).lines() {
        let at = (0..=cut.min(line.len())).rev().find(|at| line.is_char_boundary(*at));
        let (head, tail) = line.split_at(at.unwrap_or(0));
        streams.push(format!("{head}{other}{tail}"));
        streams.push(format!("{head}{other}"));
        streams.push(format!("{other}{line}{line}"));
    }
    let _ = read(recorded.kind, &streams.join("\n"), other, Ending::Exited { code: 1 });
}

/// Returns a word for an event; words that are taken back are told apart.
fn kind(event: &AgentEvent) -> &'static str {
    let is_void = matches!(event, AgentEvent::Text { text, .. } if text.is_empty());
    if is_void { "void" } else { recorded::kind(event) }
}
