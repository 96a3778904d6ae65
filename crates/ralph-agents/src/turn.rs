//! The status of a turn as the agent reports it, and the failure that follows from it and from the
//! end of the process.
//!
//! Success needs both: a terminal event that reports it, and a matching exit. Patterns are
//! searched only in error texts and in the stderr of a failed call, never in what the agent wrote
//! or read. Not here: which events of an agent are terminal.

use ralph_core::child::{Ending, Limit};
use ralph_core::failure::{Failure, FailureClass};

use ralph_core::plain::Plain;

use super::ending;
use super::error_words;
use super::translator::Evidence;

/// Status of the last turn.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// No terminal event has come since the turn began.
    #[default]
    Open,
    Succeeded,
    Failed(Trouble),
}

/// An error as the agent reports it.
#[derive(Debug, Clone, Default)]
pub(super) struct Trouble {
    /// The agent's own message.
    pub(super) words: String,
    /// More text from the agent, such as the body of the response. It is searched, not shown.
    pub(super) details: String,
    pub(super) status: Option<u16>,
    /// The class, if the event itself names it.
    pub(super) class: Option<FailureClass>,
}

/// Hints for failures that a retry cannot fix.
#[derive(Debug)]
pub(super) struct Hints {
    pub(super) install: &'static str,
    pub(super) login: &'static str,
    /// What silence of the agent may mean.
    pub(super) silence: Option<&'static str>,
}

impl Turn {
    /// Judges a call. `retrying` is the failed request that no progress has followed yet.
    pub(super) fn judge(
        &self,
        retrying: Option<&Trouble>,
        hints: &Hints,
        evidence: &Evidence<'_>,
    ) -> Option<Failure> {
        let ending = &evidence.end.ending;
        match (self, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. }) => {
                ending::imposed(ending, hints.install)
            }
            (Self::Failed(reported), _) => {
                let class = reported.class().unwrap_or(FailureClass::Crashed);
                Some(reported.failure(class, hints, evidence))
            }
            // The answer is complete; that the process did not exit afterwards does not void it.
            (
                Self::Succeeded,
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
            ) => evidence
                .reading
                .is_silent()
                .then(|| Failure::new(FailureClass::Empty, "it said nothing")),
            (Self::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Some(ending::crashed(ending, &stderr_of(evidence)))
            }
            (Self::Open, Ending::TimedOut { limit, .. }) => match (limit, retrying) {
                (Limit::Idle, Some(reported)) => {
                    let class = reported.class().unwrap_or(FailureClass::Overloaded);
                    Some(reported.failure(class, hints, evidence))
                }
                (Limit::Idle, None) => {
                    ending::imposed(ending, hints.install).map(|failure| match hints.silence {
                        Some(hint) => failure.with_hint(hint),
                        None => failure,
                    })
                }
                (Limit::Hard | Limit::Output | Limit::Growth | Limit::Disk, _) => {
                    ending::imposed(ending, hints.install)
                }
            },
            (Self::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let message = stderr_of(evidence);
                let message =
                    if message.is_empty() { "it gave no result".to_owned() } else { message };
                Some(Failure::new(FailureClass::Malformed, message))
            }
            (Self::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                // Bad flags, files and logins are reported on stderr only.
                let reported = Trouble { words: stderr_of(evidence), ..Trouble::default() };
                Some(match reported.class() {
                    Some(class) => reported.failure(class, hints, evidence),
                    None => ending::crashed(ending, &reported.words),
                })
            }
        }
    }
}

impl Trouble {
    /// Returns a failure whose class is known.
    pub(super) fn of(class: FailureClass, message: impl Into<String>) -> Self {
        Self { words: message.into(), class: Some(class), ..Self::default() }
    }

    fn searched(&self) -> String {
        format!("{}\n{}", self.words, self.details)
    }

    /// Returns the class, if it can be determined.
    fn class(&self) -> Option<FailureClass> {
        if let Some(class) = &self.class {
            return Some(class.clone());
        }
        error_words::class_of(&self.searched(), self.status)
    }

    fn failure(&self, class: FailureClass, hints: &Hints, evidence: &Evidence<'_>) -> Failure {
        error_words::failure(class, &self.words, &self.searched(), evidence, hints.login)
    }
}

fn stderr_of(evidence: &Evidence<'_>) -> String {
    let mut plain = String::new();
    let mut escapes = Plain::default();
    escapes.feed(evidence.stderr_tail.as_bytes(), &mut plain);
    escapes.finish(&mut plain);
    ending::last_lines(&plain)
}
