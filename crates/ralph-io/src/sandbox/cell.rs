//! A cell as plain data: what one child can reach.
//!
//! The one plan that every backend carries out. Not here: how the list comes about (`furnish`), and
//! carrying it out (`stage`).

use std::path::{Path, PathBuf};

use ralph_core::sandbox::UnixSockets;
use serde::{Deserialize, Serialize};

/// What a child can reach.
///
/// Everything on the machine is visible and read-only to begin with. The places follow in order,
/// and a later one wins over an earlier one that it lies in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// The places that are not as the rest, outer ones first.
    pub mounts: Vec<Mount>,
    /// Names that the child may not create.
    #[serde(default)]
    pub absent: Vec<AbsentName>,
    /// The network.
    pub network: Network,
    /// Unix sockets.
    pub unix_sockets: UnixSockets,
    /// What it may use.
    pub bounds: Bounds,
    /// What the walls do not hold, in words.
    pub notes: Vec<String>,
}

/// One place that is not as the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "as")]
pub enum Mount {
    /// Empty at first, writable, and gone afterwards.
    Scratch {
        /// The directory.
        path: PathBuf,
    },
    /// Nothing to be seen.
    Hidden {
        /// The directory or file.
        path: PathBuf,
    },
    /// As it is, read-only; for what lies in a hidden place.
    Shown {
        /// The directory or file.
        path: PathBuf,
    },
    /// Writable.
    Writable {
        /// The directory or file.
        path: PathBuf,
    },
    /// Writable, but it cannot be moved away: something protected lies in it.
    Pinned {
        /// The directory.
        path: PathBuf,
    },
    /// A lasting directory of ralph's own at this path, writable: a cache that is not the user's.
    Cache {
        /// Where tools look for it.
        path: PathBuf,
        /// Where it lies, in ralph's state.
        source: PathBuf,
    },
    /// Something else at this path, read-only.
    ShownAs {
        /// Where it is seen.
        path: PathBuf,
        /// What it is.
        source: PathBuf,
    },
    /// Read-only in a writable place.
    Protected {
        /// The directory or file.
        path: PathBuf,
    },
}

/// A name that does not exist when a child starts and that the child may not create. Nothing can be
/// mounted on a name that does not exist, so what appears there is removed after the call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AbsentName {
    /// The name.
    pub path: PathBuf,
    /// The deepest directory above it that exists; no part of its path is a link.
    pub above: PathBuf,
}

impl Mount {
    /// Returns the place.
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

/// The network of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Network {
    /// None but a loopback of its own.
    None,
    /// The host's.
    Host,
    /// A loopback of its own, with the proxy behind one port.
    Proxy(Door),
}

/// How a cell and the proxy come together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Door {
    /// The unix socket at which the proxy takes over listeners that were made in a cell.
    pub handover: PathBuf,
    /// Ports of the host's loopback that the same ports of a cell's own lead to.
    pub forwards: Vec<u16>,
    /// The port on the host's loopback at which the proxy listens for cells that have no loopback
    /// of their own.
    pub port: u16,
}

/// What a child may use; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Processes and threads.
    pub pids: u32,
    /// How these are counted.
    pub counted: Counted,
    /// Memory.
    pub memory: u64,
    /// Each of the scratch places.
    pub tmp: u64,
    /// One file.
    pub file: u64,
}

/// How the processes of a cell are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Counted {
    /// As the user's, which does not hold for root.
    ByUser,
    /// As a group of their own as well, where that is possible, with their memory. Where groups take
    /// whole processes only, the kernel needs up to 15 ms to let one in.
    Together,
}
