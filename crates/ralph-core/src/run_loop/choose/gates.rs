//! Chooses the next gate: which are due after this iteration, which count as passed, and
//! which refusals come before any of them.

use std::iter;

use ralph_model::agent_call_state::AgentCallEnd;
use ralph_model::event::Purpose;
use ralph_model::gate::{
    Gate, GateCheck, GatePersistence, GateResult, GateReuse, GateStatus, Severity,
};
use ralph_model::glob;
use ralph_model::ids::{Role, TaskId};
use ralph_model::outcome::{Outcome, SandboxBlockedGate};
use ralph_model::phase::{Checking, Iteration};
use ralph_model::recipe::{CommitOwner, HistoryOwner, Recipe, Uncommitted};
use ralph_model::refusal::RefusalKind;
use ralph_model::run::RunState;
use ralph_model::worktree::Observation;

use super::{Step, choose_call_step, give_up, merging};
use crate::ports::Moment;

/// Returns whether the work tree must be compared with what the gates ran on before the
/// iteration is judged: what passed must be what is left, with or without a commit by ralph.
pub(crate) fn needs_recheck(role: Role, checking: &Checking) -> bool {
    let is_work = match role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix | Role::Merge => true,
        Role::Review | Role::Compact | Role::Message => false,
    };
    is_work && checking.observation().is_some() && !checking.has_failed()
}

/// Chooses the next check of work whose agent has answered, or to judge it.
pub(super) fn choose_check_step(
    state: &RunState,
    current: &Iteration,
    checking: &Checking,
    moment: Moment,
) -> Step {
    if current.role == Role::Merge {
        return merging::choose_merge_check(state, current, checking, moment);
    }
    match &checking.work.end {
        // The user does not skip the task after all.
        None => choose_call_step(state, current, Purpose::Work, moment),
        // The loop continues without a memory.
        Some(AgentCallEnd::Hopeless(_)) if current.role == Role::Compact => Step::Judge,
        Some(AgentCallEnd::Hopeless(failure)) => give_up(current, failure),
        Some(AgentCallEnd::FailedAttempt(_)) => Step::Judge,
        Some(AgentCallEnd::Answered(_)) => choose_after_work(state, current, checking, moment),
    }
}

/// Chooses the next check of work that is in the tree, or to judge it.
pub(super) fn choose_after_work(
    state: &RunState,
    current: &Iteration,
    checking: &Checking,
    moment: Moment,
) -> Step {
    let is_rechecked = || {
        checking.is_rechecked
            || !checking.has_run_commands()
            || !needs_recheck(current.role, checking)
    };
    match choose_gate_step(state, current, checking, moment) {
        None | Some(Step::Ask { .. }) if !is_rechecked() => Step::Recheck,
        None => match find_blocked_gate(checking) {
            Some(gate) => Step::Finish(Outcome::SandboxBlocked { gate: Box::new(gate) }),
            None => Step::Judge,
        },
        Some(step) => step,
    }
}

/// Returns the first gate that failed because of the sandbox, if nothing else is wrong.
fn find_blocked_gate(checking: &Checking) -> Option<SandboxBlockedGate> {
    if !checking.refusals.is_empty() {
        return None;
    }
    let failed = || checking.gates.iter().filter(|result| result.is_hard_failure());
    let first = failed().next()?;
    let sign = first.sandbox.as_ref().filter(|_| failed().all(|it| it.sandbox.is_some()))?;
    Some(SandboxBlockedGate { command: first.command.clone(), sign: (**sign).clone() })
}

/// Chooses the next reading, refusal or gate, or nothing when all have a result.
fn choose_gate_step(
    state: &RunState,
    current: &Iteration,
    checking: &Checking,
    moment: Moment,
) -> Option<Step> {
    let recipe = &state.recipe;
    // A compaction changes no code.
    if current.role == Role::Compact {
        return None;
    }
    if checking.was_stopped {
        return Some(Step::Recheck);
    }
    // A review only gives a verdict; its changes to the tree are discarded. Where the
    // agent owns the task list, the verdict is read from the list.
    if current.role == Role::Review
        && (checking.observed.is_some() || !recipe.is_list_owned_by_agent())
    {
        return None;
    }
    if recipe.plan.is_some() && checking.plan.is_none() {
        return Some(Step::RecordPlanState);
    }
    if checking.observed.is_none() && needs_observation(recipe, current.role) {
        return Some(Step::Observe);
    }
    if let Some(kind) = find_refusal(state, current, checking) {
        return Some(Step::Refuse(kind));
    }
    let has_failed = checking.has_failed();
    let (gate, spec, severity) = select_due_gates(recipe, current.role, checking.observation())
        .filter(|(_, gate, _)| !has_failed || gate.persistence == GatePersistence::Always)
        .find(|(_, gate, _)| checking.gates.iter().all(|result| result.gate != gate.name))?;
    let tree = current.observed_tree();
    let is_green = tree.is_some() && state.passed_trees.get(&spec.name) == tree;
    Some(match (spec.reuse, &spec.check) {
        (GateReuse::SameTree, _) if is_green => Step::Reuse { gate, severity },
        // The worker ran it on exactly this code a moment ago.
        (GateReuse::Never, _) if is_green && merging::is_unchanged_base(checking) => {
            Step::Reuse { gate, severity }
        }
        (GateReuse::SameTree | GateReuse::Never, GateCheck::Command(_)) => {
            Step::Check { gate, severity }
        }
        (GateReuse::SameTree | GateReuse::Never, GateCheck::Agent(_)) => {
            let end = checking.review.as_ref().and_then(|review| review.call.end.as_ref());
            match (end, severity) {
                (None, _) => {
                    choose_call_step(state, current, Purpose::Gate(spec.name.clone()), moment)
                }
                // Without the verdict of a hard gate the work cannot be kept.
                (Some(AgentCallEnd::Hopeless(failure)), Severity::Hard) => {
                    give_up(current, failure)
                }
                (Some(_), _) => Step::RecordVerdict { gate, severity },
            }
        }
    })
}

/// Returns why the work is refused before any gate runs, unless that is recorded already.
fn find_refusal(state: &RunState, current: &Iteration, checking: &Checking) -> Option<RefusalKind> {
    let seen = checking.observation()?;
    let is_committed = state.recipe.ownership().commits != CommitOwner::NoOne;
    let is_due = |kind: &RefusalKind| match kind {
        RefusalKind::ProtectedPaths => !find_forbidden_paths(state, current, seen).is_empty(),
        RefusalKind::GitTampering => !seen.git_tampering.is_empty(),
        RefusalKind::ConflictMarkers => !seen.conflict_markers.is_empty(),
        RefusalKind::Secrets => is_committed && !seen.leaks.is_empty(),
        // Found when the tree is compared and when the hook runs.
        RefusalKind::UnstableFiles | RefusalKind::CommitHook => false,
    };
    [
        RefusalKind::ProtectedPaths,
        RefusalKind::GitTampering,
        RefusalKind::Secrets,
        RefusalKind::ConflictMarkers,
    ]
    .into_iter()
    .filter(|kind| !checking.is_refused(*kind))
    .find(is_due)
}

/// Returns the gates that run after a role, with their index and severity.
pub(in crate::run_loop) fn select_due_gates<'a>(
    recipe: &'a Recipe,
    role: Role,
    observation: Option<&'a Observation>,
) -> impl Iterator<Item = (usize, &'a Gate, Severity)> {
    recipe.gates.iter().enumerate().filter_map(move |(place, gate)| {
        let severity = recipe.strategy.find_severity(gate)?;
        // Merged work has to pass what a worker's work has to pass.
        let is_for_role = gate.roles.is_empty()
            || gate.roles.contains(&role)
            || (role == Role::Merge && gate.roles.iter().any(|it| it.is_attempt()));
        (is_for_role && is_for_changed_paths(gate, observation)).then_some((place, gate, severity))
    })
}

/// Returns whether a gate applies to the changed paths. True if the changes are unknown
/// or more than can be listed.
fn is_for_changed_paths(gate: &Gate, observation: Option<&Observation>) -> bool {
    let Some(observation) = observation else { return true };
    gate.paths.is_empty()
        || observation.more_files > 0
        || observation
            .files
            .iter()
            .any(|file| gate.paths.iter().any(|pattern| pattern.matches(&file.path)))
}

/// Returns the gates of the baseline: the hard commands.
pub(super) fn select_baseline_gates(
    recipe: &Recipe,
) -> impl Iterator<Item = (usize, &Gate, Severity)> {
    recipe.gates.iter().enumerate().filter_map(|(place, gate)| {
        let severity = recipe.strategy.find_severity(gate)?;
        let is_command = match gate.check {
            GateCheck::Command(_) => true,
            GateCheck::Agent(_) => false,
        };
        (severity == Severity::Hard && is_command).then_some((place, gate, severity))
    })
}

/// Returns whether the tree is observed after the agent: for a gate that may be reused,
/// to judge the work by its changes, or to detect iterations that change nothing.
fn needs_observation(recipe: &Recipe, role: Role) -> bool {
    let may_reuse =
        select_due_gates(recipe, role, None).any(|(_, gate, _)| gate.reuse == GateReuse::SameTree);
    let ownership = recipe.ownership();
    let is_task = ownership.list.is_some();
    let is_commit_looked_at =
        ownership.history == HistoryOwner::Ralph || ownership.do_agents_commit();
    let notices_idling = recipe.limits.unchanged.is_some();
    may_reuse || is_task || is_commit_looked_at || notices_idling || has_path_rules(recipe)
}

/// Returns whether a recipe has rules about changed paths, or reports uncommitted ones to
/// the agent.
pub(super) fn has_path_rules(recipe: &Recipe) -> bool {
    !recipe.protect.is_empty()
        || recipe.landing.uncommitted == Uncommitted::Reported
        || !recipe.scope.is_empty()
        || recipe.gates.iter().any(|gate| !gate.paths.is_empty())
}

/// Returns the changed paths that this iteration may not change.
pub(crate) fn find_forbidden_paths(
    state: &RunState,
    current: &Iteration,
    observation: &Observation,
) -> Vec<String> {
    let paths = observation.files.iter().map(|file| file.path.as_str());
    let paths = paths.filter(|path| is_forbidden_path(state, current, path));
    paths.map(str::to_owned).collect()
}

/// Returns whether this iteration may not change a path.
pub(crate) fn is_forbidden_path(state: &RunState, current: &Iteration, path: &str) -> bool {
    let recipe = &state.recipe;
    let is_forbidden = recipe.is_protected(path) || !glob::is_in_scope(&recipe.scope, path);
    is_forbidden && !drop_named_paths(state, Some(current), iter::once(path)).is_empty()
}

/// Returns the changed paths that are protected. A task written by the user permits the
/// paths it names, except locked ones.
pub(crate) fn find_protected_paths(state: &RunState, changed: &[String]) -> Vec<String> {
    let is_protected = |path: &&str| state.recipe.is_protected(path);
    let paths = changed.iter().map(String::as_str).filter(is_protected);
    drop_named_paths(state, state.current.as_ref(), paths)
}

fn drop_named_paths<'a>(
    state: &RunState,
    current: Option<&Iteration>,
    paths: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let task = current
        .and_then(|current| current.task.as_ref())
        .and_then(|id| state.tasks.as_ref().and_then(|tasks| tasks.list.find_task(id)));
    // A task that an agent wrote permits nothing.
    let is_given = |id: &TaskId| {
        state.tasks.as_ref().is_some_and(|tasks| !tasks.written_by_agents.contains(id))
    };
    let task = task.filter(|task| is_given(&task.id));
    let is_named = |path: &str| {
        task.is_some_and(|task| task.has_mention_of(path)) && !state.recipe.is_locked(path)
    };
    paths.filter(|path| !is_named(path)).map(str::to_owned).collect()
}

/// Returns the result of a gate that counts as passed.
pub fn build_cached_result(gate: &Gate, severity: Severity) -> GateResult {
    GateResult::new(gate.name.clone(), gate.check.label().to_owned(), severity, GateStatus::Cached)
}
