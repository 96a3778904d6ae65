//! The command lines of `ralph clean` and `ralph clones`.
//!
//! Not here: what it does.

use clap::Args;

/// Options of `clones`.
#[derive(Debug, Args)]
pub(crate) struct ClonesArgs {
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `clean`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is there or it is not")]
pub(crate) struct CleanArgs {
    /// Remove runs whose last activity is older than this, such as 12h or 90d.
    #[arg(long, value_name = "SPAN", default_value = "30d")]
    pub(crate) older_than: String,
    /// Always keep this many of the newest runs.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) keep: usize,
    /// Remove the clones of workers instead, except those with work that is saved nowhere else.
    #[arg(long, conflicts_with_all = ["older_than", "keep", "kept"])]
    pub(crate) clones: bool,
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
