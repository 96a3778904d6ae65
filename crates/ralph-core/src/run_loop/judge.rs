//! The judgement: what follows from an iteration once all gates have results.
//!
//! Pure, and recorded before the tree is changed. Iterations on a prompt are judged in
//! `prompt`, on a task in `task`, reviews in `review`, merges in `merge`, compactions in `compact`;
//! `hand_in` checks that work on a task was handed in correctly. Not here: doing what
//! follows.

mod compact;
mod hand_in;
mod merge;
mod prompt;
mod review;
mod task;

use ralph_model::control::SkipRequest;
use ralph_model::failure::Failure;
use ralph_model::gate::{FailAction, GateResult};
use ralph_model::ids::Role;
use ralph_model::judgement::{Feedback, Judgement, Landing, Verdict};
use ralph_model::recipe::{OnFailure, Recipe};
use ralph_model::run::{AgentCallEnd, Iteration, RunState};
use ralph_model::worktree::Checkpoint;

use crate::checking::gate;

/// Judges the open iteration. Returns nothing while its agent call is still open, unless
/// the user skips its task.
pub fn judge_iteration(state: &RunState, current: &Iteration) -> Option<Judgement> {
    let mut judgement = judge_role(state, current)?;
    if !current.removed.is_empty() {
        // The ref that keeps the file is for the user only.
        let names = current.removed.iter().map(|text| text.split(" (kept").next().unwrap_or(text));
        judgement.feedback.push(Feedback::from_note(format!(
            "The previous iteration created files that agents may not create in this project, \
             because other programs run or load them by themselves. They were removed; do not \
             create them again, and say so if the task cannot be done without them:\n- {}",
            names.collect::<Vec<_>>().join("\n- ")
        )));
    }
    Some(judgement)
}

fn judge_role(state: &RunState, current: &Iteration) -> Option<Judgement> {
    if let Some(skip) = current.task.as_ref().and_then(|task| state.control.find_skip(task)) {
        return Some(judge_skipped(state, current, skip));
    }
    if current.role == Role::Merge {
        return merge::judge_merge(state, current);
    }
    let end = current.work_end()?;
    if current.role == Role::Compact {
        return Some(compact::judge_compaction(state, end));
    }
    Some(match (&state.tasks, &state.recipe.task_work(), &current.task) {
        (Some(tasks), Some(work), Some(task)) => match current.role {
            Role::Review => review::judge_review(state, tasks, work, task, current, end),
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Fix
            | Role::Compact
            | Role::Message
            | Role::Merge => task::judge_attempt(state, tasks, work, task, current, end),
        },
        _ => match end {
            AgentCallEnd::FailedAttempt(failure) | AgentCallEnd::Hopeless(failure) => {
                judge_cut_off(failure)
            }
            AgentCallEnd::Answered(reply) => prompt::judge_prompt(state, current, reply),
        },
    })
}

/// Judges an iteration on a task that the user skips. Its work is saved to a failure
/// branch; reviewed work is committed already.
fn judge_skipped(state: &RunState, current: &Iteration, skip: &SkipRequest) -> Judgement {
    let has_work =
        current.observation().is_some_and(|seen| seen.more_files > 0 || !seen.files.is_empty());
    let landing = match (&state.base, has_work && current.role != Role::Review) {
        (Some(Checkpoint::Git { .. }), true) => Landing::FailureBranch,
        (Some(_) | None, _) => Landing::Keep,
    };
    Judgement::new(Verdict::Skipped { by: skip.by.clone() }, landing, Vec::new())
}

/// Judges an iteration without an answer. That is not the fault of the work, so nothing
/// is rolled back.
fn judge_cut_off(failure: &Failure) -> Judgement {
    Judgement::new(
        Verdict::AttemptFailed { failure: failure.clone() },
        Landing::Keep,
        vec![Feedback::from_text(format!(
            "The previous iteration was ended before it finished ({}). Its changes are still in the work tree.",
            failure.message
        ))],
    )
}

fn select_failure_landing(recipe: &Recipe) -> Landing {
    match recipe.landing.on_failure {
        OnFailure::Keep => Landing::Keep,
        OnFailure::Rollback => Landing::Rollback,
    }
}

/// Returns the judgement of work that was refused or failed a hard gate, if so.
fn judge_failed_checks(state: &RunState, current: &Iteration) -> Option<Judgement> {
    if !current.checking()?.has_failed() {
        return None;
    }
    let failed = || current.gates().iter().filter(|result| result.is_hard_failure());
    let refused = current.refusals().iter();
    let names = refused.clone().map(|refusal| refusal.kind.name().to_owned());
    let feedback = refused.map(|refusal| {
        let name = refusal.kind.name();
        Feedback::from_text(format!("The work was refused ({name}).\n{}", refusal.output))
    });
    Some(Judgement::new(
        Verdict::GatesFailed {
            gates: names.chain(failed().map(|result| result.gate.clone())).collect(),
        },
        select_failure_landing(&state.recipe),
        feedback.chain(failed().map(|result| build_gate_feedback(state, result))).collect(),
    ))
}

/// Returns the feedback of a failed gate. Marks gates that failed before the run began, unless
/// the prompt of a task says so already.
fn build_gate_feedback(state: &RunState, result: &GateResult) -> Feedback {
    let gate = state.recipe.find_gate(&result.gate);
    let mut text = gate::format_failure(gate.and_then(|gate| gate.hint.as_deref()), result);
    if state.tasks.is_none() && state.is_broken_at_start(&result.gate) {
        text.push_str("\nThis check was broken before the run began. It must pass anyway.");
    }
    let action = gate.map_or(FailAction::Append, |gate| gate.fail_action);
    Feedback { action, ..Feedback::from_text(text) }
}
