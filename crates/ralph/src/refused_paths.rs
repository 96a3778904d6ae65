//! Protected paths that the last run changed, was refused for, and left as they are: a new run would
//! start from them, and its gates would check with them.
//!
//! Not here: a resumed run, which compares with its own start.

use ralph_io::git::GitRepository;
use ralph_io::store::{ProjectLayout, journal, runs};
use ralph_model::event::Event;
use ralph_model::refusal::RefusalKind;
use ralph_model::worktree::{Checkpoint, TreeId};

use crate::cli_error::CliError;

/// Fails if protected paths are still as a refused attempt of the last run left them, and the user
/// has not committed them since.
pub(crate) fn check_restored(
    layout: &ProjectLayout,
    repository: &GitRepository,
) -> Result<(), CliError> {
    let Some((paths, tree)) = find_refused_paths(layout) else { return Ok(()) };
    let left: Vec<String> =
        paths.into_iter().filter(|path| repository.is_uncommitted_since(&tree, path)).collect();
    let Some(first) = left.first() else { return Ok(()) };
    let message = format!(
        "protected paths still have the changes for which work of the last run was refused: {}",
        left.join(", ")
    );
    Err(CliError::for_input(message).with_hint(format!(
        "restore with `git checkout {} -- '{first}'`, or commit the change if you want it",
        tree.short_id()
    )))
}

/// Returns the protected paths that the last attempt of the last run was refused for, and the tree
/// that this run began with.
fn find_refused_paths(layout: &ProjectLayout) -> Option<(Vec<String>, TreeId)> {
    let last = runs::find_last_run(layout.state())?;
    let path = layout.run_dir(&last.id).journal_path();
    let (mut changed, mut refused, mut begin) = (Vec::new(), Vec::new(), None);
    for recorded in journal::open_for_reading(&path).ok()?.flatten() {
        if let Event::Checkpointed { checkpoint: Checkpoint::Git { tree, .. } } = recorded.event {
            begin = begin.or(tree);
        } else if let Event::Observed { observation: Some(seen), .. } = recorded.event {
            changed = seen.files.into_iter().map(|file| file.path).collect();
            refused.clear();
        } else if let Event::Refused { refusal } = recorded.event
            && refusal.kind == RefusalKind::ProtectedPaths
        {
            refused.clone_from(&changed);
        }
    }
    let recipe = journal::read_recipe(&path).filter(|_| !refused.is_empty())?;
    refused.retain(|path| recipe.is_protected(path));
    Some((refused, begin?))
}
