//! Reduces a plan that fails, as long as it fails in the same way.
//!
//! Greedy: removes everything that can be removed, one thing after the other.

use ralph_model::gate::{FailAction, GatePersistence, GateReuse, ValidationStrategy};
use ralph_model::recipe::{BaselinePolicy, OnFailure};
use ralph_model::review::ReviewStatus;
use ralph_model::task::TaskStatus;

use super::plan::{AgentAct, Character, SimulationPlan};

/// Returns the smallest plan found for which `fails` still holds.
pub fn shrink_plan(
    plan: &SimulationPlan,
    mut fails: impl FnMut(&SimulationPlan) -> bool,
) -> SimulationPlan {
    let mut best = plan.clone();
    loop {
        let mut is_smaller = false;
        let mut at = 0;
        // Candidates are built again after each success, because the plan has changed.
        while let Some(candidate) = build_candidates(&best).into_iter().nth(at) {
            if candidate != best && fails(&candidate) {
                best = candidate;
                is_smaller = true;
            } else {
                at += 1;
            }
        }
        if !is_smaller {
            return best;
        }
    }
}

fn build_candidates(plan: &SimulationPlan) -> Vec<SimulationPlan> {
    let mut all = Vec::new();
    add_shorter_plans(&mut all, plan, |plan| &mut plan.deaths);
    add_shorter_plans(&mut all, plan, |plan| &mut plan.faults);
    add_shorter_plans(&mut all, plan, |plan| &mut plan.control_requests);
    add_shorter_plans(&mut all, plan, |plan| &mut plan.gates);
    add_shorter_plans(&mut all, plan, |plan| &mut plan.tasks);
    // At least one act must be left.
    let mut scripts = Vec::new();
    add_shorter_plans(&mut scripts, plan, |plan| &mut plan.script);
    all.extend(scripts.into_iter().filter(|plan| !plan.script.is_empty()));
    let mut simpler = |change: &dyn Fn(&mut SimulationPlan)| {
        let mut candidate = plan.clone();
        change(&mut candidate);
        all.push(candidate);
    };
    simpler(&|plan| plan.power = false);
    simpler(&|plan| plan.resumes = 0);
    simpler(&|plan| plan.resumes = plan.resumes.min(1));
    simpler(&|plan| plan.only = None);
    simpler(&|plan| plan.retry = false);
    simpler(&|plan| plan.review = None);
    simpler(&|plan| plan.memory = None);
    simpler(&|plan| plan.cents = None);
    simpler(&|plan| plan.tokens = None);
    simpler(&|plan| plan.seconds = None);
    simpler(&|plan| plan.task_seconds = None);
    simpler(&|plan| plan.red_before = None);
    simpler(&|plan| plan.delay = 0);
    simpler(&|plan| plan.retries = 0);
    simpler(&|plan| plan.amendments = 0);
    simpler(&|plan| plan.attempts = 1);
    simpler(&|plan| plan.attempts = plan.attempts.min(2));
    simpler(&|plan| plan.iterations = plan.iterations.min(3));
    simpler(&|plan| plan.iterations -= u32::from(plan.iterations > 1));
    simpler(&|plan| plan.context = 8_000);
    simpler(&|plan| plan.wait_minutes = Some(360));
    simpler(&|plan| plan.stuck = (3, 2));
    simpler(&|plan| plan.baseline = BaselinePolicy::Off);
    simpler(&|plan| plan.strategy = ValidationStrategy::Strict);
    simpler(&|plan| plan.on_failure = OnFailure::Keep);
    for at in 0..plan.script.len() {
        simpler(&|plan| plan.script[at] = AgentAct { character: Character::Honest, salt: 0 });
        simpler(&|plan| plan.script[at].salt = 0);
    }
    for at in 0..plan.tasks.len() {
        simpler(&|plan| plan.tasks[at].after.clear());
        simpler(&|plan| {
            let task = &mut plan.tasks[at];
            (task.retries, task.docs, task.skill, task.names_protected) =
                (None, false, false, false);
        });
        simpler(&|plan| {
            let task = &mut plan.tasks[at];
            (task.status, task.review) = (TaskStatus::Pending, ReviewStatus::None);
        });
    }
    for at in 0..plan.gates.len() {
        simpler(&|plan| {
            let gate = &mut plan.gates[at];
            (gate.flaky, gate.broken, gate.paths, gate.asks) = (0, 0, false, false);
            gate.commits = false;
        });
        simpler(&|plan| {
            let gate = &mut plan.gates[at];
            (gate.persistence, gate.reuse) = (GatePersistence::WhenGreen, GateReuse::SameTree);
            gate.action = FailAction::Append;
        });
    }
    for at in 0..plan.deaths.len() {
        simpler(&|plan| plan.deaths[at] /= 2);
        simpler(&|plan| plan.deaths[at] = plan.deaths[at].saturating_sub(1));
    }
    all
}

/// Adds the plans without a list, and without each entry of it.
fn add_shorter_plans<T: Clone>(
    all: &mut Vec<SimulationPlan>,
    plan: &SimulationPlan,
    list: impl Fn(&mut SimulationPlan) -> &mut Vec<T>,
) {
    let mut empty = plan.clone();
    let many = list(&mut empty).len();
    list(&mut empty).clear();
    if many > 1 {
        all.push(empty);
    }
    for at in (0..many).rev() {
        let mut shorter = plan.clone();
        list(&mut shorter).remove(at);
        all.push(shorter);
    }
}
