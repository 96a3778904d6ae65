//! Chooses the next gate: which are due after this iteration, which count as passed, and
//! which refusals come before any of them.

use super::{Step, ask, give_up};
use crate::asking::AskingEnd;
use crate::child::{ChildEnd, Ending, Leftovers, SoftLimit};
use crate::event::{Observation, Purpose};
use crate::gate::{Check, Gate, GateResult, GateStatus, Persistence, Reuse, Severity};
use crate::glob;
use crate::ids::{Role, TaskId};
use crate::ports::Moment;
use crate::recipe::{CommitPolicy, Recipe, Uncommitted, Work};
use crate::run::{Iteration, RunState};
use crate::stuck::ErrorHasher;
use crate::units::Millis;

/// The gate name under which a change of protected paths fails an attempt.
pub(crate) const PROTECTED: &str = "protected paths";

/// The gate name under which added secrets fail an attempt.
pub(crate) const SECRETS: &str = "secrets";

/// The gate name under which changes to git's own files fail an attempt.
pub(crate) const MEDDLING: &str = "git's own files";

/// The gate name under which gates that change files each time fail an attempt.
pub(crate) const UNSTABLE: &str = "files changed by gates";

/// Returns whether the work tree must be compared with what the gates ran on before the
/// iteration is judged: ralph is going to commit it, if it passes.
pub(crate) fn needs_recheck(state: &RunState, current: &Iteration) -> bool {
    let is_work = match current.role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix => true,
        Role::Review | Role::Compact | Role::Message => false,
    };
    is_work
        && state.recipe.landing.is_history_ralphs()
        && current.judgement.is_none()
        && !current.gates.iter().any(GateResult::is_hard_failure)
}

/// Chooses the next gate, or nothing when all have a result.
pub(super) fn check(state: &RunState, current: &Iteration, moment: Moment) -> Option<Step> {
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
    if current.role == Role::Review && (current.observed.is_some() || !recipe.is_kept_by_agent()) {
        return None;
    }
    if recipe.plan.is_some() && current.plan.is_none() {
        return Some(Step::SeePlan);
    }
    if current.observed.is_none() && is_observed(recipe, current.role) {
        return Some(Step::Observe);
    }
    let observation = current.observation();
    if let Some(step) = refuse(state, current, observation) {
        return Some(step);
    }
    let has_result = |name| current.gates.iter().any(|result| result.gate == name);
    if observation.is_some_and(|seen| !seen.meddling.is_empty()) && !has_result(MEDDLING) {
        return Some(Step::RefuseMeddling);
    }
    let is_committed = match recipe.landing.commit {
        CommitPolicy::Ralph | CommitPolicy::Agent | CommitPolicy::Scm(_) => true,
        CommitPolicy::Nobody => false,
    };
    let has_leaks = observation.is_some_and(|seen| !seen.leaks.is_empty());
    if is_committed && has_leaks && !has_result(SECRETS) {
        return Some(Step::RefuseLeaks);
    }
    let has_failed = current.gates.iter().any(GateResult::is_hard_failure);
    let (gate, spec, severity) = due(recipe, current.role, observation)
        .filter(|(_, gate, _)| !has_failed || gate.persistence == Persistence::Always)
        .find(|(_, gate, _)| current.gates.iter().all(|result| result.gate != gate.name))?;
    let tree = current.observed_tree();
    let is_green = tree.is_some() && state.green.get(&spec.name) == tree;
    Some(match (spec.reuse, &spec.check) {
        (Reuse::SameTree, _) if is_green => Step::Reuse { gate, severity },
        (Reuse::SameTree | Reuse::Never, Check::Command(_)) => Step::Check { gate, severity },
        (Reuse::SameTree | Reuse::Never, Check::Agent(_)) => match (&current.gate.end, severity) {
            (None, _) => ask(state, current, Purpose::Gate(spec.name.clone()), moment),
            // Without the verdict of a hard gate the work cannot be kept.
            (Some(AskingEnd::Hopeless(failure)), Severity::Hard) => give_up(current, failure),
            (Some(_), _) => Step::Hear { gate, severity },
        },
    })
}

/// Returns the gates that run after a role, with their index and severity.
fn due<'a>(
    recipe: &'a Recipe,
    role: Role,
    observation: Option<&'a Observation>,
) -> impl Iterator<Item = (usize, &'a Gate, Severity)> {
    recipe.gates.iter().enumerate().filter_map(move |(place, gate)| {
        let severity = recipe.strategy.severity(gate)?;
        let is_for_role = gate.roles.is_empty() || gate.roles.contains(&role);
        (is_for_role && is_for_paths(gate, observation)).then_some((place, gate, severity))
    })
}

/// Returns whether a gate applies to the changed paths. True if the changes are unknown
/// or more than can be listed.
fn is_for_paths(gate: &Gate, observation: Option<&Observation>) -> bool {
    let Some(observation) = observation else { return true };
    gate.paths.is_empty()
        || observation.more_files > 0
        || observation
            .files
            .iter()
            .any(|file| gate.paths.iter().any(|pattern| pattern.matches(&file.path)))
}

/// Returns the gates of the baseline: the hard commands.
pub(super) fn of_baseline(recipe: &Recipe) -> impl Iterator<Item = (usize, &Gate, Severity)> {
    recipe.gates.iter().enumerate().filter_map(|(place, gate)| {
        let severity = recipe.strategy.severity(gate)?;
        let is_command = match gate.check {
            Check::Command(_) => true,
            Check::Agent(_) => false,
        };
        (severity == Severity::Hard && is_command).then_some((place, gate, severity))
    })
}

/// Returns whether the tree is observed after the agent: for a gate that may be reused,
/// to judge the work by its changes, or to detect iterations that change nothing.
fn is_observed(recipe: &Recipe, role: Role) -> bool {
    let may_reuse = due(recipe, role, None).any(|(_, gate, _)| gate.reuse == Reuse::SameTree);
    let is_task = match recipe.work {
        Work::Tasks(_) => true,
        Work::Prompt(_) => false,
    };
    let landing = &recipe.landing;
    let is_commit_looked_at = landing.is_history_ralphs() || landing.commit == CommitPolicy::Agent;
    let notices_idling = recipe.limits.unchanged.is_some();
    may_reuse || is_task || is_commit_looked_at || notices_idling || looks_at_changes(recipe)
}

/// Returns whether a recipe has rules about changed paths, or reports uncommitted ones to
/// the agent.
pub(super) fn looks_at_changes(recipe: &Recipe) -> bool {
    !recipe.protect.is_empty()
        || recipe.landing.uncommitted == Uncommitted::Told
        || !recipe.scope.is_empty()
        || recipe.gates.iter().any(|gate| !gate.paths.is_empty())
}

/// Refuses work that changed forbidden paths, unless its task names them.
fn refuse(
    state: &RunState,
    current: &Iteration,
    observation: Option<&Observation>,
) -> Option<Step> {
    if current.gates.iter().any(|result| result.gate == PROTECTED) {
        return None;
    }
    let paths = forbidden(state, current, observation?);
    (!paths.is_empty()).then_some(Step::Refuse { paths })
}

/// Returns the changed paths that this iteration may not change.
pub(crate) fn forbidden(
    state: &RunState,
    current: &Iteration,
    observation: &Observation,
) -> Vec<String> {
    let recipe = &state.recipe;
    let is_forbidden =
        |path: &str| recipe.protects(path) || !glob::is_in_scope(&recipe.scope, path);
    let paths = observation.files.iter().map(|file| file.path.as_str());
    unnamed(state, Some(current), paths.filter(|path| is_forbidden(path)))
}

/// Returns the changed paths that are protected. A task written by the user permits the
/// paths it names, except locked ones.
pub(crate) fn protected(state: &RunState, changed: &[String]) -> Vec<String> {
    let is_protected = |path: &&str| state.recipe.protects(path);
    let paths = changed.iter().map(String::as_str).filter(is_protected);
    unnamed(state, state.current.as_ref(), paths)
}

fn unnamed<'a>(
    state: &RunState,
    current: Option<&Iteration>,
    paths: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let task = current
        .and_then(|current| current.task.as_ref())
        .and_then(|id| state.board.as_ref().and_then(|tasks| tasks.list.task(id)));
    // A task that an agent wrote permits nothing.
    let is_given = |id: &TaskId| {
        state.board.as_ref().is_some_and(|tasks| !tasks.written_by_agents.contains(id))
    };
    let task = task.filter(|task| is_given(&task.id));
    let is_named =
        |path: &str| task.is_some_and(|task| task.speaks_of(path)) && !state.recipe.is_locked(path);
    paths.filter(|path| !is_named(path)).map(str::to_owned).collect()
}

/// Returns the result of a gate that counts as passed.
pub fn reused(gate: &Gate, severity: Severity) -> GateResult {
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
pub fn not_a_gate(name: &str, output: String) -> GateResult {
    let mut hasher = ErrorHasher::new(name);
    hasher.feed(&output);
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
        hash: Some(hasher.finish()),
        failing: Vec::new(),
        reason: None,
        sandbox: None,
    }
}
