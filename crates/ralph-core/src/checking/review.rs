//! Reads the verdict of a review in an agent's answer.
//!
//! [`convergence`] detects reviews that repeat themselves. Not here: which changes a role may
//! make to a review's state.

pub mod convergence;

use std::sync::LazyLock;

use ralph_model::agent_output::Reply;
use ralph_model::review::{CriterionCheck, ReviewAnswer, ReviewVerdict};
use serde_json::{Value, json};

use crate::answers::structured_output::{self, AnswerFault, Schema};

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
