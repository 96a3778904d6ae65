//! Checks, at a resume, what changed since the run ended.
//!
//! Not here: which changes the state accepts (`run::resume`).

use ralph_model::glob::Pattern;
use ralph_model::recipe::{HistoryOwner, Recipe};
use ralph_model::run::RunState;
use ralph_model::worktree::{CheckedOut, Checkpoint, EndSnapshot};

use super::{Engine, EngineError};
use crate::ports::{Survey, Vcs};
use crate::run_loop::choose;

impl Engine<'_> {
    /// Returns the snapshot that a resumed run compares with.
    pub(super) fn take_end_snapshot(
        &mut self,
        expected_head: Option<CheckedOut>,
    ) -> Option<Box<EndSnapshot>> {
        let repository = self.snapshot_unlanded_work(expected_head);
        let is_listed = self.is_task_file_in_sync();
        (repository.is_some() || is_listed)
            .then(|| Box::new(EndSnapshot { repository, task_file_in_sync: is_listed }))
    }

    /// Returns the state of the repository if there is work that has not landed. Nothing
    /// if git fails: a resumed run then cannot tell what changed.
    fn snapshot_unlanded_work(&mut self, expected_head: Option<CheckedOut>) -> Option<Checkpoint> {
        match self.state.unlanded_base() {
            Some(Checkpoint::Git { .. }) => {
                let Survey { tree, checked_out, .. } = self.ports.vcs.take_final_survey()?;
                let CheckedOut { head, branch } = expected_head.or(checked_out)?;
                Some(Checkpoint::Git { head, branch, tree: Some(tree) })
            }
            Some(Checkpoint::None) | None => None,
        }
    }

    /// Returns the patterns whose matches are listed first, however many other files
    /// changed.
    pub(super) fn watched_patterns(&self) -> Vec<Pattern> {
        list_watched_patterns(&self.state.recipe)
    }

    pub(super) fn is_list_document(&self, path: &str) -> bool {
        let work = self.state.recipe.task_work();
        work.is_some_and(|work| work.is_document(&self.state.project, path))
    }
}

/// Fails if protected paths, or a history that only ralph writes, changed after the run ended. An
/// agent cannot have done it and must not be blamed for it.
pub fn check_unchanged_since_end(state: &RunState, vcs: &mut dyn Vcs) -> Result<(), EngineError> {
    let left = state.end_snapshot.as_ref().and_then(|left| left.repository.clone());
    let (Some(_), Some(left)) = (&state.outcome, left) else { return Ok(()) };
    let now = vcs.peek_changes_since(&left, &list_watched_patterns(&state.recipe));
    let Checkpoint::Git { head, branch, tree } = left else { return Ok(()) };
    let now = match now {
        Ok(Some(now)) => now,
        Ok(None) => return Ok(()),
        // `git gc` may have removed the tree, but not what is checked out.
        Err(_) => return check_head_unchanged(state, vcs, CheckedOut { head, branch }),
    };
    let paths: Vec<String> = now.files.into_iter().map(|file| file.path).collect();
    let paths = choose::find_protected_paths(state, &paths);
    match (now.checked_out, tree) {
        (Some(other), _) if state.recipe.ownership().forbids_history(now.history) => {
            Err(EngineError::Moved { left: CheckedOut { head, branch }, now: other })
        }
        (_, Some(left)) if !paths.is_empty() => Err(EngineError::Protected { paths, left }),
        (_, _) => Ok(()),
    }
}

/// Fails if a history that only ralph writes has moved. Used where the tree cannot be compared.
fn check_head_unchanged(
    state: &RunState,
    vcs: &mut dyn Vcs,
    left: CheckedOut,
) -> Result<(), EngineError> {
    let survey = vcs.survey_tree().map_err(EngineError::Git)?;
    let is_ralphs = state.recipe.ownership().history == HistoryOwner::Ralph;
    match survey.and_then(|survey| survey.checked_out) {
        Some(now) if is_ralphs && now != left => Err(EngineError::Moved { left, now }),
        Some(_) | None => Ok(()),
    }
}

fn list_watched_patterns(recipe: &Recipe) -> Vec<Pattern> {
    recipe.protect.iter().chain(&recipe.scope).cloned().collect()
}
