//! Draws a plan from a seed.
//!
//! Most runs must get somewhere, or nothing late in a run would ever be tested: about half of all
//! acts are honest, and each kind of fault is rare by itself.

use ralph_model::gate::{
    FailAction, GateKind, GatePersistence, GateReuse, Severity, ValidationStrategy,
};
use ralph_model::recipe::{BaselinePolicy, OnFailure};
use ralph_model::review::ReviewStatus;
use ralph_model::task::TaskStatus;

use super::dice::Dice;
use super::plan::{
    AgentAct, Character, CommitMode, FaultKind, GatePlan, PlannedFault, RequestKind, RequestPlan,
    SimulatedWorkflow, SimulationPlan, TaskPlan,
};

/// Draws the plan of a seed.
pub fn draw_plan(seed: u64) -> SimulationPlan {
    let mut dice = Dice::new(seed);
    let dice = &mut dice;
    let workflow = dice.pick_one(&[
        SimulatedWorkflow::Prompt,
        SimulatedWorkflow::PromptFile,
        SimulatedWorkflow::Template,
        SimulatedWorkflow::SpecsPlan,
        SimulatedWorkflow::SpecsBuild,
        SimulatedWorkflow::ListPlan,
        SimulatedWorkflow::Tasks,
        SimulatedWorkflow::Tasks,
        SimulatedWorkflow::Tasks,
        SimulatedWorkflow::Tasks,
        SimulatedWorkflow::Stories,
        SimulatedWorkflow::Stories,
    ]);
    let tasks = if workflow.is_list() { draw_tasks(dice) } else { Vec::new() };
    let mode = draw_commit_mode(dice, workflow);
    let script = draw_script(dice);
    SimulationPlan {
        workflow,
        only: dice
            .roll_chance(8)
            .then(|| usize::try_from(dice.roll_below(tasks.len() as u64 + 1)).unwrap_or(0)),
        retry: dice.roll_chance(30),
        review: dice.roll_chance(55).then(|| dice.roll_between(1, 4)),
        attempts: dice.roll_between(1, 5),
        amendments: dice.roll_between(0, 3),
        stuck: (dice.roll_between(2, 4), dice.roll_between(0, 3)),
        task_seconds: dice.roll_chance(6).then(|| u64::from(dice.roll_between(1, 40))),
        retries: dice.roll_between(0, 3),
        wait_minutes: dice.roll_chance(85).then(|| dice.pick_one(&[0, 5, 60, 360, 3000])),
        iterations: dice.pick_one(&[1, 3, 6, 10, 15, 25, 40]),
        cents: dice.roll_chance(6).then(|| u64::from(dice.roll_between(1, 30))),
        tokens: dice.roll_chance(5).then(|| u64::from(dice.roll_between(100, 6_000))),
        seconds: dice.roll_chance(5).then(|| u64::from(dice.roll_between(1, 120))),
        delay: if dice.roll_chance(12) { u64::from(dice.roll_between(1, 90)) } else { 0 },
        commit: mode,
        on_failure: if mode != CommitMode::NoGit && dice.roll_chance(35) {
            OnFailure::Rollback
        } else {
            OnFailure::Keep
        },
        baseline: dice.pick_one(&[
            BaselinePolicy::Off,
            BaselinePolicy::Off,
            BaselinePolicy::Note,
            BaselinePolicy::Note,
            BaselinePolicy::Require,
        ]),
        strategy: dice.pick_one(&[
            ValidationStrategy::Strict,
            ValidationStrategy::Strict,
            ValidationStrategy::Strict,
            ValidationStrategy::Lenient,
            ValidationStrategy::TestsOnly,
        ]),
        gates: (0..dice.roll_below(4)).map(|_| draw_gate(dice)).collect(),
        red_before: dice.roll_chance(15).then(|| usize::try_from(dice.roll_below(3)).unwrap_or(0)),
        memory: dice.roll_chance(30).then(|| dice.roll_between(1, 4)),
        context: dice.pick_one(&[8_000, 8_000, 3_000, 1_500, 300]),
        faults: draw_faults(dice),
        control_requests: draw_requests(dice, tasks.len()),
        deaths: draw_deaths(dice),
        resumes: dice.roll_between(0, 3),
        power: dice.roll_chance(25),
        script,
        tasks,
    }
}

fn draw_commit_mode(dice: &mut Dice, workflow: SimulatedWorkflow) -> CommitMode {
    let default = match workflow {
        SimulatedWorkflow::Prompt | SimulatedWorkflow::PromptFile => CommitMode::NoCommit,
        SimulatedWorkflow::Template => CommitMode::AgentMay,
        SimulatedWorkflow::SpecsPlan
        | SimulatedWorkflow::SpecsBuild
        | SimulatedWorkflow::Stories => CommitMode::Agent,
        SimulatedWorkflow::ListPlan | SimulatedWorkflow::Tasks => CommitMode::Ralph,
    };
    if dice.roll_chance(55) {
        return default;
    }
    let all = [
        CommitMode::Ralph,
        CommitMode::Agent,
        CommitMode::Scm,
        CommitMode::NoCommit,
        CommitMode::NoGit,
    ];
    dice.pick_one(&all)
}

fn draw_tasks(dice: &mut Dice) -> Vec<TaskPlan> {
    let many = match dice.roll_below(20) {
        0 => 0,
        1 => dice.roll_below(40) + 10,
        _ => dice.roll_below(5) + 1,
    };
    let is_tangled = dice.roll_chance(12);
    (0..many)
        .map(|place| {
            let after = (0..dice.roll_below(3)).filter_map(|_| {
                // In a tangled list every task may wait for every other, and for unknown ones.
                let known = if is_tangled { many + 1 } else { place };
                (known > 0).then(|| usize::try_from(dice.roll_below(known)).unwrap_or(0))
            });
            let mut after: Vec<usize> = after.collect();
            after.dedup();
            let status = match dice.roll_below(20) {
                0 => TaskStatus::Done,
                1 => TaskStatus::Failed,
                2 => TaskStatus::Skipped,
                3 => TaskStatus::InProgress,
                _ => TaskStatus::Pending,
            };
            let review = match (status, dice.roll_below(16)) {
                (TaskStatus::Done, _) => ReviewStatus::Approved,
                (TaskStatus::Pending | TaskStatus::InProgress, 0) => ReviewStatus::NeedsReview,
                (TaskStatus::Pending | TaskStatus::InProgress, 1) => ReviewStatus::ChangesRequested,
                (
                    TaskStatus::Pending
                    | TaskStatus::InProgress
                    | TaskStatus::Failed
                    | TaskStatus::Skipped,
                    _,
                ) => ReviewStatus::None,
            };
            TaskPlan {
                after,
                status,
                review,
                retries: dice.roll_chance(15).then(|| dice.roll_between(0, 3)),
                docs: dice.roll_chance(6),
                skill: dice.roll_chance(8),
                names_protected: dice.roll_chance(8),
            }
        })
        .collect()
}

fn draw_gate(dice: &mut Dice) -> GatePlan {
    GatePlan {
        kind: dice.pick_one(&[
            GateKind::Test,
            GateKind::Test,
            GateKind::Lint,
            GateKind::Spec,
            GateKind::Quality,
            GateKind::Custom,
        ]),
        severity: if dice.roll_chance(25) { Severity::Soft } else { Severity::Hard },
        persistence: if dice.roll_chance(20) {
            GatePersistence::Always
        } else {
            GatePersistence::WhenGreen
        },
        reuse: if dice.roll_chance(30) { GateReuse::Never } else { GateReuse::SameTree },
        action: dice.pick_one(&[FailAction::Append, FailAction::Prepend, FailAction::Replace]),
        asks: dice.roll_chance(25),
        paths: dice.roll_chance(15),
        flaky: if dice.roll_chance(15) { dice.roll_below(40) } else { 0 },
        broken: if dice.roll_chance(10) { dice.roll_below(30) } else { 0 },
        commits: dice.roll_chance(5),
        writes: dice.roll_chance(5),
    }
}

fn draw_script(dice: &mut Dice) -> Vec<AgentAct> {
    // Some agents are thoroughly bad, most are good enough.
    let honesty = dice.pick_one(&[0, 40, 70, 85, 95]);
    let length = dice.roll_between(1, 14);
    (0..length)
        .map(|_| {
            let character = if dice.roll_chance(honesty) {
                Character::Honest
            } else {
                dice.pick_one(Character::ALL)
            };
            AgentAct { character, salt: dice.roll_between(0, 9) }
        })
        .collect()
}

fn draw_faults(dice: &mut Dice) -> Vec<PlannedFault> {
    let many = dice.pick_one(&[0, 0, 0, 1, 1, 2, 4]);
    (0..many)
        .map(|_| {
            let kind = dice.pick_one(FaultKind::ALL);
            let is_of_journal =
                matches!(kind, FaultKind::JournalIsFull | FaultKind::JournalFailsLate);
            let at = dice.roll_between(1, if is_of_journal { 60 } else { 5 });
            let is_persons = matches!(
                kind,
                FaultKind::EditedByHand | FaultKind::ListEditedByHand | FaultKind::CommittedByHand
            );
            // Few runs are resumed more than once.
            let at = if is_persons { 1 } else { at };
            PlannedFault { kind, at }
        })
        .collect()
}

fn draw_requests(dice: &mut Dice, tasks: usize) -> Vec<RequestPlan> {
    let many = dice.pick_one(&[0, 0, 0, 0, 1, 2, 4]);
    (0..many)
        .map(|_| RequestPlan {
            after: u64::from(dice.roll_between(0, 30)),
            request: match dice.roll_below(7) {
                0 => RequestKind::Pause,
                1 => RequestKind::Resume,
                2 => RequestKind::Stop,
                3 | 4 => RequestKind::Skip(
                    usize::try_from(dice.roll_below(tasks as u64 + 1)).unwrap_or(0),
                ),
                5 => RequestKind::Junk,
                _ => RequestKind::Note,
            },
        })
        .collect()
}

fn draw_deaths(dice: &mut Dice) -> Vec<u64> {
    let many = dice.pick_one(&[0, 0, 1, 1, 1, 2, 3, 6]);
    (0..many).map(|_| dice.roll_below(180) + 1).collect()
}
