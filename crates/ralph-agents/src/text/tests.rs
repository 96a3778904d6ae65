//! Plain text agents: what counts, and how their end is judged.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::path::Path;

use jiff::tz::TimeZone;
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_model::agent::AgentKind;
use ralph_model::child::{ChildEnd, Ending, Force, Leftovers, Limit, NotStarted, SoftLimit};
use ralph_model::units::{Millis, Timestamp};

use super::*;
use crate::call::tests::context;
use crate::test_support::build_request;
use crate::translator::Translator;

fn ended(ending: Ending) -> ChildEnd {
    ChildEnd {
        ending,
        ran: Millis::ZERO,
        soft_limit: SoftLimit::Kept,
        leftovers: Leftovers::default(),
    }
}

fn read(prompt: &str, lines: &[&str]) -> (Translator, ReplyFold) {
    let mut translator = crate::create_translator(
        &build_request(AgentKind::Text, &[], prompt),
        Path::new("/project"),
    );
    let mut reading = ReplyFold::default();
    let mut parsed: Vec<ParsedLine> =
        lines.iter().map(|line| translator.parse_line(line)).collect();
    parsed.push(translator.finish());
    for event in parsed.iter().flat_map(|parsed| &parsed.events) {
        reading.apply_event(event);
    }
    (translator, reading)
}

#[track_caller]
fn check(lines: &[&str], stderr: &str, ending: Ending, expect: Option<(FailureClass, &str)>) {
    let (translator, reading) = read("", lines);
    let failure = translator.0.judge(&Evidence {
        reading: &reading,
        end: &ended(ending),
        stderr_tail: stderr,
        stdout_tail: &lines.join("\n"),
        now: Timestamp(0),
        zone: &TimeZone::UTC,
    });
    let found = failure.as_ref().map(|failure| (failure.class.clone(), failure.message.as_str()));
    assert_eq!(found, expect);
}

#[test]
fn exit_and_output_decide() {
    let exit = |code| Ending::Exited { code };
    check(&["fine"], "", exit(0), None);
    check(&["fine"], "usage limit reached", exit(0), None);
    check(&[], "", exit(0), Some((FailureClass::Empty, "it printed nothing")));
    check(&["", "  "], "no model set", exit(0), Some((FailureClass::Empty, "no model set")));
    check(&["out"], "", exit(3), Some((FailureClass::Crashed, "exit code 3: out")));
    check(
        &["out"],
        "a\n\nb\n",
        Ending::Signalled { signal: 11 },
        Some((FailureClass::Crashed, "killed by signal 11: a\nb")),
    );
    check(&[], "", exit(1), Some((FailureClass::Crashed, "exit code 1")));
    check(
        &["x"],
        "You've hit your usage limit. Try again at 1:00 AM.",
        exit(1),
        Some((
            FailureClass::RateLimited { resets_at: Some(Timestamp(3_600_000)) },
            "You've hit your usage limit. Try again at 1:00 AM.",
        )),
    );
    let long_ago = format!("rate limit{}", "\nline".repeat(20));
    check(
        &[],
        &long_ago,
        exit(1),
        Some((FailureClass::Crashed, "exit code 1: line\nline\nline\nline\nline\nline")),
    );
    check(
        &["half"],
        "",
        Ending::TimedOut { limit: Limit::Hard, force: Force::Killed },
        Some((FailureClass::HardTimeout, "timed out")),
    );
    check(
        &["half"],
        "",
        Ending::Interrupted { force: Force::Terminated },
        Some((FailureClass::Interrupted, "interrupted")),
    );
    check(
        &[],
        "",
        Ending::NotStarted { reason: NotStarted::NotFound { program: "aider".to_owned() } },
        Some((FailureClass::NotInstalled, "`aider` was not found")),
    );
}

#[test]
fn an_echo_of_the_prompt_completes_nothing() {
    let prompt = "Do it.\nSay <response>DONE</response> at the end.\n";
    let echo: Vec<&str> = prompt.lines().collect();
    let (_, reading) = read(prompt, &echo);
    let reply = reading.into_reply(ended(Ending::Exited { code: 0 }), None);
    assert_eq!(reply.signal, None);
    let (_, reading) = read(prompt, &[&echo[..], &["<response>DONE</response>"]].concat());
    let reply = reading.into_reply(ended(Ending::Exited { code: 0 }), None);
    assert_eq!(reply.signal.as_deref(), Some("DONE"));
}

#[test]
fn the_beginning_of_an_echo_is_not_lost() {
    let prompt = "Say <response>DONE</response>\nat the end.";
    let (_, reading) = read(prompt, &["Say <response>DONE</response>"]);
    assert_eq!(reading.text(), "Say <response>DONE</response>\n");
}

#[test]
fn the_call_is_the_command_with_its_flags() {
    let call = build_call(&build_request(AgentKind::Text, &["--yes"], "do it"), &context())
        .expect("it fits");
    assert_eq!(
        (call.program.as_str(), call.args, call.stdin),
        ("text", vec!["--yes".to_owned()], b"do it".to_vec())
    );
    assert_eq!(call.idle, IdleWatch::Off);
}
