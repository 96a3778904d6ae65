//! `ralph`: drives any coding-agent CLI in a loop until the work is really done.
//!
//! Flags and settings become a recipe, the parts are connected, and the outcome becomes an exit
//! code. Not here: any decision about the work itself.

mod agent_trial;
mod agent_versions;
mod browser;
mod call_preview;
mod cli;
mod cli_error;
mod commands;
mod crash_recovery;
mod detect;
mod documents;
mod enclosing_project;
mod full_screen;
#[cfg(test)]
mod fuzzing;
mod gate_files;
mod guard_self_test;
mod host_checks;
mod isolation;
mod memory_setup;
mod package_hosts;
mod plugin;
mod preview;
mod project;
mod recipe;
mod recording;
mod run_context;
mod run_stats;
mod scaffold;
mod screen;
mod secrets;
mod session;
mod settings;
mod since;
mod start_warnings;
mod subscribers;
mod task_branch;
mod task_file;
mod templates;
mod toolchain_files;
mod trust;
mod unfinished_run;
mod workflow;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run_command_line(std::env::args_os().collect())
}
