//! The scripted agent in the dialect of Claude Code: its `stream-json` lines.
//!
//! Only the fields that readers use. Not here: reading them.

use ralph_model::agent_output::{
    RateLimitStatus, Speaker, TextForm, TodoItem, TodoState, ToolOutcome, Usage,
};
use ralph_model::units::Timestamp;
use serde_json::{Value, json};

use super::scenario::ScriptedErrorClass;
use super::writer::{ScriptedToolCall, SimTurnEnd};

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
    pub(super) fn build_start(&mut self, session: &str) -> Value {
        session.clone_into(&mut self.session);
        json!({
            "type": "system", "subtype": "init", "session_id": session, "model": MODEL,
            "claude_code_version": "2.1.325", "tools": ["Bash", "Edit", "Read", "Write"],
            "mcp_servers": [], "permissionMode": "bypassPermissions",
        })
    }

    fn build_assistant_line(&self, block: &Value, parent: &Value) -> Value {
        json!({
            "type": "assistant",
            "message": {
                "id": format!("msg_{}", self.messages), "type": "message", "role": "assistant",
                "model": MODEL, "content": [block], "stop_reason": null,
            },
            "parent_tool_use_id": parent, "session_id": self.session,
        })
    }

    pub(super) fn build_text(&mut self, text: &str, speaker: Speaker, form: TextForm) -> Value {
        self.messages += u32::from(form == TextForm::Message);
        let parent = match speaker {
            Speaker::Agent => Value::Null,
            Speaker::Subagent => json!("tool_parent"),
        };
        self.build_assistant_line(&json!({"type": "text", "text": text}), &parent)
    }

    pub(super) fn build_reasoning(&mut self, text: &str) -> Value {
        self.messages += 1;
        self.build_assistant_line(
            &json!({"type": "thinking", "thinking": text, "signature": ""}),
            &Value::Null,
        )
    }

    fn build_call(&mut self, id: &str, name: &str, input: &Value, output: &Value) -> Vec<Value> {
        self.messages += 1;
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        let result = json!({
            "type": "user",
            "message": {"role": "user", "content": [output]},
            "parent_tool_use_id": null, "session_id": self.session,
        });
        vec![self.build_assistant_line(&block, &Value::Null), result]
    }

    pub(super) fn build_tool_call(&mut self, id: &str, call: &ScriptedToolCall<'_>) -> Vec<Value> {
        let input = match call.name {
            "Edit" | "Write" | "Read" => json!({"file_path": call.summary}),
            _ => json!({"command": call.summary}),
        };
        let output = json!({
            "type": "tool_result", "tool_use_id": id, "content": call.output,
            "is_error": call.outcome == ToolOutcome::Error,
        });
        self.build_call(id, call.name, &input, &output)
    }

    pub(super) fn build_todo(&mut self, id: &str, items: &[TodoItem]) -> Vec<Value> {
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
        self.build_call(id, "TodoWrite", &json!({"todos": todos}), &output)
    }

    pub(super) fn add_usage(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    pub(super) fn build_notice(&self, text: &str) -> Value {
        json!({"type": "system", "subtype": "informational", "content": text,
            "session_id": self.session})
    }

    pub(super) fn build_rate_limit(
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

    pub(super) fn build_chatter(&self) -> Value {
        json!({"type": "system", "subtype": "status", "status": null, "session_id": self.session})
    }

    pub(super) fn build_echo(&self, prompt: &str) -> Value {
        json!({"type": "user", "message": {"role": "user", "content": prompt},
            "parent_tool_use_id": null, "session_id": self.session, "isReplay": true})
    }

    pub(super) fn build_end(&mut self, end: SimTurnEnd, final_answer: &str) -> Vec<Value> {
        match end {
            SimTurnEnd::Success => vec![self.build_result(json!({
                "subtype": "success", "is_error": false, "terminal_reason": "completed",
                "result": final_answer,
            }))],
            SimTurnEnd::Structured(answer) => {
                let output = json!({"type": "tool_result", "tool_use_id": "tool_answer",
                    "content": "Structured output provided successfully"});
                let mut lines =
                    self.build_call("tool_answer", "StructuredOutput", &answer, &output);
                lines.push(self.build_result(json!({
                    "subtype": "success", "is_error": false, "terminal_reason": "completed",
                    "result": answer.to_string(), "structured_output": answer,
                })));
                lines
            }
            SimTurnEnd::Error(class, message) => self.build_error(class, &message),
        }
    }

    fn build_error(&mut self, class: ScriptedErrorClass, message: &str) -> Vec<Value> {
        let turn = |subtype: &str, reason: &str| {
            json!({"subtype": subtype, "is_error": true, "terminal_reason": reason,
                "errors": [message]})
        };
        let (status, kind) = match class {
            ScriptedErrorClass::Crashed => {
                return vec![
                    self.build_result(turn("error_during_execution", "aborted_streaming")),
                ];
            }
            ScriptedErrorClass::Malformed => {
                let reason = "structured_output_retry_exhausted";
                return vec![
                    self.build_result(turn("error_max_structured_output_retries", reason)),
                ];
            }
            ScriptedErrorClass::TurnLimit => {
                return vec![self.build_result(turn("error_max_turns", "max_turns"))];
            }
            ScriptedErrorClass::ContextExceeded => {
                return vec![self.build_result(json!({
                    "subtype": "success", "is_error": true, "terminal_reason": "prompt_too_long",
                    "result": message,
                }))];
            }
            ScriptedErrorClass::RateLimited if self.limit.is_some() => {
                (429, json!("usage_limit_reached"))
            }
            ScriptedErrorClass::RateLimited => (429, Value::Null),
            ScriptedErrorClass::Overloaded => (529, Value::Null),
            ScriptedErrorClass::NotLoggedIn => (401, Value::Null),
            ScriptedErrorClass::BadCall => (404, Value::Null),
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
        let result = self.build_result(json!({
            "subtype": "success", "is_error": true, "terminal_reason": "api_error",
            "api_error_status": status, "api_error": kind, "result": message,
        }));
        vec![assistant, result]
    }

    /// Completes a result with the common fields.
    fn build_result(&self, mut line: Value) -> Value {
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
            line.insert("total_cost_usd".to_owned(), to_dollars(cost));
        }
        line
    }
}

/// Returns an amount as the dialects print it.
#[expect(clippy::cast_precision_loss, reason = "a call costs less than 2^53 millionths")]
pub(super) fn to_dollars(micros: u64) -> Value {
    json!(micros as f64 / 1_000_000.0)
}
