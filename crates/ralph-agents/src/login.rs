//! Whether an agent has a login, as far as ralph can find out without starting it.
//!
//! Only names are checked: whether a variable is set, whether a file exists. Some agents have a
//! command that reports it. Not here: reading any of them, running the command, and whether a login is
//! still valid; only a call shows that.

use std::path::{Path, PathBuf};

use ralph_model::agent::{AgentChoice, AgentKind, AgentOrigin};
use serde::Serialize;

use super::agent_env::LoginProbe;
use super::registry::find_adapter;

/// Whether an agent has a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Login {
    /// A login exists.
    Found {
        /// The variable or file that holds it.
        by: String,
    },
    /// There is no login, and the agent needs one.
    Missing { hint: String },
    /// Unknown: other providers, keychains and configurations use none of the checked places.
    Unknown,
    /// The agent needs no login.
    NotNeeded,
}

/// Looks for the login of an agent. `variable` returns the value of a variable that is set and not
/// empty; only names and directories are used.
pub fn find_login(
    kind: AgentKind,
    variable: impl Fn(&str) -> Option<PathBuf>,
    exists: impl Fn(&Path) -> bool,
) -> Login {
    let Some(agent_env) = find_adapter(kind).env else {
        return match kind.origin() {
            AgentOrigin::BuiltIn => Login::NotNeeded,
            AgentOrigin::Product | AgentOrigin::Command => Login::Unknown,
        };
    };
    if let Some(name) = agent_env.login.iter().find(|name| variable(name).is_some()) {
        return Login::Found { by: (*name).to_owned() };
    }
    let file = agent_env
        .state_dir
        .resolve_path(&variable)
        .and_then(|directory| {
            let files = agent_env.credentials.iter();
            files.map(|it| directory.join(it.file)).find(|file| exists(file))
        })
        .map(|file| file.display().to_string());
    match (file, agent_env.missing_login_hint) {
        (Some(by), _) => Login::Found { by },
        (None, Some(hint)) => Login::Missing { hint: hint.to_owned() },
        (None, None) => Login::Unknown,
    }
}

/// Returns the command with which an agent of this version reports whether it is logged in.
pub fn find_login_probe(agent: &AgentChoice) -> Option<&'static LoginProbe> {
    let probe = find_adapter(agent.kind).env?.login_probe.as_ref()?;
    agent.version.filter(|version| *version >= probe.since).map(|_| probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: AgentKind, set: &[(&str, &str)], files: &[&str], expect: &Login) {
        let variable = |name: &str| {
            set.iter().find(|(it, _)| *it == name).map(|(_, value)| PathBuf::from(value))
        };
        let found = find_login(kind, variable, |file| files.iter().any(|it| Path::new(it) == file));
        assert_eq!(&found, expect, "{kind:?} {set:?} {files:?}");
    }

    fn found(by: &str) -> Login {
        Login::Found { by: by.to_owned() }
    }

    #[test]
    fn login_is_found_by_variable_or_file_name() {
        let home = ("HOME", "/home/u");
        check(
            AgentKind::Claude,
            &[home, ("ANTHROPIC_API_KEY", "s3cret")],
            &[],
            &found("ANTHROPIC_API_KEY"),
        );
        let file = "/home/u/.claude/.credentials.json";
        check(AgentKind::Claude, &[home], &[file], &found(file));
        check(AgentKind::Claude, &[home, ("CLAUDE_CONFIG_DIR", "/x")], &[file], &Login::Unknown);
        let moved = "/x/auth.json";
        check(AgentKind::Codex, &[home, ("CODEX_HOME", "/x")], &[moved], &found(moved));
        check(AgentKind::Codex, &[], &[], &Login::Unknown);
        let hint = "set AMP_API_KEY, or run `amp login`".to_owned();
        check(AgentKind::Amp, &[home], &[], &Login::Missing { hint });
        check(AgentKind::Acp, &[home], &[], &Login::Unknown);
        check(AgentKind::Text, &[home], &[], &Login::Unknown);
        check(AgentKind::Custom, &[home], &[], &Login::Unknown);
        check(AgentKind::Sim, &[home], &[], &Login::NotNeeded);
    }
}
