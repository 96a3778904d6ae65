//! Why a call to Cline brought no answer.
//!
//! Success is a `run_result` with `completed` and no `run_aborted` after it; exit code 0 means
//! nothing, because interrupts also exit with 0. Patterns are searched only in errors.

use ralph_core::child::{Ending, Limit};
use ralph_core::failure::{Failure, FailureClass};
use serde::Deserialize;

use super::translate::{ClineTranslator, Turn};
use crate::translator::{Evidence, bounded};
use crate::{ending, error_words};
use ralph_core::plain::Plain;

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Cline (`npm install -g cline`), or set `agent.command`";

const LOGIN_HINT: &str =
    "run `cline auth` and give a provider and a key, or add credit to the account";

/// A failure as Cline reports it.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Cline's own message.
    pub(super) words: String,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    /// An error, with Cline's own class for it: `auth`, `unknown` and so on.
    Error(Option<String>),
    /// The run was stopped from outside.
    Abort,
}

impl Trouble {
    pub(super) fn new(message: String, class: Option<String>) -> Self {
        Self { words: message, cause: Cause::Error(class) }
    }

    pub(super) fn aborted(message: &str) -> Self {
        let message = format!("the run was aborted: {message}");
        Self { words: message, cause: Cause::Abort }
    }

    /// Returns the failure of a run that was not completed.
    pub(super) fn finished(
        reason: Option<&str>,
        text: Option<String>,
        error: Option<Self>,
    ) -> Self {
        let reason = reason.unwrap_or("no reason");
        if reason == "aborted" {
            return Self::aborted(text.as_deref().unwrap_or(reason));
        }
        let text = text.filter(|text| !text.trim().is_empty() && reason == "error");
        let (reported_message, cause) = match error {
            Some(error) => (Some(error.words), error.cause),
            None => (None, Cause::Error(None)),
        };
        let message =
            text.or(reported_message).unwrap_or_else(|| format!("the run ended with `{reason}`"));
        Self { words: message, cause }
    }

    fn class(&self) -> Option<FailureClass> {
        match &self.cause {
            Cause::Abort => None,
            Cause::Error(Some(class)) if class == "auth" => Some(FailureClass::NotLoggedIn),
            // Cline's class is searched like the message.
            Cause::Error(Some(class)) => {
                error_words::class_of_words(&format!("{class}: {}", self.words))
            }
            Cause::Error(None) => error_words::class_of_words(&self.words),
        }
    }

    fn failure(&self, evidence: &Evidence<'_>) -> Failure {
        let class = self.class().unwrap_or(FailureClass::Crashed);
        error_words::failure(class, &bounded(&self.words), &self.words, evidence, LOGIN_HINT)
    }
}

impl ClineTranslator {
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        match (&self.turn, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. }) => {
                ending::imposed(ending, INSTALL_HINT)
            }
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
                Some(ending::crashed(ending, &stderr_words(evidence.stderr_tail)))
            }
            (Turn::Open, Ending::TimedOut { limit, .. }) => match (limit, &self.error) {
                (Limit::Idle, Some(error)) => Some(error.failure(evidence)),
                (Limit::Idle | Limit::Hard | Limit::Output | Limit::Growth | Limit::Disk, _) => {
                    ending::imposed(ending, INSTALL_HINT)
                }
            },
            (Turn::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let message = stderr_words(evidence.stderr_tail);
                let message =
                    if message.is_empty() { "it gave no result".to_owned() } else { message };
                Some(Failure::new(FailureClass::Malformed, message))
            }
            (Turn::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                if let Some(error) = &self.error {
                    return Some(error.failure(evidence));
                }
                let message = stderr_words(evidence.stderr_tail);
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

/// An error as Cline prints it on stderr.
#[derive(Deserialize)]
struct ErrorLine {
    message: String,
}

/// Returns the message on stderr. Most of stderr is warnings of libraries with stack traces; an
/// error is a line of JSON between them.
fn stderr_words(tail: &str) -> String {
    let error = tail.lines().rev().find_map(|line| serde_json::from_str::<ErrorLine>(line).ok());
    if let Some(ErrorLine { message }) = error {
        return bounded(&message);
    }
    let mut plain = String::new();
    let mut reader = Plain::default();
    reader.feed(tail.as_bytes(), &mut plain);
    reader.finish(&mut plain);
    let lines: Vec<&str> = plain
        .lines()
        .filter(|line| !line.contains("AI SDK Warning") && !line.trim_start().starts_with("at "))
        .collect();
    ending::last_lines(&lines.join("\n"))
}
