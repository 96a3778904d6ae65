//! Tool calls of Gemini CLI and Qwen Code: what to show of an input, which file a call changes,
//! and the to-do list.
//!
//! Not here: how a call is written on the wire.

use std::collections::BTreeMap;

use ralph_model::agent_output::{AgentEvent, Speaker, TodoItem, TodoState, ToolOutcome};
use ralph_model::text::shorten_to_line;
use serde::Deserialize;

use crate::json_events::{EditTexts, GLANCE_CHARS, MOST_ITEMS, MOST_OPEN_CALLS, shorten_output};
use crate::lenient_json::{Text, read_lenient};

/// The tool calls that have not ended.
#[derive(Debug, Default)]
pub(super) struct OpenToolCalls(BTreeMap<String, GeminiOpenCall>);

/// What a call changes if it succeeds.
#[derive(Debug)]
struct GeminiOpenCall {
    path: Option<String>,
    edit: Option<EditTexts>,
    todo: Option<Vec<TodoItem>>,
}

impl OpenToolCalls {
    /// Returns whether none is open.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Opens a call.
    pub(super) fn start_call(
        &mut self,
        id: String,
        name: String,
        raw: &str,
        speaker: Speaker,
    ) -> AgentEvent {
        let input: GeminiToolInput<'_> = serde_json::from_str(raw).unwrap_or_default();
        if self.0.len() >= MOST_OPEN_CALLS {
            self.0.clear();
        }
        let path = match name.as_str() {
            "write_file" | "replace" | "edit" => input.file_path.as_ref(),
            _ => None,
        };
        let path = path.map(|path| path.0.to_string());
        let edit = path.as_ref().and_then(|_| EditTexts::from_raw(raw));
        let todo = match (name.as_str(), speaker) {
            ("write_todos", Speaker::Agent) => input.todos.as_deref().map(convert_items),
            (_, Speaker::Agent | Speaker::Subagent) => None,
        };
        self.0.insert(id.clone(), GeminiOpenCall { path, edit, todo });
        AgentEvent::ToolStarted { id, name, summary: input.summarize_input(raw), speaker }
    }

    /// Ends a call. Its changes are reported only if it succeeded.
    pub(super) fn end_call(
        &mut self,
        id: String,
        outcome: ToolOutcome,
        output: &str,
    ) -> Vec<AgentEvent> {
        let call = self.0.remove(&id);
        let output = shorten_output(output);
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        match (outcome, call) {
            (ToolOutcome::Ok, Some(GeminiOpenCall { path, edit, todo })) => {
                let edited = edit.zip(path.clone()).map(|(edit, path)| edit.into_event(path));
                events.extend(path.map(|path| AgentEvent::FileChanged { path }));
                events.extend(edited);
                events.extend(todo.map(|items| AgentEvent::Todo { items }));
            }
            (ToolOutcome::Error, _) | (ToolOutcome::Ok, None) => {}
        }
        events
    }
}

/// The fields of inputs that are worth showing, and the to-do list.
#[derive(Debug, Default, Deserialize)]
struct GeminiToolInput<'a> {
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    command: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    file_path: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    pattern: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    query: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    url: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "read_lenient")]
    description: Option<Text<'a>>,
    #[serde(default, deserialize_with = "read_lenient")]
    todos: Option<Vec<GeminiTodo>>,
}

impl GeminiToolInput<'_> {
    fn summarize_input(&self, raw: &str) -> String {
        let candidates = [
            &self.command,
            &self.file_path,
            &self.pattern,
            &self.query,
            &self.url,
            &self.description,
        ];
        match (candidates.into_iter().flatten().next(), &self.todos) {
            (Some(text), _) => shorten_to_line(&text.0, GLANCE_CHARS),
            (None, Some(todos)) => format!("{} items", todos.len()),
            (None, None) if raw == "{}" => String::new(),
            (None, None) => shorten_to_line(raw, GLANCE_CHARS),
        }
    }
}

#[derive(Debug, Deserialize)]
struct GeminiTodo {
    #[serde(default, deserialize_with = "read_lenient")]
    description: Option<String>,
    #[serde(default, deserialize_with = "read_lenient")]
    status: Option<String>,
}

fn convert_items(todos: &[GeminiTodo]) -> Vec<TodoItem> {
    todos
        .iter()
        .filter(|todo| todo.status.as_deref() != Some("cancelled"))
        .take(MOST_ITEMS)
        .map(|todo| TodoItem {
            text: todo.description.clone().unwrap_or_default(),
            state: match todo.status.as_deref() {
                Some("completed") => TodoState::Done,
                Some("in_progress") => TodoState::Active,
                Some(_) | None => TodoState::Pending,
            },
        })
        .collect()
}
