//! The conversation with an agent: initialize, session, prompt, turn, close.
//!
//! A pure state machine: a line in, events and a reply out. With a stored stream it takes the same
//! path again, and its replies are discarded. Not here: what happens within the turn (`updates`),
//! and what an end means (`failure`).

use std::path::{Path, PathBuf};

use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, ResultStatus};
use ralph_core::recipe::Permissions;
use ralph_core::text::glance;
use serde_json::value::RawValue;

use super::failure::{self, stopped, trouble_of};
use super::say::{self, Asked};
use super::updates::Updates;
use super::wire;
use crate::json_events::{GLANCE_CHARS, notice};
use crate::pieces::read_objects;
use crate::translator::{Answer, Heard, Input, Shown, Told, Weight};
use crate::turn::{Trouble, Turn};

/// Requests with a longer id are not answered.
const MOST_ID_BYTES: usize = 200;

/// After this many refused methods, further ones are refused without a notice.
const MOST_REFUSED: usize = 8;

/// The client side of one conversation.
#[derive(Debug)]
pub(crate) struct AcpTranslator {
    pub(super) command: String,
    pub(super) phase: Phase,
    pub(super) turn: Turn,
    /// The ways to log in that the agent lists.
    pub(super) logins: Vec<String>,
    directory: PathBuf,
    prompt: String,
    permissions: Permissions,
    version: Option<String>,
    updates: Updates,
    refused: Vec<String>,
    answer: Answer,
}

/// What the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting(Asked),
    /// The conversation is over.
    Over,
}

impl AcpTranslator {
    pub(crate) fn new(request: &Request, directory: &Path) -> Self {
        Self {
            command: request.agent.command.clone(),
            phase: Phase::Waiting(Asked::Greeting),
            turn: Turn::Open,
            logins: Vec::new(),
            directory: directory.to_owned(),
            prompt: request.prompt.clone(),
            permissions: request.agent.permissions,
            version: None,
            updates: Updates::default(),
            refused: Vec::new(),
            answer: Answer::default(),
        }
    }

    pub(crate) fn line(&mut self, line: &str) -> Told {
        let parsed = read_objects(line, |object| self.object(object));
        Told { heard: parsed, answer: std::mem::take(&mut self.answer), shown: Shown::Events }
    }

    pub(crate) fn finish(&mut self) -> Heard {
        Heard::of(self.updates.end_thought())
    }

    fn object(&mut self, object: &str) -> Option<Heard> {
        let message: wire::Message<'_> = serde_json::from_str(object).ok()?;
        let phase = self.phase;
        let parsed = match (&message.method, message.id) {
            (Some(method), Some(id)) => self.request(method, id, message.params),
            (Some(method), None) => self.notification(method, message.params)?,
            (None, Some(id)) => self.response(id, &message)?,
            (None, None) => return None,
        };
        Some(match phase {
            Phase::Waiting(_) => parsed,
            Phase::Over => Heard { events: after_the_end(parsed.events), weight: Weight::Noise },
        })
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) -> Option<Heard> {
        match method {
            "session/update" => {
                let params: wire::UpdateParams<'_> = wire::read(params);
                self.updates.hear(params.update?)
            }
            // Names with a leading underscore are private extensions.
            private if private.starts_with('_') => Some(Heard::nothing(Weight::Noise)),
            _ => None,
        }
    }

    fn request(&mut self, method: &str, id: &RawValue, params: Option<&RawValue>) -> Heard {
        if id.get().len() > MOST_ID_BYTES {
            return Heard::of(vec![notice("it asked something with an id that is too long")]);
        }
        if method == "session/request_permission" {
            return self.permit(id, wire::read(params));
        }
        let method = glance(method, GLANCE_CHARS);
        self.say(say::refusal(id, &method));
        if self.refused.contains(&method) || self.refused.len() == MOST_REFUSED {
            return Heard::nothing(Weight::Noise);
        }
        let event = notice(&format!("it asked for {method}, which ralph does not offer"));
        self.refused.push(method);
        Heard::of(vec![event])
    }

    /// Answers a permission request, which may be the first message about a tool call.
    fn permit(&mut self, id: &RawValue, params: wire::PermissionParams<'_>) -> Heard {
        let mut events = self.updates.end_thought();
        let call = params.tool_call.unwrap_or_default();
        events.extend(self.updates.tool(&call));
        match self.permissions {
            Permissions::Skip => {}
            Permissions::Ask => {
                let what = glance(call.title.as_deref().unwrap_or("a tool"), GLANCE_CHARS);
                events.push(notice(&format!("permission refused: {what}")));
            }
        }
        let options = params.options.unwrap_or_default();
        self.say(say::permission(id, &options, self.permissions));
        Heard { events, weight: Weight::Useful }
    }

    fn response(&mut self, id: &RawValue, message: &wire::Message<'_>) -> Option<Heard> {
        let request = match self.phase {
            Phase::Waiting(request) if id.get() == (request as u8).to_string() => request,
            Phase::Waiting(_) | Phase::Over => return None,
        };
        if let Some(error) = &message.error {
            let reported = trouble_of(error);
            return Some(self.fail(reported, Vec::new()));
        }
        Some(match request {
            Asked::Greeting => self.greeted(wire::read(message.result)),
            Asked::Session => self.opened(wire::read(message.result)),
            Asked::Prompt => self.ended(wire::read(message.result)),
        })
    }

    fn greeted(&mut self, greeted: wire::Greeted) -> Heard {
        self.logins = failure::logins(greeted.auth_methods.unwrap_or_default());
        self.version = greeted.agent_info.unwrap_or_default().version;
        match greeted.protocol_version {
            Some(say::VERSION) | None => {}
            Some(other) => return self.fail(failure::foreign_version(other), Vec::new()),
        }
        self.say(say::new_session(&self.directory));
        self.phase = Phase::Waiting(Asked::Session);
        Heard::nothing(Weight::Useful)
    }

    fn opened(&mut self, session: wire::Session) -> Heard {
        let Some(id) = session.id else {
            return self.fail(failure::no_session(), Vec::new());
        };
        let prompt = std::mem::take(&mut self.prompt);
        self.say(say::prompt(&id, &prompt));
        self.phase = Phase::Waiting(Asked::Prompt);
        let options = session.config_options.unwrap_or_default();
        let chosen = options.into_iter().find(|option| option.id.as_deref() == Some("model"));
        let model = session.models.and_then(|models| models.current_model_id);
        let model = model.or_else(|| chosen?.current_value);
        Heard::of(vec![AgentEvent::Session { id: Some(id), model, version: self.version.take() }])
    }

    fn ended(&mut self, end: wire::TurnEnd) -> Heard {
        let mut events = self.updates.end_thought();
        let quota = end.meta.and_then(|meta| meta.quota);
        let counted = end.usage.or(quota.as_ref().and_then(|quota| quota.token_count));
        events.extend(counted.and_then(|tokens| self.updates.spent.turn(tokens)));
        let used = quota.and_then(|quota| quota.model_usage).unwrap_or_default();
        if let Some(model) = used.into_iter().find_map(|used| used.model) {
            events.push(AgentEvent::Session { id: None, model: Some(model), version: None });
        }
        if let Some(reported) = stopped(end.stop_reason.as_deref()) {
            return self.fail(reported, events);
        }
        self.turn = Turn::Succeeded;
        let status = ResultStatus::Success;
        events.push(AgentEvent::Result { status, text: None, structured: None });
        self.hang_up(events)
    }

    fn fail(&mut self, reported: Trouble, mut events: Vec<AgentEvent>) -> Heard {
        events.extend(self.updates.end_thought());
        events.extend(self.updates.speech.withdraw());
        let status = ResultStatus::Failed(reported.words.clone());
        events.push(AgentEvent::Result { status, text: None, structured: None });
        self.turn = Turn::Failed(reported);
        self.hang_up(events)
    }

    fn hang_up(&mut self, events: Vec<AgentEvent>) -> Heard {
        self.phase = Phase::Over;
        self.answer.input = Input::Over;
        Heard { events, weight: Weight::Final }
    }

    fn say(&mut self, bytes: Vec<u8>) {
        self.answer.bytes.extend(bytes);
    }
}

/// Prevents late events from changing the answer: text and tools become notices.
fn after_the_end(events: Vec<AgentEvent>) -> Vec<AgentEvent> {
    let late = |event| match event {
        AgentEvent::Text { text, .. } => (!text.is_empty()).then(|| notice(&text)),
        AgentEvent::ToolStarted { name, summary, .. } => Some(notice(&format!("{name} {summary}"))),
        AgentEvent::ToolEnded { .. } => None,
        event @ (AgentEvent::Session { .. }
        | AgentEvent::Reasoning { .. }
        | AgentEvent::Todo { .. }
        | AgentEvent::FileChanged { .. }
        | AgentEvent::Usage { .. }
        | AgentEvent::RateLimit { .. }
        | AgentEvent::Notice { .. }
        | AgentEvent::Result { .. }
        | AgentEvent::Unparsed { .. }) => Some(event),
    };
    events.into_iter().filter_map(late).collect()
}
