//! The `guard` section: what happens to tool calls that a rule of the command guard refuses.
//!
//! Not here: the rules.

use ralph_core::guard::{GuardMode, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The command guard in front of an agent's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Guard {
    /// What happens to a call that a rule refuses. The rules of loop integrity always deny.
    pub(crate) mode: Mode,
    /// Ids of rules, and beginnings of commands such as `git clean`, that are allowed anyway.
    pub(crate) allow: Vec<String>,
    /// Ids of rules, and beginnings of commands, that are denied in any mode.
    pub(crate) deny: Vec<String>,
}

/// What happens to a call that a rule refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// It is denied, with a reason.
    #[default]
    Deny,
    /// It is allowed, with a warning.
    Warn,
    /// It is allowed.
    Off,
}

impl Guard {
    /// Returns the policy of the guard.
    pub(crate) fn policy(&self) -> Policy {
        let mode = match self.mode {
            Mode::Deny => GuardMode::Deny,
            Mode::Warn => GuardMode::Warn,
            Mode::Off => GuardMode::Off,
        };
        Policy { mode, allow: self.allow.clone(), deny: self.deny.clone() }
    }
}
