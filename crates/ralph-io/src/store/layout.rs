//! Where files are: the state directory, the runs in it, and `.ralph/` in the project.
//!
//! Not here: their content.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ralph_model::ids::{AskNumber, IterationNumber, RunId, WorkerId};
use serde::{Deserialize, Serialize};

use crate::atomic_file;

/// What ralph writes into `.ralph/` while it runs, as patterns of a `.gitignore` there. These files
/// are never committed and never make a tree dirty; everything else belongs to the project.
pub const RUNTIME_FILES: [&str; 13] = [
    "/.gitignore",
    "/.*.tmp",
    "/*.bak",
    "/context/",
    "/damaged-tasks.json",
    "/guardrail_*.log",
    "/handoffs/",
    "/logs/",
    "/memory.jsonl*",
    "/report-*.html",
    "/settings.local.json",
    "/state.json",
    "/state.md",
];

/// The part of a run directory that git itself writes.
pub const GIT_SCRATCH: &str = "git";

/// The directory for caches of agents and gates, in the state directory of a project.
pub const CACHE_DIRECTORY: &str = "cache";

/// The directory of the clones of workers, in the state root or where the settings want it. The
/// clones of a project are in `clones/PROJECT/s1`, `s2` and so on.
pub(crate) const CLONES_DIRECTORY: &str = "clones";

/// The name of ralph's directory in a project.
pub const PROJECT_DIRECTORY: &str = ".ralph";

/// The directories of one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectLayout {
    project: PathBuf,
    state: PathBuf,
}

/// A directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// It is unknown where the state directory is.
    #[error(
        "there is no place for ralph's state: neither HOME nor XDG_STATE_HOME is an absolute path, and `stateDir` is not given"
    )]
    NoHome,
    /// The project directory cannot be resolved.
    #[error("cannot open the project directory `{}`", .path.display())]
    NoProject { path: PathBuf, source: io::Error },
    /// The project's path cannot be written to the journal.
    #[error("the path of the project directory is not valid UTF-8: `{}`", .path.display())]
    NotText { path: PathBuf },
    /// Something else is in place of a directory. An agent may have left a link, so it is not
    /// followed.
    #[error("`{}` is not a directory; remove it, ralph makes its own", .path.display())]
    NotDirectory { path: PathBuf },
    /// The operation failed.
    #[error("cannot {doing} `{}`", .path.display())]
    Refused { doing: &'static str, path: PathBuf, source: io::Error },
}

/// Returns the directory of the state of all projects: `stateDir` if it is set, else
/// `$XDG_STATE_HOME/ralph`, else `~/.local/state/ralph`.
pub fn find_state_root(
    stated: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, LayoutError> {
    if let Some(stated) = stated {
        return Ok(stated.to_owned());
    }
    // The XDG rules demand that a relative path is ignored.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|directory| directory.join("ralph"))
        .ok_or(LayoutError::NoHome)
}

impl ProjectLayout {
    /// Returns the directories of a project in a state root.
    ///
    /// `work_tree` is the top of the repository's work tree, or the project directory itself if
    /// there is no repository: only one run at a time may use a work tree.
    pub fn for_project(project: &Path, work_tree: &Path, root: &Path) -> Result<Self, LayoutError> {
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
        Ok(Self { project, state: root.join(format_state_name(&work_tree)) })
    }

    /// Returns the project directory.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// Returns the project's state directory, which holds the lock.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the state directory of all projects.
    pub fn root(&self) -> &Path {
        self.state.parent().unwrap_or(&self.state)
    }

    /// Returns the path of the file that exists while a run is active.
    pub fn active_path(&self) -> PathBuf {
        self.state.join("active.json")
    }

    /// Returns the directory in which a run leaves copies of git objects for the next one.
    pub fn git_objects_path(&self) -> PathBuf {
        self.state.join("git-objects")
    }

    /// Returns the directory of all runs.
    pub fn runs_path(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Returns the directory of a run.
    pub fn run_dir(&self, run: &RunId) -> RunDir {
        RunDir { path: self.runs_path().join(&run.0) }
    }

    /// Returns ralph's directory in the project.
    pub fn project_files(&self) -> PathBuf {
        self.project.join(PROJECT_DIRECTORY)
    }

    /// Creates the state directory, and records which project it belongs to, so that the runs of a
    /// project that was moved can be found.
    pub fn prepare_state(&self) -> Result<(), LayoutError> {
        let runs = self.runs_path();
        create_private_directories(&runs).map_err(|source| LayoutError::Refused {
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

    /// Creates `.ralph/` in the project, with a `.gitignore` for the runtime files if there is
    /// none.
    pub fn prepare_project(&self) -> Result<(), LayoutError> {
        let directory = self.project_files();
        ensure_real_directory(&directory)?;
        let path = directory.join(".gitignore");
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = match file {
            Ok(mut file) => file.write_all(format_ignore_file().as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        written.map_err(|source| LayoutError::Refused { doing: "write", path, source })
    }

    /// Creates a directory under `.ralph/` and returns it. Fails if anything on the way is a link.
    pub fn create_project_directory(&self, parts: &[&str]) -> Result<PathBuf, LayoutError> {
        self.prepare_project()?;
        let mut directory = self.project_files();
        for part in parts {
            directory.push(part);
            ensure_real_directory(&directory)?;
        }
        Ok(directory)
    }

    /// Creates `.ralph/` and returns the path for the old content of a task file that is replaced.
    /// Next to the list, the backup would be an untracked file of the user.
    pub fn prepare_backup_path(&self, file: &Path) -> Result<PathBuf, LayoutError> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".bak");
        Ok(self.create_project_directory(&[])?.join(name))
    }
}

/// The files of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Returns the files of a run in a directory.
    pub fn from_path(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the journal.
    pub fn journal_path(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// Returns the path of the last good copy of the task file.
    pub fn tasks_path(&self) -> PathBuf {
        self.path().join("tasks.json")
    }

    /// Returns the time of the last write to the run's journal or an agent's stream.
    pub fn find_last_activity(&self) -> Option<SystemTime> {
        let is_of_run = |name: &OsStr| {
            let path = Path::new(name);
            path == Path::new("journal.jsonl") || path.extension() == Some(OsStr::new("zst"))
        };
        let entries = fs::read_dir(&self.path).ok()?.flatten();
        let entries = entries.filter(|entry| is_of_run(&entry.file_name()));
        entries.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max()
    }

    /// Returns the path of the raw stream of an agent call.
    pub fn stream_path(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.build_call_path(iteration, ask, "ndjson.zst")
    }

    /// Returns the path of the prompt of an agent call.
    pub fn prompt_path(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.build_call_path(iteration, ask, "prompt.md")
    }

    /// Returns the path of the record how an agent call ended.
    pub fn end_path(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.build_call_path(iteration, ask, "end.json")
    }

    /// Returns the path of the schema for the answer of an agent call.
    pub fn schema_path(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.build_call_path(iteration, ask, "schema.json")
    }

    /// Returns where an agent may write its answer.
    pub fn answer_path(&self, iteration: IterationNumber, ask: AskNumber) -> PathBuf {
        self.build_call_path(iteration, ask, "answer.md")
    }

    fn build_call_path(
        &self,
        iteration: IterationNumber,
        ask: AskNumber,
        extension: &str,
    ) -> PathBuf {
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
    pub state: PathBuf,
}

/// Returns all projects with a state directory in a root, sorted by path, without the clones of
/// workers.
pub fn list_projects(root: &Path) -> Vec<KnownProject> {
    let mut known: Vec<KnownProject> =
        read_projects(root).filter(|it| !is_in_worker_clone(&it.project)).collect();
    known.sort_by(|one, other| one.project.cmp(&other.project));
    known
}

/// Returns whether a directory is the clone of a worker or in one.
pub fn is_in_worker_clone(path: &Path) -> bool {
    path.ancestors().skip(1).any(|slot| {
        let name = slot.file_name().and_then(OsStr::to_str);
        let clones = slot.parent().and_then(Path::parent).and_then(Path::file_name);
        name.and_then(parse_slot_number).is_some() && clones == Some(OsStr::new(CLONES_DIRECTORY))
    })
}

/// Returns the number in the name of a slot, such as `s2`.
pub(crate) fn parse_slot_number(name: &str) -> Option<u32> {
    name.strip_prefix('s')?.parse().ok()
}

/// Returns where the run of a worker is, whose id is unique in a root. Its clone may be gone.
pub fn find_worker_run(root: &Path, worker: &WorkerId) -> Option<KnownProject> {
    let find_run = |state: &Path| RunDir::from_path(state.join("runs").join(&worker.0));
    read_projects(root).find(|it| find_run(&it.state).journal_path().is_file())
}

fn read_projects(root: &Path) -> impl Iterator<Item = KnownProject> {
    fs::read_dir(root).into_iter().flatten().flatten().filter_map(|entry| {
        let bytes = fs::read(entry.path().join("project.json")).ok()?;
        let project: ProjectFile = serde_json::from_slice(&bytes).ok()?;
        Some(KnownProject { project: project.path, state: entry.path() })
    })
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProjectFile {
    pub(super) version: u32,
    pub(super) path: PathBuf,
}

/// Writes a value as indented JSON, replacing the file.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    atomic_file::replace_file(path, &to_pretty_json(value)?)
}

/// Writes a value like [`write_json`], without syncing.
pub(crate) fn write_json_unsynced(path: &Path, value: &impl Serialize) -> io::Result<()> {
    atomic_file::replace_unsynced(path, &to_pretty_json(value)?)
}

fn to_pretty_json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Checks that files can be created in a directory, or in its closest existing parent. Leaves
/// nothing behind.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let there = path.ancestors().find(|directory| directory.is_dir()).unwrap_or(path);
    tempfile::Builder::new().prefix(".ralph-try-").tempfile_in(there).map(drop)
}

/// Creates a directory and its parents, accessible by the owner only.
pub(crate) fn create_private_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a directory unless it exists; fails for a link.
fn ensure_real_directory(path: &Path) -> Result<(), LayoutError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(LayoutError::NotDirectory { path: path.to_owned() }),
        Err(_) => DirBuilder::new().mode(0o700).create(path).map_err(|source| {
            LayoutError::Refused { doing: "create", path: path.to_owned(), source }
        }),
    }
}

/// Returns the `.gitignore` that keeps the runtime files out of the repository.
pub(crate) fn format_ignore_file() -> String {
    format!("# Written by ralph: its runtime files.\n{}\n", RUNTIME_FILES.join("\n"))
}

/// Returns a readable name that no other path has.
pub(crate) fn format_state_name(work_tree: &Path) -> String {
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
    let hash = hash_fnv1a(work_tree.as_os_str().as_encoded_bytes());
    format!("{slug}-{:012x}", hash & 0xffff_ffff_ffff)
}

/// FNV-1a: the name must be the same for every version of ralph, which std does not guarantee.
pub(crate) fn hash_fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn project() -> (tempfile::TempDir, ProjectLayout) {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path().join("My Project!");
        fs::create_dir(&project).expect("a project");
        let layout =
            ProjectLayout::for_project(&project, &project, &directory.path().join("state"));
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
            let found = find_state_root(stated.map(Path::new), variable);
            assert_eq!(found.ok(), expect.map(PathBuf::from), "{stated:?} {home:?} {xdg:?}");
        }
    }

    #[test]
    fn the_state_directory_is_readable_and_unique() {
        // The hash is part of the format: another value would hide all earlier runs.
        assert_eq!(hash_fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash_fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        for (path, expect) in [
            ("/home/u/My Project!", "my-project-"),
            ("/", "project-"),
            ("/x/äö", "project-"),
            ("/x/.dot.", "dot-"),
        ] {
            let name = format_state_name(Path::new(path));
            let (slug, hash) = name.split_at(name.len() - 12);
            assert_eq!(slug, expect, "{path}");
            assert!(hash.chars().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        }
        assert_ne!(format_state_name(Path::new("/a/x")), format_state_name(Path::new("/b/x")));
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
    fn clones_of_workers_are_no_projects() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("state");
        for (path, is_clone) in [
            ("clones/app-0123/s12/app", true),
            ("clones/app-0123/s1/app/below", true),
            ("clones/app-0123/s1", false),
            ("clones/s1/app", false),
            ("clones/app-0123/src/app", false),
        ] {
            let project = directory.path().join(path);
            fs::create_dir_all(&project).expect("made");
            assert_eq!(is_in_worker_clone(&project), is_clone, "{path}");
            let layout = ProjectLayout::for_project(&project, &project, &root).expect("located");
            layout.prepare_state().expect("prepared");
        }
        assert_eq!(list_projects(&root).len(), 3);
    }

    #[test]
    fn runtime_files_are_ignored_and_the_projects_own_are_not() {
        let (_directory, layout) = project();
        layout.prepare_project().expect("prepared");
        let ignore = layout.project_files().join(".gitignore");
        assert!(fs::read_to_string(&ignore).expect("written").contains("\n/state.json\n"));
        fs::write(&ignore, "mine").expect("written");
        layout.create_project_directory(&["logs", "validation"]).expect("made");
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
        layout.create_project_directory(&["logs", "validation"]).expect_err("refused");
        assert_eq!(fs::read_dir(&elsewhere).expect("readable").count(), 0);
    }

    #[test]
    fn calls_have_distinct_names() {
        let run = RunDir::from_path("/r");
        let (first, second) = (AskNumber(1), AskNumber(2));
        assert_eq!(run.stream_path(IterationNumber(7), first), Path::new("/r/agent-7.ndjson.zst"));
        assert_eq!(
            run.prompt_path(IterationNumber(7), second),
            Path::new("/r/agent-7-2.prompt.md")
        );
        assert_eq!(run.end_path(IterationNumber(7), first), Path::new("/r/agent-7.end.json"));
    }
}
