//! The scripted agent in the dialect of Cline: its `--json` lines.
//!
//! Every tool call ends an iteration, as a model turn does in Cline. Cline has no lines for to-do
//! lists, for the prompt, and for limits that are not hit. Not here: reading them.

use ralph_core::reading::{Speaker, ToolOutcome, Usage};
use ralph_core::units::Timestamp;
use serde_json::{Value, json};

use super::claude_writer::dollars;
use super::provider_words::provider_words;
use super::scenario::ErrorClass;
use super::writer::{End, ToolCall, absolute, joined};

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
fn line(kind: &str, rest: Value) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    joined(json!({"ts": now, "type": kind}), rest)
}

fn event(kind: &str, rest: Value) -> Value {
    line("agent_event", json!({"event": joined(json!({"type": kind}), rest)}))
}

impl ClineWriter {
    pub(super) fn begin(&mut self, session: &str) -> [Value; 2] {
        self.task = format!("conv_{session}");
        [self.hook("agent_start"), self.next_iteration()]
    }

    fn hook(&self, name: &str) -> Value {
        let hook = json!({"hookEventName": name, "agentId": AGENT, "taskId": self.task,
            "parentAgentId": null});
        line("hook_event", hook)
    }

    fn next_iteration(&mut self) -> Value {
        self.iteration += 1;
        event("iteration_start", json!({"iteration": self.iteration}))
    }

    fn iteration_end(&self, calls: u32) -> Value {
        let end = json!({"iteration": self.iteration, "hadToolCalls": calls > 0,
            "toolCallCount": calls});
        event("iteration_end", end)
    }

    /// Builds a message in pieces, each with the text accumulated so far, and then the whole text.
    pub(super) fn text(pieces: &[&str], speaker: Speaker) -> Vec<Value> {
        let mut whole = String::new();
        let mut lines: Vec<Value> = pieces
            .iter()
            .map(|piece| {
                whole.push_str(piece);
                let start = json!({"contentType": "text", "text": piece, "accumulated": whole});
                event("content_start", start)
            })
            .collect();
        lines.push(event("content_end", json!({"contentType": "text", "text": whole})));
        match speaker {
            Speaker::Agent => {}
            Speaker::Subagent => {
                for line in &mut lines {
                    line["parentAgentId"] = json!(AGENT);
                }
            }
        }
        lines
    }

    pub(super) fn reasoning(text: &str) -> [Value; 2] {
        let begun = json!({"contentType": "reasoning", "reasoning": text, "redacted": false});
        let ended = json!({"contentType": "reasoning", "reasoning": text});
        [event("content_start", begun), event("content_end", ended)]
    }

    pub(super) fn tool(&mut self, id: &str, call: &ToolCall<'_>) -> Vec<Value> {
        let path = || absolute(call.summary);
        let (name, input, query) = match call.name {
            "Bash" => {
                ("run_commands", json!({"commands": [call.summary]}), call.summary.to_owned())
            }
            "Read" => ("read_files", json!({"files": [{"path": path()}]}), path()),
            "Write" => ("editor", json!({"path": path(), "new_text": ""}), edit_of(&path())),
            "Edit" => {
                let input = json!({"path": path(), "old_text": "", "new_text": ""});
                ("editor", input, edit_of(&path()))
            }
            other => (other, json!({"query": call.summary}), call.summary.to_owned()),
        };
        let tool = |kind: &str, rest: (&str, Value)| {
            let mut line = json!({"contentType": "tool", "toolName": name, "toolCallId": id});
            line[rest.0] = rest.1;
            event(kind, line)
        };
        let mut lines = vec![self.hook("tool_call"), tool("content_start", ("input", input))];
        if name == "run_commands" {
            let chunks = ["", call.output];
            let updates = chunks.iter().map(|chunk| update(chunk, &query));
            lines.extend(updates.map(|update| tool("content_update", ("update", update))));
        }
        let mut end = tool("content_end", ("output", returned(name, &query, call)));
        end["event"]["durationMs"] = json!(1);
        lines.extend([self.hook("tool_result"), end, self.iteration_end(1)]);
        lines.push(self.next_iteration());
        lines
    }

    pub(super) fn usage(&mut self, usage: Usage) -> Value {
        self.usage = self.usage.plus(usage);
        let total = self.usage;
        let mut figures = json!({
            "inputTokens": input_of(usage), "outputTokens": usage.output.0,
            "totalInputTokens": input_of(total), "totalOutputTokens": total.output.0,
            "totalCost": cost_of(total),
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
        event("usage", figures)
    }

    pub(super) fn notice(&self, text: &str) -> Value {
        let metadata = json!({"kind": "sim", "reason": "sim", "iteration": self.iteration,
            "phase": "started"});
        let notice = json!({"noticeType": "status", "displayRole": "status", "message": text,
            "metadata": metadata});
        event("notice", notice)
    }

    /// Builds an update of a command that prints nothing.
    pub(super) fn chatter() -> Value {
        let silence = json!({"contentType": "tool", "toolName": "run_commands",
            "toolCallId": "tool_sim", "update": update("", "")});
        event("content_update", silence)
    }

    pub(super) fn limited(&mut self, resets_at: Option<Timestamp>) {
        self.limit = resets_at;
    }

    pub(super) fn end(&self, end: End, final_answer: &str) -> Vec<Value> {
        match end {
            End::Success => self.success(final_answer),
            End::Structured(answer) => {
                let answer = answer.to_string();
                let mut lines = Self::text(&[&answer], Speaker::Agent);
                lines.extend(self.success(&answer));
                lines
            }
            End::Error(class, message) => self.error(class, &message),
        }
    }

    /// Returns the line that Cline also prints to stderr for an error.
    pub(super) fn complaint(&self, end: &End) -> Option<Value> {
        match end {
            End::Success | End::Structured(_) => None,
            End::Error(class, message) => {
                let message = provider_words(*class, message, self.limit);
                Some(line("error", json!({"message": message})))
            }
        }
    }

    fn success(&self, answer: &str) -> Vec<Value> {
        let mut usage = figures(self.usage);
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
            self.iteration_end(0),
            self.hook("agent_end"),
            event("done", done),
            self.result("completed", answer),
        ]
    }

    fn error(&self, class: ErrorClass, message: &str) -> Vec<Value> {
        let message = provider_words(class, message, self.limit);
        let kind = match class {
            ErrorClass::NotLoggedIn => "auth",
            ErrorClass::Crashed
            | ErrorClass::Malformed
            | ErrorClass::TurnLimit
            | ErrorClass::RateLimited
            | ErrorClass::Overloaded
            | ErrorClass::BadCall
            | ErrorClass::ContextExceeded => "unknown",
        };
        let stack = format!("Error: {message}\n    at execute (sim.js:1:1)");
        let error = json!({
            "error": {"name": "Error", "message": message, "stack": stack},
            "errorClass": kind, "recoverable": false, "iteration": self.iteration,
        });
        vec![self.hook("agent_error"), event("error", error), self.result("error", &message)]
    }

    fn result(&self, reason: &str, text: &str) -> Value {
        let result = json!({
            "finishReason": reason, "iterations": self.iteration, "durationMs": 1, "text": text,
            "usage": figures(self.usage), "aggregateUsage": figures(self.usage),
            "model": {"id": "cline-sim", "provider": "sim"},
        });
        line("run_result", result)
    }
}

fn edit_of(path: &str) -> String {
    format!("edit:{path}")
}

fn update(chunk: &str, query: &str) -> Value {
    json!({"stream": "stdout", "chunk": chunk, "executionId": "sim", "detachable": false,
        "commandIndex": 0, "query": query})
}

/// Builds the result of a tool: one object from the editor, a list from all others.
fn returned(name: &str, query: &str, call: &ToolCall<'_>) -> Value {
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
fn input_of(usage: Usage) -> u64 {
    usage.input.plus(usage.cache_read).plus(usage.cache_write).0
}

/// Returns the cost; zero if it is not known.
fn cost_of(usage: Usage) -> Value {
    dollars(usage.cost.unwrap_or_default().0)
}

fn figures(usage: Usage) -> Value {
    json!({
        "inputTokens": input_of(usage), "outputTokens": usage.output.0,
        "cacheReadTokens": usage.cache_read.0, "cacheWriteTokens": usage.cache_write.0,
        "totalCost": cost_of(usage),
    })
}
