//! The options of `ralph sandbox`.
//!
//! Not here: what it does.

use std::ffi::OsString;

use clap::{Args, Subcommand, ValueEnum};

/// Options of `sandbox`.
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub(crate) command: SandboxCommand,
}

/// What can be done with the sandbox.
#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Run a command where an agent, or a gate, of this project would run.
    Exec(ExecArgs),
    /// Show what an agent, or a gate, of this project can reach.
    Show(ShowArgs),
}

/// Options of `sandbox exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) target: SandboxTargetArgs,
    /// The command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Options of `sandbox show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) target: SandboxTargetArgs,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options that select a sandbox.
#[derive(Debug, Args)]
pub(crate) struct SandboxTargetArgs {
    /// The backend: sbx, native, bwrap, container, landlock or none [default: as the settings say].
    #[arg(long, alias = "sandbox", value_name = "BACKEND", hide_possible_values = true)]
    pub(crate) backend: Option<BackendChoice>,
    /// Whose sandbox: that of an agent, a gate, or git.
    #[arg(long = "as", value_name = "WHO", default_value = "agent", hide_possible_values = true)]
    pub(crate) process: ProcessChoice,
    /// Its network: none, host or proxy [default: as the settings say].
    #[arg(long, value_name = "MODE", hide_possible_values = true)]
    pub(crate) network: Option<NetworkChoice>,
}

/// A backend that can be asked for here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendChoice {
    /// The first that works.
    Auto,
    /// Ralph's own namespaces.
    Native,
    /// Bubblewrap.
    Bwrap,
    /// Docker or podman, with `sandbox.image`.
    Container,
    /// Docker Sandboxes.
    Sbx,
    /// Landlock.
    Landlock,
    /// Nothing.
    None,
}

/// Whose sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProcessChoice {
    /// That of an agent.
    Agent,
    /// That of a gate.
    Gate,
    /// That of git as ralph calls it.
    Git,
}

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkChoice {
    /// None.
    None,
    /// The host's.
    Host,
    /// What the proxy lets through.
    Proxy,
}
