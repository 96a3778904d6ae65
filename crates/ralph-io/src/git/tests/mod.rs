//! Real repositories in temporary directories, without the machine's git configuration.

mod clones;
mod commits;
mod discovery;
mod failure_branches;
mod last_commits;
mod locks;
mod merges;
mod misdeeds;
mod observations;
mod random;
mod remote_refs;
mod rollbacks;
mod set_asides;
mod started_programs;
mod surveys;
mod unfinished;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::landing::failure_branch::name_failure_branch;
use ralph_core::ports::{
    CheckpointDepth, CommitOrder, CommitResult, FailedWorkLocation, FailureBranchOrder, HookResult,
    HookTrial, ScmResult, Vcs as _,
};
use ralph_model::ids::{IterationNumber, RunId, TaskId};
use ralph_model::run::IterationMark;
use ralph_model::worktree::{Checkpoint, CommitId, TreeDiff, TreeId};

use super::*;
use crate::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output};

/// Whether tests repeat less of what is random or long, as in `./check`.
fn is_quick() -> bool {
    std::env::var_os("RALPH_TEST_QUICK").is_some()
}

/// A repository on the branch `main`, and a directory for a run.
struct World {
    directory: tempfile::TempDir,
    env: Vec<(OsString, OsString)>,
}

impl World {
    /// Returns a repository without a commit.
    fn empty() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = std::env::var_os("PATH").expect("set");
        let mut env: Vec<(OsString, OsString)> = vec![("PATH".into(), path)];
        for (name, value) in [
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "User"),
            ("GIT_AUTHOR_EMAIL", "user@example.com"),
            ("GIT_COMMITTER_NAME", "User"),
            ("GIT_COMMITTER_EMAIL", "user@example.com"),
            // As if ralph had been started by a hook.
            ("GIT_INDEX_FILE", "/nonexistent/index"),
            ("GIT_LITERAL_PATHSPECS", "1"),
        ] {
            env.push((name.into(), value.into()));
        }
        let world = Self { directory, env };
        for name in ["project", "run"] {
            fs::create_dir(world.directory.path().join(name)).expect("made");
        }
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        world
    }

    /// Returns a repository with a commit that has `a.txt`, `dir/b.txt` and a `.gitignore`, and
    /// an ignored file next to them.
    fn new() -> Self {
        let world = Self::empty();
        world.write("a.txt", "a\n");
        world.write("dir/b.txt", "b\n");
        world.write(".gitignore", "*.log\n/target/\n");
        world.git(&["add", "--all"]);
        world.git(&["commit", "--quiet", "-m", "first"]);
        world.write("target/ignored", "precious\n");
        world
    }

    /// Returns a copy of this world, which costs less than creating another one.
    fn copy(&self) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        copy_directory(self.directory.path(), directory.path());
        Self { directory, env: self.env.clone() }
    }

    fn top(&self) -> PathBuf {
        self.directory.path().join("project").canonicalize().expect("there")
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.top().join(path)
    }

    fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn remove(&self, path: impl AsRef<Path>) {
        fs::remove_file(self.at(path)).expect("removed");
    }

    fn script(&self, path: &str, text: &str) {
        self.write(path, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// Runs git as the user does.
    #[track_caller]
    fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.top(), args)
    }

    #[track_caller]
    fn git_in(&self, directory: &Path, args: &[&str]) -> String {
        self.try_git(directory, args).unwrap_or_else(|error| unreachable!("git {args:?}: {error}"))
    }

    fn try_git(&self, directory: &Path, args: &[&str]) -> Result<String, String> {
        let hidden = ["GIT_INDEX_FILE", "GIT_LITERAL_PATHSPECS"];
        let spawn = Spawn {
            program: "git".into(),
            // Housekeeping would continue in the background, with locks that come and go.
            args: ["-c", "maintenance.auto=false"].iter().chain(args).map(OsString::from).collect(),
            cwd: directory.to_owned(),
            env: self
                .env
                .iter()
                .filter(|(name, _)| !hidden.iter().any(|hidden| name == hidden))
                .cloned()
                .collect(),
            stdin: StdinSource::Null,
            limits: ProcessLimits::default(),
        };
        let ran = capture_output(&spawn, &Watch::new_detached(), 1 << 20);
        if ran.end.ending.is_success() {
            Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).into_owned())
        }
    }

    fn repository(&self) -> GitRepository {
        self.repository_of(&self.top())
    }

    fn repository_of(&self, project: &Path) -> GitRepository {
        match GitRepository::discover(project, self.env.clone(), Watch::new_detached()) {
            Ok(RepositoryDiscovery::Repository(repository)) => *repository,
            other => unreachable!("a repository, not {other:?}"),
        }
    }

    fn open(&self) -> GitVcs {
        GitVcs::new(self.repository(), self.directory.path().join("run"))
    }

    /// Opens it with git for everything, as if its objects had to be shared with others.
    fn open_with_git_alone(&self) -> GitVcs {
        let mut git = self.open();
        let shared = ("core.sharedrepository".to_owned(), "group".to_owned());
        git.repository.config.values.push(shared);
        git
    }

    /// Returns everything of the user's that ralph must not touch.
    fn users(&self) -> Users {
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        Users {
            index: self.git(&["ls-files", "--stage", "-v"]),
            stash: self.git(&["stash", "list"]),
            branches: refs
                .lines()
                .filter(|line| !line.starts_with("refs/ralph/"))
                .map(str::to_owned)
                .collect(),
            head: fs::read_to_string(self.at(".git/HEAD")).expect("readable"),
            config: fs::read_to_string(self.at(".git/config")).expect("readable"),
            files: files(&self.top()),
        }
    }

    /// Returns the refs of ralph's.
    fn ralphs_refs(&self) -> Vec<String> {
        let refs = self.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
        refs.lines().map(str::to_owned).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Users {
    index: String,
    stash: String,
    branches: Vec<String>,
    head: String,
    config: String,
    files: BTreeMap<PathBuf, String>,
}

fn copy_directory(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("readable").flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            fs::create_dir(&to).expect("made");
            copy_directory(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

/// Returns every file but git's own, with its mode and content.
fn files(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("readable").flatten() {
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).expect("there");
            if entry.file_name() == ".git" {
                continue;
            }
            let text = if metadata.is_symlink() {
                format!("-> {}", fs::read_link(&path).expect("a link").display())
            } else if metadata.is_dir() {
                open.push(path.clone());
                "directory".to_owned()
            } else if !metadata.is_file() {
                "special".to_owned()
            } else {
                let executable = metadata.permissions().mode() & 0o111 != 0;
                let text =
                    String::from_utf8_lossy(&fs::read(&path).expect("readable")).into_owned();
                format!("{}{text}", if executable { "+x " } else { "" })
            };
            found.insert(path.strip_prefix(top).expect("below").to_owned(), text);
        }
    }
    found
}

fn mark(iteration: u32) -> IterationMark {
    IterationMark {
        run: RunId("20261114-231500-k3f9".into()),
        iteration: IterationNumber(iteration),
        task: None,
    }
}

#[track_caller]
fn made(result: Result<CommitResult, ralph_core::ports::VcsError>) -> String {
    match result {
        Ok(CommitResult::Made(CommitId(commit))) => commit,
        other => unreachable!("a commit, not {other:?}"),
    }
}

fn odd_names() -> [PathBuf; 4] {
    [
        "with space and \"quotes\"".into(),
        "new\nline".into(),
        OsStr::from_bytes(b"not-utf8-\xff").into(),
        ":(top)magic*".into(),
    ]
}

fn order_for(iteration: u32, git: &mut GitVcs) -> CommitOrder {
    let survey = git.survey_tree().expect("surveyed").expect("a repository");
    CommitOrder {
        mark: mark(iteration),
        message: "ralph: work".into(),
        tree: Some(survey.tree),
        expected_head: survey.checked_out,
        command: "git".into(),
    }
}

fn failure_branch_order(iteration: u32, checkpoint: &Checkpoint) -> FailureBranchOrder {
    let task = TaskId("auth".into());
    FailureBranchOrder {
        branch: name_failure_branch(&task, "20261114-231500"),
        mark: IterationMark { task: Some(task), ..mark(iteration) },
        work: FailedWorkLocation::InWorkTree,
        checkpoint: checkpoint.clone(),
        message: "ralph: auth failed\n\nIterations: 3/5\nLast gate: test".into(),
        files: vec![("failure/state.md".into(), "# Why\n".into())],
    }
}
