//! Reviews by an agent with a fresh context: policy, state of a task, verdict and complaints.
//!
//! Not here: reading a verdict, and comparing complaints.

use serde::{Deserialize, Serialize};

use crate::worktree::TreeId;

/// Prefix of the feedback of a review that approved only because no further review is allowed.
pub const AUTO_APPROVED_PREFIX: &str = "[AUTO-APPROVED AT CAP]";

/// The review state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewState {
    pub status: ReviewStatus,
    pub count: u32,
    /// What the last review asked for; empty unless changes were requested.
    pub feedback: String,
}

impl ReviewState {
    /// Returns the state of a task that is finished without waiting for its open review.
    #[must_use]
    pub fn close_open_review(&self) -> Self {
        Self { status: ReviewStatus::None, count: self.count, feedback: String::new() }
    }

    /// Returns whether the last review approved only because no further review is allowed.
    pub fn is_approved_at_cap(&self) -> bool {
        self.status == ReviewStatus::Approved && self.feedback.starts_with(AUTO_APPROVED_PREFIX)
    }
}

/// The status of a task's review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewStatus {
    None,
    /// An attempt passed its gates and waits for a review.
    NeedsReview,
    /// A review found something to fix.
    ChangesRequested,
    Approved,
}

impl ReviewStatus {
    pub const ALL: [Self; 4] =
        [Self::None, Self::NeedsReview, Self::ChangesRequested, Self::Approved];

    /// Returns the name used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NeedsReview => "needs_review",
            Self::ChangesRequested => "changes_requested",
            Self::Approved => "approved",
        }
    }

    /// Returns the status with this name.
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
    pub verdict: ReviewVerdict,
    /// Exactly what to fix and where.
    pub feedback: String,
    /// Each criterion with the evidence found.
    pub criteria: Vec<CriterionCheck>,
}

/// The decision of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    Approved,
    ChangesRequested,
}

impl ReviewVerdict {
    /// Returns the decision as text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::ChangesRequested => "changes requested",
        }
    }
}

/// The result of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewResult {
    Approved,
    /// The task is done because no further review is allowed; a person should check it.
    ApprovedAtCap,
    ChangesRequested,
}

impl ReviewResult {
    /// Returns the result of a recorded verdict.
    pub fn new(verdict: ReviewVerdict, feedback: &str) -> Self {
        match verdict {
            _ if feedback.starts_with(AUTO_APPROVED_PREFIX) => Self::ApprovedAtCap,
            ReviewVerdict::Approved => Self::Approved,
            ReviewVerdict::ChangesRequested => Self::ChangesRequested,
        }
    }

    /// Returns the result as text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::ApprovedAtCap => "approved at the cap",
            Self::ChangesRequested => "changes requested",
        }
    }
}

/// A criterion, as a review judged it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionCheck {
    pub criterion: String,
    pub met: bool,
    pub evidence: String,
}

/// Whether work is reviewed, and how often at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewPolicy {
    /// An attempt that passes its gates is done.
    Skip,
    /// An agent with a fresh context reviews it.
    Fresh {
        /// The number of the review that approves in any case, marked as such.
        cap: u32,
    },
}

/// A review that asked for changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComplaint {
    pub review: u32,
    /// What it wanted fixed.
    pub feedback: String,
    pub met: Vec<String>,
    pub unmet: Vec<String>,
    pub tree: Option<TreeId>,
}

/// Why the reviews of a task make no progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "as")]
pub enum Divergence {
    /// The same complaint came again and again.
    SameComplaint {
        /// How often in a row.
        times: u32,
    },
    /// A review calls unmet what the previous one called met.
    Contradiction { criterion: String },
    /// The work is again in a state that an earlier review rejected.
    BackAgain { review: u32 },
}

impl Divergence {
    /// Returns the divergence as text.
    pub fn description(&self) -> String {
        match self {
            Self::SameComplaint { times } => {
                format!("{times} reviews in a row ask for the same thing")
            }
            Self::Contradiction { criterion } => {
                format!(
                    "the last review calls a criterion unmet that the previous one called met: {criterion}"
                )
            }
            Self::BackAgain { review } => {
                format!("the work is again in the state that review {review} rejected")
            }
        }
    }
}
