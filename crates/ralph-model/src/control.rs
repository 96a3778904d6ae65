//! Control requests: what users ask of a run under way.
//!
//! `pending_requests` are those that are not done yet. Not here: whether a request is allowed.

mod pending_requests;

pub use pending_requests::{
    Control, Pause, SkipRequest, UserNote, count_note_chars, takes_notes, with_notes,
};

use serde::{Deserialize, Serialize};

use crate::agent::AgentKind;
use crate::ids::TaskId;
use crate::units::Timestamp;

/// A control request to a running run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "wish")]
pub enum ControlRequest {
    /// Wait after the current step, until the user resumes the run.
    Pause,
    /// Continue after a pause.
    #[serde(rename = "goOn")]
    Resume,
    /// Stop after the current step; the run can be resumed.
    Stop,
    /// End the current step and stop; the run can be resumed.
    StopNow,
    /// Skip a task, permanently.
    Skip { task: TaskId },
    /// Add a note to the next prompt.
    Note { text: String },
    /// Add a note to the next prompt of the worker on a task.
    TaskNote { task: TaskId, text: String },
    /// Call an agent only after a moment. A parallel run asks this of its workers when one of them
    /// met a usage limit.
    Hold { agent: AgentKind, until: Timestamp },
}

/// The id of a control request: later requests have greater ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ControlRequestId(pub String);

/// A control request that reached its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedRequest {
    /// Its id, which detects repeats.
    pub id: ControlRequestId,
    pub at: Timestamp,
    /// Who asked, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(rename = "wish")]
    pub request: ControlRequest,
}

/// A file in the inbox of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxEntry {
    Request(SubmittedRequest),
    /// Not a valid request; reported once.
    Invalid {
        name: String,
        why: String,
    },
}

impl ControlRequest {
    /// Returns a short description for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Pause => "pause".to_owned(),
            Self::Resume => "resume".to_owned(),
            Self::Stop => "stop".to_owned(),
            Self::StopNow => "stop now".to_owned(),
            Self::Skip { task } => format!("skip task {task}"),
            Self::Note { .. } => "a note for the next prompt".to_owned(),
            Self::TaskNote { task, .. } => format!("a note for the next prompt of {task}"),
            Self::Hold { agent, until } => {
                format!("wait for the limit of {} until {}", agent.name(), until.to_utc())
            }
        }
    }

    /// Returns the text of a note.
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Note { text } | Self::TaskNote { text, .. } => Some(text),
            Self::Pause
            | Self::Resume
            | Self::Stop
            | Self::StopNow
            | Self::Skip { .. }
            | Self::Hold { .. } => None,
        }
    }
}
