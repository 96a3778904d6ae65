//! What agents print: the events of a call, its usage, and the reply.
//!
//! Not here: the lines of each agent, which its adapter translates.

use serde::{Deserialize, Serialize};

use crate::child::ChildEnd;
use crate::failure::Failure;
use crate::units::{Millis, Timestamp, Tokens, UsdMicros};

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
    /// The text that an edit removed from a file and added to it, cut to what is shown.
    FileEdited {
        path: String,
        removed: String,
        added: String,
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
    /// ralph reports that the call has passed its soft limit. No agent sends this.
    #[serde(skip)]
    SoftLimitPassed,
    /// ralph reports once a second that the call is running. No agent sends this.
    #[serde(skip)]
    StillRunning {
        ran: Millis,
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

/// Tokens, money and turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens not read from the cache.
    pub input: Tokens,
    pub output: Tokens,
    pub cache_read: Tokens,
    pub cache_write: Tokens,
    /// The cost the agent reports; `None` if it reports none.
    pub cost: Option<UsdMicros>,
    /// How often the agent called its model, if it reports that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
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
            turns: match (self.turns, other.turns) {
                (Some(one), Some(two)) => Some(one.saturating_add(two)),
                (one, two) => one.or(two),
            },
        }
    }

    /// Returns what is left without an earlier part.
    #[must_use]
    pub fn minus(self, part: Self) -> Self {
        let less = |all: Tokens, part: Tokens| Tokens(all.0.saturating_sub(part.0));
        Self {
            input: less(self.input, part.input),
            output: less(self.output, part.output),
            cache_read: less(self.cache_read, part.cache_read),
            cache_write: less(self.cache_write, part.cache_write),
            cost: self
                .cost
                .map(|cost| UsdMicros(cost.0.saturating_sub(part.cost.map_or(0, |it| it.0)))),
            turns: self.turns.map(|turns| turns.saturating_sub(part.turns.unwrap_or(0))),
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
    /// The final answer, at most `REPLY_TEXT_CHARS` characters.
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
