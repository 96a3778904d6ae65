//! The `notify` and `otel` sections: notifications for users, telemetry for a collector.
//!
//! Not here: what a project may set, and the checks across settings.

use ralph_core::notice::Occasion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Span;

/// Notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Notify {
    /// The events to notify about.
    pub(crate) on: Vec<NotifyEvent>,
    /// The shortest wait for a usage limit to notify about.
    pub(crate) wait_over: Span,
    /// Whether to show a desktop notification.
    pub(crate) desktop: bool,
    /// How to notify in the terminal, if the run has one.
    pub(crate) terminal: TerminalRing,
    /// A shell command that gets the event as JSON on stdin, outside of any sandbox.
    #[schemars(length(min = 1))]
    pub(crate) command: Option<String>,
    /// How long the command may take.
    pub(crate) command_timeout: Span,
    /// A URL that gets the event as JSON.
    pub(crate) webhook: Webhook,
    /// How long the end of a run waits for notifications that are being sent.
    pub(crate) patience: Span,
}

impl Default for Notify {
    fn default() -> Self {
        Self {
            on: NotifyEvent::ALL.to_vec(),
            wait_over: Span::from_mins(10),
            desktop: false,
            terminal: TerminalRing::default(),
            command: None,
            command_timeout: Span::from_secs(30),
            webhook: Webhook::default(),
            patience: Span::from_secs(10),
        }
    }
}

/// An event to notify about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NotifyEvent {
    /// The work is complete.
    Finish,
    /// The run stopped before completion.
    Failure,
    /// A task was given up: tasks that depend on it are blocked.
    Blocked,
    /// A task is stuck, or its reviews do not converge.
    Stuck,
    /// The run waits long for a usage limit.
    Waiting,
    /// Iterations, money, tokens or time are used up.
    Budget,
    /// The run needs a person to continue.
    Person,
}

impl NotifyEvent {
    /// All of them.
    const ALL: [Self; 7] = [
        Self::Finish,
        Self::Failure,
        Self::Blocked,
        Self::Stuck,
        Self::Waiting,
        Self::Budget,
        Self::Person,
    ];

    /// Returns the core's name for it.
    pub(crate) fn occasion(self) -> Occasion {
        match self {
            Self::Finish => Occasion::Finish,
            Self::Failure => Occasion::Failure,
            Self::Blocked => Occasion::Blocked,
            Self::Stuck => Occasion::Stuck,
            Self::Waiting => Occasion::Waiting,
            Self::Budget => Occasion::Budget,
            Self::Person => Occasion::Person,
        }
    }
}

/// How to notify in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TerminalRing {
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
pub(crate) struct Webhook {
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
    pub(crate) timeout: Span,
    /// How often it is tried again after an error of the connection or of the server.
    #[schemars(range(max = 10))]
    pub(crate) retries: u32,
    /// How long to wait before the first retry; each further one waits twice as long.
    pub(crate) backoff: Span,
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            url: None,
            topic: None,
            secret_env: None,
            allow_private: false,
            timeout: Span::from_secs(10),
            retries: 4,
            backoff: Span(ralph_core::units::Millis(500)),
        }
    }
}

/// Where spans and metrics go, if anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Otel {
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

impl Otel {
    /// Returns whether anything is sent.
    pub(crate) fn is_on(&self) -> bool {
        self.enabled.unwrap_or(self.endpoint.is_some())
    }
}
