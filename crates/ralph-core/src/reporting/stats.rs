//! Statistics over the runs of a project, per agent, model and role.
//!
//! [`StatsFold`] counts one run; its result is small and kept with the run, so that a thousand runs
//! are summed up without reading their journals. Not here: where it is kept, and how it is printed.

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::agent_output::Usage;
use ralph_model::event::{Event, Recorded, WaitReason};
use ralph_model::gate::GateStatus;
use ralph_model::ids::{Role, RunId, TaskId, WorkerId};
use ralph_model::judgement::Verdict;
use ralph_model::outcome::Outcome;
use ralph_model::review::ReviewVerdict;
use ralph_model::run::RunState;
use ralph_model::task::TaskStatus;
use ralph_model::units::{Millis, Timestamp, UsdMicros};
pub use ralph_model::work_figures::{GateRuns, StatsFigures, StatsRow};
use ralph_model::work_figures::{WorkFigures, add_cost};
use ralph_model::worker::WorkerLimitKind;
use serde::{Deserialize, Serialize};

use crate::tasks::job::find_task_of;

/// The version of the kept format; figures of another version are counted again.
pub const STATS_VERSION: u32 = 2;

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStats {
    pub version: u32,
    pub run: RunId,
    pub started: Timestamp,
    pub is_complete: bool,
    pub rows: Vec<StatsRow>,
    /// How often each gate ran and failed.
    pub gates: BTreeMap<String, GateRuns>,
    /// Waits for usage limits.
    pub waits: u32,
    #[serde(rename = "waitedMs")]
    pub waited: Millis,
}

/// The figures of several runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectStats {
    pub runs: u32,
    pub complete_runs: u32,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    pub rows: Vec<StatsRow>,
    pub gates: BTreeMap<String, GateRuns>,
    pub waits: u32,
    #[serde(rename = "waitedMs")]
    pub waited: Millis,
    /// The figures of all rows together.
    pub total: StatsFigures,
    /// Attempts by implementers and fixers for each landed task, in thousandths.
    pub attempts_per_task_milli: Option<u64>,
    #[serde(rename = "msPerTask")]
    pub time_per_task: Option<Millis>,
    #[serde(rename = "costUsdMicrosPerTask")]
    pub cost_per_task: Option<UsdMicros>,
}

/// Agent, model and role.
type RowKey = (String, String, Role);

/// Counts the events of one run.
#[derive(Debug, Default)]
pub struct StatsFold {
    rows: BTreeMap<RowKey, StatsFigures>,
    gates: BTreeMap<String, GateRuns>,
    waits: u32,
    /// The end of the last wait for a usage limit.
    last_wait: Option<Timestamp>,
    /// The task and the start of the open iteration, and who works in it.
    task: Option<TaskId>,
    began: Millis,
    worker: Option<RowKey>,
    /// The agent and role of the open call.
    asked: Option<(String, Role)>,
    /// Who worked on a task last.
    workers: BTreeMap<TaskId, RowKey>,
    landed: BTreeSet<TaskId>,
    /// What each worker of a parallel run did, as it last reported.
    jobs: BTreeMap<WorkerId, WorkFigures>,
    /// The agent that the work of workers counts for as long as they report only sums.
    implementer: Option<RowKey>,
}

impl StatsFold {
    /// Counts an event, given the state after it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are not counted")]
    pub fn apply_event(&mut self, recorded: &Recorded, state: &RunState) {
        match &recorded.event {
            Event::IterationStarted { task, .. } => {
                (self.task, self.began, self.worker) = (task.clone(), recorded.ran, None);
            }
            Event::Asked { agent, role, .. } => {
                self.asked = Some((agent.name().to_owned(), *role));
            }
            Event::Replied { reply, .. } => {
                let Some((agent, role)) = self.asked.take() else { return };
                let choice = state.recipe.agent_for(role);
                let wanted = choice.model.clone().filter(|_| choice.kind.name() == agent);
                let model = wanted.or_else(|| reply.model.clone()).unwrap_or_default();
                let key = (agent, model, role);
                let figures = self.rows.entry(key.clone()).or_default();
                figures.calls += 1;
                figures.tokens = figures.tokens.saturating_add(reply.usage.tokens());
                figures.cost = add_cost(figures.cost, reply.usage.cost);
                if state.current.as_ref().is_some_and(|current| current.role == role) {
                    self.worker = Some(key);
                }
            }
            Event::GateChecked { result, .. } if result.status != GateStatus::Cached => {
                let failed = u32::from(result.status == GateStatus::Failed);
                let ran = result.end.as_ref().map_or(Millis::ZERO, |end| end.ran);
                let gate = self.gates.entry(result.gate.clone()).or_default();
                gate.add_runs(GateRuns { runs: 1, failed, ran });
                if let (1, Some(figures)) = (failed, self.find_worker_figures()) {
                    *figures.gate_failures.entry(result.gate.clone()).or_default() += 1;
                }
            }
            Event::Judged { judgement } => {
                if let Verdict::Reviewed { verdict: ReviewVerdict::ChangesRequested, .. } =
                    &judgement.verdict
                    && let Some(figures) = self.find_worker_figures()
                {
                    figures.rejections += 1;
                }
            }
            Event::Waiting { reason: WaitReason::UsageLimit, until } => {
                // A control request interrupts a wait, which is then recorded again.
                let is_new = self.last_wait.replace(*until) != Some(*until);
                self.waits += u32::from(is_new);
            }
            Event::WorkerLimited { kind: WorkerLimitKind::UsageLimit, .. } => self.waits += 1,
            Event::JobAssigned { assignment } => {
                let choice = state.recipe.agent_for(Role::Implement);
                let model = choice.model.clone().unwrap_or_default();
                let key = (choice.kind.name().to_owned(), model, Role::Implement);
                self.workers.insert(assignment.task.clone(), key.clone());
                self.implementer = Some(key);
            }
            Event::WorkerProgressed { worker, usage, iterations, ran, doing: _ } => {
                let sums = self.sum_job(*usage, *iterations, *ran);
                self.jobs.insert(worker.clone(), sums);
            }
            Event::WorkerEnded { worker, result } => {
                let figures = match &result.figures {
                    Some(figures) => (**figures).clone(),
                    None => self.sum_job(result.usage, result.iterations, result.ran),
                };
                let at_work = figures.rows.iter().filter(|row| row.role.is_attempt());
                let most = at_work.max_by_key(|row| row.figures.attempts);
                if let (Some(row), Some(task)) = (most, find_task_of(state, worker)) {
                    self.workers.insert(task.clone(), build_row_key(row));
                }
                self.jobs.insert(worker.clone(), figures);
            }
            Event::IterationEnded { .. } => self.end_iteration(recorded, state),
            _ => {}
        }
    }

    fn find_worker_figures(&mut self) -> Option<&mut StatsFigures> {
        self.rows.get_mut(self.worker.as_ref()?)
    }

    fn end_iteration(&mut self, recorded: &Recorded, state: &RunState) {
        let passed = Millis(recorded.ran.0.saturating_sub(self.began.0));
        if let Some(figures) = self.find_worker_figures() {
            figures.attempts += 1;
            figures.ran = figures.ran.saturating_add(passed);
        }
        let Some(task) = self.task.take() else { return };
        if let Some(worker) = self.worker.take()
            && worker.2.is_attempt()
        {
            self.workers.insert(task.clone(), worker);
        }
        let list = state.tasks.as_ref().map(|task_state| &task_state.list);
        let is_done = list
            .and_then(|list| list.find_task(&task))
            .is_some_and(|task| task.status == TaskStatus::Done);
        if is_done
            && let Some(worker) = self.workers.get(&task)
            && self.landed.insert(task)
        {
            self.rows.entry(worker.clone()).or_default().landed += 1;
        }
    }

    /// Returns the figures of a worker that reports only sums. Its iterations count as attempts of
    /// the implementing agent.
    fn sum_job(&self, usage: Usage, attempts: u32, ran: Millis) -> WorkFigures {
        let (agent, model, role) =
            self.implementer.clone().unwrap_or((String::new(), String::new(), Role::Implement));
        let (tokens, cost) = (usage.tokens(), usage.cost);
        let figures = StatsFigures { attempts, ran, tokens, cost, ..StatsFigures::default() };
        let rows = vec![StatsRow { agent, model, role, figures }];
        WorkFigures { rows, gates: BTreeMap::new() }
    }

    /// Returns the figures of the run so far.
    pub fn to_stats(&self, state: &RunState) -> RunStats {
        let (mut rows, mut gates) = (self.rows.clone(), self.gates.clone());
        for figures in self.jobs.values() {
            for row in &figures.rows {
                // Its work lands here, not in its own run.
                let figures = StatsFigures { landed: 0, ..row.figures.clone() };
                rows.entry(build_row_key(row)).or_default().add_figures(&figures);
            }
            for (gate, runs) in &figures.gates {
                gates.entry(gate.clone()).or_default().add_runs(*runs);
            }
        }
        let rows = rows.into_iter().map(|((agent, model, role), figures)| StatsRow {
            agent,
            model,
            role,
            figures,
        });
        RunStats {
            version: STATS_VERSION,
            run: state.run.clone(),
            started: state.started,
            is_complete: state.outcome == Some(Outcome::Complete),
            rows: rows.collect(),
            gates,
            waits: self.waits,
            waited: state.totals.waited,
        }
    }
}

impl ProjectStats {
    /// Sums up runs.
    pub fn from_runs(runs: impl IntoIterator<Item = RunStats>) -> Self {
        let mut sum = Self::default();
        let mut rows: BTreeMap<RowKey, StatsFigures> = BTreeMap::new();
        for run in runs {
            sum.runs += 1;
            sum.complete_runs += u32::from(run.is_complete);
            sum.first = Some(sum.first.map_or(run.started, |first| first.min(run.started)));
            sum.last = sum.last.max(Some(run.started));
            for StatsRow { agent, model, role, figures } in run.rows {
                rows.entry((agent, model, role)).or_default().add_figures(&figures);
            }
            for (gate, runs) in run.gates {
                sum.gates.entry(gate).or_default().add_runs(runs);
            }
            sum.waits += run.waits;
            sum.waited = sum.waited.saturating_add(run.waited);
        }
        let mut attempts = 0;
        for ((agent, model, role), figures) in rows {
            sum.total.add_figures(&figures);
            if role.is_attempt() {
                attempts += u64::from(figures.attempts);
            }
            sum.rows.push(StatsRow { agent, model, role, figures });
        }
        let landed = u64::from(sum.total.landed);
        sum.attempts_per_task_milli = (attempts * 1000).checked_div(landed);
        sum.time_per_task = sum.total.ran.0.checked_div(landed).map(Millis);
        let cost = sum.total.cost;
        sum.cost_per_task = cost.and_then(|cost| cost.0.checked_div(landed)).map(UsdMicros);
        sum
    }
}

fn build_row_key(row: &StatsRow) -> RowKey {
    (row.agent.clone(), row.model.clone(), row.role)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(started: i64, landed: u32, cost: Option<u64>) -> RunStats {
        let figures = StatsFigures {
            calls: 3,
            attempts: 2,
            landed,
            gate_failures: BTreeMap::from([("tests".to_owned(), 1)]),
            ran: Millis(6_000),
            cost: cost.map(UsdMicros),
            ..StatsFigures::default()
        };
        let (agent, model) = ("claude".to_owned(), "opus".to_owned());
        RunStats {
            version: STATS_VERSION,
            run: RunId("r".to_owned()),
            started: Timestamp(started),
            is_complete: landed > 0,
            rows: vec![StatsRow { agent, model, role: Role::Implement, figures }],
            gates: BTreeMap::from([(
                "tests".to_owned(),
                GateRuns { runs: 3, failed: 1, ran: Millis(5) },
            )]),
            waits: 1,
            waited: Millis(10),
        }
    }

    #[test]
    fn runs_are_summed_up_per_agent_model_and_role() {
        let sum = ProjectStats::from_runs([stats(5, 1, Some(30)), stats(9, 1, Some(20))]);
        assert_eq!((sum.runs, sum.complete_runs, sum.waits), (2, 2, 2));
        assert_eq!((sum.first, sum.last), (Some(Timestamp(5)), Some(Timestamp(9))));
        let [row] = sum.rows.as_slice() else { panic!("one row: {:?}", sum.rows) };
        assert_eq!(row.figures, sum.total);
        assert_eq!((sum.total.landed, sum.total.attempts), (2, 4));
        assert_eq!(sum.attempts_per_task_milli, Some(2_000));
        assert_eq!(
            (sum.time_per_task, sum.cost_per_task),
            (Some(Millis(6_000)), Some(UsdMicros(25)))
        );
        assert_eq!(sum.gates["tests"], GateRuns { runs: 6, failed: 2, ran: Millis(10) });
    }

    #[test]
    fn nothing_is_divided_by_no_task() {
        let sum = ProjectStats::from_runs([stats(5, 0, None)]);
        assert_eq!((sum.time_per_task, sum.cost_per_task), (None, None));
        assert_eq!(ProjectStats::from_runs([]), ProjectStats::default());
    }
}
