//! Codex's stream of events, line by line.
//!
//! Messages come complete, never in deltas. An item of the type `error` is a notice and fails
//! nothing; an `error` line is fatal only if the turn then fails. Not here: what a failed turn
//! means, see `failure`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{
    AgentEvent, ResultStatus, Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage,
    UsageScope,
};
use ralph_model::failure::Failure;
use ralph_model::text::shorten_to_line;
use ralph_model::units::Tokens;

use super::wire;
use crate::json_events::{GLANCE_CHARS, MOST_OPEN_CALLS, build_notice, shorten_output};
use crate::json_salvage::read_objects;
use crate::lenient_json;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate, shorten_text};
use crate::turn_status::{JudgeTurn, TurnStatus};

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct CodexTranslator {
    pub(super) turn: TurnStatus<String>,
    /// The last error that no progress has followed yet: a reconnect, or the reason of a failure
    /// that is reported later.
    pub(super) error: Option<String>,
    /// Whether the last message is not the final answer: its attempt was lost, or a tool without
    /// an event of its own came after it.
    is_outdated: bool,
    open_calls: BTreeSet<String>,
    todo: Vec<TodoItem>,
}

/// Stage of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemPhase {
    Started,
    Updated,
    Completed,
}

impl Translate for CodexTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        // Nearly every line is one complete object of a known type, and is read in one pass.
        let object = line.trim();
        if object.starts_with('{')
            && let Some(parsed) = self.push_object(object)
        {
            return parsed;
        }
        read_objects(&lenient_json::repair_surrogates(line), |object| self.push_object(object))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.judge_turn(evidence)
    }
}

impl CodexTranslator {
    pub(crate) fn new(_request: &AgentRequest) -> Self {
        Self {
            turn: TurnStatus::Open,
            error: None,
            is_outdated: false,
            open_calls: BTreeSet::new(),
            todo: Vec::new(),
        }
    }

    /// Reads one object. Progress clears an earlier error: Codex has recovered from it.
    fn push_object(&mut self, text: &str) -> Option<ParsedLine> {
        let parsed = self.parse_object(text)?;
        if parsed.activity != LineActivity::Idle {
            self.error = None;
        }
        Some(parsed)
    }

    /// Reads one object. Returns `None` if its type is unknown.
    fn parse_object(&mut self, text: &str) -> Option<ParsedLine> {
        let line: wire::Line<'_> = serde_json::from_str(text).ok()?;
        let kind = line.kind.unwrap_or_default().0;
        let phase = match kind.as_ref() {
            "thread.started" => {
                let id = line.thread_id;
                return Some(ParsedLine::from_events(vec![AgentEvent::Session {
                    id,
                    model: None,
                    version: None,
                }]));
            }
            "turn.started" => {
                self.turn = TurnStatus::Open;
                return Some(ParsedLine::from_activity(LineActivity::Progress));
            }
            "turn.completed" => return Some(self.complete_turn(line.usage.as_ref())),
            "turn.failed" => return Some(self.fail_turn(line.error.and_then(|it| it.message))),
            "error" => return Some(self.push_error(line.message?)),
            "item.started" => ItemPhase::Started,
            "item.updated" => ItemPhase::Updated,
            "item.completed" => ItemPhase::Completed,
            _ => return None,
        };
        self.push_item(phase, &line.item?)
    }

    fn push_item(&mut self, phase: ItemPhase, item: &wire::Item<'_>) -> Option<ParsedLine> {
        let events = match (read_kind(item), phase) {
            ("agent_message", ItemPhase::Completed) => {
                self.turn = TurnStatus::Open;
                self.is_outdated = false;
                vec![build_text_event(read_text(item))]
            }
            ("reasoning", ItemPhase::Completed) => {
                vec![AgentEvent::Reasoning { text: read_text(item) }]
            }
            // They are complete once the item is completed.
            ("agent_message" | "reasoning", ItemPhase::Started | ItemPhase::Updated) => Vec::new(),
            (
                "command_execution" | "file_change" | "mcp_tool_call" | "web_search"
                | "collab_tool_call",
                _,
            ) => self.push_tool(phase, item),
            ("todo_list", _) => self.push_todo_list(phase, item),
            ("error", _) => {
                let text = item.message.as_deref().unwrap_or("an error without a message");
                return Some(ParsedLine::from_events(vec![build_notice(text)]));
            }
            _ => return None,
        };
        // Items that show nothing are progress, too.
        Some(ParsedLine { events, activity: LineActivity::Progress })
    }

    fn push_tool(&mut self, phase: ItemPhase, item: &wire::Item<'_>) -> Vec<AgentEvent> {
        let id = item.id.clone().unwrap_or_default();
        let mut events = Vec::new();
        let is_open = self.open_calls.contains(&id);
        if !is_open && phase != ItemPhase::Updated {
            self.turn = TurnStatus::Open;
            events.push(AgentEvent::ToolStarted {
                id: id.clone(),
                name: read_tool_name(item),
                summary: shorten_to_line(&summarize_item(item), GLANCE_CHARS),
                speaker: Speaker::Agent,
            });
        }
        match phase {
            ItemPhase::Started => {
                if self.open_calls.len() >= MOST_OPEN_CALLS {
                    self.open_calls.clear();
                }
                self.open_calls.insert(id);
            }
            ItemPhase::Updated => {}
            ItemPhase::Completed => {
                self.open_calls.remove(&id);
                let outcome = judge_tool(item);
                let output = shorten_output(&read_output(item));
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
    fn push_todo_list(&mut self, phase: ItemPhase, item: &wire::Item<'_>) -> Vec<AgentEvent> {
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
            ItemPhase::Started | ItemPhase::Updated => self.is_outdated = true,
            ItemPhase::Completed => {}
        }
        if items == self.todo {
            return Vec::new();
        }
        self.todo.clone_from(&items);
        vec![AgentEvent::Todo { items }]
    }

    /// Reads an error that may be followed by another attempt or by the end of the turn.
    fn push_error(&mut self, message: String) -> ParsedLine {
        match self.turn {
            // The text of the lost attempt, perhaps with a completion tag, is sent again or not at
            // all.
            TurnStatus::Open => self.is_outdated = true,
            TurnStatus::Succeeded | TurnStatus::Failed(_) => {}
        }
        let parsed = ParsedLine::from_events(vec![build_notice(&message)]);
        self.error = Some(message);
        parsed
    }

    fn complete_turn(&mut self, usage: Option<&wire::Usage>) -> ParsedLine {
        self.turn = TurnStatus::Succeeded;
        let mut events = Vec::new();
        if self.is_outdated {
            events.push(build_text_event(String::new()));
        }
        if let Some(usage) = usage {
            events.push(AgentEvent::Usage { usage: build_usage(usage), scope: UsageScope::Total });
        }
        events.push(AgentEvent::Result {
            status: ResultStatus::Success,
            text: None,
            structured: None,
        });
        ParsedLine::from_events(events)
    }

    fn fail_turn(&mut self, message: Option<String>) -> ParsedLine {
        let message = message
            .or_else(|| self.error.clone())
            .filter(|message| !message.trim().is_empty())
            .unwrap_or_else(|| "the turn failed".to_owned());
        self.turn = TurnStatus::Failed(message.clone());
        ParsedLine::from_events(vec![AgentEvent::Result {
            status: ResultStatus::Failed(shorten_text(&message)),
            text: None,
            structured: None,
        }])
    }
}

fn build_text_event(text: String) -> AgentEvent {
    AgentEvent::Text { text, speaker: Speaker::Agent, form: TextForm::Message }
}

fn read_kind<'a>(item: &'a wire::Item<'_>) -> &'a str {
    item.kind.as_ref().map_or("", |kind| kind.0.as_ref())
}

fn read_text(item: &wire::Item<'_>) -> String {
    item.text.as_ref().map(|text| text.0.to_string()).unwrap_or_default()
}

fn read_tool_name(item: &wire::Item<'_>) -> String {
    match (read_kind(item), &item.server, &item.tool) {
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
fn summarize_item(item: &wire::Item<'_>) -> String {
    if let Some(command) = &item.command {
        return unwrap_shell_command(&command.0).to_owned();
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
fn unwrap_shell_command(command: &str) -> &str {
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
fn judge_tool(item: &wire::Item<'_>) -> ToolOutcome {
    let is_ok = matches!(item.status.as_deref(), Some("completed") | None);
    match item.exit_code {
        Some(0) | None if is_ok => ToolOutcome::Ok,
        Some(_) | None => ToolOutcome::Error,
    }
}

fn read_output<'a>(item: &'a wire::Item<'_>) -> Cow<'a, str> {
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
fn build_usage(usage: &wire::Usage) -> Usage {
    let cache_read = usage.cache_read.unwrap_or(0);
    let cache_write = usage.cache_write.unwrap_or(0);
    let input = usage.input.unwrap_or(0);
    Usage {
        input: Tokens(input.saturating_sub(cache_read).saturating_sub(cache_write)),
        output: Tokens(usage.output.unwrap_or(0)),
        cache_read: Tokens(cache_read),
        cache_write: Tokens(cache_write),
        ..Usage::default()
    }
}
