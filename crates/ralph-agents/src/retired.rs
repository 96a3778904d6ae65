//! Flags of users that an agent no longer takes, or never took, and what takes their place; and
//! versions that are too old.
//!
//! Not here: flags of ours. What a version cannot be asked for is in its capabilities.

use ralph_core::recipe::{AgentChoice, AgentKind};
use ralph_core::version::Version;

use super::call::{has_flag, split_flags};
use super::capabilities::oldest;

/// A flag that must not be passed on as it is.
struct Retired {
    kind: AgentKind,
    flag: &'static str,
    /// The first version without it; none where no version is known to take it.
    gone: Option<Version>,
    /// What to do instead.
    advice: &'static str,
    /// What is passed on in its place; where there is nothing, it is passed on all the same, for
    /// the user may know better.
    successor: &'static [&'static str],
}

const RETIRED: [Retired; 5] = [
    // From 0.126 it is parsed and has no effect; 0.147 refuses it.
    Retired {
        kind: AgentKind::Codex,
        flag: "--full-auto",
        gone: Some(Version::new(0, 126, 0)),
        advice: "`-s workspace-write` takes its place",
        successor: &["-s", "workspace-write"],
    },
    Retired {
        kind: AgentKind::Claude,
        flag: "--no-auto-compact",
        gone: None,
        advice: "set DISABLE_AUTO_COMPACT=1 in `agent.env` instead",
        successor: &[],
    },
    Retired {
        kind: AgentKind::Claude,
        flag: "--mcp-debug",
        gone: None,
        advice: "use `--debug-file` instead",
        successor: &[],
    },
    Retired {
        kind: AgentKind::Claude,
        flag: "--json-schema-file",
        gone: None,
        advice: "`--json-schema` takes the schema itself",
        successor: &[],
    },
    Retired {
        kind: AgentKind::Cline,
        flag: "--yolo",
        gone: None,
        advice: "in that mode it never ends by itself; everything is approved without it",
        successor: &[],
    },
];

fn retired(agent: &AgentChoice) -> impl Iterator<Item = &'static Retired> {
    let (kind, version) = (agent.kind, agent.version);
    let flags = split_flags(&agent.flags);
    RETIRED.iter().filter(move |it| {
        let is_gone = match (it.gone, version) {
            (Some(gone), Some(version)) => version >= gone,
            // An unknown version is the newest.
            (Some(_), None) | (None, _) => true,
        };
        it.kind == kind && is_gone && has_flag(&flags, &[it.flag])
    })
}

/// Returns a user's flags with their successors in the place of those that are gone.
pub(super) fn replaced(agent: &AgentChoice, flags: Vec<String>) -> Vec<String> {
    let gone: Vec<&Retired> = retired(agent).filter(|it| !it.successor.is_empty()).collect();
    let mut passed = Vec::with_capacity(flags.len());
    for flag in flags {
        match gone.iter().find(|it| it.flag == flag) {
            Some(it) => passed.extend(it.successor.iter().map(|&word| word.to_owned())),
            None => passed.push(flag),
        }
    }
    passed
}

/// Returns what a user should know of the installed version: that it is too old, and which of
/// the flags in the settings it does not take.
pub fn version_warnings(agent: &AgentChoice) -> Vec<String> {
    let who = agent.shown();
    let too_old = match (oldest(agent.kind), agent.version) {
        (Some(oldest), Some(version)) if version < oldest => {
            Some(format!("{who} is too old to be read: install {oldest} or later"))
        }
        (Some(_) | None, _) => None,
    };
    let flags = retired(agent).map(|it| match it.gone {
        Some(gone) => {
            format!("`{}` is gone from {} {gone} on: {}", it.flag, agent.kind.name(), it.advice)
        }
        None => format!("`{}` is not for {who}: {}", it.flag, it.advice),
    });
    too_old.into_iter().chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(kind: AgentKind, flags: &[&str], version: Option<Version>) -> AgentChoice {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        AgentChoice { flags, version, ..AgentChoice::new(kind, kind.name()) }
    }

    #[track_caller]
    fn check(agent: &AgentChoice, passed: &[&str], warned: &[&str]) {
        assert_eq!(replaced(agent, split_flags(&agent.flags)), passed);
        assert_eq!(version_warnings(agent), warned);
    }

    #[test]
    fn a_flag_that_is_gone_is_replaced_and_told() {
        let gone =
            "`--full-auto` is gone from codex 0.126.0 on: `-s workspace-write` takes its place";
        let flags = ["--full-auto", "-m x"];
        let successor = ["-s", "workspace-write", "-m", "x"];
        let codex = |version| agent(AgentKind::Codex, &flags, version);
        check(&codex(None), &successor, &[gone]);
        check(&codex(Some(Version::new(0, 166, 0))), &successor, &[gone]);
        check(&codex(Some(Version::new(0, 125, 9))), &["--full-auto", "-m", "x"], &[]);
        check(&agent(AgentKind::Text, &["--full-auto"], None), &["--full-auto"], &[]);
    }

    #[test]
    fn a_flag_that_was_never_there_is_told_and_passed_on() {
        check(
            &agent(AgentKind::Claude, &["--mcp-debug"], Some(Version::new(2, 1, 325))),
            &["--mcp-debug"],
            &["`--mcp-debug` is not for `claude` 2.1.325: use `--debug-file` instead"],
        );
    }

    #[test]
    fn a_version_without_a_stream_is_too_old() {
        check(
            &agent(AgentKind::Gemini, &[], Some(Version::new(0, 10, 0))),
            &[],
            &["`gemini` 0.10.0 is too old to be read: install 0.11.0 or later"],
        );
        check(&agent(AgentKind::Gemini, &[], Some(Version::new(0, 11, 0))), &[], &[]);
    }
}
