//! Finds changes to autorun files, which tools execute or load by themselves when a user opens
//! the project, builds it or starts an agent in it: a person should check them first.
//!
//! Pure, by path and mode. Not here: finding out what changed, and git's own files, which are
//! restored.

use ralph_model::worktree::AutorunKind;

/// Whether a change makes a file executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// It is executable now, and was not before.
    New,
    Unchanged,
}

/// Returns the kind of a changed file, if it is an autorun file.
pub fn find_autorun_kind(path: &str, execution: Execution) -> Option<AutorunKind> {
    const DIRECTORIES: [(&str, AutorunKind); 20] = [
        (".githooks", AutorunKind::Hooks),
        (".husky", AutorunKind::Hooks),
        (".vscode", AutorunKind::Editor),
        (".idea", AutorunKind::Editor),
        (".zed", AutorunKind::Editor),
        (".devcontainer", AutorunKind::Editor),
        (".github/workflows", AutorunKind::Ci),
        (".github/actions", AutorunKind::Ci),
        (".circleci", AutorunKind::Ci),
        (".gitlab", AutorunKind::Ci),
        (".claude", AutorunKind::Agent),
        (".codex", AutorunKind::Agent),
        (".gemini", AutorunKind::Agent),
        (".qwen", AutorunKind::Agent),
        (".clinerules", AutorunKind::Agent),
        (".cursor", AutorunKind::Agent),
        (".opencode", AutorunKind::Agent),
        (".agents", AutorunKind::Agent),
        (".cargo", AutorunKind::Package),
        (".mvn", AutorunKind::Package),
    ];
    const NAMES: [(&str, AutorunKind); 37] = [
        (".pre-commit-config.yaml", AutorunKind::Hooks),
        ("lefthook.yml", AutorunKind::Hooks),
        (".exrc", AutorunKind::Editor),
        (".nvim.lua", AutorunKind::Editor),
        (".gitlab-ci.yml", AutorunKind::Ci),
        ("Jenkinsfile", AutorunKind::Ci),
        (".travis.yml", AutorunKind::Ci),
        ("azure-pipelines.yml", AutorunKind::Ci),
        ("bitbucket-pipelines.yml", AutorunKind::Ci),
        (".mcp.json", AutorunKind::Agent),
        ("AGENTS.md", AutorunKind::Agent),
        ("AGENTS.override.md", AutorunKind::Agent),
        ("CLAUDE.md", AutorunKind::Agent),
        ("CLAUDE.local.md", AutorunKind::Agent),
        ("GEMINI.md", AutorunKind::Agent),
        ("QWEN.md", AutorunKind::Agent),
        ("copilot-instructions.md", AutorunKind::Agent),
        (".clinerules", AutorunKind::Agent),
        (".cursorrules", AutorunKind::Agent),
        ("opencode.json", AutorunKind::Agent),
        (".envrc", AutorunKind::Shell),
        (".env", AutorunKind::Shell),
        ("mise.toml", AutorunKind::Shell),
        (".tool-versions", AutorunKind::Shell),
        ("package.json", AutorunKind::Package),
        (".npmrc", AutorunKind::Package),
        (".yarnrc.yml", AutorunKind::Package),
        ("build.rs", AutorunKind::Package),
        ("setup.py", AutorunKind::Package),
        ("conftest.py", AutorunKind::Package),
        ("sitecustomize.py", AutorunKind::Package),
        ("usercustomize.py", AutorunKind::Package),
        ("gradle-wrapper.properties", AutorunKind::Package),
        (".bazelrc", AutorunKind::Package),
        ("rust-toolchain.toml", AutorunKind::Package),
        ("rust-toolchain", AutorunKind::Package),
        (".gitmodules", AutorunKind::Submodules),
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
        Execution::New => Some(AutorunKind::Executable),
        Execution::Unchanged => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autorun_files_are_recognized_by_path_and_mode() {
        use Execution::{New, Unchanged};
        for (path, execution, expect) in [
            (".vscode/tasks.json", Unchanged, Some(AutorunKind::Editor)),
            ("web/.vscode/tasks.json", Unchanged, Some(AutorunKind::Editor)),
            (".github/workflows/ci.yml", Unchanged, Some(AutorunKind::Ci)),
            (".github/dependabot.yml", Unchanged, None),
            (".husky/pre-commit", New, Some(AutorunKind::Hooks)),
            (".claude/settings.json", Unchanged, Some(AutorunKind::Agent)),
            (".claude-plugin/x", Unchanged, None),
            ("sub/AGENTS.md", Unchanged, Some(AutorunKind::Agent)),
            (".github/copilot-instructions.md", Unchanged, Some(AutorunKind::Agent)),
            (".claude/skills/x/SKILL.md", Unchanged, Some(AutorunKind::Agent)),
            ("claude.rs", Unchanged, None),
            (".mcp.json", Unchanged, Some(AutorunKind::Agent)),
            (".envrc", Unchanged, Some(AutorunKind::Shell)),
            ("package.json", Unchanged, Some(AutorunKind::Package)),
            (".cargo/config.toml", Unchanged, Some(AutorunKind::Package)),
            ("app/.mvn/jvm.config", Unchanged, Some(AutorunKind::Package)),
            ("gradle/wrapper/gradle-wrapper.properties", Unchanged, Some(AutorunKind::Package)),
            (".bazelrc", Unchanged, Some(AutorunKind::Package)),
            ("lib/sitecustomize.py", Unchanged, Some(AutorunKind::Package)),
            ("rust-toolchain.toml", Unchanged, Some(AutorunKind::Package)),
            ("Cargo.toml", Unchanged, None),
            (".gitmodules", Unchanged, Some(AutorunKind::Submodules)),
            ("run.sh", New, Some(AutorunKind::Executable)),
            ("run.sh", Unchanged, None),
            ("src/main.rs", Unchanged, None),
        ] {
            assert_eq!(find_autorun_kind(path, execution), expect, "{path}");
        }
    }
}
