//! Notes of processes that were killed: each process holds a lock on its own note while it lives.
//!
//! Not here: what the notes contain.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

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
