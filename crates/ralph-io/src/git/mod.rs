//! The git repository: checkpoints, commits, and restoring.
//!
//! Whatever the user did not ask for is done with plumbing on a shadow index, and removed work is
//! first saved on a ref under `refs/ralph/`. The user's index, stash, branches, configuration and
//! ignored files stay as they are; ralph never runs `git clean`, `git stash` or
//! `git reset --hard`. Not here: when to commit or to restore.

mod branch_update;
mod clones;
mod command;
mod commit;
mod commit_object;
mod config;
mod confine;
mod diff;
mod dirty;
mod failure_branches;
mod failure_commit;
mod git_dir_guard;
mod gitlinks;
mod head;
mod history;
mod hooks;
mod identity;
mod index_file;
mod kept_logs;
mod kept_objects;
mod kept_refs;
mod last_commits;
mod locks;
mod machine_clone;
mod merge;
mod none;
mod object_store;
mod observe;
mod outputs;
mod own_commits;
mod programs;
mod ref_files;
mod remote_refs;
mod repository;
mod restore;
mod run_checkpoints;
mod run_refs;
mod scan;
mod scm_call;
pub mod scratch;
mod shadow;
mod stash;
mod user_index;
mod vcs;

pub use clones::{
    CloneError, CloneObstacle, CloneRequest, PreparedClone, UnsavedWork, check_can_clone,
    find_needed_space, find_object_directories, find_unsaved_work, prepare_clone,
};
pub use dirty::{DirtyKind, DirtyPath};
pub use failure_branches::{FailureBranch, TakenWork};
pub(crate) use head::is_object_id;
pub use hooks::find_framework_store;
pub use index_file::HidingMark;
pub use last_commits::CommitSummary;
pub use machine_clone::clone_project;
pub use none::NoRepository;
pub use remote_refs::{REF_PREFIX, RefUpdate, RemoteError, RemoteRefs};
pub use repository::{GitRepository, RepositoryDiscovery, find_unusable_git_dir};
pub use run_refs::{RunRef, RunRefKind};
pub use stash::RestoredChanges;
pub use vcs::GitVcs;

#[cfg(test)]
mod tests;
