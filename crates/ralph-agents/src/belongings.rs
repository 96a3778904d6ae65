//! What belongs to an agent on a user's machine: the variables it reads, and the directory that it
//! keeps its login and its state in.
//!
//! Each adapter says so for its own agent. Not here: reading any of it, and what an agent in a
//! sandbox gets of it.

use std::path::{Path, PathBuf};

use ralph_core::recipe::{AgentChoice, AgentKind, Origin};

use super::configuration::ConfigFile;
use super::{adapter, amp, claude, cline, codex, copilot, gemini, opencode, pi, qwen};

/// What belongs to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Belongings {
    /// Variables that hold its login, or say that it has one.
    pub login: &'static [&'static str],
    /// Further variables that it reads: endpoints, models, accounts. A `*` at the end stands for
    /// anything.
    pub variables: &'static [&'static str],
    /// The directory of its login and state.
    pub place: Place,
    /// The files of its login, from that directory.
    pub credentials: &'static [Credential],
    /// The user's configuration that it is given a copy of.
    pub configuration: &'static [ConfigFile],
    /// Directories of programs that it keeps in its cache and does not fetch again in a sandbox: the
    /// user's, and its name below the directory that is made for it.
    pub programs: &'static [(Place, &'static str)],
    /// Further variables that name directories of its own, and their names below a directory
    /// that is made for it: caches that are not worth making anew for each call.
    pub apart: &'static [(&'static str, &'static str)],
    /// A variable that has to be set for it to look at a login that is a file, unless one of
    /// [`Self::login`] is set.
    pub chosen_by: Option<(&'static str, &'static str)>,
    /// What to do where no login is found and it is known to wait for ever then.
    pub needed: Option<&'static str>,
}

/// A directory and what moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The variable that names a directory.
    pub variable: &'static str,
    /// Which one that is where the variable is not set, from home.
    pub default: &'static str,
    /// The place, from that directory.
    pub inside: &'static str,
}

impl Place {
    /// Returns where it is. `variable` returns the value of one that is set and not empty.
    pub fn find(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let above =
            variable(self.variable).or_else(|| Some(variable("HOME")?.join(self.default)))?;
        Some(self.below(&above))
    }

    /// Returns where it is below the directory that the variable names.
    pub fn below(&self, above: &Path) -> PathBuf {
        if self.inside.is_empty() { above.to_owned() } else { above.join(self.inside) }
    }
}

/// A file of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credential {
    /// Its name, from the agent's directory.
    pub file: &'static str,
    /// What becomes of it when the agent has changed it.
    pub returned: Returned,
}

/// What becomes of a login that an agent in a sandbox has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// It is copied back: tokens are renewed, and the old ones no longer hold.
    IfRefreshed,
    /// It stays where it is: the file is configuration too, and what an agent writes there would
    /// decide over the user's own sessions.
    Never,
}

impl Credential {
    /// Returns a file that holds tokens and nothing else.
    pub(super) const fn tokens(file: &'static str) -> Self {
        Self { file, returned: Returned::IfRefreshed }
    }

    /// Returns a file that holds settings as well.
    pub(super) const fn settings(file: &'static str) -> Self {
        Self { file, returned: Returned::Never }
    }
}

/// The keys of agents that speak to many providers.
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

/// Returns what belongs to an agent; none where ralph does not know the program.
pub fn belongings(kind: AgentKind) -> Option<&'static Belongings> {
    match kind {
        AgentKind::Claude => Some(&claude::BELONGINGS),
        AgentKind::Codex => Some(&codex::BELONGINGS),
        AgentKind::Amp => Some(&amp::BELONGINGS),
        AgentKind::Cline => Some(&cline::BELONGINGS),
        AgentKind::Gemini => Some(&gemini::BELONGINGS),
        AgentKind::Opencode => Some(&opencode::BELONGINGS),
        AgentKind::Copilot => Some(&copilot::BELONGINGS),
        AgentKind::Qwen => Some(&qwen::BELONGINGS),
        AgentKind::Pi => Some(&pi::BELONGINGS),
        AgentKind::Acp | AgentKind::Text | AgentKind::Custom | AgentKind::Sim => None,
    }
}

/// Returns the kind of the program behind an agent: one that is read in another way, such as over
/// the Agent Client Protocol, is still the same program with the same login.
pub fn program_kind(agent: &AgentChoice) -> AgentKind {
    match agent.kind.origin() {
        Origin::Command => adapter::kind_of(&agent.command),
        Origin::Product | Origin::BuiltIn => agent.kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_program_is_known_however_it_is_read() {
        for (kind, command, expect) in [
            (AgentKind::Acp, "/opt/gemini", AgentKind::Gemini),
            (AgentKind::Text, "codex", AgentKind::Codex),
            (AgentKind::Custom, "mine", AgentKind::Text),
            (AgentKind::Claude, "wrapper", AgentKind::Claude),
        ] {
            assert_eq!(program_kind(&AgentChoice::new(kind, command)), expect, "{command}");
        }
    }

    #[test]
    fn places_follow_their_variable_and_else_home() {
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
            let belongings = belongings(kind).expect("it is known");
            let place = belongings.place;
            assert_eq!(place.below(Path::new("/m")), Path::new(moved), "{kind:?}");
            assert_eq!(place.find(variable(&[("HOME", "/h")])), Some(usual.into()), "{kind:?}");
            assert_eq!(place.find(variable(&[])), None);
            let set = |name: &str| (name == place.variable).then(|| PathBuf::from("/m"));
            assert_eq!(place.find(set), Some(moved.into()), "{kind:?}");
            assert!(!belongings.credentials.is_empty(), "{kind:?}");
            assert!(belongings.credentials.iter().all(|it| !it.file.contains("..")), "{kind:?}");
        }
    }
}
