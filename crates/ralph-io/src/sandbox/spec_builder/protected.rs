//! Paths in a project that a child may not change: configuration that programs outside the sandbox
//! act upon, ralph's own files, and files that make git run programs.
//!
//! Not here: which of them apply to which process.

use std::path::{Path, PathBuf};

use super::SandboxPaths;
use crate::sandbox::AbsentName;

/// Configuration in a project that programs outside the sandbox act upon: agents, editors, shells,
/// git. An agent that could write it could run commands outside.
pub(super) const AUTORUN_CONFIGURATION: [&str; 14] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".gemini",
    ".gitmodules",
    ".husky",
    ".idea",
    ".mcp.json",
    ".opencode",
    ".sbxenv.yaml",
    ".vscode",
];

/// Files of a repository that make git run programs or read its configuration elsewhere.
const GIT_EXECUTION_FILES: [&str; 7] = [
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "info",
    "modules",
    "objects/info/alternates",
];

/// Names of both lists that git or an agent creates in ordinary work. If one does not exist, the
/// survey of changes and of git's own files after the call detects that it was created.
const MAY_BE_CREATED: [&str; 3] = [".gitmodules", "info", "modules"];

/// The protected paths, by whether they exist.
#[derive(Debug, Default)]
pub(super) struct ProtectedPaths {
    /// The names that exist, as they were given.
    pub(super) present: Vec<PathBuf>,
    /// Where they lead to.
    pub(super) existing: Vec<PathBuf>,
    pub(super) absent: Vec<AbsentName>,
    pub(super) links: Vec<PathBuf>,
}

/// How a protected name that does not exist is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenAbsent {
    Ignored,
    /// ralph removes what appears there after the call.
    Watched,
}

impl WhenAbsent {
    pub(super) fn for_name(name: &str) -> Self {
        if MAY_BE_CREATED.contains(&name) { Self::Ignored } else { Self::Watched }
    }
}

impl ProtectedPaths {
    /// Protects what makes git run programs.
    pub(super) fn add_git_execution_files(&mut self, places: &SandboxPaths) {
        for directory in &places.history {
            for name in GIT_EXECUTION_FILES {
                self.add_path(&directory.join(name), WhenAbsent::for_name(name));
            }
            self.add_entries(&directory.join("worktrees"), &places.history);
        }
        // A `.git` file that points to the repository has the same power.
        let link = places.work_tree.join(".git");
        if !link.is_dir() {
            self.add_path(&link, WhenAbsent::Watched);
        }
    }

    /// Protects a path of the settings, and where it leads to.
    pub(super) fn add_setting(&mut self, places: &SandboxPaths, setting: &str) {
        let name = places.locate_setting(setting);
        if name.is_symlink() {
            self.present.push(name);
        }
        self.add_path(&places.resolve_setting(setting), WhenAbsent::Watched);
    }

    pub(super) fn add_path(&mut self, path: &Path, when_absent: WhenAbsent) {
        if path.symlink_metadata().is_ok() {
            self.present.push(path.to_owned());
        }
        if let Ok(real) = path.canonicalize() {
            if real != path {
                self.links.push(path.to_owned());
            }
            self.existing.push(real);
            return;
        }
        if path.is_symlink() {
            self.links.push(path.to_owned());
            return;
        }
        let above = path.ancestors().skip(1).find(|it| it.is_dir());
        // Below a symbolic link of the user's, the name is not in the project.
        let above = above.filter(|it| it.canonicalize().is_ok_and(|real| real == **it));
        if let (Some(above), WhenAbsent::Watched) = (above, when_absent) {
            self.absent.push(AbsentName { path: path.to_owned(), above: above.to_owned() });
        }
    }

    /// Protects the entries of a directory, except for some.
    fn add_entries(&mut self, directory: &Path, spared: &[PathBuf]) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if !spared.contains(&entry.path()) {
                self.add_path(&entry.path(), WhenAbsent::Ignored);
            }
        }
    }

    /// Protects a whole directory, or, if some files in it are writable, its other entries.
    pub(super) fn add_directory(&mut self, directory: &Path, opened: &[PathBuf]) {
        let opened: Vec<&PathBuf> =
            opened.iter().filter(|path| path.starts_with(directory)).collect();
        if directory.is_dir() {
            for name in ["settings.json", "settings.local.json", "prompts"] {
                self.add_path(&directory.join(name), WhenAbsent::Watched);
            }
        }
        if opened.is_empty() || !directory.is_dir() {
            self.add_path(directory, WhenAbsent::Watched);
            return;
        }
        // Tools that write a file replace it, and create temporary files with its name as prefix.
        let is_opened = |path: &Path| {
            opened.iter().any(|open| {
                let (path, open) = (path.as_os_str(), open.as_os_str());
                path.as_encoded_bytes().starts_with(open.as_encoded_bytes())
            })
        };
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if !is_opened(&entry.path()) {
                self.add_path(&entry.path(), WhenAbsent::Ignored);
            }
        }
    }
}
