//! Finds the repository of a project directory.
//!
//! Not here: anything that changes it.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::ports::VcsError;

use super::command::{FinishedCommand, GitCommand, GitCommands, NotRun};
use super::head::HeadState;
use crate::bounded_read;
use crate::environment::Variables;
use crate::process::Watch;
use crate::sandbox::Launcher;
use crate::store::layout::{PROJECT_DIRECTORY, RUNTIME_FILES, format_ignore_file};

/// A repository with a work tree. ralph works in the whole tree, even if the project is a directory
/// within it.
#[derive(Debug, Clone)]
pub struct GitRepository {
    pub(super) commands: GitCommands,
    pub(super) project: PathBuf,
    pub(super) top: PathBuf,
    pub(super) git_dir: PathBuf,
    /// The file that ralph maintains in the work tree, relative to the top.
    own: Option<Vec<u8>>,
    /// Files and directories with the documents of the run, relative to the top.
    pub(super) documents: Vec<Vec<u8>>,
    is_sparse: bool,
    /// The last seen HEAD; the tree of a commit never changes.
    pub(super) seen: RefCell<Option<HeadState>>,
}

/// The result of looking for a repository.
#[derive(Debug)]
pub enum RepositoryDiscovery {
    Repository(Box<GitRepository>),
    NotFound,
    /// git is not installed, so it is unknown.
    NoGit,
}

impl GitRepository {
    /// Finds the repository that contains a project directory.
    pub fn discover(
        project: &Path,
        env: Vec<(OsString, OsString)>,
        watch: Watch,
    ) -> Result<RepositoryDiscovery, VcsError> {
        Self::discover_with(project, GitCommands::new(env, watch))
    }

    /// Finds the repository with a time limit for each command.
    pub fn discover_within(
        project: &Path,
        env: Vec<(OsString, OsString)>,
        watch: Watch,
        patience: Duration,
    ) -> Result<RepositoryDiscovery, VcsError> {
        Self::discover_with(project, GitCommands::new(env, watch).with_patience(patience))
    }

    /// Sets how commands are started.
    #[must_use]
    pub fn with_launcher(self, launcher: Launcher, env: Variables) -> Self {
        Self { commands: self.commands.with_launcher(launcher, env), ..self }
    }

    fn discover_with(
        project: &Path,
        commands: GitCommands,
    ) -> Result<RepositoryDiscovery, VcsError> {
        let call = GitCommand::new_plumbing(
            project,
            &["rev-parse", "--is-bare-repository", "--is-inside-work-tree"],
        );
        let ran = match commands.try_run(call) {
            Ok(ran) => ran,
            Err(NotRun::NotFound) => return Ok(RepositoryDiscovery::NoGit),
            Err(NotRun::Interrupted) => {
                return Err(VcsError { message: "git was interrupted".to_owned() });
            }
            Err(NotRun::TimedOut { output: message } | NotRun::Other { message }) => {
                return Err(VcsError { message: format!("git could not be run: {message}") });
            }
        };
        if ran.code != 0 {
            return if ran.has_error_text("not a git repository") {
                Ok(RepositoryDiscovery::NotFound)
            } else {
                Err(ran.to_error())
            };
        }
        if ran.stdout != b"false\ntrue\n" {
            return Err(VcsError { message: describe_missing_work_tree(project, &ran) });
        }
        let ask = |args: &[&str]| -> Result<PathBuf, VcsError> {
            let mut output = commands.run_for_output(GitCommand::new_plumbing(project, args))?;
            output.pop();
            Ok(OsString::from_vec(output).into())
        };
        let top = ask(&["rev-parse", "--show-toplevel"])?;
        let git_dir = ask(&["rev-parse", "--absolute-git-dir"])?;
        let sparse = commands.run(GitCommand::new_plumbing(
            project,
            &["config", "--type=bool", "core.sparseCheckout"],
        ))?;
        let project = project.canonicalize().map_err(|error| VcsError {
            message: format!("cannot open `{}`: {error}", project.display()),
        })?;
        Ok(RepositoryDiscovery::Repository(Box::new(Self {
            commands,
            project,
            top,
            git_dir,
            own: None,
            documents: Vec::new(),
            is_sparse: sparse.stdout == b"true\n",
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
        let common =
            self.commands.run_for_output(self.build_plumbing(&args)).ok().map(|mut output| {
                output.pop();
                PathBuf::from(OsString::from_vec(output))
            });
        let mut directories = vec![self.git_dir.clone()];
        directories.extend(common.filter(|common| *common != self.git_dir));
        directories
    }

    /// Sets the file that ralph itself maintains: the task list. Its uncommitted changes are not
    /// the user's, and its backup is never committed.
    pub fn set_own_file(&mut self, file: &Path) {
        self.own = self.resolve_path_from_top(file);
    }

    /// Sets the files and directories with the documents of a run. Their uncommitted changes are no
    /// obstacle: they become part of the first commit, and are not set aside.
    pub fn set_documents(&mut self, documents: &[PathBuf]) {
        self.documents =
            documents.iter().filter_map(|path| self.resolve_path_from_top(path)).collect();
    }

    pub(super) fn resolve_path_from_top(&self, path: &Path) -> Option<Vec<u8>> {
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
    fn backup_path(&self) -> Option<Vec<u8>> {
        self.own.as_ref().map(|own| [own.as_slice(), b".bak"].concat())
    }

    /// Returns a plumbing command in the work tree.
    pub(super) fn build_plumbing(&self, args: &[&str]) -> GitCommand<'_> {
        let call = GitCommand::new_plumbing(&self.top, args);
        // If an agent has removed the repository, git must not find another one further up.
        match self.top.parent() {
            Some(parent) => call.with_env("GIT_CEILING_DIRECTORIES", parent),
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
        self.is_sparse
    }

    /// Returns the path of the user's index.
    pub(super) fn index_path(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Returns the arguments that add everything. Runtime files are removed afterwards: git treats
    /// a pathspec that excludes an ignored path as a request to add it, and complains.
    pub(super) fn build_add_all_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["add".into(), "--all".into()];
        if self.is_sparse {
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
            .backup_path()
            .is_some_and(|path| self.top.join(OsStr::from_bytes(&path)).symlink_metadata().is_ok());
        let expect = format_ignore_file();
        !has_backup
            && bounded_read::read_file(&path, expect.len() as u64 + 1)
                .is_ok_and(|text| text == expect.as_bytes())
    }

    /// Returns whether a path from the top is one of ralph's runtime files.
    pub(super) fn is_runtime_file(&self, path: &[u8]) -> bool {
        if self.backup_path().is_some_and(|backup| backup == path) {
            return true;
        }
        let directory = self.runtime_directory();
        let below = path
            .strip_prefix(directory.as_os_str().as_bytes())
            .and_then(|below| below.strip_prefix(b"/"));
        below.is_some_and(|below| {
            list_runtime_names().any(|name| match name.split_once('*') {
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
    pub(super) fn pathspecs_without_runtime_files(&self) -> impl Iterator<Item = OsString> {
        let directory = self.runtime_directory();
        let excluded = list_runtime_names().map(move |name| {
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
            .backup_path()
            .map(|path| OsString::from_vec([b":(top,exclude,literal)", path.as_slice()].concat()));
        std::iter::once(".".into()).chain(excluded).chain(backup)
    }
}

/// Returns whether a path is `place` or below it.
pub(super) fn is_within(path: &[u8], place: &[u8]) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn list_runtime_names() -> impl Iterator<Item = &'static str> {
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

fn describe_missing_work_tree(project: &Path, ran: &FinishedCommand) -> String {
    let project = project.display();
    if ran.stdout.starts_with(b"true") {
        format!("`{project}` is a bare repository: there is no work tree to work in")
    } else {
        format!("`{project}` lies in a git directory, not in a work tree")
    }
}
