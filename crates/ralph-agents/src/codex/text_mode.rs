//! Codex in text mode: the answer is in a file that Codex writes only when the turn is complete,
//! so the file itself means success.
//!
//! Not here: reading the file, which the caller does.

use ralph_core::child::Ending;
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::reading::{AgentEvent, ResultStatus, Speaker, TextForm};

use super::failure::{INSTALL_HINT, USAGE, class_of, with_hint};
use crate::ending;
use crate::translator::{Evidence, Heard, Weight};

/// Translates one call.
#[derive(Debug, Default)]
pub(crate) struct CodexText {
    is_answered: bool,
}

impl CodexText {
    /// Reads a line of stdout. It repeats the answer, which counts only from its file.
    #[expect(clippy::unused_self, reason = "all translators are called alike")]
    pub(crate) fn line(&self, line: &str) -> Heard {
        let weight = if line.trim().is_empty() { Weight::Noise } else { Weight::Useful };
        Heard::nothing(weight)
    }

    /// Reads the content of the answer file.
    pub(crate) fn answer(&mut self, text: String) -> Heard {
        self.is_answered = true;
        Heard::of(vec![
            AgentEvent::Text { text, speaker: Speaker::Agent, form: TextForm::Message },
            AgentEvent::Result { status: ResultStatus::Success, text: None, structured: None },
        ])
    }

    /// Judges the call.
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        let errors = errors_in(evidence.stderr_tail);
        match (ending, self.is_answered) {
            (Ending::Interrupted { .. } | Ending::NotStarted { .. }, _)
            | (Ending::TimedOut { .. }, false) => ending::imposed(ending, INSTALL_HINT),
            (
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
                true,
            ) => evidence
                .reading
                .is_silent()
                .then(|| Failure::new(FailureClass::Empty, "it said nothing")),
            (Ending::Exited { code: 0 } | Ending::Lingered { .. }, false) => {
                let message =
                    if errors.is_empty() { "it left no answer".to_owned() } else { errors };
                Some(Failure::new(FailureClass::Malformed, message))
            }
            (Ending::Exited { code: USAGE }, false) => {
                let message = ending::last_lines(evidence.stderr_tail);
                let message = if message.is_empty() { ending.to_string() } else { message };
                Some(with_hint(FailureClass::BadCall, &message))
            }
            (Ending::Exited { .. }, false) => Some(match class_of(&errors, evidence) {
                Some(class) => with_hint(class, &errors),
                None => ending::crashed(ending, &ending::last_lines(evidence.stderr_tail)),
            }),
            (Ending::Exited { .. }, true) | (Ending::Signalled { .. }, _) => {
                Some(ending::crashed(ending, &ending::last_lines(evidence.stderr_tail)))
            }
        }
    }
}

/// Returns the errors among the last lines of stderr. Stderr also repeats the whole work: text
/// that the agent read there is not an error.
fn errors_in(stderr: &str) -> String {
    let is_error = |line: &&str| {
        let lower = line.trim_start().to_ascii_lowercase();
        lower.starts_with("error") || lower.starts_with("not inside a trusted")
    };
    ending::last_lines(stderr).lines().filter(is_error).collect::<Vec<_>>().join("\n")
}
