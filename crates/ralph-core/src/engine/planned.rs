//! The plan file that an agent maintains: ralph makes sure that it exists before an agent
//! call, and restores it if the agent lost it.
//!
//! Not here: the content of a plan, and what follows from it.

use super::{Engine, EngineError, Trouble};
use crate::event::Event;
use crate::outcome::Outcome;
use crate::plan::{PlanCopy, PlanLook};
use crate::recipe::{PlanFile, PlanPart};

impl Engine<'_> {
    /// Makes sure that a plan exists before an agent is called that follows it.
    pub(super) fn plan_is_there(&mut self) -> Result<(), Trouble> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.ports.store.look_at_plan(&plan.file);
        match (&look, plan.part) {
            (PlanLook::Lost { copy: PlanCopy::None, .. }, PlanPart::Follows) => {
                Err(Trouble::Outcome(Outcome::PlanMissing))
            }
            (
                PlanLook::There { .. } | PlanLook::Lost { .. },
                PlanPart::Makes | PlanPart::Follows,
            ) => Ok(self.restore(&plan, &look)?),
        }
    }

    /// Records the state of the plan after the agent.
    pub(super) fn see_plan(&mut self) -> Result<(), EngineError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.ports.store.look_at_plan(&plan.file);
        self.record(Event::PlanSeen { look })
    }

    /// Restores the plan if the agent lost it. Safe to repeat after a crash.
    pub(super) fn put_plan_back(&mut self) -> Result<(), Trouble> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let is_lost =
            self.current(|current| current.plan.as_ref().is_some_and(PlanLook::is_to_be_put_back));
        if is_lost == Some(true) {
            let restored = self.ports.store.put_plan_back(&plan.file);
            self.told(restored)?;
        }
        Ok(())
    }

    /// Restores the last good plan, however the run ends.
    pub(super) fn leave_plan_right(&mut self) -> Result<(), EngineError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.ports.store.look_at_plan(&plan.file);
        self.restore(&plan, &look)
    }

    fn restore(&mut self, plan: &PlanFile, look: &PlanLook) -> Result<(), EngineError> {
        let Some(message) = look.put_back(&plan.file) else { return Ok(()) };
        match self.ports.store.put_plan_back(&plan.file) {
            Ok(()) => self.warn(message),
            Err(error) => self.warn(error.message),
        }
    }
}
