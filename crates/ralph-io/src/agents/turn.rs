//! How a turn stands by its agent's own account, and what follows from that together with the
//! end of the process.
//!
//! Success needs both: a terminal event that says so, and an exit that agrees. Words are searched
//! only in error texts and in the stderr of a call that failed, never in what the agent said or
//! read. Not here: which events of an agent are terminal.

use ralph_core::child::{Ending, Limit};
use ralph_core::failure::{Failure, FailureClass};

use crate::plain::Plain;

use super::ending;
use super::limit_words;
use super::translator::Evidence;

/// How the last turn stands.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// No terminal event has come since it began.
    #[default]
    Open,
    /// It ended well, by its own account.
    Succeeded,
    /// It did not.
    Failed(Trouble),
}

/// What an agent says about an error.
#[derive(Debug, Clone, Default)]
pub(super) struct Trouble {
    /// What happened, in the agent's own words.
    pub(super) words: String,
    /// More of what the agent knows, such as the body of the response. It is searched, not shown.
    pub(super) details: String,
    /// The HTTP status.
    pub(super) status: Option<u16>,
    /// The class, where the event itself tells it.
    pub(super) class: Option<FailureClass>,
}

/// What an agent's user can do about failures that asking again cannot mend.
#[derive(Debug)]
pub(super) struct Hints {
    /// How to get the program.
    pub(super) install: &'static str,
    /// How to log in.
    pub(super) login: &'static str,
    /// What its silence may mean.
    pub(super) silence: Option<&'static str>,
}

impl Turn {
    /// Judges a call. `retrying` is the failed request that nothing useful has followed yet.
    pub(super) fn judge(
        &self,
        retrying: Option<&Trouble>,
        hints: &Hints,
        evidence: &Evidence<'_>,
    ) -> Option<Failure> {
        let ending = &evidence.end.ending;
        match (self, ending) {
            (_, Ending::Interrupted { .. } | Ending::NotStarted { .. }) => {
                ending::imposed(ending, hints.install)
            }
            (Self::Failed(trouble), _) => {
                let class = trouble.class().unwrap_or(FailureClass::Crashed);
                Some(trouble.failure(class, hints, evidence))
            }
            // The answer had come; what kept the process is not the answer's fault.
            (
                Self::Succeeded,
                Ending::Exited { code: 0 } | Ending::Lingered { .. } | Ending::TimedOut { .. },
            ) => evidence
                .reading
                .is_silent()
                .then(|| Failure::new(FailureClass::Empty, "it said nothing")),
            (Self::Succeeded, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                Some(ending::crashed(ending, &stderr_of(evidence)))
            }
            (Self::Open, Ending::TimedOut { limit, .. }) => match (limit, retrying) {
                (Limit::Idle, Some(trouble)) => {
                    let class = trouble.class().unwrap_or(FailureClass::Overloaded);
                    Some(trouble.failure(class, hints, evidence))
                }
                (Limit::Idle, None) => {
                    ending::imposed(ending, hints.install).map(|failure| match hints.silence {
                        Some(hint) => failure.with_hint(hint),
                        None => failure,
                    })
                }
                (Limit::Hard, _) => ending::imposed(ending, hints.install),
            },
            (Self::Open, Ending::Exited { code: 0 } | Ending::Lingered { .. }) => {
                let words = stderr_of(evidence);
                let words = if words.is_empty() { "it gave no result".to_owned() } else { words };
                Some(Failure::new(FailureClass::Malformed, words))
            }
            (Self::Open, Ending::Exited { .. } | Ending::Signalled { .. }) => {
                // Bad flags, files and logins are told on stderr only.
                let trouble = Trouble { words: stderr_of(evidence), ..Trouble::default() };
                Some(match trouble.class() {
                    Some(class) => trouble.failure(class, hints, evidence),
                    None => ending::crashed(ending, &trouble.words),
                })
            }
        }
    }
}

impl Trouble {
    /// Returns trouble that is known by its class.
    pub(super) fn of(class: FailureClass, words: impl Into<String>) -> Self {
        Self { words: words.into(), class: Some(class), ..Self::default() }
    }

    fn searched(&self) -> String {
        format!("{}\n{}", self.words, self.details)
    }

    /// Returns the class, as far as anything tells it. A full context and an empty purse come
    /// with statuses that mean something else.
    fn class(&self) -> Option<FailureClass> {
        if let Some(class) = &self.class {
            return Some(class.clone());
        }
        let text = self.searched();
        let lower = text.to_lowercase();
        let has = |known: &[&str]| known.iter().any(|words| lower.contains(words));
        if has(&CONTEXT_WORDS) {
            return Some(FailureClass::ContextExceeded);
        }
        if has(&CREDIT_WORDS) {
            return Some(FailureClass::NotLoggedIn);
        }
        match self.status {
            Some(429) => return Some(FailureClass::RateLimited { resets_at: None }),
            Some(401..=403) => return Some(FailureClass::NotLoggedIn),
            Some(404) => return Some(FailureClass::BadCall),
            Some(413) => return Some(FailureClass::ContextExceeded),
            Some(408 | 500..=599) => return Some(FailureClass::Overloaded),
            Some(_) | None => {}
        }
        if limit_words::is_limit(&text) {
            return Some(FailureClass::RateLimited { resets_at: None });
        }
        WORDS.iter().find(|(_, known)| has(known)).map(|(class, _)| class.clone())
    }

    /// Returns the failure, with what its class needs: the reset of a limit, a way to log in.
    fn failure(&self, class: FailureClass, hints: &Hints, evidence: &Evidence<'_>) -> Failure {
        match class {
            FailureClass::NotLoggedIn => Failure::new(class, &self.words).with_hint(hints.login),
            FailureClass::RateLimited { .. } => {
                let reset = limit_words::reset_time(&self.searched(), evidence.now, evidence.zone);
                Failure::new(FailureClass::RateLimited { resets_at: reset }, &self.words)
            }
            FailureClass::Crashed
            | FailureClass::Malformed
            | FailureClass::Empty
            | FailureClass::HardTimeout
            | FailureClass::IdleTimeout
            | FailureClass::TurnLimit
            | FailureClass::Overloaded
            | FailureClass::NotInstalled
            | FailureClass::BadCall
            | FailureClass::ContextExceeded
            | FailureClass::Interrupted => Failure::new(class, &self.words),
        }
    }
}

fn stderr_of(evidence: &Evidence<'_>) -> String {
    let mut plain = String::new();
    let mut escapes = Plain::default();
    escapes.feed(evidence.stderr_tail.as_bytes(), &mut plain);
    escapes.finish(&mut plain);
    ending::last_lines(&plain)
}

/// A prompt that does not fit, in lower case.
const CONTEXT_WORDS: [&str; 7] = [
    "context_length_exceeded",
    "contextoverflow",
    "context window",
    "maximum context length",
    "prompt is too long",
    "exceeds the context",
    "request too large",
];

/// An account without money, which no waiting mends.
const CREDIT_WORDS: [&str; 4] =
    ["insufficient_quota", "credit balance", "insufficient credit", "payment required"];

/// Error texts, in lower case, where no field says more.
const WORDS: [(FailureClass, &[&str]); 3] = [
    (
        FailureClass::NotLoggedIn,
        &[
            "api key",
            "api_key",
            "not logged in",
            "authentication",
            "unauthorized",
            "providerautherror",
            "/login",
        ],
    ),
    (
        FailureClass::BadCall,
        &[
            "unknown option",
            "unknown argument",
            "unexpected argument",
            "argument missing",
            "not enough arguments",
            "invalid values",
            "is invalid",
            "must provide a message",
            "model not found",
            "modelnotfound",
            "model_not_found",
            "unknown model",
            "unknown provider",
            "no models available",
            "session not found",
        ],
    ),
    (
        FailureClass::Overloaded,
        &[
            "overloaded",
            "server error",
            "server_error",
            "service unavailable",
            "bad gateway",
            "connection error",
            "unable to connect",
            "connection reset",
            "fetch failed",
            "socket hang up",
            "econnre",
            "enotfound",
            "etimedout",
            "timed out",
            "network error",
            "failed to get response from the ai model",
        ],
    ),
];
