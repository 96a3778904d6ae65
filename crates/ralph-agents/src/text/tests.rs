//! Plain text agents: what counts, and how their end is judged.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use ralph_model::agent::AgentKind;
use ralph_model::agent_output::Reply;
use ralph_model::child::{Ending, Force, Limit, NotStarted};
use ralph_model::units::Timestamp;

use super::*;
use crate::test_support::{build_request, read_stream};

fn read(prompt: &str, lines: &[&str], stderr: &str, ending: Ending) -> Reply {
    let request = build_request(AgentKind::Text, &[], prompt);
    read_stream(&request, &lines.join("\n"), stderr, ending, Timestamp(0)).1
}

#[track_caller]
fn check(lines: &[&str], stderr: &str, ending: Ending, expect: Option<(FailureClass, &str)>) {
    let failure = read("", lines, stderr, ending).failure;
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
    let signal = |lines: &[&str]| read(prompt, lines, "", Ending::Exited { code: 0 }).signal;
    assert_eq!(signal(&echo), None);
    let failure = read(prompt, &echo, "", Ending::Exited { code: 0 }).failure;
    assert_eq!(failure.expect("a failure").message, "it printed only its prompt");
    let answered = [&echo[..], &["<response>DONE</response>"]].concat();
    assert_eq!(signal(&answered).as_deref(), Some("DONE"));
}

#[test]
fn the_beginning_of_an_echo_is_not_lost() {
    let line = "Say <response>DONE</response>";
    let reply = read(&format!("{line}\nat the end."), &[line], "", Ending::Exited { code: 0 });
    assert_eq!(reply.text, "Say <response>DONE</response>\n");
}
