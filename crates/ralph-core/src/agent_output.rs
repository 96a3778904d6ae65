//! What an agent outputs: the common events that every adapter translates into, and their fold
//! into a reply.
//!
//! Not here: the formats of the agents themselves, which the adapters read.

use serde::{Deserialize, Serialize};

use crate::child::ChildEnd;
use crate::completion::{self, TagScanner};
use crate::failure::Failure;
use crate::structured_output;
use crate::text::{self, Excerpt};
use crate::units::{Timestamp, Tokens, UsdMicros};

/// One thing an agent wrote or did, in a format common to all agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum AgentEvent {
    /// A session began; agents may report it more than once.
    Session {
        /// The agent's own id of the session.
        id: Option<String>,
        model: Option<String>,
        version: Option<String>,
    },
    Text {
        text: String,
        speaker: Speaker,
        /// Whether the text begins a message or continues the last one.
        form: TextForm,
    },
    /// Reasoning shown by the agent; never part of its answer.
    Reasoning {
        /// The reasoning, as far as it is shown.
        text: String,
    },
    ToolStarted {
        /// The id that the end event will carry.
        id: String,
        name: String,
        /// A one-line summary of the input.
        summary: String,
        speaker: Speaker,
    },
    ToolEnded {
        id: String,
        outcome: ToolOutcome,
        output: String,
    },
    Todo {
        items: Vec<TodoItem>,
    },
    /// The agent reports that it changed a file.
    FileChanged {
        /// The path as the agent names it.
        path: String,
    },
    Usage {
        usage: Usage,
        /// Whether the figures add to earlier ones or replace them.
        scope: UsageScope,
    },
    /// A report about a rate or usage limit.
    RateLimit {
        status: RateLimitStatus,
        /// When it resets, if known.
        resets_at: Option<Timestamp>,
    },
    /// Something else worth showing: a retry, a warning.
    Notice {
        text: String,
    },
    /// The agent reports that its turn is over. There may be several; the last one counts.
    Result {
        /// How the turn ended according to the agent.
        status: ResultStatus,
        /// The final text, if the agent repeats it here.
        text: Option<String>,
        /// The structured answer, if one was requested and given.
        structured: Option<serde_json::Value>,
    },
    /// A line that could not be parsed; shown and kept, never dropped.
    Unparsed {
        /// The line, or its beginning.
        line: String,
    },
}

/// Who wrote a text or called a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    Agent,
    /// A subagent; its text never counts as the agent's own.
    Subagent,
}

/// Whether a text begins a message or continues the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextForm {
    /// A message of its own: it replaces the earlier text as the final answer.
    Message,
    /// A piece of the current message.
    Delta,
}

/// How a tool call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    Ok,
    Error,
}

/// An entry of an agent's to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    pub text: String,
    pub state: TodoState,
}

/// The state of an entry of a to-do list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    Pending,
    Active,
    Done,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens not read from the cache.
    pub input: Tokens,
    pub output: Tokens,
    pub cache_read: Tokens,
    pub cache_write: Tokens,
    /// The cost the agent reports; `None` if it reports none.
    pub cost: Option<UsdMicros>,
}

impl Usage {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cost: match (self.cost, other.cost) {
                (Some(one), Some(two)) => Some(one.saturating_add(two)),
                (one, two) => one.or(two),
            },
        }
    }

    /// Returns the total of all tokens, as a token budget counts them.
    pub fn tokens(self) -> Tokens {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

/// What usage figures cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// One step: figures of several lines add up.
    Step,
    /// The whole call so far: the last figures count.
    Total,
}

/// The state of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitStatus {
    Allowed,
    /// Allowed, but the limit is near.
    Warning,
    Rejected,
}

/// How a turn ended according to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Success,
    /// The text describes why.
    Failed(String),
}

/// The result of one agent call, kept in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The final answer, at most [`REPLY_TEXT_CHARS`] characters.
    pub text: String,
    /// The contents of the first completion tag in the final answer.
    pub signal: Option<String>,
    /// The structured answer, if there is one.
    pub structured: Option<serde_json::Value>,
    /// Also known for many failures.
    pub usage: Usage,
    /// The agent's id of its session.
    pub session: Option<String>,
    pub model: Option<String>,
    pub tools: u32,
    /// How many of the tool calls failed.
    pub tool_errors: u32,
    /// How many lines could not be parsed.
    pub unparsed: u32,
    pub end: ChildEnd,
    /// Why this is not an answer; `None` if it is one.
    pub failure: Option<Failure>,
    /// Warnings about the call. The engine records each as a warning of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

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
            | AgentEvent::Notice { .. } => {}
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

    /// Finds a structured answer in the text of the final answer, if one is requested.
    fn find_structured_answer(&self) -> Option<serde_json::Value> {
        let schema = self.schema.as_ref()?;
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
