//! Shares of a budget.

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::Usage;
use ralph_model::ids::{TaskId, WorkerId};
use ralph_model::recipe::{PromptSource, Recipe, Work};
use ralph_model::units::Timestamp;
use ralph_model::worker::JobAssignment;

use super::*;

fn limits(cost: u64, iterations: u32) -> RunLimits {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let recipe = Recipe::new(Work::Prompt(PromptSource::Text(String::new())), agent);
    let cost = Some(UsdMicros(cost));
    let budget = Budget { cost, tokens: Some(Tokens(9_000)), time: Some(Millis(1_000)) };
    RunLimits { budget, iterations, ..recipe.limits }
}

fn usage(cost: u64) -> Usage {
    Usage { cost: Some(UsdMicros(cost)), ..Usage::default() }
}

fn worker(share: WorkerShare, used: u64, iterations: u32) -> RunningWorker {
    let assignment = JobAssignment {
        worker: WorkerId("w".into()),
        task: TaskId("t".into()),
        round: 1,
        base: None,
        conflicts: Vec::new(),
        compacts: None,
        start_tree: None,
        share,
    };
    let running = RunningWorker::new(assignment, Timestamp(0));
    RunningWorker { usage: usage(used), iterations, ..running }
}

fn state(workers: Vec<RunningWorker>, policy: &ParallelPolicy) -> ParallelState {
    let running = workers.into_iter().zip(0..);
    let running = running.map(|(it, number)| (WorkerId(format!("w{number}")), it)).collect();
    ParallelState { running, ..ParallelState::new(policy) }
}

#[test]
fn a_budget_is_divided_by_free_slots_and_a_reserve() {
    let policy = ParallelPolicy::new(4);
    let limits = limits(1_000, 15);
    let mut workers = Vec::new();
    for _ in 0..4 {
        let state = state(workers.clone(), &policy);
        let share = choose_share(&limits, &state, &policy, Millis(400)).expect("something is left");
        assert_eq!(share.budget.cost, Some(UsdMicros(200)));
        assert_eq!((share.iterations, share.budget.time), (3, Some(Millis(600))));
        workers.push(worker(share, 0, 0));
    }
    // What is promised is not free, what is used beyond that neither.
    let state = state(vec![worker(workers[0].assignment.share, 1_000, 1)], &policy);
    assert_eq!(choose_share(&limits, &state, &policy, Millis(0)), None);
}

#[test]
fn nothing_is_given_when_one_of_the_limits_is_reached() {
    let policy = ParallelPolicy::new(2);
    let none = state(Vec::new(), &policy);
    assert!(choose_share(&limits(1, 1), &none, &policy, Millis(0)).is_some());
    assert_eq!(choose_share(&limits(0, 1), &none, &policy, Millis(0)), None);
    assert_eq!(choose_share(&limits(1, 0), &none, &policy, Millis(0)), None);
    assert_eq!(choose_share(&limits(1, 1), &none, &policy, Millis(1_000)), None);
    let spent = ParallelState { spent: usage(5), iterations: 2, ..none };
    assert_eq!(choose_share(&limits(5, 9), &spent, &policy, Millis(0)), None);
    assert_eq!(choose_share(&limits(9, 2), &spent, &policy, Millis(0)), None);
}

#[test]
fn a_job_that_is_started_again_keeps_its_share_until_it_is_used_up() {
    let budget = Budget { cost: Some(UsdMicros(100)), tokens: None, time: None };
    let old = WorkerShare { budget, iterations: 3 };
    let new = WorkerShare { budget, iterations: 2 };
    assert_eq!(update_share(&worker(old, 99, 2), None), Some(old));
    assert_eq!(update_share(&worker(old, 100, 2), None), None);
    assert_eq!(update_share(&worker(old, 0, 3), None), None);
    let more = update_share(&worker(old, 120, 1), Some(new)).expect("a new share");
    assert_eq!((more.budget.cost, more.iterations), (Some(UsdMicros(220)), 3));
}
