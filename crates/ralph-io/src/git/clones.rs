//! Clones for workers: private repositories that borrow the objects of the project.
//!
//! The git directory is made by ralph for every job, without `git clone`: the agent of the last
//! job may have written anything into the old one. The work tree stays, with its ignored files as
//! a cache. Until the new git directory is in place, it is beside the work tree, and git is called
//! with its path. Not here: which slot is used, and the setup command (`worker_slots`).

mod git_files;
mod include;
mod requirements;
mod unsaved;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ralph_core::checking::autorun_changes::{Execution, find_autorun_kind};
use ralph_core::ports::VcsError;
use ralph_model::ids::WorkerId;
use ralph_model::worktree::{CommitId, TreeId};

pub use git_files::find_object_directories;
pub use include::find_needed_space;
pub use requirements::{CloneObstacle, check_can_clone};
pub use unsaved::{UnsavedWork, find_unsaved_work};

use self::git_files::{CloneHead, NewGitDir};
use self::include::copy_included;
use super::diff::split_at_zeros;
use super::head::is_object_id;
use super::kept_objects::make_real_directory;
use super::repository::GitRepository;
use super::shadow::copy_index;
use crate::atomic_file::remove_if_exists;
use crate::store::layout::PROJECT_DIRECTORY;
use crate::worker_slots::{CloneState, WorkerSlot};

/// In the directory of a slot: the git directory that is being made, and an index that only ralph
/// writes. It knows the times of all files, so that unchanged ones are not read.
const NEW_GIT_DIR: &str = "git.new";
const INDEX: &str = "index";

/// What a clone is needed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneRequest {
    pub base: CommitId,
    /// The branch that is checked out, with or without `refs/heads/`.
    pub branch: Option<String>,
    /// A tree whose files are written as uncommitted work.
    pub start_tree: Option<TreeId>,
    /// Ignored files that a new clone gets, besides those in `.worktreeinclude`.
    pub include: Vec<String>,
    /// How many bytes of them are copied at most.
    pub copy_limit: u64,
}

/// A clone that a worker can be started in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedClone {
    /// Whether there was none in this slot.
    pub is_new: bool,
    pub warnings: Vec<String>,
}

/// What became of the ignored files of the last job.
#[derive(Debug, Default)]
struct AutorunRemoval {
    is_removed: bool,
    is_left: bool,
}

/// A clone could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// The work of its last owner could not be saved. Nothing was changed.
    #[error("{place} is not used: the work of {worker} in it could not be saved: {reason}")]
    NotSaved { place: String, worker: WorkerId, reason: String },
    #[error("cannot prepare the clone in {place}: {reason}")]
    Failed { place: String, reason: String },
}

/// Prepares the clone of a slot for a job without a run: saves the work of the last owner, makes
/// a new git directory, and checks out the base.
pub fn prepare_clone(
    source: &GitRepository,
    slot: &WorkerSlot,
    request: &CloneRequest,
) -> Result<PreparedClone, CloneError> {
    let mut warnings = Vec::new();
    let last = slot.place().read_owner();
    if let Some(last) = last.as_ref().filter(|it| it.state == CloneState::Ready) {
        let saved = unsaved::save_work(source, slot, &last.worker);
        let saved = saved.map_err(|error| CloneError::NotSaved {
            place: slot.name().to_owned(),
            worker: last.worker.clone(),
            reason: error.message,
        })?;
        let note = |name: String| format!("work of {} is kept as {name}", last.worker);
        warnings.extend(saved.map(note));
    }
    let is_new = last.is_none_or(|it| it.state == CloneState::Making);
    let failed = |error: VcsError| CloneError::Failed {
        place: slot.name().to_owned(),
        reason: error.message,
    };
    reset_clone(source, slot, request, is_new, &mut warnings).map_err(failed)?;
    Ok(PreparedClone { is_new, warnings })
}

fn reset_clone(
    source: &GitRepository,
    slot: &WorkerSlot,
    request: &CloneRequest,
    is_new: bool,
    warnings: &mut Vec<String>,
) -> Result<(), VcsError> {
    let CommitId(base) = &request.base;
    if !is_object_id(base) {
        return Err(VcsError { message: format!("`{base}` is not a commit") });
    }
    let record = |state| {
        slot.record_owner(state).map_err(|error| build_error("record the owner", slot, &error))
    };
    record(if is_new { CloneState::Making } else { CloneState::Resetting })?;
    // A process that dies before the clone is ready leaves the worst case.
    let record_leftovers = |found| {
        slot.record_leftovers(found).map_err(|error| build_error("record files in", slot, &error))
    };
    record_leftovers(!is_new)?;
    make_real_directory(slot.clone_path()).map_err(|error| build_error("create", slot, &error))?;
    let clone = NewGitDir {
        source,
        git_dir: &slot.directory().join(NEW_GIT_DIR),
        top: slot.clone_path(),
        head: CloneHead::new(base, request.branch.as_deref()),
        objects: find_object_directories(source),
    };
    let clone = clone.create()?;
    let index = slot.directory().join(INDEX);
    check_out(&clone, &index, base)?;
    warnings.extend(
        clean(&clone, &index)?
            .into_iter()
            .map(|path| format!("{} still has `{path}`, a repository of its own", slot.name())),
    );
    let removal = remove_autorun_files(&clone, &index)?;
    record_leftovers(removal.is_left)?;
    if removal.is_removed {
        // It may have made them.
        slot.forget_setup().map_err(|error| build_error("prepare", slot, &error))?;
    }
    if clear_submodules(&clone, &index)? {
        slot.forget_setup().map_err(|error| build_error("prepare", slot, &error))?;
    }
    let copied = copy_index(&index, &clone.index_path());
    copied.map_err(|error| build_error("copy the index of", slot, &error))?;
    if is_new {
        slot.forget_setup().map_err(|error| build_error("prepare", slot, &error))?;
    }
    let is_tracked = |path: &Path| {
        let call = clone.build_plumbing(&["ls-files", "-z", "--"]).with_args([path]);
        let listed = clone.commands.run_for_output(call.with_index(&index));
        listed.is_ok_and(|it| !it.is_empty())
    };
    warnings.extend(copy_included(source, slot, request, &is_tracked)?);
    if let Some(TreeId(tree)) = &request.start_tree {
        write_start_tree(&clone, &slot.directory().join("index.start"), tree)?;
    }
    replace_git_dir(slot).map_err(|error| build_error("replace `.git` in", slot, &error))?;
    record(CloneState::Ready)
}

/// Makes the work tree a commit. Files that have the right content are not touched.
fn check_out(clone: &GitRepository, index: &Path, base: &str) -> Result<(), VcsError> {
    let run = |args: &[&str]| {
        clone.commands.run_for_output(clone.build_plumbing(args).with_index(index)).map(drop)
    };
    // A killed git leaves a lock, and it may have left a broken index.
    let _ = fs::remove_file(index.with_extension("lock"));
    if run(&["read-tree", "--reset", base]).is_err() {
        let _ = fs::remove_file(index);
        run(&["read-tree", base])?;
    }
    // Its exit code only shows whether files differ.
    let call = clone.build_plumbing(&["update-index", "-q", "--refresh"]).with_index(index);
    clone.commands.run(call)?;
    // Links and directories in place of tracked files and their directories are replaced.
    run(&["checkout-index", "--force", "--all", "--index"])
}

/// Removes untracked files, and what a run left in `.ralph/`. Ignored files stay. Returns the
/// repositories that stay too, because what is in them is saved nowhere.
fn clean(clone: &GitRepository, index: &Path) -> Result<Vec<String>, VcsError> {
    let run = |call| clone.commands.run_for_output(call);
    run(clone.build_plumbing(&["clean", "-fdq"]).with_index(index))?;
    let runtime = clone.project.join(PROJECT_DIRECTORY);
    if runtime.symlink_metadata().is_ok_and(|about| about.is_dir()) {
        let call = clone.build_plumbing(&["clean", "-fdXq", "--"]).with_args([runtime]);
        run(call.with_index(index))?;
    }
    let args = ["ls-files", "-z", "--others", "--directory", "--exclude-standard"];
    let left = run(clone.build_plumbing(&args).with_index(index))?;
    Ok(split_at_zeros(&left).map(|it| String::from_utf8_lossy(it).into_owned()).collect())
}

/// Removes ignored autorun files and programs that the last job left: the next agent, its tools and
/// its gates would load them. Directories that git ignores as a whole stay as a cache, other than those
/// of editors and agents.
fn remove_autorun_files(clone: &GitRepository, index: &Path) -> Result<AutorunRemoval, VcsError> {
    let args = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let call = clone.build_plumbing(&args).with_index(index);
    let ignored = clone.commands.run_for_output(call)?;
    let mut removal = AutorunRemoval::default();
    for name in split_at_zeros(&ignored) {
        let path = clone.top.join(OsStr::from_bytes(name));
        let name = String::from_utf8_lossy(name);
        let Ok(about) = path.symlink_metadata() else { continue };
        let is_program = about.is_file() && about.mode() & 0o111 != 0;
        let execution = if is_program { Execution::New } else { Execution::Unchanged };
        // A file in a directory shows what the directory is for.
        let shown = if name.ends_with('/') { format!("{name}x") } else { name.into_owned() };
        if find_autorun_kind(&shown, execution).is_none() {
            removal.is_left = true;
            continue;
        }
        removal.is_removed = true;
        remove_any(&path).map_err(|error| VcsError {
            message: format!("cannot remove `{}`: {error}", path.display()),
        })?;
    }
    Ok(removal)
}

/// Removes the files of submodules: their repositories were in the old git directory. Returns
/// whether there are submodules.
fn clear_submodules(clone: &GitRepository, index: &Path) -> Result<bool, VcsError> {
    if clone.top.join(".gitmodules").symlink_metadata().is_err() {
        return Ok(false);
    }
    let gitlinks = clone.list_gitlinks(index)?;
    for path in gitlinks.iter().map(|it| clone.top.join(OsStr::from_bytes(it))) {
        let failed = |error: io::Error| VcsError {
            message: format!("cannot remove `{}`: {error}", path.display()),
        };
        remove_any(&path).and_then(|()| fs::create_dir(&path)).map_err(failed)?;
    }
    Ok(!gitlinks.is_empty())
}

/// Writes the files of a tree. The index stays at the base.
fn write_start_tree(clone: &GitRepository, index: &Path, tree: &str) -> Result<(), VcsError> {
    let failed = |error: io::Error| VcsError { message: format!("cannot copy an index: {error}") };
    copy_index(&clone.index_path(), index).map_err(failed)?;
    let call = clone.build_plumbing(&["read-tree", "--reset", "-u", "--no-recurse-submodules"]);
    clone.commands.run_for_output(call.with_args([tree]).with_index(index))?;
    remove_if_exists(index).map_err(failed)
}

fn replace_git_dir(slot: &WorkerSlot) -> io::Result<()> {
    let target = slot.clone_path().join(".git");
    remove_any(&target)?;
    fs::rename(slot.directory().join(NEW_GIT_DIR), target)
}

/// Removes whatever is at a path; links are not followed.
fn remove_any(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn build_error(doing: &str, slot: &WorkerSlot, error: &io::Error) -> VcsError {
    VcsError { message: format!("cannot {doing} `{}`: {error}", slot.clone_path().display()) }
}

/// Returns where the project is in a clone of its work tree.
fn find_project_in(source: &GitRepository, top: &Path) -> PathBuf {
    match source.project.strip_prefix(&source.top) {
        Ok(below) if !below.as_os_str().is_empty() => top.join(below),
        Ok(_) | Err(_) => top.to_owned(),
    }
}
