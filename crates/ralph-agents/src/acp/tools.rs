//! Tool calls: announced, started, updated in pieces, ended.
//!
//! Some agents announce a call before they know its input, some only when they ask for permission,
//! some only when it has ended. Each call becomes one start and one end. Not here: what a tool
//! call does to the text before it (`updates`).

use std::collections::VecDeque;

use ralph_model::agent_output::{AgentEvent, Speaker, TodoItem, TodoState, ToolOutcome};
use ralph_model::text::shorten_to_line;
use serde_json::value::RawValue;

use super::wire;
use crate::json_events::{EditTexts, GLANCE_CHARS, MOST_ITEMS, shorten_output};
use crate::lenient_json::Text;

/// No agent has more calls open at once; this bounds memory for a faulty one.
const MOST_CALLS: usize = 256;

/// More changed files per call than this are dropped.
const MOST_FILES: usize = 100;

/// How much of a command's output is kept until it ends. The rest is not shown.
const MOST_OUTPUT_BYTES: usize = 64 << 10;

/// The tool calls of a turn, newest last.
#[derive(Debug, Default)]
pub(super) struct AcpToolCalls {
    calls: VecDeque<AcpToolCall>,
}

/// The state of a tool call.
#[derive(Debug, Default)]
struct AcpToolCall {
    id: String,
    stage: ToolCallStage,
    name: Option<String>,
    title: Option<String>,
    kind: Option<String>,
    input: Option<String>,
    has_input: bool,
    output: String,
    changed: Vec<String>,
    /// What the edits of these files remove and add.
    edits: Vec<(String, EditTexts)>,
    location: Option<String>,
    items: Option<Vec<TodoItem>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum ToolCallStage {
    #[default]
    Announced,
    Started,
    Ended,
}

impl AcpToolCalls {
    /// Applies an update of a call.
    pub(super) fn push_update(&mut self, update: &wire::ToolCall<'_>) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        let Some(call) = self.find_call(update.id.as_deref().unwrap_or_default()) else {
            return events;
        };
        call.merge_update(update);
        let status = update.status.as_deref();
        let is_over = matches!(status, Some("completed" | "failed"));
        // An input that is present but empty is still incomplete.
        let is_vague = status == Some("pending") && call.has_input && call.input.is_none();
        if call.stage == ToolCallStage::Announced && (is_over || !is_vague) {
            call.stage = ToolCallStage::Started;
            events.push(call.build_start_event());
        }
        if is_over {
            call.stage = ToolCallStage::Ended;
            events.extend(call.build_end_events(update));
        }
        events
    }

    /// Returns the call with an id, new or known; `None` if it has ended.
    fn find_call(&mut self, id: &str) -> Option<&mut AcpToolCall> {
        let known = self.calls.iter().rposition(|call| call.id == id);
        let at = known.unwrap_or_else(|| {
            if self.calls.len() == MOST_CALLS {
                self.calls.pop_front();
            }
            self.calls.push_back(AcpToolCall { id: id.to_owned(), ..AcpToolCall::default() });
            self.calls.len() - 1
        });
        self.calls.get_mut(at).filter(|call| call.stage != ToolCallStage::Ended)
    }
}

impl AcpToolCall {
    fn merge_update(&mut self, update: &wire::ToolCall<'_>) {
        let input: wire::RawInput<'_> = wire::parse_or_default(update.raw_input);
        let candidates = [&input.command, &input.pattern, &input.query, &input.path, &input.url];
        let shown_input = candidates.into_iter().flatten().next().map(|text| text.0.to_string());
        self.input = shown_input.or(self.input.take());
        self.has_input |= update.raw_input.is_some();
        self.items = input.todos.map(parse_items).or(self.items.take());
        let named = update.name.clone();
        let named = named.or_else(|| update.meta.as_ref().and_then(|meta| meta.tool_name.clone()));
        // If there is an input, the first title is the tool's name; without one it describes the
        // tool's action.
        let is_name = |title: &String| {
            let is_word = title.chars().all(|it| it.is_alphanumeric() || it == '_');
            self.has_input && is_word && !title.is_empty()
        };
        let named = named.or_else(|| update.title.clone().filter(is_name));
        self.name = self.name.take().or(named);
        self.title = update.title.clone().or(self.title.take());
        self.kind = update.kind.clone().or(self.kind.take());
        let location = update.locations.iter().flatten().find_map(|location| location.path.clone());
        self.location = location.or(self.location.take());
        for content in update.content.iter().flatten() {
            let is_new = |path: &&String| !self.changed.contains(path);
            if content.kind.as_deref() == Some("diff")
                && let Some(path) = content.path.as_ref().filter(is_new)
                && self.changed.len() < MOST_FILES
            {
                self.changed.push(path.clone());
                let text = |text: &Option<Text<'_>>| {
                    text.as_ref().map(|text| text.0.to_string()).unwrap_or_default()
                };
                let edit = EditTexts::new(&text(&content.old_text), &text(&content.new_text));
                self.edits.extend(edit.map(|edit| (path.clone(), edit)));
            }
        }
        let piece = update.meta.as_ref().and_then(|meta| meta.terminal_output_delta.as_ref());
        if let Some(piece) = piece.and_then(|piece| piece.data.as_ref())
            && self.output.len() < MOST_OUTPUT_BYTES
        {
            self.output.push_str(&piece.0);
        }
    }

    fn build_start_event(&self) -> AgentEvent {
        let name = self.name.as_ref().or(self.kind.as_ref()).map_or("tool", String::as_str);
        let files = (!self.changed.is_empty()).then(|| self.changed.join(", "));
        let title = || self.title.clone().filter(|title| title != name);
        let summary = self.input.clone().or(files).or_else(title);
        AgentEvent::ToolStarted {
            id: self.id.clone(),
            name: shorten_to_line(name, GLANCE_CHARS),
            summary: shorten_to_line(&summary.unwrap_or_default(), GLANCE_CHARS),
            speaker: Speaker::Agent,
        }
    }

    fn build_end_events(&mut self, update: &wire::ToolCall<'_>) -> Vec<AgentEvent> {
        let returned: wire::RawOutput<'_> = wire::parse_or_default(update.raw_output);
        let is_ok =
            update.status.as_deref() == Some("completed") && find_exit_code(update, &returned) == 0;
        let outcome = if is_ok { ToolOutcome::Ok } else { ToolOutcome::Error };
        let shown = read_shown_text(update)
            .or_else(|| (!self.output.is_empty()).then(|| std::mem::take(&mut self.output)))
            .or_else(|| read_output_text(&returned, update.raw_output));
        let mut events = vec![AgentEvent::ToolEnded {
            id: self.id.clone(),
            outcome,
            output: shorten_output(&shown.unwrap_or_default()),
        }];
        if is_ok {
            let is_edit = self.kind.as_deref() == Some("edit") && self.changed.is_empty();
            self.changed.extend(self.location.take().filter(|_| is_edit));
            let changed = std::mem::take(&mut self.changed);
            events.extend(changed.into_iter().map(|path| AgentEvent::FileChanged { path }));
            let edits = std::mem::take(&mut self.edits);
            events.extend(edits.into_iter().map(|(path, edit)| edit.into_event(path)));
            events.extend(self.items.take().map(|items| AgentEvent::Todo { items }));
        }
        events
    }
}

/// Returns the exit code of a command, from the field that this agent uses, or 0.
fn find_exit_code(update: &wire::ToolCall<'_>, returned: &wire::RawOutput<'_>) -> i64 {
    let terminal = update.meta.as_ref().and_then(|meta| meta.terminal_exit.as_ref());
    let mut parts = returned.contents.iter().flatten();
    terminal
        .and_then(|exit| exit.exit_code)
        .or(returned.exit_code)
        .or_else(|| returned.metadata.as_ref()?.exit)
        .or_else(|| parts.find_map(|part| part.exit_code))
        .unwrap_or(0)
}

/// Returns the text that the agent marks for display.
fn read_shown_text(update: &wire::ToolCall<'_>) -> Option<String> {
    let texts: Vec<&str> = update
        .content
        .iter()
        .flatten()
        .filter_map(|content| Some(content.content.as_ref()?.text.as_ref()?.0.as_ref()))
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn read_output_text(returned: &wire::RawOutput<'_>, raw: Option<&RawValue>) -> Option<String> {
    let known = [&returned.output, &returned.content, &returned.message, &returned.error];
    let known = known.into_iter().flatten().next().map(|text| text.0.to_string());
    known.or_else(|| {
        let alone: Text<'_> = serde_json::from_str(raw?.get()).ok()?;
        Some(alone.0.into_owned())
    })
}

/// Reads a plan or a to-do list, without canceled entries.
pub(super) fn parse_items(entries: Vec<wire::Entry>) -> Vec<TodoItem> {
    let item = |entry: wire::Entry| {
        let state = match entry.status.as_deref() {
            Some("cancelled") => return None,
            Some("completed") => TodoState::Done,
            Some("in_progress") => TodoState::Active,
            Some(_) | None => TodoState::Pending,
        };
        Some(TodoItem { text: entry.content?, state })
    };
    entries.into_iter().take(MOST_ITEMS).filter_map(item).collect()
}
