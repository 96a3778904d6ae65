//! A setting of a project that needs the user's trust, and how it is shown.
//!
//! Not here: which settings do (`bound`, `classes`), and who trusts a project.

use std::fmt;

use serde_json::Value;

use super::problem::Origin;

/// A setting of a project that needs the user's trust.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loosening {
    /// The key.
    pub(crate) key: String,
    /// What is asked for, masked where it may be secret; of a list, what is added.
    pub(crate) asks: Value,
    /// Where it is asked for.
    pub(crate) origin: Origin,
    /// Why it needs trust.
    pub(crate) cause: LooseningCause,
}

/// Why a setting of a project needs trust.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LooseningCause {
    /// It goes beyond what the user said.
    BeyondBound {
        /// What the user's bound is.
        bound: Value,
        /// Where that came from.
        origin: Origin,
    },
    /// It makes ralph run or read something, whatever the user said.
    Demand {
        /// What it would do, as the rest of a sentence that begins with the key.
        effect: String,
        /// The digest of the value and of what it leads to: another one is another demand.
        digest: String,
    },
}

impl fmt::Display for Loosening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, origin) = (&self.key, &self.origin);
        let (bound, by) = match &self.cause {
            LooseningCause::Demand { effect, .. } => {
                return write!(f, "{origin}: `{key}` {effect}");
            }
            LooseningCause::BeyondBound { bound, origin } => (bound, origin),
        };
        let bound = if bound.is_null() { "`not set`".into() } else { bound.to_string() };
        let what = match self.asks.as_array() {
            Some(entries) => {
                let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
                format!("adds {}", entries.join(", "))
            }
            None if self.asks.is_null() => "takes away the value".to_owned(),
            None => format!("asks for {}", self.asks),
        };
        write!(f, "{origin}: `{key}` {what}; your bound is {bound} ({by})")
    }
}
