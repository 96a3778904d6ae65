//! What the workers of a parallel run did so far, by task and in total.
//!
//! A worker reports the sums of its whole run, so only its last report counts. One entry for each
//! job, and a task has few of them. Not here: where the run is now (`parallel_status`).

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::agent_output::Usage;
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{Role, TaskId, WorkerId};
use ralph_model::judgement::Verdict;
use ralph_model::parallel_state::MergeOutcome;
use ralph_model::run::RunState;
use ralph_model::units::Millis;
use ralph_model::work_figures::GateRuns;
use ralph_model::worker::TakenOver;
use serde::Serialize;

use super::ResourceUse;

/// The figures of a parallel run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParallelFigures {
    /// The tasks that had a worker, in the order of their ids.
    pub tasks: Vec<TaskRounds>,
    /// What all workers used.
    pub spent: ResourceUse,
    /// Worker time for each unit of the run's own time, in thousandths.
    pub speed_up_milli: Option<u64>,
    /// The share of the slots' time without a worker, in percent.
    pub idle_percent: Option<u64>,
    /// Time of merges, with their gates.
    #[serde(rename = "mergeMs")]
    pub merge_time: Millis,
    /// How often a task started again.
    pub requeues: u32,
    /// How often a worker was lost.
    pub losses: u32,
    /// How often a path was in conflict.
    pub conflict_paths: BTreeMap<String, u32>,
}

/// What became of a task in a parallel run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRounds {
    pub task: TaskId,
    /// Its workers, in order.
    pub workers: Vec<WorkerRunSummary>,
    pub rounds: u32,
    /// How long its work waited to land.
    #[serde(rename = "waitedMs")]
    pub waited: Millis,
    /// Paths that were in conflict.
    pub conflicts: BTreeSet<String>,
    /// Why it started again.
    pub requeues: Vec<String>,
}

/// The run of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRunSummary {
    /// Also the id of its run.
    pub worker: WorkerId,
    pub round: u32,
    /// Where it worked, once known.
    pub slot: Option<String>,
    /// The machine that did the job, if it was not the one of the run.
    pub machine: Option<String>,
    /// Its last attempt there.
    pub attempt: Option<AttemptLabel>,
    /// Whose work it continued, if another machine began it.
    pub taken_over_from: Option<TakenOver>,
    pub spent: ResourceUse,
}

/// Counts what workers report.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerCounts {
    tasks: BTreeMap<TaskId, TaskRounds>,
    /// Time of slots with a worker, and of all slots.
    busy: u64,
    slots: u64,
    requeues: u32,
    losses: u32,
    /// The gates of each worker that has ended.
    gates: BTreeMap<WorkerId, BTreeMap<String, GateRuns>>,
}

impl WorkerCounts {
    /// Adds the time since the last event, once there was a job.
    pub(super) fn add_time(&mut self, before: &RunState, passed: Millis) {
        let Some((parallel, policy)) =
            before.parallel.as_ref().zip(before.recipe.parallel.as_ref())
        else {
            return;
        };
        if !parallel.jobs.is_empty() {
            self.busy += passed.0.saturating_mul(parallel.count_live() as u64);
            self.slots += passed.0.saturating_mul(u64::from(policy.jobs));
        }
    }

    /// Counts an event, given the state before it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are not about workers")]
    pub(super) fn apply_event(&mut self, before: &RunState, recorded: &Recorded) {
        let merged = before.current.as_ref().and_then(|it| it.task.as_ref());
        match &recorded.event {
            Event::JobAssigned { assignment } => {
                let task = self.find_task(&assignment.task);
                task.rounds = task.rounds.max(assignment.round);
                if task.workers.iter().all(|it| it.worker != assignment.worker) {
                    task.workers.push(WorkerRunSummary {
                        worker: assignment.worker.clone(),
                        round: assignment.round,
                        slot: None,
                        machine: None,
                        attempt: None,
                        taken_over_from: None,
                        spent: ResourceUse::default(),
                    });
                }
            }
            Event::WorkerStarted { worker, place, origin } => {
                if let Some(run) = self.find_worker(worker) {
                    run.slot = Some(place.clone());
                    run.machine.clone_from(&origin.machine);
                    run.attempt.clone_from(&origin.attempt);
                    run.taken_over_from.clone_from(&origin.taken_over);
                }
            }
            Event::WorkerProgressed { worker, usage, iterations, ran, doing: _ } => {
                self.set_sums(worker, *usage, *iterations, *ran);
            }
            Event::WorkerEnded { worker, result } => {
                self.set_sums(worker, result.usage, result.iterations, result.ran);
                if let Some(figures) = &result.figures {
                    if let Some(run) = self.find_worker(worker) {
                        run.spent.asks = figures.rows.iter().map(|row| row.figures.calls).sum();
                    }
                    self.gates.insert(worker.clone(), figures.gates.clone());
                }
            }
            Event::WorkerLost { .. } => self.losses += 1,
            Event::IterationStarted { role: Role::Merge, task: Some(task), iteration: _ } => {
                let parallel = before.parallel.as_ref();
                if let Some(since) = parallel.and_then(|it| Some(it.find_candidate_of(task)?.since))
                {
                    let task = self.find_task(task);
                    task.waited = task.waited.saturating_add(recorded.at.elapsed_since(since));
                }
            }
            Event::CandidateMerged { outcome: MergeOutcome::Conflict { paths, .. }, worker: _ } => {
                if let Some(task) = merged {
                    self.find_task(task).conflicts.extend(paths.iter().cloned());
                }
            }
            Event::Judged { judgement } => {
                if let (Verdict::Requeued { reason }, Some(task)) = (&judgement.verdict, merged) {
                    self.requeues += 1;
                    self.find_task(task).requeues.push(reason.clone());
                }
            }
            _ => {}
        }
    }

    /// Returns what the workers of a task used.
    pub(super) fn sum_task(&self, task: &TaskId) -> ResourceUse {
        self.tasks.get(task).map(sum_workers).unwrap_or_default()
    }

    /// Returns how often the gates of workers ran.
    pub(super) fn list_gates(&self) -> impl Iterator<Item = (&String, GateRuns)> {
        self.gates.values().flatten().map(|(name, runs)| (name, *runs))
    }

    /// Returns how many agents workers called.
    pub(super) fn count_asks(&self) -> u32 {
        self.tasks.values().map(|task| sum_workers(task).asks).sum()
    }

    /// Returns the figures of a parallel run, whose merges took so long.
    pub(super) fn summarize(
        &self,
        state: &RunState,
        merge_time: Millis,
    ) -> Option<ParallelFigures> {
        let parallel = state.parallel.as_ref()?;
        let mut spent = ResourceUse::default();
        self.tasks.values().for_each(|it| spent.add_figures(&sum_workers(it)));
        let idle = self.slots.saturating_sub(self.busy);
        Some(ParallelFigures {
            tasks: self.tasks.values().cloned().collect(),
            spent,
            speed_up_milli: spent.ran.0.saturating_mul(1000).checked_div(state.ran.0),
            idle_percent: idle.saturating_mul(100).checked_div(self.slots),
            merge_time,
            requeues: self.requeues,
            losses: self.losses,
            conflict_paths: parallel.conflict_paths.clone(),
        })
    }

    fn find_task(&mut self, task: &TaskId) -> &mut TaskRounds {
        self.tasks.entry(task.clone()).or_insert_with(|| TaskRounds {
            task: task.clone(),
            workers: Vec::new(),
            rounds: 0,
            waited: Millis::ZERO,
            conflicts: BTreeSet::new(),
            requeues: Vec::new(),
        })
    }

    fn find_worker(&mut self, worker: &WorkerId) -> Option<&mut WorkerRunSummary> {
        let mut all = self.tasks.values_mut().flat_map(|it| &mut it.workers);
        all.find(|it| it.worker == *worker)
    }

    fn set_sums(&mut self, worker: &WorkerId, usage: Usage, iterations: u32, ran: Millis) {
        if let Some(run) = self.find_worker(worker) {
            // Calls are counted at the end; those of a worker that continues stay.
            let asks = run.spent.asks;
            run.spent = ResourceUse { iterations, asks, ran, ..ResourceUse::default() };
            run.spent.add_usage(usage);
        }
    }
}

fn sum_workers(task: &TaskRounds) -> ResourceUse {
    let mut sum = ResourceUse::default();
    task.workers.iter().for_each(|it| sum.add_figures(&it.spent));
    sum
}
