//! What must not continue forever.

use ralph_model::event::{Event, Recorded, WaitReason};
use ralph_model::failure::FailureClass;
use ralph_model::gate::GateStatus;
use ralph_model::ids::{AskNumber, IterationNumber, Role};
use ralph_model::units::{Millis, Timestamp};

use super::{Forged, plan};
use crate::simulation::agent_action::{AgentAction, IntendedVerdict};
use crate::simulation::observer::Invariant;
use crate::simulation::observer::bounds::MOST_EVENTS;
use crate::simulation::plan::{SimulatedWorkflow, SimulationPlan, TaskPlan};
use crate::simulation::ports::build_reply;
use crate::simulation::recipe::build_recipe;

#[test]
fn compactions_without_work_between_them_are_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
    let compaction = |number| Event::IterationStarted {
        iteration: IterationNumber(number),
        role: Role::Compact,
        task: None,
    };
    // As many as there are tasks, and one more.
    (1..=3).for_each(|number| forged.record(compaction(number)));
    forged.expect_violation(None);
    forged.record(compaction(4));
    forged.expect_message(Invariant::Ends, "4 compactions");
}

#[test]
fn attempts_beyond_the_limit_are_found() {
    let mut plan = plan(SimulatedWorkflow::Tasks);
    plan.tasks[0] = TaskPlan { retries: Some(1), ..plan.tasks[0].clone() };
    let mut forged = Forged::new(&plan);
    for number in 1..=2 {
        forged.expect_violation(None);
        forged.begin(number, Role::Implement);
        forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
        forged.gate(GateStatus::Failed, false);
        forged.end(Vec::new());
    }
    forged.expect_message(Invariant::Ends, "2 attempts at task-0 failed, and it may continue");
}

#[test]
fn calls_that_are_repeated_too_often_are_found() {
    let mut forged = Forged::new(&SimulationPlan { retries: 1, ..plan(SimulatedWorkflow::Prompt) });
    forged.begin(1, Role::Prompt);
    for number in 1..=3 {
        forged.expect_violation(None);
        forged.ask(number, Role::Prompt);
        let action = AgentAction {
            text: String::new(),
            claims: false,
            verdict: IntendedVerdict::Nothing,
            failure: Some(FailureClass::Crashed),
            changed_git_dir: false,
        };
        let reply = Box::new(build_reply(&action));
        forged.record(Event::Replied { ask: AskNumber(number), reply });
    }
    forged.expect_message(Invariant::Ends, "call 3 of one purpose failed");
}

#[test]
fn unwanted_and_endless_waits_are_found() {
    let waiting = || Event::Waiting { until: Timestamp(1), reason: WaitReason::UsageLimit };
    let mut unwanted = Forged::new(&plan(SimulatedWorkflow::Prompt));
    unwanted.begin(1, Role::Prompt);
    unwanted.record(waiting());
    unwanted.expect_message(Invariant::Ends, "wait 1 for a usage limit");

    let mut endless =
        Forged::new(&SimulationPlan { wait_minutes: Some(0), ..plan(SimulatedWorkflow::Prompt) });
    endless.begin(1, Role::Prompt);
    // One gate, no requests and no deaths: 3 purposes of 32 waits each.
    (0..96).for_each(|_| endless.record(waiting()));
    endless.expect_violation(None);
    endless.record(waiting());
    endless.expect_message(Invariant::Ends, "wait 97 for a usage limit");
}

#[test]
fn a_journal_without_end_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Prompt));
    let recipe = build_recipe(&forged.world.plan);
    let event = |seq| Recorded { seq, at: Timestamp(0), ran: Millis(0), event: Event::Paused };
    forged.observer.check_bounds(&event(MOST_EVENTS), &recipe, &forged.world);
    forged.expect_violation(None);
    forged.observer.check_bounds(&event(MOST_EVENTS + 1), &recipe, &forged.world);
    forged.expect_message(Invariant::Ends, "events and no end");
}
