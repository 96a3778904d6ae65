//! The scripted agent in the dialect of Claude Code: its `stream-json` lines.
//!
//! Only the fields that readers use. Not here: reading them.

use ralph_core::reading::{
    RateLimitStatus, Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage,
};
use ralph_core::units::Timestamp;
use serde_json::{Value, json};

use super::scenario::ErrorClass;
use super::writer::{End, ToolCall};

/// Builds the lines, and remembers what later ones repeat.
#[derive(Debug, Default)]
pub(super) struct ClaudeWriter {
    session: String,
    messages: u32,
    usage: Usage,
    limit: Option<Timestamp>,
}

const MODEL: &str = "claude-sim";

impl ClaudeWriter {
    pub(super) fn begin(&mut self, session: &str) -> Value {
        session.clone_into(&mut self.session);
        json!({
            "type": "system", "subtype": "init", "session_id": session, "model": MODEL,
            "claude_code_version": "2.1.325", "tools": ["Bash", "Edit", "Read", "Write"],
            "mcp_servers": [], "permissionMode": "bypassPermissions",
        })
    }

    fn said(&self, block: &Value, parent: &Value) -> Value {
        json!({
            "type": "assistant",
            "message": {
                "id": format!("msg_{}", self.messages), "type": "message", "role": "assistant",
                "model": MODEL, "content": [block], "stop_reason": null,
            },
            "parent_tool_use_id": parent, "session_id": self.session,
        })
    }

    pub(super) fn text(&mut self, text: &str, speaker: Speaker, form: TextForm) -> Value {
        match form {
            TextForm::Message => self.messages += 1,
            TextForm::Delta => {}
        }
        let parent = match speaker {
            Speaker::Agent => Value::Null,
            Speaker::Subagent => json!("tool_parent"),
        };
        self.said(&json!({"type": "text", "text": text}), &parent)
    }

    pub(super) fn reasoning(&mut self, text: &str) -> Value {
        self.messages += 1;
        self.said(&json!({"type": "thinking", "thinking": text, "signature": ""}), &Value::Null)
    }

    fn call(&mut self, id: &str, name: &str, input: &Value, output: &Value) -> Vec<Value> {
        self.messages += 1;
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        let result = json!({
            "type": "user",
            "message": {"role": "user", "content": [output]},
            "parent_tool_use_id": null, "session_id": self.session,
        });
        vec![self.said(&block, &Value::Null), result]
    }

    pub(super) fn tool(&mut self, id: &str, call: &ToolCall<'_>) -> Vec<Value> {
        let input = match call.name {
            "Edit" | "Write" | "Read" => json!({"file_path": call.summary}),
            _ => json!({"command": call.summary}),
        };
        let output = json!({
            "type": "tool_result", "tool_use_id": id, "content": call.output,
            "is_error": call.outcome == ToolOutcome::Error,
        });
        self.call(id, call.name, &input, &output)
    }

    pub(super) fn todo(&mut self, id: &str, items: &[TodoItem]) -> Vec<Value> {
        let todos: Vec<Value> = items
            .iter()
            .map(|item| {
                let status = match item.state {
                    TodoState::Pending => "pending",
                    TodoState::Active => "in_progress",
                    TodoState::Done => "completed",
                };
                json!({"content": item.text, "status": status, "activeForm": item.text})
            })
            .collect();
        let output = json!({"type": "tool_result", "tool_use_id": id, "content": "Todos have been modified"});
        self.call(id, "TodoWrite", &json!({"todos": todos}), &output)
    }

    pub(super) fn usage(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    pub(super) fn notice(&self, text: &str) -> Value {
        json!({"type": "system", "subtype": "informational", "content": text,
            "session_id": self.session})
    }

    pub(super) fn rate_limit(
        &mut self,
        status: RateLimitStatus,
        resets_at: Option<Timestamp>,
    ) -> Value {
        self.limit = resets_at;
        let status = match status {
            RateLimitStatus::Allowed => "allowed",
            RateLimitStatus::Warning => "allowed_warning",
            RateLimitStatus::Rejected => "rejected",
        };
        let mut info = json!({"status": status, "rateLimitType": "five_hour"});
        if let Some(at) = resets_at {
            info["resetsAt"] = json!(at.0 / 1000);
        }
        json!({"type": "rate_limit_event", "rate_limit_info": info, "session_id": self.session})
    }

    pub(super) fn chatter(&self) -> Value {
        json!({"type": "system", "subtype": "status", "status": null, "session_id": self.session})
    }

    pub(super) fn echo(&self, prompt: &str) -> Value {
        json!({"type": "user", "message": {"role": "user", "content": prompt},
            "parent_tool_use_id": null, "session_id": self.session, "isReplay": true})
    }

    pub(super) fn end(&mut self, end: End, final_answer: &str) -> Vec<Value> {
        match end {
            End::Success => vec![self.result(json!({
                "subtype": "success", "is_error": false, "terminal_reason": "completed",
                "result": final_answer,
            }))],
            End::Structured(answer) => {
                let output = json!({"type": "tool_result", "tool_use_id": "tool_answer",
                    "content": "Structured output provided successfully"});
                let mut lines = self.call("tool_answer", "StructuredOutput", &answer, &output);
                lines.push(self.result(json!({
                    "subtype": "success", "is_error": false, "terminal_reason": "completed",
                    "result": answer.to_string(), "structured_output": answer,
                })));
                lines
            }
            End::Error(class, message) => self.error(class, &message),
        }
    }

    fn error(&mut self, class: ErrorClass, message: &str) -> Vec<Value> {
        let turn = |subtype: &str, reason: &str| {
            json!({"subtype": subtype, "is_error": true, "terminal_reason": reason,
                "errors": [message]})
        };
        let (status, kind) = match class {
            ErrorClass::Crashed => {
                return vec![self.result(turn("error_during_execution", "aborted_streaming"))];
            }
            ErrorClass::Malformed => {
                let reason = "structured_output_retry_exhausted";
                return vec![self.result(turn("error_max_structured_output_retries", reason))];
            }
            ErrorClass::TurnLimit => {
                return vec![self.result(turn("error_max_turns", "max_turns"))];
            }
            ErrorClass::ContextExceeded => {
                return vec![self.result(json!({
                    "subtype": "success", "is_error": true, "terminal_reason": "prompt_too_long",
                    "result": message,
                }))];
            }
            ErrorClass::RateLimited if self.limit.is_some() => (429, json!("usage_limit_reached")),
            ErrorClass::RateLimited => (429, Value::Null),
            ErrorClass::Overloaded => (529, Value::Null),
            ErrorClass::NotLoggedIn => (401, Value::Null),
            ErrorClass::BadCall => (404, Value::Null),
        };
        let assistant = json!({
            "type": "assistant",
            "message": {
                "id": "synthetic", "type": "message", "role": "assistant",
                "model": "<synthetic>", "content": [{"type": "text", "text": message}],
            },
            "parent_tool_use_id": null, "session_id": self.session,
            "is_api_error_message": true, "api_error_status": status, "api_error": kind,
        });
        let result = self.result(json!({
            "subtype": "success", "is_error": true, "terminal_reason": "api_error",
            "api_error_status": status, "api_error": kind, "result": message,
        }));
        vec![assistant, result]
    }

    /// Completes a result with the common fields.
    fn result(&self, mut line: Value) -> Value {
        let cost = self.usage.cost.unwrap_or_default().0;
        let shared = json!({
            "type": "result", "session_id": self.session, "num_turns": self.messages.max(1),
            "permission_denials": [],
            "modelUsage": {MODEL: {
                "inputTokens": self.usage.input.0, "outputTokens": self.usage.output.0,
                "cacheReadInputTokens": self.usage.cache_read.0,
                "cacheCreationInputTokens": self.usage.cache_write.0,
            }},
        });
        if let (Value::Object(line), Value::Object(shared)) = (&mut line, shared) {
            line.extend(shared);
            line.insert("total_cost_usd".to_owned(), dollars(cost));
        }
        line
    }
}

/// Returns an amount as the dialects print it.
#[expect(clippy::cast_precision_loss, reason = "a call costs less than 2^53 millionths")]
pub(super) fn dollars(micros: u64) -> Value {
    json!(micros as f64 / 1_000_000.0)
}
