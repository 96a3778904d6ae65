//! Folds control requests into the state.
//!
//! Not here: when a request takes effect, which `choose` decides.

use super::RunState;
use crate::control::Pause;
use crate::event::{Event, Recorded};
use crate::task::TaskStatus;

impl RunState {
    /// Applies an event that came from a control request.
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
                let Some(tasks) = &mut self.board else { return };
                // Feedback and base of the last attempt belonged to the skipped task.
                if tasks.logs.contains_key(task) {
                    self.feedback.clear();
                    self.base = None;
                }
                tasks.skip(task, by.as_deref(), branch.as_deref());
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

    /// Drops skip requests for tasks that are finished.
    pub(super) fn forget_skips(&mut self) {
        let Some(tasks) = &self.board else { return };
        self.control.skips.retain(|skip| {
            let status = tasks.list.task(&skip.task).map(|task| task.status);
            matches!(status, Some(TaskStatus::Pending | TaskStatus::InProgress))
        });
    }
}
