//! What an agent does within its turn: text, thoughts, tool calls, its plan, token usage.
//!
//! Text comes in deltas. A tool call between them begins another message, as does another message
//! id; earlier text is then not the final answer. Not here: how the turn begins and ends
//! (`conversation`).

use ralph_core::reading::AgentEvent;
use serde_json::value::RawValue;

use super::tools::{Tools, items};
use super::usage::Spent;
use super::wire;
use crate::json_events::Speech;
use crate::translator::{Heard, Weight};

/// Longer thoughts are reported in parts.
const MOST_THOUGHT_BYTES: usize = 8 << 10;

/// The state of a turn: what the agent has written and done so far.
#[derive(Debug, Default)]
pub(super) struct Updates {
    pub(super) speech: Speech,
    pub(super) spent: Spent,
    tools: Tools,
    message: Option<String>,
    thought: String,
}

impl Updates {
    /// Reads an update. Returns `None` if its kind is unknown.
    pub(super) fn hear(&mut self, raw: &RawValue) -> Option<Heard> {
        let update: wire::Update<'_> = serde_json::from_str(raw.get()).ok()?;
        let kind = update.kind.as_deref()?;
        let mut events = match kind {
            "agent_thought_chunk" => Vec::new(),
            _ => self.end_thought(),
        };
        match kind {
            "agent_message_chunk" => events.extend(self.words(&update)),
            "agent_thought_chunk" => events.extend(self.think(&update)),
            "tool_call" | "tool_call_update" => {
                let call: wire::ToolCall<'_> = serde_json::from_str(raw.get()).ok()?;
                events.extend(self.tool(&call));
            }
            "plan" => {
                let items = items(update.entries.unwrap_or_default());
                events.push(AgentEvent::Todo { items });
            }
            "usage_update" => {
                events.extend(update.cost.and_then(|cost| self.spent.cost(&cost)));
            }
            // Options for the client's user, and the echo of the prompt.
            "available_commands_update"
            | "session_info_update"
            | "config_option_update"
            | "current_mode_update"
            | "user_message_chunk" => {
                return Some(Heard { events, weight: Weight::Noise });
            }
            _ => return None,
        }
        Some(Heard { events, weight: Weight::Useful })
    }

    fn words(&mut self, update: &wire::Update<'_>) -> Vec<AgentEvent> {
        if update.message_id.is_some() && update.message_id != self.message {
            self.speech.close();
            self.message.clone_from(&update.message_id);
        }
        let text = text_of(update);
        let usage = update.meta.as_ref().and_then(|meta| meta.usage);
        let mut events: Vec<AgentEvent> = self.speech.piece(text).into_iter().collect();
        events.extend(usage.map(|tokens| self.spent.step(tokens)));
        events
    }

    fn think(&mut self, update: &wire::Update<'_>) -> Vec<AgentEvent> {
        self.thought.push_str(text_of(update));
        if self.thought.len() > MOST_THOUGHT_BYTES { self.end_thought() } else { Vec::new() }
    }

    /// Returns the completed thought as an event.
    pub(super) fn end_thought(&mut self) -> Vec<AgentEvent> {
        let text = std::mem::take(&mut self.thought).trim().to_owned();
        if text.is_empty() { Vec::new() } else { vec![AgentEvent::Reasoning { text }] }
    }

    /// Reads an update of a tool call.
    pub(super) fn tool(&mut self, call: &wire::ToolCall<'_>) -> Vec<AgentEvent> {
        let tool_events = self.tools.hear(call);
        let is_start = |event: &AgentEvent| matches!(event, AgentEvent::ToolStarted { .. });
        let is_end = |event: &AgentEvent| matches!(event, AgentEvent::ToolEnded { .. });
        let mut events = Vec::new();
        if tool_events.iter().any(is_start) {
            self.speech.void();
        } else if tool_events.is_empty() && call.status.as_deref() == Some("pending") {
            // Announced, but its input is incomplete: the text before it is void already.
            events.extend(self.speech.withdraw());
        }
        if tool_events.iter().any(is_end) {
            self.speech.close();
        }
        events.extend(tool_events);
        events
    }
}

fn text_of<'a>(update: &'a wire::Update<'_>) -> &'a str {
    let text = update.content.as_ref().and_then(|block| block.text.as_ref());
    text.map_or("", |text| text.0.as_ref())
}
