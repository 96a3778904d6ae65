//! Work in a clone that is on no ref of the project: found, and saved on a kept ref.
//!
//! The old git directory is read only as files and objects: its configuration, hooks and index may
//! be an agent's. Not here: submodules and other repositories within the clone.

use std::fs;
use std::path::Path;

use ralph_core::ports::VcsError;
use ralph_model::ids::WorkerId;
use tempfile::TempDir;

use super::super::head::is_object_id;
use super::super::ref_files::{read_branch, read_packed_ref};
use super::super::repository::GitRepository;
use super::super::shadow::{ShadowIndex, copy_index};
use super::INDEX;
use super::git_files::{CloneHead, NewGitDir, find_object_directories};
use crate::bounded_read;
use crate::worker_slots::{CloneState, SlotPlace, WorkerSlot};

/// The ref in that directory.
const KEPT: &str = "refs/heads/kept";

/// Enough for the name of a branch.
const LARGEST_REF: u64 = 4096;

/// Work that would be lost with a clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsavedWork {
    /// Whether there are commits.
    pub has_commits: bool,
    /// How many files differ from the last commit.
    pub files: usize,
}

/// Old work, read with trusted settings.
struct OldWork {
    clone: GitRepository,
    head: Option<String>,
    tree: String,
    work: UnsavedWork,
}

/// Returns the work in the clone of a slot that is on no ref of the project.
pub fn find_unsaved_work(
    source: &GitRepository,
    place: &SlotPlace,
) -> Result<Option<UnsavedWork>, VcsError> {
    if place.read_owner().is_none_or(|owner| owner.state != CloneState::Ready) {
        return Ok(None);
    }
    let scratch = make_scratch(place)?;
    Ok(read_old_work(source, place, scratch.path())?.map(|old| old.work))
}

/// Saves the work in a clone on a ref of the project, and returns the ref; none if there is
/// nothing to save.
pub(super) fn save_work(
    source: &GitRepository,
    slot: &WorkerSlot,
    worker: &WorkerId,
) -> Result<Option<String>, VcsError> {
    let scratch = make_scratch(slot.place())?;
    let old = read_old_work(source, slot.place(), scratch.path())?;
    old.map(|old| save_old_work(source, &old, worker)).transpose()
}

/// Makes a directory for the git directory by which old work is read.
fn make_scratch(place: &SlotPlace) -> Result<TempDir, VcsError> {
    let scratch = tempfile::Builder::new().prefix("check-").tempdir_in(place.directory());
    scratch.map_err(|error| VcsError {
        message: format!("cannot write to `{}`: {error}", place.directory().display()),
    })
}

fn read_old_work(
    source: &GitRepository,
    place: &SlotPlace,
    scratch: &Path,
) -> Result<Option<OldWork>, VcsError> {
    let top = place.clone_path();
    if !top.symlink_metadata().is_ok_and(|about| about.is_dir()) {
        return Ok(None);
    }
    let old_dir = top.join(".git");
    let git_dir = scratch.join("git");
    let mut objects = find_object_directories(source);
    objects.push(old_dir.join("objects"));
    let clone = NewGitDir { source, git_dir: &git_dir, top, head: CloneHead::Unborn, objects };
    let clone = clone.create()?;
    // If the commit is gone, the files are not.
    let head = match read_head(&old_dir) {
        Some(commit) => clone.resolve_name(&format!("{commit}^{{commit}}"))?,
        None => None,
    };
    if let Some(commit) = &head {
        write_file(&git_dir.join("HEAD"), commit)?;
    }
    let tree = survey(&clone, &place.directory().join(INDEX), head.as_deref(), scratch)?;
    let committed = clone.resolve_tree(head.as_deref())?;
    let changes = clone.diff_trees(&committed, &tree)?;
    let has_commits = match &head {
        Some(head) => !source.is_on_ref(head)?,
        None => false,
    };
    let work = UnsavedWork { has_commits, files: changes.len() };
    let is_saved = !work.has_commits && work.files == 0;
    Ok((!is_saved).then_some(OldWork { clone, head, tree, work }))
}

/// Returns the tree of everything in the work tree that is not ignored.
fn survey(
    clone: &GitRepository,
    known: &Path,
    head: Option<&str>,
    scratch: &Path,
) -> Result<String, VcsError> {
    // The index that ralph wrote spares reading unchanged files.
    if let Some(head) = head
        && copy_index(known, &clone.index_path()).is_ok()
    {
        let call = clone.build_plumbing(&["read-tree", "--reset", head]);
        if clone.commands.run_for_output(call).is_err() {
            let _ = fs::remove_file(clone.index_path());
        }
    }
    ShadowIndex::new_in_directory(scratch).survey_tree(clone)
}

fn save_old_work(
    source: &GitRepository,
    old: &OldWork,
    worker: &WorkerId,
) -> Result<String, VcsError> {
    let OldWork { clone, head, tree, work } = old;
    let commit = match head {
        Some(head) if work.files == 0 => head.clone(),
        Some(_) | None => {
            let parents: Vec<String> = head.iter().cloned().collect();
            clone.commit_tree(tree, &parents, &format!("ralph: work of {worker}"))?
        }
    };
    write_file(&clone.git_dir.join(KEPT), &commit)?;
    let name = source.find_free_ref(&format!("refs/ralph/kept/{worker}"))?;
    let call = source
        .build_plumbing(&["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
        .with_args(["--no-auto-maintenance", "--no-prune", "--no-recurse-submodules", "--"])
        .with_args([clone.git_dir.as_os_str()])
        .with_args([format!("{KEPT}:{name}")])
        // An agent made the objects.
        .with_setting("transfer.fsckObjects=true")
        .without_sandbox();
    source.commands.run_for_output(call)?;
    Ok(name)
}

impl GitRepository {
    /// Returns whether a commit is on a branch or any other ref.
    fn is_on_ref(&self, commit: &str) -> Result<bool, VcsError> {
        if self.resolve_name(&format!("{commit}^{{commit}}"))?.is_none() {
            return Ok(false);
        }
        let args = ["rev-list", "--max-count=1", commit, "--not", "--all"];
        Ok(self.commands.run_for_output(self.build_plumbing(&args))?.is_empty())
    }

    /// Returns a name, with a number if there is such a ref already.
    fn find_free_ref(&self, name: &str) -> Result<String, VcsError> {
        let mut number = 1;
        let mut free = name.to_owned();
        while self.has_ref(&free)? {
            number += 1;
            free = format!("{name}-{number}");
        }
        Ok(free)
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), VcsError> {
    fs::write(path, text).map_err(|error| VcsError {
        message: format!("cannot write `{}`: {error}", path.display()),
    })
}

/// Reads the commit of HEAD from the files of a git directory.
fn read_head(git_dir: &Path) -> Option<String> {
    let read = |name: &str| {
        let text = bounded_read::read_file(&git_dir.join(name), LARGEST_REF).ok()?;
        Some(String::from_utf8_lossy(&text).trim_end().to_owned())
    };
    let id = match read_branch(git_dir) {
        Some(name) if !name.starts_with("refs/") || name.contains("..") => return None,
        Some(name) => read(&name).or_else(|| read_packed_ref(git_dir, &name))?,
        None => read("HEAD")?,
    };
    Some(id).filter(|id| is_object_id(id))
}
