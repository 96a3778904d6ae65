//! Amp's stream of events, line by line.
//!
//! It repeats the prompt as a `user` line, which never becomes text of the agent. Not here: what a
//! failed result means, see `failure`.

use std::collections::BTreeMap;

use ralph_core::ports::Request;
use ralph_core::reading::{
    AgentEvent, ResultStatus, Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage,
    UsageScope,
};
use ralph_core::text::excerpt_of;
use ralph_core::text::glance;
use ralph_core::units::Tokens;
use serde_json::value::RawValue;

use super::failure::Trouble;
use super::wire;
use crate::claude::wire::{Block, Content, Head, Said, Todo, TurnUsage};
use crate::fields::mended;
use crate::json_events::notice;
use crate::last_words::LastWords;
use crate::pieces::{Piece, pieces, read_pieces};
use crate::translator::{Heard, Weight};

/// How much of a tool's output an event keeps. All of it is in the stored stream.
const OUTPUT_CHARS: usize = 10_000;

/// How much of a tool's input one line shows.
const GLANCE_CHARS: usize = 200;

/// More open tool calls than this mean a broken stream, not parallel work.
const MOST_OPEN_CALLS: usize = 1_000;

/// More to-do items than this are dropped.
const MOST_ITEMS: usize = 500;

/// Start of the login prompt that Amp prints on stdout without a key; it then waits forever.
const LOGIN_FLOW: &str = "No API key found";

/// Translates the stream of one call.
#[derive(Debug, Default)]
pub(crate) struct AmpTranslator {
    pub(super) turn: Turn,
    words: LastWords,
    prompt: Prompt,
    open_calls: BTreeMap<String, OpenCall>,
    /// Sum of the usage of all messages.
    spent: Usage,
}

/// Status of a turn.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// No result has come since the turn began.
    #[default]
    Open,
    Succeeded,
    Failed(Trouble),
}

/// Whether Amp has repeated the prompt.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Prompt {
    #[default]
    Expected,
    Repeated,
}

/// What a tool call changes if it succeeds.
#[derive(Debug)]
enum OpenCall {
    File(String),
    Todo(Vec<TodoItem>),
}

impl AmpTranslator {
    pub(crate) fn new(_request: &Request) -> Self {
        Self::default()
    }

    pub(crate) fn line(&mut self, line: &str) -> Heard {
        read_pieces(pieces(&mended(line)), |piece| match piece {
            Piece::Object(text) => self.object(&text),
            Piece::Garbage(text) if text.starts_with(LOGIN_FLOW) => self.login_flow(text),
            Piece::Garbage(text) => Heard::unparsed(text),
        })
    }

    #[expect(clippy::unused_self, reason = "every translator may hold something back")]
    pub(crate) fn finish(&mut self) -> Heard {
        Heard::nothing(Weight::Noise)
    }

    fn object(&mut self, text: &str) -> Heard {
        let Ok(Head { kind, subtype }) = serde_json::from_str(text) else {
            return Heard::unparsed(text);
        };
        let subtype = subtype.unwrap_or_default().0;
        let parsed = match (kind.unwrap_or_default().0.as_ref(), subtype.as_ref()) {
            ("system", "init") => serde_json::from_str(text).map(|init| self.init(init)),
            ("assistant", _) => serde_json::from_str(text).map(|line| {
                let spent = serde_json::from_str(text).ok();
                self.assistant(line, spent)
            }),
            ("user", _) => serde_json::from_str(text).map(|line| self.user(line)),
            ("result", _) => serde_json::from_str(text).map(|line| self.result(line)),
            _ => return Heard::unparsed(text),
        };
        parsed.unwrap_or_else(|_| Heard::unparsed(text))
    }

    fn init(&mut self, init: wire::Init) -> Heard {
        self.turn = Turn::Open;
        let mut events =
            vec![AgentEvent::Session { id: init.session_id, model: None, version: None }];
        for server in init.mcp_servers.into_iter().flatten() {
            if let Some(status @ ("failed" | "needs-auth")) = server.status.as_deref() {
                let name = server.name.as_deref().unwrap_or("?");
                events.push(notice(&format!("MCP server `{name}`: {status}")));
            }
        }
        Heard::of(events)
    }

    fn assistant(&mut self, mut line: Said<'_>, spent: Option<wire::Spent>) -> Heard {
        self.turn = Turn::Open;
        let speaker = speaker_of(&line);
        let Content { blocks, lost } = std::mem::take(&mut line.message.content);
        let mut events = Vec::new();
        // The texts of one message belong together.
        let mut form = TextForm::Message;
        for block in blocks {
            match (block.kind.0.as_ref(), speaker) {
                ("text", Speaker::Agent) => {
                    let text = block.text.unwrap_or_default().0.into_owned();
                    events.push(self.words.tell(text, form));
                    form = TextForm::Delta;
                }
                ("text", Speaker::Subagent) => {
                    let text = block.text.unwrap_or_default().0.into_owned();
                    events.push(AgentEvent::Text { text, speaker, form: TextForm::Message });
                }
                ("thinking", _) => {
                    let text = block.thinking.unwrap_or_default().0.into_owned();
                    events.push(AgentEvent::Reasoning { text });
                }
                ("redacted_thinking", _) => {}
                ("tool_use", _) => {
                    events.push(self.tool_started(&block, speaker));
                    form = TextForm::Message;
                }
                (kind, _) => {
                    events.push(AgentEvent::Unparsed { line: format!("a block `{kind}`") });
                }
            }
        }
        if lost > 0 {
            events.push(AgentEvent::Unparsed { line: format!("{lost} blocks of a message") });
        }
        if let Some(step) = spent.and_then(|spent| spent.message?.usage) {
            let usage = usage_of(&step);
            self.spent = self.spent.plus(usage);
            events.push(AgentEvent::Usage { usage, scope: UsageScope::Step });
        }
        Heard { events, weight: Weight::Useful }
    }

    fn tool_started(&mut self, block: &Block<'_>, speaker: Speaker) -> AgentEvent {
        if speaker == Speaker::Agent {
            self.words.pass();
        }
        let id = block.id.clone().unwrap_or_default();
        let name = block.name.clone().unwrap_or_default();
        let raw = block.input.map_or("{}", RawValue::get);
        let input: wire::Input<'_> = serde_json::from_str(raw).unwrap_or_default();
        let call = match (name.as_str(), speaker) {
            ("create_file" | "edit_file", _) => {
                input.path.as_ref().map(|path| OpenCall::File(path.0.to_string()))
            }
            ("todo_write", Speaker::Agent) => {
                input.todos.as_deref().map(|todos| OpenCall::Todo(items(todos)))
            }
            _ => None,
        };
        if let Some(call) = call {
            if self.open_calls.len() >= MOST_OPEN_CALLS {
                self.open_calls.clear();
            }
            self.open_calls.insert(id.clone(), call);
        }
        AgentEvent::ToolStarted { id, name, summary: summary(&input, raw), speaker }
    }

    /// Reads tool results, the repeated prompt, and later user messages.
    fn user(&mut self, mut line: Said<'_>) -> Heard {
        let mut events = Vec::new();
        for block in std::mem::take(&mut line.message.content.blocks) {
            match (block.kind.0.as_ref(), speaker_of(&line)) {
                ("tool_result", _) => {
                    self.turn = Turn::Open;
                    events.extend(self.tool_ended(&block));
                }
                (_, Speaker::Subagent) => {}
                (_, Speaker::Agent) => {
                    self.turn = Turn::Open;
                    let text = block.text.unwrap_or_default().0;
                    events.extend(self.asked(&text));
                }
            }
        }
        Heard::of(events)
    }

    /// Reads the prompt, which is known, or the reply of a plugin or a user to an answer.
    fn asked(&mut self, text: &str) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        match std::mem::replace(&mut self.prompt, Prompt::Repeated) {
            Prompt::Expected => {}
            Prompt::Repeated => events.push(notice(&glance(text, GLANCE_CHARS))),
        }
        if !self.words.are("") {
            self.words.pass();
            events.push(self.words.tell(String::new(), TextForm::Message));
        }
        events
    }

    fn tool_ended(&mut self, block: &Block<'_>) -> Vec<AgentEvent> {
        let id = block.tool_use_id.clone().unwrap_or_default();
        let outcome =
            if block.is_error == Some(true) { ToolOutcome::Error } else { ToolOutcome::Ok };
        let output = excerpt_of(&block.output(), OUTPUT_CHARS);
        let call = self.open_calls.remove(&id).filter(|_| outcome == ToolOutcome::Ok);
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        events.extend(call.map(|call| match call {
            OpenCall::File(path) => AgentEvent::FileChanged { path },
            OpenCall::Todo(items) => AgentEvent::Todo { items },
        }));
        events
    }

    fn result(&mut self, line: wire::ResultLine) -> Heard {
        let mut events = Vec::new();
        // The total may include more than the messages reported.
        if let Some(usage) = line.usage.as_ref().map(usage_of)
            && usage.tokens() > self.spent.tokens()
        {
            self.spent = usage;
            events.push(AgentEvent::Usage { usage, scope: UsageScope::Total });
        }
        let (status, text) = match Trouble::of(&line) {
            None => {
                self.turn = Turn::Succeeded;
                (ResultStatus::Success, self.words.answer(line.result, &mut events))
            }
            Some(reported) => {
                let status = ResultStatus::Failed(reported.words.clone());
                self.turn = Turn::Failed(reported);
                (status, None)
            }
        };
        events.push(AgentEvent::Result { status, text, structured: None });
        Heard { events, weight: Weight::Final }
    }

    /// Ends the turn at once: no user can answer the login prompt.
    fn login_flow(&mut self, text: &str) -> Heard {
        self.turn = Turn::Failed(Trouble::no_key(text));
        let status = ResultStatus::Failed(text.to_owned());
        Heard::of(vec![notice(text), AgentEvent::Result { status, text: None, structured: None }])
    }
}

fn speaker_of(line: &Said<'_>) -> Speaker {
    match line.parent_tool_use_id {
        Some(_) => Speaker::Subagent,
        None => Speaker::Agent,
    }
}

/// Returns one line about a tool's input.
fn summary(input: &wire::Input<'_>, raw: &str) -> String {
    if let Some(todos) = &input.todos {
        return format!("{} items", todos.len());
    }
    let candidates =
        [&input.cmd, &input.path, &input.pattern, &input.query, &input.url, &input.description];
    let text = candidates.into_iter().flatten().next().map_or(raw, |text| text.0.as_ref());
    glance(if text == "{}" { "" } else { text }, GLANCE_CHARS)
}

fn items(todos: &[Todo]) -> Vec<TodoItem> {
    todos
        .iter()
        .take(MOST_ITEMS)
        .map(|todo| TodoItem {
            text: todo.content.clone().unwrap_or_default(),
            state: match todo.status.as_deref() {
                Some("completed") => TodoState::Done,
                Some("in-progress" | "in_progress") => TodoState::Active,
                Some(_) | None => TodoState::Pending,
            },
        })
        .collect()
}

fn usage_of(usage: &TurnUsage) -> Usage {
    Usage {
        input: Tokens(usage.input_tokens),
        output: Tokens(usage.output_tokens),
        cache_read: Tokens(usage.cache_read_input_tokens),
        cache_write: Tokens(usage.cache_creation_input_tokens),
        cost: None,
    }
}
