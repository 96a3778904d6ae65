//! Notes that name containers: the container of a killed process is removed. Not here: starting
//! containers.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Container;
use crate::process::{Spawn, Watch, capture_output};
#[cfg(target_os = "linux")]
use crate::sandbox::locked_note::LockedNote;
use crate::sandbox::locked_note::clear_stale_notes;

/// The file extension of notes.
const EXTENSION: &str = "container";

/// The content of a note.
#[derive(Debug, Serialize, Deserialize)]
struct ContainerNoteContent {
    container: Container,
    name: String,
}

/// A locked note.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(in crate::sandbox) struct ContainerNote {
    note: LockedNote,
    written: ContainerNoteContent,
}

#[cfg(target_os = "linux")]
impl ContainerNote {
    /// Writes the note of a container next to its plan file, before the container exists.
    pub(in crate::sandbox) fn write_locked(
        container: &Container,
        name: &str,
        plan: &Path,
    ) -> std::io::Result<Self> {
        let written = ContainerNoteContent { container: container.clone(), name: name.to_owned() };
        let note = LockedNote::write_locked(plan, EXTENSION, &serde_json::to_vec(&written)?)?;
        Ok(Self { note, written })
    }

    /// Removes the note of a container that has ended, which its engine has removed.
    pub(in crate::sandbox) fn remove_note(self) {
        self.note.remove_note();
    }

    /// Removes the container, whatever its state.
    pub(in crate::sandbox) fn remove_container(self) {
        remove_container(&self.written);
        self.note.remove_note();
    }
}

/// Removes the containers of processes that were killed, by the notes in a directory.
pub(in crate::sandbox) fn remove_stale_containers(directory: &Path) {
    clear_stale_notes(directory, EXTENSION, |path, text| {
        // A process that was killed while it wrote the note has not started a container yet.
        if let Ok(written) = serde_json::from_str::<ContainerNoteContent>(text) {
            remove_container(&written);
        }
        let _ = fs::remove_file(path.with_extension("sock"));
    });
}

fn remove_container(written: &ContainerNoteContent) {
    let removal: Spawn = written.container.build_remove_command(&written.name);
    // Errors are ignored, because the call is over; a resumed run cleans up again.
    let _ = capture_output(&removal, &Watch::new_detached(), 4096);
}
