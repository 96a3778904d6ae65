//! The scripted agent in the dialect of Codex: its `exec --json` lines.
//!
//! Codex has no lines for the prompt, subagents, costs, patches that do not apply, and limits that
//! are not hit; messages are never split. Not here: reading them.

use jiff::tz::TimeZone;
use ralph_model::agent_output::{TodoItem, TodoState, ToolOutcome, Usage};
use ralph_model::units::Timestamp;
use serde_json::{Value, json};

use super::scenario::ScriptedErrorClass;
use super::writer::{ScriptedToolCall, SimTurnEnd, join_objects, to_absolute};

/// Builds the lines, and remembers what later ones repeat.
#[derive(Debug)]
pub(super) struct CodexWriter {
    /// The time zone of the times that Codex prints.
    zone: TimeZone,
    items: u32,
    todo: Option<Value>,
    usage: Usage,
    /// The message for the limit that was hit.
    limit: Option<String>,
}

impl CodexWriter {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { zone, items: 0, todo: None, usage: Usage::default(), limit: None }
    }

    pub(super) fn build_start(session: &str) -> [Value; 2] {
        [json!({"type": "thread.started", "thread_id": session}), json!({"type": "turn.started"})]
    }

    /// Builds an item with the next number.
    fn build_item(&mut self, kind: &str, rest: Value) -> Value {
        let id = format!("item_{}", self.items);
        self.items += 1;
        join_objects(json!({"id": id, "type": kind}), rest)
    }

    pub(super) fn build_text(&mut self, text: &str) -> Value {
        build_completed(&self.build_item("agent_message", json!({"text": text})))
    }

    pub(super) fn build_reasoning(&mut self, text: &str) -> Value {
        build_completed(&self.build_item("reasoning", json!({"text": text})))
    }

    /// Builds a notice, which Codex calls an error.
    pub(super) fn build_notice(&mut self, text: &str) -> Value {
        build_completed(&self.build_item("error", json!({"message": text})))
    }

    pub(super) fn build_tool_call(&mut self, call: &ScriptedToolCall<'_>) -> Vec<Value> {
        let (code, status) = match call.outcome {
            ToolOutcome::Ok => (0, "completed"),
            ToolOutcome::Error => (1, "failed"),
        };
        let (item, end) = match (find_change_kind(call), find_command(call)) {
            (Some(_), _) if call.outcome == ToolOutcome::Error => return Vec::new(),
            (Some(kind), _) => {
                let changes = json!([{"path": to_absolute(call.summary), "kind": kind}]);
                (self.build_item("file_change", json!({"changes": changes})), json!({}))
            }
            (None, Some(command)) => {
                let begun = json!({"command": wrap_in_shell(&command), "aggregated_output": "",
                    "exit_code": null});
                let end = json!({"aggregated_output": call.output, "exit_code": code});
                (self.build_item("command_execution", begun), end)
            }
            (None, None) => {
                let content = json!([{"type": "text", "text": call.output}]);
                let end = json!({"result": {"content": content, "structured_content": null}});
                (self.build_item("mcp_tool_call", build_mcp_call(call)), end)
            }
        };
        let begun = join_objects(item.clone(), json!({"status": "in_progress"}));
        let ended = join_objects(join_objects(item, end), json!({"status": status}));
        vec![build_started(&begun), build_completed(&ended)]
    }

    /// Returns the stderr line of a tool call without other output: a patch that does not apply.
    pub(super) fn find_stderr_line(call: &ScriptedToolCall<'_>) -> Option<String> {
        let has_failed = call.outcome == ToolOutcome::Error && find_change_kind(call).is_some();
        has_failed.then(|| format!("ERROR codex_core::tools::router: error={}", call.output))
    }

    /// Builds the to-do list, of which there is one: its later states are updates. Codex has no
    /// state for an item in progress.
    pub(super) fn build_todo(&mut self, items: &[TodoItem]) -> Value {
        let items: Vec<Value> = items
            .iter()
            .map(|item| json!({"text": item.text, "completed": item.state == TodoState::Done}))
            .collect();
        if let Some(todo) = &mut self.todo {
            todo["items"] = json!(items);
            return json!({"type": "item.updated", "item": todo});
        }
        let item = self.build_item("todo_list", json!({"items": items}));
        build_started(self.todo.insert(item))
    }

    pub(super) fn add_usage(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    pub(super) fn set_limit(&mut self, resets_at: Option<Timestamp>, now: Timestamp) {
        self.limit = resets_at.map(|at| format_limit_message(at, now, &self.zone));
    }

    /// Ends the turn; the to-do list is printed once more.
    pub(super) fn build_end(&mut self, end: SimTurnEnd) -> Vec<Value> {
        let answer = match &end {
            SimTurnEnd::Structured(answer) => Some(self.build_text(&answer.to_string())),
            SimTurnEnd::Success | SimTurnEnd::Error(..) => None,
        };
        let todo = self.todo.take().map(|todo| build_completed(&todo));
        match end {
            SimTurnEnd::Success | SimTurnEnd::Structured(_) => {
                let completed = json!({"type": "turn.completed", "usage": build_usage(self.usage)});
                [answer, todo, Some(completed)].into_iter().flatten().collect()
            }
            SimTurnEnd::Error(class, text) => {
                let message = self.build_error_message(class, &text);
                let error = json!({"type": "error", "message": message});
                let failed = json!({"type": "turn.failed", "error": {"message": message}});
                [Some(error), todo, Some(failed)].into_iter().flatten().collect()
            }
        }
    }

    /// Returns Codex's message for an error, with the scenario's message after or inside it.
    fn build_error_message(&self, class: ScriptedErrorClass, text: &str) -> String {
        let http = |status: &str| {
            format!("unexpected status {status}: {text}, url: https://api.openai.com/v1/responses")
        };
        let sentence = match class {
            ScriptedErrorClass::Crashed | ScriptedErrorClass::Malformed => return text.to_owned(),
            ScriptedErrorClass::NotLoggedIn => return http("401 Unauthorized"),
            ScriptedErrorClass::BadCall => return http("404 Not Found"),
            ScriptedErrorClass::TurnLimit => {
                "Incomplete response returned, reason: max_output_tokens."
            }
            ScriptedErrorClass::RateLimited => match &self.limit {
                Some(limit) => limit,
                None => "You’ve hit your usage limit. Try again later.",
            },
            ScriptedErrorClass::Overloaded => {
                "Selected model is at capacity. Please try a different model."
            }
            ScriptedErrorClass::ContextExceeded => {
                "Codex ran out of room in the model's context window. Start a new thread or clear \
                 earlier history before retrying."
            }
        };
        format!("{sentence} {text}")
    }
}

fn build_started(item: &Value) -> Value {
    json!({"type": "item.started", "item": item})
}

fn build_completed(item: &Value) -> Value {
    json!({"type": "item.completed", "item": item})
}

/// Returns the kind of change that a call makes to a file, if any.
fn find_change_kind(call: &ScriptedToolCall<'_>) -> Option<&'static str> {
    match call.name {
        "Write" => Some("add"),
        "Edit" => Some("update"),
        _ => None,
    }
}

/// Returns the command of a call. Codex has no tool to read files: it runs one.
fn find_command(call: &ScriptedToolCall<'_>) -> Option<String> {
    match call.name {
        "Bash" => Some(call.summary.to_owned()),
        "Read" => Some(format!("cat {}", call.summary)),
        _ => None,
    }
}

/// Wraps a command in the shell invocation of Codex.
fn wrap_in_shell(command: &str) -> String {
    if !command.contains('\'') {
        return format!("/bin/bash -lc '{command}'");
    }
    let mut quoted = String::new();
    for character in command.chars() {
        if matches!(character, '"' | '\\' | '$' | '`') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    format!("/bin/bash -lc \"{quoted}\"")
}

/// Builds a call of a tool that Codex does not have itself. A name such as `mcp__docs__find`
/// includes the server.
fn build_mcp_call(call: &ScriptedToolCall<'_>) -> Value {
    let (server, tool) = call
        .name
        .strip_prefix("mcp__")
        .and_then(|name| name.split_once("__"))
        .unwrap_or(("sim", call.name));
    json!({"server": server, "tool": tool, "arguments": {"query": call.summary},
        "result": null, "error": null})
}

/// Builds the usage; the input tokens include those from the cache.
fn build_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write).0,
        "cached_input_tokens": usage.cache_read.0,
        "cache_write_input_tokens": usage.cache_write.0,
        "output_tokens": usage.output.0, "reasoning_output_tokens": 0,
    })
}

/// A shorter limit is one of tokens per minute, which Codex prints with seconds; the limits of
/// plans are longer.
const SHORT_MILLIS: i64 = 60_000;

/// Returns Codex's message for a limit. It prints times of the local time zone, to the minute.
fn format_limit_message(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let wait = at.0.saturating_sub(now.0).max(0);
    if wait < SHORT_MILLIS {
        let (seconds, millis) = (wait / 1000, wait % 1000);
        return format!(
            "rate limit exceeded: Rate limit reached for sim on tokens per min (TPM). \
             Please try again in {seconds}.{millis:03}s."
        );
    }
    let local = |at: Timestamp| {
        jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().to_zoned(zone.clone())
    };
    let reset = local(at);
    let day = if reset.date() == local(now).date() {
        String::new()
    } else {
        let suffix = match reset.day() {
            1 | 21 | 31 => "st",
            2 | 22 => "nd",
            3 | 23 => "rd",
            _ => "th",
        };
        format!("{}{suffix}, {} ", reset.strftime("%b %-d"), reset.year())
    };
    format!(
        "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more \
         credits or try again at {day}{}.",
        reset.strftime("%-I:%M %p")
    )
}

#[cfg(test)]
mod tests {
    use jiff::tz::offset;
    use ralph_agents::rate_limit_text::parse_reset_time;
    use ralph_agents::test_support::{self, build_request};
    use ralph_model::agent::AgentKind;
    use ralph_model::child::Ending;
    use ralph_model::failure::FailureClass;

    use super::*;

    fn millis(moment: &str) -> Timestamp {
        Timestamp(moment.parse::<jiff::Timestamp>().expect("a moment").as_millisecond())
    }

    #[track_caller]
    fn check(now: &str, at: &str, text: &str, read: &str) {
        let (now, at) = (millis(now), millis(at));
        let mut writer = CodexWriter::new(TimeZone::UTC);
        writer.set_limit(Some(at), now);
        let lines = writer
            .build_end(SimTurnEnd::Error(ScriptedErrorClass::RateLimited, "Sorry.".to_owned()));
        let stream: Vec<String> = lines.iter().map(Value::to_string).collect();
        let request = build_request(AgentKind::Codex, &[], "Do it.");
        let ending = Ending::Exited { code: 1 };
        let reply = test_support::read_stream(&request, &stream.join("\n"), "", ending, now).1;
        let failure = reply.failure.expect("a limit is no success");
        assert!(failure.message.ends_with(&format!("{text} Sorry.")), "{}", failure.message);
        let resets_at = Some(millis(read));
        assert_eq!(failure.class, FailureClass::RateLimited { resets_at }, "{}", failure.message);
    }

    #[test]
    fn a_limit_message_has_the_reset_time_in_codex_format() {
        let now = "2026-11-15T01:26:00Z";
        for (at, text, read) in [
            ("2026-11-15T01:26:01.5Z", "try again in 1.500s.", "2026-11-15T01:26:01.5Z"),
            ("2026-11-15T01:00:00Z", "try again in 0.000s.", now),
            ("2026-11-15T01:27:00Z", "try again at 1:27 AM.", "2026-11-15T01:27:00Z"),
            ("2026-11-15T13:20:59Z", "try again at 1:20 PM.", "2026-11-15T13:20:00Z"),
            ("2026-11-16T00:05:00Z", "at Nov 16th, 2026 12:05 AM.", "2026-11-16T00:05:00Z"),
            ("2026-11-21T12:00:00Z", "at Nov 21st, 2026 12:00 PM.", "2026-11-21T12:00:00Z"),
            ("2026-12-02T09:09:00Z", "at Dec 2nd, 2026 9:09 AM.", "2026-12-02T09:09:00Z"),
            ("2027-01-03T23:59:00Z", "at Jan 3rd, 2027 11:59 PM.", "2027-01-03T23:59:00Z"),
            ("2026-12-12T09:09:00Z", "at Dec 12th, 2026 9:09 AM.", "2026-12-12T09:09:00Z"),
        ] {
            check(now, at, text, read);
        }
    }

    #[test]
    fn a_reset_time_is_in_local_time() {
        let zone = TimeZone::fixed(offset(9));
        let (now, at) = (millis("2026-11-15T14:30:00Z"), millis("2026-11-15T15:30:00Z"));
        let text = format_limit_message(at, now, &zone);
        assert!(text.ends_with("try again at Nov 16th, 2026 12:30 AM."), "{text}");
        assert_eq!(parse_reset_time(&text, now, &zone), Some(at));
    }
}
