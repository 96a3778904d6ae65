//! What each agent can do, by its installed version.
//!
//! Every line was seen in a run of the agent, in its source or in its documentation. Not here: the
//! flags for it; each agent's `call` has those.

use ralph_core::capability::{
    Capabilities, McpServers, PromptEcho, SchemaOutput, Support, TextMode, UsageReport,
};
use ralph_core::recipe::AgentKind;
use ralph_core::version::Version;

/// Returns what an agent can do. An unknown version counts as the newest.
#[expect(clippy::too_many_lines, reason = "one arm for each agent")]
pub fn detect_capabilities(kind: AgentKind, version: Option<Version>) -> Capabilities {
    let since = |major, minor, patch| {
        let first = Version::new(major, minor, patch);
        if version.is_none_or(|version| version >= first) { Support::Yes } else { Support::No }
    };
    match kind {
        AgentKind::Claude => Capabilities {
            // Earlier versions have the flag, but no structured output in print mode.
            schema: select_schema_output(since(2, 1, 22), SchemaOutput::Enforced),
            usage: UsageReport::Cost,
            turn_limit: Support::Yes,
            cost_limit: since(2, 0, 28),
            fallback_model: Support::Yes,
            mcp: McpServers::Only,
            system_prompt: since(2, 0, 34),
            stop_hook: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::None,
            text_mode: TextMode::Plain,
            reset_times: Support::Yes,
            plugin: if version.is_none_or(|version| version >= find_oldest_plugin_version()) {
                Support::Yes
            } else {
                Support::No
            },
        },
        AgentKind::Codex => Capabilities {
            schema: select_schema_output(since(0, 41, 0), SchemaOutput::Unchecked),
            usage: UsageReport::Tokens,
            mcp: McpServers::Added,
            system_prompt: Support::Yes,
            stop_hook: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::None,
            text_mode: TextMode::Plain,
            reset_times: Support::Yes,
            ..Capabilities::default()
        },
        AgentKind::Qwen => Capabilities {
            schema: select_schema_output(since(0, 15, 10), SchemaOutput::Enforced),
            usage: UsageReport::Tokens,
            turn_limit: since(0, 4, 0),
            fallback_model: since(0, 19, 7),
            mcp: match since(0, 15, 5) {
                Support::Yes => McpServers::Added,
                Support::No => McpServers::None,
            },
            system_prompt: since(0, 13, 0),
            stop_hook: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::None,
            ..Capabilities::default()
        },
        AgentKind::Gemini => Capabilities {
            usage: UsageReport::Tokens,
            stop_hook: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::Repeats,
            ..Capabilities::default()
        },
        AgentKind::Opencode => Capabilities {
            usage: UsageReport::Cost,
            mcp: McpServers::Added,
            system_prompt: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::None,
            ..Capabilities::default()
        },
        AgentKind::Copilot => Capabilities {
            mcp: McpServers::Added,
            stop_hook: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::Repeats,
            ..Capabilities::default()
        },
        AgentKind::Pi => Capabilities {
            usage: UsageReport::Cost,
            system_prompt: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::Repeats,
            ..Capabilities::default()
        },
        AgentKind::Cline => Capabilities {
            usage: UsageReport::Cost,
            resume: Support::Yes,
            echo: PromptEcho::None,
            ..Capabilities::default()
        },
        AgentKind::Amp => Capabilities {
            usage: UsageReport::Tokens,
            mcp: McpServers::Added,
            stop_hook: Support::Yes,
            resume: Support::Yes,
            echo: PromptEcho::Repeats,
            ..Capabilities::default()
        },
        // The protocol guarantees none of these. Every agent seen so far counts tokens at the end
        // of a turn; few report a cost.
        AgentKind::Acp => Capabilities {
            usage: UsageReport::Tokens,
            echo: PromptEcho::Repeats,
            ..Capabilities::default()
        },
        AgentKind::Text => Capabilities { text_mode: TextMode::Plain, ..Capabilities::default() },
        // Usage is reported where the user's filters select it.
        AgentKind::Custom => Capabilities::default(),
        // A scenario reports what its script contains, and gets everything in its prompt.
        AgentKind::Sim => Capabilities {
            usage: UsageReport::Cost,
            echo: PromptEcho::None,
            reset_times: Support::Yes,
            ..Capabilities::default()
        },
    }
}

fn select_schema_output(support: Support, output: SchemaOutput) -> SchemaOutput {
    match support {
        Support::Yes => output,
        Support::No => SchemaOutput::None,
    }
}

/// Returns the oldest version of Claude Code that accepts ralph's plugin for one call.
///
/// Earlier ones lack the event after a batch of tools, and one unknown event may disable all hooks
/// of a plugin.
pub fn find_oldest_plugin_version() -> Version {
    Version::new(2, 1, 145)
}

/// Returns the oldest version that prints a stream of events, for agents that had none before.
pub fn find_oldest_version(kind: AgentKind) -> Option<Version> {
    match kind {
        AgentKind::Gemini => Some(Version::new(0, 11, 0)),
        AgentKind::Claude
        | AgentKind::Codex
        | AgentKind::Amp
        | AgentKind::Cline
        | AgentKind::Opencode
        | AgentKind::Copilot
        | AgentKind::Qwen
        | AgentKind::Pi
        | AgentKind::Acp
        | AgentKind::Text
        | AgentKind::Custom
        | AgentKind::Sim => None,
    }
}

#[cfg(test)]
mod tests;
