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

/// Returns the last lines of a text that are not blank; if it ends with a stack trace, those from the
/// error on.
pub(super) fn take_last_lines(text: &str) -> String {
    if let Some(lines) = find_traced_error(text) {
        return shorten_text(&lines.into_iter().take(LAST_LINES).collect::<Vec<_>>().join("\n"));
    }
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

/// Returns the error of the last stack trace of node or Python and the lines after it, without the
/// frames.
fn find_traced_error(text: &str) -> Option<Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let first = if let Some(last) = lines.iter().rposition(|line| is_node_frame(line)) {
        let before = lines[..last].iter().rposition(|line| !is_node_frame(line))?;
        // A message may have several lines; a blank one separates it from the source line.
        let paragraph = lines[..before].iter().rposition(|line| line.trim().is_empty());
        let start = paragraph.map_or(0, |blank| blank + 1);
        lines[start..before]
            .iter()
            .rposition(|line| line.contains("Error"))
            .filter(|_| !lines[before].contains("Error"))
            .map_or(before, |at| start + at)
    } else {
        let head = lines.iter().rposition(|line| line.starts_with("Traceback (most recent"))?;
        head + 1 + lines[head + 1..].iter().position(|line| !line.starts_with(' '))?
    };
    let is_shown = |line: &&str| {
        let is_version = line.starts_with("Node.js v");
        !is_node_frame(line) && !is_version && line.chars().any(char::is_alphanumeric)
    };
    Some(lines[first..].iter().copied().filter(is_shown).map(str::trim).collect())
}

/// Returns whether a line is a frame of a stack trace of node, such as `at run (/a/b.js:10:5)`.
fn is_node_frame(line: &str) -> bool {
    let line = line.trim();
    line.strip_prefix("at ").is_some_and(|place| {
        let place = place.trim_end_matches(')');
        let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
        place.rsplit(':').next().is_some_and(is_number) || place.ends_with("<anonymous>")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_trace_is_reported_by_its_error() {
        let frames = "    at run (file:///x/codex.js:100:11)\n".repeat(12);
        let error = "Error: Missing optional dependency @openai/codex-linux-x64. Reinstall Codex";
        let node = format!(
            "file:///x/codex.js:100\n    throw new Error(`Missing optional`);\n          ^\n\n\
             {error}\n{frames}\nNode.js v20.19.2\n"
        );
        assert_eq!(take_last_lines(&node), error);
        let several = format!("TypeError: no\n  because of x\n{frames}gave up\n");
        assert_eq!(take_last_lines(&several), "TypeError: no\nbecause of x\ngave up");
        let python = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    \
                      import x\nModuleNotFoundError: No module named 'x'\n";
        assert_eq!(take_last_lines(python), "ModuleNotFoundError: No module named 'x'");
        assert_eq!(take_last_lines("one\n\nlook at 3:15\n"), "one\nlook at 3:15");
    }
}
