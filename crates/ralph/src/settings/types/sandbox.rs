//! The `sandbox` section: what agents and gates can reach.
//!
//! Not here: enforcing any of it, or choosing a backend.

use clap::ValueEnum;
use ralph_model::sandbox::{
    Backend, Fallback, GitAccess, NetworkMode, RequestedBackend, UnixSockets,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::SizeSetting;

/// What agents and gates can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SandboxSettings {
    /// How isolation is enforced.
    pub(crate) backend: SandboxBackendSetting,
    /// What to do when `auto` finds nothing that enforces isolation.
    pub(crate) fallback: Fallback,
    /// What the agent may do with `.git`. Not set: `ro` where ralph commits, else `agent`.
    pub(crate) git: Option<GitAccess>,
    /// Further writable paths.
    pub(crate) rw: Vec<String>,
    /// Further read-only paths inside the project.
    pub(crate) ro: Vec<String>,
    /// Further hidden paths.
    pub(crate) hide: Vec<String>,
    /// Parts of the home directory that stay readable, such as `.cargo`.
    pub(crate) home: Vec<String>,
    /// Names of environment variables to let through.
    pub(crate) env: Vec<String>,
    /// Unix sockets.
    pub(crate) unix_sockets: UnixSockets,
    /// The image of the `container` backend.
    pub(crate) image: Option<String>,
    /// What gates may use.
    pub(crate) gates: SandboxGateSettings,
    /// The network.
    pub(crate) network: NetworkSettings,
    /// Resource limits of a child process.
    pub(crate) limits: SandboxLimitSettings,
}

/// How isolation is enforced.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxBackendSetting {
    /// The first of the enforced ones that works here.
    #[default]
    Auto,
    /// A Docker Sandboxes micro VM.
    Sbx,
    /// Namespaces and seccomp on Linux, Seatbelt on macOS.
    Native,
    /// Bubblewrap.
    Bwrap,
    /// Docker or podman, with `sandbox.image`.
    Container,
    /// Landlock and seccomp.
    Landlock,
    /// Only the command guard in the agent's hooks.
    Guard,
    /// No isolation.
    None,
}

impl SandboxBackendSetting {
    /// Returns the backend to look for.
    pub(crate) fn to_requested(self) -> RequestedBackend {
        match self {
            Self::Auto => RequestedBackend::Auto,
            Self::Sbx => RequestedBackend::This(Backend::Sbx),
            Self::Native => RequestedBackend::This(Backend::Native),
            Self::Bwrap => RequestedBackend::This(Backend::Bwrap),
            Self::Container => RequestedBackend::This(Backend::Container),
            Self::Landlock => RequestedBackend::This(Backend::Landlock),
            Self::Guard => RequestedBackend::This(Backend::Guard),
            Self::None => RequestedBackend::This(Backend::None),
        }
    }
}

/// What gates may use beyond the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SandboxGateSettings {
    /// The network of gates.
    pub(crate) network: NetworkMode,
    /// Hosts, and ports of this machine such as `localhost:5432`, for gates and not for agents.
    pub(crate) allow: Vec<String>,
    /// Whether gates see the agent's credentials.
    pub(crate) credentials: bool,
}

impl Default for SandboxGateSettings {
    fn default() -> Self {
        Self { network: NetworkMode::None, allow: Vec::new(), credentials: false }
    }
}

/// The network of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct NetworkSettings {
    /// Which network there is.
    pub(crate) mode: NetworkMode,
    /// Further host names the proxy lets through.
    pub(crate) allow: Vec<String>,
    /// Host names the proxy refuses.
    pub(crate) deny: Vec<String>,
    /// Private address ranges the proxy lets through.
    pub(crate) allow_private: Vec<String>,
    /// Whether agents and gates may fetch packages from the servers that the user's and the
    /// project's package managers are set to.
    pub(crate) packages: bool,
}

/// Resource limits of a child process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SandboxLimitSettings {
    /// Processes.
    #[schemars(range(min = 1))]
    pub(crate) pids: u32,
    /// Memory of one process; 0 for no limit.
    pub(crate) memory: SizeSetting,
    /// Temporary files.
    pub(crate) tmp: SizeSetting,
    /// One file; 0 for no limit.
    pub(crate) file: SizeSetting,
    /// Growth of the project; 0 for no limit.
    pub(crate) growth: SizeSetting,
    /// Output; 0 for no limit.
    pub(crate) output: SizeSetting,
}

impl Default for SandboxLimitSettings {
    fn default() -> Self {
        Self {
            pids: 512,
            memory: SizeSetting::from_mib(8 << 10),
            tmp: SizeSetting::from_mib(2 << 10),
            file: SizeSetting::from_mib(2 << 10),
            growth: SizeSetting::from_mib(10 << 10),
            output: SizeSetting::from_mib(2 << 10),
        }
    }
}
