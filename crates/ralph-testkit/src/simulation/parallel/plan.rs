//! The plan of a simulated parallel run, and how it is drawn from a seed.

use serde::{Deserialize, Serialize};

use crate::simulation::dice::Dice;

/// Everything about a simulated parallel run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelPlan {
    pub jobs: u32,
    pub merge_attempts: u32,
    pub review: bool,
    pub tasks: Vec<WorkerTaskPlan>,
    /// The budget of the run; a call costs one cent.
    pub cents: Option<u64>,
    pub iterations: u32,
    /// The port calls at which the coordinator dies, each counted from the last start.
    pub deaths: Vec<u64>,
    /// The task at whose start the worker host is gone, once.
    pub lost_host: Option<usize>,
    /// When the user stops the run, in milliseconds after its start. It is resumed.
    pub stop: Option<i64>,
    /// When the user pauses it, and for how long.
    pub pause: Option<(i64, i64)>,
    /// When the user skips a task.
    pub skip: Option<(i64, usize)>,
    /// When the user edits, without a commit, what conflicting tasks change too. Once the run ends
    /// for it, the user commits that.
    pub edit: Option<i64>,
    /// Whether the deaths are power cuts, which also take the events that were not synced.
    #[serde(default)]
    pub power: bool,
}

/// A planned task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerTaskPlan {
    pub fate: TaskFate,
    /// Indexes of tasks that it depends on, all of them earlier ones.
    pub after: Vec<usize>,
    /// The directory that it declares, if any.
    pub touches: Option<u8>,
    /// How many polls its workers take.
    pub polls: u32,
    /// How often its workers are killed at their end.
    pub losses: u32,
    /// The port call of its worker at which that one dies, once.
    pub death: Option<u64>,
    /// How often its work cannot be fetched.
    pub unfetchable: u32,
    pub limit: Option<PlannedLimit>,
}

/// What the agent makes of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskFate {
    Done,
    /// Its attempts break a gate.
    Fails,
    /// It sets a word that others set too, which is a conflict.
    Conflicts,
    /// It merges cleanly, and a gate fails if two such tasks have landed.
    Clashes,
}

/// A limit that a worker reports, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedLimit {
    Usage,
    Overload,
}

impl ParallelPlan {
    /// Returns the name of a task, which tells the scripted agent what to do.
    pub fn name_task(&self, at: usize) -> String {
        let prefix = match self.tasks[at].fate {
            TaskFate::Done => "t",
            TaskFate::Fails => "bad",
            TaskFate::Conflicts => "same",
            TaskFate::Clashes => "clash",
        };
        format!("{prefix}{at}")
    }

    /// Returns whether the same tasks must be done whatever dies and however many workers there
    /// are: nothing in the plan depends on time.
    pub fn is_timeless(&self) -> bool {
        let is_limited = self.cents.is_some() || self.iterations < ENOUGH;
        // What the user commits during the last round of a task may make it fail.
        !is_limited && self.skip.is_none() && self.edit.is_none()
    }

    /// Returns the same plan without deaths, losses and other faults.
    #[must_use]
    pub fn without_faults(&self) -> Self {
        let mut calm =
            Self { deaths: Vec::new(), lost_host: None, stop: None, edit: None, ..self.clone() };
        for task in &mut calm.tasks {
            (task.losses, task.death, task.unfetchable, task.limit) = (0, None, 0, None);
        }
        calm
    }
}

/// Iterations that are enough for every plan.
const ENOUGH: u32 = 10_000;

/// Returns the plan of a seed.
pub fn draw_parallel_plan(seed: u64) -> ParallelPlan {
    let mut dice = Dice::new(seed ^ 0x70_61_72);
    let count = dice.roll_between(1, 9) as usize;
    let fates = [
        TaskFate::Done,
        TaskFate::Done,
        TaskFate::Done,
        TaskFate::Conflicts,
        TaskFate::Conflicts,
        TaskFate::Clashes,
        TaskFate::Fails,
    ];
    let mut tasks = Vec::new();
    for at in 0..count {
        let after = (0..at).filter(|_| dice.roll_chance(15)).collect();
        let limits = [PlannedLimit::Usage, PlannedLimit::Overload];
        let mut task = WorkerTaskPlan {
            fate: dice.pick_one(&fates),
            after,
            touches: dice.roll_chance(30).then(|| u8::from(dice.roll_chance(50))),
            polls: dice.roll_between(1, 8),
            losses: 0,
            death: None,
            unfetchable: 0,
            limit: dice.roll_chance(10).then(|| dice.pick_one(&limits)),
        };
        // One kind of fault for a task: a worker that is lost four times ends the run.
        match dice.roll_below(10) {
            0 => task.losses = dice.roll_between(1, 3),
            1 | 2 => task.death = Some(1 + dice.roll_below(90)),
            3 => task.unfetchable = dice.roll_between(1, 5),
            _ => {}
        }
        tasks.push(task);
    }
    let deaths = if dice.roll_chance(60) { dice.roll_between(1, 4) } else { 0 };
    ParallelPlan {
        jobs: dice.roll_between(1, 4),
        // With one attempt, what conflicts fails.
        merge_attempts: dice.roll_between(2, 4),
        review: dice.roll_chance(30),
        cents: dice.roll_chance(15).then(|| 1 + dice.roll_below(12)),
        iterations: if dice.roll_chance(10) { dice.roll_between(1, 8) } else { ENOUGH },
        deaths: (0..deaths).map(|_| 1 + dice.roll_below(300)).collect(),
        lost_host: dice.roll_chance(10).then(|| pick_index(&mut dice, count)),
        stop: dice.roll_chance(15).then(|| 250 * i64::from(dice.roll_between(1, 40))),
        pause: dice.roll_chance(15).then(|| {
            let after = 250 * i64::from(dice.roll_between(1, 40));
            (after, 60_000)
        }),
        skip: dice
            .roll_chance(15)
            .then(|| (250 * i64::from(dice.roll_between(1, 40)), pick_index(&mut dice, count))),
        edit: dice.roll_chance(20).then(|| 250 * i64::from(dice.roll_between(1, 20))),
        power: dice.roll_chance(40),
        tasks,
    }
}

fn pick_index(dice: &mut Dice, count: usize) -> usize {
    usize::try_from(dice.roll_below(count as u64)).unwrap_or(0)
}
