//! Codex in text mode: the answer is in a file that Codex writes only when the turn is complete,
//! so the file itself means success.
//!
//! Not here: reading the file, which the caller does.

use ralph_model::agent_output::{AgentEvent, ResultStatus, Speaker, TextForm};
use ralph_model::child::Ending;
use ralph_model::failure::{Failure, FailureClass};

use super::failure::{INSTALL_HINT, USAGE, build_failure, classify_error};
use crate::exit_failure;
use crate::translator::{Evidence, LineActivity, ParsedLine, Translate};

/// Translates one call.
#[derive(Debug, Default)]
pub(crate) struct CodexTextTranslator {
    is_answered: bool,
}

impl Translate for CodexTextTranslator {
    /// Reads a line of stdout. It repeats the answer, which counts only from its file.
    fn push_line(&mut self, line: &str) -> ParsedLine {
        let weight =
            if line.trim().is_empty() { LineActivity::Idle } else { LineActivity::Progress };
        ParsedLine::from_activity(weight)
    }

    fn push_answer_file(&mut self, text: String) -> ParsedLine {
        self.is_answered = true;
        ParsedLine::from_events(vec![
            AgentEvent::Text { text, speaker: Speaker::Agent, form: TextForm::Message },
            AgentEvent::Result { status: ResultStatus::Success, text: None, structured: None },
        ])
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        let errors = extract_errors(evidence.stderr_tail);
        match (ending, self.is_answered) {
            (Ending::Interrupted { .. } | Ending::NotStarted { .. }, _)
            | (Ending::TimedOut { .. }, false) => {
                exit_failure::judge_imposed_ending(ending, INSTALL_HINT)
            }
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
                let message = exit_failure::take_last_lines(evidence.stderr_tail);
                let message = if message.is_empty() { ending.to_string() } else { message };
                Some(build_failure(FailureClass::BadCall, &message))
            }
            (Ending::Exited { .. }, false) => Some(match classify_error(&errors, evidence) {
                Some(class) => build_failure(class, &errors),
                None => exit_failure::build_crash_failure(
                    ending,
                    &exit_failure::take_last_lines(evidence.stderr_tail),
                ),
            }),
            (Ending::Exited { .. }, true) | (Ending::Signalled { .. }, _) => {
                Some(exit_failure::build_crash_failure(
                    ending,
                    &exit_failure::take_last_lines(evidence.stderr_tail),
                ))
            }
        }
    }
}

/// Returns the errors among the last lines of stderr. Stderr also repeats the whole work: text
/// that the agent read there is not an error.
fn extract_errors(stderr: &str) -> String {
    let is_error = |line: &&str| {
        let lower = line.trim_start().to_ascii_lowercase();
        lower.starts_with("error") || lower.starts_with("not inside a trusted")
    };
    exit_failure::take_last_lines(stderr).lines().filter(is_error).collect::<Vec<_>>().join("\n")
}
