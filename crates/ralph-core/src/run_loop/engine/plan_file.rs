//! The plan file that an agent maintains: ralph makes sure that it exists before an agent
//! call, and restores it if the agent lost it.
//!
//! Not here: the content of a plan, and what follows from it.

use ralph_model::event::Event;
use ralph_model::outcome::Outcome;
use ralph_model::plan::{PlanCopy, PlanState};
use ralph_model::recipe::{PlanFile, PlanPart};

use super::{Engine, EngineError, StepError};

impl Engine<'_> {
    /// Makes sure that a plan exists before an agent is called that follows it.
    pub(super) fn ensure_plan(&mut self) -> Result<(), StepError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.inspect_plan(&plan);
        // The agent may have changed it in a call that failed, or the user while the run was stopped.
        if look.removed().is_some_and(|removed| removed.items != self.state.removed_items) {
            self.record_event(Event::PlanSeen { look: look.clone() })?;
        }
        self.ports.store.keep_plan(&plan.file);
        match (&look, plan.part) {
            (PlanState::Lost { copy: PlanCopy::None, .. }, PlanPart::Follows) => {
                Err(StepError::Outcome(Outcome::PlanMissing))
            }
            (
                PlanState::Usable { .. } | PlanState::Lost { .. },
                PlanPart::Makes | PlanPart::Follows,
            ) => Ok(self.restore_plan(&plan, &look)?),
        }
    }

    /// Records the state of the plan after the agent.
    pub(super) fn record_plan_state(&mut self) -> Result<(), EngineError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.inspect_plan(&plan);
        self.record_event(Event::PlanSeen { look })
    }

    /// Restores the plan if the agent lost it, and otherwise keeps a copy of it: only now, because
    /// a comparison with the new copy would find no item removed. Safe to repeat after a crash.
    pub(super) fn keep_or_restore_plan(&mut self) -> Result<(), StepError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        match self.map_current(|current| current.plan().map(PlanState::needs_restore)).flatten() {
            Some(true) => {
                let restored = self.ports.store.restore_plan(&plan.file);
                self.warn_on_error(restored)?;
            }
            Some(false) => self.ports.store.keep_plan(&plan.file),
            None => {}
        }
        Ok(())
    }

    /// Restores the last good plan, however the run ends.
    pub(super) fn restore_plan_file(&mut self) -> Result<(), EngineError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.inspect_plan(&plan);
        self.restore_plan(&plan, &look)
    }

    fn inspect_plan(&mut self, plan: &PlanFile) -> PlanState {
        self.ports.store.inspect_plan(&plan.file, &self.state.removed_items)
    }

    fn restore_plan(&mut self, plan: &PlanFile, look: &PlanState) -> Result<(), EngineError> {
        let Some(message) = look.describe_restore(&plan.file) else { return Ok(()) };
        match self.ports.store.restore_plan(&plan.file) {
            Ok(()) => self.warn(message),
            Err(error) => self.warn(error.message),
        }
    }
}
