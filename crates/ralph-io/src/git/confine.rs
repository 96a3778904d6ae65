//! Restores a checkpoint except for paths that the attempt was allowed to change.
//!
//! Not here: restoring everything.

use ralph_core::event::Checkpoint;
use ralph_core::glob::Pattern;
use ralph_core::ports::{Mark, VcsError};

use super::vcs::{Git, kept_ref};

impl Git {
    /// Restores everything outside a scope. HEAD stays where it is.
    pub(super) fn confine_to(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
        scope: &[Pattern],
    ) -> Result<Option<String>, VcsError> {
        let mut target = self.target(mark, to)?;
        let now = self.shadow.survey(&self.repository)?;
        let is_allowed = |path: &[u8]| {
            let path = self.repository.named_from_project(path);
            scope.iter().any(|pattern| pattern.matches(&path))
        };
        target.tree = self.tree_with(&target.tree, is_allowed, &now)?;
        let head = self.repository.head()?;
        let place = target.place.take();
        // What was staged before is meaningless on top of further commits, which stay.
        if place.is_some_and(|place| place.commit != head.commit) {
            target.index = head.tree;
        }
        self.go_back(&target, &kept_ref(mark))
    }
}
