//! The options of `stats`.

use clap::Args;

/// Options of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Count only runs that began since then: 90m, 12h, 7d, 2w, a time such as 23:15, or a date.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
