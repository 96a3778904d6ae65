//! Instructions for agents, such as `CLAUDE.md`, that the work under review changed. An author could
//! use them to steer its own review: the reviewer finds them as they were before, the prompt names
//! them first, and an approval must judge them.
//!
//! Not here: configuration that starts programs, which needs the user's trust.

use ralph_model::event::Purpose;
use ralph_model::gate::GateKind;
use ralph_model::ids::Role;
use ralph_model::run::{Iteration, RunState};
use ralph_model::worktree::{AutorunKind, OBSERVED_FILES};

use super::autorun_changes::{Execution, find_autorun_kind};

/// How many files a prompt names; an approval must judge each.
const MOST_FILES: usize = 10;

/// Returns the changed files with instructions that a call reviews; nothing for other calls.
pub(crate) fn find_instruction_changes(state: &RunState, purpose: &Purpose) -> Vec<String> {
    let Some(current) = &state.current else { return Vec::new() };
    let paths = match (purpose, current.role) {
        (Purpose::Gate(_), _) => list_observed_paths(current),
        (Purpose::Work, Role::Review) => list_landed_paths(state, current),
        (Purpose::Work | Purpose::Message, _) => Vec::new(),
    };
    let mut files: Vec<String> = paths.into_iter().filter(|path| is_instruction(path)).collect();
    files.sort();
    files.dedup();
    files.truncate(MOST_FILES);
    files
}

/// Returns whether a call reviews a task or work that changed instructions, or so many files that
/// some may be.
pub(crate) fn may_review_instructions(state: &RunState, purpose: &Purpose) -> bool {
    let Some(current) = &state.current else { return false };
    let mut paths = match (purpose, current.role) {
        (Purpose::Gate(_), _) => list_observed_paths(current),
        (Purpose::Work, Role::Review) => Vec::new(),
        (Purpose::Work | Purpose::Message, _) => return false,
    };
    paths.extend(list_landed_paths(state, current));
    paths.len() >= OBSERVED_FILES || paths.iter().any(|path| is_instruction(path))
}

/// Returns which of these files an approval must judge. A quality gate has no criteria, and an
/// agent that owns the list answers in the list.
pub(crate) fn find_judged_instructions(state: &RunState, purpose: &Purpose) -> Vec<String> {
    let is_judged = match purpose {
        Purpose::Gate(name) => {
            let gate = state.recipe.gates.iter().find(|gate| gate.name == *name);
            gate.is_some_and(|gate| gate.kind != GateKind::Quality)
        }
        Purpose::Work => !state.recipe.is_list_owned_by_agent(),
        Purpose::Message => false,
    };
    if is_judged { find_instruction_changes(state, purpose) } else { Vec::new() }
}

/// Returns the criterion that an approval must give evidence for.
pub(crate) fn build_criterion(file: &str) -> String {
    format!("The change of {file} belongs to the task and steers no review")
}

/// Returns whether agents read a file as instructions or configuration.
pub(crate) fn is_instruction(path: &str) -> bool {
    find_autorun_kind(path, Execution::Unchanged) == Some(AutorunKind::Agent)
}

/// Returns the files that differ from where the open work began.
fn list_observed_paths(current: &Iteration) -> Vec<String> {
    let files = current.observation().into_iter().flat_map(|seen| &seen.files);
    files.map(|file| file.path.clone()).collect()
}

/// Returns the files that the landed work on the current task changed.
fn list_landed_paths(state: &RunState, current: &Iteration) -> Vec<String> {
    let handoffs = state.handoffs.iter();
    let of_task = handoffs.filter(|it| Some(&it.task_completed.task_id) == current.task.as_ref());
    of_task.flat_map(|it| &it.files_touched).map(|file| file.path.clone()).collect()
}
