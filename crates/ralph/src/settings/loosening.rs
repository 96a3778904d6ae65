//! A setting of a project that needs the user's trust, and how it is shown.
//!
//! Not here: which settings need it (`classes`), and which projects are trusted.

use std::fmt;

use serde_json::Value;

use super::problem::SettingOrigin;

/// A setting of a project that needs the user's trust.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loosening {
    pub(crate) key: String,
    /// The requested value, masked if it may be secret; for a list, the added entries.
    pub(crate) asks: Value,
    pub(crate) origin: SettingOrigin,
    pub(crate) cause: LooseningCause,
}

/// Why a setting of a project needs trust.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LooseningCause {
    /// It exceeds the user's bound.
    BeyondBound {
        bound: Value,
        /// Where the bound came from.
        origin: SettingOrigin,
    },
    /// It makes ralph run or read something, regardless of the user's settings.
    Demand {
        /// The rest of a sentence that begins with the key.
        effect: String,
        /// Digest of the value and of the file it names: another digest is another demand.
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
