//! A project without a git repository: no checkpoints, nothing to restore.
//!
//! Not here: projects with one.

use std::ffi::OsString;
use std::path::PathBuf;

use ralph_core::ports::{
    CheckpointDepth, CommitOrder, CommitResult, FailureBranchOrder, Observation, SavedBranch,
    ScmResult, Survey, Vcs, VcsError,
};
use ralph_model::glob::Pattern;
use ralph_model::run::IterationMark;
use ralph_model::worktree::{Checkpoint, TreeId};

use super::command::{GitCommand, GitCommands};
use super::scm_call::{commit_with_other_scm, is_git, run_scm};
use crate::environment::Variables;
use crate::process::Watch;
use crate::sandbox::Launcher;

/// A project directory without a git repository. Other source-control programs may be used in it.
#[derive(Debug)]
pub struct NoRepository {
    project: PathBuf,
    commands: GitCommands,
}

impl NoRepository {
    /// Returns the port for a project directory, with the user's environment.
    pub fn new(project: impl Into<PathBuf>, env: Vec<(OsString, OsString)>, watch: Watch) -> Self {
        Self { project: project.into(), commands: GitCommands::new(env, watch) }
    }

    /// Sets how commands are started.
    #[must_use]
    pub fn with_launcher(self, launcher: Launcher, env: Variables) -> Self {
        Self { commands: self.commands.with_launcher(launcher, env), ..self }
    }

    fn build_no_repository_error(&self) -> VcsError {
        let project = self.project.display();
        VcsError {
            message: format!("`{project}` is not in a git repository\nhint: run `git init` first"),
        }
    }
}

impl Vcs for NoRepository {
    fn create_checkpoint(
        &mut self,
        _: &IterationMark,
        _: CheckpointDepth,
    ) -> Result<Checkpoint, VcsError> {
        Ok(Checkpoint::None)
    }

    fn survey_tree(&mut self) -> Result<Option<Survey>, VcsError> {
        Ok(None)
    }

    fn survey_documents(&mut self, _: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        Ok(None)
    }

    fn observe(&mut self, _: &Checkpoint, _: &[Pattern]) -> Result<Option<Observation>, VcsError> {
        Ok(None)
    }

    fn peek_changes_since(
        &mut self,
        _: &Checkpoint,
        _: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        Ok(None)
    }

    fn take_final_survey(&mut self) -> Option<Survey> {
        None
    }

    fn keep_reachable(&mut self, _: &IterationMark, _: &Checkpoint) {}

    fn commit_tree(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        if is_git(&order.command) {
            return Err(self.build_no_repository_error());
        }
        commit_with_other_scm(&self.commands, &self.project, order)
    }

    fn roll_back(&mut self, _: &IterationMark, _: &Checkpoint) -> Result<Option<String>, VcsError> {
        Ok(None)
    }

    fn restore_paths(
        &mut self,
        _: &IterationMark,
        _: &Checkpoint,
        _: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, VcsError> {
        Ok(None)
    }

    fn reset_history(
        &mut self,
        _: &IterationMark,
        _: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        Ok(None)
    }

    fn save_to_failure_branch(&mut self, _: &FailureBranchOrder) -> Result<SavedBranch, VcsError> {
        Err(self.build_no_repository_error())
    }

    fn diff_trees(&mut self, _: &TreeId, _: &TreeId, _: usize) -> Result<String, VcsError> {
        Err(self.build_no_repository_error())
    }

    fn run_scm(&mut self, command: &str, args: &[String]) -> Result<ScmResult, VcsError> {
        run_scm(
            &self.commands,
            GitCommand::new_user_call(command, &self.project).with_args(args).without_sandbox(),
        )
    }
}
