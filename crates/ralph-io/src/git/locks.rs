//! Lock files of a git process that died with its run.
//!
//! A git that is killed leaves its lock files behind, and every later git refuses to work. ralph
//! only moves those that appeared since a checkpoint, or after the last event of a dead run, while
//! no git is running here. Not here: locks of other programs, which stay.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use super::repository::GitRepository;
use super::vcs::GitVcs;
use crate::bounded_read;
use crate::process::is_running_in;

/// Locks are at most this deep below `refs/`; branches with more slashes are rare.
const DEEPEST: usize = 8;

/// Files that git locks in its directory, besides those in capitals: `HEAD`, `AUTO_MERGE`.
const LOCKED_FILES: [&[u8]; 6] =
    [b"config", b"config.worktree", b"gc.pid", b"index", b"packed-refs", b"shallow"];

/// Files there that git locks by the number of its process.
const LOCKED_PREFIXES: [&[u8]; 2] = [b"index.stash.", b"next-index-"];

/// Files further below that git locks. Some of these block no command, but they keep git from
/// maintaining its objects.
const NESTED_LOCKS: [&str; 7] = [
    "info/sparse-checkout.lock",
    "logs/HEAD.lock",
    "logs/refs/stash.lock",
    "objects/info/commit-graph.lock",
    "objects/info/commit-graphs/commit-graph-chain.lock",
    "objects/maintenance.lock",
    "objects/pack/multi-pack-index.lock",
];

/// Where each run has refs of its own, which other runs do not write.
const RUN_REF_DIRS: [&str; 2] = ["refs/ralph/checkpoints", "refs/ralph/kept"];

/// No path to a work tree is longer.
const LONGEST_PATH: u64 = 8192;

impl GitVcs {
    /// Moves away the locks of a git that was ended together with the agent that started it. The
    /// processes of an agent are gone before this is called.
    pub(super) fn remove_agent_locks(&self) {
        self.remove_new_locks();
    }

    /// Does the same, and remembers the remaining locks as made by other programs, not by an agent.
    pub(super) fn record_foreign_locks(&mut self) {
        self.locks = self.remove_new_locks();
    }

    fn remove_new_locks(&self) -> Vec<GitLockFile> {
        let mut locks = self.repository.find_locks(&self.directory);
        let new = locks.iter().filter(|lock| !self.locks.contains(lock));
        let new = new.map(|lock| lock.path.clone()).collect();
        let gone = self.repository.set_locks_aside(new, &self.directory);
        locks.retain(|lock| !gone.contains(&lock.path));
        locks
    }
}

impl GitRepository {
    /// Moves the locks of a dead run's git into the run's directory, and returns their paths.
    /// `since` is the time of the run's last event.
    pub fn set_stale_locks_aside(&self, since: SystemTime, aside: &Path) -> Vec<PathBuf> {
        let young = self.find_locks(aside).into_iter().filter(|lock| lock.made >= since);
        self.set_locks_aside(young.map(|lock| lock.path).collect(), aside)
    }

    /// Returns a lock on the index, on HEAD or on the current branch that another git holds for
    /// longer than a status or a commit takes.
    pub fn find_lasting_lock(&self) -> Option<PathBuf> {
        const PAUSE: Duration = Duration::from_millis(100);
        /// Editors run `git status` in the background, which takes a lock for a moment.
        const TRIES: u32 = 20;
        let head = bounded_read::read_file(&self.git_dir.join("HEAD"), LONGEST_PATH);
        let head = String::from_utf8_lossy(&head.unwrap_or_default()).into_owned();
        let mut locks = vec![self.git_dir.join("index.lock"), self.git_dir.join("HEAD.lock")];
        if let Some(branch) = head.trim_end().strip_prefix("ref: ") {
            locks.push(self.common_dir().join(format!("{branch}.lock")));
        }
        for _ in 0..TRIES {
            locks.retain(|lock| lock.symlink_metadata().is_ok());
            if locks.is_empty() {
                return None;
            }
            thread::sleep(PAUSE);
        }
        locks.into_iter().next()
    }

    fn set_locks_aside(&self, locks: Vec<PathBuf>, aside: &Path) -> Vec<PathBuf> {
        if locks.is_empty() || is_running_in("git", &self.work_trees()) {
            return Vec::new();
        }
        locks
            .into_iter()
            .enumerate()
            .filter(|(place, lock)| move_file(lock, &aside.join(format!("lock-{place}"))).is_ok())
            .map(|(_, lock)| lock)
            .collect()
    }

    /// Returns the existing locks, except those on refs of other runs than the one with this
    /// directory.
    pub(super) fn find_locks(&self, run: &Path) -> Vec<GitLockFile> {
        let mut found = Vec::new();
        let common = self.common_dir();
        let mut directories = BTreeSet::from([self.git_dir.clone(), common.clone()]);
        collect_modules(&common, DEEPEST, &mut directories);
        collect_modules(&self.git_dir, DEEPEST, &mut directories);
        for directory in &directories {
            found.extend(NESTED_LOCKS.map(|name| directory.join(name)));
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if is_git_lock(entry.file_name().as_bytes()) {
                    found.push(entry.path());
                }
            }
            let of_runs = RUN_REF_DIRS.map(|name| directory.join(name));
            let is_others = |place: &Path| {
                let is_of_run = place.parent().is_some_and(|it| of_runs.iter().any(|of| of == it));
                is_of_run && place.file_name() != run.file_name()
            };
            collect_locks(&directory.join("refs"), DEEPEST, &is_others, &mut found);
        }
        found
            .into_iter()
            .filter_map(|path| {
                let made = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified());
                Some(GitLockFile { path, made: made.ok()? })
            })
            .collect()
    }

    /// Returns where a git that makes such locks may be running: in this work tree, in others that
    /// share its branches, and in the git directory.
    fn work_trees(&self) -> Vec<PathBuf> {
        let common = self.common_dir();
        let mut places = vec![self.top().to_owned()];
        for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
            let path = bounded_read::read_file(&entry.path().join("gitdir"), LONGEST_PATH);
            let path = PathBuf::from(OsString::from_vec(path.unwrap_or_default()));
            // Its last line names the `.git` file of the work tree.
            places.extend(path.parent().map(Path::to_owned));
        }
        places.extend(common.parent().filter(|_| common.ends_with(".git")).map(Path::to_owned));
        places.push(common);
        places.retain(|place| place.is_absolute());
        places
    }
}

/// Returns whether a file in the git directory is a lock made by git. Other programs keep theirs in
/// the same place.
fn is_git_lock(name: &[u8]) -> bool {
    let Some(locked) = name.strip_suffix(b".lock") else { return false };
    let is_capital = |it: &u8| it.is_ascii_uppercase() || *it == b'_';
    let is_ref = |name: &[u8]| !name.is_empty() && name.iter().all(is_capital);
    let is_numbered = LOCKED_PREFIXES.iter().any(|it| locked.starts_with(it));
    LOCKED_FILES.contains(&locked) || is_numbered || is_ref(locked)
}

/// Adds the git directories of submodules, recursively. They are named after paths with slashes.
fn collect_modules(directory: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
    let mut places = vec![(directory.join("modules"), depth)];
    while let Some((place, depth)) = places.pop() {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = entry.path();
            if !is_directory || depth == 0 {
                continue;
            }
            if path.join("HEAD").exists() {
                places.push((path.join("modules"), depth - 1));
                found.insert(path);
            } else {
                places.push((path, depth - 1));
            }
        }
    }
}

/// A lock file with its modification time. File times tick only every few milliseconds, so the
/// time alone does not tell which of two events came first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitLockFile {
    path: PathBuf,
    made: SystemTime,
}

fn collect_locks(
    directory: &Path,
    depth: usize,
    is_others: &dyn Fn(&Path) -> bool,
    found: &mut Vec<PathBuf>,
) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && is_others(&path) => {}
            Ok(kind) if kind.is_dir() && depth > 0 => {
                collect_locks(&path, depth - 1, is_others, found);
            }
            Ok(_) if path.extension().is_some_and(|extension| extension == "lock") => {
                found.push(path);
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// Moves a file. The state directory may be on another file system, where renaming fails.
fn move_file(lock: &Path, aside: &Path) -> io::Result<()> {
    fs::rename(lock, aside).or_else(|_| {
        fs::copy(lock, aside)?;
        fs::remove_file(lock)
    })
}
