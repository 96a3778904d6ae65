//! Folds the end of an iteration into the state.
//!
//! Not here: the result of the iteration, which `settle` computes.

use super::{Completeness, FAILED_HANDOFFS, HANDOFFS, Iteration, RunState};
use crate::event::Landed;
use crate::handoff::{Handoff, WorkOutcome};
use crate::ids::Role;
use crate::judge::{Judgement, Verdict};
use crate::memory::since::Attempted;
use crate::ports::ListOrder;
use crate::settle;
use crate::task::TaskList;
use crate::units::Timestamp;

/// The task list after the landing that is under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Ahead {
    pub list: TaskList,
    /// Whether the list is final, whatever happens to the rest of the landing.
    pub stands: Stands,
}

/// Whether the list of a landing is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// The work is committed, and the list with it.
    Yes,
    /// The work may still be refused.
    No,
}

impl RunState {
    /// Returns the list after the landing that is under way. The task file may hold it
    /// already.
    pub fn list_ahead(&self) -> Option<Ahead> {
        let (tasks, current) = (self.board.as_ref()?, self.current.as_ref()?);
        let (work, task) = (self.recipe.task_work()?, current.task.as_ref()?);
        let settled = settle::settle(work, tasks.log(task).failed, &tasks.list, current);
        if settled.changes.is_empty() {
            return None;
        }
        let order =
            ListOrder { list: &tasks.list, changes: &settled.changes, touched: &tasks.touched };
        let stands = if current.is_committed() { Stands::Yes } else { Stands::No };
        Some(Ahead { list: order.outcome(), stands })
    }

    /// Closes the open iteration: keeps its feedback, list changes and completion.
    pub(super) fn close(&mut self, at: Timestamp) {
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
            (&mut self.board, self.recipe.task_work(), &current.task)
        {
            let settled = settle::settle(work, tasks.log(task).failed, &tasks.list, &current);
            outcome = Some(settled.outcome(&current));
            tasks.settle(work, settled, &current, ran);
        }
        self.forget_skips();
        if self.board.is_none() {
            self.note_change(&current);
        }
        let refusal = current.refusal();
        // Work that was not committed after the agent is reviewed as well.
        if let (Some(Judgement { verdict: Verdict::Passed { .. }, .. }), None) =
            (&current.judgement, &refusal)
        {
            self.note_work(&current);
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
            let attempted = if has_passed { Attempted::Passed } else { Attempted::Otherwise };
            self.since.coded(current.number, judgement.handoff.as_deref(), attempted);
        }
        self.feedback = judgement.feedback;
        self.doubted = judgement.doubted;
        if let Some(handoff) = judgement.handoff {
            self.remember(*handoff);
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
    fn note_change(&mut self, current: &Iteration) {
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
    fn remember(&mut self, handoff: Handoff) {
        let task = handoff.task_completed.task_id.clone();
        let is_decided = match &handoff.outcome {
            None | Some(WorkOutcome::Passed { .. } | WorkOutcome::Abandoned { .. }) => true,
            Some(WorkOutcome::Failed { .. } | WorkOutcome::RolledBack { .. }) => false,
        };
        if is_decided {
            self.handoffs.retain(|old| old.is_accepted() || old.task_completed.task_id != task);
        }
        self.handoffs.push(handoff);
        for (is_accepted, most) in [(true, HANDOFFS), (false, FAILED_HANDOFFS)] {
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
        let trigger = self.trigger();
        let next = self.next_coding().map(|task| task.id.clone());
        match current.judgement.and_then(|judgement| judgement.compacted) {
            Some(compacted) => {
                self.memory = Some(Box::new(compacted.memory));
                self.since.compacted(current.number, next.as_ref());
                // The memory replaces all but the last handoff.
                let surplus = self.handoffs.len().saturating_sub(1);
                self.handoffs.drain(..surplus);
            }
            None => self.since.failed(trigger, next.as_ref()),
        }
    }
}
