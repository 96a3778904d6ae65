//! The scripted agent in the dialect of Codex: its `exec --json` lines.
//!
//! Codex has no lines for the prompt, subagents, costs, patches that do not apply, and limits that
//! are not hit; messages are never split. Not here: reading them.

use jiff::tz::TimeZone;
use ralph_core::reading::{TodoItem, TodoState, ToolOutcome, Usage};
use ralph_core::units::Timestamp;
use serde_json::{Value, json};

use super::scenario::ErrorClass;
use super::writer::{End, ToolCall, absolute, joined};

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

    pub(super) fn begin(session: &str) -> [Value; 2] {
        [json!({"type": "thread.started", "thread_id": session}), json!({"type": "turn.started"})]
    }

    /// Builds an item with the next number.
    fn item(&mut self, kind: &str, rest: Value) -> Value {
        let id = format!("item_{}", self.items);
        self.items += 1;
        joined(json!({"id": id, "type": kind}), rest)
    }

    pub(super) fn text(&mut self, text: &str) -> Value {
        completed(&self.item("agent_message", json!({"text": text})))
    }

    pub(super) fn reasoning(&mut self, text: &str) -> Value {
        completed(&self.item("reasoning", json!({"text": text})))
    }

    /// Builds a notice, which Codex calls an error.
    pub(super) fn notice(&mut self, text: &str) -> Value {
        completed(&self.item("error", json!({"message": text})))
    }

    pub(super) fn tool(&mut self, call: &ToolCall<'_>) -> Vec<Value> {
        let (code, status) = match call.outcome {
            ToolOutcome::Ok => (0, "completed"),
            ToolOutcome::Error => (1, "failed"),
        };
        let (item, end) = match (change_of(call), command_of(call)) {
            (Some(_), _) if call.outcome == ToolOutcome::Error => return Vec::new(),
            (Some(kind), _) => {
                let changes = json!([{"path": absolute(call.summary), "kind": kind}]);
                (self.item("file_change", json!({"changes": changes})), json!({}))
            }
            (None, Some(command)) => {
                let begun = json!({"command": in_shell(&command), "aggregated_output": "",
                    "exit_code": null});
                let end = json!({"aggregated_output": call.output, "exit_code": code});
                (self.item("command_execution", begun), end)
            }
            (None, None) => {
                let content = json!([{"type": "text", "text": call.output}]);
                let end = json!({"result": {"content": content, "structured_content": null}});
                (self.item("mcp_tool_call", mcp_call(call)), end)
            }
        };
        let begun = joined(item.clone(), json!({"status": "in_progress"}));
        let ended = joined(joined(item, end), json!({"status": status}));
        vec![started(&begun), completed(&ended)]
    }

    /// Returns the stderr line of a tool call without other output: a patch that does not apply.
    pub(super) fn complaint(call: &ToolCall<'_>) -> Option<String> {
        let has_failed = call.outcome == ToolOutcome::Error && change_of(call).is_some();
        has_failed.then(|| format!("ERROR codex_core::tools::router: error={}", call.output))
    }

    /// Builds the to-do list, of which there is one: its later states are updates. Codex has no
    /// state for an item in progress.
    pub(super) fn todo(&mut self, items: &[TodoItem]) -> Value {
        let items: Vec<Value> = items
            .iter()
            .map(|item| json!({"text": item.text, "completed": item.state == TodoState::Done}))
            .collect();
        if let Some(todo) = &mut self.todo {
            todo["items"] = json!(items);
            return json!({"type": "item.updated", "item": todo});
        }
        let item = self.item("todo_list", json!({"items": items}));
        started(self.todo.insert(item))
    }

    pub(super) fn usage(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    pub(super) fn limited(&mut self, resets_at: Option<Timestamp>, now: Timestamp) {
        self.limit = resets_at.map(|at| limit_words(at, now, &self.zone));
    }

    /// Ends the turn; the to-do list is printed once more.
    pub(super) fn end(&mut self, end: End) -> Vec<Value> {
        let answer = match &end {
            End::Structured(answer) => Some(self.text(&answer.to_string())),
            End::Success | End::Error(..) => None,
        };
        let todo = self.todo.take().map(|todo| completed(&todo));
        match end {
            End::Success | End::Structured(_) => {
                let completed = json!({"type": "turn.completed", "usage": figures(self.usage)});
                [answer, todo, Some(completed)].into_iter().flatten().collect()
            }
            End::Error(class, text) => {
                let message = self.error_words(class, &text);
                let error = json!({"type": "error", "message": message});
                let failed = json!({"type": "turn.failed", "error": {"message": message}});
                [Some(error), todo, Some(failed)].into_iter().flatten().collect()
            }
        }
    }

    /// Returns Codex's message for an error, with the scenario's message after or inside it.
    fn error_words(&self, class: ErrorClass, text: &str) -> String {
        let http = |status: &str| {
            format!("unexpected status {status}: {text}, url: https://api.openai.com/v1/responses")
        };
        let sentence = match class {
            ErrorClass::Crashed | ErrorClass::Malformed => return text.to_owned(),
            ErrorClass::NotLoggedIn => return http("401 Unauthorized"),
            ErrorClass::BadCall => return http("404 Not Found"),
            ErrorClass::TurnLimit => "Incomplete response returned, reason: max_output_tokens.",
            ErrorClass::RateLimited => match &self.limit {
                Some(limit) => limit,
                None => "You’ve hit your usage limit. Try again later.",
            },
            ErrorClass::Overloaded => {
                "Selected model is at capacity. Please try a different model."
            }
            ErrorClass::ContextExceeded => {
                "Codex ran out of room in the model's context window. Start a new thread or clear \
                 earlier history before retrying."
            }
        };
        format!("{sentence} {text}")
    }
}

fn started(item: &Value) -> Value {
    json!({"type": "item.started", "item": item})
}

fn completed(item: &Value) -> Value {
    json!({"type": "item.completed", "item": item})
}

/// Returns the kind of change that a call makes to a file, if any.
fn change_of(call: &ToolCall<'_>) -> Option<&'static str> {
    match call.name {
        "Write" => Some("add"),
        "Edit" => Some("update"),
        _ => None,
    }
}

/// Returns the command of a call. Codex has no tool to read files: it runs one.
fn command_of(call: &ToolCall<'_>) -> Option<String> {
    match call.name {
        "Bash" => Some(call.summary.to_owned()),
        "Read" => Some(format!("cat {}", call.summary)),
        _ => None,
    }
}

/// Wraps a command in the shell invocation of Codex.
fn in_shell(command: &str) -> String {
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
fn mcp_call(call: &ToolCall<'_>) -> Value {
    let (server, tool) = call
        .name
        .strip_prefix("mcp__")
        .and_then(|name| name.split_once("__"))
        .unwrap_or(("sim", call.name));
    json!({"server": server, "tool": tool, "arguments": {"query": call.summary},
        "result": null, "error": null})
}

/// Builds the usage; the input tokens include those from the cache.
fn figures(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.plus(usage.cache_read).plus(usage.cache_write).0,
        "cached_input_tokens": usage.cache_read.0,
        "cache_write_input_tokens": usage.cache_write.0,
        "output_tokens": usage.output.0, "reasoning_output_tokens": 0,
    })
}

/// A shorter limit is one of tokens per minute, which Codex prints with seconds; the limits of
/// plans are longer.
const SHORT_MILLIS: i64 = 60_000;

/// Returns Codex's message for a limit. It prints times of the local time zone, to the minute.
fn limit_words(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
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
    use ralph_core::child::Ending;
    use ralph_core::failure::FailureClass;
    use ralph_core::recipe::AgentKind;

    use super::*;
    use ralph_agents::limit_words::reset_time;
    use ralph_agents::rehearsal::{self, request};

    fn millis(moment: &str) -> Timestamp {
        Timestamp(moment.parse::<jiff::Timestamp>().expect("a moment").as_millisecond())
    }

    #[track_caller]
    fn check(now: &str, at: &str, text: &str, read: &str) {
        let (now, at) = (millis(now), millis(at));
        let mut writer = CodexWriter::new(TimeZone::UTC);
        writer.limited(Some(at), now);
        let lines = writer.end(End::Error(ErrorClass::RateLimited, "Sorry.".to_owned()));
        let stream: Vec<String> = lines.iter().map(Value::to_string).collect();
        let request = request(AgentKind::Codex, &[], "Do it.");
        let ending = Ending::Exited { code: 1 };
        let reply = rehearsal::read(&request, &stream.join("\n"), "", ending, now).1;
        let failure = reply.failure.expect("a limit is no success");
        assert!(failure.words.ends_with(&format!("{text} Sorry.")), "{}", failure.words);
        let resets_at = Some(millis(read));
        assert_eq!(failure.class, FailureClass::RateLimited { resets_at }, "{}", failure.words);
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
        let text = limit_words(at, now, &zone);
        assert!(text.ends_with("try again at Nov 16th, 2026 12:30 AM."), "{text}");
        assert_eq!(reset_time(&text, now, &zone), Some(at));
    }
}
