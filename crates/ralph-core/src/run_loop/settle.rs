//! The final result of an iteration on a task, once it has landed or failed to land.
//!
//! The judgement says how the list should change; a commit hook may still refuse the
//! work. Both the file written before a commit and the state after the iteration are
//! computed here, so they cannot disagree. Not here: judging.

use ralph_model::attempt::{Attempt, FailedAttempt, FailedOutput, GiveUpReason};
use ralph_model::handoff::WorkOutcome;
use ralph_model::ids::TaskId;
use ralph_model::judgement::{Judgement, Verdict};
use ralph_model::recipe::TaskWork;
use ralph_model::run::Iteration;
use ralph_model::stuck::Escalation;
use ralph_model::task::{ListOwner, Task, TaskChange, TaskList, TaskStatus};
use ralph_model::task_state::FileState;
use ralph_model::worktree::Landed;

use crate::checking::stuck::ErrorHasher;
use crate::tasks::attempt::cut_output;

/// The result of an iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// Changes of the task list.
    pub changes: Vec<TaskChange>,
    /// The attempt, if it failed.
    pub attempt: Option<FailedAttempt>,
    /// Whether the task file includes the changes already.
    pub written: FileState,
}

impl Settled {
    /// Returns the outcome of an iteration that has landed.
    pub(crate) fn work_outcome(&self, current: &Iteration) -> WorkOutcome {
        let Some(failed) = &self.attempt else {
            let is_committed = current.landed.iter().any(|it| it.commit().is_some());
            return WorkOutcome::Passed { is_committed };
        };
        let at = failed.attempt.gate.clone();
        let kept = current.landed.iter().find_map(|landed| match landed {
            Landed::RolledBack { kept } => Some(kept.clone()),
            Landed::Surveyed { .. }
            | Landed::MessageChecked { .. }
            | Landed::Committed { .. }
            | Landed::NothingToCommit
            | Landed::CommitRefused { .. }
            | Landed::ScmRan { .. }
            | Landed::ListWritten
            | Landed::SavedToFailureBranch { .. } => None,
        });
        match (&failed.gives_up, kept) {
            (Some(_), _) => WorkOutcome::Abandoned {
                at,
                branch: find_failure_branch(current).map(str::to_owned),
            },
            (None, Some(kept)) => WorkOutcome::RolledBack { at, kept },
            (None, None) => WorkOutcome::Failed { at },
        }
    }
}

/// Returns the result of an iteration, as far as it has landed.
pub fn settle_iteration(
    work: &TaskWork,
    log_failed: u32,
    list: &TaskList,
    current: &Iteration,
) -> Settled {
    let (Some(judgement), Some(task)) = (&current.judgement, &current.task) else {
        return Settled { changes: Vec::new(), attempt: None, written: FileState::InSync };
    };
    if let (Verdict::Skipped { by }, Some(task)) = (&judgement.verdict, list.find_task(task)) {
        let changes = build_skip_changes(task, by.as_deref(), find_failure_branch(current));
        let written = check_file_state(work, current, &changes, false);
        return Settled { changes, attempt: None, written };
    }
    let refusal = find_refusal(current);
    let attempt = match (&judgement.failed, refusal) {
        (Some(failed), _) => Some(failed.clone()),
        (None, Some(output)) => {
            Some(build_refused_attempt(current, output, log_failed, work.attempt_limit(list, task)))
        }
        (None, None) => None,
    };
    let changes = match &attempt {
        Some(FailedAttempt { gives_up: Some(why), .. }) => {
            // Failures before a review are no longer in the log; the list still counts
            // them.
            let counted = list.find_task(task).map_or(0, |task| task.attempts);
            build_give_up_changes(current, task, why, counted.max(log_failed + 1))
        }
        // A refused commit drops all changes of the list.
        Some(FailedAttempt { gives_up: None, .. }) if refusal.is_some() => Vec::new(),
        None | Some(FailedAttempt { gives_up: None, .. }) => judgement.changes.clone(),
    };
    let written = check_file_state(work, current, &changes, refusal.is_some());
    Settled { changes, attempt, written }
}

fn find_refusal(current: &Iteration) -> Option<&str> {
    current.landed.iter().find_map(Landed::refusal)
}

/// The gate name under which a refused commit fails an attempt.
pub(crate) const COMMIT_HOOK: &str = "commit hook";

fn build_refused_attempt(
    current: &Iteration,
    output: &str,
    failed_before: u32,
    limit: u32,
) -> FailedAttempt {
    let judgement: Option<&Judgement> = current.judgement.as_ref();
    let handoff = judgement.and_then(|judgement| judgement.handoff.as_ref());
    let mut hasher = ErrorHasher::new(COMMIT_HOOK);
    hasher.feed_text(output);
    FailedAttempt {
        attempt: Attempt {
            iteration: current.number,
            gate: COMMIT_HOOK.to_owned(),
            exit_code: 1,
            hash: hasher.finish_hash(),
            failing: Vec::new(),
            tree: current.observed_tree().cloned(),
            summary: handoff
                .map(|handoff| handoff.task_completed.summary.clone())
                .unwrap_or_default(),
            files: current.observed_files(),
            escalation: Escalation::None,
        },
        outputs: vec![FailedOutput {
            title: "Commit Hook Output (verbatim)".to_owned(),
            text: cut_output(output),
        }],
        next: Escalation::None,
        blocked: None,
        warnings: 0,
        gives_up: (failed_before + 1 >= limit).then_some(GiveUpReason::AttemptsUsed { limit }),
    }
}

fn build_give_up_changes(
    current: &Iteration,
    task: &TaskId,
    why: &GiveUpReason,
    attempts: u32,
) -> Vec<TaskChange> {
    let place = describe_branch(find_failure_branch(current));
    vec![
        TaskChange::SetStatus { task: task.clone(), status: TaskStatus::Failed },
        TaskChange::SetAttempts { task: task.clone(), attempts },
        TaskChange::SetNotes { task: task.clone(), notes: format!("{}{place}", why.to_note()) },
    ]
}

/// Returns the changes that mark a task as skipped by the user.
pub(crate) fn build_skip_changes(
    task: &Task,
    by: Option<&str>,
    branch: Option<&str>,
) -> Vec<TaskChange> {
    let id = || task.id.clone();
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let notes = format!("skipped{by}{}", describe_branch(branch));
    let mut changes = vec![
        TaskChange::SetStatus { task: id(), status: TaskStatus::Skipped },
        TaskChange::SetNotes { task: id(), notes },
    ];
    if task.review.status.is_open() {
        changes.push(TaskChange::SetReview { task: id(), review: task.review.close_open_review() });
    }
    changes
}

/// Returns the failure branch that holds the work of an iteration.
fn find_failure_branch(current: &Iteration) -> Option<&str> {
    current.landed.iter().find_map(Landed::failure_branch)
}

fn describe_branch(branch: Option<&str>) -> String {
    branch.map(|branch| format!("; its work is on {branch}")).unwrap_or_default()
}

/// Returns whether the file is in sync: it was written after the last step that decides
/// its content, or its content does not change. An agent that owns the file may write
/// anything until ralph reads it.
fn check_file_state(
    work: &TaskWork,
    current: &Iteration,
    changes: &[TaskChange],
    is_refused: bool,
) -> FileState {
    let decides = |landed: &Landed| {
        matches!(
            landed,
            Landed::CommitRefused { .. }
                | Landed::SavedToFailureBranch { .. }
                | Landed::RolledBack { .. }
        )
    };
    let last = current.landed.iter().rposition(decides);
    let is_written = current.landed[last.map_or(0, |at| at + 1)..].contains(&Landed::ListWritten);
    let must_be = match (work.keeper, last) {
        (ListOwner::Agent, None) => {
            !current.list_diff.as_ref().is_some_and(|diff| diff.is_in_file(changes))
        }
        (ListOwner::Agent, Some(_)) | (ListOwner::Ralph, _) => !changes.is_empty() || is_refused,
    };
    if is_written || !must_be { FileState::InSync } else { FileState::Stale }
}
