//! GitHub Copilot CLI's stream of events, line by line.
//!
//! The prompt is echoed as `user.message`; a stop hook that refuses an answer also writes there.
//! Messages come in deltas and then complete. A line of an unknown type is `Unparsed` unless it is
//! marked as ephemeral. Not here: what an error means, see `turn_status`.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_model::agent_output::{AgentEvent, ResultStatus, Speaker, TextForm, ToolOutcome};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::text::shorten_to_line;

use super::call::HINTS;
use super::wire;
use crate::json_events::{
    EditTexts, GLANCE_CHARS, JsonEventHead, MOST_OPEN_CALLS, MessageAssembler, ToolInputFields,
    build_notice, shorten_output,
};
use crate::json_salvage::read_objects;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};
use crate::turn_status::{ReportedFailure, TurnStatus};

/// Translates the stream of one call.
#[derive(Debug)]
pub(crate) struct CopilotTranslator {
    model: Option<String>,
    turn: TurnStatus,
    assembler: MessageAssembler,
    prompt: CopilotPromptEcho,
    progress: CopilotProgress,
    /// The error of the session that no new turn has followed yet.
    session_failure: Option<ReportedFailure>,
    /// The failed request that no progress has followed yet.
    retrying: Option<ReportedFailure>,
    /// The texts of edits that have not ended.
    open_edits: BTreeMap<String, EditTexts>,
}

/// Whether the echo of the prompt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopilotPromptEcho {
    Awaited,
    Echoed,
}

/// Whether the turn was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopilotProgress {
    Running,
    Aborted,
}

impl Translate for CopilotTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        read_objects(line, |object| self.push_object(object))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.turn.judge(self.retrying.as_ref(), &HINTS, evidence)
    }
}

impl CopilotTranslator {
    pub(crate) fn new(_request: &AgentRequest) -> Self {
        Self {
            model: None,
            turn: TurnStatus::Open,
            assembler: MessageAssembler::default(),
            prompt: CopilotPromptEcho::Awaited,
            progress: CopilotProgress::Running,
            session_failure: None,
            retrying: None,
            open_edits: BTreeMap::new(),
        }
    }

    fn push_object(&mut self, object: &str) -> Option<ParsedLine> {
        let kind = JsonEventHead::parse_kind(object);
        let line: wire::Line<'_> = serde_json::from_str(object).ok()?;
        if kind == "result" {
            return Some(self.push_result(line));
        }
        let is_droppable = line.ephemeral == Some(true);
        let data = line.data.unwrap_or_default();
        let parsed = match kind.as_str() {
            "user.message" => self.push_user_message(&data),
            "assistant.turn_start" => {
                self.turn = TurnStatus::Open;
                self.progress = CopilotProgress::Running;
                self.session_failure = None;
                ParsedLine::from_events(self.assembler.withdraw_text().into_iter().collect())
            }
            "assistant.message_start" => {
                if data.parent.is_none() {
                    self.assembler.close_message();
                }
                ParsedLine::from_activity(LineActivity::Progress)
            }
            "assistant.message_delta" => self.push_delta(&data),
            "assistant.message" => self.push_message(&data),
            "tool.execution_start" => self.start_tool(&data),
            "tool.execution_complete" => {
                let edit = data.call.as_ref().and_then(|id| self.open_edits.remove(id));
                ParsedLine::from_events(build_tool_end(&data, edit))
            }
            // The model thinks or writes a call, or a command makes progress.
            "assistant.reasoning_delta"
            | "assistant.tool_call_delta"
            | "tool.shell_output"
            | "tool.execution_partial_result" => ParsedLine::from_activity(LineActivity::Progress),
            "session.tools_updated" => ParsedLine::from_events(self.push_session(data.model, None)),
            "session.info" => ParsedLine::from_events(build_info(&data).into_iter().collect()),
            "model.call_failure" => self.push_call_failure(data),
            "session.error" => self.push_session_error(data),
            "abort" => {
                self.progress = CopilotProgress::Aborted;
                let events = self.assembler.withdraw_text().into_iter().collect();
                ParsedLine { events, activity: LineActivity::Idle }
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
            | "session.background_tasks_changed" => ParsedLine::from_activity(LineActivity::Idle),
            _ if is_droppable => ParsedLine::from_activity(LineActivity::Idle),
            _ => return None,
        };
        if parsed.activity != LineActivity::Idle {
            self.retrying = None;
        }
        Some(parsed)
    }

    /// Reads input to the model: first the prompt, then messages of hooks.
    fn push_user_message(&mut self, data: &wire::Data<'_>) -> ParsedLine {
        self.turn = TurnStatus::Open;
        // The answer so far was not accepted.
        let mut events: Vec<AgentEvent> = self.assembler.withdraw_text().into_iter().collect();
        match (self.prompt, &data.content) {
            (CopilotPromptEcho::Echoed, Some(content)) => {
                events.push(build_notice(&shorten_to_line(&content.0, GLANCE_CHARS)));
            }
            (CopilotPromptEcho::Awaited | CopilotPromptEcho::Echoed, _) => {
                self.prompt = CopilotPromptEcho::Echoed;
            }
        }
        ParsedLine { events, activity: LineActivity::Progress }
    }

    fn push_delta(&mut self, data: &wire::Data<'_>) -> ParsedLine {
        let text = data.delta.as_ref().map_or("", |text| text.0.as_ref());
        // A subagent's deltas may come between the agent's own; its complete messages are enough.
        let event = match find_speaker(data) {
            Speaker::Agent => self.assembler.push_delta(text),
            Speaker::Subagent => None,
        };
        ParsedLine { events: event.into_iter().collect(), activity: LineActivity::Progress }
    }

    fn push_message(&mut self, data: &wire::Data<'_>) -> ParsedLine {
        let mut events = Vec::new();
        if let Some(text) = data.reasoning.as_ref().filter(|text| !text.0.is_empty()) {
            events.push(AgentEvent::Reasoning { text: text.0.to_string() });
        }
        let text = data.content.as_ref().map_or("", |text| text.0.as_ref());
        match find_speaker(data) {
            Speaker::Agent => {
                self.turn = TurnStatus::Open;
                events.extend(self.push_session(data.model.clone(), None));
                events.extend(self.assembler.push_message(text));
            }
            Speaker::Subagent if text.is_empty() => {}
            Speaker::Subagent => events.push(AgentEvent::Text {
                text: text.to_owned(),
                speaker: Speaker::Subagent,
                form: TextForm::Message,
            }),
        }
        ParsedLine { events, activity: LineActivity::Progress }
    }

    fn start_tool(&mut self, data: &wire::Data<'_>) -> ParsedLine {
        let speaker = find_speaker(data);
        if speaker == Speaker::Agent {
            self.turn = TurnStatus::Open;
            self.assembler.discard_text();
        }
        let edit = data.arguments.and_then(|raw| EditTexts::from_raw(raw.get()));
        if let (Some(edit), Some(id)) = (edit, data.call.clone()) {
            if self.open_edits.len() >= MOST_OPEN_CALLS {
                self.open_edits.clear();
            }
            self.open_edits.insert(id, edit);
        }
        ParsedLine::from_events(vec![AgentEvent::ToolStarted {
            id: data.call.clone().unwrap_or_default(),
            name: data.tool.clone().unwrap_or_default(),
            summary: ToolInputFields::from_raw(data.arguments).summarize_input(data.arguments),
            speaker,
        }])
    }

    /// Reports the session, and its model once.
    fn push_session(&mut self, model: Option<String>, id: Option<String>) -> Vec<AgentEvent> {
        let is_known = model.is_none() || model == self.model;
        if is_known && id.is_none() {
            return Vec::new();
        }
        self.model = model.clone().or(self.model.take());
        vec![AgentEvent::Session { id, model, version: None }]
    }

    /// Reads a failed request. Copilot retries it a few times; its text does not count.
    fn push_call_failure(&mut self, data: wire::Data<'_>) -> ParsedLine {
        let message = data.error_message.unwrap_or_else(|| "a request failed".to_owned());
        self.retrying =
            Some(ReportedFailure { message, status: data.status, ..ReportedFailure::default() });
        let events = self.assembler.withdraw_text().into_iter().collect();
        ParsedLine { events, activity: LineActivity::Idle }
    }

    fn push_session_error(&mut self, data: wire::Data<'_>) -> ParsedLine {
        let message = data.message.unwrap_or_else(|| "the session failed".to_owned());
        let mut events: Vec<AgentEvent> = self.assembler.withdraw_text().into_iter().collect();
        events.push(build_notice(&message));
        let details = data.error_type.unwrap_or_default();
        self.session_failure =
            Some(ReportedFailure { message, details, status: data.status, class: None });
        ParsedLine { events, activity: LineActivity::Idle }
    }

    fn push_result(&mut self, line: wire::Line<'_>) -> ParsedLine {
        let mut events = self.push_session(None, line.session);
        self.assembler.close_message();
        // After a signal Copilot drops its current message and still reports success. The end of
        // the process has the reason; the turn itself stays open.
        if self.progress == CopilotProgress::Aborted && self.session_failure.is_none() {
            let status = ResultStatus::Failed("it was broken off".to_owned());
            events.push(AgentEvent::Result { status, text: None, structured: None });
            return ParsedLine { events, activity: LineActivity::Final };
        }
        let reported = match (self.session_failure.take(), line.exit) {
            (None, Some(0)) => None,
            (Some(reported), _) => Some(reported),
            (None, Some(code)) => Some(ReportedFailure::from_class(
                FailureClass::Crashed,
                format!("it ended with exit code {code}"),
            )),
            (None, None) => Some(ReportedFailure::from_class(
                FailureClass::Malformed,
                "its result does not say how the turn ended",
            )),
        };
        let status = match &reported {
            Some(reported) => ResultStatus::Failed(reported.message.clone()),
            None => ResultStatus::Success,
        };
        self.turn = reported.map_or(TurnStatus::Succeeded, TurnStatus::Failed);
        self.retrying = None;
        events.push(AgentEvent::Result { status, text: None, structured: None });
        ParsedLine { events, activity: LineActivity::Final }
    }
}

fn find_speaker(data: &wire::Data<'_>) -> Speaker {
    match data.parent {
        Some(_) => Speaker::Subagent,
        None => Speaker::Agent,
    }
}

/// Returns the CLI's own message. File changes are reported by the tools that make them.
fn build_info(data: &wire::Data<'_>) -> Option<AgentEvent> {
    if data.info.as_deref().is_some_and(|info| info.starts_with("file_")) {
        return None;
    }
    data.message.as_deref().map(build_notice)
}

fn build_tool_end(data: &wire::Data<'_>, texts: Option<EditTexts>) -> Vec<AgentEvent> {
    let exit = data.shell.as_ref().and_then(|shell| shell.exit).unwrap_or(0);
    let is_ok = data.success == Some(true) && exit == 0;
    let outcome = if is_ok { ToolOutcome::Ok } else { ToolOutcome::Error };
    let content = data.result.as_ref().and_then(|result| result.content.as_ref());
    let message = data.error.as_ref().and_then(|error| error.message.as_deref());
    let returned = content.map(|text| text.0.as_ref()).or(message).unwrap_or_default();
    let id = data.call.clone().unwrap_or_default();
    let mut events = vec![AgentEvent::ToolEnded { id, outcome, output: shorten_output(returned) }];
    let paths: Vec<String> =
        data.edits.iter().flatten().filter_map(|edit| edit.path.clone()).collect();
    let edited = texts.filter(|_| is_ok).zip(paths.first().cloned());
    events.extend(paths.into_iter().map(|path| AgentEvent::FileChanged { path }));
    events.extend(edited.map(|(texts, path)| texts.into_event(path)));
    events
}
