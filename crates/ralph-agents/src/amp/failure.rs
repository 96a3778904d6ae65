//! Why a call to Amp brought no answer.
//!
//! Success is a result with the subtype `success`, no error flag, and an exit that agrees. Words
//! are searched only in errors.

use ralph_core::child::Ending;
use ralph_core::failure::{Failure, FailureClass};

use super::translate::{AmpTranslator, Turn};
use super::wire;
use crate::translator::{Evidence, bounded};
use crate::{ending, error_words};

/// How to get the program.
pub(crate) const INSTALL_HINT: &str =
    "install Amp (`npm install -g @sourcegraph/amp`), or set `agent.command`";

const LOGIN_HINT: &str = "set AMP_API_KEY, or run `amp login`; without credit, add some";

/// What a failed result says about itself.
#[derive(Debug)]
pub(super) struct Trouble {
    /// What happened, in Amp's own words.
    pub(super) words: String,
    class: Option<FailureClass>,
}

impl Trouble {
    /// Returns what is wrong with a result; none if it is a success.
    pub(super) fn of(line: &wire::ResultLine) -> Option<Self> {
        let subtype = line.subtype.as_deref().unwrap_or("no subtype");
        if subtype == "success" && line.is_error != Some(true) {
            return None;
        }
        let words = line
            .error
            .clone()
            .filter(|words| !words.trim().is_empty())
            .unwrap_or_else(|| format!("the turn ended with `{subtype}`"));
        let class = match subtype {
            "error_max_turns" => Some(FailureClass::TurnLimit),
            _ => error_words::class_of_words(&words),
        };
        Some(Self { words, class })
    }

    /// Returns the trouble of a run that asks for a login.
    pub(super) fn no_key(words: &str) -> Self {
        Self { words: words.to_owned(), class: Some(FailureClass::NotLoggedIn) }
    }

    fn failure(&self, evidence: &Evidence<'_>) -> Failure {
        let class = self.class.clone().unwrap_or(FailureClass::Crashed);
        error_words::failure(class, &bounded(&self.words), &self.words, evidence, LOGIN_HINT)
    }
}

impl AmpTranslator {
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        let words = || ending::last_lines(evidence.stderr_tail);
        match (&self.turn, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. })
            | (Turn::Open, Ending::TimedOut { .. }) => ending::imposed(ending, INSTALL_HINT),
            (Turn::Failed(trouble), _) => Some(trouble.failure(evidence)),
            // The answer had come; what kept the process is not the answer's fault.
            (
                Turn::Succeeded,
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
            ) => {
                let is_empty = evidence.reading.is_silent();
                is_empty.then(|| Failure::new(FailureClass::Empty, "it said nothing"))
            }
            (Turn::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Some(ending::crashed(ending, &words()))
            }
            (Turn::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let words = words();
                let words = if words.is_empty() { "it gave no result".to_owned() } else { words };
                Some(Failure::new(FailureClass::Malformed, words))
            }
            (Turn::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                let words = words();
                Some(match error_words::class_of_words(&words) {
                    Some(class) => {
                        error_words::failure(class, &words, &words, evidence, LOGIN_HINT)
                    }
                    None => ending::crashed(ending, &words),
                })
            }
        }
    }
}
