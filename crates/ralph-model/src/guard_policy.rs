//! The settings of the guard.
//!
//! Not here: the rules, which are in `ralph-guard`.

use serde::{Deserialize, Serialize};

/// The settings of the guard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GuardPolicy {
    pub mode: GuardMode,
    /// Rules and commands to allow in spite of a rule.
    pub allow: Vec<String>,
    /// Rules and commands to deny in any mode.
    pub deny: Vec<String>,
}

/// What happens to a call that a rule refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
    /// It is denied, with a reason.
    #[default]
    Deny,
    /// It is allowed, with a warning.
    Warn,
    /// It is allowed.
    Off,
}
