//! Why a call to Gemini CLI or Qwen Code brought no answer.
//!
//! Success is a result that reports it, and a matching exit; exit code 0 alone means nothing, it
//! also follows a dropped stream and TERM. Patterns are searched only in the error of a failed
//! call, never in what the agent wrote or read.

use ralph_model::child::Ending;
use ralph_model::failure::{Failure, FailureClass};
use serde::Deserialize;

use super::call::INSTALL_HINT;
use super::call_state::GeminiCallState;
use crate::error_patterns::{build_failure, classify_by_table, classify_status};
use crate::exit_failure;
use crate::translator::{Evidence, shorten_text};
use crate::turn_status::{JudgeTurn, TurnStatus};

/// What differs between the CLIs that share these exits.
#[derive(Debug)]
pub(crate) struct ExitRules {
    pub(crate) install_hint: &'static str,
    pub(crate) login_hint: &'static str,
    /// The class of an exit code.
    pub(crate) class_of_exit: fn(i32) -> Option<FailureClass>,
}

/// Rules of Gemini CLI.
pub(super) const GEMINI: ExitRules = ExitRules {
    install_hint: INSTALL_HINT,
    login_hint: "run `gemini` once and log in, or check GEMINI_API_KEY",
    class_of_exit: classify_exit,
};

fn classify_exit(code: i32) -> Option<FailureClass> {
    match code {
        41 => Some(FailureClass::NotLoggedIn),
        // No prompt, no sandbox, broken settings, an untrusted folder.
        42 | 44 | 52 | 55 => Some(FailureClass::BadCall),
        53 => Some(FailureClass::TurnLimit),
        // The exit code holds the last byte of an HTTP status. 255 has other meanings.
        144..=254 => classify_status(u16::try_from(code + 256).ok()?),
        _ => None,
    }
}

/// A failed result as the CLI reports it.
#[derive(Debug)]
pub(crate) struct GeminiFailure {
    kind: String,
    text: String,
}

/// Prefix of wrapped API errors.
const API_ERROR: &str = "[API Error: ";

/// An API error as the server sends it.
#[derive(Debug, Deserialize)]
struct GeminiApiErrorBody {
    error: GeminiApiError,
}

#[derive(Debug, Deserialize)]
struct GeminiApiError {
    #[serde(default)]
    code: Option<u16>,
    message: String,
}

impl GeminiFailure {
    /// Returns a failure of a type, with the CLI's text.
    pub(crate) fn new(kind: String, text: String) -> Self {
        Self { kind, text }
    }

    /// Returns the message without the wrapping.
    pub(super) fn message(&self) -> String {
        shorten_text(&self.api_error().map_or_else(|| self.text.clone(), |error| error.message))
    }

    fn class(&self) -> Option<FailureClass> {
        match self.kind.as_str() {
            "FatalTurnLimitedError" | "error_max_turns" => Some(FailureClass::TurnLimit),
            _ => classify_message(&self.text).or_else(|| classify_status(self.status()?)),
        }
    }

    fn api_error(&self) -> Option<GeminiApiError> {
        let (_, inner) = self.text.split_once(API_ERROR)?;
        let mut values =
            serde_json::Deserializer::from_str(inner).into_iter::<GeminiApiErrorBody>();
        Some(values.next()?.ok()?.error)
    }

    /// Returns the HTTP status, which is in the error or before its message.
    fn status(&self) -> Option<u16> {
        if let Some(error) = self.api_error() {
            return error.code;
        }
        let (_, inner) = self.text.split_once(API_ERROR)?;
        inner.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    }
}

impl ExitRules {
    /// Judges a call. Returns `None` if it brought an answer.
    pub(crate) fn judge(
        &self,
        state: &GeminiCallState,
        evidence: &Evidence<'_>,
    ) -> Option<Failure> {
        GeminiEnd { rules: self, state }.judge_turn(evidence)
    }

    fn classify_ending(&self, ending: &Ending) -> Option<FailureClass> {
        match ending {
            Ending::Exited { code } => (self.class_of_exit)(*code),
            _ => None,
        }
    }

    /// Adds the details of a class: the reset time of a limit, and hints for failures that a retry
    /// cannot fix.
    fn build_failure(
        &self,
        class: FailureClass,
        text: &str,
        message: &str,
        evidence: &Evidence<'_>,
    ) -> Failure {
        let is_untrusted = class == FailureClass::BadCall && text.contains(NOT_TRUSTED);
        let failure = build_failure(class, message, text, evidence, self.login_hint);
        if is_untrusted {
            return failure.with_hint("trust the folder, or add `--skip-trust` to `agent.flags`");
        }
        failure
    }
}

/// The end of a call.
struct GeminiEnd<'a> {
    rules: &'a ExitRules,
    state: &'a GeminiCallState,
}

impl JudgeTurn for GeminiEnd<'_> {
    type Reported = Box<GeminiFailure>;

    fn turn(&self) -> &TurnStatus<Box<GeminiFailure>> {
        &self.state.turn
    }

    fn install_hint(&self) -> &'static str {
        self.rules.install_hint
    }

    fn judge_failed(&self, reported: &Box<GeminiFailure>, evidence: &Evidence<'_>) -> Failure {
        let class = reported.class().or_else(|| self.rules.classify_ending(&evidence.end.ending));
        let class = class.unwrap_or(FailureClass::Crashed);
        self.rules.build_failure(class, &reported.text, &reported.message(), evidence)
    }

    fn judge_unfinished(&self, evidence: &Evidence<'_>) -> Failure {
        let ending = &evidence.end.ending;
        let message = match &self.state.error {
            Some(error) => shorten_text(error),
            None => self.read_stderr(evidence),
        };
        // After TERM it also exits with 0: then earlier text on stderr explains nothing.
        let is_explained = self.state.error.is_some() || !ending.is_success();
        let class = self
            .rules
            .classify_ending(ending)
            .or_else(|| classify_message(&message).filter(|_| is_explained));
        match class {
            Some(class) => self.rules.build_failure(class, &message, &message, evidence),
            None => exit_failure::judge_missing_result(ending, message, |_| None),
        }
    }

    fn judge_silence(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        find_retry_failure(evidence.stderr_tail).filter(|_| self.state.is_awaiting_model())
    }

    fn is_empty(&self, evidence: &Evidence<'_>) -> bool {
        evidence.reading.is_silent() && !self.state.has_text
    }

    fn read_stderr(&self, evidence: &Evidence<'_>) -> String {
        read_final_stderr(evidence.stderr_tail)
    }
}

const NOT_TRUSTED: &str = "not running in a trusted directory";

/// Judges silence during retries, which only stderr reports: the server causes it, not the agent.
/// The suggested delay has been tried, so it is not a reset time.
fn find_retry_failure(stderr_tail: &str) -> Option<Failure> {
    let message = exit_failure::take_last_lines(&remove_lines(stderr_tail, &NOISE));
    let (_, attempt) = message.rsplit_once("Attempt ")?;
    let is_last = attempt.ends_with("ms...") && attempt.contains("Retrying after ");
    is_last.then(|| {
        let class = classify_message(attempt).unwrap_or(FailureClass::Overloaded);
        Failure::new(class, format!("Attempt {attempt}"))
    })
}

/// Prefixes of stderr lines that say nothing about the end.
const NOISE: [&str; 8] = [
    "Warning: Basic terminal detected",
    "Warning: 256-color support",
    "Warning: running headless with --yolo",
    "YOLO mode is enabled",
    "Approval mode overridden",
    "[STARTUP]",
    "Error executing tool",
    "at ",
];

/// Prefixes of stderr lines about a retry. If the retry fails, the result reports it.
const RETRIES: [&str; 2] = ["Attempt ", "Suggested retry after"];

/// Returns the last lines of stderr that explain the end.
fn read_final_stderr(stderr_tail: &str) -> String {
    exit_failure::take_last_lines(&remove_lines(&remove_lines(stderr_tail, &NOISE), &RETRIES))
}

/// Returns a text without the lines that start with one of these prefixes.
fn remove_lines(text: &str, prefixes: &[&str]) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !prefixes.iter().any(|prefix| line.trim_start().starts_with(prefix)))
        .collect();
    lines.join("\n")
}

/// Patterns in lower case, for errors without a more specific field.
const PATTERNS: [(FailureClass, &[&str]); 7] = [
    (FailureClass::RateLimited { resets_at: None }, &["quota", "resource has been exhausted"]),
    (
        FailureClass::ContextExceeded,
        &["exceeds the maximum number of tokens", "context window", "context length"],
    ),
    (
        FailureClass::NotLoggedIn,
        &[
            "api key not valid",
            "api_key_invalid",
            "incorrect api key",
            "invalid api key",
            "unauthenticated",
            "auth method",
        ],
    ),
    (FailureClass::TurnLimit, &["max session turns"]),
    (
        FailureClass::BadCall,
        &[
            "unknown argument",
            "unknown option",
            "invalid values",
            "not enough arguments",
            "cannot use both",
            "no input provided",
            NOT_TRUSTED,
        ],
    ),
    (FailureClass::Empty, &["empty response"]),
    (
        FailureClass::Overloaded,
        &[
            "overloaded",
            "unavailable",
            "internal server error",
            "without a finish reason",
            "connection error",
            "fetch failed",
            "socket hang up",
            "econnre",
            "enotfound",
            "etimedout",
        ],
    ),
];

fn classify_message(message: &str) -> Option<FailureClass> {
    classify_by_table(&PATTERNS, message)
}
