//! The plan of a landing: which steps follow from a judgement, in which order.
//!
//! It is computed once, when the judgement is recorded, and again only when the commit
//! is refused. Not here: choosing and doing the next step.

use ralph_model::ids::Role;
use ralph_model::judgement::Landing;
use ralph_model::phase::{Checking, Iteration, LandingPlan, LandingStep};
use ralph_model::recipe::{CommitPolicy, HistoryOwner, MessageAuthor, Recipe, ScmTask};
use ralph_model::run::RunState;
use ralph_model::task::ListOwner;
use ralph_model::worktree::{History, Landed, TreeDiff};

use crate::run_loop::settle::{self, Settled};

/// Returns the plan for an iteration that was just judged.
pub(crate) fn plan_landing(state: &RunState, current: &Iteration) -> LandingPlan {
    let Some(judgement) = current.judgement() else { return LandingPlan::new([]) };
    if current.role == Role::Compact {
        return LandingPlan::new([LandingStep::Rollback]);
    }
    let mut steps = Vec::new();
    // A reviewer's own changes are discarded before anything else.
    if current.role == Role::Review && !has_changed_only_list(state, current) {
        steps.push(LandingStep::Rollback);
    }
    match judgement.landing {
        Landing::Keep if needs_post_gate_survey(state, current) => steps.push(LandingStep::Survey),
        Landing::Rollback if steps.is_empty() => steps.push(LandingStep::Rollback),
        Landing::FailureBranch => steps.push(LandingStep::SaveToFailureBranch),
        Landing::Keep | Landing::Rollback | Landing::Commit => {}
    }
    // A commit includes the updated task list.
    if must_write_list(state, current, steps.iter().any(is_restoring)) {
        steps.push(LandingStep::WriteList);
    }
    if judgement.landing == Landing::Commit {
        steps.extend(plan_commit(state, current));
    }
    if steps.contains(&LandingStep::SaveToFailureBranch) {
        steps.extend(plan_branch_push(&state.recipe));
    }
    LandingPlan::new(steps)
}

/// Changes the plan after the commit was refused: that is a failed attempt, and it may
/// have been the last one.
pub(crate) fn plan_after_refusal(state: &RunState, current: &Iteration) -> Vec<LandingStep> {
    let gives_up = settle_current(state, current)
        .and_then(|settled| settled.attempt)
        .is_some_and(|attempt| attempt.gives_up.is_some());
    // Merged work leaves the work tree; an agent's own stays for the next attempt.
    let is_removed = current.role == Role::Merge;
    let save = match (gives_up, is_removed) {
        (true, _) => Some(LandingStep::SaveToFailureBranch),
        (false, true) => Some(LandingStep::Rollback),
        (false, false) => None,
    };
    let write = current.task.as_ref().map(|_| LandingStep::WriteList);
    let push = if gives_up { plan_branch_push(&state.recipe) } else { None };
    save.into_iter().chain(write).chain(push).collect()
}

/// Returns the last step of work that is saved to a failure branch: it is pushed if work that
/// passed would be.
fn plan_branch_push(recipe: &Recipe) -> Option<LandingStep> {
    let CommitPolicy::Scm(scm) = &recipe.landing.commit else { return None };
    scm.find_push_remote().map(|_| LandingStep::PushFailureBranch)
}

/// Returns whether the task file must be written although it was written before, because
/// it was reset to the list.
pub(crate) fn must_write_list_again(state: &RunState, current: &Iteration) -> bool {
    let Some(landing) = current.landing() else { return false };
    let restored = landing.plan.done.iter().any(|landed| match landed {
        Landed::CommitRefused { .. }
        | Landed::SavedToFailureBranch { .. }
        | Landed::RolledBack { .. } => true,
        Landed::Surveyed { .. }
        | Landed::MessageChecked { .. }
        | Landed::Committed { .. }
        | Landed::NothingToCommit
        | Landed::ScmRan { .. }
        | Landed::ListWritten => false,
    });
    let is_restored = restored || landing.plan.todo.iter().any(is_restoring);
    must_write_list(state, current, is_restored)
}

/// Returns the result of the iteration, as far as it has landed.
pub(crate) fn settle_current(state: &RunState, current: &Iteration) -> Option<Settled> {
    state.recipe.task_work()?;
    current.task.as_ref()?;
    Some(settle::settle_iteration(&state.recipe, state.tasks.as_ref()?, current))
}

fn is_restoring(step: &LandingStep) -> bool {
    matches!(step, LandingStep::Rollback | LandingStep::SaveToFailureBranch)
}

/// Returns whether the task file does not hold the result of the iteration yet. What an
/// agent that owns the list wrote is there, unless the landing restores the tree.
fn must_write_list(state: &RunState, current: &Iteration, is_restored: bool) -> bool {
    let (Some(settled), Some(work)) = (settle_current(state, current), state.recipe.task_work())
    else {
        return false;
    };
    match (work.keeper, is_restored) {
        (ListOwner::Agent, false) => {
            !current.list_diff().is_some_and(|diff| diff.is_in_file(&settled.changes))
        }
        (ListOwner::Agent, true) | (ListOwner::Ralph, _) => {
            !settled.changes.is_empty() || current.commit_refusal().is_some()
        }
    }
}

/// Returns the steps of a commit. The commit is dropped when the survey finds nothing to
/// commit.
fn plan_commit(state: &RunState, current: &Iteration) -> Vec<LandingStep> {
    let commit = vec![LandingStep::Survey, LandingStep::Commit];
    match &state.recipe.landing.commit {
        CommitPolicy::NoCommit => Vec::new(),
        CommitPolicy::Ralph => commit,
        // ralph does not commit what the agent left uncommitted, only its own changes of
        // the list afterwards.
        CommitPolicy::Agent => {
            let seen = current.observation();
            let is_committed = seen.is_none_or(|seen| seen.changes == TreeDiff::Clean);
            if is_committed || current.role == Role::Review { commit } else { Vec::new() }
        }
        CommitPolicy::Scm(scm) => {
            let tasks = scm.tasks.iter().map(|task| match task {
                ScmTask::Commit => LandingStep::Commit,
                ScmTask::Run(args) => LandingStep::RunScm(args.clone()),
            });
            // The message first, before any command has moved something.
            let has_commit = scm.tasks.contains(&ScmTask::Commit);
            let is_asked = has_commit && scm.message == MessageAuthor::Agent;
            let ask = is_asked.then_some(LandingStep::AskForMessage);
            [LandingStep::Survey].into_iter().chain(ask).chain(tasks).collect()
        }
    }
}

/// Returns whether a survey is needed because a gate may have moved a history that only
/// ralph writes. What moves it later, between two iterations, is the user's doing.
fn needs_post_gate_survey(state: &RunState, current: &Iteration) -> bool {
    let is_run = current.checking().is_some_and(Checking::has_run_commands);
    let is_ours = state.recipe.ownership().history == HistoryOwner::Ralph;
    is_ours && current.observation().is_some() && is_run
}

/// Returns whether a reviewer that owns the task list changed nothing but the list and
/// its notes.
fn has_changed_only_list(state: &RunState, current: &Iteration) -> bool {
    let (true, Some(work), Some(seen)) =
        (state.recipe.is_list_owned_by_agent(), state.recipe.task_work(), current.observation())
    else {
        return false;
    };
    let is_allowed = |path: &str| work.is_document(&state.project, path);
    seen.history != History::Rewritten
        && seen.more_files == 0
        && seen.files.iter().all(|file| is_allowed(&file.path))
}
