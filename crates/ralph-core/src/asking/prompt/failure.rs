//! What the prompt of an attempt says about earlier attempts: what failed last, how all of them
//! ended, and what to do when the same failure repeats.
//!
//! Attempts are described as ralph knows them. Not here: the texts of feedback.

use std::fmt::Write as _;

use ralph_model::attempt::{Attempt, AttemptLog, MERGE_CAUSE, RESTORE_CAUSE, REVIEW_CAUSE};
use ralph_model::handoff::{Handoff, WorkOutcome};
use ralph_model::recipe::Recipe;
use ralph_model::refusal::RefusalKind;
use ralph_model::stuck::Escalation;
use ralph_model::text;

use super::budget_fit::FailureText;
use super::diff::format_patch;
use super::role::format_section;
use super::task::TaskParts;
use crate::checking::gate;
use crate::memory::handoff_summary::list_details;
use crate::tasks::attempt::build_fence;

/// A longer summary of what an attempt tried is cut.
const TRIED_CHARS: usize = 240;

/// How many files of an attempt are named.
const NAMED_FILES: usize = 8;

/// How many entries of a failed attempt's handoff are shown.
const MOST_CLAIMS: usize = 8;

/// Returns the sections about earlier attempts; empty before the first.
pub(super) fn describe_failure(parts: &TaskParts<'_>) -> FailureText {
    let record = match parts.record {
        None => String::new(),
        Some(record) => format_section(
            "Earlier attempts",
            &format!("{}\n{}", record.trim_end(), locate_last_changes(parts)),
        ),
    };
    let mut failed = super::format_feedback(parts.feedback.iter(), parts.room.size);
    if !parts.feedback.iter().any(|it| !it.is_note) {
        let outputs = describe_outputs(parts);
        failed = [outputs, failed]
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n");
    }
    let mut output = failed;
    write_escalation(&mut output, parts);
    output.truncate(output.trim_end().len());
    FailureText { record, output }
}

/// Describes the last failure from its record, where no feedback about it is left: after a run
/// that was stopped, or from an earlier run.
fn describe_outputs(parts: &TaskParts<'_>) -> String {
    let Some(last) = parts.attempts.last() else { return String::new() };
    let mut text = gate::format_failing(&last.failing);
    for output in parts.outputs {
        let fence = build_fence(&output.text);
        let _ = writeln!(text, "{}:\n{fence}\n{}\n{fence}", output.title, output.text.trim_end());
    }
    format_section("What failed", &text)
}

/// Returns the attempts of a log, one line each; `None` if none failed. Equal attempts in a row
/// share a line.
pub(super) fn list_attempts(log: &AttemptLog, recipe: &Recipe) -> Option<String> {
    log.recent.last()?;
    let first = (log.failed as usize + 1).saturating_sub(log.recent.len()).max(1);
    let mut lines: Vec<(usize, usize, String)> = Vec::new();
    for (place, attempt) in log.recent.iter().enumerate() {
        let (number, what) = (first + place, describe_attempt(attempt, recipe));
        match lines.last_mut() {
            Some((_, end, same)) if *same == what => *end = number,
            Some(_) | None => lines.push((number, number, what)),
        }
    }
    let mut text = String::new();
    match first - 1 {
        0 => {}
        1 => text.push_str("Attempt 1 failed too.\n"),
        before => {
            let _ = writeln!(text, "Attempts 1 to {before} failed too.");
        }
    }
    for (start, end, what) in lines {
        let _ = match end - start {
            0 => writeln!(text, "Attempt {start}: {what}"),
            _ => writeln!(text, "Attempts {start} to {end}: {what}"),
        };
    }
    Some(text)
}

/// Returns what the author of the last failed attempt left for the next one.
pub(super) fn list_claims(handoff: Option<&Handoff>) -> String {
    let details = handoff.into_iter().flat_map(list_details);
    let lines = details.flat_map(|(title, entries)| {
        entries
            .into_iter()
            .map(move |entry| format!("- {title}: {}\n", text::join_to_line(&entry, TRIED_CHARS)))
    });
    let lines: String = lines.take(MOST_CLAIMS).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("The last author also wrote (not checked):\n{lines}")
    }
}

fn describe_attempt(attempt: &Attempt, recipe: &Recipe) -> String {
    let name = attempt.gate.as_str();
    let is_gate = recipe.gates.iter().any(|gate| gate.name == name);
    let is_refusal = RefusalKind::ALL.iter().any(|kind| kind.name() == name);
    let count = match attempt.failing.len() {
        0 => String::new(),
        1 => " (1 test)".to_owned(),
        count => format!(" ({count} tests)"),
    };
    let what = match name {
        _ if is_gate => format!("the check `{name}` failed{count}."),
        _ if is_refusal => format!("the work was refused ({name})."),
        "no change" => "nothing was changed.".to_owned(),
        "completeness" => "its author said that the task is not complete.".to_owned(),
        "hand-in" => "the work was not handed in correctly.".to_owned(),
        "blocked" => "the agent reported that it is blocked.".to_owned(),
        MERGE_CAUSE => "it could not be merged with what had landed by then.".to_owned(),
        REVIEW_CAUSE => "the review gave no usable verdict.".to_owned(),
        name => format!("it failed at {name}{count}."),
    };
    let tried = attempt.summary.trim().lines().next().unwrap_or_default();
    let tried = match text::join_to_line(tried, TRIED_CHARS) {
        tried if tried.is_empty() => String::new(),
        tried => format!(" Its author wrote: {tried}"),
    };
    let files: Vec<String> =
        attempt.files.iter().take(NAMED_FILES).map(|file| format!("`{file}`")).collect();
    let files = if files.is_empty() { String::new() } else { format!(" ({})", files.join(", ")) };
    format!("{what}{tried}{files}")
}

/// The record of attempts whose work was restored and about which nothing else is known.
pub(super) const RESTORED: &str = "An earlier run worked on this task and gave it up.";

/// Where the changes of attempts are whose work was not rolled back.
const STILL_THERE: &str = "Their changes are still in the work tree, for you to keep or to undo.";

/// Describes where the changes of the last attempt are.
fn locate_last_changes(parts: &TaskParts<'_>) -> String {
    let last = parts.attempts.last();
    let has_no_changes = last.is_some_and(|last| last.tree.is_some() && last.files.is_empty());
    match parts.last_outcome {
        Some(WorkOutcome::RolledBack { kept: Some(kept), .. }) => format!(
            "The changes of the last attempt were rolled back: the work tree is as it was before it. They are kept on `{kept}`; `git diff HEAD {kept}` shows them, and `git checkout {kept} -- PATH` brings back a file that was good."
        ),
        Some(WorkOutcome::RolledBack { kept: None, .. }) => {
            "The last attempt was rolled back: the work tree is as it was before it.".to_owned()
        }
        Some(WorkOutcome::Abandoned { branch: Some(branch), .. }) => {
            format!("Their changes are on the branch `{branch}` and not in the work tree.")
        }
        Some(WorkOutcome::Failed { at }) if parts.is_restored && at == MERGE_CAUSE => {
            describe_merged_tree(parts.conflicts)
        }
        Some(WorkOutcome::Failed { at }) if parts.is_restored && at == RESTORE_CAUSE => {
            describe_restored_conflicts(parts.conflicts)
        }
        None if parts.is_restored && !parts.conflicts.is_empty() => {
            describe_restored_conflicts(parts.conflicts)
        }
        _ if parts.is_restored => {
            format!("{STILL_THERE} If they are complete now, only hand them in.")
        }
        Some(WorkOutcome::Failed { .. }) if has_no_changes => {
            "They left no changes in the work tree.".to_owned()
        }
        Some(
            WorkOutcome::Passed { .. }
            | WorkOutcome::Failed { .. }
            | WorkOutcome::Abandoned { branch: None, .. },
        ) => STILL_THERE.to_owned(),
        None => "Look at `git status` for what is left of their changes.".to_owned(),
    }
}

/// Describes the work tree of a task that failed before and whose restored work conflicts with what
/// has landed since.
fn describe_restored_conflicts(conflicts: &[String]) -> String {
    format!(
        "Their changes are in the work tree again, uncommitted and merged with what has landed since. {}",
        describe_conflicts(conflicts)
    )
}

/// Names files with conflict markers, and says what to do about them.
fn describe_conflicts(conflicts: &[String]) -> String {
    let conflicts: Vec<String> = conflicts.iter().map(|path| format!("`{path}`")).collect();
    format!(
        "These files have conflict markers (`<<<<<<<`, `=======`, `>>>>>>>`): {}. Resolve them so that the work of both sides is kept.",
        conflicts.join(", ")
    )
}

/// Describes the work tree of a task that starts again because its work could not land.
fn describe_merged_tree(conflicts: &[String]) -> String {
    let what = if conflicts.is_empty() {
        "The merge had no conflicts, but the result is not right: make it fit what has landed."
            .to_owned()
    } else {
        describe_conflicts(conflicts)
    };
    format!(
        "The last attempt was complete and passed its checks, but other tasks landed while it was made. The work tree has its changes merged with theirs, uncommitted; `git diff HEAD` shows them. {what} Then run the checks and hand it in. Do not do the task a second time."
    )
}

/// Adds what an agent should do about a failure that repeats.
fn write_escalation(text: &mut String, parts: &TaskParts<'_>) {
    match parts.escalation {
        Escalation::None | Escalation::HardStop => return,
        Escalation::StrategyShift | Escalation::ContextExpansion => {}
    }
    let _ = write!(
        text,
        "\n\n## The same failure {} times\nBefore you change anything: run the check, read the first error, and write down its cause in one sentence. If the cause is small (an import, a name, a path), fix just that. If the approach itself cannot work, say why, undo it and take another one.\n",
        parts.alike
    );
    if !parts.patch.is_empty() {
        let _ = write!(text, "\nThe last change:\n{}\n", format_patch(parts.patch));
    }
    if parts.escalation == Escalation::ContextExpansion && !parts.context.is_empty() {
        text.push_str("\nThe failure mentions something that is missing. These files may help:\n");
        for (path, content) in parts.context {
            let fence = build_fence(content);
            let _ = write!(text, "\n### {path}\n{fence}\n{}\n{fence}\n", content.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use ralph_model::gate::{Gate, GateKind};
    use ralph_model::ids::IterationNumber;
    use ralph_model::stuck::ErrorHash;

    use super::*;

    fn attempt(gate: &str, failing: &[&str], summary: &str) -> Attempt {
        Attempt {
            iteration: IterationNumber(1),
            gate: gate.into(),
            exit_code: 1,
            hash: ErrorHash("a451c0b0".into()),
            failing: failing.iter().map(|name| (*name).to_owned()).collect(),
            tree: None,
            summary: summary.into(),
            files: vec!["a.rs".into()],
            escalation: Escalation::None,
        }
    }

    #[track_caller]
    fn check(failed: u32, recent: Vec<Attempt>, expect: &str) {
        let mut recipe = crate::run_loop::choose::tests::recipe();
        recipe.gates = vec![Gate::for_command(GateKind::Test, "make test")];
        let log = AttemptLog { failed, recent, ..AttemptLog::default() };
        assert_eq!(list_attempts(&log, &recipe).unwrap_or_default(), expect);
    }

    #[test]
    fn the_merged_tree_of_a_next_round_is_described() {
        let clean = describe_merged_tree(&[]);
        assert!(clean.contains("no conflicts") && !clean.contains("<<<"), "{clean}");
        let conflict = describe_merged_tree(&["a.rs".to_owned(), "b c.rs".to_owned()]);
        assert!(conflict.contains("`>>>>>>>`): `a.rs`, `b c.rs`. Resolve them"), "{conflict}");
    }

    #[test]
    fn attempts_are_listed_in_plain_words() {
        check(0, Vec::new(), "");
        let first = attempt("make test", &["t1", "t2"], "Guessed.\nMore.");
        check(
            2,
            vec![first.clone(), attempt("no change", &[], "")],
            "Attempt 1: the check `make test` failed (2 tests). Its author wrote: Guessed. (`a.rs`)\nAttempt 2: nothing was changed. (`a.rs`)\n",
        );
        check(
            5,
            vec![first.clone(), first.clone(), first],
            "Attempts 1 to 2 failed too.\nAttempts 3 to 5: the check `make test` failed (2 tests). Its author wrote: Guessed. (`a.rs`)\n",
        );
        check(
            1,
            vec![attempt("merge", &[], "Did it.")],
            "Attempt 1: it could not be merged with what had landed by then. Its author wrote: Did it. (`a.rs`)\n",
        );
        check(
            1,
            vec![attempt("protected paths", &[], "Did it.")],
            "Attempt 1: the work was refused (protected paths). Its author wrote: Did it. (`a.rs`)\n",
        );
    }
}
