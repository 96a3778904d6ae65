//! What one child's walls are made from: the cell and the backend, in a file for the process that
//! makes them.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::trouble::Trouble;
use crate::sandbox::{Cell, Wall};

/// What one child's walls are made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::sandbox) struct Plan {
    /// What makes them.
    pub(in crate::sandbox) wall: Wall,
    /// What they hold.
    pub(in crate::sandbox) cell: Cell,
    /// The file of the program.
    pub(in crate::sandbox) program: PathBuf,
    /// The directory it starts in.
    pub(in crate::sandbox) cwd: PathBuf,
}

impl Plan {
    /// Writes it down, for the owner only.
    pub(in crate::sandbox) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file: File =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&serde_json::to_vec(self)?)
    }

    /// Reads it and removes the file: nobody needs it twice.
    pub(super) fn take(path: &Path) -> Result<Self, Trouble> {
        let text = fs::read(path).map_err(Trouble::at("read the plan", path))?;
        let _ = fs::remove_file(path);
        serde_json::from_slice(&text).map_err(Trouble::at("read the plan", path))
    }
}
