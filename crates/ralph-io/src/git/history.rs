//! Moves the history back to a checkpoint and leaves the work tree as it is.
//!
//! Not here: restoring the work tree as well.

use ralph_core::event::TreeId;
use ralph_core::ports::{Mark, VcsError};

use super::back::{Place, Target};
use super::vcs::Git;

impl Git {
    /// Moves HEAD back to a position. Also restores the index if the checkpoint recorded it: an
    /// agent that commits stages first.
    pub(super) fn put_place_back(
        &mut self,
        mark: &Mark,
        place: Place,
        tree: Option<&TreeId>,
    ) -> Result<Option<String>, VcsError> {
        let name = format!("refs/ralph/kept/{}/{}-history", mark.run, mark.iteration);
        let head = self.repository.head()?;
        let has_moved = place.is_left(&head);
        let was_kept = self.repository.has_ref(&name)?;
        let noted = match tree {
            Some(TreeId(tree)) => self.noted(mark, place.commit.as_deref(), tree)?,
            None => None,
        };
        let (index, operation) = noted.map_or((None, None), |it| (it.index, it.operation));
        let index = match index {
            Some(index) => Some(index),
            // What an agent staged beyond its commits stays; if it staged nothing, the index
            // follows the history.
            None if has_moved && self.repository.staged(&head.tree)?.is_empty() => {
                Some(self.repository.tree_of(place.commit.as_deref())?)
            }
            None => None,
        };
        let target = Target {
            tree: head.tree.clone(),
            index: index.clone().unwrap_or_else(|| head.tree.clone()),
            place: Some(place),
            operation,
        };
        if let Some(place) = target.place.as_ref().filter(|_| has_moved) {
            let message = "ralph: the history before it was reset";
            self.keep_all(&head, &target, &head.tree, &name, message)?;
            self.repository.put_head_back(place, &head)?;
        }
        self.repository.give_up_operation(&target)?;
        if let Some(index) = index.filter(|_| has_moved || was_kept) {
            self.repository.reset_index(&index)?;
        }
        Ok((has_moved || was_kept).then_some(name))
    }
}
