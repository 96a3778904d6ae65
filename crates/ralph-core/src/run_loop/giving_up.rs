//! The summary of a task that is given up.
//!
//! Not here: the decision to give up, which `judge` makes.

use ralph_model::abandoned_task::AbandonedTask;
use ralph_model::attempt::{AttemptLog, FailedOutput, GiveUpReason};
use ralph_model::run::Iteration;
use ralph_model::worktree::Checkpoint;

use crate::checking::stuck;

/// Longest error line that is kept.
const MAX_ERROR_CHARS: usize = 300;

/// How many failing checks are kept.
const MAX_FAILING: usize = 20;

/// Returns the summary of a task whose last attempt was just added to the log.
pub(crate) fn build_abandoned_task(
    why: GiveUpReason,
    limit: u32,
    stuck_after: u32,
    log: &AttemptLog,
    current: &Iteration,
) -> AbandonedTask {
    let last = log.recent.last();
    let failing = last.map(|last| last.failing.as_slice()).unwrap_or_default();
    AbandonedTask {
        why,
        attempts: log.counted(),
        limit,
        gate: last.map(|last| last.gate.clone()).unwrap_or_default(),
        error: find_informative_line(&log.outputs),
        failing: failing.iter().take(MAX_FAILING).cloned().collect(),
        alike: log.alike,
        stuck_after,
        shifts: log.shifts,
        branch: current.failure_branch().map(str::to_owned),
        onto: match current.checkpoint() {
            Some(Checkpoint::Git { branch: Some(branch), .. }) => {
                Some(branch.strip_prefix("refs/heads/").unwrap_or(branch).to_owned())
            }
            Some(Checkpoint::Git { branch: None, .. } | Checkpoint::None) | None => None,
        },
    }
}

/// Words in the output of tools that mark an informative line.
const INFORMATIVE_WORDS: [&str; 12] = [
    "error",
    "fail",
    "panick",
    "exception",
    "assert",
    "expected",
    "missing",
    "cannot",
    "not found",
    "undefined",
    "unresolved",
    "refused",
];

/// Returns the first line of the outputs that reports an error, or else one with an
/// informative word, or else the first that is not progress output. Lines that npm or yarn print
/// around a script count only if there are no others.
pub(crate) fn find_informative_line(outputs: &[FailedOutput]) -> Option<String> {
    let line = find_line(outputs, LineSource::Script)
        .or_else(|| find_line(outputs, LineSource::Runner))?;
    let mut kept: String = line.chars().take(MAX_ERROR_CHARS).collect();
    if kept.len() < line.len() {
        kept.push('…');
    }
    Some(kept)
}

/// Which program printed a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineSource {
    Script,
    /// The program that runs the script, such as npm.
    Runner,
}

fn find_line(outputs: &[FailedOutput], source: LineSource) -> Option<&str> {
    let lines = || {
        let marked = outputs.iter().flat_map(|output| stuck::mark_runner_lines(&output.text));
        let is_wanted = |is_runner: bool| is_runner == (source == LineSource::Runner);
        marked
            .filter(move |(_, is_runner)| is_wanted(*is_runner))
            .filter_map(|(line, _)| strip_progress(line))
    };
    let is_telling = |line: &&str| {
        let line = line.to_lowercase();
        INFORMATIVE_WORDS.iter().any(|word| line.contains(word))
    };
    let error = lines().find(|line| stuck::is_error_line(line));
    error.or_else(|| lines().find(is_telling)).or_else(|| lines().next())
}

/// Returns a line without noise, unless it is progress output, a frame, or empty.
fn strip_progress(line: &str) -> Option<&str> {
    stuck::strip_noise(line)
        .map(str::trim)
        .filter(|line| line.chars().any(char::is_alphanumeric) && !line.starts_with("```"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        let outputs = [FailedOutput { title: "Test Output".into(), text: text.into() }];
        assert_eq!(find_informative_line(&outputs).as_deref(), expect);
    }

    #[test]
    fn the_most_informative_line_is_found() {
        check("", None);
        check("\n---\n====\n", None);
        check("boom\n", Some("boom"));
        check(
            "reading a\nreading b\nTypeError: x is no function\n",
            Some("TypeError: x is no function"),
        );
        check(
            "   Compiling a v0.1.0\nerror[E0425]: cannot find value `x`\n --> src/a.rs:1:1\n",
            Some("error[E0425]: cannot find value `x`"),
        );
        check("test a ... ok\nMissing password reset flow\n", Some("Missing password reset flow"));
        check(
            "\n> project@1.0.0 test\n> node run.js\n\nboom\nnpm ERR! Test failed.\n",
            Some("boom"),
        );
        check(
            "npm error Missing script: \"test\"\nnpm error\n",
            Some("npm error Missing script: \"test\""),
        );
        check(&"x".repeat(400), Some(&format!("{}…", "x".repeat(300))));
    }
}
