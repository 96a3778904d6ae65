//! The branch that a task list names: switching to it before a run, or a warning.
//!
//! Not here: the commits of a run, which go onto the branch that is checked out.

use ralph_io::git::GitRepository;
use ralph_io::process::Watch;
use ralph_io::store::layout::ProjectLayout;
use ralph_io::store::lock::RunLock;

use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen;
use crate::settings::LoadedSettings;
use crate::settings::types::sections::BranchSetting;

/// What happened to the branch that is checked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BranchChange {
    Kept,
    /// Another branch is checked out now, so files may have changed.
    Switched,
}

/// Switches to the branch that the flag or the task list names, if the user wants that; else adds a
/// warning. The flag without a name means the list's branch. `check` fails if the run would be
/// refused on any branch; nothing has changed then.
pub(crate) fn settle_branch(
    project: &Project,
    loaded: &mut LoadedSettings,
    listed: Option<&str>,
    flag: Option<&str>,
    check: impl FnOnce(&mut GitRepository, &ProjectLayout) -> Result<(), CliError>,
) -> Result<BranchChange, CliError> {
    let listed = listed.filter(|it| !it.trim().is_empty());
    let wanted = match (flag, listed) {
        (Some(""), None) => {
            return Err(CliError::for_input("--branch: the task list names no branch")
                .with_hint("--branch=NAME names one"));
        }
        (Some(name), _) if !name.is_empty() => name,
        (_, Some(listed)) => listed,
        (_, None) => return Ok(BranchChange::Kept),
    };
    let Some(mut repository) = project.find_repository(&Watch::new_detached())? else {
        return Ok(BranchChange::Kept);
    };
    let current = repository.branch().map_err(CliError::from_git_error)?;
    if current.as_deref() == Some(wanted) {
        return Ok(BranchChange::Kept);
    }
    let layout = project.find_layout_in(loaded, Some(&repository))?;
    if RunLock::find_holder(layout.state()).is_some() {
        // The start fails because of that run, and its branch must stay.
        return Ok(BranchChange::Kept);
    }
    check(&mut repository, &layout)?;
    let shown = current.as_deref().unwrap_or("no branch");
    let is_wanted = match (flag, loaded.settings.tasks.branch) {
        (Some(_), _) | (None, BranchSetting::Use) => true,
        (None, BranchSetting::Ignore) => return Ok(BranchChange::Kept),
        (None, BranchSetting::Ask) => screen::ask_yes_no(&format!(
            "The task list is for the branch {wanted}, and {shown} is checked out. Switch to {wanted}?"
        )),
    };
    if !is_wanted {
        loaded.warnings.push(format!(
            "the task list is for the branch `{wanted}`, and `{shown}` is checked out: commits go there; --branch switches"
        ));
        return Ok(BranchChange::Kept);
    }
    repository.switch_branch(wanted).map_err(CliError::from_git_error)?;
    screen::print_line(&format!("Switched to the branch {wanted}."));
    Ok(BranchChange::Switched)
}
