//! Reviews by a fresh context, as data, and reading the verdict in an answer.
//!
//! Whether reviews get anywhere is told in [`convergence`]. Not here: which changes a role may
//! make to a review's state.

pub mod convergence;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{self, AnswerFault, Schema};
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

/// What a review came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewResult {
    /// The task is done.
    Approved,
    /// The task is done because no further review is allowed, and a person should look at it.
    ApprovedAtCap,
    /// The task is not done.
    ChangesRequested,
}

impl ReviewResult {
    /// Returns what a recorded verdict came to.
    pub fn new(verdict: ReviewVerdict, feedback: &str) -> Self {
        match verdict {
            _ if feedback.starts_with(AT_CAP) => Self::ApprovedAtCap,
            ReviewVerdict::Approved => Self::Approved,
            ReviewVerdict::ChangesRequested => Self::ChangesRequested,
        }
    }

    /// Returns the result in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::ApprovedAtCap => "approved at the cap",
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

/// What a verdict must bring beside its decision.
#[derive(Debug, Clone, Copy, Default)]
pub struct VerdictDemands<'a> {
    /// The criteria that an approval must bring evidence for.
    pub criteria: &'a [String],
    /// The token of the question, where one was given.
    pub token: Option<&'a str>,
}

/// Reads the verdict in an answer. One that approves while it calls a criterion unmet asks for
/// changes.
pub fn answer(reply: &Reply, token: Option<&str>) -> Option<ReviewAnswer> {
    read(&find(reply, token).ok()?).ok()
}

/// Returns what is wrong with an answer that was to hold a verdict, in words for the agent.
pub(crate) fn check_answer(reply: &Reply, demands: VerdictDemands<'_>) -> Result<(), String> {
    let value = find(reply, demands.token).map_err(|fault| fault.to_string())?;
    let answer = read(&value)?;
    if answer.verdict == ReviewVerdict::ChangesRequested {
        return Ok(());
    }
    // Without the token the object may be quoted. Then the words around it must not refuse.
    let is_sure = demands.token.is_none_or(|token| answer::has_token(&value, token));
    if !is_sure && refuses(&answer::prose(&reply.text, &schema())) {
        return Err("its JSON object approves, and the words around it ask for changes".to_owned());
    }
    let shown = answer.criteria.iter().filter(|check| !check.evidence.trim().is_empty()).count();
    if shown >= demands.criteria.len() {
        return Ok(());
    }
    let is_shown = |criterion: &&String| {
        answer.criteria.iter().any(|check| {
            check.criterion.trim() == criterion.trim() && !check.evidence.trim().is_empty()
        })
    };
    let missing: Vec<String> = (demands.criteria.iter())
        .filter(|criterion| !is_shown(criterion))
        .map(|criterion| format!("\n- {criterion}"))
        .collect();
    Err(format!(
        "it approves without an entry in `criteria` with `evidence` for each criterion. Missing:{}",
        missing.concat()
    ))
}

fn find(reply: &Reply, token: Option<&str>) -> Result<Value, AnswerFault> {
    match (&reply.structured, token) {
        (Some(value), _) => Ok(value.clone()),
        (None, Some(token)) => answer::find(&reply.text, &schema().with_token(token)),
        (None, None) => answer::find(&reply.text, &schema()),
    }
}

/// Phrases by which a reviewer refuses, in lower case.
const REFUSALS: [&str; 9] = [
    "changes_requested",
    "changes requested",
    "request changes",
    "requesting changes",
    "not approve",
    "n't approve",
    "not be approved",
    "i refuse",
    "i reject",
];

fn refuses(prose: &str) -> bool {
    let prose = prose.to_lowercase();
    REFUSALS.iter().any(|phrase| prose.contains(phrase))
}

/// Reads a verdict, lenient about its form. The error says what is wrong with it.
fn read(value: &Value) -> Result<ReviewAnswer, String> {
    let verdict = match answer::normalized(value, "verdict").as_deref() {
        Some("approved") => ReviewVerdict::Approved,
        Some("changes_requested") => ReviewVerdict::ChangesRequested,
        Some(_) | None => {
            return Err(
                "its JSON object has no `verdict` that is `approved` or `changes_requested`"
                    .to_owned(),
            );
        }
    };
    let entries = value.get("criteria").and_then(Value::as_array).into_iter().flatten();
    let criteria: Vec<CriterionCheck> = entries.filter_map(read_criterion).collect();
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
        ReviewVerdict::ChangesRequested if feedback.is_empty() => {
            Err("it asks for changes, and `feedback` does not say which".to_owned())
        }
        ReviewVerdict::Approved | ReviewVerdict::ChangesRequested => {
            Ok(ReviewAnswer { verdict, feedback, criteria })
        }
    }
}

fn read_criterion(entry: &Value) -> Option<CriterionCheck> {
    let text = |name: &str| match entry.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let met = match entry.get("met")? {
        Value::Bool(met) => *met,
        Value::String(word) => word.trim().eq_ignore_ascii_case("true"),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(CriterionCheck { criterion: text("criterion"), met, evidence: text("evidence") })
}

#[cfg(test)]
mod tests;
