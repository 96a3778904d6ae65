//! An agent in a recipe: which CLI it is and how it is called.
//!
//! Not here: what its flags are; that is known to its adapter alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::capability::Capabilities;
use crate::reading::UsageScope;
use crate::version::Version;

/// An agent CLI and how to call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentChoice {
    /// The adapter that knows this agent.
    pub kind: AgentKind,
    /// The program, or for the scripted agent its scenario file.
    pub command: String,
    /// Further arguments.
    pub flags: Vec<String>,
    /// The model, where the agent's own default is not wanted.
    pub model: Option<String>,
    /// The model to fall back to when the first is overloaded.
    pub fallback_model: Option<String>,
    /// Variables added to its environment.
    pub env: BTreeMap<String, String>,
    /// Patterns of variables removed from its environment.
    pub env_deny: Vec<String>,
    /// Whether it may act without asking.
    pub permissions: Permissions,
    /// Whether it is asked for events or for plain text.
    pub output: AgentOutput,
    /// The limit of turns, for agents that have one.
    pub max_turns: Option<u32>,
    /// A file that names MCP servers.
    #[serde(default)]
    pub mcp_config: Option<PathBuf>,
    /// A file with instructions that stand beside the prompt, or in front of it where the agent
    /// has no other place for them.
    #[serde(default)]
    pub system_prompt: Option<PathBuf>,
    /// Directories that it is to write and that its own sandbox may keep from it: the history,
    /// where it commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<PathBuf>,
    /// The version that is installed; where it is not known, the newest is assumed.
    #[serde(default)]
    pub version: Option<Version>,
    /// What that version can do.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// What its lines mean; for the kind `custom`, and for no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectors: Option<Box<Selectors>>,
}

impl AgentChoice {
    /// Returns a command with nothing further said about it.
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

/// What the lines of an agent mean that no adapter knows: filters, each over one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selectors {
    /// Selects whole messages of the agent; the last one is its answer.
    pub response: Option<String>,
    /// Selects pieces of a message that is being said.
    pub delta: Option<String>,
    /// Selects what is shown in place of messages and pieces.
    pub display: Option<String>,
    /// Selects the agent's id of its session.
    pub session: Option<String>,
    /// Select figures of use.
    pub usage: UsageSelectors,
}

/// Filters for figures of use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageSelectors {
    /// Tokens read afresh.
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

/// The adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Amp.
    Amp,
    /// Cline.
    Cline,
    /// Gemini CLI.
    Gemini,
    /// `OpenCode`.
    Opencode,
    /// GitHub Copilot CLI.
    Copilot,
    /// Qwen Code.
    Qwen,
    /// pi.
    Pi,
    /// Any command that speaks the Agent Client Protocol.
    Acp,
    /// Any command: prompt in, text out.
    Text,
    /// Any command: prompt in, lines of JSON out, read with [`Selectors`].
    Custom,
    /// The built-in scripted agent.
    Sim,
}

impl AgentKind {
    /// Returns the word used in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Amp => "amp",
            Self::Cline => "cline",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
            Self::Qwen => "qwen",
            Self::Pi => "pi",
            Self::Acp => "acp",
            Self::Text => "text",
            Self::Custom => "custom",
            Self::Sim => "sim",
        }
    }

    /// Returns where the program of this kind comes from.
    pub fn origin(self) -> Origin {
        match self {
            Self::Claude
            | Self::Codex
            | Self::Amp
            | Self::Cline
            | Self::Gemini
            | Self::Opencode
            | Self::Copilot
            | Self::Qwen
            | Self::Pi => Origin::Product,
            Self::Acp | Self::Text | Self::Custom => Origin::Command,
            Self::Sim => Origin::BuiltIn,
        }
    }
}

/// Where the program of an agent comes from, and so what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A CLI that ralph knows: its flags, its login, how it tells its version.
    Product,
    /// Any command of the user's; it may do anything when it is called.
    Command,
    /// Part of ralph.
    BuiltIn,
}

/// Whether an agent may act without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permissions {
    /// It acts; nobody is there to be asked.
    Skip,
    /// Its own rules hold.
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
