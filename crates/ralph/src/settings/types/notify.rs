//! The `notify` and `otel` sections: notifications for users, telemetry for a collector.
//!
//! Not here: what a project may set, and the checks across settings.

use ralph_model::occasion::Occasion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::DurationSetting;

/// Notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct NotifySettings {
    /// The events to notify about.
    pub(crate) on: Vec<Occasion>,
    /// The shortest wait for a usage limit to notify about.
    pub(crate) wait_over: DurationSetting,
    /// Whether to show a desktop notification.
    pub(crate) desktop: bool,
    /// How to notify in the terminal, if the run has one.
    pub(crate) terminal: TerminalRingSetting,
    /// A shell command that gets the event as JSON on stdin, outside of any sandbox.
    #[schemars(length(min = 1))]
    pub(crate) command: Option<String>,
    /// How long the command may take.
    pub(crate) command_timeout: DurationSetting,
    /// A URL that gets the event as JSON.
    pub(crate) webhook: WebhookSettings,
    /// How long the end of a run waits for notifications that are being sent.
    pub(crate) patience: DurationSetting,
}

impl Default for NotifySettings {
    fn default() -> Self {
        Self {
            on: Occasion::SETTINGS.to_vec(),
            wait_over: DurationSetting::from_mins(10),
            desktop: false,
            terminal: TerminalRingSetting::default(),
            command: None,
            command_timeout: DurationSetting::from_secs(30),
            webhook: WebhookSettings::default(),
            patience: DurationSetting::from_secs(10),
        }
    }
}

/// How to notify in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TerminalRingSetting {
    /// Not at all.
    #[default]
    Off,
    /// By the bell.
    Bell,
    /// By the bell and a notification for iTerm2, kitty and Windows Terminal.
    Osc9,
    /// By the bell and a notification for urxvt, foot and Ghostty.
    Osc777,
}

/// A URL to notify.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct WebhookSettings {
    /// The URL.
    #[schemars(length(min = 1))]
    pub(crate) url: Option<String>,
    /// The topic, where the URL is a server of ntfy.
    #[schemars(length(min = 1))]
    pub(crate) topic: Option<String>,
    /// The name of the variable with the secret that signs what is sent.
    #[schemars(length(min = 1))]
    pub(crate) secret_env: Option<String>,
    /// Whether the URL may lead to this machine or to a private network.
    pub(crate) allow_private: bool,
    /// How long one attempt may take.
    pub(crate) timeout: DurationSetting,
    /// How often it is tried again after an error of the connection or of the server.
    #[schemars(range(max = 10))]
    pub(crate) retries: u32,
    /// How long to wait before the first retry; each further one waits twice as long.
    pub(crate) backoff: DurationSetting,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            url: None,
            topic: None,
            secret_env: None,
            allow_private: false,
            timeout: DurationSetting::from_secs(10),
            retries: 4,
            backoff: DurationSetting(ralph_model::units::Millis(500)),
        }
    }
}

/// Where spans and metrics go, if anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct OtelSettings {
    /// Whether they are sent. Not set: where `endpoint` is set.
    pub(crate) enabled: Option<bool>,
    /// The URL of the collector. Not set: `OTEL_EXPORTER_OTLP_ENDPOINT`, else this machine.
    #[schemars(length(min = 1))]
    pub(crate) endpoint: Option<String>,
    /// The name of the variable with headers for the collector. Not set:
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    #[schemars(length(min = 1))]
    pub(crate) headers_env: Option<String>,
    /// The name of the service. Not set: `OTEL_SERVICE_NAME`, else `ralph`.
    #[schemars(length(min = 1))]
    pub(crate) service_name: Option<String>,
}

impl OtelSettings {
    /// Returns whether anything is sent.
    pub(crate) fn is_on(&self) -> bool {
        self.enabled.unwrap_or(self.endpoint.is_some())
    }
}
