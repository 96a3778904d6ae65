//! Why a conversation brought no answer.
//!
//! The reply to the prompt decides; after it the exit code means nothing, as some agents do not
//! exit when their stdin ends. Not here: what the text of an error means, see `turn_status`.

use ralph_model::child::Ending;
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::text::shorten_to_line;
use serde_json::value::RawValue;

use super::conversation::{AcpPhase, AcpTranslator};
use super::messages::{AcpRequest, VERSION};
use super::wire;
use crate::json_events::GLANCE_CHARS;
use crate::lenient_json::Text;
use crate::translator::{Evidence, shorten_text};
use crate::turn_status::{FailureHints, ReportedFailure, TurnStatus};

/// At most this many ways to log in are listed.
const MOST_LOGINS: usize = 6;

/// Error code of a request that needs a login first.
const LOGIN_REQUIRED: i64 = -32_000;

/// Empty hints; `add_hint` fills in the command.
const HINTS: FailureHints = FailureHints { install: "", login: "", silence: None };

impl AcpTranslator {
    pub(super) fn judge_end(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let failure = match (&self.turn, &evidence.end.ending) {
            (TurnStatus::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => evidence
                .reading
                .is_silent()
                .then(|| Failure::new(FailureClass::Empty, "it said nothing")),
            _ => self.turn.judge(None, &HINTS, evidence),
        };
        failure.map(|failure| self.add_hint(failure))
    }

    fn add_hint(&self, failure: Failure) -> Failure {
        let command = &self.command;
        let has_no_answer = self.phase == AcpPhase::Waiting(AcpRequest::Greeting);
        let hint = match failure.class {
            FailureClass::NotInstalled => {
                Some(format!("install `{command}`, or set `agent.command`"))
            }
            FailureClass::NotLoggedIn if self.logins.is_empty() => {
                Some(format!("log in with `{command}`, or check its key"))
            }
            FailureClass::NotLoggedIn => {
                Some(format!("log in with `{command}` first: {}", self.logins.join("; ")))
            }
            FailureClass::Crashed
            | FailureClass::Malformed
            | FailureClass::Empty
            | FailureClass::HardTimeout
            | FailureClass::Overran
            | FailureClass::IdleTimeout
            | FailureClass::BadCall
                if has_no_answer =>
            {
                Some(format!(
                    "`{command}` did not answer in the Agent Client Protocol; `agent.flags` may lack the flag for it, such as `--acp`"
                ))
            }
            _ => failure.hint.clone(),
        };
        Failure { hint, ..failure }
    }
}

/// Formats the ways to log in, for people.
pub(super) fn format_logins(methods: Vec<wire::AuthMethod>) -> Vec<String> {
    let login = |method: wire::AuthMethod| {
        let name = method.name?;
        let text = match method.description.filter(|text| !text.is_empty() && *text != name) {
            Some(description) => format!("{name} ({description})"),
            None => name,
        };
        Some(shorten_to_line(&text, GLANCE_CHARS))
    };
    methods.into_iter().filter_map(login).take(MOST_LOGINS).collect()
}

/// Reads an error. The message is often just "Internal error"; the data contain more.
pub(super) fn read_error(error: &wire::ErrorOf<'_>) -> ReportedFailure {
    let data: wire::ErrorData<'_> = wire::parse_or_default(error.data);
    let alone: Text<'_> = wire::parse_or_default(error.data);
    let codex = data.codex.map_or("", RawValue::get);
    let class = if error.code == Some(LOGIN_REQUIRED) {
        Some(FailureClass::NotLoggedIn)
    } else {
        CODEX.iter().find(|(word, _)| codex.contains(word)).map(|(_, class)| class.clone())
    };
    let message = error.message.clone().unwrap_or_default();
    let message = message.strip_prefix("Internal error: ").unwrap_or(&message);
    let detail = data.message.filter(|detail| !detail.is_empty());
    let detail = detail.unwrap_or_else(|| message.to_owned());
    ReportedFailure {
        message: if detail.is_empty() {
            "it refused the request".to_owned()
        } else {
            shorten_text(&detail)
        },
        details: format!("{message} {} {codex}", shorten_text(&alone.0)),
        status: error.code.and_then(|code| u16::try_from(code).ok()),
        class,
    }
}

/// Names of Codex's errors.
const CODEX: [(&str, FailureClass); 9] = [
    ("usageLimitExceeded", FailureClass::RateLimited { resets_at: None }),
    ("rateLimitExceeded", FailureClass::RateLimited { resets_at: None }),
    ("contextWindowExceeded", FailureClass::ContextExceeded),
    ("unauthorized", FailureClass::NotLoggedIn),
    ("serverOverloaded", FailureClass::Overloaded),
    ("internalServerError", FailureClass::Overloaded),
    ("ConnectionFailed", FailureClass::Overloaded),
    ("responseStreamDisconnected", FailureClass::Overloaded),
    ("responseTooManyFailedAttempts", FailureClass::Overloaded),
];

/// Returns the failure of a stop reason, or `None` if the turn succeeded.
pub(super) fn judge_stop_reason(reason: Option<&str>) -> Option<ReportedFailure> {
    Some(match reason {
        Some("end_turn") => return None,
        Some("max_tokens") => ReportedFailure::from_class(
            FailureClass::TurnLimit,
            "the answer was cut at the output limit",
        ),
        Some("max_turn_requests") => ReportedFailure::from_class(
            FailureClass::TurnLimit,
            "it used up its requests for one turn",
        ),
        Some("refusal") => {
            ReportedFailure::from_class(FailureClass::TurnLimit, "it refused to continue")
        }
        Some("cancelled") => {
            ReportedFailure::from_class(FailureClass::Crashed, "the turn was canceled")
        }
        Some(other) => {
            let other = shorten_to_line(other, GLANCE_CHARS);
            ReportedFailure::from_class(
                FailureClass::Crashed,
                format!("the turn ended with `{other}`"),
            )
        }
        None => {
            ReportedFailure::from_class(FailureClass::Malformed, "the turn ended without a reason")
        }
    })
}

/// Returns the failure for an agent with another version of the protocol.
pub(super) fn build_version_failure(version: u64) -> ReportedFailure {
    let detail = format!(
        "it speaks version {version} of the Agent Client Protocol, and ralph version {VERSION}"
    );
    ReportedFailure::from_class(FailureClass::BadCall, detail)
}

/// Returns the failure for a session without an id.
pub(super) fn build_session_failure() -> ReportedFailure {
    ReportedFailure::from_class(FailureClass::Malformed, "it opened a session without an id")
}
