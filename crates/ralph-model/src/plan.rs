//! The plan that an agent maintains: its state after the agent.
//!
//! Not here: reading the file, and its items.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// How far a text is, in check boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Boxes without a mark.
    pub open: u32,
    /// Boxes with one.
    pub done: u32,
    /// Boxes with a question mark: only a person can do the item. Neither open nor done.
    #[serde(default)]
    pub person: u32,
}

impl Counts {
    /// Returns the number of items, with those that only a person can do.
    pub fn total(self) -> u32 {
        self.open.saturating_add(self.done).saturating_add(self.person)
    }

    /// Returns `2 items need a person`, if so.
    pub fn describe_person_items(self) -> Option<String> {
        match self.person {
            0 => None,
            1 => Some("1 item needs a person".to_owned()),
            count => Some(format!("{count} items need a person")),
        }
    }
}

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
        /// The first items that only a person can do.
        #[serde(default)]
        person: Vec<String>,
        #[serde(default, skip_serializing_if = "RemovedItems::is_empty")]
        removed: RemovedItems,
    },
    /// There is no usable plan.
    Lost { loss: PlanLoss, copy: PlanCopy },
}

/// Items that were removed from a plan during the run and never marked as done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemovedItems {
    pub count: u32,
    /// How many of them are not struck through in the plan either.
    pub deleted: u32,
    /// The items, deleted ones before struck ones. In old journals only the first five.
    #[serde(rename = "first")]
    pub items: Vec<String>,
}

/// How many items a message names.
pub const NAMED_ITEMS: usize = 5;

impl RemovedItems {
    /// Returns whether no item was removed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns `2 items were removed from the plan and never marked done: one; two`, if so.
    pub fn describe(&self) -> Option<String> {
        let items = match self.count {
            0 => return None,
            1 => "1 item was".to_owned(),
            count => format!("{count} items were"),
        };
        let first = &self.items[..self.items.len().min(NAMED_ITEMS)];
        let more = if first.len() < self.count as usize { "; ..." } else { "" };
        let names = first.join("; ");
        Some(format!("{items} removed from the plan and never marked done: {names}{more}"))
    }
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

    /// Returns the items that were removed from a usable plan.
    pub fn removed(&self) -> Option<&RemovedItems> {
        match self {
            Self::Usable { removed, .. } => Some(removed),
            Self::Lost { .. } => None,
        }
    }

    /// Returns the item counts of a usable plan.
    pub fn counts(&self) -> Option<Counts> {
        match self {
            Self::Usable { counts, .. } => Some(*counts),
            Self::Lost { .. } => None,
        }
    }
}
