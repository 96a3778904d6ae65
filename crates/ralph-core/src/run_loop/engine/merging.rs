//! Merges the candidates of workers.

use ralph_model::event::Event;
use ralph_model::ids::WorkerId;
use ralph_model::judgement::Verdict;
use ralph_model::parallel_state::MergeOutcome;
use ralph_model::phase::Iteration;
use ralph_model::worktree::{Checkpoint, TreeId};

use super::{Engine, StepError};

impl Engine<'_> {
    /// Merges the candidate of the iteration's task into the work tree.
    pub(super) fn merge_candidate(&mut self) -> Result<(), StepError> {
        let task = self.map_current(|current| current.task.clone()).flatten();
        let parallel = self.state.parallel.as_ref();
        let candidate = task.and_then(|task| parallel?.find_candidate_of(&task).cloned());
        let onto = self.map_current(|current| current.checkpoint().cloned()).flatten();
        let (worker, outcome) = if let Some(candidate) = candidate {
            let onto = onto.unwrap_or(Checkpoint::None);
            let merged = self.ports.vcs.merge_candidate(&self.git_mark(), &onto, &candidate)?;
            (candidate.worker, merged)
        } else {
            let reason = "there is no candidate for the task".to_owned();
            (WorkerId(String::new()), MergeOutcome::Missing { reason })
        };
        let warning = match &outcome {
            MergeOutcome::Clean { edits, .. } => describe_edits(edits),
            MergeOutcome::Same { .. }
            | MergeOutcome::Conflict { .. }
            | MergeOutcome::Missing { .. } => None,
        };
        self.record_event(Event::CandidateMerged { worker, outcome })?;
        if let Some(text) = warning {
            self.record_event(Event::Warned { text })?;
        }
        Ok(())
    }

    /// Keeps the merged tree of a task that starts again, before that is recorded.
    pub(super) fn keep_requeued_tree(&mut self) -> Result<(), StepError> {
        let Some((worker, tree)) = self.map_current(find_requeued_tree).flatten() else {
            return Ok(());
        };
        self.ports.vcs.keep_requeued_tree(&self.state.run, &worker, &tree)?;
        Ok(())
    }
}

/// Returns the merged tree of an iteration whose candidate did not land.
fn find_requeued_tree(current: &Iteration) -> Option<(WorkerId, TreeId)> {
    let merged = current.checking()?.merge.as_deref()?;
    let is_requeued = matches!(current.judgement()?.verdict, Verdict::Requeued { .. })
        || current.commit_refusal().is_some();
    let tree = merged.outcome.tree().filter(|_| is_requeued)?;
    Some((merged.worker.clone(), tree.clone()))
}

/// Describes that what the user changed and did not commit is committed with what lands: the
/// gates run on both.
fn describe_edits(edits: &[String]) -> Option<String> {
    let (first, rest) = edits.split_first()?;
    let others = match rest.len() {
        0 => String::new(),
        1 => " and one other file".to_owned(),
        count => format!(" and {count} other files"),
    };
    Some(format!(
        "`{first}`{others} had changes that were not committed; they are part of what lands now"
    ))
}
