//! Why a call to Amp brought no answer.
//!
//! Success is a result with the subtype `success`, no error flag, and a matching exit. Patterns
//! are searched only in errors.

use ralph_model::failure::{Failure, FailureClass};

use super::translate::AmpTranslator;
use super::wire;
use crate::translator::{Evidence, shorten_text};
use crate::turn_status::{JudgeTurn, TurnStatus};
use crate::{error_patterns, exit_failure};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Amp (`npm install -g @sourcegraph/amp`), or set `agent.command`";

const LOGIN_HINT: &str = "set AMP_API_KEY, or run `amp login`; without credit, add some";

/// A failed result as Amp reports it.
#[derive(Debug)]
pub(crate) struct AmpFailure {
    /// Amp's own message.
    pub(super) message: String,
    class: Option<FailureClass>,
}

impl AmpFailure {
    /// Returns the failure of a result, or `None` if it is a success.
    pub(super) fn from_result(line: &wire::ResultLine) -> Option<Self> {
        let subtype = line.subtype.as_deref().unwrap_or("no subtype");
        if subtype == "success" && line.is_error != Some(true) {
            return None;
        }
        let message = line
            .error
            .clone()
            .filter(|message| !message.trim().is_empty())
            .unwrap_or_else(|| format!("the turn ended with `{subtype}`"));
        let class = match subtype {
            "error_max_turns" => Some(FailureClass::TurnLimit),
            _ => error_patterns::classify_message(&message),
        };
        Some(Self { message, class })
    }

    /// Returns the failure of a run that prompts for a login.
    pub(super) fn from_missing_key(message: &str) -> Self {
        Self { message: message.to_owned(), class: Some(FailureClass::NotLoggedIn) }
    }

    fn to_failure(&self, evidence: &Evidence<'_>) -> Failure {
        let class = self.class.clone().unwrap_or(FailureClass::Crashed);
        error_patterns::build_failure(
            class,
            &shorten_text(&self.message),
            &self.message,
            evidence,
            LOGIN_HINT,
        )
    }
}

impl JudgeTurn for AmpTranslator {
    type Reported = AmpFailure;

    fn turn(&self) -> &TurnStatus<AmpFailure> {
        &self.turn
    }

    fn install_hint(&self) -> &'static str {
        INSTALL_HINT
    }

    fn judge_failed(&self, reported: &AmpFailure, evidence: &Evidence<'_>) -> Failure {
        reported.to_failure(evidence)
    }

    fn judge_unfinished(&self, evidence: &Evidence<'_>) -> Failure {
        let message = self.read_stderr(evidence);
        exit_failure::judge_missing_result(&evidence.end.ending, message, |message| {
            error_patterns::find_failure(message, evidence, LOGIN_HINT)
        })
    }
}
