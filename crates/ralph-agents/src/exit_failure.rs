//! Failures that follow from the end of a process, for every agent alike: it never started, ran
//! past a limit, or the user stopped it; and the message of a crash.
//!
//! Not here: what an agent's own output reports about its end.

use ralph_model::child::{Ending, Limit, NotStarted};
use ralph_model::failure::{Failure, FailureClass};

use super::translator::shorten_text;

/// Judges endings that the agent did not cause. Returns `None` for the others.
pub(super) fn judge_imposed_ending(ending: &Ending, install_hint: &str) -> Option<Failure> {
    let class = match ending {
        Ending::Exited { .. } | Ending::Signalled { .. } | Ending::Lingered { .. } => return None,
        Ending::TimedOut { limit: Limit::Hard, .. } => FailureClass::HardTimeout,
        Ending::TimedOut { limit: Limit::Output | Limit::Growth | Limit::Disk, .. } => {
            FailureClass::Overran
        }
        Ending::TimedOut { limit: Limit::Idle, .. } => FailureClass::IdleTimeout,
        Ending::Interrupted { .. } => FailureClass::Interrupted,
        Ending::NotStarted { reason } => return Some(judge_not_started(reason, install_hint)),
    };
    Some(Failure::new(class, ending.to_string()))
}

fn judge_not_started(reason: &NotStarted, install_hint: &str) -> Failure {
    match reason {
        NotStarted::NotFound { .. } => {
            Failure::new(FailureClass::NotInstalled, reason.to_string()).with_hint(install_hint)
        }
        NotStarted::NotAllowed { program } => {
            Failure::new(FailureClass::NotInstalled, reason.to_string())
                .with_hint(format!("make `{program}` executable, or set `agent.command`"))
        }
        NotStarted::NotInSandbox { .. } => {
            Failure::new(FailureClass::NotInstalled, reason.to_string())
                .with_hint("`ralph doctor` tries the agent in the sandbox")
        }
        // Too many processes, no memory, an argument list too long: temporary.
        NotStarted::Refused { .. } => Failure::new(FailureClass::Crashed, reason.to_string()),
    }
}

/// Returns a crash, with the last output of the agent if there is any.
pub(super) fn build_crash_failure(ending: &Ending, message: &str) -> Failure {
    let message =
        if message.is_empty() { ending.to_string() } else { format!("{ending}: {message}") };
    Failure::new(FailureClass::Crashed, message)
}

/// Judges an exit without a result. `find_known` returns the failure that a text means, if any.
pub(super) fn judge_missing_result(
    ending: &Ending,
    message: String,
    find_known: impl FnOnce(&str) -> Option<Failure>,
) -> Failure {
    if matches!(ending, Ending::Exited { code: 0 } | Ending::Lingered { .. }) {
        let message = if message.is_empty() { "it gave no result".to_owned() } else { message };
        return Failure::new(FailureClass::Malformed, message);
    }
    find_known(&message).unwrap_or_else(|| build_crash_failure(ending, &message))
}

/// How many lines of a tail count as the final output; earlier lines are the agent's work.
const LAST_LINES: usize = 6;

/// Returns the last lines of stderr, or of stdout where stderr is empty.
pub(super) fn read_final_output(stderr_tail: &str, stdout_tail: &str) -> String {
    let tail = if stderr_tail.trim().is_empty() { stdout_tail } else { stderr_tail };
    take_last_lines(tail)
}

/// Returns the last lines of a text that are not blank.
pub(super) fn take_last_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(LAST_LINES)
        .collect();
    lines.reverse();
    shorten_text(&lines.join("\n"))
}
