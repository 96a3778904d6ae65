//! Recorded streams, calls, and malformed streams.

use expect_test::expect;
use ralph_model::agent::{AgentOutput, Permissions};
use ralph_model::child::{Ending, Force};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::tests::conformance::OPENCODE;
use crate::tests::recorded::{IDLE, NOW, exit, signal};

const START: &str = r#"{"type":"step_start","sessionID":"s","part":{}}"#;

fn text(words: &str) -> String {
    format!(r#"{{"type":"text","sessionID":"s","part":{{"text":"{words}"}}}}"#)
}

fn finish(reason: &str) -> String {
    format!(r#"{{"type":"step_finish","sessionID":"s","part":{{"reason":"{reason}"}}}}"#)
}

fn error(status: &str, message: &str, body: &str) -> String {
    format!(
        r#"{{"type":"error","sessionID":"s","error":{{"name":"APIError","data":{{"message":"{message}","statusCode":{status},"responseBody":"{body}"}}}}}}"#
    )
}

#[track_caller]
fn check(lines: &[&str], stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    OPENCODE.check(&lines.join("\n"), stderr, ending, expect);
}

#[track_caller]
fn check_signal(lines: &[&str], expect: Option<&str>) {
    let reply = OPENCODE.read(&lines.join("\n"), "", exit(0)).1;
    assert_eq!(reply.signal.as_deref(), expect, "{lines:?}");
}

#[test]
fn only_text_of_the_last_step_counts() {
    let done = text("<promise>DONE</promise>");
    let tool = r#"{"type":"tool_use","sessionID":"s","part":{"tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"ls"}}}}"#;
    let (stop, calls, cut) = (finish("stop"), finish("tool-calls"), finish("unknown"));
    check_signal(&[START, &done, &stop], Some("DONE"));
    check_signal(&[START, &text("<promise>DO"), &text("NE</promise>"), &stop], Some("DONE"));
    check_signal(&[START, tool, &done, &calls, START, &stop], None);
    check_signal(&[START, tool, &done, &calls, START, &text("Hm."), &stop], None);
    check_signal(&[START, &done, &cut, START, &stop], None);
    check_signal(&[START, &done, &finish("length"), START, &stop], None);
    check_signal(&[START, &done, &error("500", "x", ""), &stop], None);
    check_signal(&[START, &done, &finish("length")], None);
    check_signal(&[START, &done], None);
}

#[test]
fn each_error_has_its_class() {
    let limited = |resets_at| FailureClass::RateLimited { resets_at };
    let in_a_minute = Timestamp(NOW.0 + 60_000);
    for (line, class) in [
        (error("401", "Incorrect API key", ""), FailureClass::NotLoggedIn),
        (error("403", "Forbidden", ""), FailureClass::NotLoggedIn),
        (error("429", "Quota", "insufficient_quota"), FailureClass::NotLoggedIn),
        (error("429", "Slow down", ""), limited(None)),
        (error("429", "Try again in 60s", ""), limited(Some(in_a_minute))),
        (error("404", "no such model", ""), FailureClass::BadCall),
        (error("400", "Too long", "context_length_exceeded"), FailureClass::ContextExceeded),
        (error("500", "boom", ""), FailureClass::Overloaded),
        (error("null", "fetch failed", ""), FailureClass::Unreachable),
        (error("null", "odd", ""), FailureClass::Crashed),
    ] {
        check(&[&line], "", exit(1), Some(class));
    }
}

#[test]
fn success_needs_result_and_exit() {
    let (fine, stop) = (text("Fine."), finish("stop"));
    let lines = [START, &fine, &stop];
    check(&lines, "", exit(0), None);
    check(&lines, "", Ending::Lingered { force: Force::Killed }, None);
    check(&lines, "", exit(1), Some(FailureClass::Crashed));
    check(&lines, "", signal(9), Some(FailureClass::Crashed));
    check(&[START, &stop], "", exit(0), Some(FailureClass::Empty));
    check(&[START, &fine], "", exit(0), Some(FailureClass::Malformed));
    check(&[], "", exit(0), Some(FailureClass::Malformed));
    check(&[START, &fine, &finish("length")], "", exit(0), Some(FailureClass::TurnLimit));
    check(&[START, &fine, &finish("content-filter")], "", exit(0), Some(FailureClass::Crashed));
    // A full context is compacted, and the turn continues.
    let full = error("400", "maximum context length", "");
    check(&[&full, START, &fine, &stop], "", exit(0), None);
    check(&[&full], "", IDLE, Some(FailureClass::ContextExceeded));
}

#[test]
fn usage_error_is_read_from_stderr() {
    let no_message = "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mYou must provide a message or a command\n";
    let found = OPENCODE.read("", no_message, exit(1)).1.failure.expect("exit 1");
    assert_eq!(found.class, FailureClass::BadCall);
    assert_eq!(found.message, "Error: You must provide a message or a command");
    check(&[], "ProviderModelNotFoundError: x", exit(1), Some(FailureClass::BadCall));
    check(&[], "TypeError: x", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn silence_and_cut_streams_run_into_the_idle_limit() {
    let found = OPENCODE.read("", "", IDLE).1.failure.expect("it was ended");
    assert_eq!(found.class, FailureClass::IdleTimeout);
    assert!(found.hint.expect("silence has a likely reason").contains("usage limit"));
    let (text_line, cut) = (text("Nearly."), finish("unknown"));
    let lines = [START, &text_line, &cut, START, &text_line];
    check(&lines, "", IDLE, Some(FailureClass::Overloaded));
    let (all, _) = OPENCODE.read(&lines.join("\n"), "", IDLE);
    let weights: Vec<String> = all.iter().map(|parsed| format!("{:?}", parsed.activity)).collect();
    assert_eq!(weights, ["Progress", "Progress", "Idle", "Idle", "Idle", "Idle"]);
}

#[test]
fn broken_and_joined_lines_do_not_affect_others() {
    let (done, stop) = (text("<promise>DONE</promise>"), finish("stop"));
    let glued = format!("garbage {START}{done}");
    let unknown = r#"{"type":"news","sessionID":"s"}"#;
    let lines = [&glued, unknown, r#"{"type":"text","part":{"te"#, "[1]", "", &stop].join("\n");
    let reply = OPENCODE.read(&lines, "", exit(0)).1;
    assert_eq!((reply.signal.as_deref(), reply.unparsed), (Some("DONE"), 4));
    assert_eq!(reply.failure, None);
}

#[test]
fn calls() {
    OPENCODE.check_call(
        |request, _| {
            request.agent.flags = vec!["--agent build".to_owned()];
            request.agent.model = Some("anthropic/claude".to_owned());
            request.agent.permissions = Permissions::Ask;
            request.agent.output = AgentOutput::Text;
            request.agent.env_deny = vec!["SECRET_*".to_owned()];
        },
        expect![[r#"
            opencode run --format json -m anthropic/claude --agent build
            stdin "Do it.", idle Watch
            without ["SECRET_*"]
            OPENCODE_DISABLE_AUTOUPDATE=1
        "#]],
    );
    OPENCODE.check_call(
        |request, _| {
            request.agent.flags = vec!["--model=x/y".to_owned(), "--yolo".to_owned()];
            request.agent.model = Some("anthropic/claude".to_owned());
        },
        expect![[r#"
            opencode run --format json --model=x/y --yolo
            stdin "Do it.", idle Watch
            OPENCODE_DISABLE_AUTOUPDATE=1
        "#]],
    );
}
