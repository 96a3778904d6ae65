//! Notes of calls in a VM: what a killed process started may still run inside. Not here: what is
//! done about it.

use std::path::Path;

use crate::sandbox::locked_note::{LockedNote, clear_stale_notes};

/// The file extension of notes.
const EXTENSION: &str = "vm";

/// Writes the note of a call in a VM.
pub(in crate::sandbox) fn write_vm_note(plan: &Path) -> std::io::Result<LockedNote> {
    LockedNote::write_locked(plan, EXTENSION, &[])
}

/// Returns whether a killed process left a call, and removes its notes.
pub(in crate::sandbox) fn take_abandoned(directory: &Path) -> bool {
    let mut is_left = false;
    clear_stale_notes(directory, EXTENSION, |_, _| is_left = true);
    is_left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_call_is_reported_once() {
        let run = tempfile::tempdir().expect("a directory");
        let held = write_vm_note(&run.path().join("cell-1.json")).expect("noted");
        assert!(!take_abandoned(run.path()), "it is under way");
        held.remove_note();
        assert!(!take_abandoned(run.path()), "it has ended");
        drop(write_vm_note(&run.path().join("cell-2.json")).expect("noted"));
        assert!(take_abandoned(run.path()));
        assert!(!take_abandoned(run.path()));
    }
}
