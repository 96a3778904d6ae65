//! The plan for one sandboxed child: spec and backend, in a file for the process that sets up the
//! sandbox.
//!
//! Not here: setting it up.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{BackendConfig, SandboxSpec};
use crate::process::{ProcessLimits, Spawn, StdinSource};

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

    /// Returns the child as it was described; its environment is the one of this process.
    pub(super) fn rebuild_spawn(&self, command_line: &[OsString]) -> Spawn {
        Spawn {
            program: command_line[0].clone(),
            args: command_line[1..].to_vec(),
            cwd: self.cwd.clone(),
            env: std::env::vars_os().collect(),
            stdin: StdinSource::Null,
            limits: ProcessLimits::default(),
        }
    }
}
