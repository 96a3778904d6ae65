//! Finds the repository of a project directory.
//!
//! Not here: anything that changes it.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ralph_core::ports::VcsError;

use super::command::{FinishedCommand, GitCommand, GitCommands, NotRun};
use super::config::GitConfig;
use super::dirty::CleanNote;
use super::head::HeadState;
use super::index_file::IndexFile;
use super::object_store::ObjectStore;
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
    /// Whether commands use this git directory whatever `.git` in the work tree is.
    pub(super) has_fixed_dir: bool,
    /// The file that ralph maintains in the work tree, relative to the top.
    pub(super) own: Option<Vec<u8>>,
    /// Files and directories with the documents of the run, relative to the top.
    pub(super) documents: Vec<Vec<u8>>,
    pub(super) config: GitConfig,
    /// The last seen HEAD; the tree of a commit never changes.
    pub(super) seen: RefCell<Option<HeadState>>,
    /// The indexes from which trees were made last, by the ids of the trees.
    known_trees: RefCell<Vec<(String, Arc<IndexFile>)>>,
    /// What git said about the work tree last.
    pub(super) clean: RefCell<Option<CleanNote>>,
}

/// How many indexes are kept to compare their trees: those of HEAD, of the checkpoint, and of the
/// work.
const MOST_KNOWN_TREES: usize = 4;

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

    /// Returns the files that git's configuration names: those it includes and those it may start.
    pub fn list_configured_files(&self) -> Vec<PathBuf> {
        self.config.list_named_files(&self.top)
    }

    /// Marks commands outside of the sandbox as part of a run.
    #[must_use]
    pub fn with_run_id(self, run: &str) -> Self {
        Self { commands: self.commands.with_run_id(run), ..self }
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
        let real = project.canonicalize().map_err(|error| VcsError {
            message: format!("cannot open `{}`: {error}", project.display()),
        });
        if let Ok(real) = &real
            && let Some((top, git_dir)) = find_plain_repository(real, commands.users_env())
            && let Ok(config) = GitConfig::read(&commands, project)
            // Every repository has this; git does not read it from one that it distrusts.
            && config.find("core.repositoryformatversion").is_some()
            && config.find("core.worktree").is_none()
            && !config.is_true("core.bare")
        {
            let repository = Self::new(commands, real.clone(), (top, git_dir), config);
            return Ok(RepositoryDiscovery::Repository(Box::new(repository)));
        }
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
        let config = GitConfig::read(&commands, project)?;
        let repository = Self::new(commands, real?, (top, git_dir), config);
        Ok(RepositoryDiscovery::Repository(Box::new(repository)))
    }

    pub(super) fn new(
        commands: GitCommands,
        project: PathBuf,
        (top, git_dir): (PathBuf, PathBuf),
        config: GitConfig,
    ) -> Self {
        let commands = commands.without_named_hooks(config.list_hook_names().into_iter());
        Self {
            commands,
            project,
            top,
            git_dir,
            has_fixed_dir: false,
            own: None,
            documents: Vec::new(),
            config,
            seen: RefCell::default(),
            known_trees: RefCell::default(),
            clean: RefCell::default(),
        }
    }

    /// Sets what can stop its commands.
    #[must_use]
    pub fn with_watch(self, watch: Watch) -> Self {
        Self { commands: self.commands.with_watch(watch), ..self }
    }

    /// Opens the object database, if ralph itself may write to it.
    pub(super) fn open_objects(&self) -> Option<ObjectStore> {
        let is_shared = self.config.find("core.sharedrepository").is_some_and(|it| it != "umask");
        if is_shared || !self.has_usual_ids() {
            None
        } else {
            Some(ObjectStore::open(&self.common_dir()))
        }
    }

    /// Reads an index of the repository, if it is one that can be read without git.
    pub(super) fn read_index(&self, index: &Path) -> Option<IndexFile> {
        if self.has_usual_ids() { IndexFile::read(index) } else { None }
    }

    /// Like [`GitRepository::read_index`], for an index that is not kept in memory.
    pub(super) fn read_large_index(&self, index: &Path) -> Option<IndexFile> {
        if self.has_usual_ids() { IndexFile::read_large(index) } else { None }
    }

    fn has_usual_ids(&self) -> bool {
        self.config.find("extensions.objectformat").is_none_or(|it| it == "sha1")
    }

    /// Writes the tree of an index without a process, and remembers what is in it. None if that
    /// is left to git.
    pub(super) fn write_tree_of(&self, index: &Path) -> Option<String> {
        let store = self.open_objects()?;
        let index = self.read_index(index)?;
        let tree = index.write_tree(&store)?;
        self.remember_tree(&tree, index);
        Some(tree)
    }

    /// Remembers the index that a tree was made from.
    pub(super) fn remember_tree(&self, tree: &str, index: IndexFile) {
        let mut known = self.known_trees.borrow_mut();
        known.retain(|(other, _)| other != tree);
        known.insert(0, (tree.to_owned(), Arc::new(index)));
        known.truncate(MOST_KNOWN_TREES);
    }

    /// Returns the index that a tree was made from, if it was one of the last.
    pub(super) fn find_known_tree(&self, tree: &str) -> Option<Arc<IndexFile>> {
        let mut known = self.known_trees.borrow_mut();
        let place = known.iter().position(|(id, _)| id == tree)?;
        // The one that is used least is forgotten first.
        known[..=place].rotate_right(1);
        Some(Arc::clone(&known[0].1))
    }

    /// Returns the top directory of the work tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the directories that hold the history. A linked work tree has two.
    pub fn history_directories(&self) -> Vec<PathBuf> {
        let mut directories = vec![self.git_dir.clone()];
        directories.extend(Some(self.common_dir()).filter(|common| *common != self.git_dir));
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

    /// Returns the file that ralph itself maintains.
    pub(super) fn own_path(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|path| self.top.join(OsStr::from_bytes(path)))
    }

    /// Returns whether some of the work tree belongs to the run itself.
    pub(super) fn owns_any_file(&self) -> bool {
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
        if self.has_fixed_dir {
            return call.with_env("GIT_DIR", &self.git_dir).with_env("GIT_WORK_TREE", &self.top);
        }
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
        self.config.is_true("core.sparsecheckout")
    }

    /// Returns the path of the user's index.
    pub(super) fn index_path(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Returns the arguments that add everything. Runtime files are removed afterwards: git treats
    /// a pathspec that excludes an ignored path as a request to add it, and complains.
    pub(super) fn build_add_all_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["add".into(), "--all".into()];
        if self.is_sparse() {
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

/// Finds the top directory and the git directory above a project by the rules that git has for the
/// usual case: a directory `.git` on the same file system. Git is asked about links, linked work
/// trees, submodules and bare repositories.
fn find_plain_repository(
    project: &Path,
    env: &[(OsString, OsString)],
) -> Option<(PathBuf, PathBuf)> {
    let is_special = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"GIT_CEILING_") || name.starts_with(b"GIT_DISCOVERY_")
    };
    if env.iter().any(|(name, _)| is_special(name)) {
        return None;
    }
    let device = project.metadata().ok()?.dev();
    let is_git_dir =
        |path: &Path| ["HEAD", "objects", "refs"].iter().all(|part| path.join(part).exists());
    for top in project.ancestors() {
        let git_dir = top.join(".git");
        if top.metadata().ok()?.dev() != device || is_git_dir(top) {
            return None;
        }
        let Ok(found) = git_dir.symlink_metadata() else { continue };
        let is_plain = found.is_dir() && found.dev() == device && is_git_dir(&git_dir);
        let is_main = !git_dir.join("commondir").exists();
        return (is_plain && is_main).then(|| (top.to_owned(), git_dir));
    }
    None
}

/// Returns the `.git` above a project in which git finds no repository: git cannot run, or `.git` is
/// damaged. An empty directory and what git does not look at is none.
pub fn find_unusable_git_dir(project: &Path, env: &[(OsString, OsString)]) -> Option<PathBuf> {
    let is_limit = |name: &OsStr| name.as_encoded_bytes().starts_with(b"GIT_CEILING_");
    if env.iter().any(|(name, _)| is_limit(name)) {
        return None;
    }
    let device = project.metadata().ok()?.dev();
    let is_near = |top: &&Path| top.metadata().is_ok_and(|it| it.dev() == device);
    let has_part =
        |path: &Path| ["HEAD", "objects", "refs"].iter().any(|it| path.join(it).exists());
    let is_link = |path: &Path| {
        bounded_read::read_file(path, 4096).is_ok_and(|text| text.starts_with(b"gitdir:"))
    };
    let mut above = project.ancestors().take_while(is_near).map(|top| top.join(".git"));
    above.find(|path| if path.is_dir() { has_part(path) } else { is_link(path) })
}

fn describe_missing_work_tree(project: &Path, ran: &FinishedCommand) -> String {
    let project = project.display();
    if ran.stdout.starts_with(b"true") {
        format!("`{project}` is a bare repository: there is no work tree to work in")
    } else {
        format!("`{project}` lies in a git directory, not in a work tree")
    }
}
