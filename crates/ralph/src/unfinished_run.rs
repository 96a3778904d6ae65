//! The last run, if it ended in the middle of its work: `ralph resume` would continue it.
//!
//! Not here: resuming.

use std::path::Path;

use ralph_io::store::lock::RunLock;
use ralph_io::store::runs::{self, RunSummary};
use ralph_model::ids::RunId;
use ralph_model::outcome::Outcome;

use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen;
use crate::settings::LoadedSettings;

/// Returns the last run of a state directory, if it stopped in the middle of its work. Must not be
/// called while another process runs it.
pub(crate) fn find_unfinished_run(state: &Path) -> Option<RunSummary> {
    let last = runs::find_last_run(state)?;
    let is_unfinished = match &last.outcome {
        None
        | Some(
            Outcome::Interrupted
            | Outcome::BudgetUsedUp { .. }
            | Outcome::LimitTooLong { .. }
            | Outcome::AgentFailed { .. }
            | Outcome::NoCommitMessage
            | Outcome::ScmFailed { .. }
            | Outcome::GitFailed { .. }
            | Outcome::WorkersFailed { .. }
            | Outcome::LandingBlocked { .. }
            | Outcome::SandboxBlocked { .. },
        ) => true,
        Some(
            Outcome::Complete
            | Outcome::IterationsUsedUp { .. }
            | Outcome::NothingChanges { .. }
            | Outcome::SameFailure { .. }
            | Outcome::PromptLost { .. }
            | Outcome::PlanMissing
            | Outcome::TasksLeft { .. }
            | Outcome::ApprovedAtCap { .. }
            | Outcome::BaselineBroken { .. }
            | Outcome::TasksLost { .. },
        ) => false,
    };
    is_unfinished.then_some(last)
}

/// Returns the command that continues the last run, if uncommitted changes may be the work of its
/// last attempt.
pub(crate) fn find_resume_command(state: &Path) -> Option<String> {
    if let Some(run) = find_unfinished_run(state) {
        return Some(format!("ralph resume {}", run.id));
    }
    let last = runs::find_last_run(state)?;
    let Some(Outcome::IterationsUsedUp { limit }) = last.outcome else { return None };
    Some(format!("ralph resume {} -m {}", last.id, limit.saturating_mul(2)))
}

/// Offers to resume an unfinished run: asks on a terminal, and elsewhere adds a warning. Returns the
/// run that the user wants to resume.
pub(crate) fn ask_to_resume(
    project: &Project,
    loaded: &mut LoadedSettings,
) -> Result<Option<RunId>, CliError> {
    let layout = project.find_layout(loaded)?;
    if RunLock::find_holder(layout.state()).is_some() {
        return Ok(None);
    }
    let Some(run) = find_unfinished_run(layout.state()) else { return Ok(None) };
    let text = describe_unfinished(&run);
    if screen::ask_yes_no(&format!("The last {text}. Resume it instead of starting a new one?")) {
        return Ok(Some(run.id));
    }
    loaded.warnings.push(format!("the last {text}; `ralph resume` continues it"));
    Ok(None)
}

/// Returns `run ID did not finish (why)`.
pub(crate) fn describe_unfinished(run: &RunSummary) -> String {
    let why = match &run.outcome {
        None => "it was cut off".to_owned(),
        Some(outcome) => outcome.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    format!("run {} did not finish ({why})", run.id)
}
