//! Calls in a VM that may outlive the process which made them.
//!
//! A note beside the plan is locked by that process; one that nobody holds is that of a process which
//! was killed, and what it had started may go on inside. Not here: what is done about it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// How the names of notes end.
const EXTENSION: &str = "vm";

/// A note, held.
#[derive(Debug)]
pub(in crate::sandbox) struct VmNote {
    path: PathBuf,
    _file: File,
}

impl VmNote {
    /// Notes a call down, before it is made, beside its plan.
    pub(in crate::sandbox) fn hold(plan: &Path) -> std::io::Result<Self> {
        let path = plan.with_extension(EXTENSION);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { path, _file: file })
    }

    /// Lets go of a call that has ended.
    pub(in crate::sandbox) fn drop_ended(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether a call was left, and forgets it.
pub(in crate::sandbox) fn is_left(directory: &Path) -> bool {
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
    fn a_call_whose_process_was_killed_is_seen_once() {
        let run = tempfile::tempdir().expect("a directory");
        let held = VmNote::hold(&run.path().join("cell-1.json")).expect("noted");
        assert!(!is_left(run.path()), "it is under way");
        held.drop_ended();
        assert!(!is_left(run.path()), "it has ended");
        drop(VmNote::hold(&run.path().join("cell-2.json")).expect("noted"));
        assert!(is_left(run.path()));
        assert!(!is_left(run.path()));
    }
}
