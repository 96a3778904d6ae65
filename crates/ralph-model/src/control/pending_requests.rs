//! Control requests that are not done yet: part of the run's state, changed only by
//! events.
//!
//! Not here: whether a request is accepted, which was decided before it was recorded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ControlRequest, ControlRequestId, SubmittedRequest};
use crate::agent::AgentKind;
use crate::ids::{Role, TaskId};
use crate::units::{Millis, Timestamp};

/// How many request ids are remembered. A request is removed from the inbox right after
/// it is recorded, so only the last one can come again after a crash. The others are for
/// files that could not be removed.
const MAX_RECORDED_IDS: usize = 32;

/// Control requests that are not done yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Control {
    #[serde(default)]
    pub pause: Pause,
    /// When the user asked to stop.
    #[serde(default)]
    pub stop: Option<Timestamp>,
    /// Whether the current step does not end first.
    #[serde(default)]
    pub stops_now: bool,
    /// The tasks to skip.
    #[serde(default)]
    pub skips: Vec<SkipRequest>,
    /// Notes for the next working agent.
    #[serde(default)]
    pub notes: Vec<UserNote>,
    /// Agents that are not called before a moment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub holds: BTreeMap<AgentKind, Timestamp>,
    /// Ids of the last recorded requests.
    #[serde(default, rename = "heard")]
    recorded_ids: Vec<ControlRequestId>,
}

/// Whether a run is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Pause {
    #[default]
    No,
    /// It will be, once the current step is done.
    Asked {
        at: Timestamp,
    },
    Since {
        at: Timestamp,
    },
}

/// A request to skip a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRequest {
    pub task: TaskId,
    pub at: Timestamp,
    /// Who asked, if known.
    pub by: Option<String>,
}

/// A note from the user to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserNote {
    pub at: Timestamp,
    /// The author, if known.
    pub by: Option<String>,
    pub text: String,
}

impl Control {
    /// Returns whether a request was recorded before.
    pub fn has_recorded(&self, id: &ControlRequestId) -> bool {
        self.recorded_ids.contains(id)
    }

    /// Returns the request to skip a task, if there is one.
    pub fn find_skip(&self, task: &TaskId) -> Option<&SkipRequest> {
        self.skips.iter().find(|skip| skip.task == *task)
    }

    /// Remembers the id of a request, whether accepted or refused.
    pub fn record_id(&mut self, id: &ControlRequestId) {
        self.recorded_ids.push(id.clone());
        let surplus = self.recorded_ids.len().saturating_sub(MAX_RECORDED_IDS);
        self.recorded_ids.drain(..surplus);
    }

    /// Applies an accepted request. Returns the length of the pause that it ends.
    pub fn apply_request(&mut self, asked: &SubmittedRequest, now: Timestamp) -> Millis {
        let SubmittedRequest { at, by, request, id: _ } = asked;
        match request {
            ControlRequest::Pause => self.pause = Pause::Asked { at: *at },
            ControlRequest::Resume => {
                return match std::mem::take(&mut self.pause) {
                    Pause::Since { at } => now.elapsed_since(at),
                    Pause::No | Pause::Asked { .. } => Millis::ZERO,
                };
            }
            ControlRequest::Stop => self.stop = Some(*at),
            ControlRequest::StopNow => {
                self.stop = Some(*at);
                self.stops_now = true;
            }
            ControlRequest::Skip { task } => {
                self.skips.push(SkipRequest { task: task.clone(), at: *at, by: by.clone() });
            }
            ControlRequest::Hold { agent, until } => {
                let hold = self.holds.entry(*agent).or_insert(*until);
                *hold = (*hold).max(*until);
            }
            ControlRequest::Note { text } => {
                self.notes.push(UserNote { at: *at, by: by.clone(), text: text.clone() });
            }
            ControlRequest::TaskNote { task, text } => {
                let text = format!("{task}: {text}");
                self.notes.push(UserNote { at: *at, by: by.clone(), text });
            }
        }
        Millis::ZERO
    }

    /// Drops pause, stop and hold requests when the run is resumed. Requests about the work
    /// stay.
    pub fn drop_pause_and_stop(&mut self) {
        self.pause = Pause::No;
        self.stop = None;
        self.stops_now = false;
        self.holds.clear();
    }
}

/// Returns whether an agent in a role gets the user's notes. Roles that change no code do
/// not: the note would be lost.
pub fn takes_notes(role: Role) -> bool {
    match role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix => true,
        Role::Review | Role::Compact | Role::Message | Role::Merge => false,
    }
}

impl UserNote {
    /// Returns the note as a section of a prompt.
    fn to_section(&self) -> String {
        let by = self.by.as_deref().unwrap_or("the person who watches this run");
        format!("# A note from {by}\n\n{}", self.text.trim())
    }
}

/// Returns a prompt with notes appended. They are never cut.
pub fn with_notes(prompt: String, notes: &[UserNote]) -> String {
    notes
        .iter()
        .fold(prompt, |prompt, note| format!("{}\n\n{}", prompt.trim_end(), note.to_section()))
}

/// Returns how many characters the notes add to a prompt.
pub fn count_note_chars(notes: &[UserNote]) -> usize {
    with_notes(String::new(), notes).chars().count()
}
