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
    let schema = json!({
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
    });
    Schema::with_example(schema, EXAMPLE)
});

const EXAMPLE: &str = r#"{
  "verdict": "approved, or changes_requested",
  "feedback": "what to fix and where (file:line); empty if approved",
  "criteria": [{"criterion": "a criterion, word for word", "met": true, "evidence": "the code and the test or command that show it"}]
}"#;

/// What a valid verdict must contain besides its decision.
#[derive(Debug, Clone, Copy, Default)]
pub struct VerdictDemands<'a> {
    /// The criteria that an approval must give evidence for.
    pub criteria: &'a [String],
    /// Whether it must give some evidence even if there are no criteria.
    pub needs_evidence: bool,
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
    let mut shown: Vec<usize> = Vec::new();
    // Spaces, marks and characters of no width say nothing.
    let has_words = |evidence: &str| evidence.chars().any(char::is_alphanumeric);
    let evident = || answer.criteria.iter().filter(|check| has_words(&check.evidence));
    if demands.needs_evidence && evident().next().is_none() {
        return Err(
            "it approves without an entry in `criteria` with `evidence`. The task lists no \
                    criteria: name what it asks for, and what shows that it is done"
                .to_owned(),
        );
    }
    for check in evident() {
        shown.extend(find_criterion(demands.criteria, &shown, &check.criterion));
    }
    let missing: Vec<String> = (demands.criteria.iter().enumerate())
        .filter(|(at, _)| !shown.contains(at))
        .map(|(at, criterion)| format!("\n{}. {}", at + 1, criterion.trim()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "it approves without an entry in `criteria` with `evidence` for each criterion. Missing:{}",
        missing.concat()
    ))
}

/// Returns which criterion an entry is about: by its exact text, by its text without marks and case
/// (of several such, one that is not shown yet), otherwise by its number.
fn find_criterion(criteria: &[String], shown: &[usize], entry: &str) -> Option<usize> {
    let name = normalize_criterion(entry);
    let is_alike = |at: &usize| normalize_criterion(&criteria[*at]) == name;
    let exact = criteria.iter().position(|criterion| criterion.trim() == entry.trim());
    let exact = exact.filter(|at| !shown.contains(at));
    let by_text = exact.or_else(|| {
        let mut alike = (0..criteria.len()).filter(is_alike);
        alike.find(|at| !shown.contains(at))
    });
    by_text.or_else(|| {
        let digits: String = name
            .trim_start_matches("criterion")
            .trim_start_matches([' ', '#'])
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let (_, rest) = name.split_once(&digits).filter(|_| !digits.is_empty())?;
        let is_number = rest.is_empty() || rest.starts_with(['.', ')', ':']);
        let number: usize = digits.parse().ok().filter(|_| is_number)?;
        number.checked_sub(1).filter(|at| *at < criteria.len())
    })
}

/// Returns a criterion without what agents change when they copy it: case, spacing, list marks,
/// and punctuation around it.
fn normalize_criterion(text: &str) -> String {
    // Agents leave out marks such as backticks and quotes when they repeat a criterion.
    let text = text.replace(['`', '"', '\'', '*'], "");
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let line = words.join(" ");
    let line = line.trim_start_matches("- ").trim_start_matches("[ ] ").trim_start_matches("[x] ");
    line.trim_matches(['.', ' ']).to_owned()
}

fn find_verdict(reply: &Reply, token: Option<&str>) -> Result<Value, AnswerFault> {
    structured_output::find_reply_answer(reply, &build_verdict_schema(), token)
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
