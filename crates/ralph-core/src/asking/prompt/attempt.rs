//! Builds the prompt for an attempt at a task from the state of a run.
//!
//! Both the run and the prompt preview use this, so they cannot differ. Not here: gathering
//! inputs that are not part of the state, and the text of the sections.

use ralph_model::attempt::AttemptLog;
use ralph_model::gate::GateResult;
use ralph_model::handoff::Handoff;
use ralph_model::run::{PromptSize, RunState};
use ralph_model::stuck::Escalation;
use ralph_model::task::Task;

use super::failure;
use super::list_ownership::ListOwnership;
use super::orientation::{describe_dependencies, describe_other_workers};
use super::role::{RenderedPrompt, RoleFrame, RolePrompt};
use super::task::{self, TaskParts};
use crate::asking::context::PromptRoom;

/// How many characters of the failing patch the agent is shown again.
pub const FAILED_PATCH: usize = 4_000;

/// How many of the files that an error names are added to a prompt.
pub const CONTEXT_FILES: usize = 5;

/// How many characters of each of these files are added.
pub const CONTEXT_CHARS: usize = 4_000;

/// Inputs of an attempt's prompt that are not part of the run state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatheredInputs {
    /// Skills that the task names, with their text.
    pub skills: Vec<(String, String)>,
    /// The patch of the work that keeps failing, if [`needs_patch`].
    pub patch: String,
    /// Files that the error names, if [`needs_files`].
    pub files: Vec<(String, String)>,
    /// The command that shows the work that was reviewed, if git knows it.
    pub diff_command: Option<String>,
    pub size: PromptSize,
    /// Characters that are added to the prompt later.
    pub reserved: usize,
}

/// Returns the prompt for an attempt: `prompt` is [`RolePrompt::Implement`] or
/// [`RolePrompt::Fix`]. Returns `None` if the work is not a task list.
pub fn render_attempt_prompt(
    state: &RunState,
    task: &Task,
    prompt: RolePrompt,
    frame: &RoleFrame<'_>,
    gathered: &GatheredInputs,
) -> Option<RenderedPrompt> {
    let log = find_attempt_log(state, task);
    let recipe = &state.recipe;
    let keeping = ListOwnership::for_recipe(recipe, &frame.companions.tasks)?;
    let record = failure::list_attempts(&log, recipe);
    let work = recipe.task_work();
    let is_restored = work.is_some_and(|work| work.restored_onto.is_some());
    let restored_conflicts = work.map(|work| work.restored_conflicts.as_slice());
    let record = record.or_else(|| is_restored.then(|| failure::RESTORED.to_owned()));
    let (feedback, _) = super::split_feedback(&state.feedback);
    let broken = list_broken_gates(state);
    // Failed attempts are in the record of their own task, and concern no other task. What a review
    // rejected is described by its fix.
    let is_shown = |it: &&Handoff| it.is_accepted() && !it.is_rejected();
    let handoffs: Vec<Handoff> = state.handoffs.iter().filter(is_shown).cloned().collect();
    let last = state.handoffs.iter().rev().find(|it| it.task_completed.task_id == task.id);
    let failed = last.filter(|it| !it.is_accepted());
    let record = record.map(|record| record + &failure::list_claims(failed));
    let protected = recipe.protected_names();
    // The last handoff is shown with all its decisions.
    let before: Vec<&Handoff> = handoffs.iter().rev().skip(1).collect();
    let dependencies =
        (state.tasks.as_ref()).map(|tasks| describe_dependencies(&tasks.list, task, &before));
    let job = work.and_then(|work| work.job.as_deref());
    let others = job.map(|job| describe_other_workers(&job.others)).unwrap_or_default();
    let related: Vec<String> = dependencies.into_iter().chain([others]).collect();
    let related = related.iter().filter(|it| !it.is_empty()).map(String::as_str);
    let related = related.collect::<Vec<_>>().join("\n\n");
    let parts = TaskParts {
        task,
        dependencies: &related,
        protected: &protected,
        review_feedback: &task.review.feedback,
        diff_command: gathered.diff_command.as_deref(),
        feedback: &feedback,
        record: record.as_deref(),
        outputs: &log.outputs,
        attempts: &log.recent,
        alike: log.alike,
        escalation: log.escalation,
        patch: &gathered.patch,
        context: &gathered.files,
        is_restored,
        conflicts: job
            .map(|job| job.conflicts.as_slice())
            .or(restored_conflicts)
            .unwrap_or_default(),
        last_outcome: last.and_then(|last| last.outcome.as_ref()).or(log.last_outcome.as_ref()),
        handoffs: &handoffs,
        memory: state.memory.as_deref(),
        skills: &gathered.skills,
        broken_before: &broken,
        keeping,
        room: PromptRoom {
            plan: recipe.prompt.context,
            calibration: state.calibration,
            size: gathered.size,
            reserved: gathered.reserved,
        },
    };
    Some(match prompt {
        RolePrompt::Fix => task::render_fix(&parts, frame),
        RolePrompt::Implement | RolePrompt::Review | RolePrompt::Quality | RolePrompt::Compact => {
            task::render_implement(&parts, frame)
        }
    })
}

/// Returns the hard gates that failed before the run began and have not passed since, with their
/// failing tests, or why they failed although their command succeeded.
fn list_broken_gates(state: &RunState) -> Vec<(String, Vec<String>)> {
    let results = state.baseline.iter().flat_map(|baseline| &baseline.results);
    let is_broken = |result: &&GateResult| {
        result.is_hard_failure() && !state.passed_trees.contains_key(&result.gate)
    };
    let describe = |result: &GateResult| match &result.reason {
        Some(reason) if result.failing.is_empty() => {
            (result.gate.clone(), vec![format!("{reason}, which does not count as passed")])
        }
        Some(_) | None => (result.gate.clone(), result.failing.clone()),
    };
    results.filter(is_broken).map(describe).collect()
}

/// Returns the attempt log of a task.
pub fn find_attempt_log(state: &RunState, task: &Task) -> AttemptLog {
    state.tasks.as_ref().map(|task_state| task_state.attempt_log(&task.id)).unwrap_or_default()
}

/// Returns whether the prompt includes the patch that keeps failing.
pub fn needs_patch(log: &AttemptLog) -> bool {
    match log.escalation {
        Escalation::StrategyShift | Escalation::ContextExpansion => true,
        Escalation::None | Escalation::HardStop => false,
    }
}

/// Returns whether the prompt includes the files that the error names.
pub fn needs_files(log: &AttemptLog) -> bool {
    match log.escalation {
        Escalation::ContextExpansion => true,
        Escalation::None | Escalation::StrategyShift | Escalation::HardStop => false,
    }
}
