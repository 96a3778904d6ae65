//! Scripts in every dialect, read back by the adapters of those dialects.

use ralph_agents::test_support::{self, build_request};
use ralph_agents::{self as agents, LineActivity};
use ralph_core::answers::structured_output::Schema;
use ralph_model::agent::AgentKind;
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::child::Ending as End;
use ralph_model::failure::FailureClass;
use serde_json::json;

use super::super::scenario::SimDialect;
use super::*;

mod shapes;
mod steps;

fn steps(script: serde_json::Value) -> Vec<ScenarioStep> {
    serde_json::from_value(script).expect("a test's script is valid")
}

/// Plays a script and parses its output as ralph would; also returns the weights of the lines.
fn play_back(dialect: SimDialect, script: serde_json::Value) -> (Reply, Vec<LineActivity>) {
    play_back_to(dialect, "", script)
}

/// Plays a script with these answers on its input.
fn play_back_to(
    dialect: SimDialect,
    answers: &str,
    script: serde_json::Value,
) -> (Reply, Vec<LineActivity>) {
    let (output, ending) = output_of(dialect, "the prompt", answers, script);
    let request = build_request(kind_of(dialect), &[], "the prompt");
    let (lines, reply) = test_support::read_stream(&request, &output, "", ending, Timestamp(0));
    (reply, lines.iter().map(|line| line.activity).collect())
}

/// Plays a script and returns its output and how it ended.
fn output_of(
    dialect: SimDialect,
    prompt: &str,
    answers: &str,
    script: serde_json::Value,
) -> (String, End) {
    let mut input = answers.as_bytes();
    let mut player = ScenarioPlayer::new(SimWriter::new(dialect, Vec::new()), prompt, &mut input);
    let status = match player.play_steps("session", &steps(script)) {
        Ok(status) | Err(PlayStop::Exit(status)) => status,
        Err(PlayStop::Failed(error)) => panic!("{error}"),
        Err(PlayStop::NoReader) => panic!("a vector takes everything"),
    };
    let mut output = if dialect == SimDialect::Acp { OPENED.to_owned() } else { String::new() };
    output.push_str(&String::from_utf8_lossy(&player.writer.out));
    (output, End::Exited { code: i32::from(status) })
}

fn kind_of(dialect: SimDialect) -> AgentKind {
    match dialect {
        SimDialect::Sim => AgentKind::Sim,
        SimDialect::Claude => AgentKind::Claude,
        SimDialect::Text => AgentKind::Text,
        SimDialect::Acp => AgentKind::Acp,
        SimDialect::Amp => AgentKind::Amp,
        SimDialect::Cline => AgentKind::Cline,
        SimDialect::Codex => AgentKind::Codex,
    }
}

const ALL: [SimDialect; 7] = [
    SimDialect::Sim,
    SimDialect::Claude,
    SimDialect::Text,
    SimDialect::Acp,
    SimDialect::Amp,
    SimDialect::Cline,
    SimDialect::Codex,
];

/// The dialects that print the end of a turn.
const EVENTS: [SimDialect; 6] = [
    SimDialect::Sim,
    SimDialect::Claude,
    SimDialect::Acp,
    SimDialect::Amp,
    SimDialect::Cline,
    SimDialect::Codex,
];

/// The answers before the prompt in the Agent Client Protocol.
const OPENED: &str = "{\"id\":1,\"result\":{}}\n{\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n";

#[test]
fn every_dialect_reports_the_same_events() {
    for dialect in ALL {
        let script = json!([
            {"reasoning": "hm"},
            {"text": "Working."},
            {"tool": {"name": "Bash", "summary": "cargo test", "output": "ok"}},
            {"tool": {"name": "Edit", "summary": "a.rs", "output": "no", "outcome": "error"}},
            {"todo": [{"text": "one", "state": "done"}]},
            {"notice": "careful"},
            {"subagentText": "<response>NO</response>"},
            {"usage": {"input": 10, "output": 5, "cost": 0.25}},
            {"delta": ["All <resp", "onse>DONE</resp", "onse>"]},
        ]);
        let (reply, weights) = play_back(dialect, script);
        assert_eq!(reply.signal.as_deref(), Some("DONE"), "{dialect:?}");
        assert_eq!((&reply.failure, reply.unparsed), (&None, 0), "{dialect:?}");
        let (tools, cost) = match dialect {
            // The last has no to-do list.
            SimDialect::Sim | SimDialect::Acp | SimDialect::Cline => {
                ((2, 1), Some(UsdMicros(250_000)))
            }
            // In this dialect the to-do list is a tool call.
            SimDialect::Claude => ((3, 1), Some(UsdMicros(250_000))),
            SimDialect::Amp => ((3, 1), None),
            // It does not print patches that fail to apply.
            SimDialect::Codex => ((1, 0), None),
            SimDialect::Text => ((0, 0), None),
        };
        assert_eq!(((reply.tools, reply.tool_errors), reply.usage.cost), (tools, cost));
        let has_final = weights.contains(&LineActivity::Final);
        assert_eq!(has_final, dialect != SimDialect::Text, "{dialect:?}");
    }
}

#[test]
fn every_class_of_error_is_recognized() {
    let classes = [
        ("crashed", FailureClass::Crashed),
        ("malformed", FailureClass::Malformed),
        ("turnLimit", FailureClass::TurnLimit),
        ("rateLimited", FailureClass::RateLimited { resets_at: None }),
        ("overloaded", FailureClass::Overloaded),
        ("notLoggedIn", FailureClass::NotLoggedIn),
        ("badCall", FailureClass::BadCall),
        ("contextExceeded", FailureClass::ContextExceeded),
    ];
    for dialect in EVENTS {
        for (name, class) in &classes {
            let script = json!([
                {"text": "<response>DONE</response>"},
                {"result": {"error": {"class": name, "words": "no luck"}}},
            ]);
            let reply = play_back(dialect, script).0;
            let failure = reply.failure.expect("an error is no success");
            assert_eq!((&failure.class, reply.signal), (class, None), "{dialect:?}");
            let is_mute = match dialect {
                // The protocol ends such turns without a message.
                SimDialect::Acp => ["malformed", "turnLimit"].contains(name),
                // Their streams break off; the message is on stderr.
                SimDialect::Amp | SimDialect::Cline | SimDialect::Codex => *name == "malformed",
                SimDialect::Sim | SimDialect::Claude | SimDialect::Text => false,
            };
            assert!(is_mute || failure.message.contains("no luck"), "{failure:?}");
        }
    }
}

#[test]
fn a_limit_keeps_its_reset_time() {
    let script = json!([
        {"rateLimit": {"status": "rejected", "resets": {"at": 1_794_710_902}}},
        {"result": {"error": {"class": "rateLimited", "words": "limit"}}},
    ]);
    for dialect in
        [SimDialect::Sim, SimDialect::Claude, SimDialect::Acp, SimDialect::Amp, SimDialect::Cline]
    {
        let failure = play_back(dialect, script.clone()).0.failure.expect("it is a limit");
        let resets_at = Some(Timestamp(1_794_710_902_000));
        assert_eq!(failure.class, FailureClass::RateLimited { resets_at }, "{dialect:?}");
    }
}

#[test]
fn a_structured_answer_keeps_the_text_before_it() {
    for dialect in [SimDialect::Sim, SimDialect::Claude] {
        let script = json!([{"claim": "DONE"}, {"handoff": {"summary": "x"}}]);
        let reply = play_back(dialect, script).0;
        assert_eq!(reply.structured, Some(json!({"summary": "x"})), "{dialect:?}");
        assert_eq!((reply.signal.as_deref(), reply.failure), (Some("DONE"), None), "{dialect:?}");
    }
}

#[test]
fn a_structured_answer_can_be_the_last_message() {
    for dialect in [SimDialect::Acp, SimDialect::Amp, SimDialect::Cline, SimDialect::Codex] {
        let script = json!([{"claim": "DONE"}, {"verdict": {"approved": true}}]);
        let prompt = "Answer with {\"token\": \"k7\"}";
        let (output, ending) = output_of(dialect, prompt, "", script);
        let mut request = build_request(kind_of(dialect), &[], prompt);
        let schema = Schema::new(json!({"type": "object", "properties": {}}));
        request.schema = Some(schema.with_token("k7"));
        let reply = test_support::read_stream(&request, &output, "", ending, Timestamp(0)).1;
        let expect = json!({"approved": true, "token": "k7"});
        assert_eq!(reply.structured, Some(expect), "{dialect:?}");
        assert_eq!((reply.signal, reply.failure), (None, None), "{dialect:?}");
    }
}

#[test]
fn an_end_without_a_result_is_no_success() {
    for dialect in
        [SimDialect::Sim, SimDialect::Claude, SimDialect::Amp, SimDialect::Cline, SimDialect::Codex]
    {
        let class = |script| play_back(dialect, script).0.failure.map(|failure| failure.class);
        assert_eq!(class(json!([{"text": "x"}, "noResult"])), Some(FailureClass::Malformed));
        assert_eq!(class(json!([{"text": "x"}, {"exit": 3}])), Some(FailureClass::Crashed));
        assert_eq!(class(json!([])), Some(FailureClass::Empty));
        let late = json!([{"text": "x"}, {"result": "success"}, {"exit": 1}]);
        assert_eq!(class(late), Some(FailureClass::Crashed));
    }
}

#[test]
fn garbage_and_echoes_are_not_agent_text() {
    for dialect in ALL {
        let script = json!(["echoPrompt", {"garbage": {"text": "{\"type\": oops\n"}},
            {"garbage": {"base64": "//79Cg=="}}, {"text": "fine"}]);
        let reply = play_back(dialect, script).0;
        let unparsed = if dialect == SimDialect::Text { 0 } else { 2 };
        assert_eq!((reply.unparsed, reply.failure), (unparsed, None), "{dialect:?}");
    }
}

#[test]
fn a_repeated_prompt_is_not_a_completion_tag() {
    let prompt = "When all is done, say <response>DONE</response>.";
    for dialect in EVENTS {
        for (script, signal) in [
            (json!([{"text": "Not yet."}]), None),
            (json!(["echoPrompt", {"text": "Not yet."}]), None),
            (json!([{"text": "Not yet."}, "echoPrompt"]), None),
            (json!([{"text": "Not yet."}, "echoPrompt", "noResult"]), None),
            (json!(["echoPrompt"]), None),
            (json!([]), None),
            (json!(["echoPrompt", {"claim": "FINE"}]), Some("FINE")),
        ] {
            let (output, ending) = output_of(dialect, prompt, "", script.clone());
            let begins_with_it = output.lines().take(2).any(|line| line.contains(prompt));
            let is_scripted = script.get(0) == Some(&json!("echoPrompt"));
            assert!(dialect != SimDialect::Amp || begins_with_it, "{output}");
            assert!(dialect == SimDialect::Amp || is_scripted || !begins_with_it, "{output}");
            let request = build_request(kind_of(dialect), &[], prompt);
            let reply = test_support::read_stream(&request, &output, "", ending, Timestamp(0)).1;
            assert_eq!(reply.signal.as_deref(), signal, "{dialect:?} {script}");
        }
    }
}

#[test]
fn chatter_is_noise_and_floods_are_whole() {
    for dialect in EVENTS {
        let mut writer = SimWriter::new(dialect, Vec::new());
        writer.write_chatter().expect("a vector takes everything");
        let line = String::from_utf8(writer.out).expect("JSON is UTF-8");
        let request = build_request(kind_of(dialect), &[], "");
        let parsed =
            agents::create_translator(&request, Path::new("/project")).parse_line(line.trim());
        assert_eq!(parsed.activity, LineActivity::Idle, "{dialect:?}");
        let is_unparsed = |event: &AgentEvent| matches!(event, AgentEvent::Unparsed { .. });
        assert!(!parsed.events.iter().any(is_unparsed), "{dialect:?} {line}");
        for shape in ["events", "line"] {
            let flood = json!({"flood": {"bytes": 100_000, "shape": shape}});
            let (reply, _) = play_back(dialect, json!([flood, {"text": "fine"}]));
            assert_eq!((reply.text.as_str(), reply.unparsed), ("fine", 0), "{dialect:?} {shape}");
            assert_eq!(reply.failure, None, "{dialect:?} {shape}");
            if dialect == SimDialect::Sim {
                let (reply, _) = play_back(dialect, json!([flood]));
                assert!(reply.text.len() > 20_000 && reply.failure.is_none(), "{shape}");
            }
        }
    }
}

#[test]
fn a_tool_that_needs_permission_waits_for_the_answer_where_it_can_ask() {
    for (dialect, answer, tools) in [
        (
            SimDialect::Acp,
            r#"{"id":"tool_1","result":{"outcome":{"optionId":"allow_once"}}}"#,
            (1, 0),
        ),
        (
            SimDialect::Acp,
            r#"{"id":"tool_1","result":{"outcome":{"outcome":"cancelled"}}}"#,
            (1, 1),
        ),
        (SimDialect::Acp, "", (1, 1)),
        (SimDialect::Claude, "", (1, 0)),
        (SimDialect::Amp, "", (1, 0)),
        (SimDialect::Cline, "", (1, 0)),
        (SimDialect::Codex, "", (1, 0)),
        (SimDialect::Sim, "", (1, 0)),
    ] {
        let script = json!([{"permission": "rm -r x"}, {"text": "fine"}]);
        let reply = play_back_to(dialect, answer, script).0;
        assert_eq!((reply.tools, reply.tool_errors), tools, "{dialect:?} {answer}");
        assert_eq!((reply.text.as_str(), reply.failure), ("fine", None), "{dialect:?} {answer}");
    }
}
