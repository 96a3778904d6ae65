//! Error messages of a model's provider, for agents that pass them on.
//!
//! The scenario's message comes last, after the part that identifies the class. Not here: agents
//! with error messages of their own.

use ralph_model::units::Timestamp;

use super::scenario::ScriptedErrorClass;

/// Returns an error as a provider would phrase it, with the reset time of a limit if it is known.
pub(super) fn format_provider_error(
    class: ScriptedErrorClass,
    message: &str,
    resets_at: Option<Timestamp>,
) -> String {
    let lead = match class {
        // These classes have no typical message.
        ScriptedErrorClass::Crashed | ScriptedErrorClass::Malformed => return message.to_owned(),
        ScriptedErrorClass::TurnLimit => {
            "Model reached the maximum output token limit before completing the turn"
        }
        ScriptedErrorClass::RateLimited => {
            let reset = resets_at.map(|at| format!(" Please try again at {}.", to_jiff(at)));
            return format!("429 Too Many Requests.{} {message}", reset.unwrap_or_default());
        }
        ScriptedErrorClass::Overloaded => "503 Service Unavailable",
        ScriptedErrorClass::NotLoggedIn => "401 Unauthorized",
        ScriptedErrorClass::BadCall => "The model does not exist or you do not have access to it",
        ScriptedErrorClass::ContextExceeded => "The prompt exceeds the maximum context length",
    };
    format!("{lead}: {message}")
}

/// Returns a time in the format of machines; the epoch if it is out of range.
fn to_jiff(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default()
}
