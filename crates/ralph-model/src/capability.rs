//! What an agent can do. The adapter of the agent fills it in for the installed version.

use serde::{Deserialize, Serialize};

/// What an agent can do. An unknown agent has none of these capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// Whether its answers can be restricted to a JSON Schema.
    pub schema: SchemaOutput,
    pub usage: UsageReport,
    /// Whether it accepts a turn limit.
    pub turn_limit: Support,
    /// Whether it accepts a cost limit.
    pub cost_limit: Support,
    /// Whether it accepts a second model for when the first is overloaded.
    pub fallback_model: Support,
    /// Whether it accepts MCP servers for one call.
    pub mcp: McpServers,
    /// Whether it accepts instructions separate from the prompt.
    pub system_prompt: Support,
    /// Whether a hook can keep it from ending its turn.
    pub stop_hook: Support,
    /// Whether it can resume a session.
    pub resume: Support,
    pub follow_ups: FollowUps,
    pub echo: PromptEcho,
    pub text_mode: TextMode,
    /// Whether it reports when a usage limit resets.
    pub reset_times: Support,
    /// Whether it accepts ralph's plugin and its hooks for one call.
    pub plugin: Support,
}

/// Whether an agent supports something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Support {
    #[default]
    No,
    Yes,
}

impl Support {
    /// Returns whether it is supported.
    pub fn is_supported(self) -> bool {
        match self {
            Self::Yes => true,
            Self::No => false,
        }
    }
}

/// How ralph asks a follow-up question, and what the agent then reports as usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FollowUps {
    /// A new session gets the answer quoted.
    #[default]
    #[serde(rename = "no")]
    Quoted,
    /// The session continues. The agent reports the usage of each call.
    SameSession,
    /// The session continues. The agent reports the usage of the whole session.
    #[serde(rename = "yes")]
    SameSessionTotal,
}

/// Whether an agent's answers can be restricted to a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SchemaOutput {
    /// Not supported: the prompt asks for a JSON block.
    #[default]
    None,
    /// It passes the schema on and does not check the answer.
    Unchecked,
    /// It checks the answer, and has the model correct it.
    Enforced,
}

/// What an agent reports about its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UsageReport {
    #[default]
    Nothing,
    Tokens,
    Cost,
}

/// Whether an agent accepts MCP servers for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum McpServers {
    /// It only uses those of its own configuration.
    #[default]
    None,
    /// It adds them to those of its own configuration.
    Added,
    /// It uses only those.
    Only,
}

/// Whether an agent's output repeats the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PromptEcho {
    #[default]
    Unknown,
    None,
    /// It does, and the adapter separates the two.
    Repeats,
}

/// What an agent prints if only its final text is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextMode {
    /// Events all the same, because its plain text does not show whether it succeeded. The view
    /// hides them.
    #[default]
    Events,
    /// Its final text without usage.
    Plain,
}

impl Capabilities {
    /// Returns the name and a short description of every capability.
    pub fn describe_all(&self) -> [(&'static str, &'static str); 14] {
        let has = |support: Support| if support.is_supported() { "yes" } else { "no" };
        [
            (
                "schema output",
                match self.schema {
                    SchemaOutput::None => "asked in the prompt",
                    SchemaOutput::Unchecked => "unchecked",
                    SchemaOutput::Enforced => "enforced",
                },
            ),
            (
                "reports",
                match self.usage {
                    UsageReport::Nothing => "nothing",
                    UsageReport::Tokens => "tokens",
                    UsageReport::Cost => "tokens and cost",
                },
            ),
            ("turn limit", has(self.turn_limit)),
            ("cost limit", has(self.cost_limit)),
            ("fallback model", has(self.fallback_model)),
            (
                "MCP servers",
                match self.mcp {
                    McpServers::None => "its own only",
                    McpServers::Added => "added to its own",
                    McpServers::Only => "only those given",
                },
            ),
            (
                "system prompt",
                if self.system_prompt.is_supported() { "yes" } else { "in the prompt" },
            ),
            ("stop hook", has(self.stop_hook)),
            ("resume", has(self.resume)),
            (
                "follow-up questions",
                match self.follow_ups {
                    FollowUps::Quoted => "quote the answer",
                    FollowUps::SameSession | FollowUps::SameSessionTotal => "same session",
                },
            ),
            (
                "echo of the prompt",
                match self.echo {
                    PromptEcho::Unknown => "unknown",
                    PromptEcho::None => "no",
                    PromptEcho::Repeats => "yes",
                },
            ),
            (
                "text mode",
                match self.text_mode {
                    TextMode::Events => "events, hidden",
                    TextMode::Plain => "plain",
                },
            ),
            ("reset times", has(self.reset_times)),
            ("ralph's plugin", has(self.plugin)),
        ]
    }
}
