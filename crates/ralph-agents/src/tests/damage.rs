//! Lines that are malformed, joined or very long: they do not affect the others.

use ralph_model::agent_output::{AgentEvent, Reply};

use super::recorded::{Recorded, exit, list_streams};
use super::table::{TAG, read_rows, select_agents};
use crate::LineActivity;

/// Agents, a line that they never print, and whether it counts as progress or is only skipped.
const ODD_LINES: &str = r#"
    all but aider   | not json
    all but aider   | [1,2]
    all but aider   | ��
    all but aider   | {"no":"type"}
    all but aider   | {"type":"novelty"}
    all but aider   | {"type":"assistant","mess
    claude amp      | {"type":"assistant","message":7}
    amp             | {"type":"assistant","message":{"content":[{"type":"novelty"}]}} | progress
    amp             | {"type":"system","subtype":"novelty"}
    codex           | {"type":"item.completed","it
    codex           | {"type":"item.completed","item":7}
    codex           | {"type":"item.completed","item":{"type":"novelty"}}
    codex           | {"type":"error"}
    gemini          | {"type":"message","role":"assi
    gemini          | {"type":"message","role":"narrator","content":"x"}
    gemini          | {"type":"message","role":7}
    opencode        | {"type":"news","sessionID":"s"}
    opencode        | {"type":"text","part":{"te
    copilot         | {"type":"session.news","data":{}}
    cline           | {"type":"agent_event","eve
    cline           | {"type":"agent_event","event":{"type":"novelty"}}
    cline           | {"type":"agent_event","event":7}
    # Not worth a word.
    all but aider   |                                                         | skipped
    claude          | {"type":"system","subtype":"novelty"}                   | skipped
    copilot         | {"type":"session.more_news","data":{},"ephemeral":true} | skipped
    acp             | {"jsonrpc":"2.0","method":"_x/status","params":{}}      | skipped
    acp             | {"jsonrpc"
    acp             | {}
    acp             | []
    acp             | {"method":"x"}
    acp             | {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"weather_update"}}}
"#;

#[test]
fn malformed_line_does_not_affect_others() {
    for [agents, line, note] in read_rows(ODD_LINES) {
        for agent in select_agents(agents) {
            let [begin, rest] =
                ["begin", "text Fine.; end Fine."].map(|words| agent.write_stream(words));
            let (all, reply) = agent.read(&[&begin, line, &rest].join("\n"), "", exit(0));
            let found = (reply.unparsed, reply.failure, reply.text.as_str());
            let is_counted = note != "skipped";
            assert_eq!(found, (is_counted.into(), None, "Fine."), "{:?} {line}", agent.kind);
            let is_odd = |event: &AgentEvent| matches!(event, AgentEvent::Unparsed { .. });
            let odd = all.iter().find(|parsed| parsed.events.iter().any(is_odd));
            let is_progress = odd.is_some_and(|odd| odd.activity != LineActivity::Idle);
            assert_eq!(is_progress, note == "progress", "{:?} {line}", agent.kind);
        }
    }
}

/// Returns the streams of the agents that print JSON.
fn list_json_streams() -> Vec<(Recorded, String, String)> {
    let agents = select_agents("all but aider acp").into_iter();
    agents
        .flat_map(|agent| {
            let names = list_streams(&agent.directory()).into_iter();
            names.map(move |name| (agent, agent.stream(&name), name))
        })
        .collect()
}

#[test]
fn joined_lines_and_lines_after_garbage_are_read() {
    for (agent, stream, name) in list_json_streams() {
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
fn a_line_of_many_megabytes_is_read() {
    for (agents, size) in [("claude codex", 16 << 20), ("all", 1 << 20)] {
        let long = "x".repeat(size);
        for agent in select_agents(agents) {
            let stream = agent.write_stream(&format!("begin; text {long}{TAG}; end {TAG}"));
            let found = agent.read(&stream, "", exit(0)).1.signal;
            assert_eq!(found.as_deref(), Some("COMPLETE"), "{:?}", agent.kind);
        }
    }
}

#[test]
fn events_of_long_lines_are_short() {
    let long = "x".repeat(1 << 20);
    for (agents, words) in [
        ("all but aider", "begin; tool; output LONG"),
        ("all but aider", "{\"type\":\"LONG"),
        ("codex gemini opencode qwen acp", "begin; fail LONG"),
        ("codex", "error LONG"),
    ] {
        for agent in select_agents(agents) {
            let stream = agent.write_stream(&words.replace("LONG", &long));
            let (all, _) = agent.read(&stream, "", exit(1));
            let events = all.iter().flat_map(|parsed| &parsed.events);
            let size: usize =
                events.map(|event| serde_json::to_string(event).expect("JSON").len()).sum();
            assert!(size < 11_000, "{:?} {words}: {size}", agent.kind);
        }
    }
}
