//! The command line of `ralph plugin`.
//!
//! Not here: what it does.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `plugin`.
#[derive(Debug, Args)]
pub(crate) struct PluginArgs {
    /// Print facts as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to do with it.
    #[command(subcommand)]
    pub(crate) command: PluginCommand,
}

/// What can be done with the plugin.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PluginCommand {
    /// Install it into Claude Code, for your own sessions; runs of ralph do not need that.
    Install(PluginInstallArgs),
    /// Write it out as runs use it, and print where.
    Path,
    /// Check it for mistakes, also with `claude` if that is installed.
    Validate {
        /// Another copy than the one in this binary.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// Options of `plugin install`.
#[derive(Debug, Args)]
pub(crate) struct PluginInstallArgs {
    /// For you, in all projects; this is the default.
    #[arg(long, conflicts_with = "project")]
    pub(crate) user: bool,
    /// For all who work in this project: its .claude/settings.json names the plugin.
    #[arg(long)]
    pub(crate) project: bool,
}
