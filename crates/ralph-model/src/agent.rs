//! An agent in a recipe: which CLI it is and how it is called.
//!
//! Not here: its flags, which only its adapter knows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::agent_output::UsageScope;
use crate::capability::{Capabilities, TextMode, UsageReport};
use crate::version::Version;

/// An agent CLI and how to call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentChoice {
    pub kind: AgentKind,
    /// The program, or the scenario file of the scripted agent.
    pub command: String,
    /// Further arguments.
    pub flags: Vec<String>,
    /// The model, if not the agent's default.
    pub model: Option<String>,
    /// The model to use when the first is overloaded.
    pub fallback_model: Option<String>,
    /// Variables added to its environment.
    pub env: BTreeMap<String, String>,
    /// Patterns of variables removed from its environment.
    pub env_deny: Vec<String>,
    /// Whether it may act without asking for permission.
    pub permissions: Permissions,
    /// Whether it prints events or plain text.
    pub output: AgentOutput,
    /// The limit of turns, for agents that have one.
    pub max_turns: Option<u32>,
    /// A file that names MCP servers.
    #[serde(default)]
    pub mcp_config: Option<PathBuf>,
    /// A file with instructions for the system prompt, or for the start of the prompt
    /// where the agent has no option for it.
    #[serde(default)]
    pub system_prompt: Option<PathBuf>,
    /// Directories that it must be able to write although its own sandbox may forbid it:
    /// the git directory, where it commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<PathBuf>,
    /// The installed version; if unknown, the newest is assumed.
    #[serde(default)]
    pub version: Option<Version>,
    /// What that version can do.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// How its output lines are read; only for the kind `custom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectors: Option<Box<Selectors>>,
}

impl AgentChoice {
    /// Returns an agent with default options.
    pub fn new(kind: AgentKind, command: impl Into<String>) -> Self {
        Self {
            kind,
            command: command.into(),
            flags: Vec::new(),
            model: None,
            fallback_model: None,
            env: BTreeMap::new(),
            env_deny: Vec::new(),
            permissions: Permissions::Skip,
            output: AgentOutput::Events,
            max_turns: None,
            mcp_config: None,
            system_prompt: None,
            writable: Vec::new(),
            version: None,
            capabilities: Capabilities::default(),
            selectors: None,
        }
    }
}

/// How the output of an agent without an adapter is read: filters, each over one line of
/// JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selectors {
    /// Selects whole messages of the agent; the last one is its answer.
    pub response: Option<String>,
    /// Selects pieces of a message that is being streamed.
    pub delta: Option<String>,
    /// Selects what is shown instead of messages and pieces.
    pub display: Option<String>,
    /// Selects the agent's session id.
    pub session: Option<String>,
    /// Select usage figures.
    pub usage: UsageSelectors,
}

/// Filters for usage figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageSelectors {
    /// Uncached input tokens.
    pub input: Option<String>,
    /// Tokens written.
    pub output: Option<String>,
    /// Tokens read from the cache.
    pub cache_read: Option<String>,
    /// Tokens written to the cache.
    pub cache_write: Option<String>,
    /// Dollars.
    pub cost: Option<String>,
    /// Whether the figures of several lines add up.
    pub scope: UsageScope,
}

/// Declares the ids of agents: the variant, its name in settings, journals and messages, where
/// its program comes from, and its provider in telemetry.
macro_rules! declare_agent_kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal, $origin:ident, $provider:literal;)*) => {
        /// How to talk to an agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "lowercase")]
        pub enum AgentKind {
            $($(#[$doc])* $kind,)*
        }

        impl AgentKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name used in settings and messages.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns the kind of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Returns where the program of this kind comes from.
            pub const fn origin(self) -> AgentOrigin {
                match self { $(Self::$kind => AgentOrigin::$origin,)* }
            }

            /// Returns the provider whose model an agent usually uses, by the semantic
            /// conventions for generative AI; otherwise the agent.
            pub const fn provider(self) -> &'static str {
                match self { $(Self::$kind => $provider,)* }
            }
        }
    };
}

// Everything else about an agent is in the row of its adapter.
declare_agent_kinds! {
    /// Claude Code.
    Claude: "claude", Product, "anthropic";
    /// `OpenAI` Codex.
    Codex: "codex", Product, "openai";
    /// Amp.
    Amp: "amp", Product, "amp";
    /// Cline.
    Cline: "cline", Product, "cline";
    /// Gemini CLI.
    Gemini: "gemini", Product, "gcp.gemini";
    /// `OpenCode`.
    Opencode: "opencode", Product, "opencode";
    /// GitHub Copilot CLI.
    Copilot: "copilot", Product, "copilot";
    /// Qwen Code.
    Qwen: "qwen", Product, "qwen";
    /// Pi.
    Pi: "pi", Product, "pi";
    /// Aider.
    Aider: "aider", Product, "aider";
    /// Kilo Code.
    Kilo: "kilo", Product, "kilo";
    /// Any command that speaks the Agent Client Protocol over stdio.
    Acp: "acp", Command, "acp";
    /// Any command: prompt on stdin, answer on stdout.
    Text: "text", Command, "text";
    /// Any command that prints JSON lines, read with `responseFilter` and the other filters.
    Custom: "custom", Command, "custom";
    /// The built-in scripted agent.
    Sim: "sim", BuiltIn, "sim";
}

/// Where the program of an agent comes from, and so what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOrigin {
    /// A CLI that ralph knows: its flags, its login, its version output.
    Product,
    /// Any command of the user; calling it may have any effect.
    Command,
    /// Part of ralph.
    BuiltIn,
}

/// Whether an agent may act without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permissions {
    /// It acts without asking, because no user is there to answer.
    Skip,
    /// Its own permission rules apply.
    Ask,
}

/// What an agent is asked to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentOutput {
    /// Its stream of events.
    Events,
    /// Only its final text.
    Text,
}

impl UsageSelectors {
    /// Returns what these selectors report of an agent's usage. The cost alone is enough, as most
    /// budgets are about cost.
    pub fn reported_usage(&self) -> UsageReport {
        let tokens = [&self.input, &self.output, &self.cache_read, &self.cache_write];
        if self.cost.is_some() {
            UsageReport::Cost
        } else if tokens.into_iter().any(Option::is_some) {
            UsageReport::Tokens
        } else {
            UsageReport::Nothing
        }
    }
}

impl AgentChoice {
    /// Returns what it reports about its usage after a call.
    pub fn reported_usage(&self) -> UsageReport {
        match (self.output, self.capabilities.text_mode) {
            (AgentOutput::Text, TextMode::Plain) => UsageReport::Nothing,
            (AgentOutput::Text, TextMode::Events) | (AgentOutput::Events, _) => {
                self.capabilities.usage
            }
        }
    }

    /// Returns its command, with the version if known.
    pub fn display_name(&self) -> String {
        match self.version {
            Some(version) => format!("`{}` {version}", self.command),
            None => format!("`{}`", self.command),
        }
    }
}
