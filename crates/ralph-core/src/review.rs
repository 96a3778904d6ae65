//! Reviews by a fresh context, as data.
//!
//! Not here: which changes a role may make to a review's state.

use serde::{Deserialize, Serialize};

/// What the reviews of a task have come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewState {
    /// Where it stands.
    pub status: ReviewStatus,
    /// How many reviews there were.
    pub count: u32,
    /// What the last one asked for; empty unless changes were requested.
    pub feedback: String,
}

/// Where the review of a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewStatus {
    /// Nothing to review yet.
    None,
    /// An attempt passed its gates and waits for a review.
    NeedsReview,
    /// A review found something to mend.
    ChangesRequested,
    /// A review approved it.
    Approved,
}

impl ReviewStatus {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::None, Self::NeedsReview, Self::ChangesRequested, Self::Approved];

    /// Returns the word used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NeedsReview => "needs_review",
            Self::ChangesRequested => "changes_requested",
            Self::Approved => "approved",
        }
    }

    /// Returns the status of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Returns whether a review or a fix is still to come.
    pub fn is_open(self) -> bool {
        match self {
            Self::NeedsReview | Self::ChangesRequested => true,
            Self::None | Self::Approved => false,
        }
    }
}

/// The answer of a reviewing agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewAnswer {
    /// What it decides.
    pub verdict: ReviewVerdict,
    /// Exactly what to mend and where.
    pub feedback: String,
    /// Each criterion with the evidence found.
    pub criteria: Vec<CriterionCheck>,
}

/// What a review decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    /// The task is done.
    Approved,
    /// It is not.
    ChangesRequested,
}

/// A criterion as a review found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionCheck {
    /// The criterion.
    pub criterion: String,
    /// Whether it is met.
    pub met: bool,
    /// What shows it.
    pub evidence: String,
}

/// Whether work is reviewed, and how often at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewPolicy {
    /// A passing attempt is done.
    Skip,
    /// A fresh agent reviews it.
    Fresh {
        /// The number of the review that approves whatever it finds, marked as such.
        cap: u32,
    },
}
