//! What was asked of a run and is not done yet: part of its state, changed by events alone.
//!
//! Not here: whether a wish is taken, which was decided before it was recorded.

use serde::{Deserialize, Serialize};

use super::{Asked, Wish, WishId};
use crate::ids::{Role, TaskId};
use crate::units::{Millis, Timestamp};

/// A wish is removed from the inbox right after it is recorded, so only the last one can come
/// again after a crash. The others are for those that could not be removed.
const MOST_HEARD: usize = 32;

/// What was asked of a run and is not done yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Control {
    /// Whether it pauses.
    #[serde(default)]
    pub pause: Pause,
    /// When somebody asked it to stop.
    #[serde(default)]
    pub stop: Option<Timestamp>,
    /// The tasks that are to be left out.
    #[serde(default)]
    pub skips: Vec<SkipAsked>,
    /// What the next agent at work is told.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// The wishes that were heard last.
    #[serde(default)]
    heard: Vec<WishId>,
}

/// Whether a run pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Pause {
    /// It does not.
    #[default]
    No,
    /// It will, once the current step is done.
    Asked {
        /// When somebody asked.
        at: Timestamp,
    },
    /// It does.
    Since {
        /// Since when.
        at: Timestamp,
    },
}

/// A task that is to be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipAsked {
    /// The task.
    pub task: TaskId,
    /// When somebody asked.
    pub at: Timestamp,
    /// Who, where that is known.
    pub by: Option<String>,
}

/// Something that an agent is told by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When it was left.
    pub at: Timestamp,
    /// By whom, where that is known.
    pub by: Option<String>,
    /// What it says.
    pub text: String,
}

impl Control {
    /// Returns whether a wish was heard before.
    pub fn has_heard(&self, id: &WishId) -> bool {
        self.heard.contains(id)
    }

    /// Returns who asked to skip a task, if somebody did.
    pub(crate) fn skip_of(&self, task: &TaskId) -> Option<&SkipAsked> {
        self.skips.iter().find(|skip| skip.task == *task)
    }

    /// Remembers that a wish was heard, whatever became of it.
    pub(crate) fn remember(&mut self, id: &WishId) {
        self.heard.push(id.clone());
        let surplus = self.heard.len().saturating_sub(MOST_HEARD);
        self.heard.drain(..surplus);
    }

    /// Takes in a wish that was not refused. Returns how long the pause was that it ends.
    pub(crate) fn hear(&mut self, asked: &Asked, now: Timestamp) -> Millis {
        let Asked { at, by, wish, id: _ } = asked;
        match wish {
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

    /// A run that goes on after its end goes on: what was asked of its former self is void, but
    /// for what is about the work.
    pub fn begin_anew(&mut self) {
        self.pause = Pause::No;
        self.stop = None;
    }
}

/// Returns whether an agent in a role is told what people noted. Those that change nothing are
/// not: the note would be lost on them.
pub fn takes_notes(role: Role) -> bool {
    match role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix => true,
        Role::Review | Role::Compact | Role::Message => false,
    }
}

impl Note {
    /// Returns the section of a prompt that it is.
    fn section(&self) -> String {
        let by = self.by.as_deref().unwrap_or("the person who watches this run");
        format!("# A note from {by}\n\n{}", self.text.trim())
    }
}

/// Returns a prompt with notes after it. They are never cut.
pub fn with_notes(prompt: String, notes: &[Note]) -> String {
    notes.iter().fold(prompt, |prompt, note| format!("{}\n\n{}", prompt.trim_end(), note.section()))
}

/// Returns how many characters notes add to a prompt.
pub(crate) fn length(notes: &[Note]) -> usize {
    with_notes(String::new(), notes).chars().count()
}
