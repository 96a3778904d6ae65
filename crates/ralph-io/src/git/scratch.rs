//! A small repository created by ralph, for the demo.
//!
//! Not here: anything that touches a repository of the user.

use std::ffi::OsString;
use std::path::Path;

use ralph_core::ports::VcsError;

use super::command::{GitCommand, GitCommands};
use crate::process::Watch;

/// Creates a repository in a directory, with everything in it as the first commit.
pub fn make_repository(
    directory: &Path,
    env: &[(OsString, OsString)],
    watch: &Watch,
) -> Result<(), VcsError> {
    let commands = GitCommands::new(env.to_vec(), watch.clone());
    for args in [
        ["init", "--quiet", "--initial-branch=main"].as_slice(),
        &["add", "--all"],
        &[
            "commit",
            "--quiet",
            "--no-gpg-sign",
            "--message",
            "A program to be finished, and its test",
        ],
    ] {
        commands.run_for_output(GitCommand::new_plumbing(directory, args))?;
    }
    Ok(())
}

/// Returns the history for display, newest first.
pub fn read_log(
    directory: &Path,
    env: &[(OsString, OsString)],
    watch: &Watch,
) -> Result<String, VcsError> {
    let commands = GitCommands::new(env.to_vec(), watch.clone());
    let args = ["log", "--stat=60", "--format=%n  %h %s%n      %(trailers:separator=%x2C )"];
    let output = commands.run_for_output(GitCommand::new_plumbing(directory, &args))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}
