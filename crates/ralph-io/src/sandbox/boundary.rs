//! What a child reaches, as the backends take it that are programs of others: engines of
//! containers, `sbx`, `sandbox-exec`.
//!
//! Plain data. Not here: how it follows from the policy.

use std::path::{Path, PathBuf};

use ralph_core::sandbox::{Bounds, NetworkMode};

/// The variable that tells a child which sandbox it is in.
pub(super) const SANDBOX_VARIABLE: &str = "RALPH_SANDBOX";

/// What a child reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    /// The project.
    pub project: PathBuf,
    /// The user's home directory, of which only what `places` say is to be seen.
    pub home: PathBuf,
    /// Places that are not as the rest, outer ones first. A later one wins over an earlier one
    /// that it lies in.
    pub places: Vec<Place>,
    /// Its network.
    pub network: NetworkMode,
    /// What it may use.
    pub bounds: Bounds,
}

/// A place that is not as the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Writable, and the directory itself cannot be moved away.
    Writable(PathBuf),
    /// To be read and not to be written.
    ReadOnly(PathBuf),
    /// A directory of which nothing is to be seen.
    HiddenDirectory(PathBuf),
    /// A file that seems empty.
    HiddenFile(PathBuf),
}

impl Place {
    /// Returns where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Writable(path)
            | Self::ReadOnly(path)
            | Self::HiddenDirectory(path)
            | Self::HiddenFile(path) => path,
        }
    }
}

/// A boundary for tests of the argument lists.
#[cfg(test)]
pub(super) fn example() -> Boundary {
    let bounds =
        Bounds { pids: 512, memory: 8 << 30, tmp: 2 << 30, file: 1 << 30, growth: 0, output: 0 };
    Boundary {
        project: "/home/ann/my project".into(),
        home: "/home/ann".into(),
        places: vec![
            Place::Writable("/home/ann/my project".into()),
            Place::ReadOnly("/home/ann/my project/.git".into()),
            Place::ReadOnly("/home/ann/my project/.ralph".into()),
            Place::HiddenDirectory("/home/ann/my project/secrets".into()),
            Place::HiddenFile("/home/ann/my project/.env".into()),
            Place::ReadOnly("/home/ann/.local/state/ralph/run/mcp.json".into()),
            Place::Writable("/home/ann/.local/state/ralph/agent/claude".into()),
        ],
        network: NetworkMode::Proxy,
        bounds,
    }
}

/// A child for tests of the argument lists.
#[cfg(test)]
pub(super) fn child() -> crate::process::Spawn {
    let env = [
        ("PATH", "/home/ann/bin:/usr/bin"),
        ("HOME", "/home/ann"),
        ("LANG", "C.UTF-8"),
        ("MODEL_API_KEY", "sk-123"),
        ("DOCKER_HOST", "unix:///run/docker.sock"),
    ];
    crate::process::Spawn {
        program: "claude".into(),
        args: vec!["-p".into(), "two words".into()],
        cwd: "/home/ann/my project/web".into(),
        env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
        stdin: crate::process::Stdin::Bytes(b"prompt".to_vec()),
        limits: crate::process::Limits::default(),
    }
}

/// Shows a child as it would be started, an option a line.
#[cfg(test)]
pub(super) fn shown(spawn: &crate::process::Spawn) -> String {
    let mut text = spawn.program.to_string_lossy().into_owned();
    for word in &spawn.args {
        let word = word.to_string_lossy();
        text.push(if word.starts_with('-') { '\n' } else { ' ' });
        text.push_str(&word);
    }
    let names: Vec<_> = spawn.env.iter().map(|(name, _)| name.to_string_lossy()).collect();
    format!("{text}\nin {} with {}\n", spawn.cwd.display(), names.join(" "))
}
