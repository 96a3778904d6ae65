//! GitHub Copilot CLI's stream of events, line by line.
//!
//! The prompt is echoed as `user.message`; a stop hook that refuses an answer also writes there.
//! Messages come in deltas and then complete. A line of an unknown type is `Unparsed` unless it is
//! marked as ephemeral. Not here: what an error means, see `turn_status`.

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, ResultStatus, Speaker, TextForm, ToolOutcome};
use ralph_core::text::glance;

use super::call::HINTS;
use super::wire;
use crate::json_events::{GLANCE_CHARS, Head, Input, Speech, notice, output};
use crate::pieces::read_objects;
use crate::translator::{Evidence, Heard, Weight};
use crate::turn::{Trouble, Turn};

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct CopilotTranslator {
    model: Option<String>,
    turn: Turn,
    speech: Speech,
    prompt: Prompt,
    work: Work,
    /// The error of the session that no new turn has followed yet.
    trouble: Option<Trouble>,
    /// The failed request that no progress has followed yet.
    retrying: Option<Trouble>,
}

/// Whether the echo of the prompt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prompt {
    Awaited,
    Echoed,
}

/// Whether the turn was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Going,
    BrokenOff,
}

impl CopilotTranslator {
    pub(crate) fn new(_request: &Request) -> Self {
        Self {
            model: None,
            turn: Turn::Open,
            speech: Speech::default(),
            prompt: Prompt::Awaited,
            work: Work::Going,
            trouble: None,
            retrying: None,
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
        let kind = Head::kind_of(object);
        let line: wire::Line<'_> = serde_json::from_str(object).ok()?;
        if kind == "result" {
            return Some(self.result(line));
        }
        let is_droppable = line.ephemeral == Some(true);
        let data = line.data.unwrap_or_default();
        let parsed = match kind.as_str() {
            "user.message" => self.user(&data),
            "assistant.turn_start" => {
                self.turn = Turn::Open;
                self.work = Work::Going;
                self.trouble = None;
                Heard::of(self.speech.withdraw().into_iter().collect())
            }
            "assistant.message_start" => {
                if data.parent.is_none() {
                    self.speech.close();
                }
                Heard::nothing(Weight::Useful)
            }
            "assistant.message_delta" => self.delta(&data),
            "assistant.message" => self.message(&data),
            "tool.execution_start" => self.tool_started(&data),
            "tool.execution_complete" => Heard::of(tool_ended(&data)),
            // The model thinks or writes a call, or a command makes progress.
            "assistant.reasoning_delta"
            | "assistant.tool_call_delta"
            | "tool.shell_output"
            | "tool.execution_partial_result" => Heard::nothing(Weight::Useful),
            "session.tools_updated" => Heard::of(self.session(data.model, None)),
            "session.info" => Heard::of(info(&data).into_iter().collect()),
            "model.call_failure" => self.call_failure(data),
            "session.error" => self.session_error(data),
            "abort" => {
                self.work = Work::BrokenOff;
                let events = self.speech.withdraw().into_iter().collect();
                Heard { events, weight: Weight::Noise }
            }
            // Reasoning also comes with its message.
            "assistant.reasoning"
            | "assistant.turn_end"
            | "assistant.turn_retry"
            | "assistant.idle"
            | "model.call_start"
            | "model.call_finished"
            | "model.call_final_result"
            | "session.skills_loaded"
            | "session.mcp_servers_loaded"
            | "session.background_tasks_changed" => Heard::nothing(Weight::Noise),
            _ if is_droppable => Heard::nothing(Weight::Noise),
            _ => return None,
        };
        if parsed.weight != Weight::Noise {
            self.retrying = None;
        }
        Some(parsed)
    }

    /// Reads input to the model: first the prompt, then messages of hooks.
    fn user(&mut self, data: &wire::Data<'_>) -> Heard {
        self.turn = Turn::Open;
        // The answer so far was not accepted.
        let mut events: Vec<AgentEvent> = self.speech.withdraw().into_iter().collect();
        match (self.prompt, &data.content) {
            (Prompt::Echoed, Some(content)) => {
                events.push(notice(&glance(&content.0, GLANCE_CHARS)));
            }
            (Prompt::Awaited | Prompt::Echoed, _) => self.prompt = Prompt::Echoed,
        }
        Heard { events, weight: Weight::Useful }
    }

    fn delta(&mut self, data: &wire::Data<'_>) -> Heard {
        let text = data.delta.as_ref().map_or("", |text| text.0.as_ref());
        // A subagent's deltas may come between the agent's own; its complete messages are enough.
        let event = match speaker_of(data) {
            Speaker::Agent => self.speech.piece(text),
            Speaker::Subagent => None,
        };
        Heard { events: event.into_iter().collect(), weight: Weight::Useful }
    }

    fn message(&mut self, data: &wire::Data<'_>) -> Heard {
        let mut events = Vec::new();
        if let Some(text) = data.reasoning.as_ref().filter(|text| !text.0.is_empty()) {
            events.push(AgentEvent::Reasoning { text: text.0.to_string() });
        }
        let text = data.content.as_ref().map_or("", |text| text.0.as_ref());
        match speaker_of(data) {
            Speaker::Agent => {
                self.turn = Turn::Open;
                events.extend(self.session(data.model.clone(), None));
                events.extend(self.speech.whole(text));
            }
            Speaker::Subagent if text.is_empty() => {}
            Speaker::Subagent => events.push(AgentEvent::Text {
                text: text.to_owned(),
                speaker: Speaker::Subagent,
                form: TextForm::Message,
            }),
        }
        Heard { events, weight: Weight::Useful }
    }

    fn tool_started(&mut self, data: &wire::Data<'_>) -> Heard {
        let speaker = speaker_of(data);
        if speaker == Speaker::Agent {
            self.turn = Turn::Open;
            self.speech.void();
        }
        Heard::of(vec![AgentEvent::ToolStarted {
            id: data.call.clone().unwrap_or_default(),
            name: data.tool.clone().unwrap_or_default(),
            summary: Input::of(data.arguments).summary(data.arguments),
            speaker,
        }])
    }

    /// Reports the session, and its model once.
    fn session(&mut self, model: Option<String>, id: Option<String>) -> Vec<AgentEvent> {
        let is_known = model.is_none() || model == self.model;
        if is_known && id.is_none() {
            return Vec::new();
        }
        self.model = model.clone().or(self.model.take());
        vec![AgentEvent::Session { id, model, version: None }]
    }

    /// Reads a failed request. Copilot retries it a few times; its text does not count.
    fn call_failure(&mut self, data: wire::Data<'_>) -> Heard {
        let message = data.error_message.unwrap_or_else(|| "a request failed".to_owned());
        self.retrying = Some(Trouble { words: message, status: data.status, ..Trouble::default() });
        let events = self.speech.withdraw().into_iter().collect();
        Heard { events, weight: Weight::Noise }
    }

    fn session_error(&mut self, data: wire::Data<'_>) -> Heard {
        let message = data.message.unwrap_or_else(|| "the session failed".to_owned());
        let mut events: Vec<AgentEvent> = self.speech.withdraw().into_iter().collect();
        events.push(notice(&message));
        let details = data.error_type.unwrap_or_default();
        self.trouble = Some(Trouble { words: message, details, status: data.status, class: None });
        Heard { events, weight: Weight::Noise }
    }

    fn result(&mut self, line: wire::Line<'_>) -> Heard {
        let mut events = self.session(None, line.session);
        self.speech.close();
        // After a signal Copilot drops its current message and still reports success. The end of
        // the process has the reason; the turn itself stays open.
        if self.work == Work::BrokenOff && self.trouble.is_none() {
            let status = ResultStatus::Failed("it was broken off".to_owned());
            events.push(AgentEvent::Result { status, text: None, structured: None });
            return Heard { events, weight: Weight::Final };
        }
        let reported = match (self.trouble.take(), line.exit) {
            (None, Some(0)) => None,
            (Some(reported), _) => Some(reported),
            (None, Some(code)) => {
                Some(Trouble::of(FailureClass::Crashed, format!("it ended with exit code {code}")))
            }
            (None, None) => Some(Trouble::of(
                FailureClass::Malformed,
                "its result does not say how the turn ended",
            )),
        };
        let status = match &reported {
            Some(reported) => ResultStatus::Failed(reported.words.clone()),
            None => ResultStatus::Success,
        };
        self.turn = reported.map_or(Turn::Succeeded, Turn::Failed);
        self.retrying = None;
        events.push(AgentEvent::Result { status, text: None, structured: None });
        Heard { events, weight: Weight::Final }
    }
}

fn speaker_of(data: &wire::Data<'_>) -> Speaker {
    match data.parent {
        Some(_) => Speaker::Subagent,
        None => Speaker::Agent,
    }
}

/// Returns the CLI's own message. File changes are reported by the tools that make them.
fn info(data: &wire::Data<'_>) -> Option<AgentEvent> {
    if data.info.as_deref().is_some_and(|info| info.starts_with("file_")) {
        return None;
    }
    data.message.as_deref().map(notice)
}

fn tool_ended(data: &wire::Data<'_>) -> Vec<AgentEvent> {
    let exit = data.shell.as_ref().and_then(|shell| shell.exit).unwrap_or(0);
    let is_ok = data.success == Some(true) && exit == 0;
    let outcome = if is_ok { ToolOutcome::Ok } else { ToolOutcome::Error };
    let content = data.result.as_ref().and_then(|result| result.content.as_ref());
    let message = data.error.as_ref().and_then(|error| error.message.as_deref());
    let returned = content.map(|text| text.0.as_ref()).or(message).unwrap_or_default();
    let id = data.call.clone().unwrap_or_default();
    let mut events = vec![AgentEvent::ToolEnded { id, outcome, output: output(returned) }];
    let paths = data.edits.iter().flatten().filter_map(|edit| edit.path.clone());
    events.extend(paths.map(|path| AgentEvent::FileChanged { path }));
    events
}
