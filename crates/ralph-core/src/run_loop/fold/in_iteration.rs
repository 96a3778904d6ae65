//! Folds the events of an open iteration: what moves it from phase to phase.

use ralph_model::agent_call_state::AgentCallState;
use ralph_model::agent_output::Reply;
use ralph_model::control::takes_notes;
use ralph_model::event::{Event, Purpose, Recorded};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::gate::{GateResult, GateStatus, TestNumbers};
use ralph_model::ids::{AskNumber, Role};
use ralph_model::phase::{GateReview, Iteration, LandingPlan, LandingStep, Observed, Phase};
use ralph_model::recipe::CommitPolicy;
use ralph_model::refusal::{Refusal, RefusalKind};
use ralph_model::run::RunState;
use ralph_model::units::Timestamp;
use ralph_model::worktree::{
    AutorunChange, AutorunKind, Checkpoint, History, Landed, MAX_AUTORUN_CHANGES, Observation,
    Survey, TreeDiff,
};

use super::{agent_reply, answer_check, count_gate, merging, record_passed_tree};
use crate::checking::instruction_changes::find_observed_instructions;
use crate::run_loop::{landing_plan, settle};

/// Applies an event of the open iteration.
#[expect(clippy::wildcard_enum_match_arm, reason = "the fold lists every event and sorts them")]
pub(super) fn apply_in_iteration(
    state: &mut RunState,
    current: &mut Iteration,
    recorded: &Recorded,
) {
    match &recorded.event {
        Event::Checkpointed { checkpoint } => {
            state.are_hooks_tested = true;
            // A compaction changes no code, so the base of the current work stays. Otherwise work
            // continues from what the user committed or checked out between two iterations.
            let is_new = state.base.is_none() || state.has_branch_moved(checkpoint);
            if is_new && current.role != Role::Compact {
                (state.base, state.counted_commits) = (Some(choose_base(state, checkpoint)), 0);
            }
            current.begin_work(checkpoint.clone());
        }
        Event::Asked {
            ask, purpose, prompt_chars, agent, token, session, instructions, ..
        } => {
            state.totals.asks += 1;
            state.calibration.record_prompt(*prompt_chars);
            current.asks = ask.0;
            if *purpose == Purpose::Work && takes_notes(current.role) {
                current.notes.append(&mut state.control.notes);
            }
            if let Some(call) = begin_call(current, purpose) {
                call.pending = Some(*ask);
                call.agent = Some(*agent);
                call.token.clone_from(token);
                call.is_resumed = session.is_some();
                call.instructions.clone_from(instructions);
            }
        }
        Event::Replied { ask, reply } => apply_reply(state, current, *ask, reply, recorded.at),
        Event::PlanSeen { look } => {
            if let Some(removed) = look.removed() {
                state.removed_items.clone_from(&removed.items);
            }
            // Before an agent call only what was removed is of interest.
            if current.checking().is_some() {
                current.update_checking(|it| it.plan = Some(look.clone()));
            }
        }
        Event::AgentListRead { diff } => {
            current.update_checking(|it| it.list_diff = Some(diff.clone()));
        }
        Event::Observed { observation, kept } => {
            apply_observation(state, current, observation.as_ref(), kept.as_deref());
        }
        Event::Refused { refusal, survey } => {
            apply_refusal(state, current, refusal.clone(), survey.as_deref());
        }
        Event::GateChecked { result, survey } => match Refusal::from_gate_result(result) {
            Some(refusal) => apply_refusal(state, current, refusal, None),
            None => apply_gate_result(state, current, result, survey.as_deref()),
        },
        Event::Rechecked { survey } => {
            current.update_checking(|checking| checking.record_recheck(survey.clone()));
        }
        Event::Judged { judgement } => {
            current.begin_landing((**judgement).clone(), LandingPlan::new([]));
            let plan = landing_plan::plan_landing(state, current);
            if let Phase::Landing(landing) = &mut current.phase {
                landing.plan = plan;
            }
        }
        Event::Landed { landed } => apply_landed(state, current, landed),
        Event::CandidateMerged { worker, outcome } => {
            merging::apply_merge(state, current, worker, outcome);
        }
        _ => {}
    }
}

/// Returns where the changes of a task begin whose first iteration starts from a checkpoint:
/// before restored work, as long as nothing was committed since.
fn choose_base(state: &RunState, checkpoint: &Checkpoint) -> Checkpoint {
    let before = state.recipe.task_work().and_then(|work| work.restored_onto.as_deref());
    before.filter(|before| before.head() == checkpoint.head()).unwrap_or(checkpoint).clone()
}

/// Returns the call that an agent is asked for, in the phase that such a call belongs to.
fn begin_call<'a>(current: &'a mut Iteration, purpose: &Purpose) -> Option<&'a mut AgentCallState> {
    match (&mut current.phase, purpose) {
        (Phase::Working(working), Purpose::Work) => Some(&mut working.call),
        (Phase::Checking(checking), Purpose::Work) => Some(&mut checking.work),
        (Phase::Checking(checking), Purpose::Gate(name)) => {
            let new = || GateReview { gate: name.clone(), call: AgentCallState::default() };
            Some(&mut checking.review.get_or_insert_with(new).call)
        }
        (Phase::Landing(landing), Purpose::Message) => {
            if landing.before_message.is_none() {
                landing.before_message = landing.plan.surveyed_state();
            }
            Some(&mut landing.checked.message)
        }
        (_, _) => None,
    }
}

fn apply_observation(
    state: &mut RunState,
    current: &mut Iteration,
    observation: Option<&Observation>,
    kept: Option<&str>,
) {
    state.may_repeat_history_reset = false;
    let of_gates = find_gate_changes(state, observation);
    let is_of_gate = |path: &str| of_gates.iter().any(|it| it.path == path);
    let changed = observation.iter().flat_map(|seen| &seen.autorun_changes);
    let changed = changed.filter(|it| !is_of_gate(&it.path)).cloned();
    let changed: Vec<AutorunChange> = changed.chain(of_gates.clone()).collect();
    let room = MAX_AUTORUN_CHANGES.saturating_sub(state.autorun_changes.len());
    state.autorun_changes.extend(changed.into_iter().take(room));
    if let (Some(seen), None) = (observation, kept) {
        count_commits(state, seen);
    }
    forget_passed_tree(state, current);
    let (observation, kept) = (observation.cloned(), kept.map(str::to_owned));
    current.update_checking(|it| it.record_observation(Observed { observation, kept }));
}

/// Returns the changed files that say what gates check.
fn find_gate_changes(state: &RunState, observation: Option<&Observation>) -> Vec<AutorunChange> {
    let is_known = |path: &str| state.autorun_changes.iter().any(|it| it.path == path);
    let files = observation.iter().flat_map(|seen| &seen.files).map(|file| &file.path);
    let changed = files.filter(|path| state.recipe.gate_files.contains(path) && !is_known(path));
    changed.map(|path| AutorunChange { path: path.clone(), kind: AutorunKind::Gate }).collect()
}

/// Forgets gates that passed on the observed tree: files were rewritten while they ran, so
/// their results cannot be reused.
fn forget_passed_tree(state: &mut RunState, current: &Iteration) {
    if let Some(observed) = current.observed_tree() {
        state.passed_trees.retain(|_, tree| tree != observed);
    }
}

/// Applies a refusal. It counts like a failed gate.
fn apply_refusal(
    state: &mut RunState,
    current: &mut Iteration,
    refusal: Refusal,
    survey: Option<&Survey>,
) {
    state.totals.gates += 1;
    state.totals.gate_failures += 1;
    if refusal.kind == RefusalKind::UnstableFiles {
        forget_passed_tree(state, current);
    }
    if refusal.kind == RefusalKind::Secrets {
        let leaks = current.observation().into_iter().flat_map(|seen| &seen.leaks);
        let files = leaks.filter(|leak| leak.can_be_allowed()).map(|leak| leak.path.clone());
        state.files_with_shapes.extend(files);
    }
    current.update_checking(|checking| {
        checking.refusals.push(refusal);
        if let Some(survey) = survey {
            checking.record_restored_paths(survey);
        }
    });
}

fn apply_gate_result(
    state: &mut RunState,
    current: &mut Iteration,
    result: &GateResult,
    survey: Option<&Survey>,
) {
    count_gate(state, result);
    // A run that failed may have ended before all tests.
    if let (Some(tests), GateStatus::Passed) = (result.tests, result.status) {
        let numbers = state.test_numbers.entry(result.gate.clone());
        numbers.or_insert(TestNumbers { before: tests, now: tests }).now = tests;
    }
    let (gates, ownership) = (&state.recipe.gates, state.recipe.ownership());
    let is_repeated = merging::must_repeat_gate(state, current, result);
    current.update_checking(|checking| {
        checking.review = None;
        // A cached result takes no time in which something could change.
        if result.end.is_some() {
            checking.record_survey_after_gate(survey.cloned(), ownership);
        }
        if is_repeated {
            *checking.repeats.entry(result.gate.clone()).or_default() += 1;
        } else {
            checking.insert_gate_result(result.clone(), gates);
        }
    });
    // After another gate had changed files, it passed on something else.
    if current.checking().is_some_and(|it| it.altered.is_empty()) {
        record_passed_tree(state, result, current.observed_tree().cloned());
    }
}

fn apply_landed(state: &mut RunState, current: &mut Iteration, landed: &Landed) {
    match landed {
        Landed::Committed { commit, .. } => {
            let tree = current.landing().and_then(|it| it.plan.surveyed_tree().cloned());
            state.last_commit = Some((commit.clone(), tree));
            state.totals.commits += 1;
            record_work_range(state, current);
            if current.has_unaccepted_work() {
                // ralph's own commit must not count as the agent's.
                state.counted_commits += 1;
            } else {
                state.base = None;
            }
        }
        Landed::NothingToCommit if current.has_unaccepted_work() => {}
        Landed::NothingToCommit | Landed::SavedToFailureBranch { .. } => state.base = None,
        // Changes of earlier attempts are still there and have not passed the gates.
        Landed::RolledBack { .. } => {
            if current.role != Role::Compact && state.base.as_ref() == current.checkpoint() {
                state.base = None;
            }
        }
        Landed::ListWritten => record_written_list(state, current),
        Landed::MessageChecked { .. }
        | Landed::Surveyed { .. }
        | Landed::CommitRefused { .. }
        | Landed::ScmRan { .. } => {}
    }
    let Phase::Landing(landing) = &mut current.phase else { return };
    landing.plan.record_done(landed.clone());
    match landed {
        Landed::MessageChecked { .. } => landing.before_message = None,
        Landed::Surveyed { changes: TreeDiff::Clean, .. } => {
            // With a source-control program, the commands around the commit run anyway.
            let keeps_commit = matches!(state.recipe.landing.commit, CommitPolicy::Scm(_));
            landing.plan.todo.retain(|step| match step {
                LandingStep::AskForMessage => false,
                LandingStep::Commit => keeps_commit,
                LandingStep::Rollback
                | LandingStep::SaveToFailureBranch
                | LandingStep::WriteList
                | LandingStep::Survey
                | LandingStep::RunScm(_)
                | LandingStep::PushFailureBranch => true,
            });
        }
        Landed::CommitRefused { .. } => {
            let todo = landing_plan::plan_after_refusal(state, current);
            if let Phase::Landing(landing) = &mut current.phase {
                landing.plan.todo = todo.into();
            }
        }
        Landed::Surveyed { .. }
        | Landed::Committed { .. }
        | Landed::NothingToCommit
        | Landed::ScmRan { .. }
        | Landed::ListWritten
        | Landed::SavedToFailureBranch { .. }
        | Landed::RolledBack { .. } => {}
    }
}

/// Records the list changes that were written to the task file ahead of the state.
fn record_written_list(state: &mut RunState, current: &Iteration) {
    if let Some(tasks) = &mut state.tasks {
        let settled = settle::settle_iteration(&state.recipe, tasks, current);
        tasks.mark_written_ahead(&settled.changes);
    }
}

/// Counts the agent's commits, where agents may commit.
fn count_commits(state: &mut RunState, seen: &Observation) {
    if let (true, History::Advanced { commits }) =
        (state.recipe.ownership().do_agents_commit(), seen.history)
    {
        state.totals.commits += commits.saturating_sub(state.counted_commits);
        state.counted_commits = commits;
    }
}

/// Records the change that a review of the task will look at.
pub(super) fn record_work_range(state: &mut RunState, current: &Iteration) {
    let surveyed = current.landed().iter().rev().find_map(Landed::surveyed_tree);
    if let (Some(tasks), Some(task), Role::Implement | Role::Fix) =
        (&mut state.tasks, &current.task, current.role)
        && let Some(Checkpoint::Git { tree: Some(from), .. }) = &state.base
        && let Some(to) = surveyed.or_else(|| current.observed_tree()).cloned()
    {
        tasks.record_commit(task, from.clone(), to, find_observed_instructions(current));
    }
}

/// Returns whether an agent was ended because the run has used up its time or money. The attempt
/// did not fail: a run that is resumed with more asks again.
fn is_ended_by_budget(
    state: &RunState,
    current: &Iteration,
    ask: AskNumber,
    reply: &Reply,
) -> bool {
    let is_limit = |failure: &Failure| {
        matches!(failure.class, FailureClass::HardTimeout | FailureClass::TurnLimit)
    };
    let is_work = current.work().is_some_and(|it| it.pending == Some(ask) && it.wrong.is_none());
    let budget = &state.recipe.limits.budget;
    is_work
        && reply.failure.as_ref().is_some_and(is_limit)
        && budget.find_exhausted(state.total_usage(), state.ran).is_some()
}

/// Applies the reply to a call.
fn apply_reply(
    state: &mut RunState,
    current: &mut Iteration,
    ask: AskNumber,
    reply: &Reply,
    at: Timestamp,
) {
    state.totals.usage = state.totals.usage.plus(reply.usage);
    state.totals.tools += reply.tools;
    state.calibration.learn_from_reply(reply);
    state.totals.leftovers += reply.end.leftovers.processes;
    let form = answer_check::check_answer_form(state, current, ask, reply);
    let is_cut_off = is_ended_by_budget(state, current, ask, reply);
    let Some(asking) = current.find_pending_call(ask) else { return };
    if is_cut_off {
        asking.pending = None;
        asking.last_failure.clone_from(&reply.failure);
        return;
    }
    agent_reply::apply_reply(asking, reply, form, at, &state.recipe);
    let is_refused =
        reply.failure.as_ref().is_some_and(|it| it.class == FailureClass::SchemaRefused);
    if let Some(agent) = asking.agent.filter(|_| is_refused)
        && !state.schema_refused_by.contains(&agent)
    {
        state.schema_refused_by.push(agent);
    }
    if asking.end.is_none() {
        match &reply.failure {
            // The user stopped it; nothing failed.
            Some(failure) if failure.class == FailureClass::Interrupted => {}
            Some(_) => state.totals.retries += 1,
            None => state.totals.follow_ups += 1,
        }
    }
    current.check_after_answer();
}
