//! Observes the work tree after an agent call, and resets a history that the agent may not write.
//!
//! Not here: gates (`checking`).

use ralph_model::event::Event;
use ralph_model::worktree::{Checkpoint, History};

use super::checking::describe_kept_ref;
use super::{Engine, StepError};

impl Engine<'_> {
    /// Observes the agent's changes. Where only ralph commits, commits made by the agent
    /// are reset into the work tree, because they never passed a gate. `tampering` is what is
    /// known already to have been changed of git's own files.
    pub(super) fn observe_changes(&mut self, tampering: Vec<String>) -> Result<(), StepError> {
        let base = self.state.base.clone().unwrap_or(Checkpoint::None);
        let watched = self.watched_patterns();
        let mut observation = self.ports.vcs.observe(&base, &watched)?;
        if let Some(seen) = &mut observation {
            seen.git_tampering.extend(tampering);
        }
        let mut kept = None;
        let is_unsure = self.state.may_repeat_history_reset;
        if let Some(seen) = &observation
            && (self.is_forbidden_history(seen.history)
                || (is_unsure && self.can_have_been_reset(seen.history)))
        {
            kept = self.ports.vcs.reset_history(&self.git_mark(), &base)?;
        }
        if let Some(seen) = &observation
            && (self.is_forbidden_history(seen.history) || kept.is_some())
        {
            let agent_did = match seen.history {
                History::Advanced { commits: 1 } => "the agent made a commit".to_owned(),
                History::Advanced { commits } => format!("the agent made {commits} commits"),
                History::Rewritten => {
                    "the agent rewrote the history or switched the branch".to_owned()
                }
                // The history was reset before ralph died, which was not recorded.
                History::Same => "the agent made commits or switched the branch".to_owned(),
            };
            let place = describe_kept_ref(kept.as_deref());
            self.record_event(Event::Warned {
                text: format!(
                    "{agent_did}, which it may not do here: the history was restored{place}"
                ),
            })?;
            let tampering = seen.git_tampering.clone();
            observation = self.ports.vcs.observe(&base, &watched)?;
            if let Some(again) = &mut observation {
                again.git_tampering.extend(tampering);
            }
        }
        self.record_event(Event::Observed { observation, kept })?;
        Ok(())
    }

    /// Returns whether an unchanged history may have been reset by an earlier process.
    pub(super) fn can_have_been_reset(&self, history: History) -> bool {
        history == History::Same && self.is_forbidden_history(History::Rewritten)
    }

    /// Returns whether the history changed in a way that the recipe does not allow to
    /// agents.
    pub(super) fn is_forbidden_history(&self, history: History) -> bool {
        self.state.recipe.ownership().forbids_history(history)
    }
}
