//! What people ask of a run while it is going on, from another terminal, a key or a button.
//!
//! What was asked and is not done yet is part of the state of a run, in [`held`]. Not here: how a
//! wish reaches the run, and when the engine heeds it, which `choose` decides.

pub mod held;

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::recipe::Work;
use crate::run::RunState;
use crate::task::TaskStatus;
use crate::units::Timestamp;

pub use held::{Control, Note, Pause, SkipAsked, takes_notes, with_notes};

/// A note takes part in one prompt, whole: this many characters are a page and a half. What is
/// longer belongs into a file that the note names.
pub const LONGEST_NOTE: usize = 4_000;

/// So many notes wait for a prompt at most: together they stay a small part of it.
pub(crate) const MOST_NOTES: usize = 8;

/// Something that is asked of a run while it is going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "wish")]
pub enum Wish {
    /// Wait after the current step, until somebody says to go on.
    Pause,
    /// Go on after a pause.
    GoOn,
    /// Stop after the current step; the run can be resumed.
    Stop,
    /// Leave a task out, for good.
    Skip {
        /// The task.
        task: TaskId,
    },
    /// Tell the next agent something.
    Note {
        /// What to tell it.
        text: String,
    },
}

/// The id of a wish: later wishes have greater ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WishId(pub String);

/// A wish that reached its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Its id, by which it is known again.
    pub id: WishId,
    /// When somebody asked.
    pub at: Timestamp,
    /// Who asked, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What is asked.
    pub wish: Wish,
}

/// Something that lies in the inbox of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A wish.
    Wish(Asked),
    /// Something that is none; told once.
    Junk {
        /// What it is called.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Wish {
    /// Returns it as people say it.
    pub fn words(&self) -> String {
        match self {
            Self::Pause => "pause".to_owned(),
            Self::GoOn => "go on".to_owned(),
            Self::Stop => "stop".to_owned(),
            Self::Skip { task } => format!("skip task {task}"),
            Self::Note { .. } => "a note for the next prompt".to_owned(),
        }
    }
}

/// Returns why nothing comes of a wish, if nothing does.
pub fn refusal(state: &RunState, wish: &Wish) -> Option<String> {
    let control = &state.control;
    let said = match wish {
        Wish::Pause => match control.pause {
            Pause::No => return None,
            Pause::Asked { .. } => "that was asked before",
            Pause::Since { .. } => "the run is paused already",
        },
        Wish::GoOn => match control.pause {
            Pause::No => "the run is not paused",
            Pause::Asked { .. } | Pause::Since { .. } => return None,
        },
        Wish::Stop => match control.stop {
            None => return None,
            Some(_) => "that was asked before",
        },
        Wish::Note { text } if text.trim().is_empty() => "it is empty",
        Wish::Note { text } if text.chars().count() > LONGEST_NOTE => "it is too long",
        Wish::Note { .. } if control.notes.len() >= MOST_NOTES => "too many notes wait already",
        Wish::Note { .. } => return None,
        Wish::Skip { task } => return refusal_to_skip(state, task),
    };
    Some(said.to_owned())
}

/// Returns the state that follows once what waits in the inbox is heard.
pub fn expected(state: &RunState, waiting: &[Asked]) -> RunState {
    let mut state = state.clone();
    for asked in waiting {
        if !state.control.has_heard(&asked.id) && refusal(&state, &asked.wish).is_none() {
            state.control.hear(asked, asked.at);
        }
    }
    state
}

fn refusal_to_skip(state: &RunState, task: &TaskId) -> Option<String> {
    match state.recipe.work {
        Work::Tasks(_) => {}
        Work::Prompt(_) => return Some("the run has no task list".to_owned()),
    }
    if state.control.skips.iter().any(|skip| skip.task == *task) {
        return Some("that was asked before".to_owned());
    }
    let board = state.board.as_ref()?;
    match board.list.task(task).map(|task| task.status) {
        Some(TaskStatus::Pending | TaskStatus::InProgress) => None,
        Some(status @ (TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped)) => {
            Some(format!("the task is {status}"))
        }
        None => Some("there is no such task".to_owned()),
    }
}

#[cfg(test)]
mod tests;
