//! The state of an agent call, which may take several processes, pauses and waits until
//! it is answered or given up.
//!
//! Part of the state, so it changes only by events. Not here: the prompt.

use serde::{Deserialize, Serialize};

use crate::agent_output::Reply;
use crate::failure::{AFTER_RESET, FIRST_LIMIT_PAUSE, Failure, FailureClass, FailureRule};
use crate::ids::AskNumber;
use crate::recipe::{AgentKind, Recipe};
use crate::units::{Millis, Timestamp};

/// The state of an agent call, with its retries.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    #[serde(default)]
    pub agent: Option<AgentKind>,
    /// Whether a call failed because the API refused its JSON Schema.
    #[serde(default)]
    pub is_schema_refused: bool,
    /// The end, once reached.
    pub end: Option<AgentCallEnd>,
    pub last_failure: Option<Failure>,
    /// The token that distinguishes the answer to the last call from quoted ones, if
    /// there is one.
    #[serde(default)]
    pub token: Option<String>,
    /// Answers in the wrong form so far. The next call asks only for what is missing.
    #[serde(default)]
    pub wrong: Option<WrongAnswer>,
}

/// How often ralph asks again after an answer in the wrong form. Agents that can answer
/// in the right form do so the first time they learn what was missing.
const MAX_FOLLOW_UPS: usize = 2;

/// Answers in the wrong form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongAnswer {
    /// The answers, oldest first.
    pub texts: Vec<String>,
    /// What is wrong with the last one.
    pub fault: String,
}

/// Whether an answer has the requested form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Right,
    Wrong {
        /// What is wrong with it, for the follow-up prompt.
        fault: String,
        /// How it counts when follow-ups have not helped.
        finally: WrongFormResult,
    },
}

/// How an answer in the wrong form counts when follow-ups have not helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongFormResult {
    Failed,
    /// An answer: ralph uses what it contains.
    Accepted,
}

/// Which prompt a call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSize {
    #[default]
    Full,
    /// As little feedback as possible, because the full prompt did not fit.
    Smallest,
}

/// How an agent call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentCallEnd {
    Answered(Box<Reply>),
    /// The attempt failed; the loop continues.
    FailedAttempt(Failure),
    /// Asking again cannot help; the run ends.
    Hopeless(Failure),
}

impl AgentCallState {
    /// Resets what made the run give up, so that it can be tried again.
    pub(crate) fn reset_failures(&mut self) {
        match &self.end {
            Some(AgentCallEnd::Answered(_) | AgentCallEnd::FailedAttempt(_)) => {}
            Some(AgentCallEnd::Hopeless(_)) | None => {
                *self = Self {
                    pending: self.pending,
                    size: self.size,
                    token: self.token.take(),
                    wrong: self.wrong.take(),
                    ..Self::default()
                };
            }
        }
    }

    /// Applies the reply of a call.
    pub(crate) fn apply_reply(
        &mut self,
        reply: &Reply,
        form: AnswerForm,
        at: Timestamp,
        recipe: &Recipe,
    ) {
        self.pending = None;
        let Some(failure) = &reply.failure else {
            self.apply_answer(reply, form);
            return;
        };
        self.last_failure = Some(failure.clone());
        match (failure.class.rule(), self.size) {
            (FailureRule::Retry, _) => {
                self.failures += 1;
                let seed = u64::try_from(at.0).unwrap_or(0);
                self.not_before =
                    Some(at.saturating_add(recipe.retries.retry_pause(self.failures, seed)));
                if self.failures > recipe.retries.max {
                    self.end = Some(AgentCallEnd::Hopeless(failure.clone()));
                }
            }
            (FailureRule::RetrySmaller, PromptSize::Full) => self.size = PromptSize::Smallest,
            (FailureRule::RetrySmaller, PromptSize::Smallest) | (FailureRule::FailedAttempt, _) => {
                self.end = Some(AgentCallEnd::FailedAttempt(failure.clone()));
            }
            (FailureRule::RetryWithoutSchema, _) if !self.is_schema_refused => {
                self.is_schema_refused = true;
            }
            (FailureRule::RetryWithoutSchema, _) => {
                self.end = Some(AgentCallEnd::Hopeless(failure.clone()));
            }
            (FailureRule::Wait { until }, _) => {
                let pause = Millis(FIRST_LIMIT_PAUSE.0 << self.refusals.min(6));
                // A reset that lies in the past, call after call, must not become a tight loop
                // of refused calls.
                let least = at.saturating_add(Millis(AFTER_RESET.0 << self.refusals.min(8)));
                self.refusals += 1;
                let until = until
                    .map_or(at.saturating_add(pause), |reset| reset.saturating_add(AFTER_RESET))
                    .max(least);
                self.waited = self.waited.saturating_add(until.elapsed_since(at));
                self.not_before = Some(until);
            }
            (FailureRule::Stop, _) => self.end = Some(AgentCallEnd::Hopeless(failure.clone())),
            (FailureRule::RetryAfterResume, _) => {}
        }
    }

    /// Applies an answer. One in the wrong form is requested again at once, a few times.
    fn apply_answer(&mut self, reply: &Reply, form: AnswerForm) {
        let answered = || Some(AgentCallEnd::Answered(Box::new(reply.clone())));
        let (fault, finally) = match form {
            AnswerForm::Right => {
                self.end = answered();
                return;
            }
            AnswerForm::Wrong { fault, finally } => (fault, finally),
        };
        let failure = Failure::new(FailureClass::Malformed, fault.clone());
        self.last_failure = Some(failure.clone());
        let mut texts = self.wrong.take().map(|wrong| wrong.texts).unwrap_or_default();
        texts.push(quote_answer(reply));
        let is_over = texts.len() > MAX_FOLLOW_UPS;
        self.wrong = Some(WrongAnswer { texts, fault });
        self.end = match finally {
            _ if !is_over => None,
            WrongFormResult::Failed => Some(AgentCallEnd::FailedAttempt(failure)),
            WrongFormResult::Accepted => answered(),
        };
    }
}

/// Returns an answer as quoted in the follow-up prompt.
fn quote_answer(reply: &Reply) -> String {
    match &reply.structured {
        Some(value) if !reply.text.contains('{') => {
            format!("{}\n{value}", reply.text.trim()).trim().to_owned()
        }
        Some(_) | None => reply.text.trim().to_owned(),
    }
}
