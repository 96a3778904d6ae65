//! Control requests that are not done yet: part of the run's state, changed only by
//! events.
//!
//! Not here: whether a request is accepted, which was decided before it was recorded.

use serde::{Deserialize, Serialize};

use super::{Asked, Wish, WishId};
use crate::ids::{Role, TaskId};
use crate::units::{Millis, Timestamp};

/// How many request ids are remembered. A request is removed from the inbox right after
/// it is recorded, so only the last one can come again after a crash. The others are for
/// files that could not be removed.
const MOST_HEARD: usize = 32;

/// Control requests that are not done yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Control {
    #[serde(default)]
    pub pause: Pause,
    /// When the user asked to stop.
    #[serde(default)]
    pub stop: Option<Timestamp>,
    /// The tasks to skip.
    #[serde(default)]
    pub skips: Vec<SkipAsked>,
    /// Notes for the next working agent.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// Ids of the last recorded requests.
    #[serde(default, rename = "heard")]
    heard: Vec<WishId>,
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
pub struct SkipAsked {
    pub task: TaskId,
    pub at: Timestamp,
    /// Who asked, if known.
    pub by: Option<String>,
}

/// A note from the user to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub at: Timestamp,
    /// The author, if known.
    pub by: Option<String>,
    pub text: String,
}

impl Control {
    /// Returns whether a request was recorded before.
    pub fn has_heard(&self, id: &WishId) -> bool {
        self.heard.contains(id)
    }

    /// Returns the request to skip a task, if there is one.
    pub(crate) fn skip_of(&self, task: &TaskId) -> Option<&SkipAsked> {
        self.skips.iter().find(|skip| skip.task == *task)
    }

    /// Remembers the id of a request, whether accepted or refused.
    pub(crate) fn remember(&mut self, id: &WishId) {
        self.heard.push(id.clone());
        let surplus = self.heard.len().saturating_sub(MOST_HEARD);
        self.heard.drain(..surplus);
    }

    /// Applies an accepted request. Returns the length of the pause that it ends.
    pub(crate) fn hear(&mut self, asked: &Asked, now: Timestamp) -> Millis {
        let Asked { at, by, wish: request, id: _ } = asked;
        match request {
            Wish::Pause => self.pause = Pause::Asked { at: *at },
            Wish::GoOn => {
                return match std::mem::take(&mut self.pause) {
                    Pause::Since { at } => now.since(at),
                    Pause::No | Pause::Asked { .. } => Millis::ZERO,
                };
            }
            Wish::Stop => self.stop = Some(*at),
            Wish::Skip { task } => {
                self.skips.push(SkipAsked { task: task.clone(), at: *at, by: by.clone() });
            }
            Wish::Note { text } => {
                self.notes.push(Note { at: *at, by: by.clone(), text: text.clone() });
            }
        }
        Millis::ZERO
    }

    /// Drops pause and stop requests when the run is resumed. Requests about the work
    /// stay.
    pub fn begin_anew(&mut self) {
        self.pause = Pause::No;
        self.stop = None;
    }
}

/// Returns whether an agent in a role gets the user's notes. Roles that change no code do
/// not: the note would be lost.
pub fn takes_notes(role: Role) -> bool {
    match role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix => true,
        Role::Review | Role::Compact | Role::Message => false,
    }
}

impl Note {
    /// Returns the note as a section of a prompt.
    fn section(&self) -> String {
        let by = self.by.as_deref().unwrap_or("the person who watches this run");
        format!("# A note from {by}\n\n{}", self.text.trim())
    }
}

/// Returns a prompt with notes appended. They are never cut.
pub fn with_notes(prompt: String, notes: &[Note]) -> String {
    notes.iter().fold(prompt, |prompt, note| format!("{}\n\n{}", prompt.trim_end(), note.section()))
}

/// Returns how many characters the notes add to a prompt.
pub(crate) fn length(notes: &[Note]) -> usize {
    with_notes(String::new(), notes).chars().count()
}
