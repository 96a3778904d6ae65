//! Why a call to Amp brought no answer.
//!
//! Success is a result with the subtype `success`, no error flag, and a matching exit. Patterns
//! are searched only in errors.

use ralph_model::child::Ending;
use ralph_model::failure::{Failure, FailureClass};

use super::translate::{AmpTranslator, AmpTurn};
use super::wire;
use crate::translator::{Evidence, shorten_text};
use crate::{error_patterns, exit_failure};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Amp (`npm install -g @sourcegraph/amp`), or set `agent.command`";

const LOGIN_HINT: &str = "set AMP_API_KEY, or run `amp login`; without credit, add some";

/// A failed result as Amp reports it.
#[derive(Debug)]
pub(super) struct AmpFailure {
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

impl AmpTranslator {
    pub(super) fn judge_end(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        let last_stderr = || exit_failure::take_last_lines(evidence.stderr_tail);
        match (&self.turn, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. })
            | (AmpTurn::Open, Ending::TimedOut { .. }) => {
                exit_failure::judge_imposed_ending(ending, INSTALL_HINT)
            }
            (AmpTurn::Failed(reported), _) => Some(reported.to_failure(evidence)),
            // The answer is complete; that the process did not exit afterwards does not void it.
            (
                AmpTurn::Succeeded,
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
            ) => {
                let is_empty = evidence.reading.is_silent();
                is_empty.then(|| Failure::new(FailureClass::Empty, "it said nothing"))
            }
            (AmpTurn::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Some(exit_failure::build_crash_failure(ending, &last_stderr()))
            }
            (AmpTurn::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let message = last_stderr();
                let message =
                    if message.is_empty() { "it gave no result".to_owned() } else { message };
                Some(Failure::new(FailureClass::Malformed, message))
            }
            (AmpTurn::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                let message = last_stderr();
                Some(match error_patterns::classify_message(&message) {
                    Some(class) => error_patterns::build_failure(
                        class, &message, &message, evidence, LOGIN_HINT,
                    ),
                    None => exit_failure::build_crash_failure(ending, &message),
                })
            }
        }
    }
}
