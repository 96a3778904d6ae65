//! What people ask of a run while it is going on, from another terminal, a key or a button.
//!
//! Not here: how a wish reaches the run, and what the engine makes of it.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;

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
