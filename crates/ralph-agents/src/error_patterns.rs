//! Classifies errors by their text, for agents that pass on messages of many providers.
//!
//! Not here: deciding where to look. Callers pass only the error text of a failed call, never what
//! the agent wrote or read.

use ralph_model::failure::{Failure, FailureClass};

use super::rate_limit_text;
use super::translator::Evidence;

/// Patterns in lower case. The order matters: errors about a prompt that is too long and about
/// missing credit also contain patterns and statuses of a rate limit.
const PATTERNS: [(ErrorMeaning, &[&str]); 10] = [
    (
        ErrorMeaning::Class(FailureClass::ContextExceeded),
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
        ErrorMeaning::Class(FailureClass::NotLoggedIn),
        &[
            "out of credit",
            "credit balance",
            "insufficient credit",
            "insufficient_quota",
            "insufficient balance",
            "payment required",
        ],
    ),
    (ErrorMeaning::Status, &[]),
    (ErrorMeaning::Limit, &["exceeded your current"]),
    (
        ErrorMeaning::Class(FailureClass::NotLoggedIn),
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
        ErrorMeaning::Class(FailureClass::ContextExceeded),
        &["context length", "context_length", "too many tokens"],
    ),
    (
        ErrorMeaning::Class(FailureClass::TurnLimit),
        &["output token limit", "max turns", "max_turns"],
    ),
    (
        ErrorMeaning::Class(FailureClass::BadCall),
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
        ErrorMeaning::Class(FailureClass::Overloaded),
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
    (ErrorMeaning::Class(FailureClass::Unreachable), &UNREACHABLE),
];

/// What a client prints that gets no connection at all, in lower case.
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

enum ErrorMeaning {
    Class(FailureClass),
    /// The class of the HTTP status, if it is known.
    Status,
    Limit,
}

/// Returns the class of an error, if its text or its HTTP status matches.
pub(super) fn classify_error(message: &str, status: Option<u16>) -> Option<FailureClass> {
    let lower = message.to_lowercase();
    PATTERNS.iter().find_map(|(meaning, known)| {
        let is_match = || known.iter().any(|known| lower.contains(known));
        match meaning {
            ErrorMeaning::Class(class) => is_match().then(|| class.clone()),
            ErrorMeaning::Status => classify_status(status?),
            ErrorMeaning::Limit => (is_match() || rate_limit_text::is_rate_limit_text(message))
                .then_some(FailureClass::RateLimited { resets_at: None }),
        }
    })
}

/// Returns the class of a text by an agent's own table: a rate limit first, then the first row
/// with a matching pattern (in lower case).
pub(super) fn classify_by_table(
    rows: &[(FailureClass, &[&str])],
    message: &str,
) -> Option<FailureClass> {
    if rate_limit_text::is_rate_limit_text(message) {
        return Some(FailureClass::RateLimited { resets_at: None });
    }
    let message = message.to_lowercase();
    let has_one_of = |known: &[&str]| known.iter().any(|known| message.contains(known));
    rows.iter().find(|(_, known)| has_one_of(known)).map(|(class, _)| class.clone())
}

/// Returns the class of an error; a status number in its text is the weakest sign.
pub(super) fn classify_message(message: &str) -> Option<FailureClass> {
    classify_error(message, None).or_else(|| classify_status(find_status(message)?))
}

/// Returns the class of an HTTP status.
pub(super) fn classify_status(status: u16) -> Option<FailureClass> {
    match status {
        401..=403 => Some(FailureClass::NotLoggedIn),
        404 => Some(FailureClass::BadCall),
        413 => Some(FailureClass::ContextExceeded),
        429 => Some(FailureClass::RateLimited { resets_at: None }),
        408 | 500..=599 => Some(FailureClass::Overloaded),
        _ => None,
    }
}

/// Returns the first number that can be the status of a failed request. 404 is ignored: it may be
/// any missing page.
fn find_status(message: &str) -> Option<u16> {
    message
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok())
        .find(|status| (400..600).contains(status))
        .filter(|status| *status != 404)
}

/// Returns a failure with the details of its class: the reset time of a limit, which is searched
/// in more than the shown text, and the login hint.
pub(super) fn build_failure(
    class: FailureClass,
    message: &str,
    searched: &str,
    evidence: &Evidence<'_>,
    login_hint: &str,
) -> Failure {
    match class {
        FailureClass::RateLimited { .. } => {
            let resets_at =
                rate_limit_text::parse_reset_time(searched, evidence.now, evidence.zone);
            Failure::new(FailureClass::RateLimited { resets_at }, message)
        }
        FailureClass::NotLoggedIn => Failure::new(class, message).with_hint(login_hint),
        _ => Failure::new(class, message),
    }
}

/// Returns the failure that the last text on stderr means, if it is known.
pub(super) fn find_failure(
    message: &str,
    evidence: &Evidence<'_>,
    login_hint: &str,
) -> Option<Failure> {
    let class = classify_message(message)?;
    Some(build_failure(class, message, message, evidence, login_hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_decide_before_status_numbers() {
        let limit = FailureClass::RateLimited { resets_at: None };
        for (message, class) in [
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
            assert_eq!(classify_message(message), class, "{message}");
        }
    }
}
