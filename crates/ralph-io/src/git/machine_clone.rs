//! The clone of a project on a machine that works for other machines' runs.
//!
//! A clone that ralph made has no work of a person in it, so its work tree may be changed at any
//! time. Not here: the private clones of workers (`clones`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use ralph_core::ports::VcsError;
use ralph_model::worktree::CommitId;

use super::command::{GitCommand, GitCommands};
use super::repository::GitRepository;
use crate::process::Watch;

/// Marks a clone that ralph made.
const MARK: &str = "ralph.machineclone";

/// In the git directory of the clone.
const LOCK: &str = "ralph-machine.lock";

/// The first clone of a large project may take long.
const CLONE_PATIENCE: Duration = Duration::from_secs(3600);

/// Clones a project into a directory that is missing or empty. Several processes may do this at the
/// same time: it is a whole clone at once.
pub fn clone_project(
    directory: &Path,
    address: &str,
    env: Vec<(OsString, OsString)>,
) -> Result<(), VcsError> {
    let failed = |error: io::Error| VcsError {
        message: format!("cannot create `{}`: {error}", directory.display()),
    };
    let directory = std::path::absolute(directory).map_err(failed)?;
    let parent = directory.parent().unwrap_or(&directory);
    fs::create_dir_all(parent).map_err(failed)?;
    let made = tempfile::Builder::new().prefix(".ralph-clone-").tempdir_in(parent);
    let made = made.map_err(failed)?;
    let clone = made.path().join("clone");
    let git = GitCommands::new(env, Watch::new_detached()).with_patience(CLONE_PATIENCE);
    let call = GitCommand::new_plumbing(parent, &["clone", "--quiet", "--no-tags", "--"]);
    git.run_for_output(call.with_args([OsStr::new(address), clone.as_os_str()]))?;
    git.run_for_output(GitCommand::new_plumbing(&clone, &["config", MARK, "true"]))?;
    match fs::rename(&clone, &directory) {
        // Another process was first.
        Err(_) if directory.join(".git").exists() => Ok(()),
        renamed => renamed.map_err(failed),
    }
}

impl GitRepository {
    /// Makes a clone on such a machine ready for a job: completes a shallow one, and checks the
    /// base out if ralph made the clone.
    pub fn prepare_machine_clone(&self, remote: &str, base: &CommitId) -> Result<(), VcsError> {
        let lock = File::create(self.common_dir().join(LOCK));
        let _lock = lock
            .and_then(|lock| lock.lock().map(|()| lock))
            .map_err(|error| VcsError { message: format!("cannot lock the clone: {error}") })?;
        if self.common_dir().join("shallow").exists() {
            let call = self.build_plumbing(&["fetch", "--quiet", "--unshallow", "--", remote]);
            self.commands.run_for_output(call)?;
        }
        let is_there = || self.resolve_name("HEAD").is_ok_and(|it| it.as_ref() == Some(&base.0));
        if self.config.is_true(MARK) && !is_there() {
            let args = ["checkout", "--quiet", "--force", "--detach", &base.0, "--"];
            self.commands.run_for_output(self.build_plumbing(&args))?;
        }
        Ok(())
    }
}
