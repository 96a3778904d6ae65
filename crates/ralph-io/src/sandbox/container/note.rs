//! Containers that may outlive the process which started them.
//!
//! A note beside the plan names one, and is locked by that process; a note that nobody holds is that
//! of a process which was killed, and its container is removed. Not here: starting them.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Container;
use crate::process::{Spawn, Watch, capture};
use crate::sandbox::abandoned;

/// How the names of notes end.
const EXTENSION: &str = "container";

/// What a note says.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    container: Container,
    name: String,
}

/// A note, held.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(in crate::sandbox) struct Note {
    path: std::path::PathBuf,
    written: Written,
    _file: fs::File,
}

#[cfg(target_os = "linux")]
impl Note {
    /// Notes a container down, before it is there, beside a plan.
    pub(in crate::sandbox) fn hold(
        container: &Container,
        name: &str,
        plan: &Path,
    ) -> std::io::Result<Self> {
        use rustix::fs::{FlockOperation, flock};
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = plan.with_extension(EXTENSION);
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let written = Written { container: container.clone(), name: name.to_owned() };
        file.write_all(&serde_json::to_vec(&written)?)?;
        Ok(Self { path, written, _file: file })
    }

    /// Lets go of a container that has ended by itself, and was removed by its engine.
    pub(in crate::sandbox) fn drop_ended(self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Removes the container, wherever it is in its life.
    pub(in crate::sandbox) fn remove_container(self) {
        remove(&self.written);
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the containers of processes that were killed, by the notes in a directory.
pub(in crate::sandbox) fn clear(directory: &Path) {
    abandoned::each_note(directory, EXTENSION, |path, text| {
        // One that was killed while it wrote has not started anything yet.
        if let Ok(written) = serde_json::from_str::<Written>(text) {
            remove(&written);
        }
        let _ = fs::remove_file(path.with_extension("sock"));
    });
}

fn remove(written: &Written) {
    let removal: Spawn = written.container.removal(&written.name);
    // What goes wrong is of no use to a call that is over; a resumed run looks again.
    let _ = capture(&removal, &Watch::detached(), 4096);
}
