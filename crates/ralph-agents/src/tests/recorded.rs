//! Recorded streams in tests: listed, rendered for people, and damaged.
//!
//! Not here: the streams, which are in `tests/data`, and what is expected of them.

use std::fmt::Write as _;
use std::path::Path;

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::child::{Ending, Force, Limit};
use ralph_model::units::Timestamp;

use crate::{CallContext, LineActivity, ParsedLine, build_call};

/// 2026-11-15T00:48:30Z, shortly before or after most streams were recorded.
pub(crate) const NOW: Timestamp = Timestamp(1_794_703_710_000);

/// A call that ralph ended because no progress came.
pub(crate) const IDLE: Ending = Ending::TimedOut { limit: Limit::Idle, force: Force::Terminated };

pub(crate) const fn exit(code: i32) -> Ending {
    Ending::Exited { code }
}

pub(crate) const fn signal(signal: i32) -> Ending {
    Ending::Signalled { signal }
}

/// Returns each line cut at one position, with other text inserted, appended and in place of a
/// value.
pub(crate) fn mutilated(stream: &str, cut: usize, other: &str) -> String {
    let mut lines = vec![other.to_owned()];
    for line in stream.lines() {
        let at = (0..=cut.min(line.len())).rev().find(|at| line.is_char_boundary(*at));
        let (head, tail) = line.split_at(at.unwrap_or(0));
        lines.extend([format!("{head}{other}{tail}"), format!("{head}{other}"), tail.to_owned()]);
        lines.extend(with_other_value(line, cut, other));
        lines.push(format!("{other}{line}{line}"));
    }
    lines.join("\n")
}

/// Returns an object with something else in place of the value of one field.
fn with_other_value(line: &str, field: usize, other: &str) -> Option<String> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let chosen = field % object.len().max(1);
    let fields = object.iter().enumerate().map(|(at, (name, value))| {
        if at == chosen { format!("{name:?}:{other}") } else { format!("{name:?}:{value}") }
    });
    Some(format!("{{{}}}", fields.collect::<Vec<String>>().join(",")))
}

/// Returns the names of the streams in a directory, sorted.
pub(crate) fn list_streams(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("the recorded streams are there");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut streams: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".ndjson").map(str::to_owned)).collect();
    streams.sort();
    streams
}

/// Shows what was read, for a snapshot.
pub(crate) fn show(name: &str, all: &[ParsedLine], reply: &Reply) -> String {
    let letter = |parsed: &ParsedLine| match parsed.activity {
        LineActivity::Idle => '.',
        LineActivity::Progress => 'u',
        LineActivity::Final => 'F',
    };
    let weights: String = all.iter().map(letter).collect();
    let mut shown = format!("{name} ({})\n  lines   {weights}\n", reply.end.ending);
    for event in all.iter().flat_map(|parsed| &parsed.events) {
        let _ = writeln!(shown, "  event   {}", show_event(event));
    }
    let _ = writeln!(shown, "  text    {:?}\n  signal  {:?}", reply.text, reply.signal);
    if let Some(structured) = &reply.structured {
        let _ = writeln!(shown, "  answer  {structured}");
    }
    let _ = writeln!(
        shown,
        "  tools   {}, {} failed; {} unparsed; session {:?}; model {:?}",
        reply.tools, reply.tool_errors, reply.unparsed, reply.session, reply.model,
    );
    let usage = reply.usage;
    let _ = writeln!(
        shown,
        "  usage   {} in, {} out, {} read, {} written; {:?}{}",
        usage.input.0,
        usage.output.0,
        usage.cache_read.0,
        usage.cache_write.0,
        usage.cost.map(|cost| cost.0),
        usage.turns.map(|turns| format!("; turns: {turns}")).unwrap_or_default(),
    );
    if let Some(failure) = &reply.failure {
        let _ = writeln!(shown, "  failure {:?}: {}", failure.class, failure.message);
        let _ = writeln!(shown, "  hint    {:?}", failure.hint);
    }
    shown
}

/// Shows an event in a line that begins with a word for it.
pub(crate) fn show_event(event: &AgentEvent) -> String {
    match event {
        AgentEvent::Session { id, model, version } => {
            format!("session {id:?} {model:?} {version:?}")
        }
        AgentEvent::Text { text, speaker, form } => {
            format!("text {form:?} of {speaker:?} {}", brief(text))
        }
        AgentEvent::Reasoning { text } => format!("reasoning {}", brief(text)),
        AgentEvent::ToolStarted { id, name, summary, speaker } => {
            format!("tool {id} of {speaker:?}: {name} {}", brief(summary))
        }
        AgentEvent::ToolEnded { id, outcome, output } => {
            format!("end {id} {outcome:?} {}", brief(output))
        }
        AgentEvent::Todo { items } => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{:?} {}", item.state, item.text)).collect();
            format!("todo {}", items.join(", "))
        }
        AgentEvent::FileChanged { path } => format!("file {path}"),
        AgentEvent::FileEdited { path, removed, added } => {
            format!("edit {path} {removed:?} {added:?}")
        }
        AgentEvent::Usage { usage, scope } => format!(
            "usage {scope:?} {} in, {} out, {} read, {} written, {:?}",
            usage.input.0,
            usage.output.0,
            usage.cache_read.0,
            usage.cache_write.0,
            usage.cost.map(|cost| cost.0)
        ),
        AgentEvent::RateLimit { status, resets_at } => format!("limit {status:?} {resets_at:?}"),
        AgentEvent::Notice { text } => format!("notice {}", brief(text)),
        AgentEvent::SoftLimitPassed => "soft limit passed".to_owned(),
        AgentEvent::StillRunning { ran } => format!("running {ran}"),
        AgentEvent::Result { status, text, structured } => {
            let answer = structured.as_ref().map(ToString::to_string);
            format!("result {status:?} {text:?} {answer:?}")
        }
        AgentEvent::Unparsed { line } => format!("unparsed {}", brief(line)),
    }
}

/// Quotes a text, so that its end is visible.
fn brief(text: &str) -> String {
    let head: String = text.chars().take(160).collect();
    let cut = if head.len() < text.len() { "…" } else { "" };
    format!("{head:?}{cut}")
}

/// Shows a call, for a snapshot; arguments with spaces are quoted.
pub(crate) fn show_call(request: &AgentRequest, context: &CallContext) -> String {
    let call = build_call(request, context).expect("a small prompt fits anywhere");
    let mut shown = call.program;
    for arg in &call.args {
        let is_word = !arg.is_empty() && !arg.contains(char::is_whitespace);
        let quoted = if is_word { arg.clone() } else { format!("{arg:?}") };
        let _ = write!(shown, " {quoted}");
    }
    let stdin = String::from_utf8_lossy(&call.stdin);
    let _ = writeln!(shown, "\nstdin {stdin:?}, idle {:?}", call.idle);
    if !call.env_remove.is_empty() {
        let _ = writeln!(shown, "without {:?}", call.env_remove);
    }
    // The variables that identify the call are the same for all agents.
    let identity = ["RALPH_RUN_ID", "RALPH_ROLE", "RALPH_ITERATION", "RALPH_ASK"];
    for (name, value) in call.env.iter().filter(|(name, _)| !identity.contains(&name.as_str())) {
        let _ = writeln!(shown, "{name}={value}");
    }
    shown
}
