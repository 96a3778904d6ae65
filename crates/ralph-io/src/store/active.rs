//! The file that exists while a run is active: written for ralph's hooks in an agent, and read by
//! them.
//!
//! Not here: its content (the core), and the lock, which is what counts.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ralph_model::hook_state::HookState;
use rustix::fs::OFlags;
use rustix::process::{Pid, test_kill_process};
use serde::de::DeserializeOwned;

use super::RunLock;
use crate::atomic_file;

/// The variable with the path of the file, for the hooks in an agent.
pub const ACTIVE_VARIABLE: &str = "RALPH_ACTIVE";

/// The variable with the size of the model's context window in tokens, for the same.
pub const WINDOW_VARIABLE: &str = "RALPH_CONTEXT_WINDOW";

/// A hundred thousand tasks take about 40 MB; ralph writes no larger file.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Writes the file, and replaces a stale one of a run that died. Requires the lock.
pub fn write_active(path: &Path, active: &HookState) -> io::Result<()> {
    let mut text = serde_json::to_vec(active)?;
    text.push(b'\n');
    atomic_file::replace_unsynced(path, &text)
}

/// Removes the file at the end of a run.
pub fn remove_active(path: &Path) -> io::Result<()> {
    atomic_file::remove_if_exists(path)
}

/// Returns the content, which may be stale; see [`is_running`].
pub fn read_active<S: DeserializeOwned>(path: &Path) -> io::Result<HookState<S>> {
    let mut bytes = Vec::new();
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Returns whether the run that a file describes is running: its process exists, even as another
/// user, or the lock next to the file is held. In a pid namespace of its own, a hook sees only the
/// lock.
pub fn is_running<S>(active: &HookState<S>, file: &Path) -> bool {
    let pid = i32::try_from(active.pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
        || file.parent().is_some_and(|state| RunLock::find_holder(state).is_some())
}

#[cfg(test)]
mod tests {
    use ralph_model::ids::RunId;
    use ralph_model::units::Timestamp;

    use super::*;

    #[test]
    fn a_stale_active_file_is_taken_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("active.json");
        std::fs::write(&path, "{ torn").expect("written");
        assert!(read_active::<serde::de::IgnoredAny>(&path).is_err());
        let active = HookState::new(RunId("r".into()), std::process::id(), Timestamp(1));
        write_active(&path, &active).expect("written");
        assert_eq!(read_active(&path).expect("readable"), active);
        let mode = std::fs::metadata(&path).expect("there").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 1);
        remove_active(&path).expect("removed");
        remove_active(&path).expect("gone already");
        assert!(read_active::<serde::de::IgnoredAny>(&path).is_err());
    }

    #[test]
    fn a_running_run_is_distinguished_from_one_whose_process_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("active.json");
        let mut active = HookState::new(RunId("r".into()), std::process::id(), Timestamp(1));
        assert!(is_running(&active, &file));
        for gone in [0, u32::MAX, i32::MAX.cast_unsigned()] {
            active.pid = gone;
            assert!(!is_running(&active, &file), "{gone}");
        }
        let lock = RunLock::acquire(directory.path(), Timestamp(1)).expect("free");
        assert!(is_running(&active, &file), "who holds the lock is there, seen or not");
        drop(lock);
        assert!(!is_running(&active, &file));
    }
}
