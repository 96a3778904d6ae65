//! Codex's stream of events, line by line.
//!
//! Messages come complete, never in deltas. An item of the type `error` is a notice and fails
//! nothing; an `error` line is fatal only if the turn then fails. Not here: what a failed turn
//! means, see `failure`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use ralph_core::ports::Request;
use ralph_core::reading::{
    AgentEvent, ResultStatus, Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage,
    UsageScope,
};
use ralph_core::text::excerpt_of;
use ralph_core::text::glance;
use ralph_core::units::Tokens;

use super::wire;
use crate::fields;
use crate::json_events::notice;
use crate::pieces::read_objects;
use crate::translator::{Heard, Weight, bounded};

/// How much of a tool's output an event keeps. All of it is in the stored stream.
const OUTPUT_CHARS: usize = 10_000;

/// How much of a tool's input one line shows.
const GLANCE_CHARS: usize = 200;

/// More open tool calls than this mean a broken stream, not parallel work.
const MOST_OPEN_CALLS: usize = 1_000;

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct CodexTranslator {
    pub(super) turn: Turn,
    /// The last error that no progress has followed yet: a reconnect, or the reason of a failure
    /// that is reported later.
    pub(super) error: Option<String>,
    /// Whether the last message is not the final answer: its attempt was lost, or a tool without
    /// an event of its own came after it.
    is_outdated: bool,
    open_calls: BTreeSet<String>,
    todo: Vec<TodoItem>,
}

/// Status of a turn.
#[derive(Debug)]
pub(super) enum Turn {
    Open,
    Completed,
    /// Contains the error message.
    Failed(String),
}

/// Stage of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Started,
    Updated,
    Completed,
}

impl CodexTranslator {
    pub(crate) fn new(_request: &Request) -> Self {
        Self {
            turn: Turn::Open,
            error: None,
            is_outdated: false,
            open_calls: BTreeSet::new(),
            todo: Vec::new(),
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Heard {
        // Nearly every line is one complete object of a known type, and is read in one pass.
        let object = line.trim();
        if object.starts_with('{')
            && let Some(parsed) = self.with_progress(object)
        {
            return parsed;
        }
        read_objects(&fields::mended(line), |object| self.with_progress(object))
    }

    #[expect(clippy::unused_self, reason = "every adapter may hold something back")]
    pub(crate) fn finish(&mut self) -> Heard {
        Heard::nothing(Weight::Noise)
    }

    /// Reads one object. Progress clears an earlier error: Codex has recovered from it.
    fn with_progress(&mut self, text: &str) -> Option<Heard> {
        let parsed = self.object(text)?;
        if parsed.weight != Weight::Noise {
            self.error = None;
        }
        Some(parsed)
    }

    /// Reads one object. Returns `None` if its type is unknown.
    fn object(&mut self, text: &str) -> Option<Heard> {
        let line: wire::Line<'_> = serde_json::from_str(text).ok()?;
        let kind = line.kind.unwrap_or_default().0;
        let phase = match kind.as_ref() {
            "thread.started" => {
                let id = line.thread_id;
                return Some(Heard::of(vec![AgentEvent::Session {
                    id,
                    model: None,
                    version: None,
                }]));
            }
            "turn.started" => {
                self.turn = Turn::Open;
                return Some(Heard::nothing(Weight::Useful));
            }
            "turn.completed" => return Some(self.completed(line.usage.as_ref())),
            "turn.failed" => return Some(self.failed(line.error.and_then(|it| it.message))),
            "error" => return Some(self.error(line.message?)),
            "item.started" => Phase::Started,
            "item.updated" => Phase::Updated,
            "item.completed" => Phase::Completed,
            _ => return None,
        };
        self.item(phase, &line.item?)
    }

    fn item(&mut self, phase: Phase, item: &wire::Item<'_>) -> Option<Heard> {
        let events = match (kind_of(item), phase) {
            ("agent_message", Phase::Completed) => {
                self.turn = Turn::Open;
                self.is_outdated = false;
                vec![said(text_of(item))]
            }
            ("reasoning", Phase::Completed) => vec![AgentEvent::Reasoning { text: text_of(item) }],
            // They are complete once the item is completed.
            ("agent_message" | "reasoning", Phase::Started | Phase::Updated) => Vec::new(),
            (
                "command_execution" | "file_change" | "mcp_tool_call" | "web_search"
                | "collab_tool_call",
                _,
            ) => self.tool(phase, item),
            ("todo_list", _) => self.todo_list(phase, item),
            ("error", _) => {
                let text = item.message.as_deref().unwrap_or("an error without a message");
                return Some(Heard::of(vec![notice(text)]));
            }
            _ => return None,
        };
        // Items that show nothing are progress, too.
        Some(Heard { events, weight: Weight::Useful })
    }

    fn tool(&mut self, phase: Phase, item: &wire::Item<'_>) -> Vec<AgentEvent> {
        let id = item.id.clone().unwrap_or_default();
        let mut events = Vec::new();
        let is_open = self.open_calls.contains(&id);
        if !is_open && phase != Phase::Updated {
            self.turn = Turn::Open;
            events.push(AgentEvent::ToolStarted {
                id: id.clone(),
                name: name_of(item),
                summary: glance(&summary(item), GLANCE_CHARS),
                speaker: Speaker::Agent,
            });
        }
        match phase {
            Phase::Started => {
                if self.open_calls.len() >= MOST_OPEN_CALLS {
                    self.open_calls.clear();
                }
                self.open_calls.insert(id);
            }
            Phase::Updated => {}
            Phase::Completed => {
                self.open_calls.remove(&id);
                let outcome = outcome(item);
                let output = excerpt_of(&output_of(item), OUTPUT_CHARS);
                events.push(AgentEvent::ToolEnded { id, outcome, output });
                if outcome == ToolOutcome::Ok {
                    let paths = item.changes.iter().flatten().filter_map(|it| it.path.clone());
                    events.extend(paths.map(|path| AgentEvent::FileChanged { path }));
                }
            }
        }
        events
    }

    /// Reads a to-do list, which is repeated at the end of the turn.
    fn todo_list(&mut self, phase: Phase, item: &wire::Item<'_>) -> Vec<AgentEvent> {
        let items: Vec<TodoItem> = item
            .items
            .iter()
            .flatten()
            .map(|todo| TodoItem {
                text: todo.text.clone().unwrap_or_default(),
                state: match todo.completed {
                    Some(true) => TodoState::Done,
                    Some(false) | None => TodoState::Pending,
                },
            })
            .collect();
        match phase {
            Phase::Started | Phase::Updated => self.is_outdated = true,
            Phase::Completed => {}
        }
        if items == self.todo {
            return Vec::new();
        }
        self.todo.clone_from(&items);
        vec![AgentEvent::Todo { items }]
    }

    /// Reads an error that may be followed by another attempt or by the end of the turn.
    fn error(&mut self, message: String) -> Heard {
        match self.turn {
            // The text of the lost attempt, perhaps with a completion tag, is sent again or not at
            // all.
            Turn::Open => self.is_outdated = true,
            Turn::Completed | Turn::Failed(_) => {}
        }
        let parsed = Heard::of(vec![notice(&message)]);
        self.error = Some(message);
        parsed
    }

    fn completed(&mut self, usage: Option<&wire::Usage>) -> Heard {
        self.turn = Turn::Completed;
        let mut events = Vec::new();
        if self.is_outdated {
            events.push(said(String::new()));
        }
        if let Some(usage) = usage {
            events.push(AgentEvent::Usage { usage: figures(usage), scope: UsageScope::Total });
        }
        events.push(AgentEvent::Result {
            status: ResultStatus::Success,
            text: None,
            structured: None,
        });
        Heard::of(events)
    }

    fn failed(&mut self, message: Option<String>) -> Heard {
        let message = message
            .or_else(|| self.error.clone())
            .filter(|message| !message.trim().is_empty())
            .unwrap_or_else(|| "the turn failed".to_owned());
        self.turn = Turn::Failed(message.clone());
        Heard::of(vec![AgentEvent::Result {
            status: ResultStatus::Failed(bounded(&message)),
            text: None,
            structured: None,
        }])
    }
}

fn said(text: String) -> AgentEvent {
    AgentEvent::Text { text, speaker: Speaker::Agent, form: TextForm::Message }
}

fn kind_of<'a>(item: &'a wire::Item<'_>) -> &'a str {
    item.kind.as_ref().map_or("", |kind| kind.0.as_ref())
}

fn text_of(item: &wire::Item<'_>) -> String {
    item.text.as_ref().map(|text| text.0.to_string()).unwrap_or_default()
}

fn name_of(item: &wire::Item<'_>) -> String {
    match (kind_of(item), &item.server, &item.tool) {
        ("command_execution", ..) => "command".to_owned(),
        ("mcp_tool_call", server, tool) => {
            let part = |name: &Option<String>| name.clone().unwrap_or_else(|| "?".to_owned());
            format!("mcp:{}/{}", part(server), part(tool))
        }
        (_, _, Some(tool)) => tool.clone(),
        (kind, _, None) => kind.to_owned(),
    }
}

/// Returns one line about a tool's input.
fn summary(item: &wire::Item<'_>) -> String {
    if let Some(command) = &item.command {
        return inner_command(&command.0).to_owned();
    }
    if let Some(changes) = &item.changes {
        let files: Vec<String> = changes
            .iter()
            .map(|change| {
                let kind = change.kind.as_deref().unwrap_or("change");
                format!("{kind} {}", change.path.as_deref().unwrap_or("?"))
            })
            .collect();
        return files.join(", ");
    }
    let shown = [&item.query, &item.prompt].into_iter().flatten().next();
    let arguments = || item.arguments.map_or("", serde_json::value::RawValue::get);
    let text = shown.map_or_else(arguments, |text| text.0.as_ref());
    if matches!(text, "{}" | "null") { String::new() } else { text.to_owned() }
}

/// Removes the shell that Codex puts around each command, unless quoting makes that ambiguous.
fn inner_command(command: &str) -> &str {
    let Some((_, quoted)) =
        command.split_once(" -lc ").filter(|(shell, _)| !shell.contains(char::is_whitespace))
    else {
        return command;
    };
    ['\'', '"']
        .into_iter()
        .find_map(|quote| {
            let inner = quoted.strip_prefix(quote)?.strip_suffix(quote)?;
            let is_plain = !inner.contains(quote) && (quote == '\'' || !inner.contains('\\'));
            is_plain.then_some(inner)
        })
        .unwrap_or(quoted)
}

/// Judges a tool by its status and exit code; a search has neither.
fn outcome(item: &wire::Item<'_>) -> ToolOutcome {
    let is_ok = matches!(item.status.as_deref(), Some("completed") | None);
    match item.exit_code {
        Some(0) | None if is_ok => ToolOutcome::Ok,
        Some(_) | None => ToolOutcome::Error,
    }
}

fn output_of<'a>(item: &'a wire::Item<'_>) -> Cow<'a, str> {
    if let Some(output) = &item.aggregated_output {
        return Cow::Borrowed(&output.0);
    }
    if let Some(message) = item.error.as_ref().and_then(|error| error.message.as_deref()) {
        return Cow::Borrowed(message);
    }
    let blocks = item.result.iter().flat_map(|result| result.content.iter().flatten());
    let texts: Vec<Cow<'_, str>> = blocks
        .map(|block| match (&block.text, &block.kind) {
            (Some(text), _) => Cow::Borrowed(text.0.as_ref()),
            (None, Some(kind)) => Cow::Owned(format!("[{}]", kind.0)),
            (None, None) => Cow::Borrowed("[?]"),
        })
        .collect();
    Cow::Owned(texts.join("\n"))
}

/// Separates Codex's input tokens from cached ones, which they include.
fn figures(usage: &wire::Usage) -> Usage {
    let cache_read = usage.cache_read.unwrap_or(0);
    let cache_write = usage.cache_write.unwrap_or(0);
    let input = usage.input.unwrap_or(0);
    Usage {
        input: Tokens(input.saturating_sub(cache_read).saturating_sub(cache_write)),
        output: Tokens(usage.output.unwrap_or(0)),
        cache_read: Tokens(cache_read),
        cache_write: Tokens(cache_write),
        cost: None,
    }
}
