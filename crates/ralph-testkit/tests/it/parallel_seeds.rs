//! Simulated parallel runs: plans from seeds, with a death of the coordinator at every call of some
//! of them. The invariants P1 to P9 are checked by name.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_model::event::Event;
use ralph_model::outcome::Outcome;
use ralph_testkit::effort;
use ralph_testkit::simulation::parallel::{
    ParallelPlan, ParallelReport, check_parallel_plan, draw_parallel_plan,
};
use ralph_testkit::world::ScriptedAction;

use crate::parallel::{check_end, count_calls, events, id, requeues, two_workers, world};
use crate::tasks::{honest, list, task};

/// Plays a plan, and fails with it if it violates an invariant.
#[track_caller]
fn check(name: &str, plan: &ParallelPlan) -> ParallelReport {
    let report = check_parallel_plan(plan);
    if let Some(first) = report.violations.first() {
        let json = serde_json::to_string(plan).expect("a plan is plain data");
        panic!("{name}: {first}\n{json}");
    }
    report
}

fn name_event(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::WorkerLost { has_ended: true, .. } => "work that cannot be fetched",
        Event::WorkerLost { worker: None, .. } => "host lost",
        Event::WorkerLost { .. } => "worker lost",
        Event::WorkerLimited { .. } => "limit",
        Event::WorkerCanceled { .. } => "canceled",
        Event::RunResumed { .. } => "resumed",
        Event::JobAssigned { assignment } if assignment.round > 1 => "round",
        _ => return None,
    })
}

#[test]
fn seeds_with_one_to_four_workers_keep_the_invariants() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..effort::choose_count(600, 120) as u64 {
        let plan = draw_parallel_plan(seed);
        let report = check(&format!("seed {seed}"), &plan);
        *seen.entry(format!("{} workers", plan.jobs)).or_default() += 1;
        let outcome = report.outcome.expect("it ended");
        if report.lost_events > 0 {
            *seen.entry("events lost".to_owned()).or_default() += 1;
        }
        let end = outcome.to_string();
        *seen.entry(end.split([' ', ':']).next().unwrap_or_default().to_owned()).or_default() += 1;
        for recorded in &report.journal {
            let name = name_event(&recorded.event).into_iter();
            let blocked = match &recorded.event {
                Event::RunEnded { outcome, .. }
                    if outcome.to_string().contains("waits to land") =>
                {
                    Some("edit in the way")
                }
                _ => None,
            };
            for name in name.chain(blocked) {
                *seen.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    for wanted in [
        "1 workers",
        "2 workers",
        "3 workers",
        "4 workers",
        "complete",
        "work that cannot be fetched",
        "host lost",
        "worker lost",
        "limit",
        "canceled",
        "resumed",
        "round",
        "edit in the way",
        "events lost",
    ] {
        assert!(seen.contains_key(wanted), "no {wanted}: {seen:?}");
    }
}

#[test]
fn seeds_end_alike_if_the_coordinator_dies_at_any_call() {
    for seed in 0..effort::choose_count(6, 4) as u64 {
        let plan = draw_parallel_plan(1_000_000 + seed);
        let jobs = u32::try_from(1 + seed % 4).expect("small");
        let plan = ParallelPlan { jobs, deaths: Vec::new(), ..plan };
        check(&format!("seed {seed}"), &plan);
        // A death that comes too late does not happen.
        for death in (1 + seed..600).step_by(effort::choose_count(7, 59)) {
            let deadly = ParallelPlan { deaths: vec![death], ..plan.clone() };
            check(&format!("seed {seed}, death at call {death}"), &deadly);
        }
    }
}

#[test]
fn work_that_cannot_be_fetched_starts_again_as_the_next_round() {
    let world = world(list(vec![task("a", &[]), task("b", &[])]), honest);
    world.0.borrow_mut().unfetchable = BTreeMap::from([(id("a"), 4)]);
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    check_end(&world, "not fetched");
    let rounds = events(&world, |event| match event {
        Event::JobAssigned { assignment } if assignment.task == id("a") => Some(assignment.round),
        _ => None,
    });
    assert_eq!(rounds, [1, 1, 1, 1, 2]);
    // To ask for the result again costs nothing.
    assert_eq!(count_calls(&world), 3);
}

/// The tasks set a word, and the user sets it too.
#[test]
fn an_edit_in_the_way_costs_no_round() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let done = honest(request, tree);
        let tree = done.tree.map(|tree| format!("{tree} x=agent"));
        ScriptedAction { tree, ..done }
    }
    let world = world(list(vec![task("a", &[])]), script);
    world.0.borrow_mut().user_word = Some((250, "x=user".to_owned()));
    let ended = world.run_to_end(&two_workers()).expect("it runs");
    assert!(matches!(ended, Outcome::LandingBlocked { .. }), "{ended}");
    assert_eq!((requeues(&world).len(), count_calls(&world)), (0, 1));
    // It is in the way until the user moves it.
    let again = world.run_to_end(&two_workers()).expect("it runs");
    assert_eq!(again, ended);
    world.0.borrow_mut().tree = "start".to_owned();
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    check_end(&world, "moved");
    assert_eq!((requeues(&world).len(), count_calls(&world)), (0, 1));
}

/// Three tasks are about to start their last round when work on the same words lands.
#[test]
fn a_last_round_starts_from_the_tip_and_does_not_fail_for_what_landed_before_it() {
    let text = include_str!("../simulation/parallel/last-rounds-wait-for-each-other.json");
    let plan: ParallelPlan = serde_json::from_str(text).expect("a plan");
    check("kept", &plan);
}
