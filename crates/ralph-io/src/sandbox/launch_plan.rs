//! The plan for one sandboxed child: spec and backend, in a file for the process that sets up the
//! sandbox.
//!
//! Not here: setting it up.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{BackendConfig, SandboxSpec};

/// Everything that is needed to set up the sandbox of one child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LaunchPlan {
    #[serde(rename = "wall")]
    pub(super) backend_config: BackendConfig,
    #[serde(rename = "cell")]
    pub(super) spec: SandboxSpec,
    /// The file of the program; in an image, possibly only its name.
    pub(super) program: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) project: PathBuf,
    /// ralph's own executable.
    pub(super) ralph: PathBuf,
    pub(super) home: Option<PathBuf>,
    /// The name of the run's directory.
    pub(super) run: String,
}

impl LaunchPlan {
    /// Writes the plan to a file that only the owner can read.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file: File =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&serde_json::to_vec(self)?)
    }

    /// Reads the plan and removes the file, which is needed only once.
    pub(super) fn read_and_remove(path: &Path) -> std::io::Result<Self> {
        let text = fs::read(path)?;
        let _ = fs::remove_file(path);
        Ok(serde_json::from_slice(&text)?)
    }
}
