//! The command line of the live page.

use std::path::PathBuf;

use clap::Args;

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The port on 127.0.0.1 [default: any that is free].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Keep the secret of the address in this file, so that it is the same after a restart.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Open a browser.
    #[arg(long)]
    pub(crate) open: bool,
    /// Show the runs of all projects, not only of this directory.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the address as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
