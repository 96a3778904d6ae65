//! Lock files of a git that died with its run.
//!
//! A git that is killed outright leaves its lock files behind, and every later git refuses to
//! work. Only those that appeared since a checkpoint, or after the last event of a dead run, while
//! no git is at work here, are taken for its own. Not here: locks of anybody else, which stay.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::repository::Repository;
use super::vcs::Git;
use crate::bounded;
use crate::process::is_running_in;

/// Locks lie at most this deep below `refs/`; branches with more slashes are rare.
const DEEPEST: usize = 8;

/// What git locks in its directory, beside what is named in capitals: `HEAD`, `AUTO_MERGE`.
const LOCKED: [&[u8]; 6] =
    [b"config", b"config.worktree", b"gc.pid", b"index", b"packed-refs", b"shallow"];

/// What git locks there by the number of its process.
const NUMBERED: [&[u8]; 2] = [b"index.stash.", b"next-index-"];

/// What git locks further below. Some of these refuse nothing, but objects are not kept in order
/// beside them.
const BELOW: [&str; 7] = [
    "info/sparse-checkout.lock",
    "logs/HEAD.lock",
    "logs/refs/stash.lock",
    "objects/info/commit-graph.lock",
    "objects/info/commit-graphs/commit-graph-chain.lock",
    "objects/maintenance.lock",
    "objects/pack/multi-pack-index.lock",
];

/// Where each run has refs of its own. Nobody writes those of the others.
const OF_RUNS: [&str; 2] = ["refs/ralph/checkpoints", "refs/ralph/kept"];

/// A path to a work tree is not longer.
const LONGEST_PATH: u64 = 8192;

impl Git {
    /// Moves away the locks of a git that was ended together with the agent that had started it.
    /// The processes of an agent are gone before ralph looks at what it did.
    pub(super) fn free_locks(&self) {
        self.locks_left();
    }

    /// Does the same, and takes what is left for somebody else's: no agent has made it.
    pub(super) fn know_locks(&mut self) {
        self.locks = self.locks_left();
    }

    fn locks_left(&self) -> Vec<Lock> {
        let mut locks = self.repository.locks(&self.directory);
        let new = locks.iter().filter(|lock| !self.locks.contains(lock));
        let new = new.map(|lock| lock.path.clone()).collect();
        let gone = self.repository.set_locks_aside(new, &self.directory);
        locks.retain(|lock| !gone.contains(&lock.path));
        locks
    }
}

impl Repository {
    /// Moves the locks that a dead run's git left behind into the run's directory, and returns what
    /// they were. `since` is when the run was last heard of.
    pub fn set_stale_locks_aside(&self, since: SystemTime, aside: &Path) -> Vec<PathBuf> {
        let young = self.locks(aside).into_iter().filter(|lock| lock.made >= since);
        self.set_locks_aside(young.map(|lock| lock.path).collect(), aside)
    }

    fn set_locks_aside(&self, locks: Vec<PathBuf>, aside: &Path) -> Vec<PathBuf> {
        if locks.is_empty() || is_running_in("git", &self.work_trees()) {
            return Vec::new();
        }
        locks
            .into_iter()
            .enumerate()
            .filter(|(place, lock)| move_away(lock, &aside.join(format!("lock-{place}"))).is_ok())
            .map(|(_, lock)| lock)
            .collect()
    }

    /// Returns the locks that are there, but those on refs of other runs than the one with this
    /// directory.
    pub(super) fn locks(&self, run: &Path) -> Vec<Lock> {
        let mut found = Vec::new();
        let common = self.common_dir();
        let mut directories = BTreeSet::from([self.git_dir.clone(), common.clone()]);
        collect_modules(&common, DEEPEST, &mut directories);
        collect_modules(&self.git_dir, DEEPEST, &mut directories);
        for directory in &directories {
            found.extend(BELOW.map(|name| directory.join(name)));
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if is_gits(entry.file_name().as_bytes()) {
                    found.push(entry.path());
                }
            }
            let of_runs = OF_RUNS.map(|name| directory.join(name));
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
                Some(Lock { path, made: made.ok()? })
            })
            .collect()
    }

    /// Returns where a git that makes such locks may be at work: in this work tree, in others that
    /// share its branches, and in git's own directory.
    fn work_trees(&self) -> Vec<PathBuf> {
        let common = self.common_dir();
        let mut places = vec![self.top().to_owned()];
        for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
            let path = bounded::read_file(&entry.path().join("gitdir"), LONGEST_PATH);
            let path = PathBuf::from(OsString::from_vec(path.unwrap_or_default()));
            // Its last line names the file `.git` of the work tree.
            places.extend(path.parent().map(Path::to_owned));
        }
        places.extend(common.parent().filter(|_| common.ends_with(".git")).map(Path::to_owned));
        places.push(common);
        places.retain(|place| place.is_absolute());
        places
    }
}

/// Returns whether a file in git's directory is a lock that git makes there. Other programs keep
/// theirs in the same place.
fn is_gits(name: &[u8]) -> bool {
    let Some(locked) = name.strip_suffix(b".lock") else { return false };
    let is_capital = |it: &u8| it.is_ascii_uppercase() || *it == b'_';
    let is_ref = |name: &[u8]| !name.is_empty() && name.iter().all(is_capital);
    let is_numbered = NUMBERED.iter().any(|it| locked.starts_with(it));
    LOCKED.contains(&locked) || is_numbered || is_ref(locked)
}

/// Adds git's directories of submodules, and of theirs. They are named after paths, slashes and all.
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

/// A lock file, and when it was made. The clock of files ticks only every few milliseconds, so
/// the time alone does not tell which of two things came first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
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

/// The state directory may be on another file system, where a file cannot be renamed to.
fn move_away(lock: &Path, aside: &Path) -> io::Result<()> {
    fs::rename(lock, aside).or_else(|_| {
        fs::copy(lock, aside)?;
        fs::remove_file(lock)
    })
}
