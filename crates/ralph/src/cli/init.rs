//! The options of `ralph init`.
//!
//! Not here: what it asks and writes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::settings::types::sections::WorkflowSetting;

/// Options of `init`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is there or it is not")]
pub(crate) struct InitArgs {
    /// The workflow of the project: prompt, specs or tasks. Asks nothing else.
    #[arg(long, value_name = "WORKFLOW", hide_possible_values = true)]
    pub(crate) workflow: Option<WorkflowSetting>,
    /// What is to be built, in a few words [default: the name of the directory].
    #[arg(long, value_name = "FEATURE")]
    pub(crate) name: Option<String>,
    /// Ask nothing: detect the agent and how the project is checked.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// The agent to use, one of those that are installed [default: the first that is found].
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Migrate from another loop: its directory, list, plan or script.
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "workflow")]
    pub(crate) from: Option<PathBuf>,
    /// Overwrite documents that exist; the old ones are kept as .bak.
    #[arg(long)]
    pub(crate) force: bool,
    /// Also let an agent that did not write the work check it: against its task (spec), for its
    /// quality (quality), or both.
    #[arg(long, value_name = "spec,quality", value_delimiter = ',', hide_possible_values = true)]
    pub(crate) gates: Vec<ReviewGateChoice>,
    /// Do not try the gates in the sandbox.
    #[arg(long)]
    pub(crate) no_try: bool,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what settings files may contain, as a JSON Schema.
    #[arg(long, conflicts_with_all = ["workflow", "yes", "from", "dry_run"])]
    pub(crate) print_schema: bool,
}

/// A gate that asks an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewGateChoice {
    Spec,
    Quality,
}

impl ReviewGateChoice {
    /// Returns its kind in the settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Quality => "quality",
        }
    }
}
