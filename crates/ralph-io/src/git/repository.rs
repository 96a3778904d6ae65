//! Finds the repository of a project directory.
//!
//! Not here: anything that changes it.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::ports::VcsError;

use super::command::{Call, Commands, NotRun, Ran};
use super::head::Head;
use crate::bounded;
use crate::environment::Variables;
use crate::process::Watch;
use crate::sandbox::Launcher;
use crate::store::layout::{PROJECT_DIRECTORY, RUNTIME_FILES, ignore_file};

/// A repository with a work tree. ralph works in the whole tree, even if the project is a directory
/// within it.
#[derive(Debug, Clone)]
pub struct Repository {
    pub(super) commands: Commands,
    pub(super) project: PathBuf,
    pub(super) top: PathBuf,
    pub(super) git_dir: PathBuf,
    /// The file that ralph maintains in the work tree, relative to the top.
    own: Option<Vec<u8>>,
    /// Files and directories with the documents of the run, relative to the top.
    pub(super) documents: Vec<Vec<u8>>,
    sparse: Sparse,
    /// The last seen HEAD; the tree of a commit never changes.
    pub(super) seen: RefCell<Option<Head>>,
}

/// The result of looking for a repository.
#[derive(Debug)]
pub enum Discovery {
    Repository(Box<Repository>),
    None,
    /// git is not installed, so it is unknown.
    NoGit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sparse {
    Yes,
    No,
}

impl Repository {
    /// Finds the repository that contains a project directory.
    pub fn discover(
        project: &Path,
        env: Vec<(OsString, OsString)>,
        watch: Watch,
    ) -> Result<Discovery, VcsError> {
        Self::discover_with(project, Commands::new(env, watch))
    }

    /// Finds the repository with a time limit for each command.
    pub fn discover_within(
        project: &Path,
        env: Vec<(OsString, OsString)>,
        watch: Watch,
        patience: Duration,
    ) -> Result<Discovery, VcsError> {
        Self::discover_with(project, Commands::new(env, watch).within(patience))
    }

    /// Sets how commands are started.
    #[must_use]
    pub fn launched_by(self, launcher: Launcher, env: Variables) -> Self {
        Self { commands: self.commands.launched_by(launcher, env), ..self }
    }

    fn discover_with(project: &Path, commands: Commands) -> Result<Discovery, VcsError> {
        let call =
            Call::git(project, &["rev-parse", "--is-bare-repository", "--is-inside-work-tree"]);
        let ran = match commands.attempt(call) {
            Ok(ran) => ran,
            Err(NotRun::NotFound) => return Ok(Discovery::NoGit),
            Err(NotRun::Interrupted) => {
                return Err(VcsError { message: "git was interrupted".to_owned() });
            }
            Err(NotRun::TimedOut { words: message } | NotRun::Other { message }) => {
                return Err(VcsError { message: format!("git could not be run: {message}") });
            }
        };
        if ran.code != 0 {
            return if ran.complains_of("not a git repository") {
                Ok(Discovery::None)
            } else {
                Err(ran.failed())
            };
        }
        if ran.stdout != b"false\ntrue\n" {
            return Err(VcsError { message: no_work_tree(project, &ran) });
        }
        let ask = |args: &[&str]| -> Result<PathBuf, VcsError> {
            let mut output = commands.output(Call::git(project, args))?;
            output.pop();
            Ok(OsString::from_vec(output).into())
        };
        let top = ask(&["rev-parse", "--show-toplevel"])?;
        let git_dir = ask(&["rev-parse", "--absolute-git-dir"])?;
        let sparse =
            commands.run(Call::git(project, &["config", "--type=bool", "core.sparseCheckout"]))?;
        let sparse = if sparse.stdout == b"true\n" { Sparse::Yes } else { Sparse::No };
        let project = project.canonicalize().map_err(|error| VcsError {
            message: format!("cannot open `{}`: {error}", project.display()),
        })?;
        Ok(Discovery::Repository(Box::new(Self {
            commands,
            project,
            top,
            git_dir,
            own: None,
            documents: Vec::new(),
            sparse,
            seen: RefCell::default(),
        })))
    }

    /// Returns the top directory of the work tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the directories that hold the history. A linked work tree has two.
    pub fn history_directories(&self) -> Vec<PathBuf> {
        let args = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = self.commands.output(self.git(&args)).ok().map(|mut output| {
            output.pop();
            PathBuf::from(OsString::from_vec(output))
        });
        let mut directories = vec![self.git_dir.clone()];
        directories.extend(common.filter(|common| *common != self.git_dir));
        directories
    }

    /// Sets the file that ralph itself maintains: the task list. Its uncommitted changes are not
    /// the user's, and its backup is never committed.
    pub fn keeps(&mut self, file: &Path) {
        self.own = self.path_from_top(file);
    }

    /// Sets the files and directories with the documents of a run. Their uncommitted changes are no
    /// obstacle: they become part of the first commit, and are not set aside.
    pub fn is_about(&mut self, documents: &[PathBuf]) {
        self.documents = documents.iter().filter_map(|path| self.path_from_top(path)).collect();
    }

    pub(super) fn path_from_top(&self, path: &Path) -> Option<Vec<u8>> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let top = self.top.canonicalize().unwrap_or_else(|_| self.top.clone());
        real.strip_prefix(top).ok().map(|path| path.as_os_str().as_bytes().to_vec())
    }

    /// Returns whether some of the work tree belongs to the run itself.
    pub(super) fn owns_something(&self) -> bool {
        self.own.is_some() || !self.documents.is_empty()
    }

    /// Returns whether a path from the top belongs to the run itself.
    pub(super) fn owns(&self, path: &[u8]) -> bool {
        self.own.as_deref() == Some(path)
            || self.documents.iter().any(|place| is_within(path, place))
    }

    /// Returns the backup of the task list, relative to the top.
    fn backup(&self) -> Option<Vec<u8>> {
        self.own.as_ref().map(|own| [own.as_slice(), b".bak"].concat())
    }

    /// Returns a plumbing command in the work tree.
    pub(super) fn git(&self, args: &[&str]) -> Call<'_> {
        let call = Call::git(&self.top, args);
        // If an agent has removed the repository, git must not find another one further up.
        match self.top.parent() {
            Some(parent) => call.env("GIT_CEILING_DIRECTORIES", parent),
            None => call,
        }
    }

    /// Removes pipes and sockets from which git would read rules: it would wait for a writer
    /// forever. They hold no content. Deeper in the tree they make git run into its time limit.
    pub(super) fn clear_pipes(&self) {
        let own = self.project.join(PROJECT_DIRECTORY);
        for directory in [&self.top, &self.project, &own] {
            for name in [".gitignore", ".gitattributes", ".gitmodules"] {
                let path = directory.join(name);
                let kind = path.symlink_metadata().map(|about| about.file_type());
                if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir() && !kind.is_symlink()) {
                    // If this fails, git reports the problem.
                    let _ = std::fs::remove_file(path);
                }
            }
        }
    }

    /// Returns whether the work tree is a sparse checkout.
    pub(super) fn is_sparse(&self) -> bool {
        self.sparse == Sparse::Yes
    }

    /// Returns the path of the user's index.
    pub(super) fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Returns the arguments that add everything. Runtime files are removed afterwards: git treats
    /// a pathspec that excludes an ignored path as a request to add it, and complains.
    pub(super) fn add_everything(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["add".into(), "--all".into()];
        if self.sparse == Sparse::Yes {
            args.push("--sparse".into());
        }
        args.extend(["--".into(), ".".into()]);
        args
    }

    /// Returns whether git skips the runtime files by itself, because ralph's own `.gitignore` is
    /// unchanged.
    pub(super) fn ignores_runtime_files(&self) -> bool {
        let path = self.project.join(PROJECT_DIRECTORY).join(".gitignore");
        let has_backup = self
            .backup()
            .is_some_and(|path| self.top.join(OsStr::from_bytes(&path)).symlink_metadata().is_ok());
        let expect = ignore_file();
        !has_backup
            && bounded::read_file(&path, expect.len() as u64 + 1)
                .is_ok_and(|text| text == expect.as_bytes())
    }

    /// Returns whether a path from the top is one of ralph's runtime files.
    pub(super) fn is_runtime_file(&self, path: &[u8]) -> bool {
        if self.backup().is_some_and(|backup| backup == path) {
            return true;
        }
        let directory = self.runtime_directory();
        let below = path
            .strip_prefix(directory.as_os_str().as_bytes())
            .and_then(|below| below.strip_prefix(b"/"));
        below.is_some_and(|below| {
            runtime_names().any(|name| match name.split_once('*') {
                Some((start, end)) => {
                    below.starts_with(start.as_bytes())
                        && below.ends_with(end.as_bytes())
                        && !below.contains(&b'/')
                }
                None => below
                    .strip_prefix(name.as_bytes())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/")),
            })
        })
    }

    fn runtime_directory(&self) -> PathBuf {
        let directory = self.project.strip_prefix(&self.top).unwrap_or(Path::new(""));
        directory.join(PROJECT_DIRECTORY)
    }

    /// Returns pathspecs for the whole tree except ralph's runtime files.
    pub(super) fn all_but_runtime_files(&self) -> impl Iterator<Item = OsString> {
        let directory = self.runtime_directory();
        let excluded = runtime_names().map(move |name| {
            let (magic, directory) = if name.contains('*') {
                (":(top,exclude,glob)", escape_glob(directory.as_os_str()))
            } else {
                (":(top,exclude,literal)", directory.as_os_str().to_owned())
            };
            let mut path = OsString::from(magic);
            path.push(directory);
            path.push("/");
            path.push(name);
            path
        });
        let backup = self
            .backup()
            .map(|path| OsString::from_vec([b":(top,exclude,literal)", path.as_slice()].concat()));
        std::iter::once(".".into()).chain(excluded).chain(backup)
    }
}

/// Returns whether a path is `place` or below it.
pub(super) fn is_within(path: &[u8], place: &[u8]) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn runtime_names() -> impl Iterator<Item = &'static str> {
    // A `.gitignore` that ralph wrote ignores itself; any other belongs to the project.
    let patterns = RUNTIME_FILES.iter().filter(|pattern| **pattern != "/.gitignore");
    patterns.map(|pattern| pattern.trim_matches('/'))
}

fn escape_glob(path: &OsStr) -> OsString {
    let mut escaped = Vec::new();
    for byte in path.as_bytes() {
        if b"*?[\\".contains(byte) {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    OsString::from_vec(escaped)
}

fn no_work_tree(project: &Path, ran: &Ran) -> String {
    let project = project.display();
    if ran.stdout.starts_with(b"true") {
        format!("`{project}` is a bare repository: there is no work tree to work in")
    } else {
        format!("`{project}` lies in a git directory, not in a work tree")
    }
}
