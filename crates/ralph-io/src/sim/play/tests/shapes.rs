//! Compares printed lines with recorded ones: lines of the same kind have the same fields.
//!
//! Amp's streams were written after its documentation, the others are from the real programs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;

/// The fields of one line: each with its path and its type.
type Fields = BTreeSet<String>;

/// The lines of each kind.
type Kinds = BTreeMap<String, Vec<Fields>>;

/// Arguments of a tool: every tool of an MCP server has its own fields.
const ARGUMENTS: &str = ".item.arguments";

fn fields_of(value: &Value, place: &str, found: &mut Fields) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "flag",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    found.insert(format!("{place} {kind}"));
    if place == ARGUMENTS {
        return;
    }
    match value {
        Value::Array(items) => {
            for item in items {
                fields_of(item, &format!("{place}[]"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                fields_of(member, &format!("{place}.{name}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The paths of the fields that determine the kind of a line.
const KIND_FIELDS: [&str; 10] = [
    "/type",
    "/subtype",
    "/hookEventName",
    "/finishReason",
    "/event/type",
    "/event/contentType",
    "/event/toolName",
    "/item/type",
    "/name",
    "/parentAgentId",
];

fn kind_of_line(line: &Value) -> String {
    let parts = KIND_FIELDS.iter().filter_map(|place| line.pointer(place)?.as_str());
    parts.collect::<Vec<_>>().join(" ")
}

/// Sorts the lines of a stream by their kinds. A block of a message is a line of its own: real
/// messages hold several.
fn kinds_in(stream: &str, kinds: &mut Kinds) {
    for line in stream.lines() {
        let mut line: Value = serde_json::from_str(line).expect("every line is JSON");
        let blocks = line.pointer_mut("/message/content").map(Value::take);
        let who = kind_of_line(&line);
        let blocks = blocks.iter().flat_map(|blocks| blocks.as_array().into_iter().flatten());
        let parts = blocks.map(|block| (format!("{who}: {}", kind_of_line(block)), block));
        for (kind, part) in parts.chain([(who.clone(), &line)]) {
            let mut fields = Fields::new();
            fields_of(part, "", &mut fields);
            kinds.entry(kind).or_default().push(fields);
        }
    }
}

fn recorded_kinds(directory: &str) -> Kinds {
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph-agents/tests/data").join(directory);
    let mut kinds = Kinds::new();
    for entry in std::fs::read_dir(&directory).expect("the recorded streams are there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|it| it == "ndjson") {
            kinds_in(&std::fs::read_to_string(path).expect("it can be read"), &mut kinds);
        }
    }
    kinds
}

fn printed_kinds(dialect: SimDialect) -> Kinds {
    let mut kinds = Kinds::new();
    let story = json!([
        {"reasoning": "Hm."},
        {"text": "Working."},
        {"delta": ["In ", "pieces."]},
        {"subagentText": "Found it."},
        {"notice": "Careful."},
        {"tool": {"name": "Bash", "summary": "cargo test", "output": "ok"}},
        {"tool": {"name": "Bash", "summary": "cargo test", "output": "no", "outcome": "error"}},
        {"tool": {"name": "Read", "summary": "a.rs", "output": "ok"}},
        {"tool": {"name": "Write", "summary": "a.rs", "output": "ok"}},
        {"tool": {"name": "Edit", "summary": "a.rs", "output": "no", "outcome": "error"}},
        {"tool": {"name": "mcp__docs__find", "summary": "loops", "output": "ok"}},
        {"todo": [{"text": "a", "state": "active"}]},
        {"todo": [{"text": "a", "state": "done"}]},
        {"usage": {"input": 10, "output": 5}},
        {"usage": {"input": 10, "output": 5, "cacheRead": 3, "cost": 0.25}},
        {"claim": "DONE"},
    ]);
    let scripts = [
        story,
        json!([{"structured": {"summary": "x"}}]),
        json!([{"result": {"error": {"class": "notLoggedIn", "words": "x"}}}]),
        json!([{"result": {"error": {"class": "turnLimit", "words": "x"}}}]),
    ];
    for script in scripts {
        kinds_in(&output_of(dialect, "the prompt", "", script).0, &mut kinds);
    }
    let mut writer = SimWriter::new(dialect, Vec::new());
    writer.write_chatter().expect("a vector takes everything");
    kinds_in(String::from_utf8_lossy(&writer.out).trim(), &mut kinds);
    kinds
}

/// Checks that a line has every field that all recorded ones of its kind have, and none that no
/// recorded one has; and which kinds only one side has.
#[track_caller]
fn check(dialect: SimDialect, directory: &str, only_ours: &[&str], only_recorded: &[&str]) {
    let (real, ours) = (recorded_kinds(directory), printed_kinds(dialect));
    for (kind, lines) in &ours {
        let recorded = real.get(kind).map_or(&[][..], Vec::as_slice);
        let known: Fields = recorded.iter().flatten().cloned().collect();
        let is_needed = |field: &&String| recorded.iter().all(|line| line.contains(*field));
        let needed: Fields = known.iter().filter(is_needed).cloned().collect();
        for line in lines.iter().filter(|_| !recorded.is_empty()) {
            assert_eq!(needed.difference(line).next(), None, "{dialect:?} lacks it in `{kind}`");
            assert_eq!(line.difference(&known).next(), None, "{dialect:?} invents it in `{kind}`");
        }
    }
    let only = |some: &Kinds, others: &Kinds| -> Vec<String> {
        some.keys().filter(|kind| !others.contains_key(*kind)).cloned().collect()
    };
    assert_eq!(only(&ours, &real), only_ours, "{dialect:?}");
    assert_eq!(only(&real, &ours), only_recorded, "{dialect:?}");
}

#[test]
fn lines_have_the_fields_of_recorded_ones() {
    check(
        SimDialect::Amp,
        "amp/0.0.1790142911",
        &[
            "assistant: tool_use Read",
            "assistant: tool_use edit_file",
            "assistant: tool_use mcp__docs__find",
            "result error_max_turns",
        ],
        &["assistant: tool_use Task"],
    );
    check(
        SimDialect::Cline,
        "cline/3.0.65",
        &[
            "agent_event content_end text agent_sim",
            "agent_event content_end tool mcp__docs__find",
            "agent_event content_start text agent_sim",
            "agent_event content_start tool mcp__docs__find",
        ],
        &["hook_event prompt_submit", "run_aborted"],
    );
    check(SimDialect::Codex, "codex/0.166.0", &[], &[]);
}
