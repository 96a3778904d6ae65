//! An agent that did not understand how it was called: asking again the same way cannot help.
//!
//! Command lines are read by a few libraries, so that their complaints are alike for all agents.
//! Not here: complaints of a single agent's own.

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::recipe::AgentChoice;

use super::call::split_flags;
use super::ending::last_lines;
use super::translator::Evidence;

/// What libraries say about a flag that they do not know, in lower case.
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

/// Returns a failure with what all agents' usage errors have in common: that they are no crashes,
/// and which flag is to blame.
pub(super) fn explained(failure: Failure, agent: &AgentChoice, evidence: &Evidence<'_>) -> Failure {
    let failure = if failure.class == FailureClass::Crashed && is_misunderstood(evidence) {
        Failure { class: FailureClass::BadCall, ..failure }
    } else {
        failure
    };
    match (&failure.class, &failure.hint) {
        (FailureClass::BadCall, None) => {
            let both = format!("{}\n{}", failure.words, evidence.stderr_tail);
            failure.with_hint(hint(&both, agent))
        }
        (_, _) => failure,
    }
}

/// Returns whether a call ended before it began, with a complaint about a flag or with the help.
fn is_misunderstood(evidence: &Evidence<'_>) -> bool {
    let Evidence { reading, stderr_tail, stdout_tail, .. } = evidence;
    if !stderr_tail.trim().is_empty() {
        let has_begun = !reading.is_silent() || reading.usage().tokens().0 > 0;
        return !has_begun
            && (complains(&last_lines(stderr_tail)) || stderr_tail.lines().any(is_usage));
    }
    // What stands further down on stdout may be the work itself.
    let first = stdout_tail.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    complains(first) || is_usage(first)
}

fn complains(words: &str) -> bool {
    let lower = words.to_lowercase();
    COMPLAINTS.iter().any(|complaint| lower.contains(complaint))
}

fn is_usage(line: &str) -> bool {
    line.trim_start().to_lowercase().starts_with("usage:")
}

fn hint(words: &str, agent: &AgentChoice) -> String {
    let command = &agent.command;
    let Some(flag) = blamed(words) else {
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

/// Returns the first flag in the line of a complaint.
fn blamed(words: &str) -> Option<&str> {
    let line = words.lines().find(|line| complains(line))?;
    let is_edge = |it: char| it.is_whitespace() || "'\"`,:;()[]".contains(it);
    let word = line.split(is_edge).find(|word| {
        word.starts_with('-') && word.trim_start_matches('-').starts_with(char::is_alphabetic)
    })?;
    Some(word.split('=').next().unwrap_or(word).trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use ralph_core::child::Ending;
    use ralph_core::recipe::AgentKind;

    use super::*;
    use crate::rehearsal;
    use crate::rehearsal::request;
    use crate::tests::recorded::NOW;

    #[track_caller]
    fn check(kind: AgentKind, stderr: &str, code: i32, class: &FailureClass, hint: &str) {
        let request = request(kind, &["--mine"], "Do it.");
        let reply = rehearsal::read(&request, "", stderr, Ending::Exited { code }, NOW).1;
        let failure = reply.failure.expect("it failed");
        assert_eq!(&failure.class, class, "{stderr}");
        let found = failure.hint.unwrap_or_default();
        assert!(found.contains(hint), "{stderr}: {found}");
    }

    #[test]
    fn the_flag_to_blame_is_named() {
        let bad = &FailureClass::BadCall;
        let mine = "does not take `--mine`: remove it from `agent.flags`";
        for kind in [
            AgentKind::Claude,
            AgentKind::Codex,
            AgentKind::Gemini,
            AgentKind::Qwen,
            AgentKind::Opencode,
            AgentKind::Copilot,
            AgentKind::Pi,
            AgentKind::Cline,
            AgentKind::Amp,
            AgentKind::Text,
            AgentKind::Custom,
        ] {
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
    fn an_agent_that_prints_its_help_was_called_badly() {
        let help = "Usage: agent [options] [prompt]\n\nOptions:\n  -h, --help  Show this\n";
        check(AgentKind::Text, help, 1, &FailureClass::BadCall, "`ralph doctor`");
        check(AgentKind::Pi, help, 1, &FailureClass::BadCall, "`ralph doctor`");
        let request = request(AgentKind::Text, &[], "Do it.");
        let class = |stdout: &str| {
            let reply = rehearsal::read(&request, stdout, "", Ending::Exited { code: 1 }, NOW).1;
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
