//! The status of a turn as the agent reports it, and the failure that follows from it and from the
//! end of the process.
//!
//! Success needs both: a terminal event that reports it, and a matching exit. Patterns are
//! searched only in error texts and in the stderr of a failed call, never in what the agent wrote
//! or read. Not here: which events of an agent are terminal.

use ralph_core::plain::Plain;
use ralph_model::child::{Ending, Limit};
use ralph_model::failure::{Failure, FailureClass};

use super::translator::Evidence;
use super::{error_patterns, exit_failure};

/// Status of the last turn.
#[derive(Debug, Default)]
pub(super) enum TurnStatus {
    /// No terminal event has come since the turn began.
    #[default]
    Open,
    Succeeded,
    Failed(ReportedFailure),
}

/// An error as the agent reports it.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportedFailure {
    /// The agent's own message.
    pub(super) message: String,
    /// More text from the agent, such as the body of the response. It is searched, not shown.
    pub(super) details: String,
    pub(super) status: Option<u16>,
    /// The class, if the event itself names it.
    pub(super) class: Option<FailureClass>,
}

/// Hints for failures that a retry cannot fix.
#[derive(Debug)]
pub(super) struct FailureHints {
    pub(super) install: &'static str,
    pub(super) login: &'static str,
    /// What silence of the agent may mean.
    pub(super) silence: Option<&'static str>,
}

impl TurnStatus {
    /// Judges a call. `retrying` is the failed request that no progress has followed yet.
    pub(super) fn judge(
        &self,
        retrying: Option<&ReportedFailure>,
        hints: &FailureHints,
        evidence: &Evidence<'_>,
    ) -> Option<Failure> {
        let ending = &evidence.end.ending;
        match (self, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. }) => {
                exit_failure::judge_imposed_ending(ending, hints.install)
            }
            (Self::Failed(reported), _) => {
                let class = reported.class().unwrap_or(FailureClass::Crashed);
                Some(reported.to_failure(class, hints, evidence))
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
                Some(exit_failure::build_crash_failure(ending, &read_stderr_tail(evidence)))
            }
            (Self::Open, Ending::TimedOut { limit, .. }) => match (limit, retrying) {
                (Limit::Idle, Some(reported)) => {
                    let class = reported.class().unwrap_or(FailureClass::Overloaded);
                    Some(reported.to_failure(class, hints, evidence))
                }
                (Limit::Idle, None) => exit_failure::judge_imposed_ending(ending, hints.install)
                    .map(|failure| match hints.silence {
                        Some(hint) => failure.with_hint(hint),
                        None => failure,
                    }),
                (Limit::Hard | Limit::Output | Limit::Growth | Limit::Disk, _) => {
                    exit_failure::judge_imposed_ending(ending, hints.install)
                }
            },
            (Self::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let message = read_stderr_tail(evidence);
                let message =
                    if message.is_empty() { "it gave no result".to_owned() } else { message };
                Some(Failure::new(FailureClass::Malformed, message))
            }
            (Self::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                // Bad flags, files and logins are reported on stderr only.
                let reported = ReportedFailure {
                    message: read_stderr_tail(evidence),
                    ..ReportedFailure::default()
                };
                Some(match reported.class() {
                    Some(class) => reported.to_failure(class, hints, evidence),
                    None => exit_failure::build_crash_failure(ending, &reported.message),
                })
            }
        }
    }
}

impl ReportedFailure {
    /// Returns a failure whose class is known.
    pub(super) fn from_class(class: FailureClass, message: impl Into<String>) -> Self {
        Self { message: message.into(), class: Some(class), ..Self::default() }
    }

    fn searchable_text(&self) -> String {
        format!("{}\n{}", self.message, self.details)
    }

    /// Returns the class, if it can be determined.
    fn class(&self) -> Option<FailureClass> {
        if let Some(class) = &self.class {
            return Some(class.clone());
        }
        error_patterns::classify_error(&self.searchable_text(), self.status)
    }

    fn to_failure(
        &self,
        class: FailureClass,
        hints: &FailureHints,
        evidence: &Evidence<'_>,
    ) -> Failure {
        error_patterns::build_failure(
            class,
            &self.message,
            &self.searchable_text(),
            evidence,
            hints.login,
        )
    }
}

fn read_stderr_tail(evidence: &Evidence<'_>) -> String {
    let mut plain = String::new();
    let mut escapes = Plain::default();
    escapes.feed(evidence.stderr_tail.as_bytes(), &mut plain);
    escapes.finish(&mut plain);
    exit_failure::take_last_lines(&plain)
}
