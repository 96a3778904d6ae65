//! Finds changes to autorun files, which tools execute or load by themselves when a user opens
//! the project, builds it or starts an agent in it: a person should check them first.
//!
//! Pure, by path and mode. Not here: finding out what changed, and git's own files, which are
//! restored.

use serde::{Deserialize, Serialize};

/// A change to an autorun file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Planted {
    /// The file, relative to the project directory.
    pub path: String,
    pub kind: PlantedKind,
}

/// The kind of an autorun file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlantedKind {
    /// A file that became executable.
    Executable,
    /// Git hooks in the repository.
    Hooks,
    /// Tasks and settings of an editor.
    Editor,
    Ci,
    /// Instructions, servers or hooks of an agent.
    Agent,
    /// Loaded by a shell on entering the directory.
    Shell,
    /// Scripts that a package manager runs by itself.
    Package,
    Submodules,
}

impl PlantedKind {
    /// Returns the kind as text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Executable => "a new executable",
            Self::Hooks => "git hooks",
            Self::Editor => "editor settings",
            Self::Ci => "jobs of a build server",
            Self::Agent => "configuration of an agent",
            Self::Shell => "loaded by the shell",
            Self::Package => "scripts of a package manager",
            Self::Submodules => "submodules",
        }
    }
}

/// Whether a change makes a file executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// It is executable now, and was not before.
    New,
    AsBefore,
}

/// How many are listed at most; a person has to check each of them.
pub const MOST_PLANTED: usize = 50;

/// Returns the kind of a changed file, if it is an autorun file.
pub fn kind(path: &str, execution: Execution) -> Option<PlantedKind> {
    const DIRECTORIES: [(&str, PlantedKind); 16] = [
        (".githooks", PlantedKind::Hooks),
        (".husky", PlantedKind::Hooks),
        (".vscode", PlantedKind::Editor),
        (".idea", PlantedKind::Editor),
        (".zed", PlantedKind::Editor),
        (".devcontainer", PlantedKind::Editor),
        (".github/workflows", PlantedKind::Ci),
        (".github/actions", PlantedKind::Ci),
        (".circleci", PlantedKind::Ci),
        (".gitlab", PlantedKind::Ci),
        (".claude", PlantedKind::Agent),
        (".codex", PlantedKind::Agent),
        (".gemini", PlantedKind::Agent),
        (".cursor", PlantedKind::Agent),
        (".opencode", PlantedKind::Agent),
        (".agents", PlantedKind::Agent),
    ];
    const NAMES: [(&str, PlantedKind); 27] = [
        (".pre-commit-config.yaml", PlantedKind::Hooks),
        ("lefthook.yml", PlantedKind::Hooks),
        (".exrc", PlantedKind::Editor),
        (".nvim.lua", PlantedKind::Editor),
        (".gitlab-ci.yml", PlantedKind::Ci),
        ("Jenkinsfile", PlantedKind::Ci),
        (".travis.yml", PlantedKind::Ci),
        ("azure-pipelines.yml", PlantedKind::Ci),
        ("bitbucket-pipelines.yml", PlantedKind::Ci),
        (".mcp.json", PlantedKind::Agent),
        ("AGENTS.md", PlantedKind::Agent),
        ("CLAUDE.md", PlantedKind::Agent),
        ("CLAUDE.local.md", PlantedKind::Agent),
        ("GEMINI.md", PlantedKind::Agent),
        (".cursorrules", PlantedKind::Agent),
        ("opencode.json", PlantedKind::Agent),
        (".envrc", PlantedKind::Shell),
        (".env", PlantedKind::Shell),
        ("mise.toml", PlantedKind::Shell),
        (".tool-versions", PlantedKind::Shell),
        ("package.json", PlantedKind::Package),
        (".npmrc", PlantedKind::Package),
        (".yarnrc.yml", PlantedKind::Package),
        ("build.rs", PlantedKind::Package),
        ("setup.py", PlantedKind::Package),
        ("conftest.py", PlantedKind::Package),
        (".gitmodules", PlantedKind::Submodules),
    ];
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_in = |directory: &str| {
        let below =
            |start: &str| start.strip_prefix(directory).is_some_and(|it| it.starts_with('/'));
        below(path) || path.match_indices('/').any(|(at, _)| below(&path[at + 1..]))
    };
    let of_directory = DIRECTORIES.iter().find(|(directory, _)| is_in(directory));
    let of_name = || NAMES.iter().find(|(known, _)| *known == name);
    let found = of_directory.or_else(of_name).map(|(_, kind)| *kind);
    found.or(match execution {
        Execution::New => Some(PlantedKind::Executable),
        Execution::AsBefore => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autorun_files_are_recognized_by_path_and_mode() {
        use Execution::{AsBefore, New};
        for (path, execution, expect) in [
            (".vscode/tasks.json", AsBefore, Some(PlantedKind::Editor)),
            ("web/.vscode/tasks.json", AsBefore, Some(PlantedKind::Editor)),
            (".github/workflows/ci.yml", AsBefore, Some(PlantedKind::Ci)),
            (".github/dependabot.yml", AsBefore, None),
            (".husky/pre-commit", New, Some(PlantedKind::Hooks)),
            (".claude/settings.json", AsBefore, Some(PlantedKind::Agent)),
            (".claude-plugin/x", AsBefore, None),
            ("sub/AGENTS.md", AsBefore, Some(PlantedKind::Agent)),
            (".mcp.json", AsBefore, Some(PlantedKind::Agent)),
            (".envrc", AsBefore, Some(PlantedKind::Shell)),
            ("package.json", AsBefore, Some(PlantedKind::Package)),
            (".gitmodules", AsBefore, Some(PlantedKind::Submodules)),
            ("run.sh", New, Some(PlantedKind::Executable)),
            ("run.sh", AsBefore, None),
            ("src/main.rs", AsBefore, None),
        ] {
            assert_eq!(kind(path, execution), expect, "{path}");
        }
    }
}
