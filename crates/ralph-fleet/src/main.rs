//! `ralph-fleet`: runs the jobs of `ralph build --jobs N --worker-host fleet` on several machines.
//!
//! Temporal gives each job to one node, notices that a node is lost, and passes cancellation.
//! Jobs and results travel through the git remote, and `ralph` does the work on both ends; so
//! nothing here reads a task or touches git.

mod cli;
mod end_signal;
mod error;
mod home;
mod installer;
mod jobs;
mod lease;
mod node;
mod repository;
mod server;
mod service;
mod starter;
mod status;
mod tunnel;
mod worker_process;

use std::process::ExitCode;

fn main() -> ExitCode {
    let Err(error) = cli::run() else { return ExitCode::SUCCESS };
    match error.hint() {
        // `ralph` passes on the last line of a command that it started.
        Some(hint) if cli::is_called_by_ralph() => eprintln!("{error}; {hint}"),
        Some(hint) => eprintln!("error: {error}\nhint: {hint}"),
        None => eprintln!("error: {error}"),
    }
    error.exit_code()
}
