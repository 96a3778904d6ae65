//! Hints about agents for people: how to install one, and which API key it would bill.
//!
//! Not here: judging a call.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ralph_model::agent::AgentKind;

use super::registry::find_adapter;

/// Returns a hint on how to install the program of an agent.
pub fn find_install_hint(kind: AgentKind, command: &str) -> String {
    match find_adapter(kind).install_hint {
        Some(hint) => hint.to_owned(),
        None if command.contains('/') => {
            "`agent.command` and --agent name a program on the PATH, or an executable file"
                .to_owned()
        }
        None => format!("install `{command}`, or set `agent.command`"),
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
    let variable = find_adapter(kind).billing_variable?;
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
