//! What an error means when only its words tell, for agents that pass on what providers of all
//! kinds say.
//!
//! Not here: deciding where to look. Only the error text of a call that failed is ever given to
//! it, never what the agent said or read.

use ralph_core::failure::{Failure, FailureClass};

use super::limit_words;
use super::translator::Evidence;

/// Error texts in lower case. The order matters: a lack of money is often dressed up as a limit,
/// and a status code is the weakest sign.
const WORDS: [(Meaning, &[&str]); 7] = [
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
    (Meaning::Limit, &[]),
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
        ],
    ),
    (
        Meaning::Class(FailureClass::ContextExceeded),
        &[
            "prompt is too long",
            "context window",
            "context length",
            "context_length",
            "too many tokens",
            "request too large",
        ],
    ),
    (Meaning::Class(FailureClass::TurnLimit), &["output token limit", "max turns", "max_turns"]),
    (
        Meaning::Class(FailureClass::BadCall),
        &[
            "unknown option",
            "unknown command",
            "unquoted prompt",
            "requires a prompt",
            "argument missing",
            "must be provided",
            "model not found",
            "model_not_found",
            "unknown model",
            "no such model",
            "does not exist or you do not have access",
        ],
    ),
    (
        Meaning::Class(FailureClass::Overloaded),
        &[
            "overloaded",
            "internal server error",
            "bad gateway",
            "service unavailable",
            "gateway timeout",
            "without a finish reason",
            "unable to connect",
            "connection error",
            "connection reset",
            "connection refused",
            "fetch failed",
            "econnre",
            "enotfound",
            "etimedout",
            "timed out",
            "network error",
        ],
    ),
];

enum Meaning {
    Class(FailureClass),
    Limit,
}

/// Returns what the words of an error mean, where they mean something.
pub(super) fn class_of(words: &str) -> Option<FailureClass> {
    let lower = words.to_lowercase();
    let by_words = WORDS.iter().find_map(|(meaning, known)| match meaning {
        Meaning::Class(class) => {
            known.iter().any(|known| lower.contains(known)).then(|| class.clone())
        }
        Meaning::Limit => {
            let is_limit = limit_words::is_limit(words) || lower.contains("exceeded your current");
            is_limit.then_some(FailureClass::RateLimited { resets_at: None })
        }
    });
    by_words.or_else(|| class_of_status(status(&lower)?))
}

fn class_of_status(status: u16) -> Option<FailureClass> {
    match status {
        401..=403 => Some(FailureClass::NotLoggedIn),
        413 => Some(FailureClass::ContextExceeded),
        429 => Some(FailureClass::RateLimited { resets_at: None }),
        408 | 500..=599 => Some(FailureClass::Overloaded),
        _ => None,
    }
}

/// Returns the first number that can be the status of a failed request.
fn status(words: &str) -> Option<u16> {
    words
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok())
        .find(|status| (400..600).contains(status))
}

/// Returns a failure with what its class needs: the reset of a limit, and how to log in.
pub(super) fn failure(
    class: FailureClass,
    words: &str,
    evidence: &Evidence<'_>,
    login_hint: &str,
) -> Failure {
    match class {
        FailureClass::RateLimited { .. } => {
            let resets_at = limit_words::reset_time(words, evidence.now, evidence.zone);
            Failure::new(FailureClass::RateLimited { resets_at }, words)
        }
        FailureClass::NotLoggedIn => Failure::new(class, words).with_hint(login_hint),
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
            ("Request failed with status code 429", Some(limit)),
            ("API request for getUserInfo failed: 503", Some(FailureClass::Overloaded)),
            ("API request for getUserInfo failed: 404", None),
            ("This model's maximum context length is 8192", Some(FailureClass::ContextExceeded)),
            ("error: unknown option '--nope'", Some(FailureClass::BadCall)),
            ("read 5000 lines", None),
            ("", None),
        ] {
            assert_eq!(class_of(words), class, "{words}");
        }
    }
}
