//! The fold: applies the events of a journal to the state of a run.
//!
//! Not here: the next step, which `choose` decides from the state.

mod agent_reply;
mod answer_check;
mod control_events;
mod iteration_end;
mod resume;
mod task_results;

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::agent_call_state::AgentCallState;
use ralph_model::agent_output::Reply;
use ralph_model::context::Calibration;
use ralph_model::control::{Control, takes_notes};
use ralph_model::event::{Event, Purpose, REMOVED_NAME, Recorded, WaitReason};
use ralph_model::failure::FailureClass;
use ralph_model::fingerprint::Fingerprint;
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::ids::{AskNumber, Role};
use ralph_model::memory::SinceCompaction;
use ralph_model::recipe::CommitPolicy;
use ralph_model::run::{Baseline, Completeness, Iteration, Observed, RunState, Totals};
use ralph_model::task_state::TaskState;
use ralph_model::units::Timestamp;
use ralph_model::worktree::{
    Checkpoint, History, Landed, MAX_AUTORUN_CHANGES, Observation, TreeId,
};

use crate::run_loop::settle;

pub use iteration_end::{Durability, PendingList, build_pending_list};

/// More different warnings than a user reads; further ones may be repeated.
const MAX_KNOWN_WARNINGS: usize = 200;

/// An event that cannot follow from the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} does not fit: {reason}")]
pub struct FoldError {
    pub seq: u64,
    pub reason: &'static str,
}

/// Returns the state after the first event of a journal.
pub fn start_state(first: &Recorded) -> Result<RunState, FoldError> {
    let Event::RunStarted { run, project, recipe, journal: _, version: _ } = &first.event else {
        return Err(FoldError { seq: first.seq, reason: "a journal begins with `run_started`" });
    };
    Ok(RunState {
        run: run.clone(),
        project: project.clone(),
        recipe: (**recipe).clone(),
        started: first.at,
        seq: first.seq,
        ran: first.ran,
        iterations: 0,
        current: None,
        last_ended: None,
        feedback: Vec::new(),
        rejected_open_items: None,
        unchanged: 0,
        last_tree: None,
        passed_trees: BTreeMap::new(),
        autorun_changes: BTreeSet::new(),
        tasks: None,
        baseline: None,
        base: None,
        counted_commits: 0,
        handoffs: Vec::new(),
        memory: recipe.memory.as_ref().and_then(|policy| policy.known.clone()),
        since_compaction: SinceCompaction::default(),
        calibration: Calibration::default(),
        schema_refused_by: Vec::new(),
        completeness: Completeness::Open,
        totals: Totals::default(),
        waiting_since: None,
        control: Control::default(),
        outcome: None,
        end_snapshot: None,
        warned: BTreeSet::new(),
    })
}

/// Returns the state after all events of a journal.
pub fn fold_events<'a>(
    events: impl IntoIterator<Item = &'a Recorded>,
) -> Result<RunState, FoldError> {
    let mut events = events.into_iter();
    let first = events.next().ok_or(FoldError { seq: 0, reason: "the journal is empty" })?;
    let mut state = start_state(first)?;
    for recorded in events {
        apply_event(&mut state, recorded)?;
    }
    Ok(state)
}

/// Applies the next event.
pub fn apply_event(state: &mut RunState, recorded: &Recorded) -> Result<(), FoldError> {
    let misfit = |reason| FoldError { seq: recorded.seq, reason };
    if recorded.seq != state.seq + 1 {
        return Err(misfit("its number does not follow"));
    }
    state.seq = recorded.seq;
    state.ran = state.ran.max(recorded.ran);
    count_wait(state, recorded);
    match &recorded.event {
        Event::RunStarted { .. } => return Err(misfit("the run has begun before")),
        Event::RunResumed { recipe, meanwhile, version: _ } => {
            resume::apply_resume(state, recipe.as_deref(), meanwhile.as_ref());
        }
        Event::TasksRead { list, remarks: _ } => {
            match &mut state.tasks {
                Some(tasks) => tasks.replace_list((**list).clone()),
                None => state.tasks = Some(TaskState::new((**list).clone())),
            }
            // The file is about to be restored, and may already be if ralph dies now.
            if let Some(current) = &mut state.current {
                current.reset_list_landing();
            }
        }
        Event::TasksWritten => {
            if let Some(tasks) = &mut state.tasks {
                tasks.mark_written();
            }
            if let Some(current) = &mut state.current {
                current.reset_list_landing();
            }
        }
        Event::BaselineStarted { tree } => {
            state.baseline = Some(Baseline { tree: tree.clone(), results: Vec::new() });
        }
        Event::BaselineChecked { result } => apply_baseline_result(state, result),
        Event::IterationStarted { iteration, role, task } => {
            state.iterations = iteration.0;
            // An agent that owns or commits the list finds it unchanged.
            if let (Some(tasks), Some(task), Role::Implement | Role::Fix) =
                (&mut state.tasks, task, role)
                && !state.recipe.is_list_owned_by_agent()
                && state.recipe.landing.commit != CommitPolicy::Agent
            {
                tasks.mark_in_progress(task);
            }
            let open = Iteration::new(*iteration, *role, task.clone(), recorded);
            state.current = Some(open);
        }
        Event::Waiting { reason, until: _ } => {
            state.waiting_since = (*reason == WaitReason::UsageLimit).then_some(recorded.at);
        }
        Event::ControlRequested { .. } | Event::Paused | Event::TaskSkipped { .. } => {
            control_events::apply_control_event(state, recorded);
        }
        Event::Warned { text } => apply_warning(state, text),
        Event::IterationEnded { .. } => iteration_end::close_iteration(state, recorded.at),
        Event::RunEnded { outcome, left } => {
            (state.outcome, state.end_snapshot) = (Some(outcome.clone()), left.clone());
        }
        Event::Checkpointed { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::PlanSeen { .. }
        | Event::AgentListRead { .. }
        | Event::Observed { .. }
        | Event::GateChecked { .. }
        | Event::Judged { .. }
        | Event::Landed { .. } => {
            let mut current = state.current.take().ok_or(misfit("no iteration is open"))?;
            apply_in_iteration(state, &mut current, recorded);
            state.current = Some(current);
        }
    }
    Ok(())
}

/// Counts a warning, keeps that it was given, and keeps removed files for the next prompt.
fn apply_warning(state: &mut RunState, text: &str) {
    state.totals.warnings += 1;
    if state.warned.len() < MAX_KNOWN_WARNINGS {
        state.warned.insert(Fingerprint::from_texts([text]));
    }
    if let (Some(current), Some(removed)) = (&mut state.current, text.strip_prefix(REMOVED_NAME)) {
        current.removed.push(removed.to_owned());
    }
}

/// Counts a wait that ends with this event. A wait that a crash cut short is not
/// counted: its length is unknown.
fn count_wait(state: &mut RunState, recorded: &Recorded) {
    let Some(since) = state.waiting_since.take() else { return };
    if !matches!(recorded.event, Event::RunResumed { .. }) {
        state.totals.waited = state.totals.waited.saturating_add(recorded.at.elapsed_since(since));
    }
}

/// Applies an event of the open iteration.
fn apply_in_iteration(state: &mut RunState, current: &mut Iteration, recorded: &Recorded) {
    match &recorded.event {
        Event::Checkpointed { checkpoint } => {
            current.checkpoint = Some(checkpoint.clone());
            // A compaction changes no code, so the base of the current work stays.
            if state.base.is_none() && current.role != Role::Compact {
                (state.base, state.counted_commits) = (Some(checkpoint.clone()), 0);
            }
        }
        Event::Asked { ask, purpose, prompt_chars, agent, token, .. } => {
            state.totals.asks += 1;
            state.calibration.record_prompt(*prompt_chars);
            current.asks = ask.0;
            if *purpose == Purpose::Work && takes_notes(current.role) {
                current.notes.append(&mut state.control.notes);
            }
            let asking = current.call_state_mut(purpose);
            asking.pending = Some(*ask);
            asking.agent = Some(*agent);
            asking.token.clone_from(token);
            if let Purpose::Gate(name) = purpose {
                current.gate_asked = Some(name.clone());
            }
            if current.pre_question.is_none() {
                current.pre_question = match purpose {
                    Purpose::Work => None,
                    Purpose::Gate(_) => state.observed_state_of(current),
                    Purpose::Message => current.surveyed_state(),
                };
            }
        }
        Event::Replied { ask, reply } => apply_reply(state, current, *ask, reply, recorded.at),
        Event::PlanSeen { look } => current.plan = Some(look.clone()),
        Event::AgentListRead { diff } => current.list_diff = Some(diff.clone()),
        Event::Observed { observation, kept } => {
            let changed = observation.iter().flat_map(|seen| &seen.autorun_changes);
            let room = MAX_AUTORUN_CHANGES.saturating_sub(state.autorun_changes.len());
            state.autorun_changes.extend(changed.take(room).cloned());
            if let (Some(seen), None) = (observation, kept) {
                count_commits(state, seen);
            }
            if current.observed.is_some() {
                // Files were rewritten after these gates passed, so their results
                // cannot be reused.
                let before = current.observed_tree().cloned();
                state.passed_trees.retain(|_, tree| Some(&*tree) != before.as_ref());
                current.restart_gates();
            }
            let (observation, kept) = (observation.clone(), kept.clone());
            current.observed = Some(Observed { observation, kept });
        }
        Event::GateChecked { result } => {
            count_gate(state, result);
            let tree = current.observed_tree().cloned();
            record_passed_tree(state, result, tree);
            current.gate = AgentCallState::default();
            current.pre_question = None;
            current.insert_gate_result(result.clone(), &state.recipe.gates);
        }
        Event::Judged { judgement } => current.judgement = Some((**judgement).clone()),
        Event::Landed { landed } => {
            match landed {
                Landed::Committed { .. } => {
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
                Landed::NothingToCommit | Landed::SavedToFailureBranch { .. } => {
                    state.base = None;
                }
                // Changes of earlier attempts are still there and have not passed the
                // gates.
                Landed::RolledBack { .. } => {
                    if current.role != Role::Compact && state.base == current.checkpoint {
                        state.base = None;
                    }
                }
                Landed::MessageChecked { .. } => current.pre_question = None,
                Landed::ListWritten => record_written_list(state, current),
                Landed::Surveyed { .. } | Landed::CommitRefused { .. } | Landed::ScmRan { .. } => {}
            }
            current.landed.push(landed.clone());
        }
        Event::RunStarted { .. }
        | Event::RunResumed { .. }
        | Event::TasksRead { .. }
        | Event::TasksWritten
        | Event::BaselineStarted { .. }
        | Event::BaselineChecked { .. }
        | Event::IterationStarted { .. }
        | Event::Waiting { .. }
        | Event::ControlRequested { .. }
        | Event::Paused
        | Event::TaskSkipped { .. }
        | Event::Warned { .. }
        | Event::IterationEnded { .. }
        | Event::RunEnded { .. } => {}
    }
}

/// Records the list changes that were written to the task file ahead of the state.
fn record_written_list(state: &mut RunState, current: &Iteration) {
    if let (Some(tasks), Some(work), Some(task)) =
        (&mut state.tasks, state.recipe.task_work(), &current.task)
    {
        let settled =
            settle::settle_iteration(work, tasks.attempt_log(task).failed, &tasks.list, current);
        tasks.mark_written_ahead(&settled.changes);
    }
}

/// Counts the agent's commits, where agents may commit.
fn count_commits(state: &mut RunState, seen: &Observation) {
    if let (CommitPolicy::Agent, History::Advanced { commits }) =
        (&state.recipe.landing.commit, seen.history)
    {
        state.totals.commits += commits.saturating_sub(state.counted_commits);
        state.counted_commits = commits;
    }
}

/// Records the change that a review of the task will look at.
fn record_work_range(state: &mut RunState, current: &Iteration) {
    let surveyed = current.landed.iter().find_map(Landed::surveyed_tree);
    if let (Some(tasks), Some(task), Role::Implement | Role::Fix) =
        (&mut state.tasks, &current.task, current.role)
        && let Some(Checkpoint::Git { tree: Some(from), .. }) = &state.base
        && let Some(to) = surveyed.or_else(|| current.observed_tree()).cloned()
    {
        tasks.record_commit(task, from.clone(), to);
    }
}

fn apply_baseline_result(state: &mut RunState, result: &GateResult) {
    count_gate(state, result);
    let tree = state.baseline.as_ref().and_then(|baseline| baseline.tree.clone());
    record_passed_tree(state, result, tree);
    if let Some(baseline) = &mut state.baseline {
        baseline.results.push(result.clone());
    }
}

fn count_gate(state: &mut RunState, result: &GateResult) {
    state.totals.gates += 1;
    if result.status == GateStatus::Failed {
        state.totals.gate_failures += 1;
    }
    if let Some(end) = &result.end {
        state.totals.leftovers += end.leftovers.processes;
    }
}

fn record_passed_tree(state: &mut RunState, result: &GateResult, tree: Option<TreeId>) {
    match (result.status, tree) {
        (GateStatus::Passed | GateStatus::Cached, Some(tree)) => {
            state.passed_trees.insert(result.gate.clone(), tree);
        }
        (GateStatus::Failed, _) | (_, None) => {}
    }
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
    let asking = [&mut current.message, &mut current.gate, &mut current.work]
        .into_iter()
        .find(|asking| asking.pending == Some(ask));
    let Some(asking) = asking else { return };
    agent_reply::apply_reply(asking, reply, form, at, &state.recipe);
    let is_refused =
        reply.failure.as_ref().is_some_and(|it| it.class == FailureClass::SchemaRefused);
    if let Some(agent) = asking.agent.filter(|_| is_refused)
        && !state.schema_refused_by.contains(&agent)
    {
        state.schema_refused_by.push(agent);
    }
    if asking.end.is_none() {
        state.totals.retries += 1;
    }
}
