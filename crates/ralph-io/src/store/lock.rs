//! One run per work tree: an OS lock that ends with its holder, and the holder's name for people.
//!
//! Not here: what an active run does. The journal has that.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_model::units::Timestamp;
use serde::{Deserialize, Serialize};

/// A status check holds the lock for microseconds; this leaves room for a loaded machine.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The lock of a work tree, held until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    file: File,
}

/// The lock cannot be acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it.
    #[error("Another run is active{}. See: ralph status", format_holder_suffix(.0.as_ref()))]
    Busy(Option<LockHolder>),
    /// The lock file cannot be used.
    #[error("cannot lock `{}`: {source}", .path.display())]
    Refused { path: PathBuf, source: io::Error },
}

/// The holder of a lock. For people to read; ralph does not trust it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    pub pid: u32,
    pub since: Timestamp,
}

impl RunLock {
    /// Acquires the lock of a state directory. Fails with the holder if another run has it.
    pub fn acquire(state: &Path, now: Timestamp) -> Result<Self, LockError> {
        let path = state.join("lock");
        let mut file = open_lock_file(&path).map_err(|source| build_io_error(&path, source))?;
        let mut tried = file.try_lock();
        if let Err(TryLockError::WouldBlock) = tried {
            // A status check holds the lock for a moment; that must not prevent a run.
            std::thread::sleep(RETRY_DELAY);
            tried = file.try_lock();
        }
        match tried {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Busy(read_holder(&mut file))),
            Err(TryLockError::Error(source)) => return Err(build_io_error(&path, source)),
        }
        let holder = LockHolder { pid: std::process::id(), since: now };
        // The name is for people. On a full disk the lock works without it.
        let _ = file
            .set_len(0)
            .and_then(|()| file.write_all(&serde_json::to_vec(&holder).unwrap_or_default()));
        Ok(Self { file })
    }

    /// Returns the holder of the lock of a state directory, without acquiring it; `Some(None)` if
    /// it is held by an unknown process.
    pub fn find_holder(state: &Path) -> Option<Option<LockHolder>> {
        let mut file = File::open(state.join("lock")).ok()?;
        match file.try_lock_shared() {
            // Not only closed, for the reason in `drop` below.
            Ok(()) => {
                let _ = file.unlock();
                None
            }
            Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => Some(read_holder(&mut file)),
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // A child between fork and exec has a copy of the handle: closing ours is not enough. If
        // this fails, the lock ends with the process.
        let _ = self.file.unlock();
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn read_holder(file: &mut File) -> Option<LockHolder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn build_io_error(path: &Path, source: io::Error) -> LockError {
    LockError::Refused { path: path.to_owned(), source }
}

fn format_holder_suffix(holder: Option<&LockHolder>) -> String {
    let Some(LockHolder { pid, since }) = holder else {
        return String::new();
    };
    match jiff::Timestamp::from_millisecond(since.0) {
        Ok(since) => {
            let since = since.to_zoned(crate::clock::find_local_zone());
            format!(" (pid {pid}, since {})", since.strftime("%H:%M"))
        }
        Err(_) => format!(" (pid {pid})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_refused_with_the_first_ones_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let now = Timestamp(1_794_700_000_000);
        assert_eq!(RunLock::find_holder(directory.path()), None);
        let lock = RunLock::acquire(directory.path(), now).expect("free");
        let first = LockHolder { pid: std::process::id(), since: now };
        assert_eq!(RunLock::find_holder(directory.path()), Some(Some(first)));
        let error = RunLock::acquire(directory.path(), now).expect_err("busy").to_string();
        let expect = format!("Another run is active (pid {}, since ", std::process::id());
        assert!(error.starts_with(&expect), "{error}");
        assert!(error.ends_with("). See: ralph status"), "{error}");
        drop(lock);
        assert_eq!(RunLock::find_holder(directory.path()), None);
        RunLock::acquire(directory.path(), now).expect("free again");
    }

    #[test]
    fn a_holder_who_left_no_name_still_holds() {
        let directory = tempfile::tempdir().expect("a directory");
        let now = Timestamp(0);
        let _lock = RunLock::acquire(directory.path(), now).expect("free");
        std::fs::write(directory.path().join("lock"), "garbage").expect("written");
        let error = RunLock::acquire(directory.path(), now).expect_err("busy").to_string();
        assert_eq!(error, "Another run is active. See: ralph status");
    }
}
