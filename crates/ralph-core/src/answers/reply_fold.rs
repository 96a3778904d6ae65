//! Folds the events of an agent call into its reply.
//!
//! Not here: the formats of the agents, which the adapters translate into events.

use ralph_model::agent_output::{
    AgentEvent, RateLimitStatus, Reply, ResultStatus, Speaker, TextForm, ToolOutcome, Usage,
    UsageScope,
};
use ralph_model::child::ChildEnd;
use ralph_model::failure::Failure;
use ralph_model::text::{self, Excerpt};
use ralph_model::units::Timestamp;

use crate::answers::completion::{self, TagScanner};
use crate::answers::structured_output;

/// How many characters of the final answer are kept in the journal. A completion tag is searched
/// in all of it; the rest is in the raw stream.
pub const REPLY_TEXT_CHARS: usize = 20_000;

/// How many characters of the final answer are searched for a structured answer. A handoff or a
/// plan has some thousand; the limit is for agents that never stop.
const ANSWER_CHARS: usize = 1_000_000;

/// Folds the events of one call into a reply, in bounded memory.
#[derive(Debug, Clone)]
pub struct ReplyFold {
    message: MessageText,
    usage: Usage,
    session: Option<String>,
    model: Option<String>,
    tools: u32,
    tool_errors: u32,
    unparsed: u32,
    result: Option<ResultStatus>,
    result_text: Option<String>,
    structured: Option<serde_json::Value>,
    /// The schema of the requested answer.
    schema: Option<serde_json::Value>,
    rate_limit: Option<(RateLimitStatus, Option<Timestamp>)>,
}

/// The current message, scanned for its completion tag while it streams.
#[derive(Debug, Clone)]
struct MessageText {
    kept: Excerpt,
    scanner: TagScanner,
    is_empty: bool,
}

impl MessageText {
    fn new(chars: usize) -> Self {
        Self { kept: Excerpt::with_equal_ends(chars), scanner: TagScanner::new(), is_empty: true }
    }

    fn push_text(&mut self, text: &str) {
        self.is_empty = self.is_empty && text.trim().is_empty();
        self.kept.feed_text(text);
        self.scanner.feed(text);
    }
}

impl Default for ReplyFold {
    fn default() -> Self {
        Self {
            message: MessageText::new(REPLY_TEXT_CHARS),
            usage: Usage::default(),
            session: None,
            model: None,
            tools: 0,
            tool_errors: 0,
            unparsed: 0,
            result: None,
            result_text: None,
            structured: None,
            schema: None,
            rate_limit: None,
        }
    }
}

impl ReplyFold {
    /// Returns a fold that also looks for a structured answer in the final answer's text, if the
    /// agent reports none separately.
    pub fn with_schema(schema: Option<&serde_json::Value>) -> Self {
        let mut reading = Self { schema: schema.cloned(), ..Self::default() };
        reading.message = reading.new_message();
        reading
    }

    fn new_message(&self) -> MessageText {
        MessageText::new(if self.schema.is_some() { ANSWER_CHARS } else { REPLY_TEXT_CHARS })
    }

    /// Applies one event.
    pub fn apply_event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Session { id, model, version: _ } => {
                self.session = id.clone().or(self.session.take());
                self.model = model.clone().or(self.model.take());
            }
            AgentEvent::Text { text, speaker: Speaker::Agent, form } => {
                match form {
                    TextForm::Message => self.message = self.new_message(),
                    TextForm::Delta => {}
                }
                self.message.push_text(text);
            }
            AgentEvent::ToolStarted { speaker, .. } => {
                self.tools += 1;
                // Text before a tool call is not the final answer.
                if *speaker == Speaker::Agent {
                    self.message = self.new_message();
                }
            }
            AgentEvent::ToolEnded { outcome, .. } => match outcome {
                ToolOutcome::Ok => {}
                ToolOutcome::Error => self.tool_errors += 1,
            },
            AgentEvent::Usage { usage, scope } => {
                self.usage = match scope {
                    UsageScope::Step => self.usage.plus(*usage),
                    UsageScope::Total => *usage,
                };
            }
            AgentEvent::RateLimit { status, resets_at } => {
                self.rate_limit = Some((*status, *resets_at));
            }
            AgentEvent::Result { status, text, structured } => {
                self.result = Some(status.clone());
                self.result_text.clone_from(text);
                self.structured.clone_from(structured);
            }
            AgentEvent::Unparsed { .. } => self.unparsed += 1,
            AgentEvent::Text { speaker: Speaker::Subagent, .. }
            | AgentEvent::Reasoning { .. }
            | AgentEvent::Todo { .. }
            | AgentEvent::FileChanged { .. }
            | AgentEvent::FileEdited { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::SoftLimitPassed
            | AgentEvent::StillRunning { .. } => {}
        }
    }

    /// Returns how the last turn ended according to the agent, if it reported that.
    pub fn result(&self) -> Option<&ResultStatus> {
        self.result.as_ref()
    }

    /// Returns the last report about a rate limit.
    pub fn rate_limit(&self) -> Option<(RateLimitStatus, Option<Timestamp>)> {
        self.rate_limit
    }

    /// Returns whether the agent produced no answer at all.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty
            && self.structured.is_none()
            && self.result_text.as_ref().is_none_or(|text| text.trim().is_empty())
    }

    /// Returns the final answer, as far as it is kept.
    pub fn text(&self) -> String {
        match (&self.result_text, self.message.is_empty) {
            (Some(text), true) => text::excerpt_text(text, REPLY_TEXT_CHARS),
            (Some(_) | None, _) if self.schema.is_some() => {
                text::excerpt_text(&self.message.kept.to_text(), REPLY_TEXT_CHARS)
            }
            (Some(_) | None, _) => self.message.kept.to_text(),
        }
    }

    /// Finds a structured answer in the text of the final answer, if one is requested. Without a
    /// token in the schema the agent reports it separately, and objects in its text are
    /// quotations.
    fn find_structured_answer(&self) -> Option<serde_json::Value> {
        let schema = self.schema.as_ref()?;
        structured_output::find_token(schema)?;
        match (&self.result_text, self.message.is_empty) {
            (Some(text), true) => structured_output::find_answer(text, schema).ok(),
            (Some(_) | None, _) => {
                structured_output::find_answer(&self.message.kept.to_text(), schema).ok()
            }
        }
    }

    /// Returns the structured answer, if one was given.
    pub fn structured(&self) -> Option<&serde_json::Value> {
        self.structured.as_ref()
    }

    /// Returns the usage so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Builds the reply once the process has ended and the adapter has classified its failure.
    pub fn into_reply(self, end: ChildEnd, failure: Option<Failure>) -> Reply {
        let text = self.text();
        let signal = match (&self.result_text, self.message.is_empty) {
            (Some(text), true) => completion::find_signal(text),
            (Some(_) | None, _) => self.message.scanner.found().map(str::to_owned),
        };
        let in_text = if failure.is_none() { self.find_structured_answer() } else { None };
        Reply {
            text,
            signal: failure.is_none().then_some(signal).flatten(),
            structured: self.structured.or(in_text),
            usage: self.usage,
            session: self.session,
            model: self.model,
            tools: self.tools,
            tool_errors: self.tool_errors,
            unparsed: self.unparsed,
            end,
            failure,
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
