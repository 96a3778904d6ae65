//! The command line of `ralph trust`.
//!
//! Not here: what it does.

use std::path::PathBuf;

use clap::Args;

/// Options of `trust`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is there or it is not")]
pub(crate) struct TrustArgs {
    /// The project directory [default: this one].
    #[arg(value_name = "DIR", conflicts_with = "list")]
    pub(crate) directory: Option<PathBuf>,
    /// List the projects that are trusted, and what they may ask for.
    #[arg(long, conflicts_with_all = ["remove", "yes", "config"])]
    pub(crate) list: bool,
    /// Revoke the trust in the project.
    #[arg(long, conflicts_with_all = ["yes", "config"])]
    pub(crate) remove: bool,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// With --list, print facts as JSON.
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
    /// Trust the project with this settings file instead of .ralph/settings.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
