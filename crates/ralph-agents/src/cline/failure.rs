//! Why a call to Cline brought no answer.
//!
//! Success is a `run_result` with `completed` and no `run_aborted` after it; exit code 0 means
//! nothing, because interrupts also exit with 0. Patterns are searched only in errors.

use ralph_core::plain::Plain;
use ralph_model::failure::{Failure, FailureClass};
use serde::Deserialize;

use super::translate::ClineTranslator;
use crate::translator::{Evidence, shorten_text};
use crate::turn_status::{JudgeTurn, TurnStatus};
use crate::{error_patterns, exit_failure};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Cline (`npm install -g cline`), or set `agent.command`";

const LOGIN_HINT: &str =
    "run `cline auth` and give a provider and a key, or add credit to the account";

/// A failure as Cline reports it.
#[derive(Debug)]
pub(crate) struct ClineFailure {
    /// Cline's own message.
    pub(super) message: String,
    cause: ClineFailureCause,
}

#[derive(Debug)]
enum ClineFailureCause {
    /// An error, with Cline's own class for it: `auth`, `unknown` and so on.
    Error(Option<String>),
    /// The run was stopped from outside.
    Abort,
}

impl ClineFailure {
    pub(super) fn new(message: String, class: Option<String>) -> Self {
        Self { message, cause: ClineFailureCause::Error(class) }
    }

    pub(super) fn from_abort(message: &str) -> Self {
        let message = format!("the run was aborted: {message}");
        Self { message, cause: ClineFailureCause::Abort }
    }

    /// Returns the failure of a run that was not completed.
    pub(super) fn from_finish(
        reason: Option<&str>,
        text: Option<String>,
        error: Option<Self>,
    ) -> Self {
        let reason = reason.unwrap_or("no reason");
        if reason == "aborted" {
            return Self::from_abort(text.as_deref().unwrap_or(reason));
        }
        let text = text.filter(|text| !text.trim().is_empty() && reason == "error");
        let (reported_message, cause) = match error {
            Some(error) => (Some(error.message), error.cause),
            None => (None, ClineFailureCause::Error(None)),
        };
        let message =
            text.or(reported_message).unwrap_or_else(|| format!("the run ended with `{reason}`"));
        Self { message, cause }
    }

    fn class(&self) -> Option<FailureClass> {
        match &self.cause {
            ClineFailureCause::Abort => None,
            ClineFailureCause::Error(Some(class)) if class == "auth" => {
                Some(FailureClass::NotLoggedIn)
            }
            // Cline's class is searched like the message.
            ClineFailureCause::Error(Some(class)) => {
                error_patterns::classify_message(&format!("{class}: {}", self.message))
            }
            ClineFailureCause::Error(None) => error_patterns::classify_message(&self.message),
        }
    }

    fn to_failure(&self, evidence: &Evidence<'_>) -> Failure {
        let class = self.class().unwrap_or(FailureClass::Crashed);
        error_patterns::build_failure(
            class,
            &shorten_text(&self.message),
            &self.message,
            evidence,
            LOGIN_HINT,
        )
    }
}

impl JudgeTurn for ClineTranslator {
    type Reported = ClineFailure;

    fn turn(&self) -> &TurnStatus<ClineFailure> {
        &self.turn
    }

    fn install_hint(&self) -> &'static str {
        INSTALL_HINT
    }

    fn judge_failed(&self, reported: &ClineFailure, evidence: &Evidence<'_>) -> Failure {
        reported.to_failure(evidence)
    }

    fn judge_unfinished(&self, evidence: &Evidence<'_>) -> Failure {
        let message = self.read_stderr(evidence);
        exit_failure::judge_missing_result(&evidence.end.ending, message, |message| {
            if let Some(error) = &self.error {
                return Some(error.to_failure(evidence));
            }
            error_patterns::find_failure(message, evidence, LOGIN_HINT)
        })
    }

    fn judge_silence(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        self.error.as_ref().map(|error| error.to_failure(evidence))
    }

    fn read_stderr(&self, evidence: &Evidence<'_>) -> String {
        read_stderr_message(evidence.stderr_tail)
    }
}

/// An error as Cline prints it on stderr.
#[derive(Deserialize)]
struct ClineErrorLine {
    message: String,
}

/// Returns the message on stderr. Most of stderr is warnings of libraries with stack traces; an
/// error is a line of JSON between them.
fn read_stderr_message(tail: &str) -> String {
    let error =
        tail.lines().rev().find_map(|line| serde_json::from_str::<ClineErrorLine>(line).ok());
    if let Some(ClineErrorLine { message }) = error {
        return shorten_text(&message);
    }
    let mut plain = String::new();
    let mut reader = Plain::default();
    reader.feed(tail.as_bytes(), &mut plain);
    reader.finish(&mut plain);
    let lines: Vec<&str> = plain
        .lines()
        .filter(|line| !line.contains("AI SDK Warning") && !line.trim_start().starts_with("at "))
        .collect();
    exit_failure::take_last_lines(&lines.join("\n"))
}
