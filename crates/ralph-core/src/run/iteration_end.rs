//! Folds the end of an iteration into the state.
//!
//! Not here: the result of the iteration, which `settle` computes.

use super::{Completeness, Iteration, KEPT_FAILED_HANDOFFS, KEPT_HANDOFFS, RunState};
use crate::event::Landed;
use crate::handoff::{Handoff, WorkOutcome};
use crate::ids::Role;
use crate::judge::{Judgement, Verdict};
use crate::memory::since_compaction::AttemptOutcome;
use crate::ports::ListOrder;
use crate::settle;
use crate::task::TaskList;
use crate::units::Timestamp;

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

impl RunState {
    /// Returns the list after the landing that is under way. The task file may hold it
    /// already.
    pub fn pending_list(&self) -> Option<PendingList> {
        let (tasks, current) = (self.tasks.as_ref()?, self.current.as_ref()?);
        let (work, task) = (self.recipe.task_work()?, current.task.as_ref()?);
        let settled =
            settle::settle_iteration(work, tasks.attempt_log(task).failed, &tasks.list, current);
        if settled.changes.is_empty() {
            return None;
        }
        let order =
            ListOrder { list: &tasks.list, changes: &settled.changes, touched: &tasks.touched };
        let stands =
            if current.is_committed() { Durability::Committed } else { Durability::Tentative };
        Some(PendingList { list: order.resulting_list(), durability: stands })
    }

    /// Closes the open iteration: keeps its feedback, list changes and completion.
    pub(super) fn close_iteration(&mut self, at: Timestamp) {
        self.last_ended = Some(at);
        let ran = self.ran_in_iteration();
        let Some(current) = self.current.take() else {
            return;
        };
        if current.role == Role::Compact {
            return self.close_compaction(current);
        }
        let mut outcome = None;
        if let (Some(tasks), Some(work), Some(task)) =
            (&mut self.tasks, self.recipe.task_work(), &current.task)
        {
            let settled = settle::settle_iteration(
                work,
                tasks.attempt_log(task).failed,
                &tasks.list,
                &current,
            );
            outcome = Some(settled.work_outcome(&current));
            tasks.apply_settled(work, settled, &current, ran);
        }
        self.drop_finished_skips();
        if self.tasks.is_none() {
            self.count_unchanged(&current);
        }
        let refusal = current.refusal_feedback();
        // Work that was not committed after the agent is reviewed as well.
        if let (Some(Judgement { verdict: Verdict::Passed { .. }, .. }), None) =
            (&current.judgement, &refusal)
        {
            self.record_work_range(&current);
        }
        let Some(mut judgement) = current.judgement else {
            return;
        };
        if let Some(handoff) = &mut judgement.handoff {
            handoff.outcome = outcome;
        }
        if let (Some(_), Role::Implement | Role::Fix) = (&self.recipe.memory, current.role) {
            let has_passed =
                matches!(&judgement.verdict, Verdict::Complete | Verdict::Passed { .. })
                    && refusal.is_none();
            let attempted =
                if has_passed { AttemptOutcome::Passed } else { AttemptOutcome::NotPassed };
            self.since_compaction.record_coding_iteration(
                current.number,
                judgement.handoff.as_deref(),
                attempted,
            );
        }
        self.feedback = judgement.feedback;
        self.rejected_open_items = judgement.rejected_open_items;
        if let Some(handoff) = judgement.handoff {
            self.keep_handoff(*handoff);
        }
        match (judgement.verdict, refusal) {
            (
                Verdict::Complete | Verdict::Passed { .. } | Verdict::Reviewed { .. },
                Some(refusal),
            ) => {
                self.feedback.push(refusal);
            }
            (Verdict::Complete, None) => {
                self.totals.passed += 1;
                self.completeness = Completeness::Complete;
                self.base = None;
            }
            (Verdict::Passed { .. } | Verdict::Reviewed { .. }, None) => {
                self.totals.passed += 1;
                self.base = None;
            }
            (
                Verdict::GatesFailed { .. }
                | Verdict::AttemptFailed { .. }
                | Verdict::NothingChanged
                | Verdict::NotHandedIn { .. }
                | Verdict::Blocked { .. }
                | Verdict::Compacted { .. },
                _,
            ) => {}
            (Verdict::Skipped { .. }, _) => self.base = None,
        }
    }

    /// Counts iterations on a prompt that pass and change nothing.
    fn count_unchanged(&mut self, current: &Iteration) {
        let verdict = current.judgement.as_ref().map(|judgement| &judgement.verdict);
        let is_idle =
            matches!(verdict, Some(Verdict::Passed { .. })) && self.has_changed_nothing(current);
        self.unchanged = if is_idle { self.unchanged.saturating_add(1) } else { 0 };
        let is_back = current.landed.iter().any(|it| matches!(it, Landed::RolledBack { .. }));
        self.last_tree = current.observed_tree().filter(|_| !is_back).cloned();
    }

    /// Keeps a handoff for the next prompts. Handoffs of failed attempts are for the next
    /// attempt at the same task: they do not displace other handoffs, and are dropped
    /// when the task is decided.
    fn keep_handoff(&mut self, handoff: Handoff) {
        let task = handoff.task_completed.task_id.clone();
        let is_decided = match &handoff.outcome {
            None | Some(WorkOutcome::Passed { .. } | WorkOutcome::Abandoned { .. }) => true,
            Some(WorkOutcome::Failed { .. } | WorkOutcome::RolledBack { .. }) => false,
        };
        if is_decided {
            self.handoffs.retain(|old| old.is_accepted() || old.task_completed.task_id != task);
        }
        self.handoffs.push(handoff);
        for (is_accepted, most) in [(true, KEPT_HANDOFFS), (false, KEPT_FAILED_HANDOFFS)] {
            let is_one = |handoff: &Handoff| handoff.is_accepted() == is_accepted;
            while self.handoffs.iter().filter(|it| is_one(it)).count() > most
                && let Some(oldest) = self.handoffs.iter().position(is_one)
            {
                self.handoffs.remove(oldest);
            }
        }
    }

    /// Closes a compaction: keeps its memory, if any. All else is unchanged.
    fn close_compaction(&mut self, current: Iteration) {
        let trigger = self.compaction_trigger();
        let next = self.next_coding_task().map(|task| task.id.clone());
        match current.judgement.and_then(|judgement| judgement.compacted) {
            Some(compacted) => {
                self.memory = Some(Box::new(compacted.memory));
                self.since_compaction.record_compaction(current.number, next.as_ref());
                // The memory replaces all but the last handoff.
                let surplus = self.handoffs.len().saturating_sub(1);
                self.handoffs.drain(..surplus);
            }
            None => self.since_compaction.record_failed_compaction(trigger, next.as_ref()),
        }
    }
}
