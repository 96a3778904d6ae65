//! Decides which control requests a run accepts: from another terminal, a key or a button.
//!
//! Not here: how a request reaches the run, and when it takes effect, which `choose` decides.

use ralph_model::control::{ControlRequest, Pause, SubmittedRequest};
use ralph_model::ids::TaskId;
use ralph_model::recipe::Work;
use ralph_model::run::RunState;
use ralph_model::task::TaskStatus;

/// The longest note. Notes are added to one prompt uncut; this is a page and a half.
/// Longer text belongs in a file that the note names.
pub const MAX_NOTE_CHARS: usize = 4_000;

/// The most notes that wait for a prompt: together they stay a small part of it.
pub(crate) const MAX_WAITING_NOTES: usize = 8;

/// Returns why a request is refused, if it is.
pub fn find_refusal(state: &RunState, request: &ControlRequest) -> Option<String> {
    let control = &state.control;
    let reason = match request {
        ControlRequest::Pause => match control.pause {
            Pause::No => return None,
            Pause::Asked { .. } => "that was requested before",
            Pause::Since { .. } => "the run is paused already",
        },
        ControlRequest::Resume => match control.pause {
            Pause::No => "the run is not paused",
            Pause::Asked { .. } | Pause::Since { .. } => return None,
        },
        ControlRequest::Stop => match control.stop {
            None => return None,
            Some(_) => "that was requested before",
        },
        ControlRequest::Note { text } | ControlRequest::TaskNote { text, .. }
            if text.trim().is_empty() =>
        {
            "it is empty"
        }
        ControlRequest::Note { text } | ControlRequest::TaskNote { text, .. }
            if text.chars().count() > MAX_NOTE_CHARS =>
        {
            "it is too long"
        }
        ControlRequest::Note { .. } if control.notes.len() >= MAX_WAITING_NOTES => {
            "too many notes wait already"
        }
        ControlRequest::Note { .. }
            if state.parallel.as_ref().is_some_and(|it| !it.has_live_workers()) =>
        {
            "no worker is at work"
        }
        ControlRequest::TaskNote { task, .. } => return find_task_note_refusal(state, task),
        // A request to stop now adds to a stop request from before.
        ControlRequest::StopNow | ControlRequest::Note { .. } | ControlRequest::Hold { .. } => {
            return None;
        }
        ControlRequest::Skip { task } => return find_skip_refusal(state, task),
    };
    Some(reason.to_owned())
}

/// Returns the state after all waiting requests are applied.
pub fn apply_waiting_requests(state: &RunState, waiting: &[SubmittedRequest]) -> RunState {
    let mut state = state.clone();
    for asked in waiting {
        if !state.control.has_recorded(&asked.id) && find_refusal(&state, &asked.request).is_none()
        {
            state.control.apply_request(asked, asked.at);
        }
    }
    state
}

/// A worker reads its notes itself; a run without workers has no note for a single task.
fn find_task_note_refusal(state: &RunState, task: &TaskId) -> Option<String> {
    let Some(parallel) = &state.parallel else {
        return Some("the run works on one task at a time".to_owned());
    };
    let worker = parallel.find_worker_of(task).and_then(|it| parallel.running.get(it));
    match worker {
        Some(worker) if worker.is_live => None,
        Some(_) | None => Some(format!("no worker is at work on {task}")),
    }
}

fn find_skip_refusal(state: &RunState, task: &TaskId) -> Option<String> {
    match state.recipe.work {
        Work::Tasks(_) => {}
        Work::Prompt(_) => return Some("the run has no task list".to_owned()),
    }
    if state.control.skips.iter().any(|skip| skip.task == *task) {
        return Some("that was requested before".to_owned());
    }
    let tasks = state.tasks.as_ref()?;
    match tasks.list.find_task(task).map(|task| task.status) {
        Some(TaskStatus::Pending | TaskStatus::InProgress) => None,
        Some(status @ (TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped)) => {
            Some(format!("the task is {status}"))
        }
        None => Some("there is no such task".to_owned()),
    }
}

#[cfg(test)]
mod tests;
