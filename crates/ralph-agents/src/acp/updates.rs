//! What an agent does within its turn: text, thoughts, tool calls, its plan, token usage.
//!
//! Text comes in deltas. A tool call between them begins another message, as does another message
//! id; earlier text is then not the final answer. Not here: how the turn begins and ends
//! (`conversation`).

use ralph_model::agent_output::AgentEvent;
use serde_json::value::RawValue;

use super::tools::{AcpToolCalls, parse_items};
use super::usage::AcpUsage;
use super::wire;
use crate::json_events::MessageAssembler;
use crate::translator::{LineActivity, ParsedLine};

/// Longer thoughts are reported in parts.
const MOST_THOUGHT_BYTES: usize = 8 << 10;

/// The state of a turn: what the agent has written and done so far.
#[derive(Debug, Default)]
pub(super) struct TurnUpdates {
    pub(super) assembler: MessageAssembler,
    pub(super) usage: AcpUsage,
    tools: AcpToolCalls,
    message: Option<String>,
    thought: String,
}

impl TurnUpdates {
    /// Reads an update. Returns `None` if its kind is unknown.
    pub(super) fn push_update(&mut self, raw: &RawValue) -> Option<ParsedLine> {
        let update: wire::Update<'_> = serde_json::from_str(raw.get()).ok()?;
        let kind = update.kind.as_deref()?;
        let mut events = match kind {
            "agent_thought_chunk" => Vec::new(),
            _ => self.flush_thought(),
        };
        match kind {
            "agent_message_chunk" => events.extend(self.push_text(&update)),
            "agent_thought_chunk" => events.extend(self.push_thought(&update)),
            "tool_call" | "tool_call_update" => {
                let call: wire::ToolCall<'_> = serde_json::from_str(raw.get()).ok()?;
                events.extend(self.push_tool_call(&call));
            }
            "plan" => {
                let items = parse_items(update.entries.unwrap_or_default());
                events.push(AgentEvent::Todo { items });
            }
            "usage_update" => {
                events.extend(update.cost.and_then(|cost| self.usage.set_cost(&cost)));
            }
            // Options for the client's user, and the echo of the prompt.
            "available_commands_update"
            | "session_info_update"
            | "config_option_update"
            | "current_mode_update"
            | "user_message_chunk" => {
                return Some(ParsedLine { events, activity: LineActivity::Idle });
            }
            _ => return None,
        }
        Some(ParsedLine { events, activity: LineActivity::Progress })
    }

    fn push_text(&mut self, update: &wire::Update<'_>) -> Vec<AgentEvent> {
        if update.message_id.is_some() && update.message_id != self.message {
            self.assembler.close_message();
            self.message.clone_from(&update.message_id);
        }
        let text = read_text(update);
        let usage = update.meta.as_ref().and_then(|meta| meta.usage);
        let mut events: Vec<AgentEvent> = self.assembler.push_delta(text).into_iter().collect();
        events.extend(usage.map(|tokens| self.usage.add_step(tokens)));
        events
    }

    fn push_thought(&mut self, update: &wire::Update<'_>) -> Vec<AgentEvent> {
        self.thought.push_str(read_text(update));
        if self.thought.len() > MOST_THOUGHT_BYTES { self.flush_thought() } else { Vec::new() }
    }

    /// Returns the completed thought as an event.
    pub(super) fn flush_thought(&mut self) -> Vec<AgentEvent> {
        let text = std::mem::take(&mut self.thought).trim().to_owned();
        if text.is_empty() { Vec::new() } else { vec![AgentEvent::Reasoning { text }] }
    }

    /// Reads an update of a tool call.
    pub(super) fn push_tool_call(&mut self, call: &wire::ToolCall<'_>) -> Vec<AgentEvent> {
        let tool_events = self.tools.push_update(call);
        let is_start = |event: &AgentEvent| matches!(event, AgentEvent::ToolStarted { .. });
        let is_end = |event: &AgentEvent| matches!(event, AgentEvent::ToolEnded { .. });
        let mut events = Vec::new();
        if tool_events.iter().any(is_start) {
            self.assembler.discard_text();
        } else if tool_events.is_empty() && call.status.as_deref() == Some("pending") {
            // Announced, but its input is incomplete: the text before it is void already.
            events.extend(self.assembler.withdraw_text());
        }
        if tool_events.iter().any(is_end) {
            self.assembler.close_message();
        }
        events.extend(tool_events);
        events
    }
}

fn read_text<'a>(update: &'a wire::Update<'_>) -> &'a str {
    let text = update.content.as_ref().and_then(|block| block.text.as_ref());
    text.map_or("", |text| text.0.as_ref())
}
