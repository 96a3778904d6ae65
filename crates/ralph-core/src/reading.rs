//! What an agent says: the common events every adapter translates into, and the reading of a
//! whole answer as their fold.
//!
//! Not here: the formats of the agents themselves, which stop in `ralph-io`.

use serde::{Deserialize, Serialize};

use crate::answer;
use crate::child::ChildEnd;
use crate::completion::{self, TagScanner};
use crate::failure::Failure;
use crate::text::{self, Excerpt};
use crate::units::{Timestamp, Tokens, UsdMicros};

/// One thing an agent said or did, in words common to all agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum AgentEvent {
    /// A session began; it may say so more than once.
    Session {
        /// The agent's own id of the session.
        id: Option<String>,
        /// The model that answers.
        model: Option<String>,
        /// The version of the agent.
        version: Option<String>,
    },
    /// Words of the agent.
    Text {
        /// The words.
        text: String,
        /// Who speaks.
        speaker: Speaker,
        /// Whether they stand alone or go on from the last ones.
        form: TextForm,
    },
    /// Thinking shown by the agent; never counts as its words.
    Reasoning {
        /// The thinking, as far as it is shown.
        text: String,
    },
    /// A tool call began.
    ToolStarted {
        /// The id that its end will carry.
        id: String,
        /// The tool's name.
        name: String,
        /// A one-line summary of the input.
        summary: String,
        /// Who calls.
        speaker: Speaker,
    },
    /// A tool call ended.
    ToolEnded {
        /// The id of its start.
        id: String,
        /// How it went.
        outcome: ToolOutcome,
        /// What it returned.
        output: String,
    },
    /// The agent's to-do list, whole.
    Todo {
        /// Its items in order.
        items: Vec<TodoItem>,
    },
    /// A file was changed by the agent, as far as it says so.
    FileChanged {
        /// The path as the agent names it.
        path: String,
    },
    /// Figures of use.
    Usage {
        /// The figures.
        usage: Usage,
        /// Whether they add to what came before or replace it.
        scope: UsageScope,
    },
    /// News of a rate or usage limit.
    RateLimit {
        /// What the limit says.
        status: RateLimitStatus,
        /// When it resets, where that is known.
        resets_at: Option<Timestamp>,
    },
    /// Something worth showing that is none of the others: a retry, a warning.
    Notice {
        /// The text.
        text: String,
    },
    /// The agent says that its turn is over. Several may come; the last counts.
    Result {
        /// How the turn ended by its own account.
        status: ResultStatus,
        /// The final text, where the agent repeats it here.
        text: Option<String>,
        /// The structured answer, where one was asked for and given.
        structured: Option<serde_json::Value>,
    },
    /// A line that could not be understood; shown and kept, never dropped.
    Unparsed {
        /// The line, or its start.
        line: String,
    },
}

/// Who speaks or acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The agent itself.
    Agent,
    /// An agent that it started; its words never count as the agent's own.
    Subagent,
}

/// Whether words stand alone or go on from the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextForm {
    /// A message of its own: the words before it are no longer the last ones.
    Message,
    /// A piece of the message that is being said.
    Delta,
}

/// How a tool call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It returned.
    Ok,
    /// It failed.
    Error,
}

/// An entry of an agent's to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub state: TodoState,
}

/// How far an entry of a to-do list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    /// Not begun.
    Pending,
    /// Being worked on.
    Active,
    /// Finished.
    Done,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read afresh.
    pub input: Tokens,
    /// Tokens written.
    pub output: Tokens,
    /// Tokens read from the cache.
    pub cache_read: Tokens,
    /// Tokens written to the cache.
    pub cache_write: Tokens,
    /// The cost the agent reports; none where it reports none.
    pub cost: Option<UsdMicros>,
}

impl Usage {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.plus(other.input),
            output: self.output.plus(other.output),
            cache_read: self.cache_read.plus(other.cache_read),
            cache_write: self.cache_write.plus(other.cache_write),
            cost: match (self.cost, other.cost) {
                (Some(one), Some(two)) => Some(one.plus(two)),
                (one, two) => one.or(two),
            },
        }
    }

    /// Returns all tokens together, as a token budget counts them.
    pub fn tokens(self) -> Tokens {
        self.input.plus(self.output).plus(self.cache_read).plus(self.cache_write)
    }
}

/// Whether figures of use add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// For one step: adds to what came before.
    Step,
    /// For the whole process so far: replaces what came before.
    Total,
}

/// What a rate limit says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitStatus {
    /// There is room.
    Allowed,
    /// There is room, but not much.
    Warning,
    /// The request was refused.
    Rejected,
}

/// How a turn ended by the agent's own account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// It came to its end.
    Success,
    /// It did not; the words say why.
    Failed(String),
}

/// The whole of what one call to an agent brought, kept in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The last words of the agent, at most [`REPLY_TEXT_CHARS`] characters.
    pub text: String,
    /// What stands in the first completion tag of those words.
    pub signal: Option<String>,
    /// The structured answer, where there is one.
    pub structured: Option<serde_json::Value>,
    /// Tokens and money; also known for many failures.
    pub usage: Usage,
    /// The agent's id of its session.
    pub session: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// How many tools were called.
    pub tools: u32,
    /// How many of the calls failed.
    pub tool_errors: u32,
    /// How many lines could not be understood.
    pub unparsed: u32,
    /// How the process ended.
    pub end: ChildEnd,
    /// Why this is no answer; none if it is one.
    pub failure: Option<Failure>,
    /// What a person should know of the call beside its answer. The engine records each as a
    /// warning of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How much of the last words is kept in the journal. A completion tag is found in all of
/// them; the rest is in the raw stream.
pub const REPLY_TEXT_CHARS: usize = 20_000;

/// How much of the last words is searched for a structured answer. A handoff or a plan has some
/// thousand characters; the bound is for agents that never stop.
const ANSWER_CHARS: usize = 1_000_000;

/// The fold of the events of one call: what matters for judging it, in bounded memory.
#[derive(Debug, Clone)]
pub struct Reading {
    words: Words,
    usage: Usage,
    session: Option<String>,
    model: Option<String>,
    tools: u32,
    tool_errors: u32,
    unparsed: u32,
    result: Option<ResultStatus>,
    result_text: Option<String>,
    structured: Option<serde_json::Value>,
    /// The schema of the answer that is wanted.
    schema: Option<serde_json::Value>,
    rate_limit: Option<(RateLimitStatus, Option<Timestamp>)>,
}

/// The message that is being said, with its completion tag found as it streams by.
#[derive(Debug, Clone)]
struct Words {
    kept: Excerpt,
    scanner: TagScanner,
    is_empty: bool,
}

impl Words {
    fn new(chars: usize) -> Self {
        Self { kept: Excerpt::both(chars), scanner: TagScanner::new(), is_empty: true }
    }

    fn hear(&mut self, text: &str) {
        self.is_empty = self.is_empty && text.trim().is_empty();
        self.kept.feed(text);
        self.scanner.feed(text);
    }
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            words: Words::new(REPLY_TEXT_CHARS),
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

impl Reading {
    /// Returns a reading that looks for a structured answer in the last words, where the agent
    /// gives none of its own.
    pub fn wanting(schema: Option<&serde_json::Value>) -> Self {
        let mut reading = Self { schema: schema.cloned(), ..Self::default() };
        reading.words = reading.fresh_words();
        reading
    }

    fn fresh_words(&self) -> Words {
        Words::new(if self.schema.is_some() { ANSWER_CHARS } else { REPLY_TEXT_CHARS })
    }

    /// Takes in one event.
    pub fn hear(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Session { id, model, version: _ } => {
                self.session = id.clone().or(self.session.take());
                self.model = model.clone().or(self.model.take());
            }
            AgentEvent::Text { text, speaker: Speaker::Agent, form } => {
                match form {
                    TextForm::Message => self.words = self.fresh_words(),
                    TextForm::Delta => {}
                }
                self.words.hear(text);
            }
            AgentEvent::ToolStarted { speaker, .. } => {
                self.tools += 1;
                // What was said before a tool call is not the last word on anything.
                if *speaker == Speaker::Agent {
                    self.words = self.fresh_words();
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

    /// Returns how the last turn ended by the agent's own account, if it gave one.
    pub fn result(&self) -> Option<&ResultStatus> {
        self.result.as_ref()
    }

    /// Returns the last rate-limit news.
    pub fn rate_limit(&self) -> Option<(RateLimitStatus, Option<Timestamp>)> {
        self.rate_limit
    }

    /// Returns whether the agent said nothing at all that counts.
    pub fn is_silent(&self) -> bool {
        self.words.is_empty
            && self.structured.is_none()
            && self.result_text.as_ref().is_none_or(|text| text.trim().is_empty())
    }

    /// Returns the last words, as far as they are kept.
    pub fn text(&self) -> String {
        match (&self.result_text, self.words.is_empty) {
            (Some(text), true) => text::excerpt_of(text, REPLY_TEXT_CHARS),
            (Some(_) | None, _) if self.schema.is_some() => {
                text::excerpt_of(&self.words.kept.text(), REPLY_TEXT_CHARS)
            }
            (Some(_) | None, _) => self.words.kept.text(),
        }
    }

    /// Finds a structured answer in the last words, where one is wanted.
    fn answer_in_words(&self) -> Option<serde_json::Value> {
        let schema = self.schema.as_ref()?;
        match (&self.result_text, self.words.is_empty) {
            (Some(text), true) => answer::find(text, schema).ok(),
            (Some(_) | None, _) => answer::find(&self.words.kept.text(), schema).ok(),
        }
    }

    /// Returns the structured answer, if one was given.
    pub fn structured(&self) -> Option<&serde_json::Value> {
        self.structured.as_ref()
    }

    /// Returns the figures of use so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Closes the reading once the process is gone and the adapter has judged it.
    pub fn into_reply(self, end: ChildEnd, failure: Option<Failure>) -> Reply {
        let text = self.text();
        let signal = match (&self.result_text, self.words.is_empty) {
            (Some(text), true) => completion::signal(text),
            (Some(_) | None, _) => self.words.scanner.found().map(str::to_owned),
        };
        let in_words = if failure.is_none() { self.answer_in_words() } else { None };
        Reply {
            text,
            signal: failure.is_none().then_some(signal).flatten(),
            structured: self.structured.or(in_words),
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
