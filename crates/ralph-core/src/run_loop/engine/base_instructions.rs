//! Instructions for agents during a review: a reviewer finds them as they were before the work that
//! it reviews, so that the author of the work cannot instruct it.
//!
//! Not here: which files these are (`checking::instruction_changes`).

use ralph_model::event::Purpose;
use ralph_model::recipe::HistoryOwner;
use ralph_model::worktree::{Checkpoint, TreeId};

use super::{Engine, StepError};
use crate::asking::request::find_reviewed_range;
use crate::checking::instruction_changes::{is_instruction, may_review_instructions};

impl Engine<'_> {
    /// Gives the instructions in the work tree their content from before the reviewed work.
    pub(super) fn show_base_instructions(&mut self, purpose: &Purpose) -> Result<(), StepError> {
        let range = |purpose| find_reviewed_range(&self.state, purpose);
        // A gate in a fix checks a task of which a part has landed.
        let range = range(&Purpose::Work).or_else(|| range(purpose));
        self.replace_instructions(purpose, range.map(|(from, _)| from))
    }

    /// Gives them the content that the call found. Repeated after a crash during the call.
    pub(super) fn restore_instructions(&mut self, purpose: &Purpose) -> Result<(), StepError> {
        let found = match purpose {
            Purpose::Gate(_) => self.state.observed_state(),
            Purpose::Work => self.map_current(|it| it.checkpoint().cloned()).flatten(),
            Purpose::Message => None,
        };
        let tree = found.and_then(|found| match found {
            Checkpoint::Git { tree, .. } => tree,
            Checkpoint::None => None,
        });
        self.replace_instructions(purpose, tree)
    }

    fn replace_instructions(
        &mut self,
        purpose: &Purpose,
        tree: Option<TreeId>,
    ) -> Result<(), StepError> {
        // A reviewer that commits would commit the earlier content.
        let may_commit = *purpose == Purpose::Work
            && self.state.recipe.ownership().history != HistoryOwner::Ralph;
        match tree {
            Some(tree) if !may_commit && may_review_instructions(&self.state, purpose) => {
                Ok(self.ports.vcs.replace_files(&tree, &is_instruction)?)
            }
            Some(_) | None => Ok(()),
        }
    }
}
