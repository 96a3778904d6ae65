//! The end of an iteration, folded into the state: what it leaves to the next one.
//!
//! Not here: what the iteration comes to, which `settle` says.

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

/// What a landing makes of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Ahead {
    /// The list.
    pub list: TaskList,
    /// Whether that is so whatever becomes of the rest of the landing.
    pub stands: Stands,
}

/// Whether what a landing makes of the list is so whatever becomes of the rest of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// The work is committed, and the list with it.
    Yes,
    /// The work may still be refused.
    No,
}

impl RunState {
    /// Returns what the landing under way makes of the list, which the file may say already.
    pub fn list_ahead(&self) -> Option<Ahead> {
        let (board, current) = (self.board.as_ref()?, self.current.as_ref()?);
        let (work, task) = (self.recipe.task_work()?, current.task.as_ref()?);
        let settled = settle::settle(work, board.log(task).failed, &board.list, current);
        if settled.changes.is_empty() {
            return None;
        }
        let order =
            ListOrder { list: &board.list, changes: &settled.changes, touched: &board.touched };
        let stands = if current.is_committed() { Stands::Yes } else { Stands::No };
        Some(Ahead { list: order.outcome(), stands })
    }

    /// Closes the open iteration: what it leaves is feedback, a changed list and, at best,
    /// completion.
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
        if let (Some(board), Some(work), Some(task)) =
            (&mut self.board, self.recipe.task_work(), &current.task)
        {
            let settled = settle::settle(work, board.log(task).failed, &board.list, &current);
            outcome = Some(settled.outcome(&current));
            board.settle(work, settled, &current, ran);
        }
        self.forget_skips();
        if self.board.is_none() {
            self.note_change(&current);
        }
        let refusal = current.refusal();
        // What nobody committed after the agent is work all the same.
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

    /// Keeps a handoff for the next prompts. Attempts that failed are for the next attempt at the
    /// same task, so they make no other handoff give way, and go when the task is decided.
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

    /// Closes a compaction: what it leaves is a memory, or nothing. All else stays what it was.
    fn close_compaction(&mut self, current: Iteration) {
        let trigger = self.trigger();
        let next = self.next_coding().map(|task| task.id.clone());
        match current.judgement.and_then(|judgement| judgement.compacted) {
            Some(compacted) => {
                self.memory = Some(Box::new(compacted.memory));
                self.since.compacted(current.number, next.as_ref());
                // The memory stands for all but the last of them.
                let surplus = self.handoffs.len().saturating_sub(1);
                self.handoffs.drain(..surplus);
            }
            None => self.since.failed(trigger, next.as_ref()),
        }
    }
}
