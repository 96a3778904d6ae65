//! What people ask of a run while it is going on, from another terminal, a key or a button.
//!
//! Not here: how a wish reaches the run, and what the engine makes of it.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::units::Timestamp;

/// A note takes part in one prompt, whole: this many characters are a page and a half. What is
/// longer belongs into a file that the note names.
pub const LONGEST_NOTE: usize = 4_000;

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
