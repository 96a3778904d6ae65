//! Folds the end of an iteration into the state.
//!
//! Not here: the result of the iteration, which `settle` computes.

use ralph_model::handoff::{Handoff, WorkOutcome};
use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::{Feedback, Judgement, Verdict};
use ralph_model::review::ReviewVerdict;
use ralph_model::run::{Completeness, Iteration, MAX_CHANGED_FILES, RunState};
use ralph_model::task::TaskList;
use ralph_model::units::Timestamp;

use crate::asking::request::is_verdict_missing;
use crate::memory::since_compaction::{AttemptOutcome, record_coding_iteration};
use crate::ports::ListOrder;
use crate::run_loop::fold::in_iteration::record_work_range;
use crate::run_loop::fold::{control_events, merging, task_results};
use crate::run_loop::repeated_failure::find_repeated_failure;
use crate::run_loop::settle;
use crate::tasks::next_work::{find_compaction_trigger, next_coding_task};

/// How many handoffs are kept for the next prompt.
const KEPT_HANDOFFS: usize = 4;

/// How many handoffs of failed attempts are kept for the next attempt at the same task.
const KEPT_FAILED_HANDOFFS: usize = 2;

/// The task list after the landing that is under way.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingList {
    pub list: TaskList,
    /// Whether the list is final, whatever happens to the rest of the landing.
    pub durability: Durability,
}

/// Whether the list of a landing is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The work is committed, and the list with it.
    Committed,
    /// The work may still be refused.
    Tentative,
}

/// Returns the list after the landing that is under way. The task file may hold it
/// already.
pub fn build_pending_list(state: &RunState) -> Option<PendingList> {
    let (tasks, current) = (state.tasks.as_ref()?, state.current.as_ref()?);
    let settled = settle::settle_iteration(&state.recipe, tasks, current);
    if settled.changes.is_empty() {
        return None;
    }
    let order = ListOrder { list: &tasks.list, changes: &settled.changes, touched: &tasks.touched };
    let stands = if current.is_committed() { Durability::Committed } else { Durability::Tentative };
    Some(PendingList { list: order.resulting_list(), durability: stands })
}

/// Returns whether an iteration finished a task, with its review, or passed where there are no
/// tasks.
fn is_work_finished(state: &RunState, current: &Iteration) -> bool {
    match (&current.task, &state.tasks) {
        (Some(task), Some(tasks)) => {
            tasks.list.find_task(task).is_some_and(|task| task.status.is_done())
        }
        (_, _) => current.judgement().is_some_and(|judgement| {
            matches!(judgement.verdict, Verdict::Complete | Verdict::Passed { .. })
        }),
    }
}

/// Closes the open iteration, and notes whether a question for a missing verdict follows.
pub(super) fn end_iteration(state: &mut RunState, at: Timestamp) {
    let current = state.current.as_ref();
    let reviewed = current.filter(|it| it.role == Role::Review).and_then(|it| it.task.clone());
    close_iteration(state, at);
    if state.base.is_none() {
        record_landed_files(state);
    }
    let tasks = state.tasks.as_ref();
    let reviewed = reviewed.and_then(|id| tasks?.list.find_task(&id));
    let unjudged = reviewed.filter(|task| is_verdict_missing(state, task));
    if let Some(task) = unjudged.map(|task| task.id.clone()) {
        state.missing_verdict = Some(task);
    }
}

/// Closes the open iteration: keeps its feedback, list changes and completion.
fn close_iteration(state: &mut RunState, at: Timestamp) {
    state.last_ended = Some(at);
    let ran = state.ran_in_iteration();
    let Some(current) = state.current.take() else {
        return;
    };
    if current.role == Role::Compact {
        return close_compaction(state, &current);
    }
    record_changed_files(state, &current);
    merging::close_merge(state, &current);
    let mut outcome = None;
    if let (Some(tasks), Some(work), Some(_)) =
        (&mut state.tasks, state.recipe.task_work(), &current.task)
    {
        let settled = settle::settle_iteration(&state.recipe, tasks, &current);
        outcome = Some(settled.work_outcome(&current));
        task_results::apply_settled(tasks, work, settled, &current, ran);
    }
    if is_work_finished(state, &current) {
        state.test_numbers.values_mut().for_each(|numbers| numbers.before = numbers.now);
    }
    control_events::drop_finished_skips(state);
    if state.tasks.is_none() {
        state.repeated_failure = find_repeated_failure(state, &current);
        count_unchanged(state, &current);
    }
    let refusal = current.commit_refusal().map(|output| {
        Feedback::from_text(format!("The commit was refused. Fix the reported problems:\n{output}"))
    });
    // Work that was not committed after the agent is reviewed as well.
    if let (Some(Judgement { verdict: Verdict::Passed { .. }, .. }), None) =
        (current.judgement(), &refusal)
    {
        record_work_range(state, &current);
    }
    let Some(mut judgement) = current.judgement().cloned() else {
        return;
    };
    if let Some(handoff) = &mut judgement.handoff {
        handoff.outcome = outcome;
        if let Some(tasks) = &mut state.tasks {
            tasks.record_left_open(handoff);
        }
    }
    let is_coding = match current.role {
        Role::Implement | Role::Fix => true,
        Role::Merge => judgement.handoff.is_some(),
        Role::Prompt | Role::Plan | Role::Build | Role::Review | Role::Compact | Role::Message => {
            false
        }
    };
    if state.recipe.memory.is_some() && is_coding {
        let has_passed = matches!(&judgement.verdict, Verdict::Complete | Verdict::Passed { .. })
            && refusal.is_none();
        let attempted = if has_passed { AttemptOutcome::Passed } else { AttemptOutcome::NotPassed };
        record_coding_iteration(
            &mut state.since_compaction,
            current.number,
            judgement.handoff.as_deref(),
            attempted,
        );
    }
    state.feedback = judgement.feedback;
    state.rejected_open_items = judgement.rejected_open_items;
    if let Some(handoff) = judgement.handoff {
        keep_handoff(state, *handoff);
    }
    if let (Verdict::Reviewed { verdict, .. }, Some(task)) = (&judgement.verdict, &current.task) {
        record_review(state, task, *verdict);
    }
    match (judgement.verdict, refusal) {
        // The next round of a merge learns it from the attempt log.
        (_, Some(_)) if current.role == Role::Merge => state.base = None,
        (Verdict::Complete | Verdict::Passed { .. } | Verdict::Reviewed { .. }, Some(refusal)) => {
            state.feedback.push(refusal);
        }
        (Verdict::Complete, None) => {
            state.totals.passed += 1;
            state.completeness = Completeness::Complete;
            state.base = None;
        }
        (Verdict::Passed { .. } | Verdict::Reviewed { .. }, None) => {
            state.totals.passed += 1;
            state.base = None;
        }
        (
            Verdict::GatesFailed { .. }
            | Verdict::AttemptFailed { .. }
            | Verdict::NothingChanged
            | Verdict::NotHandedIn { .. }
            | Verdict::Incomplete { .. }
            | Verdict::Blocked { .. }
            | Verdict::Compacted { .. },
            _,
        ) => {}
        (Verdict::Skipped { .. } | Verdict::Requeued { .. } | Verdict::Held { .. }, _) => {
            state.base = None;
        }
    }
}

/// Records the files that differ after an iteration, unless its work is gone from the work tree.
fn record_changed_files(state: &mut RunState, current: &Iteration) {
    let (
        Some(_),
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix | Role::Merge,
    ) = (current.observation(), current.role)
    else {
        return;
    };
    state.changed_files.get_or_insert_default();
    let is_gone = current.failure_branch().is_some() || current.is_rolled_back();
    if !is_gone {
        state.unlanded_files = current.remaining_files().map(|file| file.path.clone()).collect();
    } else if state.base.is_none() {
        state.unlanded_files.clear();
    }
}

/// Adds the files of work that was accepted.
fn record_landed_files(state: &mut RunState) {
    let landed = std::mem::take(&mut state.unlanded_files);
    if let Some(known) = &mut state.changed_files {
        let room = MAX_CHANGED_FILES.saturating_sub(known.len());
        known.extend(landed.into_iter().take(room));
    }
}

/// Records the verdict of a review in the last handoff of its task.
fn record_review(state: &mut RunState, task: &TaskId, verdict: ReviewVerdict) {
    let pending = state.since_compaction.handoffs.iter_mut();
    let pending = pending.filter_map(|pending| pending.handoff.as_deref_mut());
    let is_of_task = |it: &&mut Handoff| it.task_completed.task_id == *task;
    let last = [state.handoffs.iter_mut().rev().find(is_of_task), pending.rev().find(is_of_task)];
    for handoff in last.into_iter().flatten() {
        if let Some(WorkOutcome::Passed { approved, .. }) = &mut handoff.outcome {
            *approved = Some(verdict == ReviewVerdict::Approved);
        }
    }
}

/// Counts iterations on a prompt that pass and change nothing.
fn count_unchanged(state: &mut RunState, current: &Iteration) {
    let verdict = current.judgement().map(|judgement| &judgement.verdict);
    let is_idle = verdict.is_some_and(Verdict::is_open_pass) && state.has_changed_nothing(current);
    state.unchanged = if is_idle { state.unchanged.saturating_add(1) } else { 0 };
    state.last_tree = current.observed_tree().filter(|_| !current.is_rolled_back()).cloned();
    state.last_plan = current.plan().cloned();
}

/// Keeps a handoff for the next prompts. Handoffs of failed attempts are for the next
/// attempt at the same task: they do not displace other handoffs, and are dropped
/// when the task is decided.
fn keep_handoff(state: &mut RunState, handoff: Handoff) {
    let task = handoff.task_completed.task_id.clone();
    let is_decided = match &handoff.outcome {
        None | Some(WorkOutcome::Passed { .. } | WorkOutcome::Abandoned { .. }) => true,
        Some(WorkOutcome::Failed { .. } | WorkOutcome::RolledBack { .. }) => false,
    };
    if is_decided {
        state.handoffs.retain(|old| old.is_accepted() || old.task_completed.task_id != task);
    }
    state.handoffs.push(handoff);
    for (is_accepted, most) in [(true, KEPT_HANDOFFS), (false, KEPT_FAILED_HANDOFFS)] {
        let is_one = |handoff: &Handoff| handoff.is_accepted() == is_accepted;
        while state.handoffs.iter().filter(|it| is_one(it)).count() > most
            && let Some(oldest) = state.handoffs.iter().position(is_one)
        {
            state.handoffs.remove(oldest);
        }
    }
}

/// Closes a compaction: keeps its memory, if any. All else is unchanged.
fn close_compaction(state: &mut RunState, current: &Iteration) {
    let trigger = find_compaction_trigger(state);
    let next = next_coding_task(state).map(|task| task.id.clone());
    match current.judgement().and_then(|judgement| judgement.compacted.clone()) {
        Some(compacted) => {
            state.memory = Some(Box::new(compacted.memory));
            state.since_compaction.record_compaction(current.number, next.as_ref());
            // The memory replaces all but the last handoff.
            let surplus = state.handoffs.len().saturating_sub(1);
            state.handoffs.drain(..surplus);
        }
        None => state.since_compaction.record_failed_compaction(trigger, next.as_ref()),
    }
}
