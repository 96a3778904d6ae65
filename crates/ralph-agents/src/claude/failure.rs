//! Why a call to Claude Code brought no answer.
//!
//! Success is a result line without an error flag, with the terminal reason `completed`, and a
//! matching exit; neither the subtype nor the exit code is enough. Patterns are searched only in
//! the error text of a failed call, never in what the agent wrote or read.

use std::fmt;

use ralph_model::agent_output::RateLimitStatus;
use ralph_model::failure::{Failure, FailureClass};

use super::translate::ClaudeTranslator;
use super::wire;
use crate::text::TextTranslator;
use crate::translator::{Evidence, ParsedLine, Translate};
use crate::turn_status::{JudgeTurn, TurnStatus};
use crate::{error_patterns, exit_failure, rate_limit_text};

/// Hint on how to install the program.
pub(crate) const INSTALL_HINT: &str =
    "install Claude Code (`npm install -g @anthropic-ai/claude-code`), or set `agent.command`";

/// A failed result as Claude Code reports it.
#[derive(Debug)]
pub(crate) struct ClaudeFailure {
    /// The CLI's own message.
    pub(super) message: String,
    reason: String,
    api: ClaudeApiError,
}

/// The fields of an API error.
#[derive(Debug, Default)]
struct ClaudeApiError {
    status: Option<u16>,
    /// `usage_limit_reached`, `max_output_tokens`.
    kind: Option<String>,
    /// `rate_limit`, `overloaded`, `authentication_failed` and so on.
    error_code: Option<String>,
}

/// Reason for a turn that never began. The CLI reports it as a success.
const NEVER_BEGAN: &str = "never_began";

impl ClaudeFailure {
    /// Returns the failure of a result, or `None` if it is a success.
    pub(super) fn from_result(line: &wire::ResultLine, word: Option<String>) -> Option<Self> {
        let subtype = line.subtype.as_deref().unwrap_or_default();
        let is_error = line.is_error.unwrap_or(subtype != "success");
        let reason = match line.terminal_reason.as_deref() {
            Some(reason) => reason,
            None if line.num_turns == Some(0) => NEVER_BEGAN,
            None if subtype == "success" => "completed",
            None => subtype,
        };
        if !is_error && reason == "completed" {
            return None;
        }
        let errors = || line.errors.as_ref().map(|errors| errors.join("; "));
        let message = match (subtype, line.result.clone().or_else(errors)) {
            ("error_during_execution", Some(detail)) => format!("{reason}: {detail}"),
            (_, Some(message)) if !message.trim().is_empty() => message,
            (_, Some(_) | None) => format!("the turn ended with `{reason}`"),
        };
        let api = ClaudeApiError {
            status: line.api_error_status,
            kind: line.api_error.clone(),
            error_code: word,
        };
        Some(Self { message, reason: reason.to_owned(), api })
    }

    fn to_failure(&self, evidence: &Evidence<'_>) -> Failure {
        let class = match self.reason.as_str() {
            "max_turns" | "error_max_turns" | "budget_exhausted" | "error_max_budget_usd" => {
                FailureClass::TurnLimit
            }
            // A user's hook ended the turn: another call would end the same way.
            "hook_stopped" | "stop_hook_prevented" | "tool_deferred" => FailureClass::TurnLimit,
            "structured_output_retry_exhausted" | "error_max_structured_output_retries" => {
                FailureClass::Malformed
            }
            "prompt_too_long" | "blocking_limit" | "rapid_refill_breaker" | "image_error" => {
                FailureClass::ContextExceeded
            }
            "aborted_streaming" | "aborted_tools" | "error_during_execution" => {
                FailureClass::Crashed
            }
            NEVER_BEGAN => {
                return Failure::new(FailureClass::BadCall, &self.message)
                    .with_hint("a hook of your Claude settings refused the prompt");
            }
            _ => self
                .api
                .class()
                .or_else(|| classify_message(&self.message))
                .unwrap_or(FailureClass::Crashed),
        };
        build_failure(class, &self.message, evidence)
    }
}

impl ClaudeApiError {
    fn class(&self) -> Option<FailureClass> {
        let kind = self.kind.as_deref().unwrap_or_default();
        let word = self.error_code.as_deref().unwrap_or_default();
        match (kind, word, self.status) {
            ("usage_limit_reached", ..) | (_, "rate_limit", _) | (.., Some(429)) => {
                Some(FailureClass::RateLimited { resets_at: None })
            }
            ("max_output_tokens", ..) | (_, "max_output_tokens", _) => {
                Some(FailureClass::TurnLimit)
            }
            (
                _,
                "authentication_failed"
                | "oauth_org_not_allowed"
                | "account_on_hold"
                | "verification_required"
                | "billing_error"
                | "cloud_credential_error",
                _,
            )
            | (.., Some(401..=403)) => Some(FailureClass::NotLoggedIn),
            (_, "model_not_found", _) | (.., Some(404)) => Some(FailureClass::BadCall),
            (.., Some(413)) => Some(FailureClass::ContextExceeded),
            (_, "overloaded" | "server_error", _) | (.., Some(408 | 500..=599)) => {
                Some(FailureClass::Overloaded)
            }
            // 400 and errors without a status are classified by their text.
            _ => None,
        }
    }
}

/// A request that the CLI retries.
#[derive(Debug)]
pub(super) struct ApiRetry {
    attempt: Option<u32>,
    max_attempts: Option<u32>,
    api: ClaudeApiError,
}

impl ApiRetry {
    pub(super) fn from_line(line: &wire::System) -> Self {
        Self {
            attempt: line.attempt,
            max_attempts: line.max_retries,
            api: ClaudeApiError {
                status: line.error_status,
                kind: None,
                error_code: line.error.clone(),
            },
        }
    }
}

impl fmt::Display for ApiRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("API error")?;
        if let Some(status) = self.api.status {
            write!(f, " {status}")?;
        }
        if let Some(word) = self.api.error_code.as_deref().filter(|word| *word != "unknown") {
            write!(f, " ({word})")?;
        }
        match (self.attempt, self.max_attempts) {
            (Some(attempt), Some(of)) => write!(f, ", retry {attempt} of {of}"),
            (Some(_) | None, _) => f.write_str(", retrying"),
        }
    }
}

impl JudgeTurn for ClaudeTranslator {
    type Reported = Box<ClaudeFailure>;

    fn turn(&self) -> &TurnStatus<Box<ClaudeFailure>> {
        &self.turn
    }

    fn install_hint(&self) -> &'static str {
        INSTALL_HINT
    }

    fn judge_failed(&self, reported: &Box<ClaudeFailure>, evidence: &Evidence<'_>) -> Failure {
        reported.to_failure(evidence)
    }

    /// Bad flags and files are reported on stderr only.
    fn judge_unfinished(&self, evidence: &Evidence<'_>) -> Failure {
        let message = self.read_stderr(evidence);
        exit_failure::judge_missing_result(&evidence.end.ending, message, |message| {
            Some(judge_message(message, evidence))
        })
    }

    fn judge_silence(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let retrying = self.retrying.as_ref()?;
        let class = retrying.api.class().unwrap_or(FailureClass::Overloaded);
        Some(build_failure(class, &retrying.to_string(), evidence))
    }

    fn is_empty(&self, evidence: &Evidence<'_>) -> bool {
        evidence.reading.is_silent() && !self.has_text
    }
}

/// Judges an exit by its error text.
fn judge_message(message: &str, evidence: &Evidence<'_>) -> Failure {
    match classify_message(message) {
        Some(class) => build_failure(class, message, evidence),
        None => exit_failure::build_crash_failure(&evidence.end.ending, message),
    }
}

/// Reads plain text, where errors are on stdout like the answer.
#[derive(Debug)]
pub(super) struct ClaudeTextTranslator(pub(super) TextTranslator);

impl Translate for ClaudeTextTranslator {
    fn push_long_line(&mut self, start: &str, bytes: u64) -> ParsedLine {
        self.0.push_long_line(start, bytes)
    }

    fn push_line(&mut self, line: &str) -> ParsedLine {
        self.0.push_line(line)
    }

    fn finish(&mut self) -> ParsedLine {
        self.0.finish()
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let ending = &evidence.end.ending;
        if let Some(failure) = exit_failure::judge_imposed_ending(ending, INSTALL_HINT) {
            return Some(failure);
        }
        let answer = evidence.reading.text();
        if !ending.is_success() {
            let message =
                exit_failure::read_final_output(evidence.stderr_tail, evidence.stdout_tail);
            return Some(judge_message(&message, evidence));
        }
        // An interrupt by another process exits with 0.
        if answer.trim() == "Execution error" {
            return Some(Failure::new(FailureClass::Crashed, answer.trim()));
        }
        self.0.judge(evidence)
    }
}

/// Adds the details of a class: the reset time of a limit, and hints for failures that a retry
/// cannot fix.
fn build_failure(class: FailureClass, message: &str, evidence: &Evidence<'_>) -> Failure {
    if class == FailureClass::NotLoggedIn {
        return Failure::new(class, message).with_hint(choose_login_hint(message));
    }
    if let FailureClass::RateLimited { .. } = class {
        let from_event = match evidence.reading.rate_limit() {
            Some((RateLimitStatus::Rejected, resets_at)) => resets_at,
            Some((RateLimitStatus::Allowed | RateLimitStatus::Warning, _)) | None => None,
        };
        let from_text = || rate_limit_text::parse_reset_time(message, evidence.now, evidence.zone);
        let resets_at = from_event.or_else(from_text);
        return Failure::new(FailureClass::RateLimited { resets_at }, message);
    }
    // Claude reports a refused connection as `server_error`, too.
    let is_unreachable = || classify_message(message) == Some(FailureClass::Unreachable);
    if class == FailureClass::Overloaded && is_unreachable() {
        return Failure::new(FailureClass::Unreachable, message);
    }
    Failure::new(class, message)
}

fn choose_login_hint(message: &str) -> &'static str {
    let message = message.to_lowercase();
    if message.contains("credit") || message.contains("billing") {
        "add credit to the account, or log in with a subscription"
    } else if message.contains("api key") {
        "check ANTHROPIC_API_KEY, or unset it and run `claude` once to log in"
    } else {
        "run `claude` once and log in, or check ANTHROPIC_API_KEY"
    }
}

/// Patterns in lower case, for errors without a more specific field.
const PATTERNS: [(FailureClass, &[&str]); 7] = [
    (
        FailureClass::ContextExceeded,
        &["prompt is too long", "context window", "exceed context limit", "request too large"],
    ),
    (
        FailureClass::NotLoggedIn,
        &[
            "credit balance",
            "invalid api key",
            "/login",
            "not logged in",
            "authentication_error",
            "oauth token",
            "failed to authenticate",
        ],
    ),
    (FailureClass::TurnLimit, &["maximum number of turns", "max turns", "maximum budget"]),
    (
        FailureClass::BadCall,
        &[
            "unknown option",
            "unknown command",
            "argument missing",
            "is invalid",
            "root/sudo privileges",
            "not valid json",
            "requires --verbose",
            "issue with the selected model",
            "invalid mcp configuration",
            "mcp config",
            "already in use",
            "no conversation found",
            "input must be provided",
            "settings file not found",
        ],
    ),
    (
        FailureClass::Overloaded,
        &[
            "overloaded",
            "internal server error",
            "api error: 5",
            "connection reset",
            "econnreset",
            "timed out",
        ],
    ),
    (FailureClass::Unreachable, &error_patterns::UNREACHABLE),
    (FailureClass::Unreachable, &["network"]),
];

fn classify_message(message: &str) -> Option<FailureClass> {
    error_patterns::classify_by_table(&PATTERNS, message)
}
