//! Looking after the plan that an agent keeps: it is there before an agent is asked, and it is
//! there again after one that lost it.
//!
//! Not here: what a plan says, and what follows from that.

use super::{Engine, EngineError, Trouble};
use crate::event::Event;
use crate::outcome::Outcome;
use crate::plan::{PlanCopy, PlanLook};
use crate::recipe::{PlanFile, PlanPart};

impl Engine<'_> {
    /// Sees to it that there is a plan before an agent is asked that goes by it.
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

    /// Looks at what the agent made of the plan.
    pub(super) fn see_plan(&mut self) -> Result<(), EngineError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.ports.store.look_at_plan(&plan.file);
        self.record(Event::PlanSeen { look })
    }

    /// Puts the plan back that the agent was seen to have lost. Done again after a crash it does
    /// no harm.
    pub(super) fn put_plan_back(&mut self) -> Result<(), Trouble> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let is_lost =
            self.current(|current| current.plan.as_ref().is_some_and(PlanLook::is_to_be_put_back));
        if is_lost == Some(true) {
            let put_back = self.ports.store.put_plan_back(&plan.file);
            self.told(put_back)?;
        }
        Ok(())
    }

    /// Leaves the plan as it was last there, however the run ends.
    pub(super) fn leave_plan_right(&mut self) -> Result<(), EngineError> {
        let Some(plan) = self.state.recipe.plan.clone() else { return Ok(()) };
        let look = self.ports.store.look_at_plan(&plan.file);
        self.restore(&plan, &look)
    }

    fn restore(&mut self, plan: &PlanFile, look: &PlanLook) -> Result<(), EngineError> {
        let Some(said) = look.put_back(&plan.file) else { return Ok(()) };
        match self.ports.store.put_plan_back(&plan.file) {
            Ok(()) => self.warn(said),
            Err(error) => self.warn(error.message),
        }
    }
}
