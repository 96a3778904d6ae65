//! The state of an agent call, which may take several processes, pauses and waits until
//! it is answered or given up.
//!
//! Part of the state, so it changes only by events. Not here: the prompt.

use crate::agent::AgentKind;
use crate::agent_output::{Reply, Usage};
use crate::failure::Failure;
use crate::ids::AskNumber;
use crate::units::{Millis, Timestamp};

/// The state of an agent call, with its retries.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentCallState {
    /// The process that was started and has not answered yet.
    pub pending: Option<AskNumber>,
    /// Failures that count against the retry limit.
    pub failures: u32,
    /// Refusals by a usage limit.
    pub refusals: u32,
    /// Total wait caused by those.
    pub waited: Millis,
    /// Earliest time of the next call.
    pub not_before: Option<Timestamp>,
    /// The prompt size of the next call.
    pub size: PromptSize,
    pub agent: Option<AgentKind>,
    /// Whether a call failed because the API refused its JSON Schema.
    pub is_schema_refused: bool,
    /// Whether the last call continued the session of an answer in the wrong form.
    pub is_resumed: bool,
    /// The end, once reached.
    pub end: Option<AgentCallEnd>,
    pub last_failure: Option<Failure>,
    /// The token that the answer to the last call carries if it is in the agent's text.
    pub token: Option<String>,
    /// Changed files with instructions for agents that an approval must judge.
    pub instructions: Vec<String>,
    /// Answers in the wrong form so far. The next call asks only for what is missing.
    pub wrong: Option<WrongAnswer>,
}

/// Answers in the wrong form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WrongAnswer {
    /// The answers, oldest first.
    pub texts: Vec<String>,
    /// What is wrong with the last one.
    pub fault: String,
    /// The session that gave the last one.
    pub session: AgentSession,
}

/// The session of an answer in the wrong form, which a follow-up may continue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AgentSession {
    /// The agent reported none.
    #[default]
    Unknown,
    Open(OpenSession),
    /// The agent could not continue it.
    Lost,
}

/// A session that can be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// The agent's own id of it.
    pub id: String,
    /// Its usage so far. Some agents report the usage of the whole session.
    pub usage: Usage,
}

/// Which prompt a call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromptSize {
    #[default]
    Full,
    /// As little feedback as possible, because the full prompt did not fit.
    Smallest,
}

/// How an agent call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentCallEnd {
    Answered(Box<Reply>),
    /// The attempt failed; the loop continues.
    FailedAttempt(Failure),
    /// Asking again cannot help; the run ends.
    Hopeless(Failure),
}

impl AgentCallState {
    /// Resets what made the run give up, so that it can be tried again.
    pub fn reset_failures(&mut self) {
        match &self.end {
            Some(AgentCallEnd::Answered(_) | AgentCallEnd::FailedAttempt(_)) => {}
            Some(AgentCallEnd::Hopeless(_)) | None => {
                *self = Self {
                    pending: self.pending,
                    size: self.size,
                    token: self.token.take(),
                    instructions: std::mem::take(&mut self.instructions),
                    wrong: self.wrong.take(),
                    ..Self::default()
                };
            }
        }
    }
}
