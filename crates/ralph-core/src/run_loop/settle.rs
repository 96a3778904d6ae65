//! The final result of an iteration on a task, once it has landed or failed to land.
//!
//! The judgement says how the list should change; the commit may still be refused, for a
//! secret or a change to git's own files. Both the file written before a commit and the state after
//! the iteration are computed here, so they cannot disagree. Not here: judging.

use ralph_model::attempt::{Attempt, FailedAttempt, FailedOutput, GiveUpReason};
use ralph_model::handoff::WorkOutcome;
use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::Verdict;
use ralph_model::recipe::Recipe;
use ralph_model::refusal::RefusalKind;
use ralph_model::run::Iteration;
use ralph_model::stuck::Escalation;
use ralph_model::task::{Task, TaskChange, TaskStatus};
use ralph_model::task_state::TaskState;
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
}

impl Settled {
    /// Returns the outcome of an iteration that has landed.
    pub(crate) fn work_outcome(&self, current: &Iteration) -> WorkOutcome {
        let Some(failed) = &self.attempt else {
            let is_committed = current.landed().iter().any(|it| it.commit().is_some());
            return WorkOutcome::Passed { is_committed, approved: None };
        };
        let at = failed.attempt.gate.clone();
        let kept = current.landed().iter().find_map(|landed| match landed {
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
            (Some(_), _) => {
                WorkOutcome::Abandoned { at, branch: current.failure_branch().map(str::to_owned) }
            }
            (None, Some(kept)) => WorkOutcome::RolledBack { at, kept },
            (None, None) => WorkOutcome::Failed { at },
        }
    }
}

/// Returns the result of an iteration, as far as it has landed.
pub fn settle_iteration(recipe: &Recipe, tasks: &TaskState, current: &Iteration) -> Settled {
    let (Some(judgement), Some(task), Some(work)) =
        (current.judgement(), &current.task, recipe.task_work())
    else {
        return Settled { changes: Vec::new(), attempt: None };
    };
    let (list, log_failed) = (&tasks.list, tasks.attempt_log(task).counted());
    if let (Verdict::Skipped { by }, Some(task)) = (&judgement.verdict, list.find_task(task)) {
        let changes = build_skip_changes(task, by.as_deref(), current.failure_branch());
        return Settled { changes, attempt: None };
    }
    let refusal = current.commit_refusal();
    let (failed_before, limit) = match find_merge_round(recipe, current) {
        Some((round, limit)) => (round.saturating_sub(1), limit),
        None => (log_failed, work.attempt_limit(list, task)),
    };
    let mut attempt = match (&judgement.failed, refusal) {
        (Some(failed), _) => Some(failed.clone()),
        (None, Some(output)) => Some(build_refused_attempt(current, output, failed_before, limit)),
        (None, None) => None,
    };
    // What the next attempt starts from: with a list that the agent had damaged and ralph restored.
    let left = current.landed().iter().rev().find_map(Landed::surveyed_tree);
    if let (Some(failed), Some(left)) = (&mut attempt, left) {
        failed.attempt.tree = Some(left.clone());
    }
    // Failures before a review are no longer in the log; the list still counts them.
    let counted = list.find_task(task).map_or(0, |task| task.attempts);
    let attempts = counted.max(log_failed + 1);
    let changes = match &attempt {
        Some(FailedAttempt { gives_up: Some(why), .. }) => list
            .find_task(task)
            .map(|task| build_give_up_changes(current, task, why, attempts))
            .unwrap_or_default(),
        // A merge that is refused is no attempt of an agent.
        Some(FailedAttempt { gives_up: None, .. }) if current.role == Role::Merge => Vec::new(),
        // A refused commit drops all changes of the list but the number of attempts.
        Some(FailedAttempt { gives_up: None, .. }) if refusal.is_some() => {
            build_attempt_change(recipe, tasks, task).into_iter().collect()
        }
        None | Some(FailedAttempt { gives_up: None, .. }) => judgement.changes.clone(),
    };
    Settled { changes, attempt }
}

/// Returns the round of a merge, and how many its task gets.
fn find_merge_round(recipe: &Recipe, current: &Iteration) -> Option<(u32, u32)> {
    let merged = current.checking()?.merge.as_deref()?;
    Some((merged.round, recipe.parallel.as_ref()?.merge_attempts))
}

/// Returns the change that counts one more failed attempt in the list. Where agents commit,
/// the number is written only when the task is given up.
pub(crate) fn build_attempt_change(
    recipe: &Recipe,
    tasks: &TaskState,
    task: &TaskId,
) -> Option<TaskChange> {
    let counted = tasks.list.find_task(task).map_or(0, |task| task.attempts);
    let attempts = tasks.attempt_log(task).counted() + 1;
    (attempts > counted && recipe.ownership().marks_task_in_progress())
        .then(|| TaskChange::SetAttempts { task: task.clone(), attempts })
}

fn build_refused_attempt(
    current: &Iteration,
    output: &str,
    failed_before: u32,
    limit: u32,
) -> FailedAttempt {
    let handoff = current.judgement().and_then(|judgement| judgement.handoff.as_ref());
    let name = RefusalKind::CommitHook.name();
    let mut hasher = ErrorHasher::new(name);
    hasher.feed_text(output);
    FailedAttempt {
        attempt: Attempt {
            iteration: current.number,
            gate: name.to_owned(),
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
            title: "Refusal of the Commit (verbatim)".to_owned(),
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
    task: &Task,
    why: &GiveUpReason,
    attempts: u32,
) -> Vec<TaskChange> {
    let place = describe_branch(current.failure_branch());
    let notes = task.with_note(&format!("{}{place}", why.to_note()));
    let id = || task.id.clone();
    vec![
        TaskChange::SetStatus { task: id(), status: TaskStatus::Failed },
        TaskChange::SetAttempts { task: id(), attempts },
        TaskChange::SetNotes { task: id(), notes },
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
    let notes = task.with_note(&format!("skipped{by}{}", describe_branch(branch)));
    let mut changes = vec![
        TaskChange::SetStatus { task: id(), status: TaskStatus::Skipped },
        TaskChange::SetNotes { task: id(), notes },
    ];
    if task.review.status.is_open() {
        changes.push(TaskChange::SetReview { task: id(), review: task.review.close_open_review() });
    }
    changes
}

fn describe_branch(branch: Option<&str>) -> String {
    branch.map(|branch| format!("; its work is on {branch}")).unwrap_or_default()
}
