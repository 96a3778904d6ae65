//! The options of `ralph tasks`.
//!
//! Not here: what its commands do.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `tasks`.
#[derive(Debug, Args)]
#[command(after_help = TASK_FILES)]
pub(crate) struct TasksArgs {
    /// The task file [default: tasks.file of the settings, or else the first that is there of
    /// ralph/tasks.json, plan.json and prd.json].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) plan: Option<PathBuf>,
    /// Print facts as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to do; `list` by default.
    #[command(subcommand)]
    pub(crate) command: Option<TasksCommand>,
}

const TASK_FILES: &str = "\
A task file is JSON, in one of two formats:
  {\"tasks\": [{\"id\", \"title\", \"description\", \"acceptance_criteria\", \"status\", ...}]}
  {\"userStories\": [{\"id\", \"title\", \"description\", \"acceptanceCriteria\", \"passes\", ...}]}";

/// What `tasks` can do.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TasksCommand {
    /// Show all tasks, how far they are, and which comes next.
    List,
    /// Show a task in full.
    Show {
        /// The id of the task.
        id: String,
    },
    /// Add a task; the old file is kept in .ralph/ as .bak.
    Add(TasksAddArgs),
    /// Set the status of a task; the old file is kept in .ralph/ as .bak.
    SetStatus(TasksStatusArgs),
    /// Report everything that is wrong with the file.
    Validate(TasksValidateArgs),
    /// Show the changes of the list that agents propose, or decide on one.
    Proposals {
        /// What to do; list the open ones where nothing is given.
        #[command(subcommand)]
        command: Option<ProposalsCommand>,
    },
}

/// What `tasks proposals` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum ProposalsCommand {
    /// Make the change; the old file is kept in .ralph/ as .bak.
    Accept {
        /// The id of the proposal.
        id: String,
    },
    /// Do not make the change, and do not ask again.
    Reject {
        /// The id of the proposal.
        id: String,
    },
}

/// Options of `tasks validate`.
#[derive(Debug, Args)]
pub(crate) struct TasksValidateArgs {
    /// Also refuse a list without tasks, and tasks that were begun.
    #[arg(long)]
    pub(crate) untouched: bool,
    /// Also refuse a list without this command in `verifyCommands`.
    #[arg(long, value_name = "COMMAND", hide = true)]
    pub(crate) keeps: Vec<String>,
}

/// Options of `tasks add`.
#[derive(Debug, Args)]
pub(crate) struct TasksAddArgs {
    /// What it is about, in one line.
    pub(crate) title: String,
    /// How to know that it is done; give it once for each criterion.
    #[arg(long, value_name = "TEXT", required = true, alias = "criteria")]
    pub(crate) criterion: Vec<String>,
    /// What is wanted [default: the title].
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// A task that must be done before; give it once for each, or separate them by commas.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) depends_on: Vec<String>,
    /// Lower comes first [default: after all others, or as the task of --after].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) order: Option<i64>,
    /// The task to insert it after in the file [default: the last].
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// Its id [default: the next number after those that are there].
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

/// Options of `tasks set-status`.
#[derive(Debug, Args)]
pub(crate) struct TasksStatusArgs {
    /// The id of the task.
    pub(crate) id: String,
    /// pending, done, failed or skipped.
    pub(crate) status: String,
    /// What to note about it, after what is noted already.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}
