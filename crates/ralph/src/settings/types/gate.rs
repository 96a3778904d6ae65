//! Gates in the settings: `gates`, the `guardrails` shorthand, and how strictly they count.
//!
//! Not here: running gates or judging their results.

use std::borrow::Cow;

use ralph_model::gate::{FailAction, GateKind};
use ralph_model::ids::Role;
use ralph_model::text::Truncate;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::agent::AgentSettings;
use super::quantity::DurationSetting;

/// The `format` keyword that marks a choice whose spelling may be in any case.
pub(crate) const ANY_CASE_FORMAT: &str = "ralph-any-case";

/// A command that must succeed after each iteration: shorthand for a hard command gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GuardrailSetting {
    /// The shell command.
    #[schemars(length(min = 1))]
    pub(crate) command: String,
    /// Where its failure joins the next prompt.
    #[serde(default, deserialize_with = "read_fail_action")]
    #[schemars(with = "FailActionSchema")]
    pub(crate) fail_action: FailAction,
    /// Guidance for the agent when it fails.
    #[serde(default)]
    pub(crate) hint: Option<String>,
    /// Whether it also runs after another one failed.
    #[serde(default)]
    pub(crate) always: bool,
}

/// A check that ralph runs after the agent: a command, or a reviewing agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct GateSetting {
    /// Its name in messages and reports. Not set: the command.
    pub(crate) name: Option<String>,
    /// What it checks.
    pub(crate) kind: GateKind,
    /// The shell command to run. Either this or `agent`.
    pub(crate) command: Option<String>,
    /// The agent to ask for a verdict; `{}` is the one of `agents.review`.
    pub(crate) agent: Option<AgentSettings>,
    /// Whether its failure fails the attempt. Not set: yes, but for `quality`.
    pub(crate) hard: Option<bool>,
    /// Whether it runs even after an earlier hard gate failed.
    pub(crate) always: bool,
    /// Where its failure joins the next prompt.
    #[serde(deserialize_with = "read_fail_action")]
    #[schemars(with = "FailActionSchema")]
    pub(crate) fail_action: FailAction,
    /// Guidance for the agent when it fails.
    pub(crate) hint: Option<String>,
    /// Which part of its output is kept in the prompt. Not set: `both` for tests, else `head`.
    pub(crate) truncate: Option<Truncate>,
    /// After this time ralph warns. Not set: the one of `timeouts`.
    pub(crate) soft_timeout: Option<DurationSetting>,
    /// After this time ralph ends it and it counts as failed. Not set: the one of `timeouts`.
    pub(crate) hard_timeout: Option<DurationSetting>,
    /// Limits it to some iterations.
    pub(crate) when: GateConditionSetting,
    /// Whether a pass counts for as long as nothing changes.
    pub(crate) cache: bool,
    /// Whether a test run without a single test may pass.
    pub(crate) allow_empty: bool,
}

impl Default for GateSetting {
    fn default() -> Self {
        Self {
            name: None,
            kind: GateKind::default(),
            command: None,
            agent: None,
            hard: None,
            always: false,
            fail_action: FailAction::default(),
            hint: None,
            truncate: None,
            soft_timeout: None,
            hard_timeout: None,
            when: GateConditionSetting::default(),
            cache: true,
            allow_empty: false,
        }
    }
}

impl GateSetting {
    /// Returns whether its failure fails the attempt, before any `validationStrategy`.
    pub(crate) fn is_hard(&self) -> bool {
        self.hard.unwrap_or(match self.kind {
            GateKind::Test | GateKind::Lint | GateKind::Spec | GateKind::Custom => true,
            GateKind::Quality => false,
        })
    }
}

/// Which iterations a gate runs in. An empty list does not limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct GateConditionSetting {
    /// Only in iterations of these roles.
    pub(crate) roles: Vec<Role>,
    /// Only when a changed path matches one of these globs.
    pub(crate) paths: Vec<String>,
}

/// Reads an action in any case.
fn read_fail_action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FailAction, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = FailAction::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(&text));
    found.ok_or_else(|| {
        de::Error::invalid_value(de::Unexpected::Str(&text), &"APPEND, PREPEND or REPLACE")
    })
}

/// The schema of an action, which lists the usual spelling and allows any case.
struct FailActionSchema;

impl JsonSchema for FailActionSchema {
    fn schema_name() -> Cow<'static, str> {
        "FailAction".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where the failure of a gate joins the next prompt: after the base text, before it, or instead of it. Any case.",
            "anyOf": [
                { "type": "string", "enum": ["APPEND", "PREPEND", "REPLACE"] },
                {
                    "type": "string",
                    "format": ANY_CASE_FORMAT,
                    "pattern": "^([Aa][Pp][Pp][Ee][Nn][Dd]|[Pp][Rr][Ee][Pp][Ee][Nn][Dd]|[Rr][Ee][Pp][Ll][Aa][Cc][Ee])$",
                },
            ]
        })
    }
}
