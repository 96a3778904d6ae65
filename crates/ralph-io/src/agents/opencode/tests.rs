//! Recorded streams, calls, and streams that no agent should write.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use ralph_core::child::{Ending, Force, Limit, NotStarted};
use ralph_core::failure::FailureClass;
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, TodoItem, TodoState};
use ralph_core::recipe::{AgentKind, AgentOutput, Permissions};
use ralph_core::units::Timestamp;

use crate::agents::call::tests::request;
use crate::agents::replayed::{NOW, Recorded, read, read_mutated, shown_call, summaries};

const KILLED: Ending = Ending::Signalled { signal: 9 };
const FINE: Ending = Ending::Exited { code: 0 };
const BAD: Ending = Ending::Exited { code: 1 };
const IDLE: Ending = Ending::TimedOut { limit: Limit::Idle, force: Force::Terminated };

const RECORDED: Recorded = Recorded {
    kind: AgentKind::Opencode,
    version: "1.18.33",
    streams: &[
        ("api-error-401", BAD),
        ("interrupted-sigint", Ending::Signalled { signal: 2 }),
        ("length", FINE),
        ("prompt-as-argument", FINE),
        ("rate-limit-silent", KILLED),
        ("stream-drop-loop", KILLED),
        ("text-complete", FINE),
        ("thinking", FINE),
        ("tools-todo", FINE),
    ],
};

#[test]
fn every_recorded_stream_is_read() {
    expect_file!["../../../tests/data/opencode/1.18.33/readings.txt"]
        .assert_eq(&RECORDED.readings());
}

#[test]
fn tools_tell_their_input_their_outcome_and_the_list() {
    let (all, _) = read(AgentKind::Opencode, &RECORDED.stream("tools-todo"), "", FINE);
    let events: Vec<&AgentEvent> = all.iter().flat_map(|heard| &heard.events).collect();
    assert_eq!(
        summaries(&all),
        [
            "todowrite: ",
            "bash: cat README.md && echo second line >&2",
            "bash: ls /nonexistent; exit 3",
            "write: /tmp/demo/greeting.txt",
            "read: /tmp/demo/README.md",
            "edit: /tmp/demo/README.md",
            "todowrite: ",
        ]
    );
    let item = |text: &str, state| TodoItem { text: text.to_owned(), state };
    let items = vec![
        item("Read the README", TodoState::Done),
        item("Add greeting.txt", TodoState::Done),
        item("Run the checks", TodoState::Active),
    ];
    assert!(events.contains(&&AgentEvent::Todo { items }));
    assert!(events.contains(&&AgentEvent::FileChanged { path: "/tmp/demo/greeting.txt".into() }));
}

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
    let found = read(AgentKind::Opencode, &lines.join("\n"), stderr, ending).1.failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{lines:?}\n{found:?}");
}

#[track_caller]
fn check_signal(lines: &[&str], expect: Option<&str>) {
    let reply = read(AgentKind::Opencode, &lines.join("\n"), "", FINE).1;
    assert_eq!(reply.signal.as_deref(), expect, "{lines:?}");
}

#[test]
fn only_words_of_the_step_that_stops_count() {
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
        (error("null", "fetch failed", ""), FailureClass::Overloaded),
        (error("null", "odd", ""), FailureClass::Crashed),
    ] {
        check(&[&line], "", BAD, Some(class));
    }
}

#[test]
fn a_success_needs_every_sign_of_it() {
    let (fine, stop) = (text("Fine."), finish("stop"));
    let lines = [START, &fine, &stop];
    check(&lines, "", FINE, None);
    check(&lines, "", Ending::Lingered { force: Force::Killed }, None);
    check(&lines, "", BAD, Some(FailureClass::Crashed));
    check(&lines, "", KILLED, Some(FailureClass::Crashed));
    check(&[START, &stop], "", FINE, Some(FailureClass::Empty));
    check(&[START, &fine], "", FINE, Some(FailureClass::Malformed));
    check(&[], "", FINE, Some(FailureClass::Malformed));
    check(&[START, &fine, &finish("length")], "", FINE, Some(FailureClass::TurnLimit));
    check(&[START, &fine, &finish("content-filter")], "", FINE, Some(FailureClass::Crashed));
    // A full context is compacted, and the turn goes on.
    let full = error("400", "maximum context length", "");
    check(&[&full, START, &fine, &stop], "", FINE, None);
    check(&[&full], "", IDLE, Some(FailureClass::ContextExceeded));
}

#[test]
fn a_bad_call_is_told_on_stderr() {
    let no_message = "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mYou must provide a message or a command\n";
    let found = read(AgentKind::Opencode, "", no_message, BAD).1.failure.expect("exit 1");
    assert_eq!(found.class, FailureClass::BadCall);
    assert_eq!(found.words, "Error: You must provide a message or a command");
    check(&[], "ProviderModelNotFoundError: x", BAD, Some(FailureClass::BadCall));
    check(&[], "TypeError: x", BAD, Some(FailureClass::Crashed));
    let program = "opencode".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    check(&[], "", missing, Some(FailureClass::NotInstalled));
}

#[test]
fn silence_and_cut_streams_run_into_the_idle_limit() {
    let found = read(AgentKind::Opencode, "", "", IDLE).1.failure.expect("it was ended");
    assert_eq!(found.class, FailureClass::IdleTimeout);
    assert!(found.hint.expect("silence has a likely reason").contains("usage limit"));
    let (said, cut) = (text("Nearly."), finish("unknown"));
    let lines = [START, &said, &cut, START, &said];
    check(&lines, "", IDLE, Some(FailureClass::Overloaded));
    let (all, _) = read(AgentKind::Opencode, &lines.join("\n"), "", IDLE);
    let weights: Vec<String> = all.iter().map(|heard| format!("{:?}", heard.weight)).collect();
    assert_eq!(weights, ["Useful", "Useful", "Noise", "Noise", "Noise", "Noise"]);
}

#[test]
fn broken_and_glued_lines_cost_only_themselves() {
    let (done, stop) = (text("<promise>DONE</promise>"), finish("stop"));
    let glued = format!("garbage {START}{done}");
    let unknown = r#"{"type":"news","sessionID":"s"}"#;
    let lines = [&glued, unknown, r#"{"type":"text","part":{"te"#, "[1]", "", &stop].join("\n");
    let reply = read(AgentKind::Opencode, &lines, "", FINE).1;
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
        request(AgentKind::Opencode, &[], "Do it."),
        expect![[r#"
            opencode run --format json --auto
            stdin "Do it.", idle Watch
            OPENCODE_DISABLE_AUTOUPDATE=1
        "#]],
    );
    let mut careful = request(AgentKind::Opencode, &["--agent build"], "Do it.");
    careful.agent.model = Some("anthropic/claude".to_owned());
    careful.agent.permissions = Permissions::Ask;
    careful.agent.output = AgentOutput::Text;
    careful.agent.env_deny = vec!["SECRET_*".to_owned()];
    check_call(
        careful,
        expect![[r#"
        opencode run --format json -m anthropic/claude --agent build
        stdin "Do it.", idle Watch
        without SECRET_*
        OPENCODE_DISABLE_AUTOUPDATE=1
    "#]],
    );
    let mut own = request(AgentKind::Opencode, &["--model=x/y", "--yolo"], "Do it.");
    own.agent.model = Some("anthropic/claude".to_owned());
    check_call(
        own,
        expect![[r#"
            opencode run --format json --model=x/y --yolo
            stdin "Do it.", idle Watch
            OPENCODE_DISABLE_AUTOUPDATE=1
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
