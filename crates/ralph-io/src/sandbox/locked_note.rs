//! Notes of calls that may outlive the process that made them. That process locks its note next to
//! the plan file; an unlocked note was left by a process that was killed.
//!
//! Not here: what the notes contain, and what is done about one that is left.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// A note that this process holds locked.
#[derive(Debug)]
pub(super) struct LockedNote {
    path: PathBuf,
    _file: File,
}

impl LockedNote {
    /// Writes the note of a call next to its plan file, before the call is made.
    pub(super) fn write_locked(plan: &Path, extension: &str, content: &[u8]) -> io::Result<Self> {
        let path = plan.with_extension(extension);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        file.write_all(content)?;
        Ok(Self { path, _file: file })
    }

    /// Removes the note of a call that has ended.
    pub(super) fn remove_note(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Calls `clear` with the path and the text of every note in a directory whose process is gone,
/// then removes the note.
pub(super) fn clear_stale_notes(
    directory: &Path,
    extension: &str,
    mut clear: impl FnMut(&Path, &str),
) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        let Ok(mut file) = File::open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut text = String::new();
        if file.read_to_string(&mut text).is_ok() {
            clear(&path, &text);
            let _ = fs::remove_file(&path);
        }
    }
}
