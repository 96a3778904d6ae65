//! The hosts that agents need to reach their models, and nothing beyond: no telemetry, updates or
//! package registries.

use crate::recipe::AgentKind;

/// Returns the hosts of an agent's model and of its sign-in.
///
/// Those of Claude Code and Copilot are in the vendors' firewall documentation; the others were
/// observed. Agents that work with any provider have no list: the user names the provider.
pub fn list_model_hosts(kind: AgentKind) -> &'static [&'static str] {
    match kind {
        AgentKind::Claude => &["api.anthropic.com", "claude.ai", "platform.claude.com"],
        AgentKind::Codex => &["api.openai.com", "chatgpt.com", "auth.openai.com"],
        AgentKind::Amp => &["ampcode.com", "*.ampcode.com"],
        AgentKind::Cline => &["api.cline.bot"],
        AgentKind::Gemini => &[
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
        ],
        AgentKind::Opencode => &["opencode.ai", "models.dev"],
        AgentKind::Copilot => &["*.githubcopilot.com", "api.github.com"],
        AgentKind::Qwen => &[
            "portal.qwen.ai",
            "chat.qwen.ai",
            "dashscope.aliyuncs.com",
            "dashscope-intl.aliyuncs.com",
        ],
        AgentKind::Pi | AgentKind::Acp | AgentKind::Text | AgentKind::Custom | AgentKind::Sim => {
            &[]
        }
    }
}

/// Returns whether a host belongs to a model provider that agents are used with.
pub fn is_model_host(host: &str) -> bool {
    /// The providers whose API keys agents look for in their environment.
    const PROVIDERS: [&str; 12] = [
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
        "api.groq.com",
        "api.x.ai",
        "api.mistral.ai",
        "api.deepseek.com",
        "api.cerebras.ai",
        "ai-gateway.vercel.sh",
        "api.z.ai",
        "opencode.ai",
    ];
    PROVIDERS.contains(&host) || host.ends_with(".openai.azure.com")
}

#[cfg(test)]
mod tests {
    use super::super::hosts::HostPattern;
    use super::*;

    #[test]
    fn a_host_of_a_model_is_known() {
        for (host, expect) in [
            ("api.openai.com", true),
            ("api.mistral.ai", true),
            ("generativelanguage.googleapis.com", true),
            ("mine.openai.azure.com", true),
            ("api.github.com", false),
            ("registry.npmjs.org", false),
            ("", false),
        ] {
            assert_eq!(is_model_host(host), expect, "{host}");
        }
    }

    const ALL: [AgentKind; 13] = [
        AgentKind::Claude,
        AgentKind::Codex,
        AgentKind::Amp,
        AgentKind::Cline,
        AgentKind::Gemini,
        AgentKind::Opencode,
        AgentKind::Copilot,
        AgentKind::Qwen,
        AgentKind::Pi,
        AgentKind::Acp,
        AgentKind::Text,
        AgentKind::Custom,
        AgentKind::Sim,
    ];

    #[test]
    fn the_page_on_the_network_lists_the_hosts() {
        let page = include_str!("../../../../docs/network.md");
        for kind in ALL.into_iter().filter(|kind| !list_model_hosts(*kind).is_empty()) {
            let hosts: Vec<String> =
                list_model_hosts(kind).iter().map(|host| format!("`{host}`")).collect();
            let row = format!("| `{}` | {} |\n", kind.name(), hosts.join(", "));
            assert!(page.contains(&row), "docs/network.md should hold\n{row}");
        }
    }

    #[test]
    fn every_host_of_a_model_is_a_pattern_for_encrypted_connections() {
        for kind in ALL {
            for host in list_model_hosts(kind) {
                let pattern = HostPattern::parse_pattern(host).expect("a pattern");
                assert_eq!(&pattern.to_string(), host, "{kind:?}");
                assert!(!host.contains(':'), "{kind:?}");
            }
        }
    }
}
