//! The scripted agent in the dialect of Cline: its `--json` lines.
//!
//! Every tool call ends an iteration, as a model turn does in Cline. Cline has no lines for to-do
//! lists, for the prompt, and for limits that are not hit. Not here: reading them.

use ralph_model::agent_output::{Speaker, ToolOutcome, Usage};
use ralph_model::units::Timestamp;
use serde_json::{Value, json};

use super::claude_writer::to_dollars;
use super::provider_errors::format_provider_error;
use super::scenario::ScriptedErrorClass;
use super::writer::{ScriptedToolCall, SimTurnEnd, join_objects, to_absolute};

/// Builds the lines, and remembers what later ones repeat.
#[derive(Debug, Default)]
pub(super) struct ClineWriter {
    task: String,
    iteration: u32,
    usage: Usage,
    limit: Option<Timestamp>,
}

const AGENT: &str = "agent_sim";

/// Adds the common fields of every line.
fn build_line(kind: &str, rest: Value) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    join_objects(json!({"ts": now, "type": kind}), rest)
}

fn build_event(kind: &str, rest: Value) -> Value {
    build_line("agent_event", json!({"event": join_objects(json!({"type": kind}), rest)}))
}

impl ClineWriter {
    pub(super) fn build_start(&mut self, session: &str) -> [Value; 2] {
        self.task = format!("conv_{session}");
        [self.build_hook("agent_start"), self.start_iteration()]
    }

    fn build_hook(&self, name: &str) -> Value {
        let hook = json!({"hookEventName": name, "agentId": AGENT, "taskId": self.task,
            "parentAgentId": null});
        build_line("hook_event", hook)
    }

    fn start_iteration(&mut self) -> Value {
        self.iteration += 1;
        build_event("iteration_start", json!({"iteration": self.iteration}))
    }

    fn build_iteration_end(&self, calls: u32) -> Value {
        let end = json!({"iteration": self.iteration, "hadToolCalls": calls > 0,
            "toolCallCount": calls});
        build_event("iteration_end", end)
    }

    /// Builds a message in pieces, each with the text accumulated so far, and then the whole text.
    pub(super) fn build_text(pieces: &[&str], speaker: Speaker) -> Vec<Value> {
        let mut whole = String::new();
        let mut lines: Vec<Value> = pieces
            .iter()
            .map(|piece| {
                whole.push_str(piece);
                let start = json!({"contentType": "text", "text": piece, "accumulated": whole});
                build_event("content_start", start)
            })
            .collect();
        lines.push(build_event("content_end", json!({"contentType": "text", "text": whole})));
        if speaker == Speaker::Subagent {
            for line in &mut lines {
                line["parentAgentId"] = json!(AGENT);
            }
        }
        lines
    }

    pub(super) fn build_reasoning(text: &str) -> [Value; 2] {
        let begun = json!({"contentType": "reasoning", "reasoning": text, "redacted": false});
        let ended = json!({"contentType": "reasoning", "reasoning": text});
        [build_event("content_start", begun), build_event("content_end", ended)]
    }

    pub(super) fn build_tool_call(&mut self, id: &str, call: &ScriptedToolCall<'_>) -> Vec<Value> {
        let path = || to_absolute(call.summary);
        let (name, input, query) = match call.name {
            "Bash" => {
                ("run_commands", json!({"commands": [call.summary]}), call.summary.to_owned())
            }
            "Read" => ("read_files", json!({"files": [{"path": path()}]}), path()),
            "Write" => {
                ("editor", json!({"path": path(), "new_text": ""}), format_edit_query(&path()))
            }
            "Edit" => {
                let input = json!({"path": path(), "old_text": "", "new_text": ""});
                ("editor", input, format_edit_query(&path()))
            }
            other => (other, json!({"query": call.summary}), call.summary.to_owned()),
        };
        let tool = |kind: &str, rest: (&str, Value)| {
            let mut line = json!({"contentType": "tool", "toolName": name, "toolCallId": id});
            line[rest.0] = rest.1;
            build_event(kind, line)
        };
        let mut lines = vec![self.build_hook("tool_call"), tool("content_start", ("input", input))];
        if name == "run_commands" {
            let chunks = ["", call.output];
            let updates = chunks.iter().map(|chunk| build_output_update(chunk, &query));
            lines.extend(updates.map(|update| tool("content_update", ("update", update))));
        }
        let mut end = tool("content_end", ("output", build_tool_output(name, &query, call)));
        end["event"]["durationMs"] = json!(1);
        lines.extend([self.build_hook("tool_result"), end, self.build_iteration_end(1)]);
        lines.push(self.start_iteration());
        lines
    }

    pub(super) fn add_usage(&mut self, usage: Usage) -> Value {
        self.usage = self.usage.plus(usage);
        let total = self.usage;
        let mut figures = json!({
            "inputTokens": count_input_tokens(usage), "outputTokens": usage.output.0,
            "totalInputTokens": count_input_tokens(total), "totalOutputTokens": total.output.0,
            "totalCost": to_cost(total),
        });
        // Cline omits values of zero.
        for (tokens, name, sum, sum_name) in [
            (usage.cache_read, "cacheReadTokens", total.cache_read, "totalCacheReadTokens"),
            (usage.cache_write, "cacheWriteTokens", total.cache_write, "totalCacheWriteTokens"),
        ] {
            if tokens.0 > 0 {
                figures[name] = json!(tokens.0);
            }
            if sum.0 > 0 {
                figures[sum_name] = json!(sum.0);
            }
        }
        build_event("usage", figures)
    }

    pub(super) fn build_notice(&self, text: &str) -> Value {
        let metadata = json!({"kind": "sim", "reason": "sim", "iteration": self.iteration,
            "phase": "started"});
        let notice = json!({"noticeType": "status", "displayRole": "status", "message": text,
            "metadata": metadata});
        build_event("notice", notice)
    }

    /// Builds an update of a command that prints nothing.
    pub(super) fn build_chatter() -> Value {
        let silence = json!({"contentType": "tool", "toolName": "run_commands",
            "toolCallId": "tool_sim", "update": build_output_update("", "")});
        build_event("content_update", silence)
    }

    pub(super) fn set_limit(&mut self, resets_at: Option<Timestamp>) {
        self.limit = resets_at;
    }

    pub(super) fn build_end(&self, end: SimTurnEnd, final_answer: &str) -> Vec<Value> {
        match end {
            SimTurnEnd::Success => self.build_success(final_answer),
            SimTurnEnd::Structured(answer) => {
                let answer = answer.to_string();
                let mut lines = Self::build_text(&[&answer], Speaker::Agent);
                lines.extend(self.build_success(&answer));
                lines
            }
            SimTurnEnd::Error(class, message) => self.build_error(class, &message),
        }
    }

    /// Returns the line that Cline also prints to stderr for an error.
    pub(super) fn build_stderr_line(&self, end: &SimTurnEnd) -> Option<Value> {
        match end {
            SimTurnEnd::Success | SimTurnEnd::Structured(_) => None,
            SimTurnEnd::Error(class, message) => {
                let message = format_provider_error(*class, message, self.limit);
                Some(build_line("error", json!({"message": message})))
            }
        }
    }

    fn build_success(&self, answer: &str) -> Vec<Value> {
        let mut usage = build_usage(self.usage);
        // Here Cline reports only tokens that were read from the cache.
        if let Value::Object(usage) = &mut usage {
            usage.retain(|name, tokens| match name.as_str() {
                "cacheReadTokens" => tokens.as_u64() != Some(0),
                name => name != "cacheWriteTokens",
            });
        }
        let done = json!({"reason": "completed", "text": answer, "iterations": self.iteration,
            "usage": usage});
        vec![
            self.build_iteration_end(0),
            self.build_hook("agent_end"),
            build_event("done", done),
            self.build_result("completed", answer),
        ]
    }

    fn build_error(&self, class: ScriptedErrorClass, message: &str) -> Vec<Value> {
        let message = format_provider_error(class, message, self.limit);
        let kind = if class == ScriptedErrorClass::NotLoggedIn { "auth" } else { "unknown" };
        let stack = format!("Error: {message}\n    at execute (sim.js:1:1)");
        let error = json!({
            "error": {"name": "Error", "message": message, "stack": stack},
            "errorClass": kind, "recoverable": false, "iteration": self.iteration,
        });
        vec![
            self.build_hook("agent_error"),
            build_event("error", error),
            self.build_result("error", &message),
        ]
    }

    fn build_result(&self, reason: &str, text: &str) -> Value {
        let result = json!({
            "finishReason": reason, "iterations": self.iteration, "durationMs": 1, "text": text,
            "usage": build_usage(self.usage), "aggregateUsage": build_usage(self.usage),
            "model": {"id": "cline-sim", "provider": "sim"},
        });
        build_line("run_result", result)
    }
}

fn format_edit_query(path: &str) -> String {
    format!("edit:{path}")
}

fn build_output_update(chunk: &str, query: &str) -> Value {
    json!({"stream": "stdout", "chunk": chunk, "executionId": "sim", "detachable": false,
        "commandIndex": 0, "query": query})
}

/// Builds the result of a tool: one object from the editor, a list from all others.
fn build_tool_output(name: &str, query: &str, call: &ScriptedToolCall<'_>) -> Value {
    let output = call.output;
    let part = match (call.outcome, name) {
        (ToolOutcome::Ok, _) => json!({"query": query, "result": output, "success": true}),
        (ToolOutcome::Error, "run_commands") => json!({"query": query, "result": output,
            "error": "Command exited with code 1", "success": false}),
        (ToolOutcome::Error, _) => {
            json!({"query": query, "result": "", "error": output, "success": false})
        }
    };
    if name == "editor" { part } else { json!([part]) }
}

/// Returns the input tokens as Cline counts them, including those from the cache.
fn count_input_tokens(usage: Usage) -> u64 {
    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write).0
}

/// Returns the cost; zero if it is not known.
fn to_cost(usage: Usage) -> Value {
    to_dollars(usage.cost.unwrap_or_default().0)
}

fn build_usage(usage: Usage) -> Value {
    json!({
        "inputTokens": count_input_tokens(usage), "outputTokens": usage.output.0,
        "cacheReadTokens": usage.cache_read.0, "cacheWriteTokens": usage.cache_write.0,
        "totalCost": to_cost(usage),
    })
}
