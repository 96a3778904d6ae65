//! Gemini CLI's stream of events, line by line.
//!
//! The answer comes in deltas and is never sent complete: it is the text since the last event of
//! another type. Not here: what a failed result means, see `failure`.

use ralph_core::failure::Failure;
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Speaker, ToolOutcome, Usage};
use ralph_core::units::Tokens;
use serde_json::value::RawValue;

use super::course::{Answer, Course};
use super::failure::{GEMINI, Trouble};
use super::wire;
use crate::claude::wire::Head;
use crate::pieces::read_objects;
use crate::translator::{Evidence, Heard, Weight, bounded};

/// Deltas have no id: there is only one open message.
const THE_MESSAGE: &str = "";

/// Prefix of the warning that a hook did not accept the answer.
const HOOK: &str = "Agent execution ";

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct GeminiTranslator {
    course: Course,
}

impl GeminiTranslator {
    /// Returns a translator for one call.
    pub(crate) fn new(_request: &Request) -> Self {
        Self { course: Course::default() }
    }

    /// Reads a line of stdout.
    pub(crate) fn line(&mut self, line: &str) -> Heard {
        read_objects(line, |text| self.object(text))
    }

    /// Returns no events: nothing is held back.
    #[expect(clippy::unused_self, reason = "all translators are called alike")]
    pub(crate) fn finish(&mut self) -> Heard {
        Heard::nothing(Weight::Noise)
    }

    /// Judges the call.
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        GEMINI.judge(&self.course, evidence)
    }

    fn object(&mut self, text: &str) -> Option<Heard> {
        let head: Head<'_> = serde_json::from_str(text).ok()?;
        match head.kind?.0.as_ref() {
            "init" => {
                let wire::Init { session_id: id, model } = serde_json::from_str(text).ok()?;
                self.course.begin();
                Some(Heard::of(vec![AgentEvent::Session { id, model, version: None }]))
            }
            "message" => self.message(serde_json::from_str(text).ok()?),
            "tool_use" => {
                let wire::ToolUse { tool_id, tool_name, parameters } =
                    serde_json::from_str(text).ok()?;
                let input = parameters.map_or("{}", RawValue::get);
                let name = tool_name.unwrap_or_default();
                Some(Heard::of(vec![self.course.start(tool_id, name, input, Speaker::Agent)]))
            }
            "tool_result" => Some(self.tool_result(serde_json::from_str(text).ok()?)),
            "error" => Some(self.error(serde_json::from_str(text).ok()?)),
            "result" => Some(self.result(serde_json::from_str(text).ok()?)),
            _ => None,
        }
    }

    fn message(&mut self, message: wire::Message<'_>) -> Option<Heard> {
        match message.role.0.as_ref() {
            // The echo of the prompt. Text before it is not the final answer.
            "user" => {
                let events = self.course.retract().into_iter().collect();
                Some(Heard { events, weight: Weight::Noise })
            }
            "assistant" => {
                if message.delta != Some(true) {
                    self.course.pause();
                }
                let text = message.content.0.into_owned();
                Some(Heard::of(vec![self.course.say(text, THE_MESSAGE)]))
            }
            _ => None,
        }
    }

    fn tool_result(&mut self, result: wire::ToolResult<'_>) -> Heard {
        let status = result.status.unwrap_or_default().0;
        let outcome = if status == "success" { ToolOutcome::Ok } else { ToolOutcome::Error };
        let output = result.output.unwrap_or_default().0;
        let message = result.error.and_then(|error| error.message).unwrap_or_default();
        let output = if output.is_empty() { message.as_str() } else { output.as_ref() };
        Heard::of(self.course.end(result.tool_id, outcome, output))
    }

    /// Reads an error, or a warning such as that of a hook which makes the agent continue.
    fn error(&mut self, line: wire::ErrorLine<'_>) -> Heard {
        self.course.pause();
        let mut events = Vec::new();
        let is_warning = line.severity.is_some_and(|severity| severity.0 == "warning");
        if !is_warning || line.message.starts_with(HOOK) {
            events.extend(self.course.retract());
        }
        events.push(AgentEvent::Notice { text: bounded(&line.message) });
        if !is_warning {
            self.course.error = Some(line.message);
        }
        Heard { events, weight: Weight::Noise }
    }

    fn result(&mut self, line: wire::ResultLine<'_>) -> Heard {
        let status = line.status.unwrap_or_default().0;
        let last_error = self.course.error.take();
        let outcome = if status == "success" {
            Ok(Answer::Text(None))
        } else {
            let error = line.error.unwrap_or_default();
            let message = error.message.or(last_error);
            let message = message.unwrap_or_else(|| format!("the turn ended with `{status}`"));
            Err(Trouble::new(error.kind.unwrap_or_default(), message))
        };
        self.course.close(line.stats.as_ref().map(usage), outcome)
    }
}

fn usage(stats: &wire::Stats) -> Usage {
    let thinking_and_text = stats.total_tokens.saturating_sub(stats.input_tokens);
    Usage {
        input: Tokens(stats.input_tokens.saturating_sub(stats.cached)),
        output: Tokens(thinking_and_text.max(stats.output_tokens)),
        cache_read: Tokens(stats.cached),
        cache_write: Tokens(0),
        cost: None,
    }
}
