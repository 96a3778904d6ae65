//! Moves the history back to a checkpoint and leaves the work tree as it is.
//!
//! Not here: restoring the work tree as well.

use ralph_core::ports::VcsError;
use ralph_model::run::IterationMark;
use ralph_model::worktree::TreeId;

use super::restore::{HeadPosition, RestoreTarget};
use super::vcs::GitVcs;

impl GitVcs {
    /// Moves HEAD back to a position. Also restores the index if the checkpoint recorded it: an
    /// agent that commits stages first.
    pub(super) fn restore_history(
        &mut self,
        mark: &IterationMark,
        place: HeadPosition,
        tree: Option<&TreeId>,
    ) -> Result<Option<String>, VcsError> {
        let name = format!("refs/ralph/kept/{}/{}-history", mark.run, mark.iteration);
        let head = self.repository.head()?;
        let has_moved = place.differs_from(&head);
        let was_kept = self.repository.has_ref(&name)?;
        let noted = match tree {
            Some(TreeId(tree)) => self.read_checkpoint(mark, place.commit.as_deref(), tree)?,
            None => None,
        };
        let (index, operation) = noted.map_or((None, None), |it| (it.index, it.operation));
        let index = match index {
            Some(index) => Some(index),
            // What an agent staged beyond its commits stays; if it staged nothing, the index
            // follows the history.
            None if has_moved && self.repository.list_staged(&head.tree)?.is_empty() => {
                Some(self.repository.resolve_tree(place.commit.as_deref())?)
            }
            None => None,
        };
        let target = RestoreTarget {
            tree: head.tree.clone(),
            index: index.clone().unwrap_or_else(|| head.tree.clone()),
            place: Some(place),
            operation,
        };
        if let Some(place) = target.place.as_ref().filter(|_| has_moved) {
            let message = "ralph: the history before it was reset";
            self.save_all(&head, &target, &head.tree, &name, message)?;
            self.repository.restore_head(place, &head)?;
        }
        self.repository.abort_operation(&target)?;
        if let Some(index) = index.filter(|_| has_moved || was_kept) {
            self.repository.reset_index(&index)?;
        }
        Ok((has_moved || was_kept).then_some(name))
    }
}
