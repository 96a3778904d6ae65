//! What the screen shows of a run in addition to its lines: work, gates, budget.
//!
//! Built from events and the run state on the thread of the run, and small enough to be sent to
//! the screen with every event. Not here: drawing.

use std::sync::Arc;

use ralph_core::ports::Activity;
use ralph_core::reporting::parallel_status::ParallelStatus;
use ralph_core::tasks::checklist::{self, Checklist};
use ralph_model::agent_output::{AgentEvent, Usage, UsageScope};
use ralph_model::attempt::AttemptLog;
use ralph_model::control::Pause;
use ralph_model::event::{Event, Recorded, WaitReason};
use ralph_model::gate::{GateResult, GateStatus, Severity};
use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::Verdict;
use ralph_model::plan::{Counts, PlanState};
use ralph_model::recipe::Recipe;
use ralph_model::review::ReviewStatus;
use ralph_model::run::RunState;
use ralph_model::task::{Progress, Task, TaskStatus};
use ralph_model::units::{Millis, Timestamp, Tokens, UsdMicros};

use crate::style::{LineMark, Paint};
use crate::{sanitize, task_lines, tasks};

/// What the screen shows of a run in addition to its lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScreenFacts {
    /// The run id; empty before the run began.
    pub(crate) run: String,
    /// The role of the current iteration.
    pub(crate) role: Option<Role>,
    /// The task of the current iteration.
    pub(crate) task: Option<TaskId>,
    pub(crate) status: LiveStatus,
    pub(crate) pending: PendingControl,
    pub(crate) iteration: u32,
    pub(crate) last_iteration: u32,
    /// The running time of the run at `at`.
    pub(crate) ran: Millis,
    pub(crate) at: Timestamp,
    pub(crate) usage: Usage,
    pub(crate) cost_limit: Option<UsdMicros>,
    pub(crate) token_limit: Option<Tokens>,
    pub(crate) time_limit: Option<Millis>,
    /// The estimated remaining time.
    pub(crate) rest: Option<Millis>,
    pub(crate) work: WorkRows,
    pub(crate) gates: Vec<GateRow>,
    /// The workers of a parallel run.
    pub(crate) parallel: Option<Arc<ParallelStatus>>,
    /// Usage that the current agent call has reported so far.
    call_usage: Usage,
    /// Sequence number of the last `PlanSeen` event, or 0.
    plan_seen: u64,
}

/// The status of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum LiveStatus {
    #[default]
    Beginning,
    Running,
    Waiting {
        until: Timestamp,
        reason: WaitReason,
    },
    /// Until a resume request.
    Paused {
        since: Timestamp,
    },
    Ended {
        /// The outcome as text.
        how: String,
    },
}

/// A pending control request that changes the status of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PendingControl {
    #[default]
    Nothing,
    Pause,
    Stop,
}

/// The list on the left.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkRows {
    /// Tasks, or iterations if there is no task list.
    pub(crate) rows: Arc<Vec<WorkRow>>,
    /// Items of the plan, shown below the iterations.
    pub(crate) items: Arc<Vec<WorkRow>>,
    pub(crate) current: Option<usize>,
    pub(crate) kind: WorkKind,
}

/// The content of the list on the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WorkKind {
    /// Iterations, without a list.
    #[default]
    Iterations,
    /// Iterations and plan items.
    Plan(Counts),
    Tasks(Progress),
}

/// One row of the list on the left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkRow {
    pub(crate) mark: LineMark,
    pub(crate) paint: Paint,
    /// Shared, because lists are long and few rows change.
    pub(crate) text: Arc<str>,
    /// The task fields that the row was built from.
    made_from: Option<(TaskStatus, ReviewStatus, u32)>,
}

/// A gate on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GateRow {
    pub(crate) name: String,
    pub(crate) state: GateState,
}

/// The state of a gate in this iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateState {
    Pending,
    Running {
        since: Timestamp,
    },
    Passed {
        took: Option<Millis>,
    },
    /// A soft gate only warns.
    Failed {
        severity: Severity,
        took: Option<Millis>,
    },
}

/// Limits names before layout.
const LONGEST: usize = 200;
/// Older iterations are only in the report.
const MOST_ITERATIONS: usize = 1_000;

impl ScreenFacts {
    /// Applies an event with the state that follows from it.
    pub(crate) fn apply_event(&mut self, recorded: &Recorded, state: &RunState) {
        if self.run.is_empty() {
            self.begin_run(state);
        }
        self.at = recorded.at;
        self.ran = state.ran;
        let workers = state.parallel.as_ref().map(|it| it.total_iterations());
        self.iteration = workers.unwrap_or(state.iterations);
        self.parallel = ParallelStatus::from_state(state).map(Arc::new);
        self.last_iteration = state.last_iteration();
        self.usage = state.total_usage();
        self.rest = task_lines::estimate_remaining_time(state);
        self.role = state.current.as_ref().map(|current| current.role);
        self.task = state.current.as_ref().and_then(|current| current.task.clone());
        self.update_status(recorded);
        if let (LiveStatus::Paused { .. }, Pause::No) = (&self.status, state.control.pause) {
            self.status = LiveStatus::Running;
        }
        self.pending = match (state.control.stop, state.control.pause) {
            (Some(_), _) => PendingControl::Stop,
            (None, Pause::Asked { .. }) => PendingControl::Pause,
            (None, Pause::No | Pause::Since { .. }) => PendingControl::Nothing,
        };
        match &recorded.event {
            Event::RunStarted { .. } | Event::RunResumed { .. } => {
                self.set_limits(&state.recipe);
                self.update_task_rows(state, RowUpdate::All);
            }
            Event::TasksRead { .. } => self.update_task_rows(state, RowUpdate::All),
            Event::AgentListRead { .. }
            | Event::TaskSkipped { .. }
            | Event::JobAssigned { .. }
            | Event::WorkerEnded { .. }
            | Event::RunEnded { .. } => {
                self.update_task_rows(state, RowUpdate::Changed);
            }
            Event::IterationStarted { .. } => {
                self.gates = list_gates(&state.recipe);
                self.update_task_rows(state, RowUpdate::Changed);
                self.open_iteration(state);
            }
            Event::BaselineStarted { .. } => self.gates = list_gates(&state.recipe),
            Event::Refused { refusal, .. } => {
                let state = GateState::Failed { severity: Severity::Hard, took: None };
                self.gates.push(GateRow { name: format!("{} (refused)", refusal.kind), state });
            }
            Event::GateChecked { result, .. } | Event::BaselineChecked { result } => {
                self.update_gate(result);
            }
            Event::Replied { .. } => self.call_usage = Usage::default(),
            Event::PlanSeen { look } => self.update_plan(look, recorded.seq),
            Event::Judged { judgement } => self.set_verdict(&judgement.verdict),
            Event::IterationEnded { .. } => {
                self.close_iteration(state);
                self.update_task_rows(state, RowUpdate::Changed);
            }
            _ => {}
        }
    }

    /// Applies a usage event of the agent. Returns whether it was one.
    pub(crate) fn apply_usage(&mut self, event: &AgentEvent) -> bool {
        let AgentEvent::Usage { usage, scope } = event else { return false };
        self.call_usage = match scope {
            UsageScope::Step => self.call_usage.plus(*usage),
            UsageScope::Total => *usage,
        };
        true
    }

    /// Applies a current activity.
    pub(crate) fn apply_activity(&mut self, activity: &Activity<'_>, now: Timestamp) {
        match activity {
            Activity::Gate(gate) => {
                if let Some(row) =
                    self.gates.iter_mut().find(|row| row.name == sanitize_name(&gate.name))
                {
                    row.state = GateState::Running { since: now };
                }
            }
            Activity::Waiting { until, reason, left: _ } => {
                self.status = LiveStatus::Waiting { until: *until, reason: *reason };
            }
            // The screen counts the time itself.
            Activity::GateRuns { .. } | Activity::Workers(_) => {}
            Activity::Paused { since } => self.status = LiveStatus::Paused { since: *since },
        }
    }

    /// Returns whether the shown plan is that of the event with this sequence number.
    pub(crate) fn shows_plan_of(&self, seq: Option<u64>) -> bool {
        seq == Some(self.plan_seen)
    }

    /// Returns the usage, including the current call.
    pub(crate) fn total_usage(&self) -> Usage {
        self.usage.plus(self.call_usage)
    }

    /// Returns the running time at this moment.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Millis {
        match self.status {
            LiveStatus::Running => self.ran.saturating_add(now.elapsed_since(self.at)),
            _ => self.ran,
        }
    }

    fn begin_run(&mut self, state: &RunState) {
        self.run = sanitize_name(&state.run.0);
        self.set_limits(&state.recipe);
        self.gates = list_gates(&state.recipe);
        self.update_task_rows(state, RowUpdate::All);
    }

    fn set_limits(&mut self, recipe: &Recipe) {
        let budget = recipe.limits.budget;
        (self.cost_limit, self.token_limit, self.time_limit) =
            (budget.cost, budget.tokens, budget.time);
    }

    fn update_status(&mut self, recorded: &Recorded) {
        self.status = match &recorded.event {
            Event::Waiting { until, reason } => {
                LiveStatus::Waiting { until: *until, reason: *reason }
            }
            Event::RunEnded { outcome, .. } => {
                LiveStatus::Ended { how: sanitize_name(&outcome.to_string()) }
            }
            Event::Paused => LiveStatus::Paused { since: recorded.at },
            // Neither ends a wait; the event of the next step does.
            Event::Warned { .. } | Event::ControlRequested { .. } => return,
            _ => LiveStatus::Running,
        };
    }

    /// Rebuilds the rows of a task list, if there is one.
    ///
    /// This happens on the thread of the run several times per iteration, so only changed rows of a
    /// long list are rebuilt.
    fn update_task_rows(&mut self, state: &RunState, which: RowUpdate) {
        let Some(task_state) = &state.tasks else { return };
        let tasks = &task_state.list.tasks;
        let made_from = |task: &Task| {
            let failed = task_state.logs.get(&task.id).map_or(0, AttemptLog::counted);
            (task.status, task.review.status, failed)
        };
        let row = |task: &Task| {
            let (mark, _, paint) = tasks::describe_state(task.status, task.review.status);
            let made_from = made_from(task);
            let attempts = match (made_from.2, state.recipe.task_work()) {
                (failed @ 1.., Some(work)) => {
                    let limit = work.attempt_limit(&task_state.list, &task.id);
                    format!(" ({failed}/{limit} failed)")
                }
                (_, _) => String::new(),
            };
            let title = sanitize::sanitize_line(&task.title, LONGEST, "");
            let text = format!("{}{attempts} {title}", tasks::format_task_id(&task.id)).into();
            WorkRow { mark, paint, text, made_from: Some(made_from) }
        };
        if which == RowUpdate::All || self.work.rows.len() != tasks.len() {
            self.work.rows = Arc::new(tasks.iter().map(row).collect());
        } else {
            let is_old =
                |(known, task): (&WorkRow, &Task)| known.made_from != Some(made_from(task));
            let old: Vec<usize> = self
                .work
                .rows
                .iter()
                .zip(tasks)
                .enumerate()
                .filter(|(_, pair)| is_old(*pair))
                .map(|(at, _)| at)
                .collect();
            if !old.is_empty() {
                let rows = Arc::make_mut(&mut self.work.rows);
                for at in old {
                    rows[at] = row(&tasks[at]);
                }
            }
        }
        self.work.current =
            self.task.as_ref().and_then(|id| tasks.iter().position(|task| task.id == *id));
        self.work.kind = WorkKind::Tasks(task_state.progress());
    }

    /// Adds a row for an iteration, if there is no task list.
    fn open_iteration(&mut self, state: &RunState) {
        let (None, Some(current)) = (&state.tasks, &state.current) else { return };
        let text = format!("{} {}", current.number, current.role).into();
        let rows = Arc::make_mut(&mut self.work.rows);
        if rows.len() >= MOST_ITERATIONS {
            rows.remove(0);
        }
        rows.push(WorkRow { mark: LineMark::TaskActive, paint: Paint::Act, text, made_from: None });
        self.work.current = Some(rows.len() - 1);
    }

    fn set_verdict(&mut self, verdict: &Verdict) {
        let (WorkKind::Iterations | WorkKind::Plan(_)) = self.work.kind else { return };
        let (mark, paint) = match verdict {
            Verdict::Complete | Verdict::Passed { .. } => (LineMark::TaskDone, Paint::Good),
            Verdict::Reviewed { .. } => (LineMark::TaskDone, Paint::Act),
            Verdict::Compacted { .. } => (LineMark::TaskDone, Paint::Dim),
            Verdict::GatesFailed { .. }
            | Verdict::AttemptFailed { .. }
            | Verdict::NothingChanged
            | Verdict::NotHandedIn { .. }
            | Verdict::Incomplete { .. }
            | Verdict::Blocked { .. } => (LineMark::TaskFailed, Paint::Bad),
            Verdict::Skipped { .. } => (LineMark::TaskSkipped, Paint::Dim),
            Verdict::Requeued { .. } => (LineMark::Back, Paint::Dim),
            Verdict::Held { .. } => (LineMark::Warn, Paint::Bad),
        };
        let Some(at) = self.work.current else { return };
        if let Some(row) = Arc::make_mut(&mut self.work.rows).get_mut(at) {
            (row.mark, row.paint) = (mark, paint);
            row.text = format!("{} {}", row.text, verdict.label()).into();
        }
    }

    fn close_iteration(&mut self, state: &RunState) {
        if state.tasks.is_none() {
            self.work.current = None;
        }
    }

    fn update_plan(&mut self, look: &PlanState, seq: u64) {
        let PlanState::Usable { counts, next, .. } = look else { return };
        self.work.kind = WorkKind::Plan(*counts);
        self.plan_seen = seq;
        let row = |item: &String| make_item_row(checklist::Mark::Open, item);
        self.work.items = Arc::new(next.iter().map(row).collect());
    }

    fn update_gate(&mut self, result: &GateResult) {
        let took = result.end.as_ref().map(|end| end.ran);
        let state = match result.status {
            GateStatus::Passed | GateStatus::Cached => GateState::Passed { took },
            GateStatus::Failed => GateState::Failed { severity: result.severity, took },
        };
        let name = sanitize_name(&result.gate);
        match self.gates.iter_mut().find(|row| row.name == name) {
            Some(row) => row.state = state,
            None => self.gates.push(GateRow { name, state }),
        }
    }
}

/// Which rows of a list are rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowUpdate {
    All,
    /// Those of tasks whose state changed.
    Changed,
}

/// Reads the plan as the run saw it last.
pub type ReadPlan = Box<dyn FnMut() -> Option<Checklist> + std::marker::Send>;

/// All items of the plan; the journal has only the first open ones. Read on the thread of the
/// screen after each `PlanSeen` event, until it is the plan of that event: it is saved after it.
#[derive(Debug, Default)]
pub(crate) struct WholePlan {
    seen: u64,
    rows: Option<Arc<Vec<WorkRow>>>,
}

impl WholePlan {
    /// Replaces the items from the journal with all items, open ones first.
    pub(crate) fn fill_items(
        &mut self,
        facts: &mut ScreenFacts,
        read: impl FnOnce() -> Option<Checklist>,
    ) {
        if facts.plan_seen == 0 {
            return;
        }
        if facts.plan_seen != self.seen {
            let list = read();
            let counts = list.as_ref().map(Checklist::counts);
            if counts.map(WorkKind::Plan) == Some(facts.work.kind) {
                self.seen = facts.plan_seen;
            }
            self.rows = list.map(|list| {
                let (open, done): (Vec<_>, Vec<_>) =
                    list.items.iter().partition(|item| item.mark != checklist::Mark::Done);
                let rows = open.into_iter().chain(done);
                Arc::new(rows.map(|item| make_item_row(item.mark, &item.text)).collect())
            });
        }
        if let Some(rows) = &self.rows {
            facts.work.items = Arc::clone(rows);
        }
    }
}

impl WorkRows {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.items.len()
    }

    /// Returns the rows starting at an index.
    pub(crate) fn rows_from(&self, first: usize) -> impl Iterator<Item = (usize, &WorkRow)> {
        let items = first.saturating_sub(self.rows.len()).min(self.items.len());
        let rows = self.rows.get(first..).unwrap_or_default();
        (first..).zip(rows.iter().chain(&self.items[items..]))
    }
}

fn make_item_row(mark: checklist::Mark, text: &str) -> WorkRow {
    let (mark, paint) = match mark {
        checklist::Mark::Open => (LineMark::TaskPending, Paint::None),
        checklist::Mark::Done => (LineMark::TaskDone, Paint::Good),
        checklist::Mark::Person => (LineMark::TaskPending, Paint::Warn),
    };
    WorkRow { mark, paint, text: sanitize_name(text).into(), made_from: None }
}

fn list_gates(recipe: &Recipe) -> Vec<GateRow> {
    let is_run = |gate: &&ralph_model::gate::Gate| recipe.strategy.find_severity(gate).is_some();
    let row = |gate: &ralph_model::gate::Gate| GateRow {
        name: sanitize_name(&gate.name),
        state: GateState::Pending,
    };
    recipe.gates.iter().filter(is_run).map(row).collect()
}

fn sanitize_name(text: &str) -> String {
    sanitize::sanitize_line(text, LONGEST, "…")
}
