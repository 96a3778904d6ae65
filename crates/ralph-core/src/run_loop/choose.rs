//! The choice of the next step, as a pure function of the state and the moment.
//!
//! Every step records events, and only those decide the step after it. So a run that died
//! anywhere continues where its journal ends: there is no other record of its position.
//! `gates` chooses the gates, `landing` the steps of a landing, `parallel` jobs and merges of
//! a run with workers. Not here: executing the step.

mod gates;
mod landing;
mod merging;
mod parallel;

use ralph_model::agent_call_state::{AgentCallState, PromptSize};
use ralph_model::control::{Pause, SkipRequest};
use ralph_model::event::{Purpose, WaitReason};
use ralph_model::failure::{Failure, FailureClass, RateLimitAction};
use ralph_model::gate::{GateStatus, Severity};
use ralph_model::ids::{AskNumber, IterationNumber, Role, TaskId, WorkerId};
use ralph_model::outcome::{Outcome, SandboxBlockedGate, TaskWait};
use ralph_model::phase::{Iteration, Phase};
use ralph_model::recipe::{BaselinePolicy, OnFailure, Recipe, TaskWork, Work};
use ralph_model::refusal::RefusalKind;
use ralph_model::run::{Completeness, RunState};
use ralph_model::task::{Task, TaskStatus};
use ralph_model::task_state::{FileState, TaskState};
use ralph_model::units::Timestamp;
use ralph_model::worker::JobAssignment;
use ralph_model::worktree::Checkpoint;

use crate::asking::request::select_agent;
use crate::ports::{CheckpointDepth, Moment, StopRequest};
use crate::tasks::next_work::{NextWork, WorkChoice, choose_work, find_due_compaction};

pub use gates::build_cached_result;
pub(in crate::run_loop) use gates::select_due_gates;
pub(crate) use gates::{
    find_forbidden_paths, find_protected_paths, is_forbidden_path, needs_recheck,
};
pub(crate) use landing::build_commit_message;

/// The next thing the engine does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read the task list.
    ReadTasks,
    /// Write the list to the task file.
    WriteTasks,
    /// Record the tree that the run starts from, before the gates run on it.
    BeginBaseline,
    /// Run a gate of the recipe (by index) before the first agent call.
    Baseline {
        gate: usize,
        severity: Severity,
    },
    Begin {
        iteration: IterationNumber,
        role: Role,
        task: Option<TaskId>,
    },
    /// Record the state that the iteration starts from.
    Checkpoint(CheckpointDepth),
    /// Look for the reply to a call that was started before a crash; call again if there is none.
    Recover {
        ask: AskNumber,
        purpose: Purpose,
    },
    Ask {
        ask: AskNumber,
        purpose: Purpose,
        /// Which prompt it gets.
        size: PromptSize,
    },
    Wait {
        until: Timestamp,
        reason: WaitReason,
    },
    /// Record the state of the plan file.
    RecordPlanState,
    /// Observe the agent's changes, before the gates run on them: compares the work tree with
    /// `RunState::base`, where work that has not landed began, maybe some iterations ago. Also
    /// restores a lost plan, takes over what is in the task file, and resets commits that the
    /// agent may not make.
    Observe,
    /// Run a gate of the recipe, by index.
    Check {
        gate: usize,
        severity: Severity,
    },
    /// Record the verdict of the agent that a gate asked.
    RecordVerdict {
        gate: usize,
        severity: Severity,
    },
    /// Count a gate as passed, because it passed on the same tree.
    Reuse {
        gate: usize,
        severity: Severity,
    },
    /// Refuse the work.
    Refuse(RefusalKind),
    /// Compare the work tree with what the gates checked.
    Recheck,
    /// Decide what follows from the iteration, and record the landing plan (`landing_plan`). Where
    /// ralph commits, the project's commit hook runs first: it may refuse the work, or change
    /// files, and then the gates run again.
    Judge,
    /// Write the list to the task file as the landing changes it.
    WriteList,
    /// Record the tree. If the branch moved while gates ran, reset it first, where only ralph may
    /// write the history.
    Survey,
    /// Discard the changes of an agent that was asked for a commit message.
    DiscardMessageSideEffects,
    /// Commit the recorded tree.
    Commit {
        message: String,
        command: String,
    },
    /// The run is asked to stop at [`Self::Commit`]: record the commit if an earlier process made
    /// it; else end the run.
    FindCommit,
    /// Run a source-control command.
    Scm {
        command: String,
        args: Vec<String>,
    },
    /// Go back to the checkpoint.
    Rollback,
    /// Save the work to a failure branch, and go back to where it began.
    SaveToFailureBranch,
    /// Skip a task, between two iterations.
    Skip {
        skip: SkipRequest,
        /// Whether attempts at it left something in the work tree.
        left: Leftover,
    },
    /// Start a job, or start it again.
    StartJob(Box<JobAssignment>),
    /// Wait for what workers report.
    PollWorkers {
        until: Timestamp,
    },
    /// End the worker of a task that the user skips or removes.
    CancelWorker {
        worker: WorkerId,
    },
    /// Merge the candidate of the iteration's task.
    MergeCandidate,
    /// Wait until the user resumes or stops the run.
    WaitWhilePaused,
    EndIteration(IterationNumber),
    Finish(Outcome),
}

impl Step {
    /// Returns whether the step does something that follows from the events so far, so that these must
    /// survive a power cut. The others look, or record an event before they act.
    pub(crate) fn needs_synced_events(&self) -> bool {
        !matches!(
            self,
            Self::Begin { .. }
                | Self::Checkpoint(_)
                | Self::Ask { .. }
                | Self::RecordVerdict { .. }
                | Self::Reuse { .. }
                | Self::Judge
                | Self::Survey
                | Self::EndIteration(_)
        )
    }
}

/// Whether attempts at a task left something in the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    Present,
    Absent,
}

/// Chooses the next step.
pub fn choose_next_step(state: &RunState, moment: Moment) -> Step {
    let step = match &state.current {
        None => choose_between_iterations(state, moment),
        Some(current) => choose_within_iteration(state, current, moment),
    };
    let is_open = state.completeness == Completeness::Open;
    // An iteration that has landed is closed first: that is a fact and takes no time.
    let has_landed = matches!(step, Step::EndIteration(_));
    if is_open
        && !has_landed
        && (moment.stop != StopRequest::Continue || state.control.stop.is_some())
    {
        if let Some(step) = parallel::choose_while_live(state, &step, moment) {
            return step;
        }
        // The process before this one may have made the commit.
        let is_committing = matches!(step, Step::Commit { .. });
        let finish = Step::Finish(Outcome::Interrupted);
        return if is_committing { Step::FindCommit } else { finish };
    }
    match state.control.pause {
        Pause::Asked { .. } | Pause::Since { .. } if can_pause_before(state, &step) => {
            parallel::choose_while_live(state, &step, moment).unwrap_or(Step::WaitWhilePaused)
        }
        Pause::No | Pause::Asked { .. } | Pause::Since { .. } => step,
    }
}

/// Returns whether a run may pause before a step. Never between an agent's answer and its
/// landing: changes that the user makes during the pause would be blamed on the agent, or
/// would bypass the gates.
fn can_pause_before(state: &RunState, step: &Step) -> bool {
    match &state.current {
        None => matches!(
            step,
            Step::BeginBaseline
                | Step::Baseline { .. }
                | Step::Begin { .. }
                | Step::StartJob(_)
                | Step::PollWorkers { .. }
                | Step::Wait { .. }
        ),
        Some(current) => match current.phase {
            Phase::Started | Phase::Working(_) => {
                matches!(step, Step::Checkpoint(_) | Step::Ask { .. } | Step::Wait { .. })
            }
            Phase::Checking(_) | Phase::Landing(_) => false,
        },
    }
}

/// Chooses between two iterations.
fn choose_between_iterations(state: &RunState, moment: Moment) -> Step {
    let limits = &state.recipe.limits;
    match state.completeness {
        Completeness::Complete => return Step::Finish(Outcome::Complete),
        Completeness::Open => {}
    }
    if let (Work::Tasks(_), None) = (&state.recipe.work, &state.tasks) {
        return Step::ReadTasks;
    }
    if let (Some(parallel), Some(policy)) = (&state.parallel, &state.recipe.parallel) {
        return parallel::choose_parallel_step(state, parallel, policy, moment);
    }
    if let (Some(skip), Some(tasks)) = (state.control.skips.first(), &state.tasks) {
        return Step::Skip { skip: skip.clone(), left: find_leftover(state, tasks, &skip.task) };
    }
    if is_task_file_stale(state) {
        return Step::WriteTasks;
    }
    let (role, task) = match (&state.recipe.work, &state.tasks) {
        (Work::Tasks(work), Some(tasks)) => match choose_task(tasks, work) {
            Ok((role, task)) => (role, Some(task)),
            Err(outcome) => return Step::Finish(outcome),
        },
        (Work::Prompt(_) | Work::Tasks(_), _) => (state.recipe.role, None),
    };
    if let Some(exhausted) = limits.budget.find_exhausted(state.total_usage(), moment.ran) {
        return Step::Finish(Outcome::BudgetUsedUp { exhausted });
    }
    let is_at_limit = |count: u32| limits.unchanged.is_some_and(|limit| count >= limit.max(1));
    if is_at_limit(state.unchanged) {
        let (iterations, tag) = (state.unchanged, state.recipe.completion_tag());
        return Step::Finish(Outcome::NothingChanges { iterations, tag });
    }
    if let Some(repeated) = state.repeated_failure.as_ref().filter(|it| is_at_limit(it.iterations))
    {
        let (iterations, checks) = (repeated.iterations, repeated.names());
        return Step::Finish(Outcome::SameFailure { iterations, checks });
    }
    if state.iterations >= state.last_iteration() {
        return Step::Finish(Outcome::IterationsUsedUp { limit: limits.iterations });
    }
    if let Some(step) = choose_baseline_step(state) {
        return step;
    }
    // Handoffs are compacted first, where that is due. A compaction belongs to no task.
    let (role, task) = match find_due_compaction(state) {
        Some(_) => (Role::Compact, None),
        None => (role, task),
    };
    match state.last_ended.map(|ended| ended.saturating_add(limits.delay)) {
        Some(until) if moment.now < until => Step::Wait { until, reason: WaitReason::Delay },
        Some(_) | None => {
            Step::Begin { iteration: IterationNumber(state.iterations + 1), role, task }
        }
    }
}

/// Returns whether attempts at a task left changes that have not landed. If they were not
/// observed, they may have.
fn find_leftover(state: &RunState, tasks: &TaskState, task: &TaskId) -> Leftover {
    let last = tasks.logs.get(task).and_then(|log| log.recent.last());
    match (last, &state.base) {
        (Some(last), Some(Checkpoint::Git { tree, .. }))
            if last.tree != *tree || tree.is_none() =>
        {
            Leftover::Present
        }
        (_, _) => Leftover::Absent,
    }
}

pub(crate) fn is_task_file_stale(state: &RunState) -> bool {
    state.tasks.as_ref().is_some_and(|tasks| tasks.file == FileState::Stale)
}

/// Returns the next task and role, or how the run ends if there is no task left.
fn choose_task(tasks: &TaskState, work: &TaskWork) -> Result<(Role, TaskId), Outcome> {
    match choose_work(tasks, work) {
        WorkChoice::Next(next) => match next.role_and_task() {
            Some((role, task)) => Ok((role, task.id.clone())),
            None => Err(summarize_list_end(tasks, &next)),
        },
        WorkChoice::OnlyDone => Err(summarize_done_list(tasks)),
        WorkChoice::OnlyWaits(waits_for) => Err(Outcome::TasksLeft {
            failed: Vec::new(),
            waiting: work
                .only
                .iter()
                .flat_map(|task| {
                    waits_for.iter().map(|on| TaskWait { task: task.clone(), on: on.clone() })
                })
                .collect(),
        }),
        WorkChoice::OnlyFailed => Err(Outcome::TasksLeft {
            failed: work.only.iter().cloned().collect(),
            waiting: Vec::new(),
        }),
    }
}

/// Returns how a run ends whose tasks are all done. A cap on reviews makes no approval.
fn summarize_done_list(tasks: &TaskState) -> Outcome {
    let capped = &tasks.approved_at_cap;
    if capped.is_empty() {
        Outcome::Complete
    } else {
        Outcome::ApprovedAtCap { tasks: capped.iter().cloned().collect() }
    }
}

fn summarize_list_end(tasks: &TaskState, next: &NextWork<'_>) -> Outcome {
    let NextWork::Nothing { blocked } = next else { return summarize_done_list(tasks) };
    let failed = |task: &&Task| task.status == TaskStatus::Failed;
    Outcome::TasksLeft {
        failed: tasks.list.tasks.iter().filter(failed).map(|task| task.id.clone()).collect(),
        waiting: blocked
            .iter()
            .flat_map(|blockage| &blockage.waiting)
            .map(|waiting| TaskWait { task: waiting.task.clone(), on: waiting.through.clone() })
            .collect(),
    }
}

/// Chooses the next step of the baseline, or nothing when it is done.
fn choose_baseline_step(state: &RunState) -> Option<Step> {
    match state.recipe.baseline {
        BaselinePolicy::Off => return None,
        BaselinePolicy::Note | BaselinePolicy::Require => {}
    }
    // After the first iteration there is no baseline, whatever the settings say now.
    if state.iterations > 0 {
        return None;
    }
    let due = || gates::select_baseline_gates(&state.recipe);
    due().next()?;
    let Some(baseline) = &state.baseline else { return Some(Step::BeginBaseline) };
    let has_result = |name: &str| baseline.results.iter().any(|result| result.gate == name);
    if let Some((gate, _, severity)) = due().find(|(_, gate, _)| !has_result(&gate.name)) {
        return Some(Step::Baseline { gate, severity });
    }
    let red = || baseline.results.iter().filter(|result| result.status == GateStatus::Failed);
    // An agent cannot fix a gate that fails because of the sandbox.
    if let Some((result, sign)) = red().find_map(|it| Some((it, it.sandbox.clone()?))) {
        let gates = vec![result.gate.clone()];
        let gate = SandboxBlockedGate { command: result.command.clone(), sign: *sign };
        let sandbox = Some(Box::new(gate));
        return Some(Step::Finish(Outcome::BaselineBroken { gates, sandbox }));
    }
    match state.recipe.baseline {
        BaselinePolicy::Require if red().next().is_some() => {
            let gates = red().map(|result| result.gate.clone()).collect();
            Some(Step::Finish(Outcome::BaselineBroken { gates, sandbox: None }))
        }
        BaselinePolicy::Off | BaselinePolicy::Note | BaselinePolicy::Require => None,
    }
}

/// Chooses within an iteration.
fn choose_within_iteration(state: &RunState, current: &Iteration, moment: Moment) -> Step {
    match &current.phase {
        Phase::Started if is_task_file_stale(state) => Step::WriteTasks,
        Phase::Started => Step::Checkpoint(select_checkpoint_depth(&state.recipe)),
        Phase::Landing(landing) => landing::choose_landing_step(state, current, landing, moment),
        Phase::Working(_) | Phase::Checking(_) if is_skipped(state, current) => {
            let is_observed = current.checking().is_some_and(|it| it.observed.is_some());
            // A review changes nothing that would have to be saved.
            if is_observed || current.role == Role::Review { Step::Judge } else { Step::Observe }
        }
        Phase::Working(_) if current.role == Role::Merge => Step::MergeCandidate,
        Phase::Working(_) => choose_call_step(state, current, Purpose::Work, moment),
        Phase::Checking(checking) => gates::choose_check_step(state, current, checking, moment),
    }
}

/// Returns whether the user skips the task of the iteration.
fn is_skipped(state: &RunState, current: &Iteration) -> bool {
    current.task.as_ref().is_some_and(|task| state.control.find_skip(task).is_some())
}

/// Returns how much a checkpoint records: the whole tree only where the recipe may have
/// to restore it or compares with it: what was uncommitted before is no work of the run.
fn select_checkpoint_depth(recipe: &Recipe) -> CheckpointDepth {
    let is_compared = gates::has_path_rules(recipe) || !recipe.uncommitted_before.is_empty();
    match (recipe.landing.on_failure, &recipe.work) {
        (OnFailure::Rollback, _) | (_, Work::Tasks(_)) => CheckpointDepth::Tree,
        (OnFailure::Keep, Work::Prompt(_)) if is_compared => CheckpointDepth::Tree,
        (OnFailure::Keep, Work::Prompt(_)) => CheckpointDepth::Head,
    }
}

/// Chooses the next step of an agent call.
fn choose_call_step(
    state: &RunState,
    current: &Iteration,
    purpose: Purpose,
    moment: Moment,
) -> Step {
    let not_asked = AgentCallState::default();
    let asking = current.call_state(&purpose).unwrap_or(&not_asked);
    if let Some(ask) = asking.pending {
        return Step::Recover { ask, purpose };
    }
    let limits = &state.recipe.limits;
    let is_refused = asking
        .last_failure
        .as_ref()
        .is_some_and(|failure| matches!(failure.class, FailureClass::RateLimited { .. }));
    if is_refused && let Some(outcome) = check_usage_limit(&state.recipe, asking) {
        return Step::Finish(outcome);
    }
    // The budget is checked before an iteration begins; within one only before a repeated
    // call.
    if purpose == Purpose::Work
        && current.asks > 0
        && let Some(exhausted) = limits.budget.find_exhausted(state.total_usage(), moment.ran)
    {
        return Step::Finish(Outcome::BudgetUsedUp { exhausted });
    }
    if let Some(step) = choose_held_step(state, &purpose, moment) {
        return step;
    }
    match asking.not_before {
        Some(until) if moment.now < until => Step::Wait {
            until,
            reason: if is_refused { WaitReason::UsageLimit } else { WaitReason::Retry },
        },
        Some(_) | None => {
            Step::Ask { ask: AskNumber(current.asks + 1), purpose, size: asking.size }
        }
    }
}

/// Chooses to wait for the limit of an agent that another worker met, or to end if that takes
/// longer than the recipe allows.
fn choose_held_step(state: &RunState, purpose: &Purpose, moment: Moment) -> Option<Step> {
    if state.control.holds.is_empty() {
        return None;
    }
    let agent = select_agent(state, purpose).kind;
    let until = *state.control.holds.get(&agent).filter(|until| moment.now < **until)?;
    let limit = &state.recipe.rate_limit;
    let is_short = until.elapsed_since(moment.now) <= limit.max_wait;
    Some(match limit.wait {
        RateLimitAction::Wait if is_short => Step::Wait { until, reason: WaitReason::UsageLimit },
        RateLimitAction::Wait | RateLimitAction::Stop => {
            let message = format!("another worker met a usage limit of {}", agent.name());
            Step::Finish(Outcome::LimitTooLong { resets_at: Some(until), message })
        }
    })
}

/// Returns how the run ends at a usage limit, if it may not wait for it.
fn check_usage_limit(recipe: &Recipe, asking: &AgentCallState) -> Option<Outcome> {
    let failure = asking.last_failure.as_ref()?;
    let FailureClass::RateLimited { resets_at } = failure.class else { return None };
    let may_wait = match recipe.rate_limit.wait {
        RateLimitAction::Wait => asking.waited <= recipe.rate_limit.max_wait,
        RateLimitAction::Stop => false,
    };
    (!may_wait).then(|| Outcome::LimitTooLong { resets_at, message: failure.message.clone() })
}

fn give_up(current: &Iteration, failure: &Failure) -> Step {
    Step::Finish(Outcome::AgentFailed { failure: failure.clone(), asks: current.asks })
}

#[cfg(test)]
pub(crate) mod tests;
