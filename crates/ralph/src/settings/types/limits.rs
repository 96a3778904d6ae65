//! Limits of a run: timeouts, retries, waits, budgets, and when a task counts as stuck.
//!
//! Not here: measuring time or money.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::quantity::DurationSetting;

/// How long things may take. All are multiplied with `timeoutMultiplier`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TimeoutSettings {
    /// All attempts on one task together.
    pub(crate) global: TimeLimitSetting,
    /// One run of the agent.
    pub(crate) implement: TimeLimitSetting,
    /// One command gate.
    pub(crate) test: TimeLimitSetting,
    /// One agent gate of kind `spec`.
    pub(crate) spec: TimeLimitSetting,
    /// One agent gate of kind `quality`.
    pub(crate) quality: TimeLimitSetting,
    /// Time without a useful event from the agent.
    pub(crate) idle: DurationSetting,
}

impl Default for TimeoutSettings {
    fn default() -> Self {
        let minutes = |soft, hard| TimeLimitSetting {
            soft: DurationSetting::from_mins(soft),
            hard: DurationSetting::from_mins(hard),
        };
        Self {
            global: minutes(45, 60),
            implement: minutes(12, 20),
            test: minutes(5, 10),
            spec: minutes(3, 5),
            quality: minutes(2, 3),
            idle: DurationSetting::from_mins(10),
        }
    }
}

impl TimeoutSettings {
    /// Returns every pair of limits with its key.
    pub(crate) fn sections(&self) -> [(&'static str, TimeLimitSetting); 5] {
        [
            ("global", self.global),
            ("implement", self.implement),
            ("test", self.test),
            ("spec", self.spec),
            ("quality", self.quality),
        ]
    }

    /// Returns the pair of limits under a key of `sections`.
    pub(crate) fn find_section_mut(&mut self, key: &str) -> Option<&mut TimeLimitSetting> {
        match key {
            "global" => Some(&mut self.global),
            "implement" => Some(&mut self.implement),
            "test" => Some(&mut self.test),
            "spec" => Some(&mut self.spec),
            "quality" => Some(&mut self.quality),
            _ => None,
        }
    }
}

/// A soft limit that warns and a hard limit that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TimeLimitSetting {
    /// Warns.
    pub(crate) soft: DurationSetting,
    /// Ends.
    pub(crate) hard: DurationSetting,
}

impl JsonSchema for TimeLimitSetting {
    fn schema_name() -> Cow<'static, str> {
        "Limits".into()
    }
    /// By hand: one duration alone means the hard limit, and in a file either may be missing.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<DurationSetting>();
        json_schema!({
            "description": "A soft limit that warns and a hard limit that ends; one duration alone is the hard limit.",
            "anyOf": [
                span,
                {
                    "type": "object",
                    "properties": { "soft": span, "hard": span },
                    "additionalProperties": false,
                },
            ]
        })
    }
}

/// What happens when the agent crashes or answers nothing useful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RetrySettings {
    /// How often one iteration is tried again.
    pub(crate) max: u32,
    /// The pause before the first retry; it doubles from one to the next.
    pub(crate) backoff: DurationSetting,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { max: 3, backoff: DurationSetting::from_secs(5) }
    }
}

/// What happens at a rate or usage limit of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RateLimitSettings {
    /// Whether to wait until the limit is reset.
    pub(crate) wait: bool,
    /// The longest time to wait.
    pub(crate) max_wait: DurationSetting,
}

impl Default for RateLimitSettings {
    fn default() -> Self {
        Self { wait: true, max_wait: DurationSetting::from_mins(6 * 60) }
    }
}

/// The budget of a run. Not set: no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the names of the keys")]
pub(crate) struct BudgetSettings {
    /// Money, in US dollars, as the agent reports it.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) max_cost_usd: Option<f64>,
    /// Tokens, as the agent reports them.
    #[schemars(range(min = 1))]
    pub(crate) max_tokens: Option<u64>,
    /// Running time.
    pub(crate) max_time: Option<DurationSetting>,
}

/// When a task counts as stuck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct StuckSettings {
    /// After how many attempts with the same failure.
    #[schemars(range(min = 1))]
    pub(crate) after: u32,
    /// How often ralph asks for another strategy before it gives the task up.
    pub(crate) strategy_shifts: u32,
}

impl Default for StuckSettings {
    fn default() -> Self {
        Self { after: 3, strategy_shifts: 2 }
    }
}
