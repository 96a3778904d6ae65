//! Amp's stream of events, line by line.
//!
//! It repeats the prompt as a `user` line, which never becomes text of the agent. Not here: what a
//! failed result means, see `failure`.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{
    AgentEvent, ResultStatus, Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage,
    UsageScope,
};
use ralph_model::failure::Failure;
use ralph_model::text::shorten_to_line;
use ralph_model::units::Tokens;
use serde_json::value::RawValue;

use super::failure::AmpFailure;
use super::wire;
use crate::claude::wire::{Block, Content, Head, MessageLine, Todo, TurnUsage};
use crate::final_answer::FinalAnswer;
use crate::json_events::{GLANCE_CHARS, MOST_ITEMS, MOST_OPEN_CALLS, build_notice, shorten_output};
use crate::json_salvage::{LinePiece, read_pieces, split_pieces};
use crate::lenient_json::repair_surrogates;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};
use crate::turn_status::{JudgeTurn, TurnStatus};

/// Start of the login prompt that Amp prints on stdout without a key; it then waits forever.
const LOGIN_PROMPT_PREFIX: &str = "No API key found";

/// Translates the stream of one call.
#[derive(Debug, Default)]
pub(crate) struct AmpTranslator {
    pub(super) turn: TurnStatus<AmpFailure>,
    answer: FinalAnswer,
    prompt: AmpPromptEcho,
    open_calls: BTreeMap<String, AmpOpenCall>,
    /// Sum of the usage of all messages.
    spent: Usage,
}

/// Whether Amp has repeated the prompt.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AmpPromptEcho {
    #[default]
    Expected,
    Repeated,
}

/// What a tool call changes if it succeeds.
#[derive(Debug)]
enum AmpOpenCall {
    File(String),
    Todo(Vec<TodoItem>),
}

impl Translate for AmpTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        read_pieces(split_pieces(&repair_surrogates(line)), |piece| match piece {
            LinePiece::Object(text) => self.push_object(&text),
            LinePiece::Garbage(text) if text.starts_with(LOGIN_PROMPT_PREFIX) => {
                self.push_login_prompt(text)
            }
            LinePiece::Garbage(text) => ParsedLine::from_unparsed(text),
        })
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.judge_turn(evidence)
    }
}

impl AmpTranslator {
    pub(crate) fn new(_request: &AgentRequest) -> Self {
        Self::default()
    }

    fn push_object(&mut self, text: &str) -> ParsedLine {
        let Ok(Head { kind, subtype }) = serde_json::from_str(text) else {
            return ParsedLine::from_unparsed(text);
        };
        let subtype = subtype.unwrap_or_default().0;
        let parsed = match (kind.unwrap_or_default().0.as_ref(), subtype.as_ref()) {
            ("system", "init") => serde_json::from_str(text).map(|init| self.push_init(init)),
            ("assistant", _) => serde_json::from_str(text).map(|line| {
                let spent = serde_json::from_str(text).ok();
                self.push_assistant(line, spent)
            }),
            ("user", _) => serde_json::from_str(text).map(|line| self.push_user(line)),
            ("result", _) => serde_json::from_str(text).map(|line| self.push_result(line)),
            _ => return ParsedLine::from_unparsed(text),
        };
        parsed.unwrap_or_else(|_| ParsedLine::from_unparsed(text))
    }

    fn push_init(&mut self, init: wire::Init) -> ParsedLine {
        self.turn = TurnStatus::Open;
        let mut events =
            vec![AgentEvent::Session { id: init.session_id, model: None, version: None }];
        for server in init.mcp_servers.into_iter().flatten() {
            if let Some(status @ ("failed" | "needs-auth")) = server.status.as_deref() {
                let name = server.name.as_deref().unwrap_or("?");
                events.push(build_notice(&format!("MCP server `{name}`: {status}")));
            }
        }
        ParsedLine::from_events(events)
    }

    fn push_assistant(
        &mut self,
        mut line: MessageLine<'_>,
        spent: Option<wire::Spent>,
    ) -> ParsedLine {
        self.turn = TurnStatus::Open;
        let speaker = line.speaker();
        let Content { blocks, lost } = std::mem::take(&mut line.message.content);
        let mut events = Vec::new();
        // The texts of one message belong together.
        let mut form = TextForm::Message;
        for block in blocks {
            match (block.kind.0.as_ref(), speaker) {
                ("text", Speaker::Agent) => {
                    let text = block.text.unwrap_or_default().0.into_owned();
                    events.push(self.answer.record_text(text, form));
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
                    events.push(self.start_tool(&block, speaker));
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
            let usage = convert_usage(&step);
            self.spent = self.spent.plus(usage);
            events.push(AgentEvent::Usage { usage, scope: UsageScope::Step });
        }
        ParsedLine { events, activity: LineActivity::Progress }
    }

    fn start_tool(&mut self, block: &Block<'_>, speaker: Speaker) -> AgentEvent {
        if speaker == Speaker::Agent {
            self.answer.supersede_text();
        }
        let id = block.id.clone().unwrap_or_default();
        let name = block.name.clone().unwrap_or_default();
        let raw = block.input.map_or("{}", RawValue::get);
        let input: wire::Input<'_> = serde_json::from_str(raw).unwrap_or_default();
        let call = match (name.as_str(), speaker) {
            ("create_file" | "edit_file", _) => {
                input.path.as_ref().map(|path| AmpOpenCall::File(path.0.to_string()))
            }
            ("todo_write", Speaker::Agent) => {
                input.todos.as_deref().map(|todos| AmpOpenCall::Todo(convert_items(todos)))
            }
            _ => None,
        };
        if let Some(call) = call {
            if self.open_calls.len() >= MOST_OPEN_CALLS {
                self.open_calls.clear();
            }
            self.open_calls.insert(id.clone(), call);
        }
        AgentEvent::ToolStarted { id, name, summary: summarize_input(&input, raw), speaker }
    }

    /// Reads tool results, the repeated prompt, and later user messages.
    fn push_user(&mut self, mut line: MessageLine<'_>) -> ParsedLine {
        let mut events = Vec::new();
        for block in std::mem::take(&mut line.message.content.blocks) {
            match (block.kind.0.as_ref(), line.speaker()) {
                ("tool_result", _) => {
                    self.turn = TurnStatus::Open;
                    events.extend(self.end_tool(&block));
                }
                (_, Speaker::Subagent) => {}
                (_, Speaker::Agent) => {
                    self.turn = TurnStatus::Open;
                    let text = block.text.unwrap_or_default().0;
                    events.extend(self.push_user_text(&text));
                }
            }
        }
        ParsedLine::from_events(events)
    }

    /// Reads the prompt, which is known, or the reply of a plugin or a user to an answer.
    fn push_user_text(&mut self, text: &str) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        match std::mem::replace(&mut self.prompt, AmpPromptEcho::Repeated) {
            AmpPromptEcho::Expected => {}
            AmpPromptEcho::Repeated => {
                events.push(build_notice(&shorten_to_line(text, GLANCE_CHARS)));
            }
        }
        if !self.answer.is_current_text("") {
            self.answer.supersede_text();
            events.push(self.answer.record_text(String::new(), TextForm::Message));
        }
        events
    }

    fn end_tool(&mut self, block: &Block<'_>) -> Vec<AgentEvent> {
        let id = block.tool_use_id.clone().unwrap_or_default();
        let outcome =
            if block.is_error == Some(true) { ToolOutcome::Error } else { ToolOutcome::Ok };
        let output = shorten_output(&block.output());
        let call = self.open_calls.remove(&id).filter(|_| outcome == ToolOutcome::Ok);
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        events.extend(call.map(|call| match call {
            AmpOpenCall::File(path) => AgentEvent::FileChanged { path },
            AmpOpenCall::Todo(items) => AgentEvent::Todo { items },
        }));
        events
    }

    fn push_result(&mut self, line: wire::ResultLine) -> ParsedLine {
        let mut events = Vec::new();
        // The total may include more than the messages reported.
        let total = line.usage.as_ref().map(convert_usage);
        let total = total.filter(|usage| usage.tokens() > self.spent.tokens());
        if total.is_some() || line.num_turns.is_some() {
            self.spent = Usage { turns: line.num_turns, ..total.unwrap_or(self.spent) };
            events.push(AgentEvent::Usage { usage: self.spent, scope: UsageScope::Total });
        }
        let (status, text) = match AmpFailure::from_result(&line) {
            None => {
                self.turn = TurnStatus::Succeeded;
                (ResultStatus::Success, self.answer.take_result_text(line.result, &mut events))
            }
            Some(reported) => {
                let status = ResultStatus::Failed(reported.message.clone());
                self.turn = TurnStatus::Failed(reported);
                (status, None)
            }
        };
        events.push(AgentEvent::Result { status, text, structured: None });
        ParsedLine { events, activity: LineActivity::Final }
    }

    /// Ends the turn at once: no user can answer the login prompt.
    fn push_login_prompt(&mut self, text: &str) -> ParsedLine {
        self.turn = TurnStatus::Failed(AmpFailure::from_missing_key(text));
        let status = ResultStatus::Failed(text.to_owned());
        ParsedLine::from_events(vec![
            build_notice(text),
            AgentEvent::Result { status, text: None, structured: None },
        ])
    }
}

/// Returns one line about a tool's input.
fn summarize_input(input: &wire::Input<'_>, raw: &str) -> String {
    if let Some(todos) = &input.todos {
        return format!("{} items", todos.len());
    }
    let candidates =
        [&input.cmd, &input.path, &input.pattern, &input.query, &input.url, &input.description];
    let text = candidates.into_iter().flatten().next().map_or(raw, |text| text.0.as_ref());
    shorten_to_line(if text == "{}" { "" } else { text }, GLANCE_CHARS)
}

fn convert_items(todos: &[Todo]) -> Vec<TodoItem> {
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

fn convert_usage(usage: &TurnUsage) -> Usage {
    Usage {
        input: Tokens(usage.input_tokens),
        output: Tokens(usage.output_tokens),
        cache_read: Tokens(usage.cache_read_input_tokens),
        cache_write: Tokens(usage.cache_creation_input_tokens),
        ..Usage::default()
    }
}
