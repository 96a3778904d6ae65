//! Folds control requests into the state.
//!
//! Not here: when a request takes effect, which `choose` decides.

use super::RunState;
use crate::control::Pause;
use crate::event::{Event, Recorded};
use crate::task::TaskStatus;

impl RunState {
    /// Applies an event that came from a control request.
    pub(super) fn apply_control_event(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::ControlRequested { asked, refused } => {
                self.control.record_id(&asked.id);
                if refused.is_none() {
                    let paused = self.control.apply_request(asked, recorded.at);
                    self.totals.paused = self.totals.paused.saturating_add(paused);
                }
            }
            Event::Paused => self.control.pause = Pause::Since { at: recorded.at },
            Event::TaskSkipped { task, by, branch, commit: _ } => {
                let Some(tasks) = &mut self.tasks else { return };
                // Feedback and base of the last attempt belonged to the skipped task.
                if tasks.logs.contains_key(task) {
                    self.feedback.clear();
                    self.base = None;
                }
                tasks.mark_skipped(task, by.as_deref(), branch.as_deref());
                self.drop_finished_skips();
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
            | Event::AgentListRead { .. }
            | Event::GateChecked { .. }
            | Event::Judged { .. }
            | Event::Landed { .. }
            | Event::IterationEnded { .. }
            | Event::Warned { .. }
            | Event::RunEnded { .. } => {}
        }
    }

    /// Drops skip requests for tasks that are finished.
    pub(super) fn drop_finished_skips(&mut self) {
        let Some(tasks) = &self.tasks else { return };
        self.control.skips.retain(|skip| {
            let status = tasks.list.find_task(&skip.task).map(|task| task.status);
            matches!(status, Some(TaskStatus::Pending | TaskStatus::InProgress))
        });
    }
}
