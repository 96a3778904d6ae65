//! What in a project a child may not change: what programs outside act upon, ralph's own files, and
//! what makes git run programs.
//!
//! Not here: which of it holds for whom.

use std::path::{Path, PathBuf};

use super::Places;
use crate::sandbox::AbsentName;

/// Configuration in a project that programs outside act upon: agents, editors, shells, git. An
/// agent that could write it would have a hand outside.
pub(super) const CONFIGURATION: [&str; 14] = [
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

/// What in a repository makes git run programs, or look for its configuration elsewhere.
const GIT_LEVERS: [&str; 7] = [
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "info",
    "modules",
    "objects/info/alternates",
];

/// Names among both that git or an agent creates in ordinary work. Where they do not exist, creating
/// them is left to the look at the changes and at git's own files after the call.
const MAY_BE_CREATED: [&str; 3] = [".gitmodules", "info", "modules"];

/// What is to be protected, sorted by whether it is there.
#[derive(Debug, Default)]
pub(super) struct Protected {
    pub(super) there: Vec<PathBuf>,
    pub(super) absent: Vec<AbsentName>,
    pub(super) links: Vec<PathBuf>,
}

/// What to do about a protected name that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenAbsent {
    Ignored,
    /// Remove what appears there after the call.
    Watched,
}

impl WhenAbsent {
    pub(super) fn for_name(name: &str) -> Self {
        if MAY_BE_CREATED.contains(&name) { Self::Ignored } else { Self::Watched }
    }
}

impl Protected {
    /// Protects what makes git run programs.
    pub(super) fn levers(&mut self, places: &Places) {
        for directory in &places.history {
            for name in GIT_LEVERS {
                self.path(&directory.join(name), WhenAbsent::for_name(name));
            }
            self.beside(&directory.join("worktrees"), &places.history);
        }
        // A file that leads to the repository is one of the levers.
        let link = places.work_tree.join(".git");
        if !link.is_dir() {
            self.path(&link, WhenAbsent::Watched);
        }
    }

    pub(super) fn path(&mut self, path: &Path, when_absent: WhenAbsent) {
        if let Ok(real) = path.canonicalize() {
            if real != path {
                self.links.push(path.to_owned());
            }
            self.there.push(real);
            return;
        }
        if path.is_symlink() {
            self.links.push(path.to_owned());
            return;
        }
        let above = path.ancestors().skip(1).find(|it| it.is_dir());
        // Below a link of the user's own the name is not the project's.
        let above = above.filter(|it| it.canonicalize().is_ok_and(|real| real == **it));
        if let (Some(above), WhenAbsent::Watched) = (above, when_absent) {
            self.absent.push(AbsentName { path: path.to_owned(), above: above.to_owned() });
        }
    }

    /// Protects what lies in a directory, but for some of it.
    fn beside(&mut self, directory: &Path, spared: &[PathBuf]) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if !spared.contains(&entry.path()) {
                self.path(&entry.path(), WhenAbsent::Ignored);
            }
        }
    }

    /// Protects a directory whole, or, where files in it are to be written, what else is in it.
    pub(super) fn directory(&mut self, directory: &Path, opened: &[PathBuf]) {
        let opened: Vec<&PathBuf> =
            opened.iter().filter(|path| path.starts_with(directory)).collect();
        if directory.is_dir() {
            for name in ["settings.json", "settings.local.json", "prompts"] {
                self.path(&directory.join(name), WhenAbsent::Watched);
            }
        }
        if opened.is_empty() || !directory.is_dir() {
            self.path(directory, WhenAbsent::Watched);
            return;
        }
        // Who writes a file replaces it, and makes others beside it on the way.
        let is_opened = |path: &Path| {
            opened.iter().any(|open| {
                let (path, open) = (path.as_os_str(), open.as_os_str());
                path.as_encoded_bytes().starts_with(open.as_encoded_bytes())
            })
        };
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if !is_opened(&entry.path()) {
                self.path(&entry.path(), WhenAbsent::Ignored);
            }
        }
    }
}
