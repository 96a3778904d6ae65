//! Folds control requests into the state.
//!
//! Not here: when a request takes effect, which `choose` decides.

use ralph_model::control::Pause;
use ralph_model::event::{Event, Recorded};
use ralph_model::run::RunState;
use ralph_model::task::TaskStatus;

use crate::run_loop::fold::task_results;

/// Applies an event that came from a control request.
pub(super) fn apply_control_event(state: &mut RunState, recorded: &Recorded) {
    match &recorded.event {
        Event::ControlRequested { asked, refused } => {
            state.control.record_id(&asked.id);
            if refused.is_none() {
                let paused = state.control.apply_request(asked, recorded.at);
                state.totals.paused = state.totals.paused.saturating_add(paused);
            }
        }
        Event::Paused => state.control.pause = Pause::Since { at: recorded.at },
        Event::TaskSkipped { task, by, branch, commit: _ } => {
            let Some(tasks) = &mut state.tasks else { return };
            // Feedback and base of the last attempt belonged to the skipped task.
            if tasks.logs.contains_key(task) {
                state.feedback.clear();
                state.base = None;
            }
            task_results::mark_skipped(tasks, task, by.as_deref(), branch.as_deref());
            drop_finished_skips(state);
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
pub(super) fn drop_finished_skips(state: &mut RunState) {
    let Some(tasks) = &state.tasks else { return };
    state.control.skips.retain(|skip| {
        let status = tasks.list.find_task(&skip.task).map(|task| task.status);
        matches!(status, Some(TaskStatus::Pending | TaskStatus::InProgress))
    });
}
