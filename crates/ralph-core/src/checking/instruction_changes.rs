//! Instructions for agents, such as `CLAUDE.md`, that the work under review changed. An author could
//! use them to steer its own review: the reviewer finds them as they were before, the prompt names
//! them first, and an approval must judge them.
//!
//! Not here: configuration that starts programs, which needs the user's trust.

use ralph_model::event::Purpose;
use ralph_model::gate::GateKind;
use ralph_model::ids::Role;
use ralph_model::run::{Iteration, RunState};
use ralph_model::task_state::ChangedInstructions;
use ralph_model::worktree::{AutorunKind, OBSERVED_FILES};

use super::autorun_changes::{Execution, find_autorun_kind};

/// How many files a prompt names; an approval must judge each.
const MOST_FILES: usize = 10;

/// Returns the changed files with instructions that a call reviews; nothing for other calls.
pub(crate) fn find_instruction_changes(state: &RunState, purpose: &Purpose) -> Vec<String> {
    let Some(current) = &state.current else { return Vec::new() };
    let changed = match (purpose, current.role) {
        (Purpose::Gate(_), _) => find_observed_instructions(current),
        (Purpose::Work, Role::Review) => {
            find_landed_instructions(state, current).cloned().unwrap_or_default()
        }
        (Purpose::Work | Purpose::Message, _) => ChangedInstructions::default(),
    };
    changed.files.into_iter().take(MOST_FILES).collect()
}

/// Returns whether a call reviews a task or work that changed instructions, or so many files that
/// some may be.
pub(crate) fn may_review_instructions(state: &RunState, purpose: &Purpose) -> bool {
    let Some(current) = &state.current else { return false };
    let landed = find_landed_instructions(state, current);
    let may_be_landed = landed.is_some_and(|it| it.may_be_more || !it.files.is_empty());
    match (purpose, current.role) {
        (Purpose::Gate(_), _) => {
            may_be_landed || find_observed_instructions(current) != ChangedInstructions::default()
        }
        (Purpose::Work, Role::Review) => may_be_landed,
        (Purpose::Work | Purpose::Message, _) => false,
    }
}

/// Returns which of these files an approval must judge. A quality gate has no criteria, and an
/// agent that owns the list answers in the list.
pub(crate) fn find_judged_instructions(state: &RunState, purpose: &Purpose) -> Vec<String> {
    let is_judged = match purpose {
        Purpose::Gate(name) => {
            let gate = state.recipe.find_gate(name);
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

/// Returns the instructions that differ from where the open work began.
pub(crate) fn find_observed_instructions(current: &Iteration) -> ChangedInstructions {
    let files = current.observation().map_or(&[][..], |seen| &seen.files);
    let paths = files.iter().map(|file| file.path.clone());
    ChangedInstructions {
        files: paths.filter(|path| is_instruction(path)).collect(),
        may_be_more: files.len() >= OBSERVED_FILES,
    }
}

/// Returns the instructions that the landed work on the current task changed.
fn find_landed_instructions<'a>(
    state: &'a RunState,
    current: &Iteration,
) -> Option<&'a ChangedInstructions> {
    state.tasks.as_ref()?.changed_instructions.get(current.task.as_ref()?)
}
