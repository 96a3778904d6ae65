//! Checks that everything ends: iterations, repetitions, waits, and the number of events.

#![expect(clippy::wildcard_enum_match_arm, reason = "most events are about something else")]

use std::collections::BTreeMap;

use ralph_model::event::{Event, Purpose, Recorded, WaitReason};
use ralph_model::failure::{FailureClass, RateLimitAction};
use ralph_model::ids::{Role, TaskId};
use ralph_model::recipe::Recipe;

use super::{Invariant, Observer};
use crate::simulation::world::SimulatedWorld;

/// No run of a plan has this many events.
pub(super) const MOST_EVENTS: u64 = 40_000;

/// The shortest wait for a usage limit after which the next one is not longer, in minutes.
const SHORTEST_WAIT: u64 = 4;

/// What was counted.
#[derive(Debug, Clone, Default)]
pub(super) struct RunBounds {
    iterations: u32,
    /// The task of the last iteration, if that was a review.
    reviewed: Option<TaskId>,
    compactions: u32,
    /// Failed calls of one purpose that are repeated, since a user started the run.
    repeated: BTreeMap<(u32, String), u32>,
    /// Waits for usage limits in one iteration, since a user started the run.
    waits: BTreeMap<u32, u64>,
    has_ended: bool,
}

impl Observer {
    /// Checks that nothing continues for too long.
    pub(super) fn check_bounds(
        &mut self,
        recorded: &Recorded,
        recipe: &Recipe,
        world: &SimulatedWorld,
    ) {
        let iteration = self.iteration;
        let bounds = &mut self.bounds;
        let mut found = None;
        match &recorded.event {
            Event::IterationStarted { role: Role::Compact, .. } => {
                bounds.compactions += 1;
                let tasks = self.list.as_ref().map_or(0, |list| list.tasks.len());
                let most = bounds.iterations as usize + tasks;
                if bounds.compactions as usize > most + 1 {
                    found = Some(format!("{} compactions", bounds.compactions));
                }
            }
            Event::IterationStarted { role, task, .. } => {
                // Where the agent owns the list, a review without a verdict is followed by a
                // question for it, which does not count. Its task is failed in the end.
                let reviewed = task.clone().filter(|_| *role == Role::Review);
                let is_question = recipe.is_list_owned_by_agent()
                    && reviewed.is_some()
                    && bounds.reviewed == reviewed;
                bounds.reviewed = reviewed;
                bounds.iterations += u32::from(!is_question);
                if bounds.iterations > recipe.limits.iterations {
                    found = Some(format!("iteration {} is one too many", bounds.iterations));
                }
            }
            Event::Replied { ask, reply } => {
                let purpose = self.watched.as_ref().and_then(|watched| {
                    watched
                        .open
                        .iter()
                        .find(|(open, _)| *open == ask.0)
                        .map(|(_, it)| format_purpose(it))
                });
                let is_repeated = reply.failure.as_ref().is_some_and(|failure| {
                    matches!(
                        failure.class,
                        FailureClass::Crashed
                            | FailureClass::Malformed
                            | FailureClass::Empty
                            | FailureClass::Overloaded
                    )
                });
                if let (Some(purpose), true) = (purpose, is_repeated) {
                    let many = bounds.repeated.entry((iteration, purpose)).or_default();
                    *many += 1;
                    if *many > recipe.retries.max + 1 {
                        found = Some(format!("call {many} of one purpose failed"));
                    }
                }
            }
            Event::Waiting { reason: WaitReason::UsageLimit, .. } => {
                let waits = bounds.waits.entry(iteration).or_default();
                *waits += 1;
                let minutes = match recipe.rate_limit.wait {
                    RateLimitAction::Wait => recipe.rate_limit.max_wait.0 / 60_000,
                    RateLimitAction::Stop => 0,
                };
                let others = world.plan.control_requests.len() + world.plan.deaths.len() + 20;
                let questions = recipe.gates.len() as u64 + 2;
                let most = questions * (12 + minutes / SHORTEST_WAIT + others as u64);
                if recipe.rate_limit.wait == RateLimitAction::Stop || *waits > most {
                    found = Some(format!("wait {waits} for a usage limit"));
                }
            }
            // If gates change files, all run again, with new calls.
            Event::GateChecked { result, .. } => {
                bounds.repeated.remove(&(iteration, result.gate.clone()));
            }
            Event::RunEnded { .. } => bounds.has_ended = true,
            Event::RunResumed { .. } if bounds.has_ended => {
                // A user resumes it, so the counts start again.
                bounds.has_ended = false;
                bounds.repeated.clear();
                bounds.waits.clear();
            }
            _ => {}
        }
        if recorded.seq > MOST_EVENTS {
            found = Some(format!("{MOST_EVENTS} events and no end"));
        }
        if let Some(message) = found {
            self.report_violation(Invariant::Ends, message);
        }
    }
}

fn format_purpose(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Work => "work".to_owned(),
        Purpose::Message => "message".to_owned(),
        Purpose::Gate(name) => name.clone(),
    }
}
