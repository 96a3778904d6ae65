//! What people ask of a run, folded into its state.
//!
//! Not here: when it is heeded, which `choose` decides.

use super::RunState;
use crate::control::Pause;
use crate::event::{Event, Recorded};
use crate::task::TaskStatus;

impl RunState {
    /// Takes in an event that people brought about.
    pub(super) fn controlled(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::Wished { asked, refused } => {
                self.control.remember(&asked.id);
                if refused.is_none() {
                    let paused = self.control.hear(asked, recorded.at);
                    self.totals.paused = self.totals.paused.plus(paused);
                }
            }
            Event::Paused => self.control.pause = Pause::Since { at: recorded.at },
            Event::TaskSkipped { task, by, branch, commit: _ } => {
                let Some(board) = &mut self.board else { return };
                // What the last attempt at it left to say, and to keep, was its own.
                if board.logs.contains_key(task) {
                    self.feedback.clear();
                    self.base = None;
                }
                board.skip(task, by.as_deref(), branch.as_deref());
                self.forget_skips();
            }
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::BaselineStarted { .. }
            | Event::BaselineChecked { .. }
            | Event::IterationStarted { .. }
            | Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Replied { .. }
            | Event::Waiting { .. }
            | Event::Observed { .. }
            | Event::PlanSeen { .. }
            | Event::Claimed { .. }
            | Event::GateChecked { .. }
            | Event::Judged { .. }
            | Event::Landed { .. }
            | Event::IterationEnded { .. }
            | Event::Warned { .. }
            | Event::RunEnded { .. } => {}
        }
    }

    /// Forgets the wish to leave out a task that is over, one way or the other.
    pub(super) fn forget_skips(&mut self) {
        let Some(board) = &self.board else { return };
        self.control.skips.retain(|skip| {
            let status = board.list.task(&skip.task).map(|task| task.status);
            matches!(status, Some(TaskStatus::Pending | TaskStatus::InProgress))
        });
    }
}
