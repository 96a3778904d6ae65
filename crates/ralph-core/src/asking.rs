//! A question to an agent: it may take several calls, pauses and waits until it is answered or
//! given up.
//!
//! Part of the state, so it changes only by events. Not here: what is asked.

use serde::{Deserialize, Serialize};

use crate::failure::{AFTER_RESET, FIRST_LIMIT_PAUSE, Failure, FailureClass, FailureRule};
use crate::ids::AskNumber;
use crate::reading::Reply;
use crate::recipe::{AgentKind, Recipe};
use crate::units::{Millis, Timestamp};

/// A question to an agent that may take several calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Asking {
    /// The call that was begun and has not been heard of since.
    pub pending: Option<AskNumber>,
    /// Failures that count against the retries.
    pub failures: u32,
    /// Refusals by a usage limit.
    pub refusals: u32,
    /// How long those make it wait in all.
    pub waited: Millis,
    /// Not to be asked again before this moment.
    pub not_before: Option<Timestamp>,
    /// Which prompt the next call gets.
    pub size: PromptSize,
    /// The agent of the last call.
    #[serde(default)]
    pub agent: Option<AgentKind>,
    /// Whether a call failed because of the schema that it was given.
    #[serde(default)]
    pub is_schema_refused: bool,
    /// How it ended, once it has.
    pub end: Option<AskingEnd>,
    /// The last failure.
    pub last_failure: Option<Failure>,
    /// The token that tells the answer to the last call from quoted ones, where it was given one.
    #[serde(default)]
    pub token: Option<String>,
    /// The answers that were not in the form that was asked for. The next call asks for what is
    /// missing only.
    #[serde(default)]
    pub wrong: Option<WrongAnswer>,
}

/// How often an answer in the wrong form is asked for again. Agents that can answer in the right
/// form do so the first time they are told what was missing.
const MOST_FOLLOW_UPS: usize = 2;

/// Answers that were not in the form that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongAnswer {
    /// The answers, oldest first.
    pub texts: Vec<String>,
    /// What is wrong with the last one.
    pub fault: String,
}

/// Whether an answer is in the form that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    /// It is.
    Right,
    /// It is not.
    Wrong {
        /// What is wrong with it, in words for the agent.
        fault: String,
        /// What it counts as when asking again has not helped.
        finally: WrongForm,
    },
}

/// What an answer in the wrong form counts as when asking again has not helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongForm {
    /// A failed attempt.
    Failed,
    /// An answer: ralph makes do with what it holds.
    Taken,
}

/// Which prompt a call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSize {
    /// The whole one.
    #[default]
    Full,
    /// With as little feedback as possible, because the whole one did not fit.
    Smallest,
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskingEnd {
    /// With an answer.
    Answered(Box<Reply>),
    /// With a failed attempt; the loop goes on.
    FailedAttempt(Failure),
    /// For good: asking again cannot help.
    Hopeless(Failure),
}

impl Asking {
    /// Forgets what made the run give up, so that it can be tried again.
    pub(crate) fn revive(&mut self) {
        match &self.end {
            Some(AskingEnd::Answered(_) | AskingEnd::FailedAttempt(_)) => {}
            Some(AskingEnd::Hopeless(_)) | None => {
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

    /// Takes in what a call brought.
    pub(crate) fn hear(&mut self, reply: &Reply, form: AnswerForm, at: Timestamp, recipe: &Recipe) {
        self.pending = None;
        let Some(failure) = &reply.failure else {
            self.answered(reply, form);
            return;
        };
        self.last_failure = Some(failure.clone());
        match (failure.class.rule(), self.size) {
            (FailureRule::Retry, _) => {
                self.failures += 1;
                let seed = u64::try_from(at.0).unwrap_or(0);
                self.not_before = Some(at.plus(recipe.retries.pause(self.failures, seed)));
                if self.failures > recipe.retries.max {
                    self.end = Some(AskingEnd::Hopeless(failure.clone()));
                }
            }
            (FailureRule::RetrySmaller, PromptSize::Full) => self.size = PromptSize::Smallest,
            (FailureRule::RetrySmaller, PromptSize::Smallest) | (FailureRule::FailedAttempt, _) => {
                self.end = Some(AskingEnd::FailedAttempt(failure.clone()));
            }
            (FailureRule::RetryInWords, _) if !self.is_schema_refused => {
                self.is_schema_refused = true;
            }
            (FailureRule::RetryInWords, _) => {
                self.end = Some(AskingEnd::Hopeless(failure.clone()));
            }
            (FailureRule::Wait { until }, _) => {
                let pause = Millis(FIRST_LIMIT_PAUSE.0 << self.refusals.min(6));
                // A reset that lies in the past, call after call, must not become a tight loop
                // of refused calls.
                let least = at.plus(Millis(AFTER_RESET.0 << self.refusals.min(8)));
                self.refusals += 1;
                let until =
                    until.map_or(at.plus(pause), |reset| reset.plus(AFTER_RESET)).max(least);
                self.waited = self.waited.plus(until.since(at));
                self.not_before = Some(until);
            }
            (FailureRule::Stop, _) => self.end = Some(AskingEnd::Hopeless(failure.clone())),
            (FailureRule::Again, _) => {}
        }
    }

    /// Takes in an answer. One in the wrong form is asked for again at once, a few times.
    fn answered(&mut self, reply: &Reply, form: AnswerForm) {
        let answered = || Some(AskingEnd::Answered(Box::new(reply.clone())));
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
        texts.push(shown_answer(reply));
        let is_over = texts.len() > MOST_FOLLOW_UPS;
        self.wrong = Some(WrongAnswer { texts, fault });
        self.end = match finally {
            _ if !is_over => None,
            WrongForm::Failed => Some(AskingEnd::FailedAttempt(failure)),
            WrongForm::Taken => answered(),
        };
    }
}

/// Returns an answer as its agent is shown it again.
fn shown_answer(reply: &Reply) -> String {
    match &reply.structured {
        Some(value) if !reply.text.contains('{') => {
            format!("{}\n{value}", reply.text.trim()).trim().to_owned()
        }
        Some(_) | None => reply.text.trim().to_owned(),
    }
}
