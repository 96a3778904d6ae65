//! The plan that an agent keeps: what became of it after the agent.
//!
//! An agent may do anything to the file. So ralph keeps a copy of the last plan that was one, and
//! a plan that is lost is put back. Not here: reading the file, and what its items say.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checklist::{Checklist, Counts};

/// How many open items are named to an agent that believes it is done.
const NAMED: usize = 5;

/// What became of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum PlanLook {
    /// It is there.
    There {
        /// How many items it has.
        counts: Counts,
        /// The first that are open.
        next: Vec<String>,
    },
    /// It is not.
    Lost {
        /// What is there instead.
        loss: Loss,
        /// Whether there is a copy.
        copy: PlanCopy,
    },
}

/// What is there instead of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Loss {
    /// Nothing.
    Missing,
    /// A file without a word in it.
    Empty,
    /// Something that nobody can read.
    Unusable {
        /// Why.
        why: String,
    },
}

/// Whether there is a copy of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanCopy {
    /// There is.
    Kept,
    /// There never was a plan.
    None,
}

impl PlanLook {
    /// Returns what a text that is there says.
    pub fn of(text: &str) -> Self {
        let list = Checklist::read(text);
        let next = list.open().take(NAMED).map(|item| item.text.clone()).collect();
        Self::There { counts: list.counts(), next }
    }

    /// Returns what a file that was read says, where there is no copy of it.
    pub fn without_copy(read: Result<Option<String>, String>) -> Self {
        let loss = match read {
            Ok(Some(text)) if text.trim().is_empty() => Loss::Empty,
            Ok(Some(text)) => return Self::of(&text),
            Ok(None) => Loss::Missing,
            Err(why) => Loss::Unusable { why },
        };
        Self::Lost { loss, copy: PlanCopy::None }
    }

    /// Returns what is wrong, and that it was put right, where there was something to put right.
    pub fn put_back(&self, file: &Path) -> Option<String> {
        let Self::Lost { loss, copy: PlanCopy::Kept } = self else { return None };
        let file = file.display();
        Some(match loss {
            Loss::Missing => format!("`{file}` was deleted; it was put back as it was"),
            Loss::Empty => format!("`{file}` was emptied; it was put back as it was"),
            Loss::Unusable { why } => {
                format!("`{file}` could not be read ({why}); it was put back as it was")
            }
        })
    }

    /// Returns whether there is a plan that can be put back.
    pub fn is_to_be_put_back(&self) -> bool {
        matches!(self, Self::Lost { copy: PlanCopy::Kept, .. })
    }

    /// Returns how many items the plan has, if it is there.
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Self::There { counts, .. } => Some(*counts),
            Self::Lost { .. } => None,
        }
    }
}

/// Returns what an agent is told that says it is done while items of its plan are open.
pub(crate) fn contradiction(file: &Path, open: u32, next: &[String]) -> String {
    let items: Vec<String> = next.iter().map(|item| format!("  - [ ] {item}")).collect();
    let more = (open as usize).saturating_sub(items.len());
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let (noun, them) = if open == 1 { ("item is", "it") } else { ("items are", "them") };
    format!(
        "You said that the work is complete, but {open} {noun} open in `{}`:\n{}{more}\nDo {them}, or strike what is not to be done any more and say why there; then say it again.",
        file.display(),
        items.join("\n")
    )
}
