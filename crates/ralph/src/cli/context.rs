//! The options of `ralph context`.
//!
//! Not here: what it shows.

use clap::Args;

/// Options of `context`.
#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// The prompt for this task, instead of the next one.
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
