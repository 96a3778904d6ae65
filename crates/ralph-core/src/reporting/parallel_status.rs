//! Where a parallel run is now: its workers, the merge queue, tasks that start again, and agents
//! that take no calls.
//!
//! A pure function of the state, for every view. Not here: what the run did so far
//! (`report::parallel_figures`).

use ralph_model::agent::AgentKind;
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::ids::{Role, TaskId, WorkerId};
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::{Candidate, ParallelState, RunningWorker};
use ralph_model::recipe::{ParallelPolicy, Recipe};
use ralph_model::run::RunState;
use ralph_model::units::{Timestamp, Tokens, UsdMicros};
use ralph_model::worker::TakenOver;
use serde::Serialize;

/// The status of a parallel run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParallelStatus {
    /// How many workers may run at once.
    pub jobs: u32,
    /// How many may run now; fewer after an overload.
    pub concurrency: u32,
    /// Jobs without a final result.
    pub workers: Vec<WorkerSummary>,
    /// Work that is ready but has not landed.
    pub queue: Vec<QueuedCandidate>,
    /// Tasks that start again on a later tip.
    pub requeued: Vec<RequeuedTask>,
    /// Agents that take no calls for now.
    pub holds: Vec<AgentHold>,
}

/// A worker, live or stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerSummary {
    pub worker: WorkerId,
    pub task: TaskId,
    pub round: u32,
    /// Where it works, once known.
    pub slot: Option<String>,
    /// The machine that does the job, if it is not the one of the run.
    pub machine: Option<String>,
    /// Its attempt there, such as `a2`.
    pub attempt: Option<AttemptLabel>,
    /// Whose work it continues, if another machine began it.
    pub taken_over_from: Option<TakenOver>,
    pub is_live: bool,
    /// What it does, for people.
    pub doing: String,
    pub iterations: u32,
    #[serde(rename = "costUsdMicros")]
    pub cost: Option<UsdMicros>,
    pub tokens: Tokens,
    /// When its job began.
    pub since: Timestamp,
}

/// A candidate in the merge queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedCandidate {
    pub worker: WorkerId,
    pub task: TaskId,
    pub round: u32,
    /// When its worker ended.
    pub since: Timestamp,
    pub stage: CandidateStage,
}

/// How far a candidate is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum CandidateStage {
    /// It waits until it is merged.
    Waiting {
        reason: String,
    },
    Merging,
    /// Its gates run on the merged tree.
    Gates {
        done: usize,
        total: usize,
    },
    /// It was judged, and is being committed or rolled back.
    Landing,
}

/// A task that starts again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequeuedTask {
    pub task: TaskId,
    /// The next round.
    pub round: u32,
    pub reason: String,
}

/// An agent that takes no calls for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHold {
    pub agent: AgentKind,
    pub until: Timestamp,
}

impl ParallelStatus {
    /// Returns the status of a run; `None` if it works on one task at a time.
    pub fn from_state(state: &RunState) -> Option<Self> {
        let (parallel, policy) = (state.parallel.as_deref()?, state.recipe.parallel.as_ref()?);
        let holds = parallel.holds.iter();
        let requeued = parallel.requeued.iter();
        Some(Self {
            jobs: policy.jobs,
            concurrency: parallel.concurrency,
            workers: parallel.running.values().map(summarize_worker).collect(),
            queue: parallel.queue.iter().map(|it| summarize_candidate(state, it)).collect(),
            requeued: requeued
                .map(|(task, it)| RequeuedTask {
                    task: task.clone(),
                    round: it.round,
                    reason: it.reason.clone(),
                })
                .collect(),
            holds: holds.map(|(agent, until)| AgentHold { agent: *agent, until: *until }).collect(),
        })
    }

    /// Returns whether there is work that has not landed.
    pub fn has_open_work(&self) -> bool {
        !(self.workers.is_empty() && self.queue.is_empty() && self.requeued.is_empty())
    }

    /// Returns the holds that have not ended.
    pub fn holds_at(&self, now: Timestamp) -> impl Iterator<Item = &AgentHold> {
        self.holds.iter().filter(move |it| it.until > now)
    }
}

impl CandidateStage {
    /// Returns the stage in a few words.
    pub fn describe(&self) -> String {
        match self {
            Self::Waiting { reason } => format!("waits to land: {reason}"),
            Self::Merging => "merging".to_owned(),
            Self::Gates { done, total } => format!("gates {done}/{total}"),
            Self::Landing => "landing".to_owned(),
        }
    }
}

fn summarize_worker(worker: &RunningWorker) -> WorkerSummary {
    let doing = if !worker.is_live {
        "stopped, continues later"
    } else if worker.doing.is_empty() {
        "working"
    } else {
        &worker.doing
    };
    WorkerSummary {
        worker: worker.assignment.worker.clone(),
        task: worker.assignment.task.clone(),
        round: worker.assignment.round,
        slot: worker.place.clone(),
        machine: worker.origin.machine.clone(),
        attempt: worker.origin.attempt.clone(),
        taken_over_from: worker.origin.taken_over.clone(),
        is_live: worker.is_live,
        doing: doing.to_owned(),
        iterations: worker.iterations,
        cost: worker.usage.cost,
        tokens: worker.usage.tokens(),
        since: worker.since,
    }
}

fn summarize_candidate(state: &RunState, candidate: &Candidate) -> QueuedCandidate {
    QueuedCandidate {
        worker: candidate.worker.clone(),
        task: candidate.task.clone(),
        round: candidate.round,
        since: candidate.since,
        stage: find_stage(state, candidate),
    }
}

fn find_stage(state: &RunState, candidate: &Candidate) -> CandidateStage {
    let merge = state.current.as_ref().filter(|it| it.role == Role::Merge);
    let merged = merge.and_then(|it| it.task.as_ref());
    let Some(current) = merge.filter(|_| merged == Some(&candidate.task)) else {
        return CandidateStage::Waiting { reason: find_wait_reason(state, candidate, merged) };
    };
    if current.judgement().is_some() {
        return CandidateStage::Landing;
    }
    match current.checking() {
        Some(checking) if checking.merge.is_some() => {
            CandidateStage::Gates { done: current.gates().len(), total: count_gates(&state.recipe) }
        }
        Some(_) | None => CandidateStage::Merging,
    }
}

/// Returns why a candidate waits.
fn find_wait_reason(state: &RunState, candidate: &Candidate, merged: Option<&TaskId>) -> String {
    if let Some(merged) = merged {
        return format!("{merged} is being merged");
    }
    match state.parallel.as_ref().and_then(|it| it.ending.as_ref()) {
        Some(Outcome::LandingBlocked { task, message }) if *task == candidate.task => {
            return message.clone();
        }
        Some(Outcome::LandingBlocked { task, .. }) => return format!("{task} cannot land"),
        Some(_) | None => {}
    }
    let parts = state.parallel.as_deref().zip(state.recipe.parallel.as_ref());
    match parts.and_then(|(parallel, policy)| find_exclusive(parallel, policy)) {
        Some(task) if *task != candidate.task => {
            format!("{task} lands first, it is in its last round")
        }
        Some(_) | None => "merged next".to_owned(),
    }
}

/// Returns the task whose last round keeps others from landing.
fn find_exclusive<'a>(parallel: &'a ParallelState, policy: &ParallelPolicy) -> Option<&'a TaskId> {
    let running = parallel.running.values().map(|it| (it.assignment.round, &it.assignment.task));
    let mut all = running.chain(parallel.queue.iter().map(|it| (it.round, &it.task)));
    all.find(|(round, _)| policy.is_last_round(*round)).map(|(_, task)| task)
}

fn count_gates(recipe: &Recipe) -> usize {
    recipe.gates.iter().filter(|gate| recipe.strategy.find_severity(gate).is_some()).count()
}
