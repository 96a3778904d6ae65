//! What the screen shows of a run beside its lines: the work, the gates, the budget.
//!
//! Made of events and the state that follows from them, on the run's own thread, and small enough to
//! be handed to the screen with every event. Not here: drawing.

use std::sync::Arc;

use ralph_core::checklist::Counts;
use ralph_core::control::Pause;
use ralph_core::event::{Event, Recorded, WaitReason};
use ralph_core::gate::{GateResult, GateStatus, Severity};
use ralph_core::ids::{Role, TaskId};
use ralph_core::judge::Verdict;
use ralph_core::plan::PlanLook;
use ralph_core::ports::Activity;
use ralph_core::reading::{AgentEvent, Usage, UsageScope};
use ralph_core::recipe::Recipe;
use ralph_core::run::RunState;
use ralph_core::settle;
use ralph_core::task::Progress;
use ralph_core::units::{Millis, Timestamp, Tokens, UsdMicros};

use crate::board;
use crate::safe;
use crate::style::{Mark, Paint};
use crate::tasks;

/// What the screen shows of a run beside its lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The run's id; empty before it began.
    pub(crate) run: String,
    /// What the open iteration is for.
    pub(crate) role: Option<Role>,
    /// The task of the open iteration.
    pub(crate) task: Option<TaskId>,
    pub(crate) standing: Standing,
    /// What was asked of the run and is not done yet.
    pub(crate) asked: Wanted,
    pub(crate) iteration: u32,
    pub(crate) last_iteration: u32,
    /// How long the run had been running at `at`.
    pub(crate) ran: Millis,
    pub(crate) at: Timestamp,
    pub(crate) usage: Usage,
    pub(crate) cost_limit: Option<UsdMicros>,
    pub(crate) token_limit: Option<Tokens>,
    pub(crate) time_limit: Option<Millis>,
    /// The estimated rest.
    pub(crate) rest: Option<Millis>,
    pub(crate) work: WorkRows,
    pub(crate) gates: Vec<GateRow>,
    /// What the agent that is talking has used so far, as far as it says.
    talking: Usage,
    /// The iterations, where there is no task list.
    iterations: Vec<WorkRow>,
    /// The first open items of the plan, where there is one.
    items: Vec<WorkRow>,
}

/// How the run stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Standing {
    /// Nothing has happened yet.
    #[default]
    Beginning,
    Running,
    Waiting {
        until: Timestamp,
        reason: WaitReason,
    },
    /// Until somebody says to go on.
    Paused {
        since: Timestamp,
    },
    Ended {
        /// Its outcome, in words.
        how: String,
    },
}

/// What was asked of a run and is not done yet, as far as it changes how the run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wanted {
    #[default]
    Nothing,
    /// A pause after this step.
    Pause,
    /// An end after this step.
    Stop,
}

/// The list on the left.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkRows {
    pub(crate) rows: Arc<Vec<WorkRow>>,
    /// The row that is being worked on.
    pub(crate) current: Option<usize>,
    pub(crate) kind: WorkKind,
}

/// What the list on the left consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WorkKind {
    /// Iterations; there is no list.
    #[default]
    Iterations,
    /// Iterations, and the first open items of a plan.
    Plan(Counts),
    /// Tasks.
    Tasks(Progress),
}

/// One row of the list on the left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkRow {
    pub(crate) mark: Mark,
    pub(crate) paint: Paint,
    pub(crate) text: String,
}

/// A gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GateRow {
    pub(crate) name: String,
    pub(crate) state: GateState,
}

/// How a gate stands in this iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateState {
    /// It has not been run.
    Pending,
    /// It is being run.
    Running {
        since: Timestamp,
    },
    Passed {
        took: Option<Millis>,
    },
    /// It failed; a soft one only warns.
    Failed {
        severity: Severity,
        took: Option<Millis>,
    },
}

/// Names on the screen are bounded before they are laid out.
const LONGEST: usize = 200;
/// A list of iterations is shown from its end; more than this is in the report.
const MOST_ITERATIONS: usize = 1_000;

impl Facts {
    /// Takes in an event with the state that follows from it.
    pub(crate) fn tell(&mut self, recorded: &Recorded, state: &RunState) {
        if self.run.is_empty() {
            self.begin(state);
        }
        self.at = recorded.at;
        self.ran = state.ran;
        self.iteration = state.iterations;
        self.last_iteration = state.last_iteration();
        self.usage = state.totals.usage;
        self.rest = board::rest(state);
        self.role = state.current.as_ref().map(|current| current.role);
        self.task = state.current.as_ref().and_then(|current| current.task.clone());
        self.stand(recorded);
        if let (Standing::Paused { .. }, Pause::No) = (&self.standing, state.control.pause) {
            self.standing = Standing::Running;
        }
        self.asked = match (state.control.stop, state.control.pause) {
            (Some(_), _) => Wanted::Stop,
            (None, Pause::Asked { .. }) => Wanted::Pause,
            (None, Pause::No | Pause::Since { .. }) => Wanted::Nothing,
        };
        match &recorded.event {
            Event::RunStarted { .. } | Event::RunResumed { .. } => {
                self.bound(&state.recipe);
                self.list(state);
            }
            Event::TasksRead { .. } | Event::Claimed { .. } | Event::TaskSkipped { .. } => {
                self.list(state);
            }
            Event::IterationStarted { .. } => {
                self.gates = gates_of(&state.recipe);
                self.list(state);
                self.open_iteration(state);
            }
            Event::BaselineStarted { .. } => self.gates = gates_of(&state.recipe),
            Event::GateChecked { result } | Event::BaselineChecked { result } => self.check(result),
            Event::Replied { .. } => self.talking = Usage::default(),
            Event::PlanSeen { look } => self.plan(look),
            Event::Judged { judgement } => self.judge(&judgement.verdict),
            Event::IterationEnded { .. } => {
                self.close_iteration(state);
                self.list(state);
            }
            Event::RunEnded { .. } => self.list(state),
            Event::TasksWritten
            | Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Waiting { .. }
            | Event::Observed { .. }
            | Event::Landed { .. }
            | Event::Wished { .. }
            | Event::Paused
            | Event::Warned { .. } => {}
        }
    }

    /// Takes in what the agent says of its use. Returns whether it did.
    pub(crate) fn hear(&mut self, event: &AgentEvent) -> bool {
        let AgentEvent::Usage { usage, scope } = event else { return false };
        self.talking = match scope {
            UsageScope::Step => self.talking.plus(*usage),
            UsageScope::Total => *usage,
        };
        true
    }

    /// Takes in what is going on at this moment.
    pub(crate) fn doing(&mut self, activity: &Activity<'_>, now: Timestamp) {
        match activity {
            Activity::Gate(gate) => {
                if let Some(row) = self.gates.iter_mut().find(|row| row.name == named(&gate.name)) {
                    row.state = GateState::Running { since: now };
                }
            }
            Activity::Waiting { until, reason, left: _ } => {
                self.standing = Standing::Waiting { until: *until, reason: *reason };
            }
            // The screen counts by itself.
            Activity::GateRuns { .. } => {}
            Activity::Paused { since } => self.standing = Standing::Paused { since: *since },
        }
    }

    /// Returns what was used, the call that is under way included.
    pub(crate) fn used(&self) -> Usage {
        self.usage.plus(self.talking)
    }

    /// Returns how long the run has been running by this moment.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Millis {
        match self.standing {
            Standing::Running => self.ran.plus(now.since(self.at)),
            Standing::Beginning
            | Standing::Waiting { .. }
            | Standing::Paused { .. }
            | Standing::Ended { .. } => self.ran,
        }
    }

    fn begin(&mut self, state: &RunState) {
        self.run = named(&state.run.0);
        self.bound(&state.recipe);
        self.gates = gates_of(&state.recipe);
        self.list(state);
    }

    fn bound(&mut self, recipe: &Recipe) {
        let budget = recipe.limits.budget;
        (self.cost_limit, self.token_limit, self.time_limit) =
            (budget.cost, budget.tokens, budget.time);
    }

    fn stand(&mut self, recorded: &Recorded) {
        self.standing = match &recorded.event {
            Event::Waiting { until, reason } => {
                Standing::Waiting { until: *until, reason: *reason }
            }
            Event::RunEnded { outcome } => Standing::Ended { how: named(&outcome.to_string()) },
            Event::Paused => Standing::Paused { since: recorded.at },
            // Neither ends a wait; what does is told by the next step.
            Event::Warned { .. } | Event::Wished { .. } => return,
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::BaselineStarted { .. }
            | Event::BaselineChecked { .. }
            | Event::IterationStarted { .. }
            | Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Replied { .. }
            | Event::Observed { .. }
            | Event::PlanSeen { .. }
            | Event::Claimed { .. }
            | Event::GateChecked { .. }
            | Event::Judged { .. }
            | Event::Landed { .. }
            | Event::TaskSkipped { .. }
            | Event::IterationEnded { .. } => Standing::Running,
        };
    }

    /// Makes the rows of a task list anew, if that is the work.
    fn list(&mut self, state: &RunState) {
        let Some(board) = &state.board else { return };
        let row = |task: &ralph_core::task::Task| {
            let (mark, _, paint) = tasks::state(task.status, task.review.status);
            let failed = board.logs.get(&task.id).map_or(0, |log| log.failed);
            let attempts = match (failed, state.recipe.task_work()) {
                (1.., Some(work)) => {
                    let limit = settle::limit(work, &board.list, &task.id);
                    format!(" ({failed}/{limit} failed)")
                }
                (_, _) => String::new(),
            };
            let title = safe::one_line(&task.title, LONGEST, "");
            WorkRow { mark, paint, text: format!("{}{attempts} {title}", tasks::name(&task.id)) }
        };
        self.work = WorkRows {
            rows: Arc::new(board.list.tasks.iter().map(row).collect()),
            current: self
                .task
                .as_ref()
                .and_then(|id| board.list.tasks.iter().position(|task| task.id == *id)),
            kind: WorkKind::Tasks(board.list.progress()),
        };
    }

    /// Adds a row for an iteration, where there is no task list.
    fn open_iteration(&mut self, state: &RunState) {
        let (None, Some(current)) = (&state.board, &state.current) else { return };
        let text = format!("{} {}", current.number, current.role);
        if self.iterations.len() >= MOST_ITERATIONS {
            self.iterations.remove(0);
        }
        self.iterations.push(WorkRow { mark: Mark::TaskActive, paint: Paint::Act, text });
        self.list_iterations();
        self.work.current = Some(self.iterations.len() - 1);
    }

    /// Makes the rows anew where there is no task list: what was done, then what is next.
    fn list_iterations(&mut self) {
        let rows = self.iterations.iter().chain(&self.items).cloned().collect();
        self.work.rows = Arc::new(rows);
    }

    fn judge(&mut self, verdict: &Verdict) {
        let (WorkKind::Iterations | WorkKind::Plan(_)) = self.work.kind else { return };
        let (mark, paint, words) = match verdict {
            Verdict::Complete => (Mark::TaskDone, Paint::Good, "complete"),
            Verdict::Passed { .. } => (Mark::TaskDone, Paint::Good, "passed"),
            Verdict::Reviewed { verdict, .. } => (Mark::TaskDone, Paint::Act, verdict.name()),
            Verdict::Compacted { .. } => (Mark::TaskDone, Paint::Dim, "compacted"),
            Verdict::GatesFailed { .. } => (Mark::TaskFailed, Paint::Bad, "failed at gates"),
            Verdict::AttemptFailed { failure } => {
                (Mark::TaskFailed, Paint::Bad, failure.class.name())
            }
            Verdict::NothingChanged => (Mark::TaskFailed, Paint::Bad, "nothing changed"),
            Verdict::NotHandedIn { .. } => (Mark::TaskFailed, Paint::Bad, "not handed in"),
            Verdict::Blocked { .. } => (Mark::TaskFailed, Paint::Bad, "blocked"),
            Verdict::Skipped { .. } => (Mark::TaskSkipped, Paint::Dim, "skipped"),
        };
        if let Some(row) = self.work.current.and_then(|at| self.iterations.get_mut(at)) {
            (row.mark, row.paint) = (mark, paint);
            row.text.push_str(&format!(" {words}"));
        }
        self.list_iterations();
    }

    fn close_iteration(&mut self, state: &RunState) {
        if state.board.is_none() {
            self.work.current = None;
        }
    }

    fn plan(&mut self, look: &PlanLook) {
        let PlanLook::There { counts, next } = look else { return };
        self.work.kind = WorkKind::Plan(*counts);
        let row = |item: &String| WorkRow {
            mark: Mark::TaskPending,
            paint: Paint::None,
            text: named(item),
        };
        self.items = next.iter().map(row).collect();
        self.list_iterations();
    }

    fn check(&mut self, result: &GateResult) {
        let took = result.end.as_ref().map(|end| end.ran);
        let state = match result.status {
            GateStatus::Passed | GateStatus::Cached => GateState::Passed { took },
            GateStatus::Failed => GateState::Failed { severity: result.severity, took },
        };
        let name = named(&result.gate);
        match self.gates.iter_mut().find(|row| row.name == name) {
            Some(row) => row.state = state,
            None => self.gates.push(GateRow { name, state }),
        }
    }
}

fn gates_of(recipe: &Recipe) -> Vec<GateRow> {
    let is_run = |gate: &&ralph_core::gate::Gate| recipe.strategy.severity(gate).is_some();
    let row = |gate: &ralph_core::gate::Gate| GateRow {
        name: named(&gate.name),
        state: GateState::Pending,
    };
    recipe.gates.iter().filter(is_run).map(row).collect()
}

fn named(text: &str) -> String {
    safe::one_line(text, LONGEST, "…")
}
