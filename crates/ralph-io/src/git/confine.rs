//! Restores the paths of a checkpoint that the attempt was not allowed to change.
//!
//! Not here: restoring everything.

use ralph_core::ports::VcsError;
use ralph_model::run::IterationMark;
use ralph_model::worktree::Checkpoint;

use super::vcs::{GitVcs, format_kept_ref};

impl GitVcs {
    /// Restores some paths. HEAD stays where it is.
    pub(super) fn restore_some_paths(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
        is_restored: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, VcsError> {
        let mut target = self.build_restore_target(mark, to)?;
        let now = self.shadow.survey_tree(&self.repository)?;
        let is_left = |path: &[u8]| !is_restored(&self.repository.name_bytes_from_project(path));
        target.tree = self.build_tree_with(&target.tree, is_left, &now)?;
        let head = self.repository.head()?;
        let place = target.place.take();
        // What was staged before is meaningless on top of further commits, which stay.
        if place.is_some_and(|place| place.commit != head.commit) {
            target.index = head.tree;
        }
        self.restore(&target, &format_kept_ref(mark))
    }
}
