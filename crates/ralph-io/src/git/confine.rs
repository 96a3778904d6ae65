//! Restores a checkpoint except for paths that the attempt was allowed to change.
//!
//! Not here: restoring everything.

use ralph_core::ports::VcsError;
use ralph_model::glob::Pattern;
use ralph_model::run::IterationMark;
use ralph_model::worktree::Checkpoint;

use super::vcs::{GitVcs, format_kept_ref};

impl GitVcs {
    /// Restores everything outside a scope. HEAD stays where it is.
    pub(super) fn confine_to(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
        scope: &[Pattern],
    ) -> Result<Option<String>, VcsError> {
        let mut target = self.build_restore_target(mark, to)?;
        let now = self.shadow.survey_tree(&self.repository)?;
        let is_allowed = |path: &[u8]| {
            let path = self.repository.name_bytes_from_project(path);
            scope.iter().any(|pattern| pattern.matches(&path))
        };
        target.tree = self.build_tree_with(&target.tree, is_allowed, &now)?;
        let head = self.repository.head()?;
        let place = target.place.take();
        // What was staged before is meaningless on top of further commits, which stay.
        if place.is_some_and(|place| place.commit != head.commit) {
            target.index = head.tree;
        }
        self.restore(&target, &format_kept_ref(mark))
    }
}
