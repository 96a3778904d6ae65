//! Recorded streams, calls, and malformed streams.

use std::path::PathBuf;

use expect_test::expect;
use ralph_model::agent_output::Reply;
use ralph_model::child::{Ending, Force, Limit};
use ralph_model::failure::FailureClass;

use crate::tests::conformance::QWEN;
use crate::tests::recorded::exit;

fn reply(stream: &str) -> Reply {
    QWEN.read(stream, "", exit(0)).1
}

const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Fine."}"#;

fn assistant_line(parent: &str, block: &str) -> String {
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
fn only_the_final_answer_of_a_success_counts() {
    let signal = |lines: &[&str]| reply(&lines.join("\n")).signal.is_some();
    let claim = assistant_line("null", CLAIM);
    assert!(signal(&[&claim, SUCCESS]));
    assert!(!signal(&[&claim]));
    let tool = assistant_line("null", r#"{"type":"tool_use","id":"t","name":"edit","input":{}}"#);
    assert!(!signal(&[&claim, &tool, SUCCESS]));
    assert!(!signal(&[&assistant_line("\"t\"", CLAIM), SUCCESS]));
    let thought = r#"{"type":"thinking","thinking":"<promise>COMPLETE</promise>"}"#;
    assert!(!signal(&[&assistant_line("null", thought), SUCCESS]));
    assert!(!signal(&[&claim, &SUCCESS.replace("Fine.", "")]));
    let failed = failed("error_during_execution", "no");
    assert!(!signal(&[&claim, &failed, SUCCESS]));
    let echo = claim.replace("assistant", "user");
    assert!(!signal(&[&echo, SUCCESS]));
    let work = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"<promise>COMPLETE</promise>"}]}}"#;
    assert!(!signal(&[work, SUCCESS]));
}

#[test]
fn structured_answer_is_read_from_the_result() {
    let line = SUCCESS.replace(
        r#""result":"Fine.""#,
        r#""result":"{\"a\":\"<promise>COMPLETE</promise>\"}","structured_result":{"a":1}"#,
    );
    assert_ne!(line, SUCCESS);
    let found = reply(&line);
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
        QWEN.check(&stream, "", exit(code), class);
    }
    QWEN.check("", "Unknown argument: frobnicate", exit(1), Some(FailureClass::BadCall));
    let idle = Ending::TimedOut { limit: Limit::Idle, force: Force::Killed };
    QWEN.check("", "", idle, Some(FailureClass::IdleTimeout));
}

#[test]
fn malformed_line_does_not_affect_others() {
    let odd = ["not json", r#"{"type":"assistant","mess"#, r#"{"type":"novelty"}"#, "[1]"];
    let stream = [&odd[..], &[SUCCESS]].concat().join("\n");
    let found = reply(&stream);
    assert_eq!((found.unparsed, found.failure, found.text.as_str()), (4, None, "Fine."));
    let whole = reply(&QWEN.stream("tools"));
    assert_eq!(reply(&QWEN.stream("tools").replace('\n', "")), whole);
}

#[test]
fn default_call() {}

#[test]
fn call_with_all_options() {
    QWEN.check_call(|request, context| {
        request.agent.model = Some("qwen3".to_owned());
        request.agent.fallback_model = Some("qwen2".to_owned());
        request.agent.max_turns = Some(40);
        request.agent.flags = vec!["--auth-type openai".to_owned(), "-y".to_owned()];
        context.mcp_config = Some(PathBuf::from("/state/mcp.json"));
    }, expect![[r#"
        qwen -o stream-json -m qwen3 --fallback-model qwen2 --max-session-turns 40 --mcp-config /state/mcp.json --auth-type openai -y
        stdin "Do it.", idle Watch
        QWEN_CODE_SUPPRESS_YOLO_WARNING=1
    "#]]);
}
