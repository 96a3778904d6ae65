//! Observes the work tree after an agent call, and resets a history that the agent may not write.
//!
//! Not here: gates (`checking`).

use ralph_model::event::Event;
use ralph_model::glob;
use ralph_model::ids::Role;
use ralph_model::worktree::{Checkpoint, History, Observation};

use super::checking::describe_kept_ref;
use super::{Engine, StepError};
use crate::ports::ProjectText;

/// How much of a file is searched for conflict markers.
const MARKED_CHARS: usize = 1_000_000;

impl Engine<'_> {
    /// Observes the agent's changes. Where only ralph commits, commits made by the agent
    /// are reset into the work tree, because they never passed a gate.
    pub(super) fn observe_changes(&mut self) -> Result<(), StepError> {
        let base = self.state.base.clone().unwrap_or(Checkpoint::None);
        let watched = self.watched_patterns();
        let mut observation = self.ports.vcs.observe(&base, &watched)?;
        let mut kept = None;
        let is_unsure = self.state.may_repeat_history_reset;
        let is_outside =
            observation.as_ref().is_some_and(|seen| self.has_commits_outside_scope(seen));
        if let Some(seen) = &observation
            && (self.is_forbidden_history(seen.history)
                || is_outside
                || (is_unsure && self.can_have_been_reset(seen.history)))
        {
            kept = self.ports.vcs.reset_history(&self.git_mark(), &base)?;
        }
        if let Some(seen) = &observation
            && (self.is_forbidden_history(seen.history) || is_outside || kept.is_some())
        {
            let action = match seen.history {
                History::Advanced { commits: 1 } => "made a commit".to_owned(),
                History::Advanced { commits } => format!("made {commits} commits"),
                History::Rewritten => "rewrote the history or switched the branch".to_owned(),
                // The history was reset before ralph died, which was not recorded.
                History::Same => "made commits or switched the branch".to_owned(),
            };
            let place = describe_kept_ref(kept.as_deref());
            let text = if self.map_current(|current| current.role) == Some(Role::Merge) {
                format!(
                    "the user or a gate {action} during a merge, so the changes are part of what \
                     lands: the history was restored{place}"
                )
            } else if is_outside {
                format!(
                    "the agent {action} with files outside its scope: the history was restored{place}"
                )
            } else {
                format!(
                    "the agent {action}, which it may not do here: the history was restored{place}"
                )
            };
            self.record_event(Event::Warned { text })?;
            let tampering = seen.git_tampering.clone();
            observation = self.ports.vcs.observe(&base, &watched)?;
            if let Some(again) = &mut observation {
                again.git_tampering.extend(tampering);
            }
        }
        if let Some(seen) = &mut observation {
            seen.conflict_markers = self.find_conflict_markers();
        }
        if observation.is_some() && self.state.recipe.commits() {
            for path in self.ports.vcs.find_changed_submodules() {
                let text = format!(
                    "files in the submodule `{path}` are changed: gates see the changes, and the commits of this run cannot contain them; commit them in the submodule"
                );
                self.record_event(Event::Warned { text })?;
            }
        }
        self.record_event(Event::Observed { observation, kept })?;
        self.ports.vcs.forget_reported_tampering();
        Ok(())
    }

    /// Returns the files with conflict markers among those that were in conflict when the job or
    /// the work on a failed task began.
    fn find_conflict_markers(&mut self) -> Vec<String> {
        let work = self.state.recipe.task_work();
        let of_job = work.and_then(|work| work.job.as_deref()).map(|job| &job.conflicts);
        let restored = work.map(|work| &work.restored_conflicts);
        let mut paths: Vec<String> =
            of_job.into_iter().chain(restored).flatten().cloned().collect();
        let is_marker = |line: &str| line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>");
        paths.retain(|path| {
            let file = ProjectText::Excerpt { path: path.clone(), chars: MARKED_CHARS };
            let text = self.ports.store.read_text(&file).ok().flatten();
            text.is_some_and(|text| text.lines().any(is_marker))
        });
        paths
    }

    /// Returns whether the agent committed files outside its scope. Restoring them would leave a
    /// change that takes them out of its commits, so those are reset.
    fn has_commits_outside_scope(&self, seen: &Observation) -> bool {
        let has_commits = matches!(seen.history, History::Advanced { .. });
        let is_outside = |path: &String| {
            !glob::is_in_scope(&self.state.recipe.scope, path) && !seen.uncommitted.contains(path)
        };
        has_commits
            && !self.is_forbidden_history(seen.history)
            && seen.files.iter().any(|file| is_outside(&file.path))
    }

    /// Returns whether an unchanged history may have been reset by an earlier process.
    pub(super) fn can_have_been_reset(&self, history: History) -> bool {
        let can_be_reset =
            self.is_forbidden_history(History::Rewritten) || !self.state.recipe.scope.is_empty();
        history == History::Same && can_be_reset
    }

    /// Returns whether the history changed in a way that the recipe does not allow to
    /// agents.
    pub(super) fn is_forbidden_history(&self, history: History) -> bool {
        self.state.recipe.ownership().forbids_history(history)
    }
}
