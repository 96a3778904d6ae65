//! The `guard` section: what happens to tool calls that a rule of the command guard refuses.
//!
//! Not here: the rules.

use ralph_model::guard_policy::{GuardMode, GuardPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The command guard in front of an agent's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct GuardSettings {
    /// What happens to a call that a rule refuses. The rules of loop integrity always deny.
    pub(crate) mode: GuardMode,
    /// Ids of rules, and beginnings of commands such as `git clean`, that are allowed anyway.
    pub(crate) allow: Vec<String>,
    /// Ids of rules, and beginnings of commands, that are denied in any mode.
    pub(crate) deny: Vec<String>,
}

impl GuardSettings {
    /// Returns the policy of the guard.
    pub(crate) fn to_policy(&self) -> GuardPolicy {
        GuardPolicy { mode: self.mode, allow: self.allow.clone(), deny: self.deny.clone() }
    }
}
