//! Chooses the next gate: which are due after this iteration, which count as passed, and
//! which refusals come before any of them.

use ralph_model::agent_call_state::AgentCallEnd;
use ralph_model::child::{ChildEnd, Ending, Leftovers, SoftLimit};
use ralph_model::event::Purpose;
use ralph_model::gate::{
    Gate, GateCheck, GatePersistence, GateResult, GateReuse, GateStatus, Severity,
};
use ralph_model::glob;
use ralph_model::ids::{Role, TaskId};
use ralph_model::recipe::{CommitPolicy, Recipe, Uncommitted, Work};
use ralph_model::run::{Iteration, RunState};
use ralph_model::units::Millis;
use ralph_model::worktree::Observation;

use super::{Step, choose_call_step, give_up};
use crate::checking::stuck::ErrorHasher;
use crate::ports::Moment;

/// The gate name under which a change of protected paths fails an attempt.
pub(crate) const PROTECTED_PATHS: &str = "protected paths";

/// The gate name under which added secrets fail an attempt.
pub(crate) const SECRETS: &str = "secrets";

/// The gate name under which changes to git's own files fail an attempt.
pub(crate) const GIT_TAMPERING: &str = "git's own files";

/// The gate name under which gates that change files each time fail an attempt.
pub(crate) const UNSTABLE_FILES: &str = "files changed by gates";

/// Returns whether the work tree must be compared with what the gates ran on before the
/// iteration is judged: ralph is going to commit it, if it passes.
pub(crate) fn needs_recheck(state: &RunState, current: &Iteration) -> bool {
    let is_work = match current.role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix => true,
        Role::Review | Role::Compact | Role::Message => false,
    };
    is_work
        && state.recipe.landing.is_history_owned_by_ralph()
        && current.judgement.is_none()
        && !current.gates.iter().any(GateResult::is_hard_failure)
}

/// Chooses the next gate, or nothing when all have a result.
pub(super) fn choose_gate_step(
    state: &RunState,
    current: &Iteration,
    moment: Moment,
) -> Option<Step> {
    if current.judgement.is_some() {
        return None;
    }
    let recipe = &state.recipe;
    // A compaction changes no code.
    if current.role == Role::Compact {
        return None;
    }
    // A review only gives a verdict; its changes to the tree are discarded. Where the
    // agent owns the task list, the verdict is read from the list.
    if current.role == Role::Review
        && (current.observed.is_some() || !recipe.is_list_owned_by_agent())
    {
        return None;
    }
    if recipe.plan.is_some() && current.plan.is_none() {
        return Some(Step::RecordPlanState);
    }
    if current.observed.is_none() && needs_observation(recipe, current.role) {
        return Some(Step::Observe);
    }
    let observation = current.observation();
    if let Some(step) = choose_refusal_step(state, current, observation) {
        return Some(step);
    }
    let has_result = |name| current.gates.iter().any(|result| result.gate == name);
    if observation.is_some_and(|seen| !seen.git_tampering.is_empty()) && !has_result(GIT_TAMPERING)
    {
        return Some(Step::RefuseGitTampering);
    }
    let is_committed = match recipe.landing.commit {
        CommitPolicy::Ralph | CommitPolicy::Agent | CommitPolicy::Scm(_) => true,
        CommitPolicy::NoCommit => false,
    };
    let has_leaks = observation.is_some_and(|seen| !seen.leaks.is_empty());
    if is_committed && has_leaks && !has_result(SECRETS) {
        return Some(Step::RefuseLeaks);
    }
    let has_failed = current.gates.iter().any(GateResult::is_hard_failure);
    let (gate, spec, severity) = select_due_gates(recipe, current.role, observation)
        .filter(|(_, gate, _)| !has_failed || gate.persistence == GatePersistence::Always)
        .find(|(_, gate, _)| current.gates.iter().all(|result| result.gate != gate.name))?;
    let tree = current.observed_tree();
    let is_green = tree.is_some() && state.passed_trees.get(&spec.name) == tree;
    Some(match (spec.reuse, &spec.check) {
        (GateReuse::SameTree, _) if is_green => Step::Reuse { gate, severity },
        (GateReuse::SameTree | GateReuse::Never, GateCheck::Command(_)) => {
            Step::Check { gate, severity }
        }
        (GateReuse::SameTree | GateReuse::Never, GateCheck::Agent(_)) => {
            match (&current.gate.end, severity) {
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

/// Returns the gates that run after a role, with their index and severity.
fn select_due_gates<'a>(
    recipe: &'a Recipe,
    role: Role,
    observation: Option<&'a Observation>,
) -> impl Iterator<Item = (usize, &'a Gate, Severity)> {
    recipe.gates.iter().enumerate().filter_map(move |(place, gate)| {
        let severity = recipe.strategy.find_severity(gate)?;
        let is_for_role = gate.roles.is_empty() || gate.roles.contains(&role);
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
    let is_task = match recipe.work {
        Work::Tasks(_) => true,
        Work::Prompt(_) => false,
    };
    let landing = &recipe.landing;
    let is_commit_looked_at =
        landing.is_history_owned_by_ralph() || landing.commit == CommitPolicy::Agent;
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

/// Refuses work that changed forbidden paths, unless its task names them.
fn choose_refusal_step(
    state: &RunState,
    current: &Iteration,
    observation: Option<&Observation>,
) -> Option<Step> {
    if current.gates.iter().any(|result| result.gate == PROTECTED_PATHS) {
        return None;
    }
    let paths = find_forbidden_paths(state, current, observation?);
    (!paths.is_empty()).then_some(Step::Refuse { paths })
}

/// Returns the changed paths that this iteration may not change.
pub(crate) fn find_forbidden_paths(
    state: &RunState,
    current: &Iteration,
    observation: &Observation,
) -> Vec<String> {
    let recipe = &state.recipe;
    let is_forbidden =
        |path: &str| recipe.is_protected(path) || !glob::is_in_scope(&recipe.scope, path);
    let paths = observation.files.iter().map(|file| file.path.as_str());
    drop_named_paths(state, Some(current), paths.filter(|path| is_forbidden(path)))
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
    GateResult {
        gate: gate.name.clone(),
        command: gate.check.label().to_owned(),
        severity,
        status: GateStatus::Cached,
        end: None,
        log: None,
        output: String::new(),
        hash: None,
        failing: Vec::new(),
        reason: None,
        sandbox: None,
    }
}

/// Returns a failed gate result for one of ralph's own refusals, so that it is reported
/// and remembered like a gate.
pub fn build_refusal_result(name: &str, output: String) -> GateResult {
    let mut hasher = ErrorHasher::new(name);
    hasher.feed_text(&output);
    GateResult {
        gate: name.to_owned(),
        command: name.to_owned(),
        severity: Severity::Hard,
        status: GateStatus::Failed,
        end: Some(ChildEnd {
            ending: Ending::Exited { code: 1 },
            ran: Millis::ZERO,
            soft_limit: SoftLimit::Kept,
            leftovers: Leftovers::default(),
        }),
        log: None,
        output,
        hash: Some(hasher.finish_hash()),
        failing: Vec::new(),
        reason: None,
        sandbox: None,
    }
}
