//! Recorded streams, calls, and malformed streams.

use expect_test::expect;
use ralph_model::child::{Ending, Force};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::tests::conformance::PI;
use crate::tests::recorded::{IDLE, NOW, exit};

fn assistant_message(words: &str, stop: &str) -> String {
    format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":"{words}"}}],"stopReason":"{stop}"}}"#
    )
}

fn start() -> String {
    r#"{"type":"message_start","message":{"role":"assistant","content":[]}}"#.to_owned()
}

fn delta(words: &str) -> String {
    format!(
        r#"{{"type":"message_update","assistantMessageEvent":{{"type":"text_delta","delta":"{words}"}}}}"#
    )
}

fn message(words: &str, stop: &str) -> String {
    format!(r#"{{"type":"message_end","message":{}}}"#, assistant_message(words, stop))
}

fn end(words: &str, stop: &str) -> String {
    format!(r#"{{"type":"agent_end","messages":[{}]}}"#, assistant_message(words, stop))
}

fn failed(error: &str) -> String {
    format!(
        r#"{{"type":"agent_end","messages":[{{"role":"assistant","content":[],"stopReason":"error","errorMessage":"{error}"}}]}}"#
    )
}

const DONE: &str = "<promise>DONE</promise>";
const TOOL: &str =
    r#"{"type":"tool_execution_start","toolCallId":"c","toolName":"write","args":{"path":"a"}}"#;

#[track_caller]
fn check(lines: &[String], stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    PI.check(&lines.join("\n"), stderr, ending, expect);
}

#[track_caller]
fn check_signal(lines: &[String], expect: Option<&str>) {
    let reply = PI.read(&lines.join("\n"), "", exit(0)).1;
    assert_eq!(reply.signal.as_deref(), expect, "{lines:?}");
}

#[test]
fn only_the_final_answer_counts() {
    let (one, two) = (delta("<promise>DO"), delta("NE</promise>"));
    let whole = message(DONE, "stop");
    check_signal(&[start(), one.clone(), two.clone(), whole, end(DONE, "stop")], Some("DONE"));
    check_signal(&[start(), message(DONE, "stop"), end(DONE, "stop")], Some("DONE"));
    // The whole turn is repeated at its end, which replaces a lost line.
    check_signal(&[end(DONE, "stop")], Some("DONE"));
    check_signal(&[start(), one.clone(), two.clone(), end("", "error")], None);
    let cut = [start(), one, two, message(DONE, "error"), start(), message("", "stop")];
    check_signal(&[&cut[..], &[end("", "stop")]].concat(), None);
    let before = [start(), message(DONE, "toolUse"), TOOL.to_owned(), start()];
    check_signal(&[&before[..], &[message("", "stop"), end("", "stop")]].concat(), None);
    let echo = format!(
        r#"{{"type":"message_end","message":{{"role":"user","content":[{{"type":"text","text":"{DONE}"}}]}}}}"#
    );
    check_signal(&[echo, start(), message("Hm.", "stop"), end("Hm.", "stop")], None);
    check_signal(&[start(), message(DONE, "stop")], None);
    check_signal(&[start(), message(DONE, "length"), end(DONE, "length")], None);
}

#[test]
fn each_error_has_its_class_although_it_exits_with_0() {
    let limited = |resets_at| FailureClass::RateLimited { resets_at };
    let in_a_minute = Timestamp(NOW.0 + 60_000);
    for (line, class) in [
        (failed("401 Incorrect API key provided: fake."), FailureClass::NotLoggedIn),
        (failed("429 Slow down"), limited(None)),
        (failed("429 Try again in 60s"), limited(Some(in_a_minute))),
        (failed("400 maximum context length is 1"), FailureClass::ContextExceeded),
        (failed("404 no such model"), FailureClass::BadCall),
        (failed("503 x"), FailureClass::Overloaded),
        (failed("Connection error."), FailureClass::Unreachable),
        (failed("odd"), FailureClass::Crashed),
        (end("", "length"), FailureClass::TurnLimit),
        (end("", "aborted"), FailureClass::Crashed),
        (r#"{"type":"agent_end","messages":[]}"#.to_owned(), FailureClass::Malformed),
    ] {
        check(&[line], "", exit(0), Some(class));
    }
}

#[test]
fn unfinished_answer_is_reported_as_cut_off() {
    let with_usage = |line: String, tokens: u32| {
        let usage = format!(
            r#""usage":{{"input":{tokens},"output":0,"cacheRead":0,"cacheWrite":0}},"stopReason""#
        );
        line.replace(r#""stopReason""#, &usage)
    };
    let answer = |tokens| {
        let lines = [start(), message(DONE, "stop"), end(DONE, "stop")];
        lines.map(|line| with_usage(line, tokens))
    };
    check(&answer(0), "", exit(0), Some(FailureClass::Overloaded));
    check_signal(&answer(0), None);
    check(&answer(7), "", exit(0), None);
    check_signal(&answer(7), Some("DONE"));
    // A provider that finishes a message without usage never sends any.
    let step = |tokens| [start(), with_usage(message("", "toolUse"), tokens), TOOL.to_owned()];
    check_signal(&[&step(0)[..], &answer(0)[..]].concat(), Some("DONE"));
    check_signal(&[&step(7)[..], &answer(0)[..]].concat(), None);
}

#[test]
fn success_needs_result_and_exit() {
    let lines = [start(), message("Fine.", "stop"), end("Fine.", "stop")];
    check(&lines, "", exit(0), None);
    check(&lines, "", Ending::Lingered { force: Force::Killed }, None);
    check(&lines, "", exit(143), Some(FailureClass::Crashed));
    check(&[end("", "stop")], "", exit(0), Some(FailureClass::Empty));
    check(&lines[..2], "", exit(0), Some(FailureClass::Malformed));
    check(&[], "", exit(0), Some(FailureClass::Malformed));
    // A failed attempt is retried.
    let retry = r#"{"type":"auto_retry_start","errorMessage":"529 overloaded"}"#.to_owned();
    let again = [failed("529 overloaded"), retry];
    check(&[&again[..], &lines[..]].concat(), "", exit(0), None);
    check(&again, "", IDLE, Some(FailureClass::Overloaded));
    let weights = PI.read(&again.join("\n"), "", IDLE).0;
    assert!(weights.iter().all(|parsed| parsed.activity == crate::LineActivity::Idle));
}

#[test]
fn usage_error_is_read_from_stderr() {
    check(&[], "Error: Unknown option: --frobnicate", exit(1), Some(FailureClass::BadCall));
    check(&[], "No API key found for x.", exit(1), Some(FailureClass::NotLoggedIn));
    check(&[], "TypeError: x", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn broken_and_joined_lines_do_not_affect_others() {
    let glued = format!("garbage {}{}", start(), message(DONE, "stop"));
    let unknown = r#"{"type":"news"}"#;
    let end = end(DONE, "stop");
    let lines = [&glued, unknown, r#"{"type":"mess"#, "[1]", "", &end].join("\n");
    let reply = PI.read(&lines, "", exit(0)).1;
    assert_eq!((reply.signal.as_deref(), reply.unparsed), (Some("DONE"), 4));
    assert_eq!(reply.failure, None);
}

#[test]
fn calls() {
    PI.check_call(
        |request, _| {
            request.agent.flags = vec!["--no-session".to_owned()];
            request.agent.model = Some("openrouter/some/model".to_owned());
        },
        expect![[r#"
            pi -p --mode json --provider openrouter --model some/model --no-session
            stdin "Do it.", idle Watch
        "#]],
    );
    PI.check_call(
        |request, _| {
            request.agent.flags = vec!["--provider fake".to_owned()];
            request.agent.model = Some("some/model".to_owned());
        },
        expect![[r#"
            pi -p --mode json --model some/model --provider fake
            stdin "Do it.", idle Watch
        "#]],
    );
}
