//! Reviews by an agent with a fresh context, as data, and reading the verdict in an answer.
//!
//! [`convergence`] detects reviews that repeat themselves. Not here: which changes a role may
//! make to a review's state.

pub mod convergence;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent_output::Reply;
use crate::structured_output::{self, AnswerFault, Schema};

/// Prefix of the feedback of a review that approved only because no further review is allowed.
pub(crate) const AUTO_APPROVED_PREFIX: &str = "[AUTO-APPROVED AT CAP]";

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
    pub(crate) fn close_open_review(&self) -> Self {
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

/// Returns the JSON Schema of a verdict.
pub fn build_verdict_schema() -> Schema {
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

/// What a valid verdict must contain besides its decision.
#[derive(Debug, Clone, Copy, Default)]
pub struct VerdictDemands<'a> {
    /// The criteria that an approval must give evidence for.
    pub criteria: &'a [String],
    /// The token in the prompt, if one was given.
    pub token: Option<&'a str>,
}

/// Reads the verdict in an answer. An approval that calls a criterion unmet counts as a request
/// for changes.
pub fn parse_review_answer(reply: &Reply, token: Option<&str>) -> Option<ReviewAnswer> {
    read_verdict(&find_verdict(reply, token).ok()?).ok()
}

/// Returns what is wrong with an answer that should contain a verdict, as text for the agent.
pub(crate) fn check_answer(reply: &Reply, demands: VerdictDemands<'_>) -> Result<(), String> {
    let value = find_verdict(reply, demands.token).map_err(|fault| fault.to_string())?;
    let answer = read_verdict(&value)?;
    if answer.verdict == ReviewVerdict::ChangesRequested {
        return Ok(());
    }
    // Without the token the object may be a quotation. Then the text around it must not refuse.
    let is_sure = demands.token.is_none_or(|token| structured_output::has_token(&value, token));
    if !is_sure
        && is_refusal(&structured_output::extract_prose(&reply.text, &build_verdict_schema()))
    {
        return Err("its JSON object approves, but the text around it asks for changes".to_owned());
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

fn find_verdict(reply: &Reply, token: Option<&str>) -> Result<Value, AnswerFault> {
    match (&reply.structured, token) {
        (Some(value), _) => Ok(value.clone()),
        (None, Some(token)) => {
            structured_output::find_answer(&reply.text, &build_verdict_schema().with_token(token))
        }
        (None, None) => structured_output::find_answer(&reply.text, &build_verdict_schema()),
    }
}

/// Phrases that refuse an approval, in lower case.
const REFUSAL_PHRASES: [&str; 9] = [
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

fn is_refusal(prose: &str) -> bool {
    let prose = prose.to_lowercase();
    REFUSAL_PHRASES.iter().any(|phrase| prose.contains(phrase))
}

/// Reads a verdict, lenient about its form. The error describes what is wrong with it.
fn read_verdict(value: &Value) -> Result<ReviewAnswer, String> {
    let verdict = match structured_output::normalize_value(value, "verdict").as_deref() {
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
    let given = value.get("feedback").and_then(Value::as_str).unwrap_or_default().trim();
    let verdict = if unmet.is_empty() { verdict } else { ReviewVerdict::ChangesRequested };
    let feedback = match (given.is_empty(), unmet.is_empty()) {
        (true, true) => String::new(),
        (false, true) => given.to_owned(),
        (true, false) => unmet.join("\n"),
        (false, false) => format!("{given}\n{}", unmet.join("\n")),
    };
    match verdict {
        ReviewVerdict::ChangesRequested if feedback.is_empty() => {
            Err("it asks for changes, but `feedback` does not state which".to_owned())
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
