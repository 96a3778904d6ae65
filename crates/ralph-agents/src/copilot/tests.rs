//! Recorded streams, calls, and malformed streams.

use expect_test::expect;
use ralph_model::agent::Permissions;
use ralph_model::child::{Ending, Force};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::tests::conformance::COPILOT;
use crate::tests::recorded::{IDLE, NOW, exit};

const START: &str = r#"{"type":"assistant.turn_start","data":{"turnId":"0"}}"#;
const DONE: &str = r#"{"type":"assistant.message","data":{"content":"<promise>DONE</promise>","toolRequests":[]}}"#;
const NOTHING: &str = r#"{"type":"assistant.message","data":{"content":"","toolRequests":[]}}"#;
const RESULT: &str = r#"{"type":"result","sessionId":"s","exitCode":0,"usage":{}}"#;
const FAILED: &str = r#"{"type":"result","sessionId":"s","exitCode":1,"usage":{}}"#;

fn delta(words: &str) -> String {
    format!(r#"{{"type":"assistant.message_delta","data":{{"deltaContent":"{words}"}}}}"#)
}

fn error(status: &str, message: &str) -> String {
    format!(
        r#"{{"type":"session.error","data":{{"errorType":"query","message":"{message}","statusCode":{status}}}}}"#
    )
}

#[track_caller]
fn check(lines: &[&str], stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    COPILOT.check(&lines.join("\n"), stderr, ending, expect);
}

#[track_caller]
fn check_signal(lines: &[&str], expect: Option<&str>) {
    let reply = COPILOT.read(&lines.join("\n"), "", exit(0)).1;
    assert_eq!(reply.signal.as_deref(), expect, "{lines:?}");
}

#[test]
fn only_the_final_answer_counts() {
    let (one, two) = (delta("<promise>DO"), delta("NE</promise>"));
    let user = r#"{"type":"user.message","data":{"content":"<promise>DONE</promise>"}}"#;
    let tool = r#"{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{}}}"#;
    let failure = r#"{"type":"model.call_failure","data":{"statusCode":500,"errorMessage":"x"}}"#;
    check_signal(&[START, &one, &two, DONE, RESULT], Some("DONE"));
    check_signal(&[START, DONE, RESULT], Some("DONE"));
    check_signal(&[START, &one, &two, RESULT], Some("DONE"));
    // The complete message wins over different deltas.
    check_signal(&[START, &one, &two, NOTHING, RESULT], None);
    check_signal(&[user, START, &delta("Hm."), RESULT], None);
    check_signal(&[user, START, DONE, user, START, NOTHING, RESULT], None);
    check_signal(&[START, DONE, tool, START, NOTHING, RESULT], None);
    check_signal(&[START, &one, &two, failure, NOTHING, RESULT], None);
    check_signal(&[START, DONE, FAILED], None);
    check_signal(&[START, DONE], None);
    let sub = r#"{"type":"assistant.message","data":{"content":"<promise>DONE</promise>","parentToolCallId":"c"}}"#;
    check_signal(&[START, tool, sub, &delta("Hm."), RESULT], None);
}

#[test]
fn each_error_has_its_class() {
    let limited = |resets_at| FailureClass::RateLimited { resets_at };
    let in_an_hour = Timestamp(NOW.0 + 3_600_000);
    for (line, class) in [
        (error("401", "Authentication failed"), FailureClass::NotLoggedIn),
        (error("402", "No quota"), FailureClass::NotLoggedIn),
        (error("429", "Slow down"), limited(None)),
        (
            error("null", "You've hit your rate limit. Try again in 1 hour"),
            limited(Some(in_an_hour)),
        ),
        (error("400", "maximum context length is 1"), FailureClass::ContextExceeded),
        (error("503", "x"), FailureClass::Overloaded),
        (error("null", "odd"), FailureClass::Crashed),
    ] {
        check(&[START, &line, FAILED], "", exit(1), Some(class.clone()));
        // A contradicting exit code changes nothing.
        check(&[START, &line, RESULT], "", exit(0), Some(class));
    }
}

#[test]
fn success_needs_result_and_exit() {
    let lines = [START, DONE, RESULT];
    check(&lines, "", exit(0), None);
    check(&lines, "", Ending::Lingered { force: Force::Killed }, None);
    check(&lines, "", exit(1), Some(FailureClass::Crashed));
    check(&[START, DONE, FAILED], "", exit(0), Some(FailureClass::Crashed));
    check(&[START, DONE, r#"{"type":"result"}"#], "", exit(0), Some(FailureClass::Malformed));
    check(&[START, NOTHING, RESULT], "", exit(0), Some(FailureClass::Empty));
    check(&[START, DONE], "", exit(0), Some(FailureClass::Malformed));
    check(&[START, DONE, RESULT, START], "", exit(0), Some(FailureClass::Malformed));
    // A turn that recovers from an error.
    check(&[START, &error("500", "x"), START, DONE, RESULT], "", exit(0), None);
    let failure = r#"{"type":"model.call_failure","data":{"statusCode":429,"errorMessage":"x"}}"#;
    check(&[START, failure], "", IDLE, Some(FailureClass::RateLimited { resets_at: None }));
    check(&[START, failure, &delta("x")], "", IDLE, Some(FailureClass::IdleTimeout));
}

#[test]
fn aborted_turn_is_never_a_success() {
    let abort = r#"{"type":"abort","data":{"reason":"user_initiated"}}"#;
    let words = delta("<promise>DONE</promise>");
    let lines = [START, &words, abort, RESULT];
    check(&lines, "", IDLE, Some(FailureClass::IdleTimeout));
    check(&lines, "", exit(0), Some(FailureClass::Malformed));
    check(
        &lines,
        "",
        Ending::Interrupted { force: Force::Terminated },
        Some(FailureClass::Interrupted),
    );
    check_signal(&lines, None);
    // A turn that begins after it counts again.
    check(&[START, &words, abort, START, DONE, RESULT], "", exit(0), None);
}

#[test]
fn usage_error_is_read_from_stderr() {
    check(&[], "error: unknown option '--frobnicate'", exit(1), Some(FailureClass::BadCall));
    check(
        &[],
        "Error: No authentication information found.",
        exit(1),
        Some(FailureClass::NotLoggedIn),
    );
    check(&[], "TypeError: x", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn broken_and_joined_lines_do_not_affect_others() {
    let glued = format!("garbage {START}{DONE}");
    let unknown = r#"{"type":"session.news","data":{}}"#;
    let droppable = r#"{"type":"session.more_news","data":{},"ephemeral":true}"#;
    let lines = [&glued, unknown, droppable, r#"{"type":"assi"#, "[1]", "", RESULT].join("\n");
    let reply = COPILOT.read(&lines, "", exit(0)).1;
    assert_eq!((reply.signal.as_deref(), reply.unparsed), (Some("DONE"), 4));
    assert_eq!(reply.failure, None);
}

#[test]
fn calls() {
    COPILOT.check_call(
        |request, _| {
            request.agent.flags = vec!["--allow-tool write".to_owned()];
            request.agent.model = Some("gpt".to_owned());
            request.agent.permissions = Permissions::Ask;
            request.agent.env.insert("COPILOT_OFFLINE".to_owned(), "true".to_owned());
        },
        expect![[r#"
            copilot --output-format json --model gpt --allow-tool write
            stdin "Do it.", idle Watch
            COPILOT_OFFLINE=true
        "#]],
    );
    COPILOT.check_call(
        |request, _| {
            request.agent.flags = vec!["--yolo".to_owned(), "--model=own".to_owned()];
            request.agent.model = Some("gpt".to_owned());
        },
        expect![[r#"
            copilot --output-format json --yolo --model=own
            stdin "Do it.", idle Watch
        "#]],
    );
}
