//! The summary of a run's report, ready for people and programs.
//!
//! Fields are added, never renamed. Not here: counting, and the layout of a page.

use std::collections::BTreeMap;

use ralph_model::abandoned_task::AbandonedTask;
use ralph_model::attempt::BLOCKED_PREFIX;
use ralph_model::control::ControlRequest;
use ralph_model::gate::{GateStatus, Severity, TestNumbers};
use ralph_model::handoff::LeftOpen;
use ralph_model::ids::{IterationNumber, Role, RunId, TaskId};
use ralph_model::outcome::{Outcome, TaskWait};
use ralph_model::plan::Counts;
use ralph_model::recipe::{PromptSource, Recipe, TemplatePlace, Work};
use ralph_model::review::{Divergence, ReviewStatus};
use ralph_model::run::RunState;
use ralph_model::sandbox::{Backend, RequestedBackend};
use ralph_model::task::{Progress, Task, TaskList, TaskStatus};
use ralph_model::task_state::TaskState;
use ralph_model::text;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worktree::AutorunChange;
use serde::Serialize;

use super::{GateCount, LatestItems, ParallelFigures, Report, ResourceUse, ReviewStats, WaitCount};
use crate::reporting::parallel_status::ParallelStatus;

/// The version of the summary's format.
const SUMMARY_VERSION: u32 = 1;

/// The summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub version: u32,
    pub run: RunId,
    /// When it began, in milliseconds since the Unix epoch.
    pub started: Timestamp,
    /// When the last event was recorded.
    pub last: Timestamp,
    pub resumed: u32,
    /// The first line of the user's own prompt, or the file of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How it ended; `None` while it runs, and after a crash.
    pub outcome: Option<Outcome>,
    pub ending: Option<String>,
    /// Task counts by status; `None` if the work is not a task list.
    pub progress: Option<Progress>,
    /// Questions that the user has to answer.
    pub questions: Vec<UserQuestion>,
    pub failed: Vec<FailedTask>,
    /// Tasks that wait for failed or skipped ones.
    pub waiting: Vec<TaskWait>,
    /// Tasks that were approved only because no further review was allowed.
    pub auto_approved: Vec<AutoApprovedTask>,
    /// Tasks whose reviews made no progress.
    pub diverging: Vec<DivergingTask>,
    /// What the handoffs of landed work leave open, by task.
    pub left_open: Vec<TaskRemainder>,
    /// Review statistics, if there were reviews.
    pub reviews: Option<ReviewStats>,
    /// What reviews wanted fixed in this run.
    pub requested_changes: LatestItems<RequestedChange>,
    /// Every task, in the order of the list.
    pub tasks: Vec<TaskSummary>,
    /// The open iteration, if there is one.
    pub current: Option<CurrentIteration>,
    pub roles: Vec<RoleSummary>,
    pub total: ResourceUse,
    pub maximum_iterations: u32,
    /// What isolates agents and gates, once it is decided.
    pub sandbox: Option<Backend>,
    pub gates: Vec<GateSummary>,
    /// Calls that were repeated because of a failure.
    pub retries: u32,
    /// Follow-up questions about answers in the wrong form.
    pub follow_ups: u32,
    pub waits: WaitCount,
    /// Processes that had to be ended after their parent was gone.
    pub leftovers: u32,
    /// Changes to the list that agents proposed.
    pub amendments: LatestItems<AmendmentNote>,
    /// How many of them were refused.
    pub amendments_refused: u32,
    /// How many of them were kept as proposals for the user.
    pub amendments_proposed: u32,
    /// How far the plan was when ralph last read it, if an agent maintains one.
    pub plan: Option<Counts>,
    /// Edits by hand that ralph found.
    pub edits: LatestItems<String>,
    pub commits: LatestItems<CommitNote>,
    /// Files that the work of the run changed and that was not discarded, as far as observed.
    pub changed_files: Vec<String>,
    /// Whether the run ended during an agent call that had changed files.
    pub has_unobserved_changes: bool,
    /// Whether the run is complete and no file was changed.
    pub is_complete_without_changes: bool,
    /// Commits by agents that commit their own work.
    pub agent_commits: u32,
    /// Branches with the work of failed tasks.
    #[serde(rename = "shelved")]
    pub failure_branches: LatestItems<FailureBranchNote>,
    /// Control requests that the run received.
    #[serde(rename = "wishes")]
    pub control_requests: LatestItems<ControlRequestNote>,
    /// Notes that no agent read and that resuming the run does not deliver.
    pub unread_notes: Vec<String>,
    /// Refs with work that was removed from the work tree.
    pub kept: LatestItems<String>,
    pub warnings: LatestItems<String>,
    /// Connections that the sandbox refused; they are among the warnings as well.
    pub refused: LatestItems<String>,
    /// Changes to autorun files.
    #[serde(rename = "planted", skip_serializing_if = "Vec::is_empty")]
    pub autorun_changes: Vec<AutorunChange>,
    /// Workers and merge queue of a run that works on several tasks at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<ParallelStatus>,
    /// What its workers did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_figures: Option<ParallelFigures>,
}

/// A question that the user has to answer before a task can continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserQuestion {
    pub task: TaskId,
    pub title: String,
    pub needs: String,
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedTask {
    pub id: TaskId,
    pub title: String,
    pub reason: String,
    pub attempts: u32,
    pub attempts_allowed: u32,
    /// What the last attempt failed at; `None` if that was before this run.
    pub last_gate: Option<String>,
    /// The most telling line of its output.
    pub error: Option<String>,
    /// The failed checks, if the output names them.
    pub failing: Vec<String>,
    /// Whether it was stuck; `None` if it failed before this run.
    pub stuck: Option<StuckSummary>,
    pub branch: Option<String>,
    /// The branch that the run was on.
    pub onto: Option<String>,
    /// Failures of soft gates in this run.
    pub quality_warnings: u32,
}

/// Whether the last failures of a task were the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckSummary {
    pub is_stuck: bool,
    /// How often in a row the same failure occurred.
    pub alike: u32,
    /// How often another strategy was requested.
    pub strategy_shifts: u32,
}

/// A task that was approved only because no further review was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoApprovedTask {
    pub id: TaskId,
    pub title: String,
    pub reviews: u32,
    /// What the last review still wanted, after the prefix.
    pub feedback: String,
}

/// A review that asked for changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestedChange {
    pub id: TaskId,
    pub title: String,
    /// The number of the review.
    pub review: u32,
    pub feedback: String,
}

/// What the landed work on a task leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRemainder {
    pub id: TaskId,
    pub title: String,
    pub left: LeftOpen,
}

/// A task whose reviews made no progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DivergingTask {
    pub id: TaskId,
    pub title: String,
    pub reviews: u32,
    /// Why they made no progress.
    pub divergence: Divergence,
}

/// The figures of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSummary {
    pub id: TaskId,
    pub title: String,
    pub status: TaskStatus,
    pub review: ReviewStatus,
    pub reviews: u32,
    pub failed_attempts: u32,
    pub attempts_allowed: u32,
    /// Resources used in this run.
    pub spent: ResourceUse,
    pub commits: u32,
    /// Failures of soft gates in this run, by gate.
    pub quality_warnings: BTreeMap<String, u32>,
    /// What these gates objected to last.
    pub quality_objections: BTreeMap<String, String>,
}

/// The open iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentIteration {
    pub iteration: IterationNumber,
    pub role: Role,
    pub task: Option<TaskId>,
    /// The number of the attempt, for work on a task.
    pub attempt: Option<u32>,
    /// How many attempts the task has.
    pub attempts_allowed: Option<u32>,
    /// How many calls were made in it.
    pub asks: u32,
}

/// Resources that a role used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleSummary {
    pub role: Role,
    pub spent: ResourceUse,
}

/// The figures of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateSummary {
    pub name: String,
    pub severity: Severity,
    /// How often it was run on work.
    pub runs: u32,
    pub passed: u32,
    pub failed: u32,
    /// How often it was skipped because it had passed on the same tree.
    pub cached: u32,
    #[serde(rename = "ranMs")]
    pub ran: Millis,
    /// Whether it failed before any work; `None` if it was not run then.
    pub broken_before: Option<bool>,
    /// How often work broke it that had passed before; `None` if it was not run then.
    pub regressions: Option<u32>,
    /// Its result in the last iteration, if it was run there.
    pub last: Option<GateStatus>,
    /// How many tests it ran first, where it is known.
    pub tests_before: Option<u64>,
    /// How many tests it ran when it last passed.
    pub tests: Option<u64>,
}

impl GateSummary {
    /// Returns how many tests it ran first and last, as text, if these are fewer.
    pub fn describe_test_fall(&self) -> Option<String> {
        let (before, now) = self.tests_before.zip(self.tests)?;
        TestNumbers { before, now }.describe_fall()
    }
}

/// A change to the list that an agent proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AmendmentNote {
    pub iteration: IterationNumber,
    pub proposal: String,
    pub reason: String,
    /// Why it was refused; `None` if it was applied or proposed.
    pub refusal: Option<String>,
    /// The id of the proposal that it was saved as; `None` if it was applied or refused.
    pub proposed: Option<String>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitNote {
    pub id: String,
    pub subject: String,
    pub task: Option<TaskId>,
}

/// A failure branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureBranchNote {
    pub task: Option<TaskId>,
    pub branch: String,
    pub commit: String,
}

/// A control request that the run received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlRequestNote {
    pub at: Timestamp,
    /// The user, if known.
    pub by: Option<String>,
    #[serde(rename = "wish")]
    pub request: ControlRequest,
    /// Why it had no effect, if so.
    pub refused: Option<String>,
}

/// Characters of a prompt's first line that are kept.
const PROMPT_CHARS: usize = 200;

fn describe_prompt(recipe: &Recipe) -> Option<String> {
    match &recipe.work {
        Work::Prompt(PromptSource::Text(text)) => {
            let first = text.lines().find(|line| !line.trim().is_empty())?;
            Some(text::shorten_to_line(first.trim(), PROMPT_CHARS))
        }
        Work::Prompt(PromptSource::File(file)) => Some(file.display().to_string()),
        Work::Prompt(PromptSource::Template(template)) => match &template.place {
            TemplatePlace::File(file) => Some(file.display().to_string()),
            TemplatePlace::Named(_) => None,
        },
        Work::Tasks(_) => None,
    }
}

impl Report {
    /// Returns the summary of the run so far; `None` before its first event.
    pub fn summary(&self) -> Option<Summary> {
        let state = self.state()?;
        let task_state = state.tasks.as_ref();
        let tasks = task_state
            .map(|task_state| self.summarize_tasks(state, task_state))
            .unwrap_or_default();
        Some(Summary {
            version: SUMMARY_VERSION,
            run: state.run.clone(),
            started: state.started,
            last: self.last,
            resumed: self.resumed,
            prompt: describe_prompt(&state.recipe),
            outcome: state.outcome.clone(),
            ending: state.outcome.as_ref().map(ToString::to_string),
            progress: task_state.map(TaskState::progress),
            questions: task_state.map(find_questions).unwrap_or_default(),
            failed: task_state
                .map(|task_state| list_failed_tasks(task_state, &tasks))
                .unwrap_or_default(),
            waiting: match &state.outcome {
                Some(Outcome::TasksLeft { waiting, .. }) => waiting.clone(),
                Some(_) | None => Vec::new(),
            },
            auto_approved: task_state
                .map(|task_state| AutoApprovedTask::from_list(&task_state.list))
                .unwrap_or_default(),
            diverging: task_state.map(list_diverging_tasks).unwrap_or_default(),
            left_open: task_state.map(list_left_open).unwrap_or_default(),
            reviews: task_state.and_then(|task_state| ReviewStats::from_list(&task_state.list)),
            requested_changes: self.requested_changes.clone(),
            tasks,
            current: describe_current(state),
            roles: self
                .roles
                .values()
                .map(|(role, spent)| RoleSummary { role: *role, spent: *spent })
                .collect(),
            total: self.sum_resources(state),
            maximum_iterations: state.last_iteration(),
            sandbox: match state.recipe.sandbox.backend {
                RequestedBackend::This(backend) => Some(backend),
                RequestedBackend::Auto => None,
            },
            gates: self.summarize_gates(state),
            retries: state.totals.retries,
            follow_ups: state.totals.follow_ups,
            waits: WaitCount {
                waited: state.totals.waited,
                retry_waited: state.totals.retry_waited,
                ..self.waits
            },
            leftovers: state.totals.leftovers,
            amendments: self.amendments.clone(),
            amendments_refused: self.amendments_refused,
            amendments_proposed: self.amendments_proposed,
            plan: self.plan,
            edits: self.edits.clone(),
            agent_commits: state.totals.commits.saturating_sub(self.commits.count),
            commits: self.commits.clone(),
            changed_files: state.collect_changed_files().unwrap_or_default().into_iter().collect(),
            has_unobserved_changes: state.has_unobserved_changes(),
            is_complete_without_changes: state.is_complete_without_changes(),
            failure_branches: self.failure_branches.clone(),
            control_requests: self.control_requests.clone(),
            unread_notes: state.unread_notes().iter().map(|note| note.text.clone()).collect(),
            kept: self.kept.clone(),
            warnings: self.warnings.clone(),
            refused: self.refused.clone(),
            autorun_changes: state.autorun_changes.iter().cloned().collect(),
            parallel: ParallelStatus::from_state(state),
            parallel_figures: self.workers.summarize(state, self.merge_time()),
        })
    }

    fn merge_time(&self) -> Millis {
        self.roles.get(Role::Merge.name()).map_or(Millis::ZERO, |(_, spent)| spent.ran)
    }

    fn summarize_tasks(&self, state: &RunState, task_state: &TaskState) -> Vec<TaskSummary> {
        let allowed = |task: &Task| {
            state
                .recipe
                .task_work()
                .map_or(1, |work| work.attempt_limit(&task_state.list, &task.id))
        };
        let summary = |task: &Task| {
            let mut count = self.tasks.get(&task.id).cloned().unwrap_or_default();
            count.spent.add_figures(&self.workers.sum_task(&task.id));
            TaskSummary {
                id: task.id.clone(),
                title: task.title.clone(),
                status: task.status,
                review: task.review.status,
                reviews: task.review.count,
                failed_attempts: task.attempts.max(task_state.attempt_log(&task.id).counted()),
                attempts_allowed: allowed(task),
                spent: count.spent,
                commits: count.commits,
                quality_warnings: count.quality,
                quality_objections: count.objections,
            }
        };
        task_state.list.tasks.iter().map(summary).collect()
    }

    /// Returns the figures of all gates, with those of workers.
    fn summarize_gates(&self, state: &RunState) -> Vec<GateSummary> {
        let mut gates = self.gates.clone();
        for (name, runs) in self.workers.list_gates() {
            let gate = state.recipe.gates.iter().find(|gate| gate.name == *name);
            let severity = gate.and_then(|gate| state.recipe.strategy.find_severity(gate));
            let new = GateCount::new(severity.unwrap_or(Severity::Hard));
            gates.entry(name.clone()).or_insert(new).add_runs(runs);
        }
        gates.iter().map(|(name, count)| self.summarize_gate(name, count)).collect()
    }

    fn summarize_gate(&self, name: &str, count: &GateCount) -> GateSummary {
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
            tests_before: count.tests.map(|tests| tests.before),
            tests: count.tests.map(|tests| tests.now),
        }
    }
}

/// Returns the questions that the user has to answer, including those left by an earlier run.
pub fn find_questions(task_state: &TaskState) -> Vec<UserQuestion> {
    let question = |task: &Task| {
        let given_up = task_state.given_up.get(&task.id);
        let noted = || {
            let mut lines = task.notes.lines().rev();
            lines.find_map(|line| line.strip_prefix(BLOCKED_PREFIX)).map(str::to_owned)
        };
        let needs = given_up.map_or_else(noted, AbandonedTask::question)?;
        Some(UserQuestion { task: task.id.clone(), title: task.title.clone(), needs })
    };
    let tasks = task_state.list.tasks.iter();
    tasks.filter(|task| task.status == TaskStatus::Failed).filter_map(question).collect()
}

fn list_failed_tasks(task_state: &TaskState, tasks: &[TaskSummary]) -> Vec<FailedTask> {
    let of_task = |(task, summary): (&Task, &TaskSummary)| {
        let given_up = task_state.given_up.get(&task.id);
        FailedTask {
            id: task.id.clone(),
            title: task.title.clone(),
            reason: given_up.map_or_else(|| task.notes.clone(), |given_up| given_up.why.to_note()),
            attempts: given_up.map_or(task.attempts, |given_up| given_up.attempts),
            attempts_allowed: given_up.map_or(summary.attempts_allowed, |it| it.limit),
            last_gate: given_up.map(|given_up| given_up.gate.clone()),
            error: given_up.and_then(|given_up| given_up.error.clone()),
            failing: given_up.map(|given_up| given_up.failing.clone()).unwrap_or_default(),
            stuck: given_up.map(|given_up| StuckSummary {
                is_stuck: given_up.is_stuck(),
                alike: given_up.alike,
                strategy_shifts: given_up.shifts,
            }),
            branch: given_up.and_then(|given_up| given_up.branch.clone()),
            onto: given_up.and_then(|given_up| given_up.onto.clone()),
            quality_warnings: summary.quality_warnings.values().sum(),
        }
    };
    let pairs = task_state.list.tasks.iter().zip(tasks);
    pairs.filter(|(task, _)| task.status == TaskStatus::Failed).map(of_task).collect()
}

impl AutoApprovedTask {
    /// Returns the auto-approved tasks of a list.
    pub fn from_list(list: &TaskList) -> Vec<Self> {
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

/// Returns what landed work leaves open, in the order of the list.
pub fn list_left_open(task_state: &TaskState) -> Vec<TaskRemainder> {
    let of_task = |task: &Task| {
        let left = task_state.left_open.get(&task.id)?.clone();
        Some(TaskRemainder { id: task.id.clone(), title: task.title.clone(), left })
    };
    task_state.list.tasks.iter().filter_map(of_task).collect()
}

fn list_diverging_tasks(task_state: &TaskState) -> Vec<DivergingTask> {
    let tasks = task_state.list.tasks.iter();
    tasks
        .filter_map(|task| {
            Some(DivergingTask {
                id: task.id.clone(),
                title: task.title.clone(),
                reviews: task.review.count,
                divergence: task_state.diverging.get(&task.id)?.clone(),
            })
        })
        .collect()
}

fn describe_current(state: &RunState) -> Option<CurrentIteration> {
    let current = state.current.as_ref()?;
    let attempted = current.task.as_ref().filter(|_| current.role.is_attempt());
    let at_work = attempted.zip(state.tasks.as_ref());
    Some(CurrentIteration {
        iteration: current.number,
        role: current.role,
        task: current.task.clone(),
        attempt: at_work.map(|(task, task_state)| task_state.attempt_log(task).counted() + 1),
        attempts_allowed: at_work
            .zip(state.recipe.task_work())
            .map(|((task, task_state), work)| work.attempt_limit(&task_state.list, task)),
        asks: current.asks,
    })
}
