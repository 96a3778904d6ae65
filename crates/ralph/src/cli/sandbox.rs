//! The options of `ralph sandbox`.
//!
//! Not here: what it does.

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use ralph_model::sandbox::NetworkMode;

use crate::settings::types::sandbox::SandboxBackendSetting;

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
    pub(crate) backend: Option<SandboxBackendSetting>,
    /// Whose sandbox: that of an agent, a gate, or git.
    #[arg(long = "as", value_name = "WHO", default_value = "agent", hide_possible_values = true)]
    pub(crate) process: ProcessChoice,
    /// Its network: none, host or proxy [default: as the settings say].
    #[arg(
        long,
        value_name = "MODE",
        value_parser = PossibleValuesParser::new(["none", "host", "proxy"])
            .try_map(|name| serde_json::from_value::<NetworkMode>(name.into())),
        hide_possible_values = true
    )]
    pub(crate) network: Option<NetworkMode>,
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
