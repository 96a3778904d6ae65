//! The conversation with an agent: initialize, session, prompt, turn, close.
//!
//! A pure state machine: a line in, events and a reply out. With a stored stream it takes the same
//! path again, and its replies are discarded. Not here: what happens within the turn (`updates`),
//! and what an end means (`failure`).

use std::path::{Path, PathBuf};

use ralph_core::ports::AgentRequest;
use ralph_model::agent::Permissions;
use ralph_model::agent_output::{AgentEvent, ResultStatus};
use ralph_model::failure::Failure;
use ralph_model::text::shorten_to_line;
use serde_json::value::RawValue;

use super::failure::{self, judge_stop_reason, read_error};
use super::messages::{self, AcpRequest};
use super::updates::TurnUpdates;
use super::wire;
use crate::json_events::{GLANCE_CHARS, build_notice};
use crate::json_salvage::read_objects;
use crate::translator::{
    Evidence, LineActivity, LineDisplay, LineResult, ParsedLine, StdinReply, StdinState, Translate,
};
use crate::turn_status::{ReportedFailure, TurnStatus};

/// Requests with a longer id are not answered.
const MOST_ID_BYTES: usize = 200;

/// After this many refused methods, further ones are refused without a notice.
const MOST_REFUSED: usize = 8;

/// The client side of one conversation.
#[derive(Debug)]
pub(crate) struct AcpTranslator {
    pub(super) command: String,
    pub(super) phase: AcpPhase,
    pub(super) turn: TurnStatus,
    /// The ways to log in that the agent lists.
    pub(super) logins: Vec<String>,
    directory: PathBuf,
    prompt: String,
    permissions: Permissions,
    version: Option<String>,
    updates: TurnUpdates,
    refused_methods: Vec<String>,
    reply: StdinReply,
}

/// What the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcpPhase {
    Waiting(AcpRequest),
    /// The conversation is over.
    Over,
}

impl Translate for AcpTranslator {
    fn push_line(&mut self, line: &str) -> ParsedLine {
        self.push_line_with_reply(line).parsed
    }

    fn push_line_with_reply(&mut self, line: &str) -> LineResult {
        let parsed = read_objects(line, |object| self.push_object(object));
        LineResult { parsed, reply: std::mem::take(&mut self.reply), display: LineDisplay::Events }
    }

    fn finish(&mut self) -> ParsedLine {
        ParsedLine::from_events(self.updates.flush_thought())
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.judge_end(evidence)
    }
}

impl AcpTranslator {
    pub(crate) fn new(request: &AgentRequest, directory: &Path) -> Self {
        Self {
            command: request.agent.command.clone(),
            phase: AcpPhase::Waiting(AcpRequest::Greeting),
            turn: TurnStatus::Open,
            logins: Vec::new(),
            directory: directory.to_owned(),
            prompt: request.prompt.clone(),
            permissions: request.agent.permissions,
            version: None,
            updates: TurnUpdates::default(),
            refused_methods: Vec::new(),
            reply: StdinReply::default(),
        }
    }

    fn push_object(&mut self, object: &str) -> Option<ParsedLine> {
        let message: wire::Message<'_> = serde_json::from_str(object).ok()?;
        let phase = self.phase;
        let parsed = match (&message.method, message.id) {
            (Some(method), Some(id)) => self.answer_request(method, id, message.params),
            (Some(method), None) => self.push_notification(method, message.params)?,
            (None, Some(id)) => self.push_response(id, &message)?,
            (None, None) => return None,
        };
        Some(match phase {
            AcpPhase::Waiting(_) => parsed,
            AcpPhase::Over => ParsedLine {
                events: demote_late_events(parsed.events),
                activity: LineActivity::Idle,
            },
        })
    }

    fn push_notification(&mut self, method: &str, params: Option<&RawValue>) -> Option<ParsedLine> {
        match method {
            "session/update" => {
                let params: wire::UpdateParams<'_> = wire::parse_or_default(params);
                self.updates.push_update(params.update?)
            }
            // Names with a leading underscore are private extensions.
            private if private.starts_with('_') => {
                Some(ParsedLine::from_activity(LineActivity::Idle))
            }
            _ => None,
        }
    }

    fn answer_request(
        &mut self,
        method: &str,
        id: &RawValue,
        params: Option<&RawValue>,
    ) -> ParsedLine {
        if id.get().len() > MOST_ID_BYTES {
            return ParsedLine::from_events(vec![build_notice(
                "it asked something with an id that is too long",
            )]);
        }
        if method == "session/request_permission" {
            return self.answer_permission(id, wire::parse_or_default(params));
        }
        let method = shorten_to_line(method, GLANCE_CHARS);
        self.queue_bytes(messages::build_refusal(id, &method));
        if self.refused_methods.contains(&method) || self.refused_methods.len() == MOST_REFUSED {
            return ParsedLine::from_activity(LineActivity::Idle);
        }
        let event = build_notice(&format!("it asked for {method}, which ralph does not offer"));
        self.refused_methods.push(method);
        ParsedLine::from_events(vec![event])
    }

    /// Answers a permission request, which may be the first message about a tool call.
    fn answer_permission(
        &mut self,
        id: &RawValue,
        params: wire::PermissionParams<'_>,
    ) -> ParsedLine {
        let mut events = self.updates.flush_thought();
        let call = params.tool_call.unwrap_or_default();
        events.extend(self.updates.push_tool_call(&call));
        match self.permissions {
            Permissions::Skip => {}
            Permissions::Ask => {
                let what = shorten_to_line(call.title.as_deref().unwrap_or("a tool"), GLANCE_CHARS);
                events.push(build_notice(&format!("permission refused: {what}")));
            }
        }
        let options = params.options.unwrap_or_default();
        self.queue_bytes(messages::build_permission(id, &options, self.permissions));
        ParsedLine { events, activity: LineActivity::Progress }
    }

    fn push_response(&mut self, id: &RawValue, message: &wire::Message<'_>) -> Option<ParsedLine> {
        let request = match self.phase {
            AcpPhase::Waiting(request) if id.get() == (request as u8).to_string() => request,
            AcpPhase::Waiting(_) | AcpPhase::Over => return None,
        };
        if let Some(error) = &message.error {
            let reported = read_error(error);
            return Some(self.fail_turn(reported, Vec::new()));
        }
        Some(match request {
            AcpRequest::Greeting => self.open_session(wire::parse_or_default(message.result)),
            AcpRequest::Session => self.send_prompt(wire::parse_or_default(message.result)),
            AcpRequest::Prompt => self.end_turn(wire::parse_or_default(message.result)),
        })
    }

    fn open_session(&mut self, greeted: wire::Greeted) -> ParsedLine {
        self.logins = failure::format_logins(greeted.auth_methods.unwrap_or_default());
        self.version = greeted.agent_info.unwrap_or_default().version;
        match greeted.protocol_version {
            Some(messages::VERSION) | None => {}
            Some(other) => {
                return self.fail_turn(failure::build_version_failure(other), Vec::new());
            }
        }
        self.queue_bytes(messages::build_session_request(&self.directory));
        self.phase = AcpPhase::Waiting(AcpRequest::Session);
        ParsedLine::from_activity(LineActivity::Progress)
    }

    fn send_prompt(&mut self, session: wire::Session) -> ParsedLine {
        let Some(id) = session.id else {
            return self.fail_turn(failure::build_session_failure(), Vec::new());
        };
        let prompt = std::mem::take(&mut self.prompt);
        self.queue_bytes(messages::build_prompt(&id, &prompt));
        self.phase = AcpPhase::Waiting(AcpRequest::Prompt);
        let options = session.config_options.unwrap_or_default();
        let chosen = options.into_iter().find(|option| option.id.as_deref() == Some("model"));
        let model = session.models.and_then(|models| models.current_model_id);
        let model = model.or_else(|| chosen?.current_value);
        ParsedLine::from_events(vec![AgentEvent::Session {
            id: Some(id),
            model,
            version: self.version.take(),
        }])
    }

    fn end_turn(&mut self, end: wire::TurnEnd) -> ParsedLine {
        let mut events = self.updates.flush_thought();
        let quota = end.meta.and_then(|meta| meta.quota);
        let counted = end.usage.or(quota.as_ref().and_then(|quota| quota.token_count));
        events.extend(counted.and_then(|tokens| self.updates.usage.set_turn(tokens)));
        let used = quota.and_then(|quota| quota.model_usage).unwrap_or_default();
        if let Some(model) = used.into_iter().find_map(|used| used.model) {
            events.push(AgentEvent::Session { id: None, model: Some(model), version: None });
        }
        if let Some(reported) = judge_stop_reason(end.stop_reason.as_deref()) {
            return self.fail_turn(reported, events);
        }
        self.turn = TurnStatus::Succeeded;
        let status = ResultStatus::Success;
        events.push(AgentEvent::Result { status, text: None, structured: None });
        self.close_conversation(events)
    }

    fn fail_turn(&mut self, reported: ReportedFailure, mut events: Vec<AgentEvent>) -> ParsedLine {
        events.extend(self.updates.flush_thought());
        events.extend(self.updates.assembler.withdraw_text());
        let status = ResultStatus::Failed(reported.message.clone());
        events.push(AgentEvent::Result { status, text: None, structured: None });
        self.turn = TurnStatus::Failed(reported);
        self.close_conversation(events)
    }

    fn close_conversation(&mut self, events: Vec<AgentEvent>) -> ParsedLine {
        self.phase = AcpPhase::Over;
        self.reply.stdin = StdinState::Closed;
        ParsedLine { events, activity: LineActivity::Final }
    }

    fn queue_bytes(&mut self, bytes: Vec<u8>) {
        self.reply.bytes.extend(bytes);
    }
}

/// Prevents late events from changing the answer: text and tools become notices.
fn demote_late_events(events: Vec<AgentEvent>) -> Vec<AgentEvent> {
    let late = |event| match event {
        AgentEvent::Text { text, .. } => (!text.is_empty()).then(|| build_notice(&text)),
        AgentEvent::ToolStarted { name, summary, .. } => {
            Some(build_notice(&format!("{name} {summary}")))
        }
        AgentEvent::ToolEnded { .. } => None,
        event @ (AgentEvent::Session { .. }
        | AgentEvent::Reasoning { .. }
        | AgentEvent::Todo { .. }
        | AgentEvent::FileChanged { .. }
        | AgentEvent::FileEdited { .. }
        | AgentEvent::Usage { .. }
        | AgentEvent::RateLimit { .. }
        | AgentEvent::Notice { .. }
        | AgentEvent::SoftLimitPassed
        | AgentEvent::StillRunning { .. }
        | AgentEvent::Result { .. }
        | AgentEvent::Unparsed { .. }) => Some(event),
    };
    events.into_iter().filter_map(late).collect()
}
