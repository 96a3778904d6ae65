//! Draws a plan from a seed.
//!
//! Most runs must get somewhere, or nothing late in a run would ever be tested: about half of all
//! acts are honest, and each kind of fault is rare by itself.

use ralph_core::gate::{FailAction, GateKind, Persistence, Reuse, Severity, ValidationStrategy};
use ralph_core::recipe::{BaselinePolicy, OnFailure};
use ralph_core::review::ReviewStatus;
use ralph_core::task::TaskStatus;

use super::dice::Dice;
use super::plan::{
    Act, Character, CommitMode, Fault, FaultKind, GatePlan, Plan, TaskPlan, WishKind, WishPlan,
    Workflow,
};

/// Draws the plan of a seed.
pub fn draw(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let dice = &mut dice;
    let workflow = dice.pick(&[
        Workflow::Prompt,
        Workflow::PromptFile,
        Workflow::Template,
        Workflow::SpecsPlan,
        Workflow::SpecsBuild,
        Workflow::ListPlan,
        Workflow::Tasks,
        Workflow::Tasks,
        Workflow::Tasks,
        Workflow::Tasks,
        Workflow::Stories,
        Workflow::Stories,
    ]);
    let tasks = if workflow.is_list() { tasks(dice) } else { Vec::new() };
    let mode = mode(dice, workflow);
    let script = script(dice);
    Plan {
        workflow,
        only: dice
            .chance(8)
            .then(|| usize::try_from(dice.below(tasks.len() as u64 + 1)).unwrap_or(0)),
        retry: dice.chance(30),
        review: dice.chance(55).then(|| dice.between(1, 4)),
        attempts: dice.between(1, 5),
        amendments: dice.between(0, 3),
        stuck: (dice.between(2, 4), dice.between(0, 3)),
        task_seconds: dice.chance(6).then(|| u64::from(dice.between(1, 40))),
        retries: dice.between(0, 3),
        wait_minutes: dice.chance(85).then(|| dice.pick(&[0, 5, 60, 360, 3000])),
        iterations: dice.pick(&[1, 3, 6, 10, 15, 25, 40]),
        cents: dice.chance(6).then(|| u64::from(dice.between(1, 30))),
        tokens: dice.chance(5).then(|| u64::from(dice.between(100, 6_000))),
        seconds: dice.chance(5).then(|| u64::from(dice.between(1, 120))),
        delay: if dice.chance(12) { u64::from(dice.between(1, 90)) } else { 0 },
        commit: mode,
        on_failure: if mode != CommitMode::NoGit && dice.chance(35) {
            OnFailure::Rollback
        } else {
            OnFailure::Keep
        },
        baseline: dice.pick(&[
            BaselinePolicy::Off,
            BaselinePolicy::Off,
            BaselinePolicy::Note,
            BaselinePolicy::Note,
            BaselinePolicy::Require,
        ]),
        strategy: dice.pick(&[
            ValidationStrategy::Strict,
            ValidationStrategy::Strict,
            ValidationStrategy::Strict,
            ValidationStrategy::Lenient,
            ValidationStrategy::TestsOnly,
        ]),
        gates: (0..dice.below(4)).map(|_| gate(dice)).collect(),
        red_before: dice.chance(15).then(|| usize::try_from(dice.below(3)).unwrap_or(0)),
        memory: dice.chance(30).then(|| dice.between(1, 4)),
        context: dice.pick(&[8_000, 8_000, 3_000, 1_500, 300]),
        faults: faults(dice),
        wishes: wishes(dice, tasks.len()),
        deaths: deaths(dice),
        resumes: dice.between(0, 3),
        script,
        tasks,
    }
}

fn mode(dice: &mut Dice, workflow: Workflow) -> CommitMode {
    let default = match workflow {
        Workflow::Prompt | Workflow::PromptFile => CommitMode::Nobody,
        Workflow::Template => CommitMode::AgentMay,
        Workflow::SpecsPlan | Workflow::SpecsBuild | Workflow::Stories => CommitMode::Agent,
        Workflow::ListPlan | Workflow::Tasks => CommitMode::Ralph,
    };
    if dice.chance(55) {
        return default;
    }
    let all = [
        CommitMode::Ralph,
        CommitMode::Agent,
        CommitMode::Scm,
        CommitMode::Nobody,
        CommitMode::NoGit,
    ];
    dice.pick(&all)
}

fn tasks(dice: &mut Dice) -> Vec<TaskPlan> {
    let many = match dice.below(20) {
        0 => 0,
        1 => dice.below(40) + 10,
        _ => dice.below(5) + 1,
    };
    let is_tangled = dice.chance(12);
    (0..many)
        .map(|place| {
            let after = (0..dice.below(3)).filter_map(|_| {
                // In a tangled list every task may wait for every other, and for unknown ones.
                let known = if is_tangled { many + 1 } else { place };
                (known > 0).then(|| usize::try_from(dice.below(known)).unwrap_or(0))
            });
            let mut after: Vec<usize> = after.collect();
            after.dedup();
            let status = match dice.below(20) {
                0 => TaskStatus::Done,
                1 => TaskStatus::Failed,
                2 => TaskStatus::Skipped,
                3 => TaskStatus::InProgress,
                _ => TaskStatus::Pending,
            };
            let review = match (status, dice.below(16)) {
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
                retries: dice.chance(15).then(|| dice.between(0, 3)),
                docs: dice.chance(6),
                skill: dice.chance(8),
                names_protected: dice.chance(8),
            }
        })
        .collect()
}

fn gate(dice: &mut Dice) -> GatePlan {
    GatePlan {
        kind: dice.pick(&[
            GateKind::Test,
            GateKind::Test,
            GateKind::Lint,
            GateKind::Spec,
            GateKind::Quality,
            GateKind::Custom,
        ]),
        severity: if dice.chance(25) { Severity::Soft } else { Severity::Hard },
        persistence: if dice.chance(20) { Persistence::Always } else { Persistence::WhenGreen },
        reuse: if dice.chance(30) { Reuse::Never } else { Reuse::SameTree },
        action: dice.pick(&[FailAction::Append, FailAction::Prepend, FailAction::Replace]),
        asks: dice.chance(25),
        paths: dice.chance(15),
        flaky: if dice.chance(15) { dice.below(40) } else { 0 },
        broken: if dice.chance(10) { dice.below(30) } else { 0 },
        commits: dice.chance(5),
    }
}

fn script(dice: &mut Dice) -> Vec<Act> {
    // Some agents are thoroughly bad, most are good enough.
    let honesty = dice.pick(&[0, 40, 70, 85, 95]);
    let length = dice.between(1, 14);
    (0..length)
        .map(|_| {
            let character =
                if dice.chance(honesty) { Character::Honest } else { dice.pick(Character::ALL) };
            Act { character, salt: dice.between(0, 9) }
        })
        .collect()
}

fn faults(dice: &mut Dice) -> Vec<Fault> {
    let many = dice.pick(&[0, 0, 0, 1, 1, 2, 4]);
    (0..many)
        .map(|_| {
            let kind = dice.pick(FaultKind::ALL);
            let is_of_journal =
                matches!(kind, FaultKind::JournalIsFull | FaultKind::JournalFailsLate);
            let at = dice.between(1, if is_of_journal { 60 } else { 5 });
            let is_persons = matches!(
                kind,
                FaultKind::EditedByHand | FaultKind::ListEditedByHand | FaultKind::CommittedByHand
            );
            // Few runs are resumed more than once.
            let at = if is_persons { 1 } else { at };
            Fault { kind, at }
        })
        .collect()
}

fn wishes(dice: &mut Dice, tasks: usize) -> Vec<WishPlan> {
    let many = dice.pick(&[0, 0, 0, 0, 1, 2, 4]);
    (0..many)
        .map(|_| WishPlan {
            after: u64::from(dice.between(0, 30)),
            wish: match dice.below(7) {
                0 => WishKind::Pause,
                1 => WishKind::GoOn,
                2 => WishKind::Stop,
                3 | 4 => WishKind::Skip(usize::try_from(dice.below(tasks as u64 + 1)).unwrap_or(0)),
                5 => WishKind::Junk,
                _ => WishKind::Note,
            },
        })
        .collect()
}

fn deaths(dice: &mut Dice) -> Vec<u64> {
    let many = dice.pick(&[0, 0, 1, 1, 1, 2, 3, 6]);
    (0..many).map(|_| dice.below(180) + 1).collect()
}
