//! Isolation as the user wants it: what agents and gates can reach, and what enforces it.
//!
//! Plain data. The engine does not look at it; a launcher starts children by it. Not here:
//! any enforcement, and finding out which backend works on this machine.

pub mod addresses;
pub mod blocked;
pub mod hosts;
pub mod model_hosts;
pub mod reach;
pub mod signs;

use std::fmt;

use serde::{Deserialize, Serialize};

/// What agents and gates can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// What is to enforce it.
    pub backend: Wanted,
    /// What follows when nothing that enforces isolation works.
    pub fallback: Fallback,
    /// What an agent may do with the repository.
    pub git: GitAccess,
    /// Further writable paths: absolute, from home with `~/`, or from the project.
    pub rw: Vec<String>,
    /// Further read-only paths, written alike.
    pub ro: Vec<String>,
    /// Further hidden paths, written alike.
    pub hide: Vec<String>,
    /// Parts of the home directory that stay readable, beyond the usual toolchains.
    pub home: Vec<String>,
    /// Names of environment variables that are let through, beyond the usual ones; `*` at the
    /// end stands for anything.
    pub env: Vec<String>,
    /// Unix sockets.
    pub unix_sockets: UnixSockets,
    /// The image of the container backend.
    pub image: Option<String>,
    /// The network of agents.
    pub network: NetworkPolicy,
    /// What gates get.
    pub gates: GatePolicy,
    /// Bounds on what a child may use.
    pub limits: Bounds,
}

/// Which backend the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// The first of the enforced ones that works here.
    Auto,
    /// This one and no other.
    This(Backend),
}

/// What enforces isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A Docker Sandboxes micro VM.
    Sbx,
    /// Namespaces and seccomp on Linux, Seatbelt on macOS.
    Native,
    /// Bubblewrap.
    Bwrap,
    /// Docker or podman.
    Container,
    /// Landlock and seccomp.
    Landlock,
    /// Nothing but the command guard in the agent's hooks.
    Guard,
    /// Nothing.
    None,
}

impl Backend {
    /// All of them, in the order that `auto` tries the enforced ones.
    pub const ALL: [Self; 7] = [
        Self::Sbx,
        Self::Native,
        Self::Bwrap,
        Self::Container,
        Self::Landlock,
        Self::Guard,
        Self::None,
    ];

    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sbx => "sbx",
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Container => "container",
            Self::Landlock => "landlock",
            Self::Guard => "guard",
            Self::None => "none",
        }
    }

    /// Returns whether the system enforces it, rather than the agent's good will.
    pub fn is_enforced(self) -> bool {
        match self {
            Self::Sbx | Self::Native | Self::Bwrap | Self::Container | Self::Landlock => true,
            Self::Guard | Self::None => false,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What follows when nothing that enforces isolation works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// The run does not begin.
    Stop,
    /// The command guard alone.
    Guard,
}

/// What an agent may do with the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GitAccess {
    /// Read it.
    Ro,
    /// Commit; hooks and configuration stay as they are.
    Agent,
    /// Work in a private clone.
    Clone,
}

/// Unix sockets inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnixSockets {
    /// None at all.
    Deny,
    /// Only between processes inside.
    Private,
}

/// The network of agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Which network there is.
    pub mode: NetworkMode,
    /// Hosts that the proxy lets through, beyond those of the agent's model: `host`, `*.host`,
    /// `host:port`.
    pub allow: Vec<String>,
    /// Hosts that it refuses, whatever allows them.
    pub deny: Vec<String>,
    /// Private address ranges that it lets through, such as `10.0.0.0/8`.
    pub allow_private: Vec<String>,
}

/// Which network there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// None.
    None,
    /// The host's, unrestricted.
    Host,
    /// What ralph's proxy allows by name.
    Proxy,
}

/// What gates get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatePolicy {
    /// Their network.
    pub network: NetworkMode,
    /// Whether they see the agent's credentials.
    pub credentials: Credentials,
}

/// Whether gates see the agent's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Credentials {
    /// They do not.
    Withheld,
    /// They do.
    Given,
}

/// Bounds on what a child may use; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Processes.
    pub pids: u32,
    /// Memory.
    pub memory: u64,
    /// Temporary files.
    pub tmp: u64,
    /// One file.
    pub file: u64,
    /// Growth of the project during one call.
    pub growth: u64,
    /// Output of one call.
    pub output: u64,
}

impl Default for Policy {
    /// Returns no isolation: the user of the library says what is wanted.
    fn default() -> Self {
        Self {
            backend: Wanted::This(Backend::None),
            fallback: Fallback::Stop,
            git: GitAccess::Agent,
            rw: Vec::new(),
            ro: Vec::new(),
            hide: Vec::new(),
            home: Vec::new(),
            env: Vec::new(),
            unix_sockets: UnixSockets::Deny,
            image: None,
            network: NetworkPolicy {
                mode: NetworkMode::Proxy,
                allow: Vec::new(),
                deny: Vec::new(),
                allow_private: Vec::new(),
            },
            gates: GatePolicy { network: NetworkMode::None, credentials: Credentials::Withheld },
            limits: Bounds {
                pids: 512,
                memory: 8 << 30,
                tmp: 2 << 30,
                file: 2 << 30,
                growth: 10 << 30,
                output: 64 << 20,
            },
        }
    }
}
