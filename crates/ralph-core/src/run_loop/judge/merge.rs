//! Judges a merge: the candidate lands, its task starts again on the new tip, or it is given
//! up.

use ralph_model::attempt::{GiveUpReason, MERGE_CAUSE};
use ralph_model::gate::GateResult;
use ralph_model::ids::TaskId;
use ralph_model::judgement::{Judgement, Landing, Verdict};
use ralph_model::parallel_state::{Candidate, MergeOutcome, MergedCandidate};
use ralph_model::phase::{Checking, Iteration};
use ralph_model::run::RunState;
use ralph_model::task::{Task, TaskChange, TaskList, TaskStatus};

use super::task::{AttemptContext, build_cause};

/// How many conflicting paths a reason names.
const MOST_PATHS: usize = 5;

/// Judges a merge. Nothing as long as the candidate is not merged.
pub(super) fn judge_merge(state: &RunState, current: &Iteration) -> Option<Judgement> {
    let merged = current.checking()?.merge.as_deref()?;
    let tasks = state.tasks.as_ref()?;
    let (work, task) = (state.recipe.task_work()?, current.task.as_ref()?);
    let policy = state.recipe.parallel.as_ref()?;
    let candidate = state.parallel.as_ref()?.queue.iter().find(|it| it.worker == merged.worker)?;
    let Some(reason) = find_failure(current, merged) else {
        return Some(judge_landed(&tasks.list, candidate));
    };
    if let MergeOutcome::Conflict { edits, .. } = &merged.outcome
        && !edits.is_empty()
    {
        let paths = name_paths(edits);
        let reason = format!("it conflicts with files of yours that are not committed: {paths}");
        return Some(Judgement::new(Verdict::Held { reason }, Landing::Keep, Vec::new()));
    }
    let attempt = AttemptContext { state, tasks, work, task, current };
    let cause = match &merged.outcome {
        MergeOutcome::Conflict { messages, .. } => {
            build_cause(MERGE_CAUSE, &format!("{reason}\n{messages}"))
        }
        MergeOutcome::Missing { .. } => build_cause(MERGE_CAUSE, &reason),
        MergeOutcome::Same { .. } | MergeOutcome::Clean { .. } => attempt.build_checks_cause(),
    };
    let is_over = merged.round >= policy.merge_attempts;
    let landing = match (&merged.outcome, is_over) {
        // Nothing was changed; of a conflict the candidate stays on its ref.
        (MergeOutcome::Missing { .. }, _) | (MergeOutcome::Conflict { .. }, false) => Landing::Keep,
        (_, true) => Landing::FailureBranch,
        (MergeOutcome::Same { .. } | MergeOutcome::Clean { .. }, false) => Landing::Rollback,
    };
    let verdict = if is_over {
        Verdict::GatesFailed { gates: list_failed_checks(current) }
    } else {
        Verdict::Requeued { reason: reason.clone() }
    };
    let limit = policy.merge_attempts;
    // What the author wrote, as for every attempt; the cause has the reason.
    let summary = candidate.result.handoffs.last().map(|it| it.task_completed.summary.clone());
    let mut failed = attempt.build_failed_attempt(cause, summary.unwrap_or_default());
    failed.gives_up = is_over.then_some(GiveUpReason::AttemptsUsed { limit });
    Some(Judgement { failed: Some(failed), ..Judgement::new(verdict, landing, Vec::new()) })
}

/// Returns why a candidate cannot land, if so.
fn find_failure(current: &Iteration, merged: &MergedCandidate) -> Option<String> {
    match &merged.outcome {
        MergeOutcome::Missing { reason } => Some(reason.clone()),
        MergeOutcome::Conflict { paths, .. } => Some(format!("conflict in {}", name_paths(paths))),
        MergeOutcome::Same { .. } | MergeOutcome::Clean { .. } => {
            let has_failed = current.checking().is_some_and(Checking::has_failed);
            has_failed.then(|| {
                format!("failed after the merge: {}", list_failed_checks(current).join(", "))
            })
        }
    }
}

/// Returns the first of some paths, and how many more there are.
fn name_paths(paths: &[String]) -> String {
    let more = paths.len().saturating_sub(MOST_PATHS);
    let named = paths.iter().take(MOST_PATHS).map(String::as_str);
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{named}{more}")
}

/// Returns the names of refusals and hard gates that failed, or of the merge itself.
fn list_failed_checks(current: &Iteration) -> Vec<String> {
    let refused = current.refusals().iter().map(|refusal| refusal.kind.name().to_owned());
    let failed = current.gates().iter().filter(|result: &&GateResult| result.is_hard_failure());
    let names: Vec<String> = refused.chain(failed.map(|result| result.gate.clone())).collect();
    if names.is_empty() { vec![MERGE_CAUSE.to_owned()] } else { names }
}

/// Judges work that lands: its task is done, as in the worker, and tasks that its agent added
/// join the list.
fn judge_landed(list: &TaskList, candidate: &Candidate) -> Judgement {
    let id = || candidate.task.clone();
    let mut changes = vec![TaskChange::SetStatus { task: id(), status: TaskStatus::Done }];
    if let (Some(ours), Some(theirs)) = (list.find_task(&candidate.task), &candidate.result.task) {
        if theirs.review != ours.review {
            changes.push(TaskChange::SetReview { task: id(), review: theirs.review.clone() });
        }
        if theirs.notes != ours.notes {
            changes.push(TaskChange::SetNotes { task: id(), notes: theirs.notes.clone() });
        }
        if theirs.attempts != ours.attempts {
            changes.push(TaskChange::SetAttempts { task: id(), attempts: theirs.attempts });
        }
    }
    changes.extend(build_additions(list, candidate));
    let handoff = candidate.result.handoffs.last().cloned().map(Box::new);
    let verdict = Verdict::Passed { signal: None };
    let amended = candidate.result.proposals.clone();
    Judgement { changes, handoff, amended, ..Judgement::new(verdict, Landing::Commit, Vec::new()) }
}

/// Returns the additions of tasks that the worker's agent added. A taken id gets a number;
/// dependencies among the new tasks follow, and unknown ones are dropped.
fn build_additions(list: &TaskList, candidate: &Candidate) -> Vec<TaskChange> {
    let mut taken: Vec<TaskId> = list.tasks.iter().map(|task| task.id.clone()).collect();
    let mut renamed: Vec<(TaskId, TaskId)> = Vec::new();
    for task in &candidate.result.added {
        let new = find_free_id(&task.id, &taken);
        taken.push(new.clone());
        renamed.push((task.id.clone(), new));
    }
    let find_new = |id: &TaskId| renamed.iter().find(|(old, _)| old == id).map(|(_, new)| new);
    let additions = candidate.result.added.iter().zip(&renamed).map(|(task, (_, id))| {
        let depends_on = task.depends_on.iter();
        let depends_on = depends_on.map(|id| find_new(id).unwrap_or(id).clone());
        let depends_on = depends_on.filter(|id| taken.contains(id)).collect();
        let task = Task { id: id.clone(), depends_on, ..task.clone() };
        TaskChange::Add { task: Box::new(task), after: Some(candidate.task.clone()) }
    });
    additions.collect()
}

fn find_free_id(id: &TaskId, taken: &[TaskId]) -> TaskId {
    let numbered = (2..).map(|number: u32| TaskId(format!("{id}-{number}")));
    let mut ids = std::iter::once(id.clone()).chain(numbered);
    ids.find(|id| !taken.contains(id)).unwrap_or_else(|| id.clone())
}
