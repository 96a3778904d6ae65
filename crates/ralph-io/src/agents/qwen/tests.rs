//! Recorded streams, calls, and streams that Qwen Code should not write.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::path::{Path, PathBuf};

use expect_test::{expect, expect_file};
use proptest::prelude::*;
use ralph_core::child::{Ending, Force, Limit};
use ralph_core::failure::FailureClass;
use ralph_core::reading::Reply;
use ralph_core::recipe::AgentKind;

use crate::agents::gemini::tests::{exit, mutated, read, readings, recorded_in, shown_call};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/qwen/0.24.4")
}

fn recorded(name: &str) -> String {
    recorded_in(&data(), name)
}

fn reply(stream: &str, stderr: &str, ending: Ending) -> Reply {
    read(AgentKind::Qwen, stream, stderr, ending).1
}

#[track_caller]
fn check(stream: &str, stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    let found = reply(stream, stderr, ending).failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{stream}\n{found:?}");
}

/// Every recorded stream with the exit code it came with.
const STREAMS: [(&str, i32); 4] =
    [("api-error-401", 1), ("stop-hook-blocked-once", 0), ("text-complete", 0), ("tools", 0)];

#[test]
fn every_recorded_stream_is_read() {
    let shown = readings(AgentKind::Qwen, &data(), &STREAMS);
    expect_file!["../../../tests/data/qwen/0.24.4/readings.txt"].assert_eq(&shown);
}

const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Fine."}"#;

fn said(parent: &str, block: &str) -> String {
    format!(
        r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"m","content":[{block}]}}}}"#
    )
}

const CLAIM: &str = r#"{"type":"text","text":"<promise>COMPLETE</promise>"}"#;

fn failed(subtype: &str, message: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"{subtype}","is_error":true,"error":{{"message":"{message}"}}}}"#
    )
}

#[test]
fn only_the_last_words_of_a_success_count() {
    let signal = |lines: &[&str]| reply(&lines.join("\n"), "", exit(0)).signal.is_some();
    let claim = said("null", CLAIM);
    assert!(signal(&[&claim, SUCCESS]));
    assert!(!signal(&[&claim]));
    let tool = said("null", r#"{"type":"tool_use","id":"t","name":"edit","input":{}}"#);
    assert!(!signal(&[&claim, &tool, SUCCESS]));
    assert!(!signal(&[&said("\"t\"", CLAIM), SUCCESS]));
    let thought = r#"{"type":"thinking","thinking":"<promise>COMPLETE</promise>"}"#;
    assert!(!signal(&[&said("null", thought), SUCCESS]));
    assert!(!signal(&[&claim, &SUCCESS.replace("Fine.", "")]));
    let failed = failed("error_during_execution", "no");
    assert!(!signal(&[&claim, &failed, SUCCESS]));
    let echo = claim.replace("assistant", "user");
    assert!(!signal(&[&echo, SUCCESS]));
    let work = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"<promise>COMPLETE</promise>"}]}}"#;
    assert!(!signal(&[work, SUCCESS]));
}

#[test]
fn an_answer_of_a_schema_stands_in_the_result() {
    let line = SUCCESS.replace(
        r#""result":"Fine.""#,
        r#""result":"{\"a\":\"<promise>COMPLETE</promise>\"}","structured_result":{"a":1}"#,
    );
    assert_ne!(line, SUCCESS);
    let found = reply(&line, "", exit(0));
    assert_eq!((found.structured, found.signal), (Some(serde_json::json!({ "a": 1 })), None));
    assert_eq!(found.failure, None);
}

#[test]
fn each_ending_has_its_class() {
    let limited = FailureClass::RateLimited { resets_at: None };
    for (stream, code, class) in [
        (SUCCESS.to_owned(), 0, None),
        (SUCCESS.to_owned(), 1, Some(FailureClass::Crashed)),
        (SUCCESS.replace("Fine.", ""), 0, Some(FailureClass::Empty)),
        (SUCCESS.replace("false", "true"), 1, Some(FailureClass::Crashed)),
        (String::new(), 0, Some(FailureClass::Malformed)),
        (String::new(), 53, Some(FailureClass::TurnLimit)),
        (String::new(), 1, Some(FailureClass::Crashed)),
        (failed("error_during_execution", "[API Error: 429 Slow down.]"), 1, Some(limited)),
        (failed("x", "[API Error: 500 Odd.]"), 1, Some(FailureClass::Overloaded)),
        (failed("x", "[API Error: 404 Odd.]"), 1, Some(FailureClass::BadCall)),
        (failed("x", "[API Error: 400 Odd.]"), 1, Some(FailureClass::Crashed)),
        (failed("error_max_turns", "x"), 53, Some(FailureClass::TurnLimit)),
    ] {
        check(&stream, "", exit(code), class);
    }
    check("", "Unknown argument: frobnicate", exit(1), Some(FailureClass::BadCall));
    let idle = Ending::TimedOut { limit: Limit::Idle, force: Force::Killed };
    check("", "", idle, Some(FailureClass::IdleTimeout));
}

#[test]
fn a_bad_line_costs_only_itself() {
    let odd = ["not json", r#"{"type":"assistant","mess"#, r#"{"type":"novelty"}"#, "[1]"];
    let stream = [&odd[..], &[SUCCESS]].concat().join("\n");
    let found = reply(&stream, "", exit(0));
    assert_eq!((found.unparsed, found.failure, found.text.as_str()), (4, None, "Fine."));
    let whole = reply(&recorded("tools"), "", exit(0));
    assert_eq!(reply(&recorded("tools").replace('\n', ""), "", exit(0)), whole);
}

#[test]
fn the_usual_call() {
    expect![[r#"
        qwen -o stream-json --yolo
        stdin "Do it.", idle Watch
        without []
        QWEN_CODE_SUPPRESS_YOLO_WARNING=1
        RALPH_ASK=1
        RALPH_ITERATION=3
        RALPH_ROLE=prompt
        RALPH_RUN_ID=20261114-231500-k3f9
    "#]]
    .assert_eq(&shown_call(AgentKind::Qwen, |_, _| {}));
}

#[test]
fn everything_that_can_be_asked_for() {
    let shown = shown_call(AgentKind::Qwen, |request, context| {
        request.agent.model = Some("qwen3".to_owned());
        request.agent.fallback_model = Some("qwen2".to_owned());
        request.agent.max_turns = Some(40);
        request.agent.flags = vec!["--auth-type openai".to_owned(), "-y".to_owned()];
        context.mcp_config = Some(PathBuf::from("/state/mcp.json"));
    });
    expect![[r#"
        qwen -o stream-json -m qwen3 --fallback-model qwen2 --max-session-turns 40 --mcp-config /state/mcp.json --auth-type openai -y
        stdin "Do it.", idle Watch
        without []
        QWEN_CODE_SUPPRESS_YOLO_WARNING=1
        RALPH_ASK=1
        RALPH_ITERATION=3
        RALPH_ROLE=prompt
        RALPH_RUN_ID=20261114-231500-k3f9
    "#]].assert_eq(&shown);
}

proptest! {
    #[test]
    fn no_line_makes_the_translator_panic(
        line in "\\PC{0,40}",
        kind in "(system|assistant|user|result|stream_event)",
        name in 0..STREAMS.len(),
        cut in 0usize..1_500,
        other in "[\\[\\]{}\":,0-9a-z\\\\]{0,20}",
    ) {
        let odd = format!("{line}\n{{\"type\":\"{kind}\",\"message\":{other}}}");
        let stream = format!("{odd}\n{}", mutated(&recorded(STREAMS[name].0), cut, &other));
        let _ = reply(&stream, &line, exit(1));
    }
}
