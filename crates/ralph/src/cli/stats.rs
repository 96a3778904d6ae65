//! The options of `stats`.

use clap::Args;

/// Options of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Count only runs that began since then: 12h, 7d, 2w or a date such as 2026-11-01.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
