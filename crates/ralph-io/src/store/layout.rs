//! Where things live: the state directory, the runs in it, and `.ralph/` in the project.
//!
//! Not here: what the files hold.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ralph_core::ids::{AskNumber, IterationNumber, RunId};
use serde::{Deserialize, Serialize};

use super::atomic;

/// What ralph writes into `.ralph/` while it runs, as patterns of a `.gitignore` there. These are
/// never committed and never make a tree dirty; what is not listed belongs to the project.
pub const RUNTIME_FILES: [&str; 12] = [
    "/.gitignore",
    "/.*.tmp",
    "/*.bak",
    "/context/",
    "/damaged-tasks.json",
    "/guardrail_*.log",
    "/handoffs/",
    "/logs/",
    "/memory.jsonl*",
    "/settings.local.json",
    "/state.json",
    "/state.md",
];

/// What git itself writes of a run directory.
pub const GIT_SCRATCH: &str = "git";

/// The directory in the state of a project for caches of its agents and gates.
pub const CACHE_DIRECTORY: &str = "cache";

/// The name of ralph's directory in a project.
pub const PROJECT_DIRECTORY: &str = ".ralph";

/// The places of one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    project: PathBuf,
    state: PathBuf,
}

/// A place that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// Nothing says where the state directory is.
    #[error(
        "there is no place for ralph's state: neither HOME nor XDG_STATE_HOME is set, and `stateDir` is not given"
    )]
    NoHome,
    /// The project directory cannot be resolved.
    #[error("cannot open the project directory `{}`", .path.display())]
    NoProject {
        /// The directory.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The project's path cannot be written into the journal.
    #[error("the path of the project directory is not valid UTF-8: `{}`", .path.display())]
    NotText {
        /// The directory.
        path: PathBuf,
    },
    /// Something else stands where a directory belongs. It might be a link that an agent left,
    /// so it is not followed.
    #[error("`{}` is not a directory; remove it, ralph makes its own", .path.display())]
    NotDirectory {
        /// The place.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} `{}`", .path.display())]
    Refused {
        /// What was tried.
        doing: &'static str,
        /// The place.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
}

/// Returns the directory above the state of all projects: `stateDir` where it is given, else
/// `$XDG_STATE_HOME/ralph`, else `~/.local/state/ralph`.
pub fn state_root(
    stated: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, LayoutError> {
    if let Some(stated) = stated {
        return Ok(stated.to_owned());
    }
    // A relative path here is to be ignored, by the rules for these variables.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|directory| directory.join("ralph"))
        .ok_or(LayoutError::NoHome)
}

impl Layout {
    /// Returns the places of a project in a state root.
    ///
    /// `work_tree` is the top of the repository's work tree, or the project directory itself
    /// where there is no repository: one run at a time is what a work tree can bear.
    pub fn locate(project: &Path, work_tree: &Path, root: &Path) -> Result<Self, LayoutError> {
        let resolve = |path: &Path| {
            path.canonicalize()
                .map_err(|source| LayoutError::NoProject { path: path.to_owned(), source })
        };
        let (project, work_tree) = (resolve(project)?, resolve(work_tree)?);
        if project.to_str().is_none() {
            return Err(LayoutError::NotText { path: project });
        }
        let root = std::path::absolute(root).map_err(|source| LayoutError::Refused {
            doing: "resolve",
            path: root.to_owned(),
            source,
        })?;
        Ok(Self { project, state: root.join(state_name(&work_tree)) })
    }

    /// Returns the project directory.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// Returns the project's state directory, which holds the lock.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the file that is there while a run is active.
    pub fn active(&self) -> PathBuf {
        self.state.join("active.json")
    }

    /// Returns the directory of all runs.
    pub fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Returns the directory of a run.
    pub fn run(&self, run: &RunId) -> RunDir {
        RunDir { path: self.runs().join(&run.0) }
    }

    /// Returns ralph's directory in the project.
    pub fn project_files(&self) -> PathBuf {
        self.project.join(PROJECT_DIRECTORY)
    }

    /// Makes the state directory, and writes down which project it belongs to, so that the runs
    /// of a directory that was moved can be found.
    pub fn prepare_state(&self) -> Result<(), LayoutError> {
        let runs = self.runs();
        private_directories(&runs).map_err(|source| LayoutError::Refused {
            doing: "create",
            path: runs,
            source,
        })?;
        let path = self.state.join("project.json");
        let known = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let project = ProjectFile { version: 1, path: self.project.clone() };
        if known.as_ref() == Some(&project) {
            return Ok(());
        }
        write_json(&path, &project).map_err(|source| LayoutError::Refused {
            doing: "write",
            path,
            source,
        })
    }

    /// Makes `.ralph/` in the project, with a `.gitignore` for the runtime files unless there is
    /// one.
    pub fn prepare_project(&self) -> Result<(), LayoutError> {
        let directory = self.project_files();
        real_directory(&directory)?;
        let path = directory.join(".gitignore");
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = match file {
            Ok(mut file) => file.write_all(ignore_file().as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        written.map_err(|source| LayoutError::Refused { doing: "write", path, source })
    }

    /// Makes a directory under `.ralph/` and returns it. Nothing on the way may be a link.
    pub fn project_directory(&self, parts: &[&str]) -> Result<PathBuf, LayoutError> {
        self.prepare_project()?;
        let mut directory = self.project_files();
        for part in parts {
            directory.push(part);
            real_directory(&directory)?;
        }
        Ok(directory)
    }
}

/// The files of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Returns a run's files in a directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the journal.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// Returns the copy of the task file as ralph last saw it well.
    pub fn tasks(&self) -> PathBuf {
        self.path().join("tasks.json")
    }

    /// Returns when the run was last heard of: in its journal, or from an agent.
    pub fn last_heard(&self) -> Option<SystemTime> {
        let is_of_run = |name: &OsStr| {
            let path = Path::new(name);
            path == Path::new("journal.jsonl") || path.extension() == Some(OsStr::new("zst"))
        };
        let entries = fs::read_dir(&self.path).ok()?.flatten();
        let entries = entries.filter(|entry| is_of_run(&entry.file_name()));
        entries.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max()
    }

    /// Returns the raw stream of a call to an agent.
    pub fn stream(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.call(iteration, ask, "ndjson.zst")
    }

    /// Returns the prompt of a call to an agent.
    pub fn prompt(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.call(iteration, ask, "prompt.md")
    }

    /// Returns how a call to an agent ended.
    pub fn end(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.call(iteration, ask, "end.json")
    }

    /// Returns the schema of the answer that a call to an agent is to bring.
    pub fn schema(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.call(iteration, ask, "schema.json")
    }

    /// Returns where an agent may leave its answer.
    pub fn answer(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.call(iteration, ask, "answer.md")
    }

    fn call(&self, iteration: IterationNumber, ask: AskNumber, extension: &str) -> PathBuf {
        self.path.join(match ask {
            AskNumber(0 | 1) => format!("agent-{iteration}.{extension}"),
            AskNumber(ask) => format!("agent-{iteration}-{ask}.{extension}"),
        })
    }
}

/// A project that has a state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProject {
    /// Where the project was when it was last used.
    pub project: PathBuf,
    /// Its state directory.
    pub state: PathBuf,
}

/// Returns all projects that have a state directory under a root, in the order of their paths.
pub fn list_projects(root: &Path) -> Vec<KnownProject> {
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    let mut known: Vec<KnownProject> = entries
        .flatten()
        .filter_map(|entry| {
            let bytes = fs::read(entry.path().join("project.json")).ok()?;
            let project: ProjectFile = serde_json::from_slice(&bytes).ok()?;
            Some(KnownProject { project: project.path, state: entry.path() })
        })
        .collect();
    known.sort_by(|one, other| one.project.cmp(&other.project));
    known
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProjectFile {
    version: u32,
    path: PathBuf,
}

/// Writes a value as JSON for people, replacing the file.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    atomic::replace(path, &pretty(value)?)
}

/// Writes a value like [`write_json`], without waiting for the disk.
pub(crate) fn write_json_in_passing(path: &Path, value: &impl Serialize) -> io::Result<()> {
    atomic::replace_in_passing(path, &pretty(value)?)
}

fn pretty(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Tries whether files can be made in a directory, or in the first one above it that is there.
/// Nothing is left behind.
pub fn try_writing(path: &Path) -> io::Result<()> {
    let there = path.ancestors().find(|directory| directory.is_dir()).unwrap_or(path);
    tempfile::Builder::new().prefix(".ralph-try-").tempfile_in(there).map(drop)
}

/// Makes a directory and those above it, for the owner only.
pub(crate) fn private_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a directory unless it is there; a link is not taken for one.
fn real_directory(path: &Path) -> Result<(), LayoutError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(LayoutError::NotDirectory { path: path.to_owned() }),
        Err(_) => DirBuilder::new().mode(0o700).create(path).map_err(|source| {
            LayoutError::Refused { doing: "create", path: path.to_owned(), source }
        }),
    }
}

/// Returns the `.gitignore` that keeps the runtime files out of the repository.
pub(crate) fn ignore_file() -> String {
    format!("# Written by ralph: its runtime files.\n{}\n", RUNTIME_FILES.join("\n"))
}

/// A name that a person recognizes, and that no other path has.
fn state_name(work_tree: &Path) -> String {
    let name = work_tree.file_name().unwrap_or_default().to_string_lossy();
    let mut slug = String::new();
    for character in name.chars().take(40) {
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = match slug.trim_end_matches('-') {
        "" => "project",
        slug => slug,
    };
    let hash = fnv1a(work_tree.as_os_str().as_encoded_bytes());
    format!("{slug}-{:012x}", hash & 0xffff_ffff_ffff)
}

/// FNV-1a: the name must be the same for every version of ralph, which std does not promise.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn project() -> (tempfile::TempDir, Layout) {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path().join("My Project!");
        fs::create_dir(&project).expect("a project");
        let layout = Layout::locate(&project, &project, &directory.path().join("state"));
        (directory, layout.expect("located"))
    }

    #[test]
    fn the_root_is_stated_or_follows_the_variables() {
        for (stated, home, xdg, expect) in [
            (Some("/ci"), Some("/home/u"), Some("/x"), Some("/ci")),
            (None, Some("/home/u"), None, Some("/home/u/.local/state/ralph")),
            (None, Some("/home/u"), Some("/x"), Some("/x/ralph")),
            (None, Some("/home/u"), Some("relative"), Some("/home/u/.local/state/ralph")),
            (None, Some(""), None, None),
            (None, None, None, None),
        ] {
            let variable = |name: &str| if name == "HOME" { home } else { xdg }.map(Into::into);
            let found = state_root(stated.map(Path::new), variable);
            assert_eq!(found.ok(), expect.map(PathBuf::from), "{stated:?} {home:?} {xdg:?}");
        }
    }

    #[test]
    fn the_state_directory_is_readable_and_unique() {
        // The hash is part of the format: another value would hide all earlier runs.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        for (path, expect) in [
            ("/home/u/My Project!", "my-project-"),
            ("/", "project-"),
            ("/x/äö", "project-"),
            ("/x/.dot.", "dot-"),
        ] {
            let name = state_name(Path::new(path));
            let (slug, hash) = name.split_at(name.len() - 12);
            assert_eq!(slug, expect, "{path}");
            assert!(hash.chars().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        }
        assert_ne!(state_name(Path::new("/a/x")), state_name(Path::new("/b/x")));
    }

    #[test]
    fn state_is_the_owners_and_knows_its_project() {
        let (directory, layout) = project();
        layout.prepare_state().expect("prepared");
        layout.prepare_state().expect("prepared again");
        let mode = fs::metadata(layout.state()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let known = list_projects(&directory.path().join("state"));
        assert_eq!(
            known,
            [KnownProject {
                project: layout.project().to_owned(),
                state: layout.state().to_owned()
            }]
        );
        assert_eq!(list_projects(&directory.path().join("nowhere")), []);
    }

    #[test]
    fn runtime_files_are_ignored_and_the_projects_own_are_not() {
        let (_directory, layout) = project();
        layout.prepare_project().expect("prepared");
        let ignore = layout.project_files().join(".gitignore");
        assert!(fs::read_to_string(&ignore).expect("written").contains("\n/state.json\n"));
        fs::write(&ignore, "mine").expect("written");
        layout.project_directory(&["logs", "validation"]).expect("made");
        assert_eq!(fs::read_to_string(&ignore).expect("kept"), "mine");
    }

    #[test]
    fn links_are_not_followed() {
        let (directory, layout) = project();
        let elsewhere = directory.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a directory");
        std::os::unix::fs::symlink(&elsewhere, layout.project_files()).expect("a link");
        let error = layout.prepare_project().expect_err("refused").to_string();
        assert!(error.ends_with("is not a directory; remove it, ralph makes its own"), "{error}");

        fs::remove_file(layout.project_files()).expect("removed");
        layout.prepare_project().expect("made");
        std::os::unix::fs::symlink(&elsewhere, layout.project_files().join("logs"))
            .expect("a link");
        layout.project_directory(&["logs", "validation"]).expect_err("refused");
        assert_eq!(fs::read_dir(&elsewhere).expect("readable").count(), 0);
    }

    #[test]
    fn calls_are_told_apart_by_name() {
        let run = RunDir::at("/r");
        let (first, second) = (AskNumber(1), AskNumber(2));
        assert_eq!(run.stream(IterationNumber(7), first), Path::new("/r/agent-7.ndjson.zst"));
        assert_eq!(run.prompt(IterationNumber(7), second), Path::new("/r/agent-7-2.prompt.md"));
        assert_eq!(run.end(IterationNumber(7), first), Path::new("/r/agent-7.end.json"));
    }
}
