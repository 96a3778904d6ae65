//! The scripted agent in the dialect of Amp: its `--stream-json` lines.
//!
//! They begin with the prompt, repeated as a user message. Amp has no lines for notices, costs and
//! limits that are not hit. Not here: reading them.

use ralph_model::agent_output::{Speaker, TodoItem, TodoState, ToolOutcome, Usage};
use ralph_model::units::Timestamp;
use serde_json::{Value, json};

use super::provider_errors::format_provider_error;
use super::scenario::ScriptedErrorClass;
use super::writer::{ScriptedToolCall, SimTurnEnd, join_objects, to_absolute};

/// Builds the lines, and remembers what later ones repeat.
#[derive(Debug, Default)]
pub(super) struct AmpWriter {
    session: String,
    messages: u32,
    /// Usage for the next message: Amp reports usage only with messages.
    pending_usage: Usage,
    usage: Usage,
    limit: Option<Timestamp>,
}

impl AmpWriter {
    pub(super) fn build_start(&mut self, session: &str, prompt: &str) -> [Value; 2] {
        self.session = format!("T-{session}");
        let init = json!({
            "type": "system", "subtype": "init", "cwd": to_absolute("."),
            "session_id": self.session, "mcp_servers": [],
            "tools": ["Bash", "create_file", "edit_file", "Read", "Task", "todo_write"],
        });
        [init, self.build_echo(prompt)]
    }

    pub(super) fn build_echo(&self, prompt: &str) -> Value {
        self.build_user_line(&json!({"type": "text", "text": prompt}))
    }

    /// Builds a line of the user, which is also the form of tool results.
    fn build_user_line(&self, block: &Value) -> Value {
        json!({
            "type": "user", "message": {"role": "user", "content": [block]},
            "parent_tool_use_id": null, "session_id": self.session,
        })
    }

    fn build_assistant_line(&mut self, block: &Value, reason: &str, parent: &Value) -> Value {
        self.messages += 1;
        let usage = std::mem::take(&mut self.pending_usage);
        json!({
            "type": "assistant",
            "message": {
                "type": "message", "role": "assistant", "content": [block],
                "stop_reason": reason, "usage": build_usage(usage),
            },
            "parent_tool_use_id": parent, "session_id": self.session,
        })
    }

    pub(super) fn build_text(&mut self, text: &str, speaker: Speaker) -> Value {
        let parent = match speaker {
            Speaker::Agent => Value::Null,
            Speaker::Subagent => json!("tool_parent"),
        };
        self.build_assistant_line(&json!({"type": "text", "text": text}), "end_turn", &parent)
    }

    pub(super) fn build_reasoning(&mut self, text: &str) -> Value {
        let block = json!({"type": "thinking", "thinking": text});
        self.build_assistant_line(&block, "end_turn", &Value::Null)
    }

    fn build_call(
        &mut self,
        id: &str,
        name: &str,
        input: &Value,
        end: (&str, ToolOutcome),
    ) -> [Value; 2] {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        let (content, outcome) = end;
        let result = json!({
            "type": "tool_result", "tool_use_id": id, "content": content,
            "is_error": outcome == ToolOutcome::Error,
        });
        [self.build_assistant_line(&block, "tool_use", &Value::Null), self.build_user_line(&result)]
    }

    pub(super) fn build_tool_call(&mut self, id: &str, call: &ScriptedToolCall<'_>) -> [Value; 2] {
        let end = (call.output, call.outcome);
        let path = || to_absolute(call.summary);
        match call.name {
            "Bash" => {
                let code = match call.outcome {
                    ToolOutcome::Ok => 0,
                    ToolOutcome::Error => 1,
                };
                let output = json!({"output": call.output, "exitCode": code}).to_string();
                let end = (output.as_str(), call.outcome);
                self.build_call(id, "Bash", &json!({"cmd": call.summary}), end)
            }
            "Write" => {
                self.build_call(id, "create_file", &json!({"path": path(), "content": ""}), end)
            }
            "Edit" => {
                let input = json!({"path": path(), "old_str": "", "new_str": ""});
                self.build_call(id, "edit_file", &input, end)
            }
            "Read" => self.build_call(id, "Read", &json!({"path": path()}), end),
            other => self.build_call(id, other, &json!({"query": call.summary}), end),
        }
    }

    pub(super) fn build_todo(&mut self, id: &str, items: &[TodoItem]) -> [Value; 2] {
        let todos: Vec<Value> = items
            .iter()
            .zip(1..)
            .map(|(item, number): (_, u32)| {
                let status = match item.state {
                    TodoState::Pending => "todo",
                    TodoState::Active => "in-progress",
                    TodoState::Done => "completed",
                };
                json!({"id": number.to_string(), "content": item.text, "status": status,
                    "priority": "medium"})
            })
            .collect();
        let end = ("Todos updated", ToolOutcome::Ok);
        self.build_call(id, "todo_write", &json!({"todos": todos}), end)
    }

    pub(super) fn add_usage(&mut self, usage: Usage) {
        self.pending_usage = self.pending_usage.plus(usage);
        self.usage = self.usage.plus(usage);
    }

    pub(super) fn set_limit(&mut self, resets_at: Option<Timestamp>) {
        self.limit = resets_at;
    }

    pub(super) fn build_end(&mut self, end: SimTurnEnd, final_answer: &str) -> Vec<Value> {
        match end {
            SimTurnEnd::Success => vec![self.build_success(final_answer)],
            SimTurnEnd::Structured(answer) => {
                let answer = answer.to_string();
                vec![self.build_text(&answer, Speaker::Agent), self.build_success(&answer)]
            }
            SimTurnEnd::Error(class, message) => vec![self.build_error(class, &message)],
        }
    }

    fn build_success(&self, answer: &str) -> Value {
        self.build_result(json!({"subtype": "success", "is_error": false, "result": answer}))
    }

    fn build_error(&self, class: ScriptedErrorClass, message: &str) -> Value {
        let (subtype, message) = if class == ScriptedErrorClass::TurnLimit {
            ("error_max_turns", message.to_owned())
        } else {
            ("error_during_execution", format_provider_error(class, message, self.limit))
        };
        self.build_result(json!({"subtype": subtype, "is_error": true, "error": message}))
    }

    /// Completes a result with the common fields, and with the total usage if there is any.
    fn build_result(&self, rest: Value) -> Value {
        let mut line = join_objects(json!({"type": "result"}), rest);
        line["duration_ms"] = json!(1);
        line["num_turns"] = json!(self.messages.max(1));
        line["session_id"] = json!(self.session);
        if self.usage.tokens().0 > 0 {
            line["usage"] = build_usage(self.usage);
        }
        line
    }
}

fn build_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.0, "output_tokens": usage.output.0,
        "cache_read_input_tokens": usage.cache_read.0,
        "cache_creation_input_tokens": usage.cache_write.0,
        "max_tokens": 168_000, "service_tier": "standard",
    })
}
