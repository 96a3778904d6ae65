//! The command line of `ralph clean`.
//!
//! Not here: what it does.

use clap::Args;

/// Options of `clean`.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Remove runs whose last activity is older than this, such as 12h or 90d.
    #[arg(long, value_name = "SPAN", default_value = "30d")]
    pub(crate) older_than: String,
    /// Always keep this many of the newest runs.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) keep: usize,
    /// Also remove the work that these runs saved under refs/ralph/kept/.
    #[arg(long)]
    pub(crate) kept: bool,
    /// Show what would be removed, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
