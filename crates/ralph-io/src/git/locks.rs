//! Lock files of a git that died with its run.
//!
//! A git that is killed outright leaves its lock files behind, and every later git refuses to
//! work. Only those that appeared since a checkpoint, or after the last event of a dead run, while
//! no git is at work here, are taken for its own. Not here: locks of anybody else, which stay.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::repository::Repository;
use super::vcs::Git;
use crate::process::is_running_in;

/// Locks lie at most this deep below `refs/`; branches with more slashes are rare.
const DEEPEST: usize = 8;

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
        let mut locks = self.repository.locks();
        let new = locks.iter().filter(|lock| !self.locks.contains(lock));
        let new = new.map(|lock| lock.path.clone()).collect();
        let gone = self.repository.set_locks_aside(new, &self.directory);
        locks.retain(|lock| !gone.contains(&lock.path));
        locks
    }
}

impl Repository {
    /// Moves the locks that a dead run's git left behind into a directory, and returns what they
    /// were. `since` is when the run was last heard of.
    pub fn set_stale_locks_aside(&self, since: SystemTime, aside: &Path) -> Vec<PathBuf> {
        let young = self.locks().into_iter().filter(|lock| lock.made >= since);
        self.set_locks_aside(young.map(|lock| lock.path).collect(), aside)
    }

    fn set_locks_aside(&self, locks: Vec<PathBuf>, aside: &Path) -> Vec<PathBuf> {
        if locks.is_empty() || is_running_in("git", self.top()) {
            return Vec::new();
        }
        locks
            .into_iter()
            .enumerate()
            .filter(|(place, lock)| move_away(lock, &aside.join(format!("lock-{place}"))).is_ok())
            .map(|(_, lock)| lock)
            .collect()
    }

    /// Returns the locks that are there.
    pub(super) fn locks(&self) -> Vec<Lock> {
        let mut found = Vec::new();
        let directory = &self.git_dir;
        for name in ["HEAD.lock", "index.lock", "packed-refs.lock"] {
            found.push(directory.join(name));
        }
        collect_locks(&directory.join("refs"), DEEPEST, &mut found);
        found
            .into_iter()
            .filter_map(|path| {
                let made = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified());
                Some(Lock { path, made: made.ok()? })
            })
            .collect()
    }
}

/// A lock file, and when it was made. The clock of files ticks only every few milliseconds, so
/// the time alone does not tell which of two things came first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
    path: PathBuf,
    made: SystemTime,
}

fn collect_locks(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => collect_locks(&path, depth - 1, found),
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
