//! Lines that are malformed, joined or very long: they do not affect the others.

use ralph_model::agent_output::{AgentEvent, Reply};

use super::conformance::{SUITES, list_recorded};
use super::recorded::{exit, list_streams};
use super::table::{read_rows, select_suites};
use crate::LineActivity;

/// A line that no agent prints that prints JSON, and whether it is only skipped.
const ODD_LINES: &str = r#"
    not json
    [1,2]
    ��
    {"no":"type"}
    {"type":"novelty"}
    {"type":"assistant","mess
    {"type":"assistant","message":7}
    # Not worth a word.
       | skipped
"#;

#[test]
fn malformed_line_does_not_affect_others() {
    for suite in SUITES {
        let shared = if suite.has_json_lines() { ODD_LINES } else { "" };
        for [line, note] in [shared, suite.odd_lines].into_iter().flat_map(read_rows) {
            let [begin, rest] =
                ["begin", "text Fine.; end Fine."].map(|words| suite.write_stream(words));
            let (all, reply) = suite.read(&[&begin, line, &rest].join("\n"), "", exit(0));
            let found = (reply.unparsed, reply.failure, reply.text.as_str());
            let is_counted = note != "skipped";
            assert_eq!(found, (is_counted.into(), None, "Fine."), "{:?} {line}", suite.kind);
            let is_odd = |event: &AgentEvent| matches!(event, AgentEvent::Unparsed { .. });
            let odd = all.iter().find(|parsed| parsed.events.iter().any(is_odd));
            let is_progress = odd.is_some_and(|odd| odd.activity != LineActivity::Idle);
            assert_eq!(is_progress, note == "progress", "{:?} {line}", suite.kind);
        }
    }
}

#[test]
fn joined_lines_and_lines_after_garbage_are_read() {
    let recorded = list_recorded().filter(|suite| suite.has_json_lines());
    let streams = recorded.flat_map(|suite| {
        let names = list_streams(&suite.directory()).into_iter();
        names.map(move |name| (suite, suite.stream(&name), name))
    });
    for (agent, stream, name) in streams {
        let read = |stream: &str| agent.read(stream, "", exit(0)).1;
        let facts = |reply: Reply| (reply.text, reply.signal, reply.tools);
        let whole = read(&stream);
        let joined = stream.replace('\n', "");
        assert_eq!(read(&joined), whole, "{:?} {name}", agent.kind);
        let warned = read(&format!("WARN x {joined}"));
        assert_eq!(warned.unparsed, whole.unparsed + 1, "{:?} {name}", agent.kind);
        let noisy = read(&format!("garbage {}", stream.trim_end().replace('\n', "\ngarbage ")));
        let whole = facts(whole);
        assert_eq!(facts(warned), whole, "{:?} {name}", agent.kind);
        assert_eq!(facts(noisy), whole, "{:?} {name}", agent.kind);
    }
}

#[test]
fn a_line_of_a_megabyte_is_read() {
    for suite in SUITES {
        suite.check_long_line(1 << 20);
    }
}

#[test]
fn events_of_long_lines_are_short() {
    let long = "x".repeat(1 << 20);
    for words in ["begin; tool; output LONG", "{\"type\":\"LONG", "begin; complaint LONG"] {
        let words = words.replace("LONG", &long);
        for suite in select_suites(&words).into_iter().filter(|suite| suite.has_json_lines()) {
            let (all, _) = suite.read(&suite.write_stream(&words), "", exit(1));
            let events = all.iter().flat_map(|parsed| &parsed.events);
            let size: usize =
                events.map(|event| serde_json::to_string(event).expect("JSON").len()).sum();
            assert!(size < 11_000, "{:?} {}: {size}", suite.kind, &words[..20]);
        }
    }
}
