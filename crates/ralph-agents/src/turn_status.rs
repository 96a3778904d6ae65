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

/// Status of the last turn, with the agent's form of a failure.
#[derive(Debug, Default)]
pub(super) enum TurnStatus<F = ReportedFailure> {
    /// No terminal event has come since the turn began.
    #[default]
    Open,
    Succeeded,
    Failed(F),
}

/// What differs between agents when a call is judged. The rule itself is the same for all.
pub(super) trait JudgeTurn {
    /// A failure as the agent reports it.
    type Reported;

    fn turn(&self) -> &TurnStatus<Self::Reported>;

    fn install_hint(&self) -> &'static str;

    /// Judges a turn that the agent reports as failed.
    fn judge_failed(&self, reported: &Self::Reported, evidence: &Evidence<'_>) -> Failure;

    /// Judges an exit without a result.
    fn judge_unfinished(&self, evidence: &Evidence<'_>) -> Failure;

    /// Returns the failure behind silence, if it is known: the server may cause it, not the agent.
    fn judge_silence(&self, _evidence: &Evidence<'_>) -> Option<Failure> {
        None
    }

    /// Returns whether a successful turn brought no answer.
    fn is_empty(&self, evidence: &Evidence<'_>) -> bool {
        evidence.reading.is_silent()
    }

    /// Returns what stderr says about the end.
    fn read_stderr(&self, evidence: &Evidence<'_>) -> String {
        exit_failure::take_last_lines(evidence.stderr_tail)
    }

    /// Judges a call. Returns `None` if it brought an answer.
    fn judge_turn(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        let judge_imposed = || exit_failure::judge_imposed_ending(ending, self.install_hint());
        match (self.turn(), ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. }) => judge_imposed(),
            (TurnStatus::Failed(reported), _) => Some(self.judge_failed(reported, evidence)),
            // The answer is complete; that the process did not exit afterwards does not void it.
            (
                TurnStatus::Succeeded,
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
            ) => self
                .is_empty(evidence)
                .then(|| Failure::new(FailureClass::Empty, "it said nothing")),
            (TurnStatus::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Some(exit_failure::build_crash_failure(ending, &self.read_stderr(evidence)))
            }
            (TurnStatus::Open, Ending::TimedOut { limit: Limit::Idle, .. }) => {
                self.judge_silence(evidence).or_else(judge_imposed)
            }
            (TurnStatus::Open, Ending::TimedOut { .. }) => judge_imposed(),
            (
                TurnStatus::Open,
                Ending::Exited { .. } | Ending::Signalled { .. } | Ending::Lingered { .. },
            ) => Some(self.judge_unfinished(evidence)),
        }
    }
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
        ReportedTurn { status: self, retrying, hints }.judge_turn(evidence)
    }
}

/// A turn of an agent whose errors are classified by their text and status.
struct ReportedTurn<'a> {
    status: &'a TurnStatus,
    retrying: Option<&'a ReportedFailure>,
    hints: &'a FailureHints,
}

impl JudgeTurn for ReportedTurn<'_> {
    type Reported = ReportedFailure;

    fn turn(&self) -> &TurnStatus {
        self.status
    }

    fn install_hint(&self) -> &'static str {
        self.hints.install
    }

    fn judge_failed(&self, reported: &ReportedFailure, evidence: &Evidence<'_>) -> Failure {
        let class = reported.class().unwrap_or(FailureClass::Crashed);
        reported.to_failure(class, self.hints, evidence)
    }

    /// Bad flags, files and logins are reported on stderr only.
    fn judge_unfinished(&self, evidence: &Evidence<'_>) -> Failure {
        let message = self.read_stderr(evidence);
        exit_failure::judge_missing_result(&evidence.end.ending, message, |message| {
            let reported =
                ReportedFailure { message: message.to_owned(), ..ReportedFailure::default() };
            Some(reported.to_failure(reported.class()?, self.hints, evidence))
        })
    }

    fn judge_silence(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        if let Some(reported) = self.retrying {
            let class = reported.class().unwrap_or(FailureClass::Overloaded);
            return Some(reported.to_failure(class, self.hints, evidence));
        }
        let hint = self.hints.silence?;
        let ending = &evidence.end.ending;
        let failure = exit_failure::judge_imposed_ending(ending, self.hints.install)?;
        Some(failure.with_hint(hint))
    }

    fn read_stderr(&self, evidence: &Evidence<'_>) -> String {
        let mut plain = String::new();
        let mut escapes = Plain::default();
        escapes.feed(evidence.stderr_tail.as_bytes(), &mut plain);
        escapes.finish(&mut plain);
        exit_failure::take_last_lines(&plain)
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
