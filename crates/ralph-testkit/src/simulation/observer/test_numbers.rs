//! Checks that a reviewer learns of it when a gate passes with fewer tests than before.
//!
//! Before means: before the run, or on the last task that was finished. Not here: which tests there are.

#![expect(clippy::wildcard_enum_match_arm, reason = "most events are about something else")]

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_model::event::{Event, Purpose, Recorded};
use ralph_model::gate::GateStatus;
use ralph_model::ids::Role;

use super::Observer;
use crate::simulation::plan::SimulatedWorkflow;
use crate::simulation::world::SimulatedWorld;

/// How many tests each gate ran.
#[derive(Debug, Clone, Default)]
pub(super) struct CountedTests {
    pub(super) before: BTreeMap<String, u64>,
    pub(super) now: BTreeMap<String, u64>,
}

impl Observer {
    /// Updates the numbers. Must be called when the list is known as it is after the event.
    pub(super) fn count_tests(&mut self, recorded: &Recorded, world: &mut SimulatedWorld) {
        let counted = &mut self.tests;
        match &recorded.event {
            Event::BaselineChecked { result, .. } => {
                if let Some(tests) = result.tests {
                    counted.before.insert(result.gate.clone(), tests);
                    counted.now.insert(result.gate.clone(), tests);
                }
            }
            Event::GateChecked { result, .. } if result.status == GateStatus::Passed => {
                let Some(tests) = result.tests else { return };
                let before = *counted.before.entry(result.gate.clone()).or_insert(tests);
                counted.now.insert(result.gate.clone(), tests);
                if tests < before {
                    world.tally.count_one("events fewer tests");
                }
            }
            Event::IterationEnded { .. } => {
                let task = self.watched.as_ref().and_then(|watched| watched.task.as_ref());
                let task = task.and_then(|id| self.list.as_ref()?.find_task(id));
                if task.is_some_and(|task| task.status.is_done()) {
                    counted.before.clone_from(&counted.now);
                }
            }
            _ => {}
        }
    }

    /// Checks that the prompt of a review names each gate that ran fewer tests.
    pub(super) fn check_fallen_tests(
        &self,
        request: &AgentRequest,
        world: &SimulatedWorld,
    ) -> Result<(), String> {
        let is_review = (&request.purpose, request.role) == (&Purpose::Work, Role::Review);
        if !is_review || world.plan.workflow != SimulatedWorkflow::Tasks {
            return Ok(());
        }
        for (gate, now) in &self.tests.now {
            let before = self.tests.before.get(gate).unwrap_or(now);
            let words = format!("tests: {before} before, {now} now");
            if now < before && !request.prompt.contains(&words) {
                return Err(format!("a reviewer does not learn of fewer tests: {words}"));
            }
        }
        Ok(())
    }
}
