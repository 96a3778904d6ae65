//! The scripted agent as a peer of the Agent Client Protocol: the messages of its turn.
//!
//! Only the fields that readers use. Not here: the requests it answers (`acp_peer`).

use ralph_core::reading::{Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage};
use ralph_core::units::Timestamp;
use serde_json::{Value, json};

use super::claude_writer::dollars;
use super::scenario::ErrorClass;
use super::writer::{End, ToolCall, joined};

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

fn update(kind: &str, rest: Value) -> Value {
    let update = joined(json!({"sessionUpdate": kind}), rest);
    json!({"jsonrpc": "2.0", "method": "session/update",
        "params": {"sessionId": "sim", "update": update}})
}

fn block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

impl AcpWriter {
    pub(super) fn text(&mut self, text: &str, speaker: Speaker, form: TextForm) -> Value {
        match form {
            TextForm::Message => self.messages += 1,
            TextForm::Delta => {}
        }
        match speaker {
            Speaker::Agent => {
                let id = format!("message-{}", self.messages);
                update("agent_message_chunk", json!({"messageId": id, "content": block(text)}))
            }
            // The protocol has no subagents; agents show them as thoughts, if at all.
            Speaker::Subagent => Self::reasoning(text),
        }
    }

    pub(super) fn reasoning(text: &str) -> Value {
        update("agent_thought_chunk", json!({"content": block(text)}))
    }

    pub(super) fn tool(id: &str, call: &ToolCall<'_>) -> [Value; 2] {
        let input = match call.name {
            "Edit" | "Write" | "Read" => json!({"path": call.summary}),
            _ => json!({"command": call.summary}),
        };
        let begun = json!({"toolCallId": id, "title": call.name, "status": "in_progress",
            "rawInput": input});
        [update("tool_call", begun), Self::tool_over(id, call.outcome, call.output)]
    }

    pub(super) fn tool_over(id: &str, outcome: ToolOutcome, output: &str) -> Value {
        let status = match outcome {
            ToolOutcome::Ok => "completed",
            ToolOutcome::Error => "failed",
        };
        let content = json!([{"type": "content", "content": block(output)}]);
        update("tool_call_update", json!({"toolCallId": id, "status": status, "content": content}))
    }

    /// Builds the request for permission to call a tool.
    pub(super) fn permission(id: &str, what: &str) -> Value {
        let option = |kind: &str| json!({"optionId": kind, "kind": kind, "name": kind});
        let call = json!({"toolCallId": id, "title": what, "kind": "execute", "status": "pending"});
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": {"sessionId": "sim", "toolCall": call,
                "options": [option("allow_once"), option("reject_once")]}})
    }

    pub(super) fn todo(items: &[TodoItem]) -> Value {
        let entry = |item: &TodoItem| {
            let status = match item.state {
                TodoState::Pending => "pending",
                TodoState::Active => "in_progress",
                TodoState::Done => "completed",
            };
            json!({"content": item.text, "status": status, "priority": "medium"})
        };
        update("plan", json!({"entries": items.iter().map(entry).collect::<Vec<_>>()}))
    }

    pub(super) fn usage(&mut self, usage: Usage) -> Value {
        self.usage = self.usage.plus(usage);
        let mut rest = json!({"used": self.usage.tokens().0, "size": 200_000});
        if let Some(cost) = self.usage.cost {
            rest["cost"] = json!({"amount": dollars(cost.0), "currency": "USD"});
        }
        update("usage_update", rest)
    }

    pub(super) fn rate_limit(&mut self, resets_at: Option<Timestamp>) {
        self.limit = resets_at;
    }

    pub(super) fn chatter() -> Value {
        update("session_info_update", json!({}))
    }

    pub(super) fn echo(prompt: &str) -> Value {
        update("user_message_chunk", json!({"content": block(prompt)}))
    }

    pub(super) fn end(&mut self, end: End) -> Vec<Value> {
        match end {
            End::Success => vec![self.stopped("end_turn")],
            End::Structured(answer) => {
                let answer = self.text(&answer.to_string(), Speaker::Agent, TextForm::Message);
                vec![answer, self.stopped("end_turn")]
            }
            End::Error(class, message) => vec![self.error(class, &message)],
        }
    }

    fn error(&self, class: ErrorClass, message: &str) -> Value {
        let code = match class {
            ErrorClass::Crashed => -32_603,
            ErrorClass::Malformed => {
                return json!({"jsonrpc": "2.0", "id": PROMPT_ID, "result": {}});
            }
            ErrorClass::TurnLimit => return self.stopped("max_turn_requests"),
            ErrorClass::RateLimited => 429,
            ErrorClass::Overloaded => 503,
            ErrorClass::NotLoggedIn => -32_000,
            ErrorClass::BadCall => 404,
            ErrorClass::ContextExceeded => 413,
        };
        let reset = self.limit.map(|at| format!("|{}", at.0 / 1000)).unwrap_or_default();
        let error = json!({"code": code, "message": format!("{message}{reset}")});
        json!({"jsonrpc": "2.0", "id": PROMPT_ID, "error": error})
    }

    fn stopped(&self, reason: &str) -> Value {
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
