//! Reviews by a fresh context, as data, and reading the verdict in an answer.
//!
//! Whether reviews get anywhere is told in [`convergence`]. Not here: which changes a role may
//! make to a review's state.

pub mod convergence;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{self, Schema};
use crate::reading::Reply;

/// How the feedback of a review begins that approved only because it was the last one.
pub(crate) const AT_CAP: &str = "[AUTO-APPROVED AT CAP]";

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

impl ReviewState {
    /// Returns the state of a task that is finished without waiting for the review that was open.
    #[must_use]
    pub(crate) fn put_by(&self) -> Self {
        Self { status: ReviewStatus::None, count: self.count, feedback: String::new() }
    }

    /// Returns whether the last review approved only because it was the last one.
    pub fn is_approved_at_cap(&self) -> bool {
        self.status == ReviewStatus::Approved && self.feedback.starts_with(AT_CAP)
    }
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

impl ReviewVerdict {
    /// Returns the decision in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::ChangesRequested => "changes requested",
        }
    }
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

/// Returns the JSON Schema of a verdict.
pub fn schema() -> Schema {
    SCHEMA.clone()
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::new(json!({
        "type": "object",
        "properties": {
            "verdict": {"type": "string", "enum": ["approved", "changes_requested"]},
            "feedback": {"type": "string"},
            "criteria": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "criterion": {"type": "string"},
                        "met": {"type": "boolean"},
                        "evidence": {"type": "string"},
                    },
                    "required": ["criterion", "met", "evidence"],
                },
            },
        },
        "required": ["verdict", "feedback", "criteria"],
    }))
});

/// Reads the verdict in an answer. One that asks for changes without saying which is none, and
/// one that approves while it calls a criterion unmet asks for changes.
pub fn answer(reply: &Reply) -> Option<ReviewAnswer> {
    let candidates =
        reply.structured.clone().into_iter().chain(answer::find(&reply.text, &schema()));
    candidates.into_iter().find_map(|value| read(&value))
}

fn read(value: &Value) -> Option<ReviewAnswer> {
    let verdict: ReviewVerdict = serde_json::from_value(value.get("verdict")?.clone()).ok()?;
    let entries = value.get("criteria").and_then(Value::as_array).into_iter().flatten();
    let criteria: Vec<CriterionCheck> =
        entries.filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect();
    let unmet: Vec<String> = criteria
        .iter()
        .filter(|check| !check.met)
        .map(|check| format!("- not met: {} ({})", check.criterion, check.evidence))
        .collect();
    let said = value.get("feedback").and_then(Value::as_str).unwrap_or_default().trim();
    let verdict = if unmet.is_empty() { verdict } else { ReviewVerdict::ChangesRequested };
    let feedback = match (said.is_empty(), unmet.is_empty()) {
        (true, true) => String::new(),
        (false, true) => said.to_owned(),
        (true, false) => unmet.join("\n"),
        (false, false) => format!("{said}\n{}", unmet.join("\n")),
    };
    match verdict {
        ReviewVerdict::ChangesRequested if feedback.is_empty() => None,
        ReviewVerdict::Approved | ReviewVerdict::ChangesRequested => {
            Some(ReviewAnswer { verdict, feedback, criteria })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &Value, expect: Option<(ReviewVerdict, &str)>) {
        let read = read(value);
        let read = read.as_ref().map(|answer| (answer.verdict, answer.feedback.as_str()));
        assert_eq!(read, expect);
    }

    #[test]
    fn verdicts_are_read_strictly() {
        use ReviewVerdict::{Approved, ChangesRequested};
        check(&json!({"verdict": "approved"}), Some((Approved, "")));
        check(
            &json!({"verdict": "changes_requested", "feedback": " a "}),
            Some((ChangesRequested, "a")),
        );
        check(&json!({"verdict": "changes_requested", "feedback": " "}), None);
        check(&json!({"verdict": "fine"}), None);
        check(&json!({"feedback": "approved"}), None);
        check(
            &json!({"verdict": "approved", "feedback": "", "criteria": [
                {"criterion": "c", "met": false, "evidence": "e"}, {"odd": 1}]}),
            Some((ChangesRequested, "- not met: c (e)")),
        );
    }
}
