//! Handoffs and verdicts in words: agents without another way print them as their message.

use serde_json::Value;

/// Returns what a message says that is nothing but the JSON object of a handoff or a verdict.
pub(crate) fn describe_answer(message: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(message.trim()).ok()?;
    let handoff = &answer["task_completed"];
    if let Some(summary) = handoff["summary"].as_str() {
        let state = if handoff["fully_complete"] == false { " (not fully complete)" } else { "" };
        return Some(format!("Handoff{state}: {summary}"));
    }
    let verdict = answer["verdict"].as_str()?.replace('_', " ");
    let feedback = answer["feedback"].as_str().filter(|it| !it.trim().is_empty());
    let feedback = feedback.map(|it| format!(": {it}")).unwrap_or_default();
    Some(format!("Verdict {verdict}{feedback}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_that_are_an_answer_as_a_whole_are_described() {
        for (message, expect) in [
            (
                r#" {"token":"a","task_completed":{"summary":"Did it.","fully_complete":true}} "#,
                Some("Handoff: Did it."),
            ),
            (
                r#"{"task_completed":{"summary":"Half.","fully_complete":false}}"#,
                Some("Handoff (not fully complete): Half."),
            ),
            (
                r#"{"verdict":"changes_requested","feedback":"No test."}"#,
                Some("Verdict changes requested: No test."),
            ),
            (r#"{"verdict":"approved","feedback":""}"#, Some("Verdict approved")),
            (r#"{"verdict":{"approved":true}}"#, None),
            (r#"Done: {"verdict":"approved"}"#, None),
            ("{}", None),
            ("[1]", None),
            ("All works.", None),
        ] {
            assert_eq!(describe_answer(message).as_deref(), expect, "{message}");
        }
    }
}
