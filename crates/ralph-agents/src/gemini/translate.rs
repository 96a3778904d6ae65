//! Gemini CLI's stream of events, line by line.
//!
//! The answer comes in deltas and is never sent complete: it is the text since the last event of
//! another type. Not here: what a failed result means, see `failure`.

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{AgentEvent, Speaker, ToolOutcome, Usage};
use ralph_model::failure::Failure;
use ralph_model::units::Tokens;
use serde_json::value::RawValue;

use super::call_state::{GeminiCallState, TurnAnswer};
use super::failure::{GEMINI, GeminiFailure};
use super::wire;
use crate::claude::wire::Head;
use crate::json_salvage::read_objects;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate, shorten_text};

/// Deltas have no id: there is only one open message.
const THE_MESSAGE: &str = "";

/// Prefix of the warning that a hook did not accept the answer.
const HOOK_PREFIX: &str = "Agent execution ";

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct GeminiTranslator {
    state: GeminiCallState,
}

impl Translate for GeminiTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        read_objects(line, |text| self.push_object(text))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        GEMINI.judge(&self.state, evidence)
    }
}

impl GeminiTranslator {
    /// Returns a translator for one call.
    pub(crate) fn new(_request: &AgentRequest) -> Self {
        Self { state: GeminiCallState::default() }
    }

    fn push_object(&mut self, text: &str) -> Option<ParsedLine> {
        let head: Head<'_> = serde_json::from_str(text).ok()?;
        match head.kind?.0.as_ref() {
            "init" => {
                let wire::Init { session_id: id, model } = serde_json::from_str(text).ok()?;
                self.state.begin_turn();
                Some(ParsedLine::from_events(vec![AgentEvent::Session {
                    id,
                    model,
                    version: None,
                }]))
            }
            "message" => self.push_message(serde_json::from_str(text).ok()?),
            "tool_use" => {
                let wire::ToolUse { tool_id, tool_name, parameters } =
                    serde_json::from_str(text).ok()?;
                let input = parameters.map_or("{}", RawValue::get);
                let name = tool_name.unwrap_or_default();
                Some(ParsedLine::from_events(vec![self.state.start_tool(
                    tool_id,
                    name,
                    input,
                    Speaker::Agent,
                )]))
            }
            "tool_result" => Some(self.push_tool_result(serde_json::from_str(text).ok()?)),
            "error" => Some(self.push_error(serde_json::from_str(text).ok()?)),
            "result" => Some(self.push_result(serde_json::from_str(text).ok()?)),
            _ => None,
        }
    }

    fn push_message(&mut self, message: wire::Message<'_>) -> Option<ParsedLine> {
        match message.role.0.as_ref() {
            // The echo of the prompt. Text before it is not the final answer.
            "user" => {
                let events = self.state.retract_text().into_iter().collect();
                Some(ParsedLine { events, activity: LineActivity::Idle })
            }
            "assistant" => {
                if message.delta != Some(true) {
                    self.state.close_message();
                }
                let text = message.content.0.into_owned();
                Some(ParsedLine::from_events(vec![self.state.push_text(text, THE_MESSAGE)]))
            }
            _ => None,
        }
    }

    fn push_tool_result(&mut self, result: wire::ToolResult<'_>) -> ParsedLine {
        let status = result.status.unwrap_or_default().0;
        let outcome = if status == "success" { ToolOutcome::Ok } else { ToolOutcome::Error };
        let output = result.output.unwrap_or_default().0;
        let message = result.error.and_then(|error| error.message).unwrap_or_default();
        let output = if output.is_empty() { message.as_str() } else { output.as_ref() };
        ParsedLine::from_events(self.state.end_tool(result.tool_id, outcome, output))
    }

    /// Reads an error, or a warning such as that of a hook which makes the agent continue.
    fn push_error(&mut self, line: wire::ErrorLine<'_>) -> ParsedLine {
        self.state.close_message();
        let mut events = Vec::new();
        let is_warning = line.severity.is_some_and(|severity| severity.0 == "warning");
        if !is_warning || line.message.starts_with(HOOK_PREFIX) {
            events.extend(self.state.retract_text());
        }
        events.push(AgentEvent::Notice { text: shorten_text(&line.message) });
        if !is_warning {
            self.state.error = Some(line.message);
        }
        ParsedLine { events, activity: LineActivity::Idle }
    }

    fn push_result(&mut self, line: wire::ResultLine<'_>) -> ParsedLine {
        let status = line.status.unwrap_or_default().0;
        let last_error = self.state.error.take();
        let outcome = if status == "success" {
            Ok(TurnAnswer::Text(None))
        } else {
            let error = line.error.unwrap_or_default();
            let message = error.message.or(last_error);
            let message = message.unwrap_or_else(|| format!("the turn ended with `{status}`"));
            Err(GeminiFailure::new(error.kind.unwrap_or_default(), message))
        };
        self.state.close_turn(line.stats.as_ref().map(build_usage), outcome)
    }
}

fn build_usage(stats: &wire::Stats) -> Usage {
    let thinking_and_text = stats.total_tokens.saturating_sub(stats.input_tokens);
    Usage {
        input: Tokens(stats.input_tokens.saturating_sub(stats.cached)),
        output: Tokens(thinking_and_text.max(stats.output_tokens)),
        cache_read: Tokens(stats.cached),
        cache_write: Tokens(0),
        ..Usage::default()
    }
}
