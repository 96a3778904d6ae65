//! The environment of an agent on a user's machine: the variables it reads, and the directory of
//! its login and state.
//!
//! Each adapter defines it for its own agent. Not here: reading any of it, and which parts an
//! agent in a sandbox gets.

use ralph_model::version::Version;

use super::agent_directory::AgentDirectory;
use super::configuration::ConfigFile;

/// Variables, directories and files that an agent uses on the user's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentEnv {
    /// Variables that hold its login, or select one.
    pub login: &'static [&'static str],
    /// Further variables that it reads: endpoints, models, accounts. A trailing `*` matches any
    /// suffix.
    pub variables: &'static [&'static str],
    pub state_dir: AgentDirectory,
    /// Login files, relative to `state_dir`.
    pub credentials: &'static [Credential],
    /// The user's configuration files that ralph copies into the sandbox.
    pub configuration: &'static [ConfigFile],
    /// Directories of programs that the agent caches: the user's directory, and its path below the
    /// directory that ralph creates for the agent. With [`EACH_VERSION`] at its end, each version
    /// is one, so that the agent can add another.
    pub cached_programs: &'static [(AgentDirectory, &'static str)],
    /// Variables that ralph points at directories below the one it creates for the agent: caches
    /// that would be slow to rebuild for each call.
    pub redirected_dirs: &'static [(&'static str, &'static str)],
    /// A variable that must be set so that the agent reads its login file, unless one of
    /// [`Self::login`] is set.
    pub enabling_variable: Option<(&'static str, &'static str)>,
    /// Hint for a missing login, for agents known to wait forever without one.
    pub missing_login_hint: Option<&'static str>,
    /// A command of the agent that reports whether it is logged in.
    pub login_probe: Option<LoginProbe>,
}

/// A command of an agent that reports whether it is logged in, without calling a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginProbe {
    pub args: &'static [&'static str],
    /// The first version that has it.
    pub since: Version,
    /// What it prints without a login, without white space.
    pub denial: &'static str,
    pub hint: &'static str,
    pub scope: LoginScope,
}

/// Which logins the command of a [`LoginProbe`] knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginScope {
    AllProviders,
    /// Other providers can be configured, which need none of its logins.
    OwnProvider,
}

impl LoginProbe {
    /// Returns whether the output of a command that failed reports that there is no login.
    pub fn is_denied_by(&self, output: &str) -> bool {
        output.split_whitespace().collect::<String>().contains(self.denial)
    }
}

/// Directories of versions, by platform.
pub const EACH_VERSION: &str = "/*/*";

/// A login file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credential {
    /// Path relative to the agent's directory.
    pub file: &'static str,
    pub sync: CredentialSync,
}

/// What ralph does with a login file that an agent in a sandbox has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialSync {
    /// Copy it back: the agent refreshed its tokens, and the old ones are no longer valid.
    IfRefreshed,
    /// Do not copy it back: the file is configuration too, and what the agent writes there would
    /// affect the user's own sessions.
    Never,
}

impl Credential {
    /// Returns a file that holds only tokens.
    pub(super) const fn for_tokens(file: &'static str) -> Self {
        Self { file, sync: CredentialSync::IfRefreshed }
    }

    /// Returns a file that also holds settings.
    pub(super) const fn for_settings(file: &'static str) -> Self {
        Self { file, sync: CredentialSync::Never }
    }
}

/// API keys for agents that support many providers.
pub(super) const PROVIDER_KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "CEREBRAS_API_KEY",
    "AI_GATEWAY_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "ZAI_API_KEY",
];

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use ralph_model::agent::AgentKind;

    use crate::registry::find_adapter;

    #[test]
    fn directories_follow_their_variable_then_home() {
        let variable = |set: &'static [(&str, &str)]| {
            move |name: &str| {
                set.iter().find(|(it, _)| *it == name).map(|(_, value)| PathBuf::from(value))
            }
        };
        for (kind, moved, usual) in [
            (AgentKind::Claude, "/m", "/h/.claude"),
            (AgentKind::Codex, "/m", "/h/.codex"),
            (AgentKind::Gemini, "/m/.gemini", "/h/.gemini"),
            (AgentKind::Qwen, "/m", "/h/.qwen"),
            (AgentKind::Opencode, "/m/opencode", "/h/.local/share/opencode"),
            (AgentKind::Copilot, "/m", "/h/.copilot"),
            (AgentKind::Pi, "/m", "/h/.pi/agent"),
            (AgentKind::Cline, "/m/data", "/h/.cline/data"),
            (AgentKind::Amp, "/m/.local/share/amp", "/h/.local/share/amp"),
        ] {
            let agent_env = find_adapter(kind).env.expect("it is known");
            let place = agent_env.state_dir;
            assert_eq!(place.join_to(Path::new("/m")), Path::new(moved), "{kind:?}");
            assert_eq!(
                place.resolve_path(variable(&[("HOME", "/h")])),
                Some(usual.into()),
                "{kind:?}"
            );
            assert_eq!(place.resolve_path(variable(&[])), None);
            let set = |name: &str| (name == place.variable).then(|| PathBuf::from("/m"));
            assert_eq!(place.resolve_path(set), Some(moved.into()), "{kind:?}");
            assert!(!agent_env.credentials.is_empty(), "{kind:?}");
            assert!(agent_env.credentials.iter().all(|it| !it.file.contains("..")), "{kind:?}");
        }
    }
}
