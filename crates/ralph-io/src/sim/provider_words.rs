//! Errors in the words of a model's provider, for agents that pass on what they are told.
//!
//! The words of the script come last, behind what tells the class. Not here: agents that put
//! errors into words of their own.

use ralph_core::units::Timestamp;

use super::scenario::ErrorClass;

/// Returns an error as a provider would word it, with the reset of a limit that is known.
pub(super) fn provider_words(
    class: ErrorClass,
    words: &str,
    resets_at: Option<Timestamp>,
) -> String {
    let lead = match class {
        // What is nobody's class has no lead.
        ErrorClass::Crashed | ErrorClass::Malformed => return words.to_owned(),
        ErrorClass::TurnLimit => {
            "Model reached the maximum output token limit before completing the turn"
        }
        ErrorClass::RateLimited => {
            let reset = resets_at.map(|at| format!(" Please try again at {}.", moment(at)));
            return format!("429 Too Many Requests.{} {words}", reset.unwrap_or_default());
        }
        ErrorClass::Overloaded => "503 Service Unavailable",
        ErrorClass::NotLoggedIn => "401 Unauthorized",
        ErrorClass::BadCall => "The model does not exist or you do not have access to it",
        ErrorClass::ContextExceeded => "The prompt exceeds the maximum context length",
    };
    format!("{lead}: {words}")
}

/// Returns a moment as machines write it; the epoch for one that no calendar has.
fn moment(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default()
}
