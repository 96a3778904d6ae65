//! The sandbox spec as plain data: what one child can reach.
//!
//! Every backend implements the same spec. Not here: how the spec is built (`spec_builder`), and
//! enforcing it (`stage`).

use std::path::{Path, PathBuf};

use ralph_model::sandbox::UnixSockets;
use serde::{Deserialize, Serialize};

/// What a child can reach.
///
/// By default everything on the machine is visible and read-only. The mounts apply in order: a
/// later one covers an earlier one that contains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSpec {
    /// Paths that differ from the default, outer ones first.
    pub mounts: Vec<Mount>,
    /// Protected paths that exist when the child starts.
    #[serde(default)]
    pub present: Vec<PathBuf>,
    /// Names that the child may not create.
    #[serde(default)]
    pub absent: Vec<AbsentName>,
    pub network: SandboxNetwork,
    pub unix_sockets: UnixSockets,
    pub bounds: ResourceLimits,
    /// What this sandbox does not enforce, for the user.
    pub notes: Vec<String>,
}

/// A path that differs from the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "as")]
pub enum Mount {
    /// Empty at first, writable, and removed afterwards.
    Scratch {
        path: PathBuf,
    },
    /// Nothing is visible.
    Hidden {
        path: PathBuf,
    },
    /// Visible and read-only; for paths inside a hidden one.
    Shown {
        path: PathBuf,
    },
    Writable {
        path: PathBuf,
    },
    /// Writable, but cannot be moved away, because it contains something protected.
    Pinned {
        path: PathBuf,
    },
    /// A persistent directory of ralph's own at this path, writable: a cache that is not the
    /// user's.
    Cache {
        /// Where tools look for it.
        path: PathBuf,
        /// Where it is stored, in ralph's state.
        source: PathBuf,
    },
    /// Another file or directory at this path, read-only.
    ShownAs {
        /// The path inside.
        path: PathBuf,
        /// The path on the host.
        source: PathBuf,
    },
    /// Read-only inside a writable path.
    Protected {
        path: PathBuf,
    },
}

/// A name that does not exist when a child starts and that the child may not create. Nothing can be
/// mounted on a name that does not exist, so ralph removes what appears there after the call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AbsentName {
    pub path: PathBuf,
    /// The deepest existing directory above the name; no part of its path is a symbolic link.
    pub above: PathBuf,
}

impl Mount {
    /// Returns the path inside the sandbox.
    pub fn path(&self) -> &Path {
        match self {
            Self::Scratch { path }
            | Self::Hidden { path }
            | Self::Shown { path }
            | Self::Writable { path }
            | Self::Pinned { path }
            | Self::Cache { path, .. }
            | Self::ShownAs { path, .. }
            | Self::Protected { path } => path,
        }
    }
}

/// Returns whether the last mount above a path makes it visible; `None` without such a mount.
pub(super) fn find_visibility(mounts: &[Mount], path: &Path) -> Option<bool> {
    let last = mounts.iter().rev().find(|mount| path.starts_with(mount.path()))?;
    Some(match last {
        Mount::Scratch { .. } | Mount::Hidden { .. } | Mount::Cache { .. } => false,
        Mount::Shown { .. }
        | Mount::ShownAs { .. }
        | Mount::Writable { .. }
        | Mount::Pinned { .. }
        | Mount::Protected { .. } => true,
    })
}

/// The network of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum SandboxNetwork {
    /// Only a loopback of its own.
    None,
    /// The host's network.
    Host,
    /// A loopback of its own, with the proxy on one port.
    Proxy(ProxyEndpoint),
}

/// How a sandbox reaches the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyEndpoint {
    /// The unix socket at which the proxy takes over listeners that were created inside a sandbox.
    pub handover: PathBuf,
    /// Loopback ports inside the sandbox that lead to the same ports of the host's loopback.
    pub forwards: Vec<u16>,
    /// The port on the host's loopback at which the proxy listens for sandboxes without a loopback
    /// of their own.
    pub port: u16,
}

/// Resource limits of a child; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// Processes and threads.
    pub pids: u32,
    pub counted: ProcessCounting,
    pub memory: u64,
    /// Each of the scratch mounts.
    pub tmp: u64,
    /// One file.
    pub file: u64,
}

/// How the processes of a sandbox are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessCounting {
    /// Per user, which has no effect for root.
    ByUser,
    /// In a control group as well, where possible, together with their memory. Where groups accept
    /// whole processes only, the kernel needs up to 15 ms to move one in.
    Together,
}
