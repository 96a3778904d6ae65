//! The command lines of `ralph notify` and `ralph otel`.
//!
//! Not here: what they do.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `notify`.
#[derive(Debug, Args)]
pub(crate) struct NotifyArgs {
    /// Send a test to every channel, and print the results.
    #[arg(long)]
    pub(crate) test: bool,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read settings from this file instead of .ralph/settings.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `ralph otel`.
#[derive(Debug, Args)]
pub(crate) struct OtelArgs {
    #[command(subcommand)]
    pub(crate) command: OtelCommand,
}

/// What can be done with telemetry.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum OtelCommand {
    /// Send the spans and metrics of a run.
    Export(OtelExportArgs),
}

/// Options of `otel export`.
#[derive(Debug, Args)]
pub(crate) struct OtelExportArgs {
    /// The run; without it, the last one of this directory.
    pub(crate) run: Option<String>,
    /// Read settings from this file instead of .ralph/settings.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
