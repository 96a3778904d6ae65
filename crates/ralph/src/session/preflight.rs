//! The checks before a run. When one fails, nothing was paid for and no work was changed.

use super::{OpenedRun, RunOrigin};
use crate::cli_error::CliError;

/// A check before a run.
struct PreflightCheck {
    applies: AppliesTo,
    check: fn(&OpenedRun<'_>) -> Result<(), CliError>,
}

/// The runs that a check is for.
enum AppliesTo {
    Both,
    New,
    Resumed,
}

/// The checks, in their order.
const PREFLIGHT: [PreflightCheck; 6] = [
    PreflightCheck { applies: AppliesTo::Both, check: check_repository_exists },
    PreflightCheck { applies: AppliesTo::New, check: check_no_git_operation },
    PreflightCheck { applies: AppliesTo::Both, check: check_can_commit },
    PreflightCheck { applies: AppliesTo::Resumed, check: check_history_unmoved },
    PreflightCheck { applies: AppliesTo::Both, check: check_tree_is_clean },
    PreflightCheck { applies: AppliesTo::New, check: check_refused_paths_restored },
];

fn check_refused_paths_restored(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_refused_paths_restored()
}

fn check_repository_exists(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_repository_exists(&run.recipe)
}

fn check_no_git_operation(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_no_git_operation_for(&run.recipe)
}

fn check_can_commit(run: &OpenedRun<'_>) -> Result<(), CliError> {
    run.context.check_can_commit(&run.recipe)
}

fn check_history_unmoved(run: &OpenedRun<'_>) -> Result<(), CliError> {
    match &run.origin {
        RunOrigin::New => Ok(()),
        RunOrigin::Resumed(state) => run.context.check_history_unmoved(state),
    }
}

fn check_tree_is_clean(run: &OpenedRun<'_>) -> Result<(), CliError> {
    if run.origin.has_own_work() {
        return Ok(());
    }
    run.context.check_tree_is_clean(&run.recipe, run.invocation.options.dirty)
}

/// Runs the checks that apply to a run, up to the first that fails.
pub(super) fn run_checks(run: &OpenedRun<'_>) -> Result<(), CliError> {
    for PreflightCheck { applies, check } in PREFLIGHT {
        match (applies, &run.origin) {
            (AppliesTo::New, RunOrigin::Resumed(_)) | (AppliesTo::Resumed, RunOrigin::New) => {}
            (AppliesTo::Both | AppliesTo::New | AppliesTo::Resumed, _) => check(run)?,
        }
    }
    Ok(())
}
