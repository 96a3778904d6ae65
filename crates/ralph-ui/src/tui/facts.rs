//! What the screen shows of a run beside its lines: the work, the gates, the budget.
//!
//! Made of events and the state that follows from them, on the run's own thread, and small enough to
//! be handed to the screen with every event. Not here: drawing.

use std::sync::Arc;

use ralph_core::checklist::{self, Checklist, Counts};
use ralph_core::control::Pause;
use ralph_core::event::{Event, Recorded, WaitReason};
use ralph_core::gate::{GateResult, GateStatus, Severity};
use ralph_core::ids::{Role, TaskId};
use ralph_core::judge::Verdict;
use ralph_core::plan::PlanLook;
use ralph_core::ports::Activity;
use ralph_core::reading::{AgentEvent, Usage, UsageScope};
use ralph_core::recipe::Recipe;
use ralph_core::review::{ReviewResult, ReviewStatus};
use ralph_core::run::RunState;
use ralph_core::settle;
use ralph_core::task::{Progress, Task, TaskStatus};
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
    /// The event that last said how far the plan is; 0 where there is none.
    plan_seen: u64,
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
    /// Tasks, or iterations where there is no task list.
    pub(crate) rows: Arc<Vec<WorkRow>>,
    /// Items of the plan, where there is one: below the iterations.
    pub(crate) items: Arc<Vec<WorkRow>>,
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
    /// Iterations, and the items of a plan.
    Plan(Counts),
    /// Tasks.
    Tasks(Progress),
}

/// One row of the list on the left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkRow {
    pub(crate) mark: Mark,
    pub(crate) paint: Paint,
    /// Shared, because lists are long and change in a few rows.
    pub(crate) text: Arc<str>,
    /// What of a task it was made from.
    made_from: Option<(TaskStatus, ReviewStatus, u32)>,
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
                self.list(state, Rows::All);
            }
            Event::TasksRead { .. } => self.list(state, Rows::All),
            Event::Claimed { .. } | Event::TaskSkipped { .. } | Event::RunEnded { .. } => {
                self.list(state, Rows::Changed);
            }
            Event::IterationStarted { .. } => {
                self.gates = gates_of(&state.recipe);
                self.list(state, Rows::Changed);
                self.open_iteration(state);
            }
            Event::BaselineStarted { .. } => self.gates = gates_of(&state.recipe),
            Event::GateChecked { result } | Event::BaselineChecked { result } => self.check(result),
            Event::Replied { .. } => self.talking = Usage::default(),
            Event::PlanSeen { look } => self.plan(look, recorded.seq),
            Event::Judged { judgement } => self.judge(&judgement.verdict),
            Event::IterationEnded { .. } => {
                self.close_iteration(state);
                self.list(state, Rows::Changed);
            }
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

    /// Returns whether what is shown of the plan is what this event said.
    pub(crate) fn saw_plan(&self, seq: Option<u64>) -> bool {
        seq == Some(self.plan_seen)
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
        self.list(state, Rows::All);
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
            Event::RunEnded { outcome, .. } => Standing::Ended { how: named(&outcome.to_string()) },
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
    ///
    /// This happens on the run's own thread and several times an iteration, so of a long list only
    /// what changed is made.
    fn list(&mut self, state: &RunState, which: Rows) {
        let Some(board) = &state.board else { return };
        let tasks = &board.list.tasks;
        let made_from = |task: &Task| {
            let failed = board.logs.get(&task.id).map_or(0, |log| log.failed);
            (task.status, task.review.status, failed)
        };
        let row = |task: &Task| {
            let (mark, _, paint) = tasks::state(task.status, task.review.status);
            let made_from = made_from(task);
            let attempts = match (made_from.2, state.recipe.task_work()) {
                (failed @ 1.., Some(work)) => {
                    let limit = settle::limit(work, &board.list, &task.id);
                    format!(" ({failed}/{limit} failed)")
                }
                (_, _) => String::new(),
            };
            let title = safe::one_line(&task.title, LONGEST, "");
            let text = format!("{}{attempts} {title}", tasks::name(&task.id)).into();
            WorkRow { mark, paint, text, made_from: Some(made_from) }
        };
        if which == Rows::All || self.work.rows.len() != tasks.len() {
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
        self.work.kind = WorkKind::Tasks(board.progress());
    }

    /// Adds a row for an iteration, where there is no task list.
    fn open_iteration(&mut self, state: &RunState) {
        let (None, Some(current)) = (&state.board, &state.current) else { return };
        let text = format!("{} {}", current.number, current.role).into();
        let rows = Arc::make_mut(&mut self.work.rows);
        if rows.len() >= MOST_ITERATIONS {
            rows.remove(0);
        }
        rows.push(WorkRow { mark: Mark::TaskActive, paint: Paint::Act, text, made_from: None });
        self.work.current = Some(rows.len() - 1);
    }

    fn judge(&mut self, verdict: &Verdict) {
        let (WorkKind::Iterations | WorkKind::Plan(_)) = self.work.kind else { return };
        let (mark, paint, words) = match verdict {
            Verdict::Complete => (Mark::TaskDone, Paint::Good, "complete"),
            Verdict::Passed { .. } => (Mark::TaskDone, Paint::Good, "passed"),
            Verdict::Reviewed { verdict, feedback } => {
                let result = ReviewResult::new(*verdict, feedback);
                (Mark::TaskDone, Paint::Act, result.name())
            }
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
        let Some(at) = self.work.current else { return };
        if let Some(row) = Arc::make_mut(&mut self.work.rows).get_mut(at) {
            (row.mark, row.paint) = (mark, paint);
            row.text = format!("{} {words}", row.text).into();
        }
    }

    fn close_iteration(&mut self, state: &RunState) {
        if state.board.is_none() {
            self.work.current = None;
        }
    }

    fn plan(&mut self, look: &PlanLook, seq: u64) {
        let PlanLook::There { counts, next } = look else { return };
        self.work.kind = WorkKind::Plan(*counts);
        self.plan_seen = seq;
        let row = |item: &String| item_row(checklist::Mark::Open, item);
        self.work.items = Arc::new(next.iter().map(row).collect());
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

/// Which rows of a list are made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    All,
    /// Those of tasks that stand otherwise than before.
    Changed,
}

/// Reads the plan as it was when the run looked at it last.
pub type ReadPlan = Box<dyn FnMut() -> Option<Checklist> + std::marker::Send>;

/// All items of the plan, of which the journal names the first that are open. Read where the screen
/// is drawn, and only after the run has looked at the plan.
#[derive(Debug, Default)]
pub(crate) struct WholePlan {
    seen: u64,
    rows: Option<Arc<Vec<WorkRow>>>,
}

impl WholePlan {
    /// Puts all items in the place of the first. What is open comes first.
    pub(crate) fn complete(&mut self, facts: &mut Facts, read: impl FnOnce() -> Option<Checklist>) {
        if facts.plan_seen == 0 {
            return;
        }
        if facts.plan_seen != self.seen {
            self.seen = facts.plan_seen;
            self.rows = read().map(|list| {
                let (open, done): (Vec<_>, Vec<_>) =
                    list.items.iter().partition(|item| item.mark == checklist::Mark::Open);
                let rows = open.into_iter().chain(done);
                Arc::new(rows.map(|item| item_row(item.mark, &item.text)).collect())
            });
        }
        if let Some(rows) = &self.rows {
            facts.work.items = Arc::clone(rows);
        }
    }
}

impl WorkRows {
    /// Returns how many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.items.len()
    }

    /// Returns the rows from one on.
    pub(crate) fn from(&self, first: usize) -> impl Iterator<Item = (usize, &WorkRow)> {
        let items = first.saturating_sub(self.rows.len()).min(self.items.len());
        let rows = self.rows.get(first..).unwrap_or_default();
        (first..).zip(rows.iter().chain(&self.items[items..]))
    }
}

fn item_row(mark: checklist::Mark, words: &str) -> WorkRow {
    let (mark, paint) = match mark {
        checklist::Mark::Open => (Mark::TaskPending, Paint::None),
        checklist::Mark::Done => (Mark::TaskDone, Paint::Good),
    };
    WorkRow { mark, paint, text: named(words).into(), made_from: None }
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
