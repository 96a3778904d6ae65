//! Programs of the project that gates may start by a plain name: those in directories of the `PATH`
//! within the project, and where package managers put theirs. git mostly ignores them.
//!
//! Not here: scripts that a gate names by their path, which are protected.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_model::worktree::{AutorunChange, AutorunKind};

use super::shadow::GitFileStamp;
use super::vcs::GitVcs;

/// Directories that package managers put on the `PATH` themselves.
const PACKAGE_PROGRAMS: [&str; 3] = ["node_modules/.bin", ".venv/bin", "venv/bin"];

/// Most programs that are compared in one directory.
const MOST_PROGRAMS: usize = 5_000;

/// The programs at the start of a run.
#[derive(Debug, Default)]
pub(super) struct ProgramWatch {
    project: PathBuf,
    /// Directories of the `PATH` in the project.
    inside: Vec<PathBuf>,
    /// The other directories of the `PATH`.
    outside: Vec<PathBuf>,
    /// The names of programs that gates start.
    names: BTreeSet<String>,
    known: BTreeMap<PathBuf, GitFileStamp>,
}

impl GitVcs {
    /// Watches the programs that gates start by these names, if a directory of the project may
    /// have them.
    #[must_use]
    pub fn with_watched_programs(
        mut self,
        project: &Path,
        path: &OsStr,
        names: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut watch = ProgramWatch {
            project: project.to_owned(),
            names: names.into_iter().collect(),
            ..ProgramWatch::default()
        };
        let searched = std::env::split_paths(path).filter(|it| !it.as_os_str().is_empty());
        let packages = PACKAGE_PROGRAMS.iter().map(PathBuf::from);
        for directory in searched.chain(packages).map(|it| project.join(it)) {
            let is_inside = directory.starts_with(project);
            let list = if is_inside { &mut watch.inside } else { &mut watch.outside };
            if !list.contains(&directory) {
                list.push(directory);
            }
        }
        watch.known = watch.read_programs();
        self.programs = watch;
        self
    }
}

impl ProgramWatch {
    fn read_programs(&self) -> BTreeMap<PathBuf, GitFileStamp> {
        let entries = self
            .inside
            .iter()
            .flat_map(|it| fs::read_dir(it).into_iter().flatten().flatten().take(MOST_PROGRAMS));
        // Links are followed: what they lead to is run.
        let stamp = |path: PathBuf| {
            let about = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
            Some((path, GitFileStamp::from_metadata(&about)))
        };
        entries.filter_map(|entry| stamp(entry.path())).collect()
    }

    /// Returns the new and changed programs that a gate starts, or that hide a program of the
    /// machine.
    pub(super) fn find_changes(&self) -> Vec<AutorunChange> {
        if self.inside.is_empty() {
            return Vec::new();
        }
        let now = self.read_programs();
        let changed = now.iter().filter(|(path, stamp)| self.known.get(*path) != Some(stamp));
        let is_started = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default();
            self.names.contains(&*name.to_string_lossy())
                || self.outside.iter().any(|directory| directory.join(name).is_file())
        };
        let started = changed.map(|(path, _)| path).filter(is_started);
        let named = started.filter_map(|path| path.strip_prefix(&self.project).ok());
        named
            .map(|path| AutorunChange {
                path: path.to_string_lossy().into_owned(),
                kind: AutorunKind::Gate,
            })
            .collect()
    }
}
