//! Why a call to Codex brought no answer.
//!
//! Success is a completed turn and a matching exit. Patterns are searched only in the message of a
//! failed turn and, if no turn ended, in the end of stderr; never in what the agent wrote or read.

use ralph_model::child::Ending;
use ralph_model::failure::{Failure, FailureClass};

use super::translate::CodexTranslator;
use crate::translator::{Evidence, shorten_text};
use crate::turn_status::{JudgeTurn, TurnStatus};
use crate::{exit_failure, rate_limit_text};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Codex (`npm install -g @openai/codex`), or set `agent.command`";

/// The exit code of a usage error.
pub(super) const USAGE: i32 = 2;

impl JudgeTurn for CodexTranslator {
    type Reported = String;

    fn turn(&self) -> &TurnStatus<String> {
        &self.turn
    }

    fn install_hint(&self) -> &'static str {
        INSTALL_HINT
    }

    fn judge_failed(&self, reported: &String, evidence: &Evidence<'_>) -> Failure {
        let class = classify_error(reported, evidence).unwrap_or(FailureClass::Crashed);
        build_failure(class, reported)
    }

    fn judge_unfinished(&self, evidence: &Evidence<'_>) -> Failure {
        let ending = &evidence.end.ending;
        if *ending == (Ending::Exited { code: USAGE }) {
            let message = self.read_stderr(evidence);
            let message = if message.is_empty() { ending.to_string() } else { message };
            return build_failure(FailureClass::BadCall, &message);
        }
        let message = self.read_error_text(evidence);
        match ending {
            Ending::Exited { code: 0 } | Ending::Lingered { .. } => {
                let message =
                    if message.is_empty() { "its turn did not end".to_owned() } else { message };
                Failure::new(FailureClass::Malformed, message)
            }
            Ending::Exited { .. } => match classify_error(&message, evidence) {
                Some(class) => build_failure(class, &message),
                None => exit_failure::build_crash_failure(ending, &message),
            },
            _ => exit_failure::build_crash_failure(ending, &message),
        }
    }

    /// Silence during a reconnect is caused by the network or the server.
    fn judge_silence(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let message = self.error.as_ref()?;
        let class = classify_error(message, evidence).unwrap_or(FailureClass::Overloaded);
        Some(build_failure(class, message))
    }
}

impl CodexTranslator {
    /// Returns the error that no progress has followed, else the end of stderr.
    fn read_error_text(&self, evidence: &Evidence<'_>) -> String {
        let on_stderr = || exit_failure::take_last_lines(evidence.stderr_tail);
        self.error.as_deref().map_or_else(on_stderr, shorten_text)
    }
}

/// Returns the class of an error text.
pub(super) fn classify_error(message: &str, evidence: &Evidence<'_>) -> Option<FailureClass> {
    let limited = || FailureClass::RateLimited {
        resets_at: rate_limit_text::parse_reset_time(message, evidence.now, evidence.zone),
    };
    let lower = message.to_lowercase();
    // Checked before the status, which is that of any bad request.
    if SCHEMA_REFUSALS.iter().any(|known| lower.contains(known)) {
        return Some(FailureClass::SchemaRefused);
    }
    match parse_status(&lower) {
        Some(401..=403) => return Some(FailureClass::NotLoggedIn),
        Some(404) => return Some(FailureClass::BadCall),
        Some(413) => return Some(FailureClass::ContextExceeded),
        Some(429) => return Some(limited()),
        Some(408 | 500..=599) => return Some(FailureClass::Overloaded),
        Some(_) | None => {}
    }
    let known = |class: &FailureClass, known: &[&str]| {
        known.iter().any(|known| lower.contains(known)).then(|| class.clone())
    };
    let first = BEFORE_LIMITS.iter().find_map(|(class, patterns)| known(class, patterns));
    first
        .or_else(|| rate_limit_text::is_rate_limit_text(message).then(limited))
        .or_else(|| AFTER_LIMITS.iter().find_map(|(class, patterns)| known(class, patterns)))
}

/// Reads the status of an HTTP error: `unexpected status 401 Unauthorized`, `last status: 429`.
fn parse_status(lower: &str) -> Option<u16> {
    ["unexpected status ", "last status: "].iter().find_map(|lead| {
        let (_, rest) = lower.split_once(lead)?;
        rest.get(..3)?.parse().ok()
    })
}

/// Patterns of the API's refusal of a schema, in lower case: its code, and its message.
const SCHEMA_REFUSALS: [&str; 2] = ["invalid_json_schema", "invalid schema for response_format"];

/// Patterns in lower case that look like a limit but are not: waiting does not help an account
/// without credit.
const BEFORE_LIMITS: [(FailureClass, &[&str]); 3] = [
    (FailureClass::ContextExceeded, &["context window", "context_length_exceeded"]),
    (FailureClass::TurnLimit, &["reason: max_output_tokens"]),
    (
        FailureClass::NotLoggedIn,
        &[
            "quota exceeded. check your plan",
            "out of credits",
            "spend cap",
            "to use codex with your chatgpt plan",
        ],
    ),
];

/// The other patterns, in lower case.
const AFTER_LIMITS: [(FailureClass, &[&str]); 4] = [
    (FailureClass::NotLoggedIn, &["not logged in", "access token could not be refreshed"]),
    (
        FailureClass::BadCall,
        &[
            "not inside a trusted directory",
            "no prompt provided",
            "unexpected argument",
            "invalid value",
            "error loading config",
            "unknown feature flag",
            "does not exist or you do not have access",
            "model is not supported",
        ],
    ),
    // Before the next: a stream that cannot be opened is called disconnected, too.
    (FailureClass::Unreachable, &["connection failed", "error sending request"]),
    (
        FailureClass::Overloaded,
        &["at capacity", "high demand", "overloaded", "stream disconnected", "reconnecting"],
    ),
];

/// Builds a failure with a hint, if a retry cannot fix it.
pub(super) fn build_failure(class: FailureClass, message: &str) -> Failure {
    let lower = message.to_lowercase();
    let has = |known: &str| lower.contains(known);
    let hint = match class {
        FailureClass::NotLoggedIn if has("quota") || has("credits") || has("spend cap") => {
            Some("add credit to the account or raise its cap, or log in with another one")
        }
        FailureClass::NotLoggedIn if has("chatgpt plan") => {
            Some("this plan has no Codex: upgrade it, or log in with an API key")
        }
        FailureClass::NotLoggedIn => {
            Some("run `codex login`, or check the key that Codex is set up with")
        }
        FailureClass::BadCall if has("trusted directory") => {
            Some("run `git init`, or add `--skip-git-repo-check` to `agent.flags`")
        }
        FailureClass::BadCall if has("--full-auto") => {
            Some("Codex has no `--full-auto` any more: use `-s workspace-write`")
        }
        FailureClass::BadCall if has("model") => Some("check `agent.model`"),
        _ => None,
    };
    let failure = Failure::new(class, shorten_text(message));
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
