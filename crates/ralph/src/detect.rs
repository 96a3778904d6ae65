//! Finds a project's check commands (from its build files) and the agents on the `PATH`.
//!
//! Reads little of a project, and only its first directory levels. Not here: what the build files
//! mean, which the core decides.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ralph_agents as agents;
use ralph_core::project::detection as project_detection;
use ralph_core::project::detection::{ProjectCheck, ProjectFiles, needs_text};
use ralph_io::process::Watch;
use ralph_io::versions::{ProgramContext, Versions, find_cache_directory};
use ralph_model::version::Version;

use crate::project::Project;

/// Build files are some kilobytes; of a larger one the beginning is enough.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Parts of a project are `backend/` or `packages/web/`, no deeper.
const MAX_DEPTH: usize = 2;

/// Entries beyond this are ignored.
const MOST_ENTRIES: usize = 4000;

/// Enough for the parts of any project, and quick on any disk.
const MOST_DIRECTORIES: usize = 200;

/// Directories with generated or third-party files.
const SKIPPED_DIRECTORIES: [&str; 8] =
    ["node_modules", "target", "vendor", "dist", "build", "venv", "third_party", "testdata"];

/// Files to look for in skipped directories.
const NESTED_FILES: [&str; 9] = [
    ".config/nextest.toml",
    ".venv/bin/flake8",
    ".venv/bin/mypy",
    ".venv/bin/pyright",
    ".venv/bin/pytest",
    ".venv/bin/python",
    ".venv/bin/ruff",
    ".venv/bin/tox",
    "bin/rails",
];

/// An agent on the `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstalledAgent {
    pub(crate) command: &'static str,
    /// As the agent reports it.
    pub(crate) version: Option<Version>,
    pub(crate) path: PathBuf,
}

impl InstalledAgent {
    /// Returns the command with its version, if known.
    pub(crate) fn name_and_version(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.command),
            None => self.command.to_owned(),
        }
    }
}

/// Returns the agents that are installed, best first.
pub(crate) fn find_agents(project: &Project, watch: &Watch) -> Vec<InstalledAgent> {
    let mut versions = Versions::open(find_cache_directory(|name| std::env::var_os(name)));
    let place = ProgramContext { directory: &project.directory, env: &project.env, watch };
    let found = agents::list_products().filter_map(|adapter| {
        let command = adapter.kind.name();
        let path = project.find_program(command).ok()?;
        Some(InstalledAgent { command, version: versions.find_version(command, place), path })
    });
    found.collect()
}

/// Returns the commands that check a project.
pub(crate) fn verify_commands(project: &Path) -> Vec<String> {
    find_gates(project).into_iter().map(|found| found.command).collect()
}

/// Returns the commands that check a project, each with the file it was found in.
pub(crate) fn find_gates(project: &Path) -> Vec<ProjectCheck> {
    project_detection::detect_checks(&read_tree(project))
}

fn read_tree(project: &Path) -> ProjectFiles {
    let mut tree =
        ProjectFiles { parent_files: find_names_above(project), ..ProjectFiles::default() };
    let mut directories = vec![(String::new(), 0)];
    let mut seen = 0;
    while let Some((path, depth)) = directories.pop() {
        seen += 1;
        if seen > MOST_DIRECTORIES {
            break;
        }
        let entries = fs::read_dir(project.join(&path)).into_iter().flatten().flatten();
        for entry in entries.take(MOST_ENTRIES) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let inner = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory {
                let is_open =
                    !name.starts_with('.') && !SKIPPED_DIRECTORIES.contains(&name.as_str());
                if is_open && depth < MAX_DEPTH {
                    directories.push((inner, depth + 1));
                }
            } else if entry.path().is_file() {
                let is_read = needs_text(&name);
                let text = if is_read { read_start(&entry.path()) } else { Some(String::new()) };
                tree.files.extend(text.map(|text| (inner, text)));
            }
        }
    }
    let further = NESTED_FILES.into_iter().filter(|path| project.join(path).is_file());
    tree.files.extend(further.map(|path| (path.to_owned(), String::new())));
    tree
}

/// Returns the names of files above a project, up to the top of its repository.
fn find_names_above(project: &Path) -> BTreeSet<String> {
    let Some(top) = project.ancestors().position(|it| it.join(".git").exists()) else {
        return BTreeSet::new();
    };
    let directories = project.ancestors().skip(1).take(top);
    let entries = directories.flat_map(|it| fs::read_dir(it).into_iter().flatten().flatten());
    let files = entries.take(MOST_ENTRIES).filter(|entry| entry.path().is_file());
    files.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Reads the beginning of a file.
fn read_start(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(project: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = project.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("written");
        }
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expect: &[&str]) {
        let project = tempfile::tempdir().expect("a directory");
        write(project.path(), files);
        assert_eq!(verify_commands(project.path()), expect, "{files:?}");
    }

    #[test]
    fn build_files_in_subdirectories_are_found() {
        check(&[], &[]);
        check(&[("Cargo.toml", "[package]\nname = \"a\"\n")], &["cargo test"]);
        check(&[("Cargo.toml", ""), (".config/nextest.toml", "")], &["cargo nextest run"]);
        check(
            &[("services/api/go.mod", "")],
            &["cd services/api && go test ./...", "cd services/api && go vet ./..."],
        );
        check(&[("a/b/c/go.mod", ""), ("node_modules/x/go.mod", ""), (".x/go.mod", "")], &[]);
        check(&[("Gemfile", ""), ("bin/rails", "")], &["bin/rails test"]);
    }

    #[test]
    fn what_lies_above_is_seen_up_to_the_top_of_the_repository() {
        let root = tempfile::tempdir().expect("a directory");
        let package = r#"{"scripts": {"test": "vitest run"}}"#;
        write(
            root.path(),
            &[
                ("bun.lock", ""),
                ("in/.git/HEAD", ""),
                ("in/yarn.lock", ""),
                ("in/packages/a/package.json", package),
            ],
        );
        assert_eq!(verify_commands(&root.path().join("in/packages/a")), ["yarn run test"]);
        fs::remove_file(root.path().join("in/yarn.lock")).expect("removed");
        assert_eq!(verify_commands(&root.path().join("in/packages/a")), ["npm run test"]);
    }

    #[test]
    fn a_pipe_in_place_of_a_build_file_is_not_waited_for() {
        let project = tempfile::tempdir().expect("a directory");
        fs::create_dir(project.path().join("Cargo.toml")).expect("a directory");
        assert_eq!(verify_commands(project.path()), Vec::<String>::new());
    }
}
