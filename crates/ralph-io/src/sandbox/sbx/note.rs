//! Calls in a VM that may outlive the process that made them.
//!
//! That process locks a note next to the plan file. An unlocked note was left by a process that was
//! killed, and what it started may still run inside. Not here: what is done about it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The file extension of notes.
const EXTENSION: &str = "vm";

/// A locked note.
#[derive(Debug)]
pub(in crate::sandbox) struct VmNote {
    path: PathBuf,
    _file: File,
}

impl VmNote {
    /// Writes the note of a call next to its plan file, before the call is made.
    pub(in crate::sandbox) fn write_locked(plan: &Path) -> std::io::Result<Self> {
        let path = plan.with_extension(EXTENSION);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { path, _file: file })
    }

    /// Removes the note of a call that has ended.
    pub(in crate::sandbox) fn remove_note(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether a killed process left a call, and removes its notes.
pub(in crate::sandbox) fn take_abandoned(directory: &Path) -> bool {
    let mut is_left = false;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_note = path.extension().is_some_and(|extension| extension == EXTENSION);
        let Some(file) = is_note.then(|| File::open(&path).ok()).flatten() else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            is_left = true;
            let _ = fs::remove_file(path);
        }
    }
    is_left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_call_is_reported_once() {
        let run = tempfile::tempdir().expect("a directory");
        let held = VmNote::write_locked(&run.path().join("cell-1.json")).expect("noted");
        assert!(!take_abandoned(run.path()), "it is under way");
        held.remove_note();
        assert!(!take_abandoned(run.path()), "it has ended");
        drop(VmNote::write_locked(&run.path().join("cell-2.json")).expect("noted"));
        assert!(take_abandoned(run.path()));
        assert!(!take_abandoned(run.path()));
    }
}
