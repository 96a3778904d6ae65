//! The plan that an agent maintains: its state after the agent.
//!
//! An agent may do anything to the file. So ralph keeps a copy of the last usable plan,
//! and restores a plan that is lost. Not here: reading the file, and its items.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checklist::{Checklist, Counts};

/// How many open items the feedback names to an agent that reports completion.
const NAMED_ITEMS: usize = 5;

/// The state of the plan file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum PlanState {
    /// The plan is usable.
    #[serde(rename = "there")]
    Usable {
        counts: Counts,
        /// The first open items.
        next: Vec<String>,
    },
    /// There is no usable plan.
    Lost { loss: PlanLoss, copy: PlanCopy },
}

/// Why there is no usable plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum PlanLoss {
    /// The file does not exist.
    Missing,
    /// The file is empty.
    Empty,
    /// The file cannot be read.
    Unusable { why: String },
}

/// Whether there is a copy of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanCopy {
    Kept,
    /// There never was a plan.
    None,
}

impl PlanState {
    /// Returns the state for the text of a plan.
    pub fn from_text(text: &str) -> Self {
        let list = Checklist::read(text);
        let next = list.open().take(NAMED_ITEMS).map(|item| item.text.clone()).collect();
        Self::Usable { counts: list.counts(), next }
    }

    /// Returns the state for a file that was read, if there is no copy of it.
    pub fn from_read(read: Result<Option<String>, String>) -> Self {
        let loss = match read {
            Ok(Some(text)) if text.trim().is_empty() => PlanLoss::Empty,
            Ok(Some(text)) => return Self::from_text(&text),
            Ok(None) => PlanLoss::Missing,
            Err(why) => PlanLoss::Unusable { why },
        };
        Self::Lost { loss, copy: PlanCopy::None }
    }

    /// Returns a message that the plan was lost and restored, if there is a copy to
    /// restore.
    pub fn describe_restore(&self, file: &Path) -> Option<String> {
        let Self::Lost { loss, copy: PlanCopy::Kept } = self else { return None };
        let file = file.display();
        Some(match loss {
            PlanLoss::Missing => format!("`{file}` was deleted; it was restored"),
            PlanLoss::Empty => format!("`{file}` was emptied; it was restored"),
            PlanLoss::Unusable { why } => {
                format!("`{file}` could not be read ({why}); it was restored")
            }
        })
    }

    /// Returns whether the plan is lost and can be restored.
    pub fn needs_restore(&self) -> bool {
        matches!(self, Self::Lost { copy: PlanCopy::Kept, .. })
    }

    /// Returns the item counts of a usable plan.
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Self::Usable { counts, .. } => Some(*counts),
            Self::Lost { .. } => None,
        }
    }
}

/// Returns the feedback for an agent that reports completion while items of its plan are
/// open.
pub(crate) fn build_open_items_feedback(file: &Path, open: u32, next: &[String]) -> String {
    let items: Vec<String> = next.iter().map(|item| format!("  - [ ] {item}")).collect();
    let more = (open as usize).saturating_sub(items.len());
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let (noun, them) = if open == 1 { ("item is", "it") } else { ("items are", "them") };
    format!(
        "You said that the work is complete, but {open} {noun} open in `{}`:\n{}{more}\nDo {them}, or remove items that are no longer needed and note why there; then report completion again.",
        file.display(),
        items.join("\n")
    )
}
