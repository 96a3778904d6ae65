//! The settings of the sandbox, and the evidence that it made a gate fail.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What agents and gates may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxPolicy {
    pub backend: RequestedBackend,
    /// The backends that would have been preferred and do not work here, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// What to do if no enforcing backend works.
    pub fallback: Fallback,
    pub git: GitAccess,
    /// Further writable paths: absolute, relative to home with `~/`, or relative to the project.
    pub rw: Vec<String>,
    /// Further read-only paths, in the same notation.
    pub ro: Vec<String>,
    /// Further hidden paths, in the same notation.
    pub hide: Vec<String>,
    /// Parts of the home directory that stay readable, in addition to the usual toolchains.
    pub home: Vec<String>,
    /// Names of environment variables to pass through, in addition to the usual ones; `*` at the
    /// end matches anything.
    pub env: Vec<String>,
    pub unix_sockets: UnixSockets,
    pub image: Option<String>,
    pub network: NetworkPolicy,
    pub gates: GateSandboxPolicy,
    pub limits: ChildLimits,
}

/// The backend that the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestedBackend {
    /// The first enforcing backend that works here.
    Auto,
    /// Only this backend.
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
    /// Only the command guard in the agent's hooks.
    Guard,
    None,
}

impl Backend {
    /// All backends, in the order in which `auto` tries the enforcing ones.
    pub const ALL: [Self; 7] = [
        Self::Sbx,
        Self::Native,
        Self::Bwrap,
        Self::Container,
        Self::Landlock,
        Self::Guard,
        Self::None,
    ];

    /// Returns the name in settings.
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

    /// Returns whether the system enforces it, independently of the agent's cooperation.
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

/// What to do when nothing that enforces isolation is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// Do not run.
    #[default]
    Stop,
    /// Continue with the command guard alone.
    Guard,
}

/// What the agent may do with `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GitAccess {
    /// Read it.
    Ro,
    /// Commit; hooks and configuration stay read-only.
    Agent,
}

/// Unix sockets inside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum UnixSockets {
    /// None at all.
    Deny,
    /// Only between processes inside.
    #[default]
    Private,
}

/// The network of agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    pub mode: NetworkMode,
    /// Hosts that the proxy allows, in addition to those of the agent's model: `host`, `*.host`,
    /// `host:port`.
    pub allow: Vec<String>,
    /// Hosts that the proxy always refuses.
    pub deny: Vec<String>,
    /// Private address ranges that the proxy allows, such as `10.0.0.0/8`.
    pub allow_private: Vec<String>,
    /// The servers of package managers, with ports, as found when the run began; `None` if packages
    /// are not to be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<String>>,
}

/// Which network there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// None.
    None,
    /// The host's, unrestricted.
    Host,
    /// Only what ralph's proxy allows by name.
    #[default]
    Proxy,
}

/// What gates may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateSandboxPolicy {
    pub network: NetworkMode,
    /// Hosts and ports of this machine that gates reach, and agents do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    pub credentials: GateCredentials,
}

impl GateSandboxPolicy {
    /// Returns the network of gates: hosts of their own need the proxy.
    pub fn effective_network(&self) -> NetworkMode {
        match self.network {
            NetworkMode::None if !self.allow.is_empty() => NetworkMode::Proxy,
            mode @ (NetworkMode::None | NetworkMode::Host | NetworkMode::Proxy) => mode,
        }
    }
}

/// Whether gates see the agent's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateCredentials {
    Withheld,
    Given,
}

/// Limits on what a child process may use; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildLimits {
    pub pids: u32,
    pub memory: u64,
    pub tmp: u64,
    /// The size of one file.
    pub file: u64,
    /// Growth of the project during one call.
    pub growth: u64,
    /// Output of one call.
    pub output: u64,
}

impl Default for SandboxPolicy {
    /// Returns no isolation: callers set what they need.
    fn default() -> Self {
        Self {
            backend: RequestedBackend::This(Backend::None),
            rejected: Vec::new(),
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
                packages: None,
            },
            gates: GateSandboxPolicy {
                network: NetworkMode::None,
                allow: Vec::new(),
                credentials: GateCredentials::Withheld,
            },
            limits: ChildLimits {
                pids: 512,
                memory: 8 << 30,
                tmp: 2 << 30,
                file: 2 << 30,
                growth: 10 << 30,
                output: 2 << 30,
            },
        }
    }
}

/// Why a gate fails in the sandbox, and how to fix that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSign {
    /// The line of the output that shows it.
    pub line: String,
    /// What the sandbox withholds.
    pub reason: String,
    /// A remedy other than a setting.
    pub advice: Option<String>,
    /// The setting that fixes it, as JSON for the user's own settings.
    pub setting: Option<String>,
}

impl SandboxSign {
    /// Returns the remedies, one sentence each.
    pub fn list_remedies(&self) -> impl Iterator<Item = String> {
        let setting = self.setting.iter();
        let setting = setting.map(|it| format!("put this into your own settings: {it}"));
        self.advice.iter().cloned().chain(setting)
    }
}
