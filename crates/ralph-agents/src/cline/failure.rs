//! Why a call to Cline brought no answer.
//!
//! Success is a `run_result` that says `completed`, with no `run_aborted` behind it; an exit with
//! 0 means nothing, because interrupts end with it as well. Words are searched only in errors.

use ralph_core::child::{Ending, Limit};
use ralph_core::failure::{Failure, FailureClass};
use serde::Deserialize;

use super::translate::{ClineTranslator, Turn};
use crate::translator::{Evidence, bounded};
use crate::{ending, error_words};
use ralph_core::plain::Plain;

/// How to get the program.
pub(crate) const INSTALL_HINT: &str =
    "install Cline (`npm install -g cline`), or set `agent.command`";

const LOGIN_HINT: &str =
    "run `cline auth` and give a provider and a key, or add credit to the account";

/// What Cline says about a failure.
#[derive(Debug)]
pub(super) struct Trouble {
    /// What happened, in Cline's own words.
    pub(super) words: String,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    /// An error, with Cline's own class for it: `auth`, `unknown` and so on.
    Error(Option<String>),
    /// Somebody ended the run.
    Abort,
}

impl Trouble {
    pub(super) fn new(words: String, class: Option<String>) -> Self {
        Self { words, cause: Cause::Error(class) }
    }

    pub(super) fn aborted(words: &str) -> Self {
        let words = format!("the run was aborted: {words}");
        Self { words, cause: Cause::Abort }
    }

    /// Returns what is wrong with a run that was not completed.
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
        let (told, cause) = match error {
            Some(error) => (Some(error.words), error.cause),
            None => (None, Cause::Error(None)),
        };
        let words = text.or(told).unwrap_or_else(|| format!("the run ended with `{reason}`"));
        Self { words, cause }
    }

    fn class(&self) -> Option<FailureClass> {
        match &self.cause {
            Cause::Abort => None,
            Cause::Error(Some(class)) if class == "auth" => Some(FailureClass::NotLoggedIn),
            // The class is a word like the others.
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
                Some(ending::crashed(ending, &stderr_words(evidence.stderr_tail)))
            }
            (Turn::Open, Ending::TimedOut { limit, .. }) => match (limit, &self.error) {
                (Limit::Idle, Some(error)) => Some(error.failure(evidence)),
                (Limit::Idle | Limit::Hard | Limit::Output | Limit::Growth | Limit::Disk, _) => {
                    ending::imposed(ending, INSTALL_HINT)
                }
            },
            (Turn::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let words = stderr_words(evidence.stderr_tail);
                let words = if words.is_empty() { "it gave no result".to_owned() } else { words };
                Some(Failure::new(FailureClass::Malformed, words))
            }
            (Turn::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                if let Some(error) = &self.error {
                    return Some(error.failure(evidence));
                }
                let words = stderr_words(evidence.stderr_tail);
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

/// An error as it stands on stderr.
#[derive(Deserialize)]
struct ErrorLine {
    message: String,
}

/// Returns what stderr says. It is full of warnings of the libraries inside, with their stacks;
/// an error is a line of JSON among them.
fn stderr_words(tail: &str) -> String {
    let told = tail.lines().rev().find_map(|line| serde_json::from_str::<ErrorLine>(line).ok());
    if let Some(ErrorLine { message }) = told {
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
