//! Reads the answer of a compacting agent tolerantly: unreadable entries are skipped, and what
//! gets lost that way is carried over. An answer without a memory, or with one that is too large,
//! is an error.

use std::sync::LazyLock;

use ralph_model::agent_output::Reply;
use ralph_model::memory::{ActiveConstraint, FileKnowledge, LibraryDocs, Memory, ResolvedItem};
use serde_json::{Value, json};

use crate::answers::structured_output::{self, Schema};

/// The largest answer in bytes. A prompt has space for a third of it; a larger answer repeats
/// what it was supposed to condense.
pub const MOST_BYTES: usize = 32_000;

/// The answer of a compacting agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryAnswer {
    pub memory: Memory,
    pub resolved: Vec<ResolvedItem>,
}

/// Returns the JSON Schema of a memory.
pub fn build_memory_schema() -> Schema {
    SCHEMA.clone()
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let list = |properties: Value, required: &[&str]| json!({"type": "array", "items": {"type": "object", "properties": properties, "required": required}});
    let schema = json!({
        "type": "object",
        "properties": {
            "project_summary": text(),
            "completed_work": texts(),
            "active_constraints": list(
                json!({"constraint": text(), "source_iteration": text()}),
                &["constraint"],
            ),
            "architectural_decisions": texts(),
            "unresolved_issues": texts(),
            "file_knowledge": list(json!({"path": text(), "purpose": text()}), &["path", "purpose"]),
            "library_docs": list(
                json!({"library": text(), "key_apis": text(), "usage_notes": text()}),
                &["library", "key_apis"],
            ),
            "resolved": list(json!({"item": text(), "reason": text()}), &["item", "reason"]),
        },
        "required": [
            "project_summary", "completed_work", "active_constraints", "architectural_decisions",
            "file_knowledge",
        ],
    });
    Schema::with_example(schema, EXAMPLE)
});

const EXAMPLE: &str = r#"{
  "project_summary": "what the project is, in a few sentences",
  "completed_work": ["a thing that is done"],
  "active_constraints": [{"constraint": "what always holds", "source_iteration": "3"}],
  "architectural_decisions": ["what later work has to follow"],
  "unresolved_issues": ["what is open"],
  "file_knowledge": [{"path": "a file that matters", "purpose": "what for"}],
  "library_docs": [{"library": "", "key_apis": "", "usage_notes": ""}],
  "resolved": [{"item": "a constraint or issue that no longer holds, word for word", "reason": "why"}]
}"#;

/// Returns what is wrong with the form of an answer that should contain a memory, as text for the
/// agent.
pub(crate) fn check_memory_form(reply: &Reply, token: Option<&str>) -> Result<(), String> {
    let found = structured_output::find_reply_answer(reply, &build_memory_schema(), token);
    found.map(|_| ()).map_err(|fault| fault.to_string())
}

/// Reads the memory in the answer to a call with a token. The error describes what is wrong with
/// it.
pub fn parse_memory(reply: &Reply, token: Option<&str>) -> Result<MemoryAnswer, String> {
    match structured_output::find_reply_answer(reply, &build_memory_schema(), token) {
        Ok(value) => from_value(&value),
        Err(fault) => Err(format!("the answer contains no memory: {fault}")),
    }
}

fn from_value(value: &Value) -> Result<MemoryAnswer, String> {
    let Some(summary) = value.get("project_summary").and_then(Value::as_str) else {
        return Err("the answer contains no memory: it has no `project_summary`".to_owned());
    };
    let is_example = build_memory_schema().parse_example()["project_summary"] == summary;
    if summary.trim().is_empty() || is_example {
        return Err("the memory in the answer is empty".to_owned());
    }
    let size = value.to_string().len();
    if size > MOST_BYTES {
        return Err(format!("the memory in the answer has {size} bytes, more than {MOST_BYTES}"));
    }
    let memory = Memory {
        project_summary: summary.trim().to_owned(),
        completed_work: parse_texts(value, "completed_work"),
        active_constraints: parse_entries(value, "active_constraints", parse_constraint),
        architectural_decisions: parse_texts(value, "architectural_decisions"),
        unresolved_issues: parse_texts(value, "unresolved_issues"),
        file_knowledge: parse_entries(value, "file_knowledge", |entry| {
            Some(FileKnowledge {
                path: parse_text(entry, "path")?,
                purpose: parse_text(entry, "purpose")?,
            })
        }),
        library_docs: parse_entries(value, "library_docs", |entry| {
            Some(LibraryDocs {
                library: parse_text(entry, "library")?,
                key_apis: parse_text(entry, "key_apis")?,
                usage_notes: parse_text(entry, "usage_notes"),
            })
        }),
        carried_over: Vec::new(),
    };
    let resolved = parse_entries(value, "resolved", |entry| {
        // Without a reason the item counts as forgotten.
        Some(ResolvedItem {
            item: parse_text(entry, "item")?,
            reason: parse_text(entry, "reason")?,
        })
    });
    Ok(MemoryAnswer { memory, resolved })
}

fn parse_constraint(entry: &Value) -> Option<ActiveConstraint> {
    let plain = entry.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let constraint = plain.or_else(|| parse_text(entry, "constraint"))?;
    let source_iteration = parse_text(entry, "source_iteration")
        .or_else(|| entry.get("source_iteration")?.as_u64().map(|number| number.to_string()));
    Some(ActiveConstraint { constraint, source_iteration })
}

fn parse_entries<T>(value: &Value, key: &str, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let entries = value.get(key).and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(read).collect()
}

fn parse_texts(value: &Value, key: &str) -> Vec<String> {
    parse_entries(value, key, |entry| {
        entry.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    })
}

/// Returns a text that is not empty.
fn parse_text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_error(value: &Value, expect: &str) {
        let error = from_value(value).expect_err("it is no memory");
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn an_answer_without_a_memory_is_rejected() {
        check_error(&json!({}), "`project_summary`");
        check_error(&json!({"project_summary": 7}), "`project_summary`");
        check_error(&json!({"project_summary": " "}), "empty");
        check_error(&json!({"project_summary": "x".repeat(MOST_BYTES)}), "more than 32000");
    }

    #[test]
    fn entries_are_read_tolerantly() {
        let value = json!({
            "project_summary": " A shop. ",
            "completed_work": ["cart", "", 7],
            "active_constraints": ["no net", {"constraint": "one writer", "source_iteration": 3},
                {"constraint": "old git", "source_iteration": "4"}, {"odd": 1}],
            "file_knowledge": [{"path": "a", "purpose": "b"}, {"path": "c"}],
            "library_docs": [{"library": "l", "key_apis": "k"}],
            "resolved": [{"item": "i", "reason": "r"}, {"item": "j", "reason": " "}, {"item": "k"}],
            "carried_over": ["not the agent's to say"],
        });
        let constraint = |text: &str, source: Option<&str>| ActiveConstraint {
            constraint: text.into(),
            source_iteration: source.map(str::to_owned),
        };
        let memory = Memory {
            project_summary: "A shop.".into(),
            completed_work: vec!["cart".into()],
            active_constraints: vec![
                constraint("no net", None),
                constraint("one writer", Some("3")),
                constraint("old git", Some("4")),
            ],
            file_knowledge: vec![FileKnowledge { path: "a".into(), purpose: "b".into() }],
            library_docs: vec![LibraryDocs {
                library: "l".into(),
                key_apis: "k".into(),
                usage_notes: None,
            }],
            ..Memory::default()
        };
        let resolved = vec![ResolvedItem { item: "i".into(), reason: "r".into() }];
        assert_eq!(from_value(&value), Ok(MemoryAnswer { memory, resolved }));
    }

    #[test]
    fn the_schema_demands_what_it_describes() {
        let schema = build_memory_schema();
        for name in schema["required"].as_array().expect("a list") {
            assert!(schema["properties"].get(name.as_str().expect("a name")).is_some());
        }
    }
}
