//! User flags that an agent no longer accepts, or never did, and their replacements; and versions
//! that are too old.
//!
//! Not here: ralph's own flags. What a version cannot do is in its capabilities.

use ralph_model::agent::AgentChoice;
use ralph_model::version::Version;

use super::call::{has_flag, split_flags};

/// A flag that ralph replaces or warns about.
#[derive(Debug)]
pub(crate) struct DeprecatedFlag {
    pub(crate) flag: &'static str,
    /// The first version without it; `None` if no known version accepts it.
    pub(crate) removed_in: Option<Version>,
    pub(crate) advice: &'static str,
    /// Replacement. If it is empty, ralph passes the flag on unchanged, since the user may know
    /// better.
    pub(crate) successor: &'static [&'static str],
}

/// Returns the flags of an agent that its version does not accept.
pub(crate) fn find_deprecated_flags(
    known: &'static [DeprecatedFlag],
    agent: &AgentChoice,
) -> impl Iterator<Item = &'static DeprecatedFlag> {
    let version = agent.version;
    let flags = split_flags(&agent.flags);
    known.iter().filter(move |it| {
        let is_gone = match (it.removed_in, version) {
            (Some(gone), Some(version)) => version >= gone,
            // An unknown version is the newest.
            (Some(_), None) | (None, _) => true,
        };
        is_gone && has_flag(&flags, &[it.flag])
    })
}

/// Returns a user's flags with removed ones replaced.
pub(crate) fn replace_deprecated_flags(
    known: &'static [DeprecatedFlag],
    agent: &AgentChoice,
    flags: Vec<String>,
) -> Vec<String> {
    let gone: Vec<&DeprecatedFlag> =
        find_deprecated_flags(known, agent).filter(|it| !it.successor.is_empty()).collect();
    let mut passed = Vec::with_capacity(flags.len());
    for flag in flags {
        match gone.iter().find(|it| it.flag == flag) {
            Some(it) => passed.extend(it.successor.iter().map(|&word| word.to_owned())),
            None => passed.push(flag),
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use ralph_model::agent::AgentKind;

    use super::*;
    use crate::registry::{find_adapter, list_version_warnings};

    fn agent(kind: AgentKind, flags: &[&str], version: Option<Version>) -> AgentChoice {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        AgentChoice { flags, version, ..AgentChoice::new(kind, kind.name()) }
    }

    #[track_caller]
    fn check(agent: &AgentChoice, passed: &[&str], warned: &[&str]) {
        assert_eq!(
            replace_deprecated_flags(
                find_adapter(agent.kind).deprecated_flags,
                agent,
                split_flags(&agent.flags)
            ),
            passed
        );
        assert_eq!(list_version_warnings(agent), warned);
    }

    #[test]
    fn removed_flag_is_replaced_with_a_warning() {
        let gone = "`--full-auto` was removed in codex 0.126.0: use `-s workspace-write` instead";
        let flags = ["--full-auto", "-m x"];
        let successor = ["-s", "workspace-write", "-m", "x"];
        let codex = |version| agent(AgentKind::Codex, &flags, version);
        check(&codex(None), &successor, &[gone]);
        check(&codex(Some(Version::new(0, 166, 0))), &successor, &[gone]);
        check(&codex(Some(Version::new(0, 125, 9))), &["--full-auto", "-m", "x"], &[]);
        check(&agent(AgentKind::Text, &["--full-auto"], None), &["--full-auto"], &[]);
    }

    #[test]
    fn unsupported_flag_is_passed_on_with_a_warning() {
        check(
            &agent(AgentKind::Claude, &["--mcp-debug"], Some(Version::new(2, 1, 325))),
            &["--mcp-debug"],
            &["`claude` 2.1.325 does not support `--mcp-debug`: use `--debug-file` instead"],
        );
    }

    #[test]
    fn a_version_without_a_stream_is_too_old() {
        check(
            &agent(AgentKind::Gemini, &[], Some(Version::new(0, 10, 0))),
            &[],
            &["`gemini` 0.10.0 is too old for ralph: install 0.11.0 or later"],
        );
        check(&agent(AgentKind::Gemini, &[], Some(Version::new(0, 11, 0))), &[], &[]);
    }
}
