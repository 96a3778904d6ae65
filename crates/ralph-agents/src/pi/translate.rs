//! pi's stream of events, line by line.
//!
//! It exits with 0 whatever happens: only the stop reason of its last message shows how a turn
//! ended. The prompt is echoed as a message of the user. Not here: what an error means, see
//! `turn_status`.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{
    AgentEvent, ResultStatus, Speaker, ToolOutcome, Usage, UsageScope,
};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::units::{Tokens, UsdMicros};

use super::call::HINTS;
use super::wire;
use crate::json_events::{
    JsonEventHead, MOST_OPEN_CALLS, MessageAssembler, ToolInputFields, build_notice, shorten_output,
};
use crate::json_salvage::read_objects;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};
use crate::turn_status::{ReportedFailure, TurnStatus};

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct PiTranslator {
    model: Option<String>,
    turn: TurnStatus,
    assembler: MessageAssembler,
    /// The files that open calls change if they succeed.
    paths: BTreeMap<String, String>,
    /// The failed attempt that no progress has followed yet.
    retrying: Option<ReportedFailure>,
    /// Whether the provider sends a stop reason without usage, so that missing usage means
    /// nothing.
    lacks_usage: bool,
}

impl Translate for PiTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        read_objects(line, |object| self.push_object(object))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.turn.judge(self.retrying.as_ref(), &HINTS, evidence)
    }
}

impl PiTranslator {
    pub(crate) fn new(_request: &AgentRequest) -> Self {
        Self {
            model: None,
            turn: TurnStatus::Open,
            assembler: MessageAssembler::default(),
            paths: BTreeMap::new(),
            retrying: None,
            lacks_usage: false,
        }
    }

    fn push_object(&mut self, object: &str) -> Option<ParsedLine> {
        let parsed = match JsonEventHead::parse_kind(object).as_str() {
            "session" => {
                let session: wire::Session = serde_json::from_str(object).ok()?;
                ParsedLine::from_events(vec![AgentEvent::Session {
                    id: session.id,
                    model: None,
                    version: None,
                }])
            }
            // Start events also come before a request that fails: they are not progress.
            "agent_start" | "turn_start" => {
                self.turn = TurnStatus::Open;
                ParsedLine::from_activity(LineActivity::Idle)
            }
            "message_start" => self.push_message_start(&parse_message(object)?),
            "message_update" => self.push_update(&serde_json::from_str(object).ok()?),
            "message_end" => self.push_message_end(&parse_message(object)?),
            "tool_execution_start" => self.start_tool(&serde_json::from_str(object).ok()?),
            "tool_execution_end" => self.end_tool(&serde_json::from_str(object).ok()?),
            "tool_execution_update" => ParsedLine::from_activity(LineActivity::Progress),
            "auto_retry_start" => self.push_retry(serde_json::from_str(object).ok()?),
            // Already reported by earlier events.
            "turn_end" | "auto_retry_end" => ParsedLine::from_activity(LineActivity::Idle),
            "agent_end" => self.push_agent_end(&serde_json::from_str(object).ok()?),
            _ => return None,
        };
        if parsed.activity != LineActivity::Idle {
            self.retrying = None;
        }
        Some(parsed)
    }

    fn push_message_start(&mut self, message: &wire::Message<'_>) -> ParsedLine {
        let withdrawn = if message.is_from_agent() { self.assembler.withdraw_text() } else { None };
        ParsedLine { events: withdrawn.into_iter().collect(), activity: LineActivity::Idle }
    }

    fn push_update(&mut self, line: &wire::UpdateLine<'_>) -> ParsedLine {
        let kind = line.update.kind.as_ref().map_or("", |kind| kind.0.as_ref());
        let text = line.update.delta.as_ref().map_or("", |text| text.0.as_ref());
        let event = if kind == "text_delta" { self.assembler.push_delta(text) } else { None };
        ParsedLine { events: event.into_iter().collect(), activity: LineActivity::Progress }
    }

    fn push_message_end(&mut self, message: &wire::Message<'_>) -> ParsedLine {
        if !message.is_from_agent() {
            return ParsedLine::from_activity(LineActivity::Idle);
        }
        self.turn = TurnStatus::Open;
        // Unlike `stop`, pi never invents this reason.
        if message.stop.as_deref() == Some("toolUse") && message.has_zero_usage() {
            self.lacks_usage = true;
        }
        let mut events = Vec::new();
        if message.model.is_some() && message.model != self.model {
            self.model.clone_from(&message.model);
            let model = message.model.clone();
            events.push(AgentEvent::Session { id: None, model, version: None });
        }
        let thoughts = message.content.iter().flatten().filter_map(|block| block.thinking.as_ref());
        events.extend(
            thoughts
                .filter(|text| !text.0.is_empty())
                .map(|text| AgentEvent::Reasoning { text: text.0.to_string() }),
        );
        let usage = message.usage.as_ref().and_then(build_usage);
        events.extend(usage.map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Step }));
        if let Some("error" | "aborted") = message.stop.as_deref() {
            // The text of a failed attempt does not count.
            events.extend(self.assembler.withdraw_text());
            return ParsedLine { events, activity: LineActivity::Idle };
        }
        events.extend(self.assembler.push_message(&message.text()));
        ParsedLine { events, activity: LineActivity::Progress }
    }

    fn start_tool(&mut self, tool: &wire::Tool<'_>) -> ParsedLine {
        self.turn = TurnStatus::Open;
        self.assembler.discard_text();
        let id = tool.call.clone().unwrap_or_default();
        let name = tool.name.clone().unwrap_or_default();
        let input = ToolInputFields::from_raw(tool.args);
        if let ("write" | "edit", Some(path)) = (name.as_str(), input.path())
            && self.paths.len() < MOST_OPEN_CALLS
        {
            self.paths.insert(id.clone(), path);
        }
        let summary = input.summarize_input(tool.args);
        ParsedLine::from_events(vec![AgentEvent::ToolStarted {
            id,
            name,
            summary,
            speaker: Speaker::Agent,
        }])
    }

    fn end_tool(&mut self, tool: &wire::Tool<'_>) -> ParsedLine {
        let id = tool.call.clone().unwrap_or_default();
        let blocks = tool.result.as_ref().and_then(|result| result.content.as_ref());
        let returned: Vec<&str> = blocks
            .into_iter()
            .flatten()
            .filter_map(|block| block.text.as_ref().map(|text| text.0.as_ref()))
            .collect();
        let outcome =
            if tool.is_error == Some(true) { ToolOutcome::Error } else { ToolOutcome::Ok };
        let path = self.paths.remove(&id);
        let output = shorten_output(&returned.join("\n"));
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        match outcome {
            ToolOutcome::Ok => events.extend(path.map(|path| AgentEvent::FileChanged { path })),
            ToolOutcome::Error => {}
        }
        ParsedLine::from_events(events)
    }

    fn push_retry(&mut self, retry: wire::Retry) -> ParsedLine {
        let message = retry.error.unwrap_or_else(|| "a request failed".to_owned());
        let shown = build_notice(&format!("retrying: {message}"));
        self.turn = TurnStatus::Open;
        self.retrying = Some(parse_failure(message));
        ParsedLine::from_events(vec![shown])
    }

    /// Reads the end of a turn. pi may retry a failed one after a pause, so no grace period
    /// begins.
    fn push_agent_end(&mut self, end: &wire::AgentEnd<'_>) -> ParsedLine {
        self.assembler.close_message();
        let last = end.messages.iter().flatten().rev().find(|message| message.is_from_agent());
        let reason = last.and_then(|message| message.stop.as_deref()).unwrap_or_default();
        let failed = match reason {
            // pi marks every message as stopped until its provider reports otherwise, so a stream
            // that ends early looks like an answer. The usage comes last, and is then missing.
            "stop" if !self.lacks_usage && last.is_some_and(wire::Message::has_zero_usage) => {
                Some(ReportedFailure::from_class(
                    FailureClass::Overloaded,
                    "the answer was cut off: the provider sent no token usage with it",
                ))
            }
            "stop" => None,
            "length" => Some(ReportedFailure::from_class(
                FailureClass::TurnLimit,
                "the answer was cut at the output limit",
            )),
            "" => Some(ReportedFailure::from_class(
                FailureClass::Malformed,
                "the turn ended without an answer",
            )),
            _ => Some(match last.and_then(|message| message.error.clone()) {
                Some(message) => parse_failure(message),
                None => ReportedFailure::from_class(
                    FailureClass::Crashed,
                    format!("the turn ended with `{reason}`"),
                ),
            }),
        };
        let (status, weight, text) = match &failed {
            Some(reported) => {
                (ResultStatus::Failed(reported.message.clone()), LineActivity::Idle, None)
            }
            None => (ResultStatus::Success, LineActivity::Final, last.map(wire::Message::text)),
        };
        self.turn = failed.map_or(TurnStatus::Succeeded, TurnStatus::Failed);
        let events = vec![AgentEvent::Result { status, text, structured: None }];
        ParsedLine { events, activity: weight }
    }
}

fn parse_message(object: &str) -> Option<wire::Message<'_>> {
    serde_json::from_str(object).ok().map(|line: wire::MessageLine<'_>| line.message)
}

/// Reads an error, which begins with the HTTP status where there is one.
fn parse_failure(message: String) -> ReportedFailure {
    let status = message.split(|it: char| !it.is_ascii_digit()).next();
    let status = status.filter(|digits| digits.len() == 3).and_then(|digits| digits.parse().ok());
    ReportedFailure { message, status, ..ReportedFailure::default() }
}

fn build_usage(usage: &wire::Usage) -> Option<Usage> {
    let usage = Usage {
        input: Tokens(usage.input.unwrap_or(0)),
        output: Tokens(usage.output.unwrap_or(0)),
        cache_read: Tokens(usage.cache_read.unwrap_or(0)),
        cache_write: Tokens(usage.cache_write.unwrap_or(0)),
        cost: usage.cost.as_ref().and_then(|cost| cost.total).map(UsdMicros::from_dollars),
        turns: None,
    };
    (usage.tokens() != Tokens(0)).then_some(usage)
}
