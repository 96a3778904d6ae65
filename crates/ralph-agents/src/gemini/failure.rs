//! Why a call to Gemini CLI or Qwen Code brought no answer.
//!
//! Success is a result that says so, and an exit that agrees; exit 0 alone is nothing, it also
//! comes after a dropped stream and after TERM. Words are searched only in the error of a call
//! that failed, never in what the agent said or read.

use ralph_core::child::{Ending, Limit};
use ralph_core::failure::{Failure, FailureClass};
use serde::Deserialize;

use super::call::INSTALL_HINT;
use super::course::{Course, Turn};
use crate::translator::{Evidence, bounded};
use crate::{ending, error_words, limit_words};

/// What differs between the CLIs that end in these ways.
#[derive(Debug)]
pub(crate) struct Manners {
    /// How to get the program.
    pub(crate) install_hint: &'static str,
    /// How to log in.
    pub(crate) login_hint: &'static str,
    /// What an exit code says by itself.
    pub(crate) class_of_exit: fn(i32) -> Option<FailureClass>,
}

/// Those of Gemini CLI.
pub(super) const GEMINI: Manners = Manners {
    install_hint: INSTALL_HINT,
    login_hint: "run `gemini` once and log in, or check GEMINI_API_KEY",
    class_of_exit,
};

fn class_of_exit(code: i32) -> Option<FailureClass> {
    match code {
        41 => Some(FailureClass::NotLoggedIn),
        // No prompt, no sandbox, broken settings, a folder that is not trusted.
        42 | 44 | 52 | 55 => Some(FailureClass::BadCall),
        53 => Some(FailureClass::TurnLimit),
        // A status of HTTP, of which an exit code holds the last byte. 255 has other meanings.
        144..=254 => class_of_status(u16::try_from(code + 256).ok()?),
        _ => None,
    }
}

fn class_of_status(status: u16) -> Option<FailureClass> {
    match status {
        429 => Some(FailureClass::RateLimited { resets_at: None }),
        401..=403 => Some(FailureClass::NotLoggedIn),
        404 => Some(FailureClass::BadCall),
        413 => Some(FailureClass::ContextExceeded),
        408 | 500..=599 => Some(FailureClass::Overloaded),
        _ => None,
    }
}

/// What a failed result says about itself.
#[derive(Debug)]
pub(crate) struct Trouble {
    kind: String,
    text: String,
}

/// How API errors are wrapped.
const API_ERROR: &str = "[API Error: ";

/// An API error as the server sends it.
#[derive(Debug, Deserialize)]
struct ApiError {
    error: ApiProblem,
}

#[derive(Debug, Deserialize)]
struct ApiProblem {
    #[serde(default)]
    code: Option<u16>,
    message: String,
}

impl Trouble {
    /// Returns the trouble of a kind, told in the CLI's text.
    pub(crate) fn new(kind: String, text: String) -> Self {
        Self { kind, text }
    }

    /// Returns what happened, without the wrapping.
    pub(super) fn words(&self) -> String {
        bounded(&self.api_error().map_or_else(|| self.text.clone(), |error| error.message))
    }

    fn class(&self) -> Option<FailureClass> {
        match self.kind.as_str() {
            "FatalTurnLimitedError" | "error_max_turns" => Some(FailureClass::TurnLimit),
            _ => class_of_words(&self.text).or_else(|| class_of_status(self.status()?)),
        }
    }

    fn api_error(&self) -> Option<ApiProblem> {
        let (_, inner) = self.text.split_once(API_ERROR)?;
        let mut values = serde_json::Deserializer::from_str(inner).into_iter::<ApiError>();
        Some(values.next()?.ok()?.error)
    }

    /// Returns the status of HTTP, which stands in the error or in front of its words.
    fn status(&self) -> Option<u16> {
        if let Some(error) = self.api_error() {
            return error.code;
        }
        let (_, inner) = self.text.split_once(API_ERROR)?;
        inner.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    }
}

impl Manners {
    /// Judges a call: none if it brought an answer.
    pub(crate) fn judge(&self, course: &Course, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        match (&course.turn, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. }) => {
                ending::imposed(ending, self.install_hint)
            }
            (Turn::Failed(trouble), _) => {
                let class = trouble.class().or_else(|| self.class_of_ending(ending));
                let class = class.unwrap_or(FailureClass::Crashed);
                Some(self.finish(class, &trouble.text, trouble.words(), evidence))
            }
            // The answer had come; what kept the process is not the answer's fault.
            (
                Turn::Succeeded,
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
            ) => {
                let is_empty = evidence.reading.is_silent() && !course.has_words;
                is_empty.then(|| Failure::new(FailureClass::Empty, "it said nothing"))
            }
            (Turn::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Some(ending::crashed(ending, &told(evidence.stderr_tail)))
            }
            (Turn::Open, Ending::TimedOut { limit, .. }) => {
                let repeated = match limit {
                    Limit::Idle if course.awaits_model() => repeated(evidence.stderr_tail),
                    Limit::Idle | Limit::Hard | Limit::Output | Limit::Growth | Limit::Disk => None,
                };
                repeated.or_else(|| ending::imposed(ending, self.install_hint))
            }
            (
                Turn::Open,
                Ending::Exited { .. } | Ending::Signalled { .. } | Ending::Lingered { .. },
            ) => Some(self.unfinished(course, evidence)),
        }
    }

    /// Judges an exit without a result.
    fn unfinished(&self, course: &Course, evidence: &Evidence<'_>) -> Failure {
        let ending = &evidence.end.ending;
        let words = match &course.error {
            Some(error) => bounded(error),
            None => told(evidence.stderr_tail),
        };
        // After TERM it exits with 0 as well: then old words on stderr explain nothing.
        let is_explained = course.error.is_some() || !ending.is_success();
        let class = self
            .class_of_ending(ending)
            .or_else(|| class_of_words(&words).filter(|_| is_explained));
        match (class, ending) {
            (Some(class), _) => self.finish(class, &words, words.clone(), evidence),
            (None, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let words = if words.is_empty() { "it gave no result".to_owned() } else { words };
                Failure::new(FailureClass::Malformed, words)
            }
            (
                None,
                Ending::Exited { .. }
                | Ending::Signalled { .. }
                | Ending::TimedOut { .. }
                | Ending::Interrupted { .. }
                | Ending::NotStarted { .. },
            ) => ending::crashed(ending, &words),
        }
    }

    fn class_of_ending(&self, ending: &Ending) -> Option<FailureClass> {
        match ending {
            Ending::Exited { code } => (self.class_of_exit)(*code),
            Ending::Signalled { .. }
            | Ending::TimedOut { .. }
            | Ending::Lingered { .. }
            | Ending::Interrupted { .. }
            | Ending::NotStarted { .. } => None,
        }
    }

    /// Adds what a class needs: the reset of a limit, and how to mend what asking again cannot.
    fn finish(
        &self,
        class: FailureClass,
        text: &str,
        words: String,
        evidence: &Evidence<'_>,
    ) -> Failure {
        match class {
            FailureClass::RateLimited { .. } => {
                let resets_at = limit_words::reset_time(text, evidence.now, evidence.zone);
                Failure::new(FailureClass::RateLimited { resets_at }, words)
            }
            FailureClass::NotLoggedIn => Failure::new(class, words).with_hint(self.login_hint),
            FailureClass::BadCall if text.contains(NOT_TRUSTED) => Failure::new(class, words)
                .with_hint("trust the folder, or add `--skip-trust` to `agent.flags`"),
            FailureClass::BadCall
            | FailureClass::Crashed
            | FailureClass::Malformed
            | FailureClass::Empty
            | FailureClass::HardTimeout
            | FailureClass::Overran
            | FailureClass::IdleTimeout
            | FailureClass::TurnLimit
            | FailureClass::Overloaded
            | FailureClass::Unreachable
            | FailureClass::Blocked
            | FailureClass::NotInstalled
            | FailureClass::ContextExceeded
            | FailureClass::SchemaRefused
            | FailureClass::Interrupted => Failure::new(class, words),
        }
    }
}

const NOT_TRUSTED: &str = "not running in a trusted directory";

/// Judges silence while requests are repeated, which only stderr tells of: it is the server's,
/// not the agent's. The delay it suggests has been tried, so it is no time of reset.
fn repeated(stderr_tail: &str) -> Option<Failure> {
    let words = ending::last_lines(&without(stderr_tail, &NOISE));
    let (_, attempt) = words.rsplit_once("Attempt ")?;
    let is_last = attempt.ends_with("ms...") && attempt.contains("Retrying after ");
    is_last.then(|| {
        let class = class_of_words(attempt).unwrap_or(FailureClass::Overloaded);
        Failure::new(class, format!("Attempt {attempt}"))
    })
}

/// Openings of lines on stderr that say nothing about an end.
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

/// Openings of lines about a request that is repeated. If that fails for good, the result says so.
const RETRIES: [&str; 2] = ["Attempt ", "Suggested retry after"];

/// Returns the last lines of stderr that tell of an end.
fn told(stderr_tail: &str) -> String {
    ending::last_lines(&without(&without(stderr_tail, &NOISE), &RETRIES))
}

/// Returns a text without the lines that open in one of these ways.
fn without(text: &str, openings: &[&str]) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !openings.iter().any(|opening| line.trim_start().starts_with(opening)))
        .collect();
    lines.join("\n")
}

/// Error texts, in lower case, where no field says more.
const WORDS: [(FailureClass, &[&str]); 7] = [
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

fn class_of_words(words: &str) -> Option<FailureClass> {
    error_words::class_in(&WORDS, words)
}
