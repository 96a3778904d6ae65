//! Usage errors: an agent that rejected its command line. Calling it again the same way cannot
//! help.
//!
//! Command lines are parsed by a few libraries, so their messages are alike for all agents. Not
//! here: messages of a single agent.

use ralph_model::agent::AgentChoice;
use ralph_model::failure::{Failure, FailureClass};

use super::call::split_flags;
use super::exit_failure::take_last_lines;
use super::translator::Evidence;

/// Messages of those libraries about an unknown flag, in lower case.
const COMPLAINTS: [&str; 8] = [
    "unknown option",
    "unknown argument",
    "unknown flag",
    "unexpected argument",
    "unrecognized option",
    "unrecognized argument",
    "invalid option",
    "no such option",
];

/// Marks a usage error that was judged a crash, and adds a hint that names the rejected flag.
pub(super) fn explain_usage_error(
    failure: Failure,
    agent: &AgentChoice,
    evidence: &Evidence<'_>,
) -> Failure {
    let failure = if failure.class == FailureClass::Crashed && is_usage_failure(evidence) {
        Failure { class: FailureClass::BadCall, ..failure }
    } else {
        failure
    };
    match (&failure.class, &failure.hint) {
        (FailureClass::BadCall, None) => {
            let both = format!("{}\n{}", failure.message, evidence.stderr_tail);
            failure.with_hint(build_hint(&both, agent))
        }
        (_, _) => failure,
    }
}

/// Returns whether a call ended before it began, with a message about a flag or with the help
/// text.
fn is_usage_failure(evidence: &Evidence<'_>) -> bool {
    let Evidence { reading, stderr_tail, stdout_tail, .. } = evidence;
    if !stderr_tail.trim().is_empty() {
        let has_begun = !reading.is_silent() || reading.usage().tokens().0 > 0;
        return !has_begun
            && (has_complaint(&take_last_lines(stderr_tail))
                || stderr_tail.lines().any(is_usage_line));
    }
    // Later lines of stdout may be the work itself.
    let first = stdout_tail.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    has_complaint(first) || is_usage_line(first)
}

fn has_complaint(text: &str) -> bool {
    let lower = text.to_lowercase();
    COMPLAINTS.iter().any(|complaint| lower.contains(complaint))
}

fn is_usage_line(line: &str) -> bool {
    line.trim_start().to_lowercase().starts_with("usage:")
}

fn build_hint(text: &str, agent: &AgentChoice) -> String {
    let command = &agent.command;
    let Some(flag) = find_blamed_flag(text) else {
        return format!("`ralph doctor` shows how `{command}` is called, and its version");
    };
    let is_users = split_flags(&agent.flags)
        .iter()
        .any(|given| given == flag || given.split('=').next() == Some(flag));
    if is_users {
        format!("`{command}` does not take `{flag}`: remove it from `agent.flags`")
    } else {
        format!(
            "this version of `{command}` does not take `{flag}`: update it; `ralph doctor` shows the call"
        )
    }
}

/// Returns the first flag in the line of such a message.
fn find_blamed_flag(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| has_complaint(line))?;
    let is_edge = |it: char| it.is_whitespace() || "'\"`,:;()[]".contains(it);
    let word = line.split(is_edge).find(|word| {
        word.starts_with('-') && word.trim_start_matches('-').starts_with(char::is_alphabetic)
    })?;
    Some(word.split('=').next().unwrap_or(word).trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use ralph_model::agent::AgentKind;
    use ralph_model::child::Ending;

    use super::*;
    use crate::ADAPTERS;
    use crate::test_support::{self, build_request};
    use crate::tests::recorded::NOW;

    #[track_caller]
    fn check(kind: AgentKind, stderr: &str, code: i32, class: &FailureClass, hint: &str) {
        let request = build_request(kind, &["--mine"], "Do it.");
        let reply = test_support::read_stream(&request, "", stderr, Ending::Exited { code }, NOW).1;
        let failure = reply.failure.expect("it failed");
        assert_eq!(&failure.class, class, "{stderr}");
        let found = failure.hint.unwrap_or_default();
        assert!(found.contains(hint), "{stderr}: {found}");
    }

    #[test]
    fn hint_names_the_rejected_flag() {
        let bad = &FailureClass::BadCall;
        let mine = "does not take `--mine`: remove it from `agent.flags`";
        let kinds = ADAPTERS.iter().map(|adapter| adapter.kind);
        // The scripted agent has no flags, and the protocol has no output before its greeting.
        for kind in kinds.filter(|kind| !matches!(kind, AgentKind::Sim | AgentKind::Acp)) {
            check(kind, "error: unknown option '--mine'", 1, bad, mine);
            check(
                kind,
                "error: unexpected argument '--mine' found\n\nUsage: x [OPTIONS]",
                2,
                bad,
                mine,
            );
            let other = "error: unknown option '--other=1'\n";
            check(kind, other, 1, bad, "does not take `--other`: update it");
        }
        check(AgentKind::Text, "x: unrecognized option '--mine'", 64, bad, mine);
    }

    #[test]
    fn printed_help_is_a_usage_error() {
        let help = "Usage: agent [options] [prompt]\n\nOptions:\n  -h, --help  Show this\n";
        check(AgentKind::Text, help, 1, &FailureClass::BadCall, "`ralph doctor`");
        check(AgentKind::Pi, help, 1, &FailureClass::BadCall, "`ralph doctor`");
        let request = build_request(AgentKind::Text, &[], "Do it.");
        let class = |stdout: &str| {
            let reply =
                test_support::read_stream(&request, stdout, "", Ending::Exited { code: 1 }, NOW).1;
            reply.failure.expect("it failed").class
        };
        assert_eq!(class(help), FailureClass::BadCall);
        let work = format!("Working on the help.\n{help}\nerror: unknown option");
        assert_eq!(class(&work), FailureClass::Crashed, "the work itself");
    }

    #[test]
    fn a_crash_stays_a_crash() {
        for stderr in ["Segmentation fault", "token usage: 5 of 7", ""] {
            check(AgentKind::Text, stderr, 1, &FailureClass::Crashed, "");
        }
    }
}
