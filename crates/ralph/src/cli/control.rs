//! The options of the commands that control an active run.

use clap::Args;

/// Options of `stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// End the agent or gate now, as a second Ctrl-C does.
    #[arg(long)]
    pub(crate) now: bool,
    /// Wait until the run has ended.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `pause`.
#[derive(Debug, Args)]
pub(crate) struct HaltArgs {
    /// Wait until it has happened.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `go`.
#[derive(Debug, Args)]
pub(crate) struct GoArgs {
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `skip`.
#[derive(Debug, Args)]
pub(crate) struct SkipArgs {
    /// The task.
    pub(crate) task: String,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `note`.
#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// The text of the note; `-` reads it from stdin.
    #[arg(required = true, value_name = "TEXT", allow_hyphen_values = false)]
    pub(crate) text: Vec<String>,
    /// Only for the worker on this task, in a run with --jobs.
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
