//! Simulated runs: plans that once failed, plans that are drawn, and a death at every step.

use std::panic;

use ralph_testkit::effort;
use ralph_testkit::simulation::plan::{
    AgentAct, Character, CommitMode, FaultKind, PlannedFault, SimulatedWorkflow,
};
use ralph_testkit::simulation::{
    SimulationPlan, Tally, check_plan, draw_plan, kept_plans, run_plan, shrink_plan, sweep_deaths,
};

/// Enough that everything happens, and few enough to be fast.
const RUNS: usize = 900;

/// The same in `./check`; rare events may be missing then.
const QUICK_RUNS: usize = 120;

/// Runs with more steps than this are too slow for a death at each step.
const LONG: u64 = 150;

/// Plays a plan, and fails with the smallest one that fails in the same way.
#[track_caller]
fn check_invariants(name: &str, plan: &SimulationPlan) -> Tally {
    let report = check_plan(plan);
    let Some(first) = report.violations.first() else { return report.tally };
    let fails = |plan: &SimulationPlan| {
        check_plan(plan).violations.iter().any(|it| it.category() == first.category())
    };
    let small = shrink_plan(plan, fails);
    let json = serde_json::to_string(&small).expect("a plan is plain data");
    panic!("{name}: {first}\nkeep this in tests/simulation/, and fix ralph:\n{json}");
}

#[test]
fn plans_that_once_failed_hold() {
    for (name, plan) in kept_plans::read_plans() {
        check_invariants(&name, &plan);
    }
}

/// How runs end.
const ENDS: [&str; 14] = [
    "approved-at-cap",
    "complete",
    "iterations-used-up",
    "budget-used-up",
    "limit-too-long",
    "agent-failed",
    "scm-failed",
    "git-failed",
    "prompt-lost",
    "plan-missing",
    "tasks-left",
    "baseline-broken",
    "tasks-lost",
    "interrupted",
];

/// What happens on the way.
const EVENTS: [&str; 23] = [
    "fewer tests",
    "unstable files",
    "follow-up",
    "resumed",
    "list edited",
    "iteration",
    "wait",
    "plan restored",
    "history restored",
    "claim refused",
    "gate passed",
    "gate cached",
    "hard gate failed",
    "soft gate failed",
    "commit",
    "commit refused",
    "rollback",
    "failure branch",
    "scm",
    "request",
    "pause",
    "skip",
    "baseline",
];

/// Plans with faults that only occur in rare combinations.
fn rare() -> Vec<SimulationPlan> {
    let drawn = (0..10_000)
        .map(draw_plan)
        .find(|it| it.workflow == SimulatedWorkflow::Tasks && !it.tasks.is_empty());
    let least = shrink_plan(&drawn.expect("there is one"), |plan| !plan.tasks.is_empty());
    let least = SimulationPlan { commit: CommitMode::Ralph, ..least };
    let with = |kind, character| SimulationPlan {
        faults: vec![PlannedFault { kind, at: 1 }],
        script: vec![AgentAct { character, salt: 0 }],
        ..least.clone()
    };
    let build = SimulatedWorkflow::SpecsBuild;
    let mut plans = vec![
        SimulationPlan { commit: CommitMode::Scm, ..with(FaultKind::ScmFails, Character::Honest) },
        with(FaultKind::FailureBranchFails, Character::Lazy),
        SimulationPlan { workflow: build, ..with(FaultKind::PlanIsMissing, Character::Honest) },
        SimulationPlan {
            workflow: build,
            ..with(FaultKind::PlanIsReadOnly, Character::DeletesPlan)
        },
        with(FaultKind::HookRefuses, Character::Honest),
        SimulationPlan {
            workflow: SimulatedWorkflow::PromptFile,
            tasks: Vec::new(),
            ..with(FaultKind::PromptIsMissing, Character::Honest)
        },
        SimulationPlan { resumes: 1, ..with(FaultKind::ListEditedByHand, Character::NotLoggedIn) },
        SimulationPlan { resumes: 1, ..with(FaultKind::CommittedByHand, Character::NotLoggedIn) },
        SimulationPlan {
            faults: [FaultKind::SurveyFails, FaultKind::EditedByHand]
                .map(|kind| PlannedFault { kind, at: 1 })
                .into(),
            resumes: 1,
            ..least.clone()
        },
    ];
    let lost = with(FaultKind::StreamIsLost, Character::Honest);
    plans.extend((1..40).map(|step| SimulationPlan { deaths: vec![step], ..lost.clone() }));
    plans
}

#[test]
fn all_invariants_hold_in_drawn_runs() {
    let mut tally = Tally::default();
    for seed in 0..effort::choose_count(RUNS, QUICK_RUNS) as u64 {
        tally.add_all(&check_invariants(&format!("seed {seed}"), &draw_plan(seed)));
    }
    for plan in rare() {
        tally.add_all(&check_invariants("a rare plan", &plan));
    }
    if effort::is_quick() {
        return;
    }
    // A simulation proves nothing about events that never happen in it.
    let agents = Character::ALL.iter().map(|it| format!("agents {it:?}"));
    let faults = FaultKind::ALL.iter().map(|it| format!("fault {it:?}"));
    let ends = ENDS.iter().map(|it| format!("ends {it}"));
    let events = EVENTS.iter().map(|it| format!("events {it}"));
    let others = ["runs died", "power cuts that took events", "replies recovered", "replies lost"];
    let others = others.map(str::to_owned);
    let all = agents.chain(faults).chain(ends).chain(events).chain(others);
    let dead: Vec<String> = all.filter(|what| tally.find_count(what) == 0).collect();
    assert!(dead.is_empty(), "it never happened: {dead:?}\n{tally}");
}

#[test]
fn a_death_at_every_step_changes_nothing() {
    let mut deaths = 0;
    let is_short = |seed: &u64| run_plan(&draw_plan(*seed).without_deaths()).steps < LONG;
    for seed in (0..).step_by(97).filter(is_short).take(effort::choose_count(12, 2)) {
        let (failed, tried) = sweep_deaths(&draw_plan(seed), || true);
        if let Some((plan, report)) = failed {
            check_invariants(&format!("seed {seed}"), &plan);
            panic!("seed {seed}: {:?}", report.violations);
        }
        deaths += tried;
    }
    assert!(deaths > effort::choose_count(400, 40) as u64, "{deaths}");
}

#[test]
fn a_seed_is_one_plan_and_a_plan_is_plain_data() {
    for seed in 0..50 {
        let plan = draw_plan(seed);
        assert_eq!(plan, draw_plan(seed));
        let json = serde_json::to_string(&plan).expect("it can be written");
        assert_eq!(serde_json::from_str::<SimulationPlan>(&json).expect("it can be read"), plan);
    }
}

#[test]
fn a_plan_is_reduced_as_far_as_possible() {
    let plan =
        (0..10_000).map(draw_plan).find(|plan| plan.tasks.len() > 3 && plan.deaths.len() > 1);
    let plan = plan.expect("there is one");
    let small = shrink_plan(&plan, |plan| plan.tasks.len() > 1);
    assert_eq!((small.tasks.len(), small.deaths.len(), small.script.len()), (2, 0, 1));
    assert!(small.faults.is_empty() && small.gates.is_empty() && small.review.is_none());
}
