//! Why a call to Amp brought no answer.
//!
//! Success is a result with the subtype `success`, no error flag, and a matching exit. Patterns
//! are searched only in errors.

use ralph_core::child::Ending;
use ralph_core::failure::{Failure, FailureClass};

use super::translate::{AmpTranslator, Turn};
use super::wire;
use crate::translator::{Evidence, bounded};
use crate::{ending, error_words};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Amp (`npm install -g @sourcegraph/amp`), or set `agent.command`";

const LOGIN_HINT: &str = "set AMP_API_KEY, or run `amp login`; without credit, add some";

/// A failed result as Amp reports it.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Amp's own message.
    pub(super) words: String,
    class: Option<FailureClass>,
}

impl Trouble {
    /// Returns the failure of a result, or `None` if it is a success.
    pub(super) fn of(line: &wire::ResultLine) -> Option<Self> {
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
            _ => error_words::class_of_words(&message),
        };
        Some(Self { words: message, class })
    }

    /// Returns the failure of a run that prompts for a login.
    pub(super) fn no_key(message: &str) -> Self {
        Self { words: message.to_owned(), class: Some(FailureClass::NotLoggedIn) }
    }

    fn failure(&self, evidence: &Evidence<'_>) -> Failure {
        let class = self.class.clone().unwrap_or(FailureClass::Crashed);
        error_words::failure(class, &bounded(&self.words), &self.words, evidence, LOGIN_HINT)
    }
}

impl AmpTranslator {
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        let last_stderr = || ending::last_lines(evidence.stderr_tail);
        match (&self.turn, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. })
            | (Turn::Open, Ending::TimedOut { .. }) => ending::imposed(ending, INSTALL_HINT),
            (Turn::Failed(reported), _) => Some(reported.failure(evidence)),
            // The answer is complete; that the process did not exit afterwards does not void it.
            (
                Turn::Succeeded,
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
            ) => {
                let is_empty = evidence.reading.is_silent();
                is_empty.then(|| Failure::new(FailureClass::Empty, "it said nothing"))
            }
            (Turn::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Some(ending::crashed(ending, &last_stderr()))
            }
            (Turn::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let message = last_stderr();
                let message =
                    if message.is_empty() { "it gave no result".to_owned() } else { message };
                Some(Failure::new(FailureClass::Malformed, message))
            }
            (Turn::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                let message = last_stderr();
                Some(match error_words::class_of_words(&message) {
                    Some(class) => {
                        error_words::failure(class, &message, &message, evidence, LOGIN_HINT)
                    }
                    None => ending::crashed(ending, &message),
                })
            }
        }
    }
}
