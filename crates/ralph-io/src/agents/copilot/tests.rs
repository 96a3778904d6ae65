//! Recorded streams, calls, and streams that no agent should write.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use ralph_core::child::{Ending, Force, Limit, NotStarted};
use ralph_core::failure::FailureClass;
use ralph_core::ports::Request;
use ralph_core::recipe::{AgentKind, Permissions};
use ralph_core::units::Timestamp;

use crate::agents::call::tests::request;
use crate::agents::replayed::{NOW, Recorded, read, read_mutated, shown_call, summaries};

const FINE: Ending = Ending::Exited { code: 0 };
const BAD: Ending = Ending::Exited { code: 1 };
const IDLE: Ending = Ending::TimedOut { limit: Limit::Idle, force: Force::Terminated };

const RECORDED: Recorded = Recorded {
    kind: AgentKind::Copilot,
    version: "1.0.102",
    streams: &[
        ("api-error-401", BAD),
        ("interrupted-sigterm", Ending::Signalled { signal: 15 }),
        ("stop-hook-blocked-once", FINE),
        ("stream-drop", BAD),
        ("text-complete", FINE),
        ("tools", FINE),
    ],
};

#[test]
fn every_recorded_stream_is_read() {
    expect_file!["../../../tests/data/copilot/1.0.102/readings.txt"]
        .assert_eq(&RECORDED.readings());
}

#[test]
fn tools_tell_their_input() {
    let (all, _) = read(AgentKind::Copilot, &RECORDED.stream("tools"), "", FINE);
    assert_eq!(
        summaries(&all),
        [
            "bash: cat README.md && echo second line >&2",
            "bash: ls /nonexistent; exit 3",
            "create: /tmp/demo/greeting.txt",
            "edit: /tmp/demo/README.md",
        ]
    );
}

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
    let found = read(AgentKind::Copilot, &lines.join("\n"), stderr, ending).1.failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{lines:?}\n{found:?}");
}

#[track_caller]
fn check_signal(lines: &[&str], expect: Option<&str>) {
    let reply = read(AgentKind::Copilot, &lines.join("\n"), "", FINE).1;
    assert_eq!(reply.signal.as_deref(), expect, "{lines:?}");
}

#[test]
fn only_the_last_words_count() {
    let (one, two) = (delta("<promise>DO"), delta("NE</promise>"));
    let user = r#"{"type":"user.message","data":{"content":"<promise>DONE</promise>"}}"#;
    let tool = r#"{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{}}}"#;
    let failure = r#"{"type":"model.call_failure","data":{"statusCode":500,"errorMessage":"x"}}"#;
    check_signal(&[START, &one, &two, DONE, RESULT], Some("DONE"));
    check_signal(&[START, DONE, RESULT], Some("DONE"));
    check_signal(&[START, &one, &two, RESULT], Some("DONE"));
    // The whole message is right where the pieces are not.
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
        check(&[START, &line, FAILED], "", BAD, Some(class.clone()));
        // An exit that does not agree with the error changes nothing.
        check(&[START, &line, RESULT], "", FINE, Some(class));
    }
}

#[test]
fn a_success_needs_every_sign_of_it() {
    let lines = [START, DONE, RESULT];
    check(&lines, "", FINE, None);
    check(&lines, "", Ending::Lingered { force: Force::Killed }, None);
    check(&lines, "", BAD, Some(FailureClass::Crashed));
    check(&[START, DONE, FAILED], "", FINE, Some(FailureClass::Crashed));
    check(&[START, DONE, r#"{"type":"result"}"#], "", FINE, Some(FailureClass::Malformed));
    check(&[START, NOTHING, RESULT], "", FINE, Some(FailureClass::Empty));
    check(&[START, DONE], "", FINE, Some(FailureClass::Malformed));
    check(&[START, DONE, RESULT, START], "", FINE, Some(FailureClass::Malformed));
    // A turn that recovers from an error.
    check(&[START, &error("500", "x"), START, DONE, RESULT], "", FINE, None);
    let failure = r#"{"type":"model.call_failure","data":{"statusCode":429,"errorMessage":"x"}}"#;
    check(&[START, failure], "", IDLE, Some(FailureClass::RateLimited { resets_at: None }));
    check(&[START, failure, &delta("x")], "", IDLE, Some(FailureClass::IdleTimeout));
}

#[test]
fn a_turn_that_was_broken_off_is_no_success_whatever_its_result_says() {
    let abort = r#"{"type":"abort","data":{"reason":"user_initiated"}}"#;
    let words = delta("<promise>DONE</promise>");
    let lines = [START, &words, abort, RESULT];
    check(&lines, "", IDLE, Some(FailureClass::IdleTimeout));
    check(&lines, "", FINE, Some(FailureClass::Malformed));
    check(
        &lines,
        "",
        Ending::Interrupted { force: Force::Terminated },
        Some(FailureClass::Interrupted),
    );
    check_signal(&lines, None);
    // What begins after it counts again.
    check(&[START, &words, abort, START, DONE, RESULT], "", FINE, None);
}

#[test]
fn a_bad_call_is_told_on_stderr() {
    check(&[], "error: unknown option '--frobnicate'", BAD, Some(FailureClass::BadCall));
    check(&[], "Error: No authentication information found.", BAD, Some(FailureClass::NotLoggedIn));
    check(&[], "TypeError: x", BAD, Some(FailureClass::Crashed));
    let program = "copilot".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    check(&[], "", missing, Some(FailureClass::NotInstalled));
}

#[test]
fn broken_and_glued_lines_cost_only_themselves() {
    let glued = format!("garbage {START}{DONE}");
    let unknown = r#"{"type":"session.news","data":{}}"#;
    let droppable = r#"{"type":"session.more_news","data":{},"ephemeral":true}"#;
    let lines = [&glued, unknown, droppable, r#"{"type":"assi"#, "[1]", "", RESULT].join("\n");
    let reply = read(AgentKind::Copilot, &lines, "", FINE).1;
    assert_eq!((reply.signal.as_deref(), reply.unparsed), (Some("DONE"), 4));
    assert_eq!(reply.failure, None);
}

#[track_caller]
fn check_call(request: Request, expect: Expect) {
    expect.assert_eq(&shown_call(&request));
}

#[test]
fn calls() {
    check_call(
        request(AgentKind::Copilot, &[], "Do it."),
        expect![[r#"
            copilot --allow-all-tools --output-format json
            stdin "Do it.", idle Watch
        "#]],
    );
    let mut careful = request(AgentKind::Copilot, &["--allow-tool write"], "Do it.");
    careful.agent.model = Some("gpt".to_owned());
    careful.agent.permissions = Permissions::Ask;
    careful.agent.env.insert("COPILOT_OFFLINE".to_owned(), "true".to_owned());
    check_call(
        careful,
        expect![[r#"
            copilot --output-format json --model gpt --allow-tool write
            stdin "Do it.", idle Watch
            COPILOT_OFFLINE=true
        "#]],
    );
    let mut own = request(AgentKind::Copilot, &["--yolo", "--model=own"], "Do it.");
    own.agent.model = Some("gpt".to_owned());
    check_call(
        own,
        expect![[r#"
            copilot --output-format json --yolo --model=own
            stdin "Do it.", idle Watch
        "#]],
    );
}

proptest! {
    #[test]
    fn no_line_makes_a_translator_panic(
        name in 0usize..100,
        cut in 0usize..2_000,
        other in "(\\PC{0,40}|[\\[\\]{}\":,0-9a-z\\\\]{0,20})",
    ) {
        read_mutated(&RECORDED, name, cut, &other);
    }
}
