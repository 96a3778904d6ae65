//! Warnings that a new run begins with, and that `--dry-run` shows.
//!
//! Not here: those that depend on the sandbox that a run chooses, such as versions of toolchains.

use std::ffi::OsString;
use std::path::Path;

use ralph_agents as agents;
use ralph_io::git::{GitRepository, HidingMark};
use ralph_model::recipe::Recipe;

use crate::documents::{self, PROMPT};
use crate::recipe;
use crate::settings::LoadedSettings;

/// More paths than this do not help the user to decide.
pub(crate) const SHOWN_PATHS: usize = 5;

/// Where a new run would start.
pub(crate) struct StartPlace<'a> {
    pub(crate) loaded: &'a LoadedSettings,
    /// The directory that the run works in.
    pub(crate) project: &'a Path,
    pub(crate) repository: Option<&'a GitRepository>,
    /// The environment ralph was started with.
    pub(crate) env: &'a [(OsString, OsString)],
}

/// Returns warnings to show before a run.
pub(crate) fn collect_start_warnings(place: &StartPlace<'_>, recipe: &Recipe) -> Vec<String> {
    let mut warnings = place.loaded.warnings.clone();
    warnings.extend(recipe::find_ineffective_settings(place.loaded, recipe));
    if place.repository.is_none() {
        warnings
            .push("this is not a git repository: changes cannot be compared or undone".to_owned());
    }
    let is_detached = place.repository.map_or(Ok(false), GitRepository::is_detached);
    if recipe.commits() && is_detached == Ok(true) {
        warnings.push(
            "HEAD is detached: the commits of this run will be on no branch; `git switch -c NAME` creates one"
                .to_owned(),
        );
    }
    if recipe.commits_everything() {
        warnings.extend(place.repository.and_then(find_hidden_files_warning));
    }
    if let Some(work) = recipe.task_work() {
        let path = work.file.with_file_name(PROMPT);
        warnings.extend(documents::find_loop_instructions(place.project, &path.to_string_lossy()));
    }
    let agent = &recipe.agent;
    warnings.extend(agents::find_billing_warning(agent.kind, place.env, &agent.env));
    warnings.extend(recipe.callable_agents().into_iter().flat_map(agents::list_version_warnings));
    warnings
}

/// Returns a warning if the user has hidden files from git: gates see changes of them, and no commit
/// contains them.
fn find_hidden_files_warning(repository: &GitRepository) -> Option<String> {
    let hidden = repository.list_hidden_files();
    let (first, mark) = hidden.first()?;
    let names: Vec<String> =
        hidden.iter().take(SHOWN_PATHS).map(|(path, _)| format!("`{path}`")).collect();
    let more = hidden.len().saturating_sub(SHOWN_PATHS);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let flag = match mark {
        HidingMark::AssumeUnchanged => "--no-assume-unchanged",
        HidingMark::SkipWorktree => "--no-skip-worktree",
    };
    Some(format!(
        "your index hides changes of {}{more} from git: gates see such changes, and no commit contains them; `git update-index {flag} {first}` ends that",
        names.join(", ")
    ))
}
