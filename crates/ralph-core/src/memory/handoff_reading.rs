//! Finds the handoff in an answer, tolerantly: agents omit fields, misname priorities and
//! misremember files. Unreadable entries are skipped; if there is no handoff, ralph derives one
//! from git and the agent's final answer.

use std::sync::LazyLock;

use ralph_model::agent_output::Reply;
use ralph_model::handoff::{Amendment, BlockedReason, FileTouched, Handoff, TaskCompleted};
use ralph_model::ids::TaskId;
use ralph_model::text;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answers::structured_output::{self, AnswerFault, Schema};

/// Length of a derived summary, which is the beginning of the final answer.
const SUMMARY_CHARS: usize = 500;

/// How much of an unreadable amendment is kept: enough to see what was meant.
const AMENDMENT_CHARS: usize = 200;

/// Returns the handoff of an iteration: the first candidate that is one, otherwise a derived one.
/// The files always come from git.
pub fn read_handoff(
    candidates: impl IntoIterator<Item = Value>,
    final_answer: &str,
    task: &TaskId,
    files: &[FileTouched],
) -> Handoff {
    let found = candidates.into_iter().find_map(|value| from_value(&value, task));
    let handoff = found.unwrap_or_else(|| derive_handoff(final_answer, task));
    Handoff { files_touched: files.to_vec(), ..handoff }
}

/// Finds the handoff in a reply to a call with a token. The error describes what is wrong with
/// the answer.
pub(crate) fn find_handoff(reply: &Reply, token: Option<&str>) -> Result<Value, HandoffFault> {
    let found = structured_output::find_reply_answer(reply, &build_handoff_schema(), token);
    let value = found.map_err(HandoffFault::Unusable)?;
    read_summary(&remove_example(&value)).ok_or(HandoffFault::WithoutSummary)?;
    Ok(value)
}

/// Why a reply contains no handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandoffFault {
    #[error("{0}")]
    Unusable(AnswerFault),
    #[error("its JSON object has no `task_completed` with a `summary`")]
    WithoutSummary,
}

impl HandoffFault {
    /// Returns whether the agent began to write a handoff.
    pub(crate) fn is_begun(self) -> bool {
        match self {
            Self::Unusable(AnswerFault::Malformed | AnswerFault::CutOff) => true,
            Self::Unusable(
                AnswerFault::Missing | AnswerFault::Contradictory | AnswerFault::WithoutToken,
            )
            | Self::WithoutSummary => false,
        }
    }
}

/// Returns an answer without null entries, and without those that were copied from the example.
fn remove_example(value: &Value) -> Value {
    let mut value = structured_output::remove_nulls(value);
    if let Some(entries) = value.as_object_mut() {
        entries.retain(|key, entry| PARSED_EXAMPLE.get(key) != Some(entry));
    }
    value
}

fn read_summary(value: &Value) -> Option<&str> {
    value.get("task_completed")?.get("summary")?.as_str()
}

fn from_value(value: &Value, task: &TaskId) -> Option<Handoff> {
    let value = &remove_example(value);
    let done = value.get("task_completed")?;
    let summary = read_summary(value)?.to_owned();
    Some(Handoff {
        task_completed: TaskCompleted {
            // An agent that names another task has still worked on this one.
            task_id: task.clone(),
            summary,
            // Only an explicit `false` is a statement that work is left.
            fully_complete: done.get("fully_complete").and_then(Value::as_bool).unwrap_or(true),
        },
        deviations: parse_list(value, "deviations"),
        bugs_encountered: parse_list(value, "bugs_encountered"),
        architectural_notes: parse_list(value, "architectural_notes"),
        unfinished_business: parse_list(value, "unfinished_business"),
        recommendations: parse_list(value, "recommendations"),
        files_touched: Vec::new(),
        plan_amendments: parse_amendments(value),
        tests_added: parse_list(value, "tests_added"),
        constraints_discovered: parse_list(value, "constraints_discovered"),
        blocked: value
            .get("blocked")
            .and_then(|blocked| serde_json::from_value(blocked.clone()).ok())
            .filter(is_real_blocker),
        derived: false,
        changed_nothing: false,
        outcome: None,
    })
}

/// Returns whether a blocker needs something: agents also fill in the field to say that they need
/// nothing.
fn is_real_blocker(blocker: &BlockedReason) -> bool {
    let needs = blocker.needs.trim().trim_end_matches('.').to_lowercase();
    !["", "none", "nothing", "null", "no", "n/a", "-"].contains(&needs.as_str())
}

/// Returns the readable entries of a list.
fn parse_list<T: DeserializeOwned>(value: &Value, key: &str) -> Vec<T> {
    let entries = value.get(key).and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
}

/// Returns the amendments. An unreadable one is kept as text, so that it is reported.
fn parse_amendments(value: &Value) -> Vec<Amendment> {
    let entries = value.get("plan_amendments").and_then(Value::as_array).into_iter().flatten();
    let read = |entry: &Value| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let part = |key: &str| entry.get(key).filter(|part| part.is_object()).cloned();
        let reason = text("reason").unwrap_or_default();
        let read = match text("action")?.to_ascii_lowercase().as_str() {
            "add" => {
                Amendment::Add { task: part("task")?, after: text("after").map(TaskId), reason }
            }
            "modify" => {
                let (task_id, changes) = (TaskId(text("task_id")?), part("changes")?);
                Amendment::Modify { task_id, changes, reason }
            }
            "remove" => Amendment::Remove { task_id: TaskId(text("task_id")?), reason },
            _ => return None,
        };
        Some(read)
    };
    let unreadable = |entry: &Value| Amendment::Unreadable {
        entry: text::join_to_line(&entry.to_string(), AMENDMENT_CHARS),
    };
    entries.map(|entry| read(entry).unwrap_or_else(|| unreadable(entry))).collect()
}

fn derive_handoff(final_answer: &str, task: &TaskId) -> Handoff {
    // Unusable JSON says nothing to people.
    let is_prose = |line: &&str| !line.starts_with('{') && !line.starts_with("```");
    let prose: Vec<&str> = final_answer.lines().map(str::trim).take_while(is_prose).collect();
    Handoff {
        task_completed: TaskCompleted {
            task_id: task.clone(),
            summary: text::shorten_to_line(&prose.join("\n"), SUMMARY_CHARS),
            fully_complete: false,
        },
        deviations: Vec::new(),
        bugs_encountered: Vec::new(),
        architectural_notes: Vec::new(),
        unfinished_business: Vec::new(),
        recommendations: Vec::new(),
        files_touched: Vec::new(),
        plan_amendments: Vec::new(),
        tests_added: Vec::new(),
        constraints_discovered: Vec::new(),
        blocked: None,
        derived: true,
        changed_nothing: false,
        outcome: None,
    }
}

/// Returns the JSON Schema that agents must follow.
pub fn build_handoff_schema() -> Schema {
    SCHEMA.clone()
}

/// Cached: each answer is compared with it.
static PARSED_EXAMPLE: LazyLock<Value> = LazyLock::new(|| SCHEMA.parse_example());

/// Cached: building it takes a hundred small maps.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    let list = |items: Value| json!({"type": "array", "items": items});
    let mut fields = json!({
        "title": text(), "description": text(), "skills": texts(),
        "needs_docs": {"type": "boolean"}, "libraries": texts(),
        "acceptance_criteria": texts(), "depends_on": texts(),
    });
    // Agents would accept a free-form object, but not every API does.
    let changes = object(fields.clone(), &[]);
    fields["id"] = text();
    let task = object(fields, &[]);
    let schema = object(
        json!({
            "task_completed": object(
                json!({"summary": text(), "fully_complete": {"type": "boolean"}}),
                &["summary", "fully_complete"],
            ),
            "deviations": list(object(
                json!({"planned": text(), "actual": text(), "reason": text()}),
                &["planned", "actual", "reason"],
            )),
            "bugs_encountered": list(object(
                json!({"description": text(), "resolution": text(), "resolved": {"type": "boolean"}}),
                &["description", "resolution", "resolved"],
            )),
            "architectural_notes": texts(),
            "unfinished_business": list(object(
                json!({"item": text(), "reason": text(), "priority": {"type": "string", "enum": ["high", "medium", "low"]}}),
                &["item", "reason", "priority"],
            )),
            "recommendations": texts(),
            "plan_amendments": list(object(
                json!({
                    "action": {"type": "string", "enum": ["add", "modify", "remove"]},
                    "task_id": text(), "task": task, "changes": changes,
                    "after": text(), "reason": text(),
                }),
                &["action", "reason"],
            )),
            "constraints_discovered": list(object(
                json!({"constraint": text(), "impact": text(), "workaround": text()}),
                &["constraint", "impact"],
            )),
            "blocked": object(json!({"needs": text(), "why": text()}), &["needs", "why"]),
        }),
        &["task_completed"],
    );
    Schema::with_example(schema, EXAMPLE)
});

/// Agents read this object instead of the schema, so it says what each field means.
const EXAMPLE: &str = r#"{
  "task_completed": {"summary": "what works now, in one or two sentences", "fully_complete": true},
  "architectural_notes": ["a decision that later tasks must follow"],
  "constraints_discovered": [{"constraint": "what always holds", "impact": "what breaks otherwise", "workaround": "what to do instead"}],
  "deviations": [{"planned": "what the task asked for", "actual": "what you did", "reason": "why"}],
  "bugs_encountered": [{"description": "", "resolution": "", "resolved": false}],
  "unfinished_business": [{"item": "", "reason": "", "priority": "high, medium or low"}],
  "recommendations": ["advice for later tasks"],
  "plan_amendments": [
    {"action": "add", "task": {"id": "", "title": "", "description": "", "acceptance_criteria": [""]}, "after": "a task id", "reason": ""},
    {"action": "modify, or remove", "task_id": "", "changes": {"title": ""}, "reason": ""}
  ],
  "blocked": {"needs": "what only a person can give; leave `blocked` out if you need nothing", "why": ""}
}"#;

#[cfg(test)]
mod tests {
    use ralph_model::handoff::{FileAction, Priority};

    use super::*;

    fn task() -> TaskId {
        TaskId("T1".into())
    }

    #[test]
    fn what_can_be_read_is_read() {
        let value = json!({
            "task_completed": {"task_id": "T7", "summary": "Did it."},
            "unfinished_business": [
                {"item": "a", "reason": "b", "priority": "low"},
                {"item": "a", "reason": "b", "priority": "whenever"},
            ],
            "architectural_notes": ["n", 3],
            "files_touched": [{"path": "lie.rs", "action": "created"}],
            "plan_amendments": "none",
            "blocked": {"needs": "a key", "why": "no access"},
        });
        let files = [FileTouched { path: "true.rs".into(), action: FileAction::Modified }];
        let handoff = read_handoff([json!({"other": 1}), value], "words", &task(), &files);
        assert_eq!(handoff.task_completed.task_id, task());
        assert_eq!(handoff.task_completed.summary, "Did it.");
        assert!(!handoff.derived);
        assert_eq!(handoff.unfinished_business.len(), 1);
        assert_eq!(handoff.unfinished_business[0].priority, Priority::Low);
        assert_eq!(handoff.architectural_notes, ["n"]);
        assert_eq!(handoff.files_touched, files);
        assert_eq!(handoff.blocked.expect("it says so").needs, "a key");
    }

    #[test]
    fn a_blocker_that_needs_nothing_is_none() {
        for needs in ["", " ", "none", "None.", "nothing", "n/a"] {
            let value = json!({
                "task_completed": {"summary": "Did it."},
                "blocked": {"needs": needs, "why": ""},
            });
            assert_eq!(read_handoff([value], "", &task(), &[]).blocked, None, "{needs:?}");
        }
    }

    #[test]
    fn an_unreadable_amendment_is_kept() {
        let value = json!({
            "task_completed": {"summary": "Did it."},
            "plan_amendments": [
                {"action": "Remove", "task_id": "T9", "reason": null, "task": null},
                {"action": "reorder", "task_id": "T9"},
                {"action": "add", "task": null, "reason": "r"},
                "remove T9",
            ],
        });
        let read = read_handoff([value], "", &task(), &[]).plan_amendments;
        let remove = Amendment::Remove { task_id: TaskId("T9".into()), reason: String::new() };
        assert_eq!(read[0], remove);
        let is_kept = |it: &Amendment| matches!(it, Amendment::Unreadable { .. });
        assert!(read.len() == 4 && read[1..].iter().all(is_kept), "{read:?}");
    }

    #[test]
    fn null_is_the_same_as_absent() {
        let value = json!({
            "task_completed": {"task_id": "T1", "summary": "Did it.", "fully_complete": true},
            "recommendations": null,
            "plan_amendments": [
                {"action": "add", "task_id": null, "changes": null, "after": null, "reason": "r",
                 "task": {"id": "N", "title": "New", "description": "d", "skills": null}},
                {"action": "modify", "task_id": "T2", "task": null, "after": null, "reason": "r",
                 "changes": {"title": "Other", "description": null}},
            ],
            "constraints_discovered": [{"constraint": "c", "impact": "i", "workaround": null}],
            "blocked": null,
        });
        let handoff = read_handoff([value], "words", &task(), &[]);
        assert!(!handoff.derived);
        let added = json!({"id": "N", "title": "New", "description": "d"});
        let changed = json!({"title": "Other"});
        let reason = "r".to_owned();
        assert_eq!(
            handoff.plan_amendments,
            [
                Amendment::Add { task: added, after: None, reason: reason.clone() },
                Amendment::Modify { task_id: TaskId("T2".into()), changes: changed, reason },
            ]
        );
        assert_eq!(handoff.constraints_discovered[0].workaround, None);
        assert_eq!(handoff.blocked, None);
    }

    #[test]
    fn a_missing_handoff_is_derived() {
        let handoff = read_handoff([], "I changed\nthings.", &task(), &[]);
        assert!(handoff.derived);
        assert_eq!(
            handoff.task_completed.summary,
            text::shorten_to_line("I changed\nthings.", 500)
        );
        let unusable = "I changed things.\n```json\n{\"token\": \"1\", \"task_completed\": [[[";
        let handoff = read_handoff([], unusable, &task(), &[]);
        assert_eq!(handoff.task_completed.summary, "I changed things.");
        let handoff = read_handoff([], "{\"task_completed\": [[[", &task(), &[]);
        assert_eq!(handoff.task_completed.summary, "");
    }

    #[test]
    fn the_schema_describes_what_is_read() {
        let schema = build_handoff_schema();
        let properties = schema["properties"].as_object().expect("an object");
        for required in schema["required"].as_array().expect("a list") {
            assert!(properties.contains_key(required.as_str().expect("a name")));
        }
        assert_eq!(properties.len(), 9);
        let example = schema.parse_example();
        let shown = example.as_object().expect("the example is an object");
        assert!(properties.keys().all(|name| shown.contains_key(name)), "{example:#}");
    }

    #[test]
    fn what_was_copied_from_the_example_is_not_read() {
        let mut value = build_handoff_schema().parse_example();
        assert!(read_handoff([value.clone()], "words", &task(), &[]).derived);
        value["task_completed"]["summary"] = json!("Did it.");
        let handoff = read_handoff([value], "words", &task(), &[]);
        assert!(!handoff.derived && handoff.task_completed.fully_complete);
        assert_eq!((handoff.blocked, handoff.plan_amendments), (None, Vec::new()));
        assert_eq!(handoff.bugs_encountered, Vec::new());
    }
}
