//! What one child's walls are made from: the cell and the backend, in a file for the process that
//! makes them.
//!
//! Not here: making them.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Cell, Wall};

/// What one child's walls are made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    /// What makes them.
    pub(super) wall: Wall,
    /// What they hold.
    pub(super) cell: Cell,
    /// The file of the program; in an image, its name may have to do.
    pub(super) program: PathBuf,
    /// The directory it starts in.
    pub(super) cwd: PathBuf,
    /// The project.
    pub(super) project: PathBuf,
    /// ralph itself.
    pub(super) ralph: PathBuf,
    /// The user's home.
    pub(super) home: Option<PathBuf>,
    /// The run, by the name of its directory.
    pub(super) run: String,
}

impl Plan {
    /// Writes it down, for the owner only.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file: File =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&serde_json::to_vec(self)?)
    }

    /// Reads it and removes the file: nobody needs it twice.
    pub(super) fn take(path: &Path) -> std::io::Result<Self> {
        let text = fs::read(path)?;
        let _ = fs::remove_file(path);
        Ok(serde_json::from_slice(&text)?)
    }
}
