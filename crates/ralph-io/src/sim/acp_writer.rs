//! The scripted agent as a peer of the Agent Client Protocol: the messages of its turn.
//!
//! Only the fields that readers use. Not here: the requests it answers (`acp_peer`).

use ralph_model::agent_output::{Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage};
use ralph_model::units::Timestamp;
use serde_json::{Value, json};

use super::claude_writer::to_dollars;
use super::scenario::ScriptedErrorClass;
use super::writer::{ScriptedToolCall, SimTurnEnd, join_objects};

/// Builds the messages, and remembers what later ones repeat.
#[derive(Debug, Default)]
pub(super) struct AcpWriter {
    messages: u32,
    usage: Usage,
    limit: Option<Timestamp>,
}

/// The id of the prompt request. In general an agent cannot know it in advance, but ralph is its
/// only client.
const PROMPT_ID: u32 = 3;

fn build_update(kind: &str, rest: Value) -> Value {
    let update = join_objects(json!({"sessionUpdate": kind}), rest);
    json!({"jsonrpc": "2.0", "method": "session/update",
        "params": {"sessionId": "sim", "update": update}})
}

fn build_text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

impl AcpWriter {
    pub(super) fn build_text(&mut self, text: &str, speaker: Speaker, form: TextForm) -> Value {
        self.messages += u32::from(form == TextForm::Message);
        match speaker {
            Speaker::Agent => {
                let id = format!("message-{}", self.messages);
                build_update(
                    "agent_message_chunk",
                    json!({"messageId": id, "content": build_text_block(text)}),
                )
            }
            // The protocol has no subagents; agents show them as thoughts, if at all.
            Speaker::Subagent => Self::build_reasoning(text),
        }
    }

    pub(super) fn build_reasoning(text: &str) -> Value {
        build_update("agent_thought_chunk", json!({"content": build_text_block(text)}))
    }

    pub(super) fn build_tool_call(id: &str, call: &ScriptedToolCall<'_>) -> [Value; 2] {
        let input = match call.name {
            "Edit" | "Write" | "Read" => json!({"path": call.summary}),
            _ => json!({"command": call.summary}),
        };
        let begun = json!({"toolCallId": id, "title": call.name, "status": "in_progress",
            "rawInput": input});
        [build_update("tool_call", begun), Self::build_tool_end(id, call.outcome, call.output)]
    }

    pub(super) fn build_tool_end(id: &str, outcome: ToolOutcome, output: &str) -> Value {
        let status = match outcome {
            ToolOutcome::Ok => "completed",
            ToolOutcome::Error => "failed",
        };
        let content = json!([{"type": "content", "content": build_text_block(output)}]);
        build_update(
            "tool_call_update",
            json!({"toolCallId": id, "status": status, "content": content}),
        )
    }

    /// Builds the request for permission to call a tool.
    pub(super) fn build_permission_request(id: &str, what: &str) -> Value {
        let option = |kind: &str| json!({"optionId": kind, "kind": kind, "name": kind});
        let call = json!({"toolCallId": id, "title": what, "kind": "execute", "status": "pending"});
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": {"sessionId": "sim", "toolCall": call,
                "options": [option("allow_once"), option("reject_once")]}})
    }

    pub(super) fn build_todo(items: &[TodoItem]) -> Value {
        let entry = |item: &TodoItem| {
            let status = match item.state {
                TodoState::Pending => "pending",
                TodoState::Active => "in_progress",
                TodoState::Done => "completed",
            };
            json!({"content": item.text, "status": status, "priority": "medium"})
        };
        build_update("plan", json!({"entries": items.iter().map(entry).collect::<Vec<_>>()}))
    }

    pub(super) fn add_usage(&mut self, usage: Usage) -> Value {
        self.usage = self.usage.plus(usage);
        let mut rest = json!({"used": self.usage.tokens().0, "size": 200_000});
        if let Some(cost) = self.usage.cost {
            rest["cost"] = json!({"amount": to_dollars(cost.0), "currency": "USD"});
        }
        build_update("usage_update", rest)
    }

    pub(super) fn set_limit(&mut self, resets_at: Option<Timestamp>) {
        self.limit = resets_at;
    }

    pub(super) fn build_chatter() -> Value {
        build_update("session_info_update", json!({}))
    }

    pub(super) fn build_echo(prompt: &str) -> Value {
        build_update("user_message_chunk", json!({"content": build_text_block(prompt)}))
    }

    pub(super) fn build_end(&mut self, end: SimTurnEnd) -> Vec<Value> {
        match end {
            SimTurnEnd::Success => vec![self.build_stop("end_turn")],
            SimTurnEnd::Structured(answer) => {
                let answer =
                    self.build_text(&answer.to_string(), Speaker::Agent, TextForm::Message);
                vec![answer, self.build_stop("end_turn")]
            }
            SimTurnEnd::Error(class, message) => vec![self.build_error(class, &message)],
        }
    }

    fn build_error(&self, class: ScriptedErrorClass, message: &str) -> Value {
        let code = match class {
            ScriptedErrorClass::Crashed => -32_603,
            ScriptedErrorClass::Malformed => {
                return json!({"jsonrpc": "2.0", "id": PROMPT_ID, "result": {}});
            }
            ScriptedErrorClass::TurnLimit => return self.build_stop("max_turn_requests"),
            ScriptedErrorClass::RateLimited => 429,
            ScriptedErrorClass::Overloaded => 503,
            ScriptedErrorClass::NotLoggedIn => -32_000,
            ScriptedErrorClass::BadCall => 404,
            ScriptedErrorClass::ContextExceeded => 413,
        };
        let reset = self.limit.map(|at| format!("|{}", at.0 / 1000)).unwrap_or_default();
        let error = json!({"code": code, "message": format!("{message}{reset}")});
        json!({"jsonrpc": "2.0", "id": PROMPT_ID, "error": error})
    }

    fn build_stop(&self, reason: &str) -> Value {
        let usage = json!({
            "inputTokens": self.usage.input.0, "outputTokens": self.usage.output.0,
            "cachedReadTokens": self.usage.cache_read.0,
            "cachedWriteTokens": self.usage.cache_write.0,
            "totalTokens": self.usage.tokens().0,
        });
        json!({"jsonrpc": "2.0", "id": PROMPT_ID,
            "result": {"stopReason": reason, "usage": usage}})
    }
}
