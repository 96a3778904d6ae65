//! A project without a git repository: no checkpoints, nothing to restore.
//!
//! Not here: projects with one.

use std::ffi::OsString;
use std::path::PathBuf;

use ralph_core::event::{Checkpoint, TreeId};
use ralph_core::glob::Pattern;
use ralph_core::ports::{
    CommitOrder, CommitResult, Depth, Mark, Observation, ScmResult, ShelveOrder, Shelved, Survey,
    Vcs, VcsError,
};

use super::command::{Call, Commands};
use super::vcs::{commit_elsewhere, is_git, run_scm};
use crate::environment::Variables;
use crate::process::Watch;
use crate::sandbox::Launcher;

/// A project directory without a git repository. Other source-control programs may be used in it.
#[derive(Debug)]
pub struct NoRepository {
    project: PathBuf,
    commands: Commands,
}

impl NoRepository {
    /// Returns the port for a project directory, with the user's environment.
    pub fn new(project: impl Into<PathBuf>, env: Vec<(OsString, OsString)>, watch: Watch) -> Self {
        Self { project: project.into(), commands: Commands::new(env, watch) }
    }

    /// Sets how commands are started.
    #[must_use]
    pub fn launched_by(self, launcher: Launcher, env: Variables) -> Self {
        Self { commands: self.commands.launched_by(launcher, env), ..self }
    }

    fn refusal(&self) -> VcsError {
        let project = self.project.display();
        VcsError {
            message: format!("`{project}` is not in a git repository\nhint: run `git init` first"),
        }
    }
}

impl Vcs for NoRepository {
    fn checkpoint(&mut self, _: &Mark, _: Depth) -> Result<Checkpoint, VcsError> {
        Ok(Checkpoint::None)
    }

    fn survey(&mut self) -> Result<Option<Survey>, VcsError> {
        Ok(None)
    }

    fn survey_of(&mut self, _: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        Ok(None)
    }

    fn observe(&mut self, _: &Checkpoint, _: &[Pattern]) -> Result<Option<Observation>, VcsError> {
        Ok(None)
    }

    fn changed_since(
        &mut self,
        _: &Checkpoint,
        _: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        Ok(None)
    }

    fn last_look(&mut self) -> Option<Survey> {
        None
    }

    fn hold(&mut self, _: &Mark, _: &Checkpoint) {}

    fn commit(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        if is_git(&order.command) {
            return Err(self.refusal());
        }
        commit_elsewhere(&self.commands, &self.project, order)
    }

    fn rollback(&mut self, _: &Mark, _: &Checkpoint) -> Result<Option<String>, VcsError> {
        Ok(None)
    }

    fn confine(
        &mut self,
        _: &Mark,
        _: &Checkpoint,
        _: &[Pattern],
    ) -> Result<Option<String>, VcsError> {
        Ok(None)
    }

    fn put_history_back(&mut self, _: &Mark, _: &Checkpoint) -> Result<Option<String>, VcsError> {
        Ok(None)
    }

    fn shelve(&mut self, _: &ShelveOrder) -> Result<Shelved, VcsError> {
        Err(self.refusal())
    }

    fn diff(&mut self, _: &TreeId, _: &TreeId, _: usize) -> Result<String, VcsError> {
        Err(self.refusal())
    }

    fn scm(&mut self, command: &str, args: &[String]) -> Result<ScmResult, VcsError> {
        run_scm(&self.commands, Call::users(command, &self.project).args(args).outside())
    }
}
