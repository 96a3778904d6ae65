//! How a turn stands by its agent's own account, and what follows from that together with the
//! end of the process.
//!
//! Success needs both: a terminal event that says so, and an exit that agrees. Words are searched
//! only in error texts and in the stderr of a call that failed, never in what the agent said or
//! read. Not here: which events of an agent are terminal.

use ralph_core::child::{Ending, Limit};
use ralph_core::failure::{Failure, FailureClass};

use ralph_core::plain::Plain;

use super::ending;
use super::error_words;
use super::translator::Evidence;

/// How the last turn stands.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// No terminal event has come since it began.
    #[default]
    Open,
    /// It ended well, by its own account.
    Succeeded,
    /// It did not.
    Failed(Trouble),
}

/// What an agent says about an error.
#[derive(Debug, Clone, Default)]
pub(super) struct Trouble {
    /// What happened, in the agent's own words.
    pub(super) words: String,
    /// More of what the agent knows, such as the body of the response. It is searched, not shown.
    pub(super) details: String,
    /// The HTTP status.
    pub(super) status: Option<u16>,
    /// The class, where the event itself tells it.
    pub(super) class: Option<FailureClass>,
}

/// What an agent's user can do about failures that asking again cannot mend.
#[derive(Debug)]
pub(super) struct Hints {
    /// How to get the program.
    pub(super) install: &'static str,
    /// How to log in.
    pub(super) login: &'static str,
    /// What its silence may mean.
    pub(super) silence: Option<&'static str>,
}

impl Turn {
    /// Judges a call. `retrying` is the failed request that nothing useful has followed yet.
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
            (Self::Failed(trouble), _) => {
                let class = trouble.class().unwrap_or(FailureClass::Crashed);
                Some(trouble.failure(class, hints, evidence))
            }
            // The answer had come; what kept the process is not the answer's fault.
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
                (Limit::Idle, Some(trouble)) => {
                    let class = trouble.class().unwrap_or(FailureClass::Overloaded);
                    Some(trouble.failure(class, hints, evidence))
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
                let words = stderr_of(evidence);
                let words = if words.is_empty() { "it gave no result".to_owned() } else { words };
                Some(Failure::new(FailureClass::Malformed, words))
            }
            (Self::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                // Bad flags, files and logins are told on stderr only.
                let trouble = Trouble { words: stderr_of(evidence), ..Trouble::default() };
                Some(match trouble.class() {
                    Some(class) => trouble.failure(class, hints, evidence),
                    None => ending::crashed(ending, &trouble.words),
                })
            }
        }
    }
}

impl Trouble {
    /// Returns trouble that is known by its class.
    pub(super) fn of(class: FailureClass, words: impl Into<String>) -> Self {
        Self { words: words.into(), class: Some(class), ..Self::default() }
    }

    fn searched(&self) -> String {
        format!("{}\n{}", self.words, self.details)
    }

    /// Returns the class, as far as anything tells it.
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
