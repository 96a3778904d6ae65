//! Hints about agents for people: how to install one, and which API key it would bill.
//!
//! Not here: judging a call.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ralph_core::recipe::AgentKind;

use super::{amp, claude, cline, codex, copilot, gemini, opencode, pi, qwen};

/// Returns a hint on how to install the program of an agent.
pub fn find_install_hint(kind: AgentKind, command: &str) -> String {
    match kind {
        AgentKind::Claude => claude::INSTALL_HINT.to_owned(),
        AgentKind::Codex => codex::INSTALL_HINT.to_owned(),
        AgentKind::Amp => amp::INSTALL_HINT.to_owned(),
        AgentKind::Cline => cline::INSTALL_HINT.to_owned(),
        AgentKind::Gemini => gemini::INSTALL_HINT.to_owned(),
        AgentKind::Opencode => opencode::INSTALL_HINT.to_owned(),
        AgentKind::Copilot => copilot::INSTALL_HINT.to_owned(),
        AgentKind::Qwen => qwen::INSTALL_HINT.to_owned(),
        AgentKind::Pi => pi::INSTALL_HINT.to_owned(),
        AgentKind::Acp | AgentKind::Text | AgentKind::Custom | AgentKind::Sim => {
            format!("install `{command}`, or set `agent.command`")
        }
    }
}

/// Returns a warning if an environment variable decides who pays.
///
/// A key in the settings is the user's choice; one that happens to be in the shell may turn a
/// subscription into a bill.
pub fn find_billing_warning(
    kind: AgentKind,
    env: &[(OsString, OsString)],
    chosen: &BTreeMap<String, String>,
) -> Option<String> {
    let variable = match kind {
        AgentKind::Claude => "ANTHROPIC_API_KEY",
        AgentKind::Codex => "OPENAI_API_KEY",
        AgentKind::Gemini => "GEMINI_API_KEY",
        AgentKind::Amp
        | AgentKind::Cline
        | AgentKind::Opencode
        | AgentKind::Copilot
        | AgentKind::Qwen
        | AgentKind::Pi
        | AgentKind::Acp
        | AgentKind::Text
        | AgentKind::Custom
        | AgentKind::Sim => return None,
    };
    let is_set = env.iter().any(|(name, value)| name == variable && !value.is_empty());
    (is_set && !chosen.contains_key(variable)).then(|| {
        format!(
            "{variable} is set: the agent bills that key, not a subscription; add it to `agent.envDeny` to use your login"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_outside_the_settings_is_warned_about() {
        let env = vec![("ANTHROPIC_API_KEY".into(), "x".into())];
        let chosen = BTreeMap::from([("ANTHROPIC_API_KEY".to_owned(), "x".to_owned())]);
        let none = BTreeMap::new();
        assert!(find_billing_warning(AgentKind::Claude, &env, &none).is_some());
        assert_eq!(find_billing_warning(AgentKind::Claude, &env, &chosen), None);
        assert_eq!(find_billing_warning(AgentKind::Claude, &[], &none), None);
        assert_eq!(find_billing_warning(AgentKind::Text, &env, &none), None);
    }
}
