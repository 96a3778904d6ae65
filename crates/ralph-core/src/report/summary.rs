//! What the account of a run comes to, ready for people and programs.
//!
//! Fields are added, never renamed. Not here: counting, and the words of a page.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{GateCount, Latest, Report, Spent, WaitCount};
use crate::board::Board;
use crate::checklist::Counts;
use crate::control::Wish;
use crate::gate::{GateStatus, Severity};
use crate::given_up::GivenUp;
use crate::ids::{IterationNumber, Role, RunId, TaskId};
use crate::outcome::{Outcome, Waits};
use crate::planted::Planted;
use crate::review::ReviewStatus;
use crate::review::convergence::Divergence;
use crate::run::RunState;
use crate::sandbox::{Backend, Wanted};
use crate::settle::{self, BLOCKED};
use crate::task::{Progress, Task, TaskList, TaskStatus};
use crate::units::{Millis, Timestamp};

/// The version of the summary's form.
const VERSION: u32 = 1;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The version of this form.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// When it began, in milliseconds since the Unix epoch.
    pub started: Timestamp,
    /// When the last event was recorded.
    pub last: Timestamp,
    /// How often it was resumed.
    pub resumed: u32,
    /// How it ended; none while it runs, and after a crash.
    pub outcome: Option<Outcome>,
    /// The same in words.
    pub ending: Option<String>,
    /// How many tasks are how far; none where the work is no task list.
    pub progress: Option<Progress>,
    /// What a person has to answer.
    pub questions: Vec<Question>,
    /// Tasks that failed.
    pub failed: Vec<FailedTask>,
    /// Tasks that wait for those, or for ones that were left out.
    pub waiting: Vec<Waits>,
    /// Tasks that were approved only because no further review was allowed.
    pub auto_approved: Vec<AutoApproved>,
    /// Tasks whose reviews did not get anywhere.
    pub diverging: Vec<Diverging>,
    /// What the numbers of reviews say, where there were reviews.
    pub reviews: Option<Reviews>,
    /// Every task, in the order of the list.
    pub tasks: Vec<TaskSummary>,
    /// The iteration that is open, if one is.
    pub current: Option<OpenIteration>,
    /// What each role took.
    pub roles: Vec<RoleSummary>,
    /// What everything took.
    pub total: Spent,
    /// How many iterations were allowed.
    pub maximum_iterations: u32,
    /// What isolates agents and gates, where that is settled.
    pub sandbox: Option<Backend>,
    /// The gates.
    pub gates: Vec<GateSummary>,
    /// Calls that were repeated because of a failure.
    pub retries: u32,
    /// Waits.
    pub waits: WaitCount,
    /// Processes that had to be ended after their parent was gone.
    pub leftovers: u32,
    /// Changes to the list that agents proposed.
    pub amendments: Latest<AmendmentNote>,
    /// How many of them were refused.
    pub amendments_refused: u32,
    /// How many of them were kept as proposals for the user.
    pub amendments_proposed: u32,
    /// How far the plan was when it was last seen, where an agent keeps one.
    pub plan: Option<Counts>,
    /// What was found of edits by hand.
    pub edits: Latest<String>,
    /// Commits of ralph's.
    pub commits: Latest<CommitNote>,
    /// How many commits agents made whose work it is to commit.
    pub agent_commits: u32,
    /// Branches with the work of tasks that failed.
    pub shelved: Latest<ShelvedNote>,
    /// What people asked of the run.
    pub wishes: Latest<WishNote>,
    /// Refs with what was removed from the work tree.
    pub kept: Latest<String>,
    /// Warnings.
    pub warnings: Latest<String>,
    /// Connections that the sandbox refused; they are among the warnings as well.
    pub refused: Latest<String>,
    /// What was changed that acts by itself later on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planted: Vec<Planted>,
}

/// What a person has to answer before a task can go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The task.
    pub task: TaskId,
    /// Its title.
    pub title: String,
    /// What it needs, and why.
    pub needs: String,
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedTask {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Why it was given up.
    pub reason: String,
    /// How many attempts failed.
    pub attempts: u32,
    /// How many it had.
    pub attempts_allowed: u32,
    /// What the last one failed at; none if that was before this run.
    pub last_gate: Option<String>,
    /// The line that says most of its output.
    pub error: Option<String>,
    /// The checks that failed, where the output names them.
    pub failing: Vec<String>,
    /// Whether it was stuck; none if it failed before this run.
    pub stuck: Option<Stuck>,
    /// The branch with its work.
    pub branch: Option<String>,
    /// The branch that the run was on.
    pub onto: Option<String>,
    /// Failures of soft gates in this run.
    pub quality_warnings: u32,
}

/// Whether the last failures of a task were the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// Whether they were, often enough.
    pub is_stuck: bool,
    /// How often in a row the same failure came.
    pub alike: u32,
    /// How often another strategy was demanded.
    pub strategy_shifts: u32,
}

/// A task that was approved only because no further review was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoApproved {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// How many reviews there were.
    pub reviews: u32,
    /// What the last one still wanted, behind the mark.
    pub feedback: String,
}

/// A task whose reviews did not get anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diverging {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// How many reviews there were.
    pub reviews: u32,
    /// How they do not get anywhere.
    pub divergence: Divergence,
}

/// What the reviews of a run come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reviews {
    /// How many tasks had how many reviews.
    pub tasks_by_count: BTreeMap<u32, u32>,
    /// How many tasks were approved at the cap.
    pub at_cap: u32,
    /// What that says.
    pub reading: ReviewReading,
}

/// What the numbers of reviews say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewReading {
    /// Most tasks passed their first review.
    Cheap,
    /// Many tasks took three reviews or more.
    CatchFaults,
    /// Neither.
    Mixed,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSummary {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// How far it is.
    pub status: TaskStatus,
    /// Where its review stands.
    pub review: ReviewStatus,
    /// How many reviews it had.
    pub reviews: u32,
    /// How many attempts failed.
    pub failed_attempts: u32,
    /// How many it has.
    pub attempts_allowed: u32,
    /// What it took in this run.
    pub spent: Spent,
    /// Commits in this run.
    pub commits: u32,
    /// Failures of soft gates in this run, by gate.
    pub quality_warnings: BTreeMap<String, u32>,
}

/// The iteration that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenIteration {
    /// Its number.
    pub iteration: IterationNumber,
    /// What it is for.
    pub role: Role,
    /// The task it works on.
    pub task: Option<TaskId>,
    /// Which attempt at the task it is, for work on one.
    pub attempt: Option<u32>,
    /// How many attempts the task has.
    pub attempts_allowed: Option<u32>,
    /// How many calls were made in it.
    pub asks: u32,
}

/// What a role took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleSummary {
    /// The role.
    pub role: Role,
    /// What it took.
    pub spent: Spent,
}

/// What came of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateSummary {
    /// Its name.
    pub name: String,
    /// How severe a failure is.
    pub severity: Severity,
    /// How often it was run on work.
    pub runs: u32,
    /// How often it passed.
    pub passed: u32,
    /// How often it failed.
    pub failed: u32,
    /// How often it was not run, because it had passed on the same tree.
    pub cached: u32,
    /// How long the runs took.
    #[serde(rename = "ranMs")]
    pub ran: Millis,
    /// Whether it was red before any work; none if nobody looked.
    pub broken_before: Option<bool>,
    /// How often work broke it that was green before; none if nobody looked.
    pub regressions: Option<u32>,
    /// What it said in the last iteration, if it was asked there.
    pub last: Option<GateStatus>,
}

/// A change to the list that an agent proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AmendmentNote {
    /// The iteration.
    pub iteration: IterationNumber,
    /// What was proposed.
    pub proposal: String,
    /// Why.
    pub reason: String,
    /// Why it was refused; none if it was applied or proposed.
    pub refusal: Option<String>,
    /// The id of the proposal that it was kept as; none if it was applied or refused.
    pub proposed: Option<String>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitNote {
    /// Its id.
    pub id: String,
    /// Its subject line.
    pub subject: String,
    /// The task it belongs to.
    pub task: Option<TaskId>,
}

/// A branch with the work of a task that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShelvedNote {
    /// The task.
    pub task: Option<TaskId>,
    /// The branch.
    pub branch: String,
    /// Its commit.
    pub commit: String,
}

/// Something that a person asked of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WishNote {
    /// When.
    pub at: Timestamp,
    /// Who, where that is known.
    pub by: Option<String>,
    /// What.
    pub wish: Wish,
    /// Why nothing came of it, if nothing did.
    pub refused: Option<String>,
}

impl Report {
    /// Returns what the run came to so far; nothing before its first event.
    pub fn summary(&self) -> Option<Summary> {
        let state = self.state()?;
        let board = state.board.as_ref();
        let tasks = board.map(|board| self.tasks(state, board)).unwrap_or_default();
        Some(Summary {
            version: VERSION,
            run: state.run.clone(),
            started: state.started,
            last: self.last,
            resumed: self.resumed,
            outcome: state.outcome.clone(),
            ending: state.outcome.as_ref().map(ToString::to_string),
            progress: board.map(Board::progress),
            questions: board.map(questions).unwrap_or_default(),
            failed: board.map(|board| failed(board, &tasks)).unwrap_or_default(),
            waiting: match &state.outcome {
                Some(Outcome::TasksLeft { waiting, .. }) => waiting.clone(),
                Some(_) | None => Vec::new(),
            },
            auto_approved: board.map(|board| AutoApproved::of(&board.list)).unwrap_or_default(),
            diverging: board.map(diverging).unwrap_or_default(),
            reviews: board.and_then(|board| Reviews::of(&board.list)),
            tasks,
            current: open_iteration(state),
            roles: self
                .roles
                .values()
                .map(|(role, spent)| RoleSummary { role: *role, spent: *spent })
                .collect(),
            total: total(state),
            maximum_iterations: state.last_iteration(),
            sandbox: match state.recipe.sandbox.backend {
                Wanted::This(backend) => Some(backend),
                Wanted::Auto => None,
            },
            gates: self.gates.iter().map(|(name, count)| self.gate(name, count)).collect(),
            retries: state.totals.retries,
            waits: WaitCount { waited: state.totals.waited, ..self.waits },
            leftovers: state.totals.leftovers,
            amendments: self.amendments.clone(),
            amendments_refused: self.amendments_refused,
            amendments_proposed: self.amendments_proposed,
            plan: self.plan,
            edits: self.edits.clone(),
            agent_commits: state.totals.commits.saturating_sub(self.commits.count),
            commits: self.commits.clone(),
            shelved: self.shelved.clone(),
            wishes: self.wishes.clone(),
            kept: self.kept.clone(),
            warnings: self.warnings.clone(),
            refused: self.refused.clone(),
            planted: state.planted.iter().cloned().collect(),
        })
    }

    fn tasks(&self, state: &RunState, board: &Board) -> Vec<TaskSummary> {
        let allowed = |task: &Task| {
            state.recipe.task_work().map_or(1, |work| settle::limit(work, &board.list, &task.id))
        };
        let summary = |task: &Task| {
            let count = self.tasks.get(&task.id).cloned().unwrap_or_default();
            TaskSummary {
                id: task.id.clone(),
                title: task.title.clone(),
                status: task.status,
                review: task.review.status,
                reviews: task.review.count,
                failed_attempts: task.attempts.max(board.log(&task.id).failed),
                attempts_allowed: allowed(task),
                spent: count.spent,
                commits: count.commits,
                quality_warnings: count.quality,
            }
        };
        board.list.tasks.iter().map(summary).collect()
    }

    fn gate(&self, name: &str, count: &GateCount) -> GateSummary {
        let failed = count.runs - count.passed;
        let broken_before = count.before.map(|status| status == GateStatus::Failed);
        let last = self.last_gates.iter().rfind(|result| result.gate == name);
        GateSummary {
            name: name.to_owned(),
            severity: count.severity,
            runs: count.runs,
            passed: count.passed,
            failed,
            cached: count.cached,
            ran: count.ran,
            broken_before,
            regressions: broken_before.map(|was_broken| if was_broken { 0 } else { failed }),
            last: last.map(|result| result.status),
        }
    }
}

/// Returns what a person has to answer, also what an earlier run left open.
pub fn questions(board: &Board) -> Vec<Question> {
    let question = |task: &Task| {
        let given_up = board.given_up.get(&task.id);
        let noted = || task.notes.strip_prefix(BLOCKED).map(str::to_owned);
        let needs = given_up.map_or_else(noted, GivenUp::question)?;
        Some(Question { task: task.id.clone(), title: task.title.clone(), needs })
    };
    let tasks = board.list.tasks.iter();
    tasks.filter(|task| task.status == TaskStatus::Failed).filter_map(question).collect()
}

fn failed(board: &Board, tasks: &[TaskSummary]) -> Vec<FailedTask> {
    let of_task = |(task, summary): (&Task, &TaskSummary)| {
        let given_up = board.given_up.get(&task.id);
        FailedTask {
            id: task.id.clone(),
            title: task.title.clone(),
            reason: given_up.map_or_else(|| task.notes.clone(), |given_up| given_up.why.words()),
            attempts: given_up.map_or(task.attempts, |given_up| given_up.attempts),
            attempts_allowed: given_up.map_or(summary.attempts_allowed, |it| it.limit),
            last_gate: given_up.map(|given_up| given_up.gate.clone()),
            error: given_up.and_then(|given_up| given_up.error.clone()),
            failing: given_up.map(|given_up| given_up.failing.clone()).unwrap_or_default(),
            stuck: given_up.map(|given_up| Stuck {
                is_stuck: given_up.is_stuck(),
                alike: given_up.alike,
                strategy_shifts: given_up.shifts,
            }),
            branch: given_up.and_then(|given_up| given_up.branch.clone()),
            onto: given_up.and_then(|given_up| given_up.onto.clone()),
            quality_warnings: summary.quality_warnings.values().sum(),
        }
    };
    let pairs = board.list.tasks.iter().zip(tasks);
    pairs.filter(|(task, _)| task.status == TaskStatus::Failed).map(of_task).collect()
}

impl AutoApproved {
    /// Returns those of a list.
    pub fn of(list: &TaskList) -> Vec<Self> {
        let approved = list.tasks.iter().filter(|task| task.review.is_approved_at_cap());
        approved
            .map(|task| Self {
                id: task.id.clone(),
                title: task.title.clone(),
                reviews: task.review.count,
                feedback: task.review.feedback.clone(),
            })
            .collect()
    }
}

fn diverging(board: &Board) -> Vec<Diverging> {
    let tasks = board.list.tasks.iter();
    tasks
        .filter_map(|task| {
            Some(Diverging {
                id: task.id.clone(),
                title: task.title.clone(),
                reviews: task.review.count,
                divergence: board.diverging.get(&task.id)?.clone(),
            })
        })
        .collect()
}

impl Reviews {
    /// Returns what the reviews of a list come to, if there were any.
    pub fn of(list: &TaskList) -> Option<Self> {
        let mut tasks_by_count: BTreeMap<u32, u32> = BTreeMap::new();
        for task in list.tasks.iter().filter(|task| task.review.count > 0) {
            *tasks_by_count.entry(task.review.count).or_default() += 1;
        }
        let reviewed: u32 = tasks_by_count.values().sum();
        if reviewed == 0 {
            return None;
        }
        let at_cap = list.tasks.iter().filter(|task| task.review.is_approved_at_cap()).count();
        let once = tasks_by_count.get(&1).copied().unwrap_or_default();
        let often: u32 = tasks_by_count.range(3..).map(|(_, tasks)| tasks).sum();
        // A third of the tasks is many, and more than half of them is most.
        let reading = if once * 2 > reviewed {
            ReviewReading::Cheap
        } else if often * 3 >= reviewed {
            ReviewReading::CatchFaults
        } else {
            ReviewReading::Mixed
        };
        Some(Self { tasks_by_count, at_cap: u32::try_from(at_cap).unwrap_or(u32::MAX), reading })
    }
}

fn open_iteration(state: &RunState) -> Option<OpenIteration> {
    let current = state.current.as_ref()?;
    let at_work = match current.role {
        Role::Implement | Role::Fix => current.task.as_ref().zip(state.board.as_ref()),
        Role::Prompt | Role::Plan | Role::Build | Role::Review | Role::Compact | Role::Message => {
            None
        }
    };
    Some(OpenIteration {
        iteration: current.number,
        role: current.role,
        task: current.task.clone(),
        attempt: at_work.map(|(task, board)| board.log(task).failed + 1),
        attempts_allowed: at_work
            .zip(state.recipe.task_work())
            .map(|((task, board), work)| settle::limit(work, &board.list, task)),
        asks: current.asks,
    })
}

fn total(state: &RunState) -> Spent {
    let mut total = Spent {
        iterations: state.iterations,
        asks: state.totals.asks,
        ran: state.ran,
        ..Spent::default()
    };
    total.add(state.totals.usage);
    total
}
