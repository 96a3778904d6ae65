//! Why a conversation brought no answer.
//!
//! The reply to the prompt decides; after it the exit code means nothing, as some agents do not
//! exit when their stdin ends. Not here: what the text of an error means, see `turn_status`.

use ralph_core::child::Ending;
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::text::glance;
use serde_json::value::RawValue;

use super::say::{Asked, VERSION};
use super::talk::{AcpTranslator, Phase};
use super::wire;
use crate::fields::Text;
use crate::json_events::GLANCE_CHARS;
use crate::translator::{Evidence, bounded};
use crate::turn::{Hints, Trouble, Turn};

/// At most this many ways to log in are listed.
const MOST_LOGINS: usize = 6;

/// Error code of a request that needs a login first.
const LOGIN_REQUIRED: i64 = -32_000;

/// Empty hints; `add_hint` fills in the command.
const HINTS: Hints = Hints { install: "", login: "", silence: None };

impl AcpTranslator {
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Option<Failure> {
        let failure = match (&self.turn, &evidence.end.ending) {
            (Turn::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => evidence
                .reading
                .is_silent()
                .then(|| Failure::new(FailureClass::Empty, "it said nothing")),
            _ => self.turn.judge(None, &HINTS, evidence),
        };
        failure.map(|failure| self.with_hint(failure))
    }

    fn with_hint(&self, failure: Failure) -> Failure {
        let command = &self.command;
        let has_no_answer = self.phase == Phase::Waiting(Asked::Greeting);
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
            FailureClass::Crashed
            | FailureClass::Malformed
            | FailureClass::Empty
            | FailureClass::HardTimeout
            | FailureClass::Overran
            | FailureClass::IdleTimeout
            | FailureClass::TurnLimit
            | FailureClass::RateLimited { .. }
            | FailureClass::Overloaded
            | FailureClass::Unreachable
            | FailureClass::Blocked
            | FailureClass::BadCall
            | FailureClass::ContextExceeded
            | FailureClass::SchemaRefused
            | FailureClass::Interrupted => failure.hint.clone(),
        };
        Failure { hint, ..failure }
    }
}

/// Formats the ways to log in, for people.
pub(super) fn logins(methods: Vec<wire::AuthMethod>) -> Vec<String> {
    let login = |method: wire::AuthMethod| {
        let name = method.name?;
        let text = match method.description.filter(|text| !text.is_empty() && *text != name) {
            Some(description) => format!("{name} ({description})"),
            None => name,
        };
        Some(glance(&text, GLANCE_CHARS))
    };
    methods.into_iter().filter_map(login).take(MOST_LOGINS).collect()
}

/// Reads an error. The message is often just "Internal error"; the data contain more.
pub(super) fn trouble_of(error: &wire::ErrorOf<'_>) -> Trouble {
    let data: wire::ErrorData<'_> = wire::read(error.data);
    let alone: Text<'_> = wire::read(error.data);
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
    Trouble {
        words: if detail.is_empty() {
            "it refused the request".to_owned()
        } else {
            bounded(&detail)
        },
        details: format!("{message} {} {codex}", bounded(&alone.0)),
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
pub(super) fn stopped(reason: Option<&str>) -> Option<Trouble> {
    Some(match reason {
        Some("end_turn") => return None,
        Some("max_tokens") => {
            Trouble::of(FailureClass::TurnLimit, "the answer was cut at the output limit")
        }
        Some("max_turn_requests") => {
            Trouble::of(FailureClass::TurnLimit, "it used up its requests for one turn")
        }
        Some("refusal") => Trouble::of(FailureClass::TurnLimit, "it refused to continue"),
        Some("cancelled") => Trouble::of(FailureClass::Crashed, "the turn was canceled"),
        Some(other) => {
            let other = glance(other, GLANCE_CHARS);
            Trouble::of(FailureClass::Crashed, format!("the turn ended with `{other}`"))
        }
        None => Trouble::of(FailureClass::Malformed, "the turn ended without a reason"),
    })
}

/// Returns the failure for an agent with another version of the protocol.
pub(super) fn foreign_version(version: u64) -> Trouble {
    let detail = format!(
        "it speaks version {version} of the Agent Client Protocol, and ralph version {VERSION}"
    );
    Trouble::of(FailureClass::BadCall, detail)
}

/// Returns the failure for a session without an id.
pub(super) fn no_session() -> Trouble {
    Trouble::of(FailureClass::Malformed, "it opened a session without an id")
}
