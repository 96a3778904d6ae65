//! What an error means when only its words tell, for agents that pass on what providers of all
//! kinds say.
//!
//! Not here: deciding where to look. Only the error text of a call that failed is ever given to
//! it, never what the agent said or read.

use ralph_core::failure::{Failure, FailureClass};

use super::limit_words;
use super::translator::Evidence;

/// Error texts in lower case. The order matters: a prompt that does not fit and an empty purse
/// come with words and statuses of a limit.
const WORDS: [(Meaning, &[&str]); 10] = [
    (
        Meaning::Class(FailureClass::ContextExceeded),
        &[
            "context_length_exceeded",
            "contextoverflow",
            "context window",
            "maximum context length",
            "prompt is too long",
            "exceeds the context",
            "request too large",
        ],
    ),
    (
        Meaning::Class(FailureClass::NotLoggedIn),
        &[
            "out of credit",
            "credit balance",
            "insufficient credit",
            "insufficient_quota",
            "insufficient balance",
            "payment required",
        ],
    ),
    (Meaning::Status, &[]),
    (Meaning::Limit, &["exceeded your current"]),
    (
        Meaning::Class(FailureClass::NotLoggedIn),
        &[
            "api key",
            "api_key",
            "apikey",
            "unauthorized",
            "authentication",
            "not logged in",
            "please log in",
            "please sign in",
            "providerautherror",
            "/login",
        ],
    ),
    (
        Meaning::Class(FailureClass::ContextExceeded),
        &["context length", "context_length", "too many tokens"],
    ),
    (Meaning::Class(FailureClass::TurnLimit), &["output token limit", "max turns", "max_turns"]),
    (
        Meaning::Class(FailureClass::BadCall),
        &[
            "unknown option",
            "unknown command",
            "unknown argument",
            "unexpected argument",
            "argument missing",
            "not enough arguments",
            "invalid values",
            "is invalid. allowed choices",
            "unquoted prompt",
            "requires a prompt",
            "must be provided",
            "must provide a message",
            "model not found",
            "modelnotfound",
            "model_not_found",
            "unknown model",
            "no such model",
            "no models available",
            "does not exist or you do not have access",
            "unknown provider",
            "session not found",
        ],
    ),
    (
        Meaning::Class(FailureClass::Overloaded),
        &[
            "overloaded",
            "server error",
            "server_error",
            "bad gateway",
            "service unavailable",
            "gateway timeout",
            "without a finish reason",
            "connection reset",
            "econnreset",
            "socket hang up",
            "timed out",
            "failed to get response from the ai model",
        ],
    ),
    (Meaning::Class(FailureClass::Unreachable), &UNREACHABLE),
];

/// What a client says that gets no connection at all, in lower case.
pub(super) const UNREACHABLE: [&str; 8] = [
    "unable to connect",
    "connection error",
    "connection refused",
    "econnrefused",
    "fetch failed",
    "enotfound",
    "etimedout",
    "network error",
];

enum Meaning {
    Class(FailureClass),
    /// What the status of the request says, where it is known.
    Status,
    Limit,
}

/// Returns what an error means, where its words or its HTTP status mean something.
pub(super) fn class_of(words: &str, status: Option<u16>) -> Option<FailureClass> {
    let lower = words.to_lowercase();
    WORDS.iter().find_map(|(meaning, known)| {
        let is_said = || known.iter().any(|known| lower.contains(known));
        match meaning {
            Meaning::Class(class) => is_said().then(|| class.clone()),
            Meaning::Status => class_of_status(status?),
            Meaning::Limit => (is_said() || limit_words::is_limit(words))
                .then_some(FailureClass::RateLimited { resets_at: None }),
        }
    })
}

/// Returns the class that the words of an agent's own stand for: a limit before all, then the first
/// row with one of them in it, in lower case.
pub(super) fn class_in(rows: &[(FailureClass, &[&str])], words: &str) -> Option<FailureClass> {
    if limit_words::is_limit(words) {
        return Some(FailureClass::RateLimited { resets_at: None });
    }
    let words = words.to_lowercase();
    let has_one_of = |known: &[&str]| known.iter().any(|known| words.contains(known));
    rows.iter().find(|(_, known)| has_one_of(known)).map(|(class, _)| class.clone())
}

/// Returns what an error means whose words may name a status: the weakest sign.
pub(super) fn class_of_words(words: &str) -> Option<FailureClass> {
    class_of(words, None).or_else(|| class_of_status(status_in(words)?))
}

fn class_of_status(status: u16) -> Option<FailureClass> {
    match status {
        401..=403 => Some(FailureClass::NotLoggedIn),
        404 => Some(FailureClass::BadCall),
        413 => Some(FailureClass::ContextExceeded),
        429 => Some(FailureClass::RateLimited { resets_at: None }),
        408 | 500..=599 => Some(FailureClass::Overloaded),
        _ => None,
    }
}

/// Returns the first number that can be the status of a failed request. 404 is any page that is
/// not there.
fn status_in(words: &str) -> Option<u16> {
    words
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok())
        .find(|status| (400..600).contains(status))
        .filter(|status| *status != 404)
}

/// Returns a failure with what its class needs: the reset of a limit, which may stand in more
/// than the words that are shown, and how to log in.
pub(super) fn failure(
    class: FailureClass,
    words: &str,
    searched: &str,
    evidence: &Evidence<'_>,
    login_hint: &str,
) -> Failure {
    match class {
        FailureClass::RateLimited { .. } => {
            let resets_at = limit_words::reset_time(searched, evidence.now, evidence.zone);
            Failure::new(FailureClass::RateLimited { resets_at }, words)
        }
        FailureClass::NotLoggedIn => Failure::new(class, words).with_hint(login_hint),
        FailureClass::Crashed
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
        | FailureClass::BadCall
        | FailureClass::ContextExceeded
        | FailureClass::SchemaRefused
        | FailureClass::Interrupted => Failure::new(class, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_decide_before_numbers() {
        let limit = FailureClass::RateLimited { resets_at: None };
        for (words, class) in [
            ("Incorrect API key provided: fake.", Some(FailureClass::NotLoggedIn)),
            ("Out of credits. Add credits to continue.", Some(FailureClass::NotLoggedIn)),
            ("429 insufficient_quota", Some(FailureClass::NotLoggedIn)),
            ("Rate limit reached for this API key (401 requests)", Some(limit.clone())),
            ("You exceeded your current quota. Please retry in 20s.", Some(limit.clone())),
            ("Request failed with status code 429", Some(limit.clone())),
            ("API request for getUserInfo failed: 503", Some(FailureClass::Overloaded)),
            ("API request for getUserInfo failed: 404", None),
            ("Connection error.", Some(FailureClass::Unreachable)),
            ("connect ECONNREFUSED 127.0.0.1:1", Some(FailureClass::Unreachable)),
            ("read ECONNRESET", Some(FailureClass::Overloaded)),
            ("This model's maximum context length is 8192", Some(FailureClass::ContextExceeded)),
            ("error: unknown option '--nope'", Some(FailureClass::BadCall)),
            ("read 5000 lines", None),
            ("429: the prompt exceeds the context", Some(FailureClass::ContextExceeded)),
            ("rate limit: too many tokens a minute", Some(limit)),
            ("", None),
        ] {
            assert_eq!(class_of_words(words), class, "{words}");
        }
    }
}
