//! pi's stream of events, line by line.
//!
//! It exits with 0 whatever happens: only the stop reason of its last message shows how a turn
//! ended. The prompt is echoed as a message of the user. Not here: what an error means, see
//! `turn_status`.

use std::collections::BTreeMap;

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, ResultStatus, Speaker, ToolOutcome, Usage, UsageScope};
use ralph_core::units::{Tokens, UsdMicros};

use super::call::HINTS;
use super::wire;
use crate::json_events::{Head, Input, Speech, notice, output};
use crate::pieces::read_objects;
use crate::translator::{Evidence, Heard, Weight};
use crate::turn::{Trouble, Turn};

/// More open tool calls than this mean a broken stream, not parallel work.
const MOST_OPEN_CALLS: usize = 1_000;

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct PiTranslator {
    model: Option<String>,
    turn: Turn,
    speech: Speech,
    /// The files that open calls change if they succeed.
    paths: BTreeMap<String, String>,
    /// The failed attempt that no progress has followed yet.
    retrying: Option<Trouble>,
    /// Whether the provider sends a stop reason without usage, so that missing usage means
    /// nothing.
    lacks_usage: bool,
}

impl PiTranslator {
    pub(crate) fn new(_request: &Request) -> Self {
        Self {
            model: None,
            turn: Turn::Open,
            speech: Speech::default(),
            paths: BTreeMap::new(),
            retrying: None,
            lacks_usage: false,
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Heard {
        read_objects(line, |object| self.object(object))
    }

    #[expect(clippy::unused_self, reason = "all translators have the same four functions")]
    pub(crate) fn finish(&mut self) -> Heard {
        Heard::nothing(Weight::Noise)
    }

    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.turn.judge(self.retrying.as_ref(), &HINTS, evidence)
    }

    fn object(&mut self, object: &str) -> Option<Heard> {
        let parsed = match Head::kind_of(object).as_str() {
            "session" => {
                let session: wire::Session = serde_json::from_str(object).ok()?;
                Heard::of(vec![AgentEvent::Session { id: session.id, model: None, version: None }])
            }
            // Start events also come before a request that fails: they are not progress.
            "agent_start" | "turn_start" => {
                self.turn = Turn::Open;
                Heard::nothing(Weight::Noise)
            }
            "message_start" => self.message_start(&message(object)?),
            "message_update" => self.update(&serde_json::from_str(object).ok()?),
            "message_end" => self.message_end(&message(object)?),
            "tool_execution_start" => self.tool_started(&serde_json::from_str(object).ok()?),
            "tool_execution_end" => self.tool_ended(&serde_json::from_str(object).ok()?),
            "tool_execution_update" => Heard::nothing(Weight::Useful),
            "auto_retry_start" => self.retry(serde_json::from_str(object).ok()?),
            // Already reported by earlier events.
            "turn_end" | "auto_retry_end" => Heard::nothing(Weight::Noise),
            "agent_end" => self.agent_end(&serde_json::from_str(object).ok()?),
            _ => return None,
        };
        if parsed.weight != Weight::Noise {
            self.retrying = None;
        }
        Some(parsed)
    }

    fn message_start(&mut self, message: &wire::Message<'_>) -> Heard {
        let withdrawn = if message.is_agents() { self.speech.withdraw() } else { None };
        Heard { events: withdrawn.into_iter().collect(), weight: Weight::Noise }
    }

    fn update(&mut self, line: &wire::UpdateLine<'_>) -> Heard {
        let kind = line.update.kind.as_ref().map_or("", |kind| kind.0.as_ref());
        let text = line.update.delta.as_ref().map_or("", |text| text.0.as_ref());
        let event = if kind == "text_delta" { self.speech.piece(text) } else { None };
        Heard { events: event.into_iter().collect(), weight: Weight::Useful }
    }

    fn message_end(&mut self, message: &wire::Message<'_>) -> Heard {
        if !message.is_agents() {
            return Heard::nothing(Weight::Noise);
        }
        self.turn = Turn::Open;
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
        let usage = message.usage.as_ref().and_then(usage);
        events.extend(usage.map(|usage| AgentEvent::Usage { usage, scope: UsageScope::Step }));
        if let Some("error" | "aborted") = message.stop.as_deref() {
            // The text of a failed attempt does not count.
            events.extend(self.speech.withdraw());
            return Heard { events, weight: Weight::Noise };
        }
        events.extend(self.speech.whole(&message.text()));
        Heard { events, weight: Weight::Useful }
    }

    fn tool_started(&mut self, tool: &wire::Tool<'_>) -> Heard {
        self.turn = Turn::Open;
        self.speech.void();
        let id = tool.call.clone().unwrap_or_default();
        let name = tool.name.clone().unwrap_or_default();
        let input = Input::of(tool.args);
        if let ("write" | "edit", Some(path)) = (name.as_str(), input.path())
            && self.paths.len() < MOST_OPEN_CALLS
        {
            self.paths.insert(id.clone(), path);
        }
        let summary = input.summary(tool.args);
        Heard::of(vec![AgentEvent::ToolStarted { id, name, summary, speaker: Speaker::Agent }])
    }

    fn tool_ended(&mut self, tool: &wire::Tool<'_>) -> Heard {
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
        let output = output(&returned.join("\n"));
        let mut events = vec![AgentEvent::ToolEnded { id, outcome, output }];
        match outcome {
            ToolOutcome::Ok => events.extend(path.map(|path| AgentEvent::FileChanged { path })),
            ToolOutcome::Error => {}
        }
        Heard::of(events)
    }

    fn retry(&mut self, retry: wire::Retry) -> Heard {
        let message = retry.error.unwrap_or_else(|| "a request failed".to_owned());
        let shown = notice(&format!("retrying: {message}"));
        self.turn = Turn::Open;
        self.retrying = Some(trouble(message));
        Heard::of(vec![shown])
    }

    /// Reads the end of a turn. pi may retry a failed one after a pause, so no grace period
    /// begins.
    fn agent_end(&mut self, end: &wire::AgentEnd<'_>) -> Heard {
        self.speech.close();
        let last = end.messages.iter().flatten().rev().find(|message| message.is_agents());
        let reason = last.and_then(|message| message.stop.as_deref()).unwrap_or_default();
        let failed = match reason {
            // pi marks every message as stopped until its provider reports otherwise, so a stream
            // that ends early looks like an answer. The usage comes last, and is then missing.
            "stop" if !self.lacks_usage && last.is_some_and(wire::Message::has_zero_usage) => {
                Some(Trouble::of(
                    FailureClass::Overloaded,
                    "the answer was cut off: the provider sent no token usage with it",
                ))
            }
            "stop" => None,
            "length" => {
                Some(Trouble::of(FailureClass::TurnLimit, "the answer was cut at the output limit"))
            }
            "" => Some(Trouble::of(FailureClass::Malformed, "the turn ended without an answer")),
            _ => Some(match last.and_then(|message| message.error.clone()) {
                Some(message) => trouble(message),
                None => {
                    Trouble::of(FailureClass::Crashed, format!("the turn ended with `{reason}`"))
                }
            }),
        };
        let (status, weight, text) = match &failed {
            Some(reported) => (ResultStatus::Failed(reported.words.clone()), Weight::Noise, None),
            None => (ResultStatus::Success, Weight::Final, last.map(wire::Message::text)),
        };
        self.turn = failed.map_or(Turn::Succeeded, Turn::Failed);
        let events = vec![AgentEvent::Result { status, text, structured: None }];
        Heard { events, weight }
    }
}

fn message(object: &str) -> Option<wire::Message<'_>> {
    serde_json::from_str(object).ok().map(|line: wire::MessageLine<'_>| line.message)
}

/// Reads an error, which begins with the HTTP status where there is one.
fn trouble(message: String) -> Trouble {
    let status = message.split(|it: char| !it.is_ascii_digit()).next();
    let status = status.filter(|digits| digits.len() == 3).and_then(|digits| digits.parse().ok());
    Trouble { words: message, status, ..Trouble::default() }
}

fn usage(usage: &wire::Usage) -> Option<Usage> {
    let usage = Usage {
        input: Tokens(usage.input.unwrap_or(0)),
        output: Tokens(usage.output.unwrap_or(0)),
        cache_read: Tokens(usage.cache_read.unwrap_or(0)),
        cache_write: Tokens(usage.cache_write.unwrap_or(0)),
        cost: usage.cost.as_ref().and_then(|cost| cost.total).map(UsdMicros::from_dollars),
    };
    (usage.tokens() != Tokens(0)).then_some(usage)
}
