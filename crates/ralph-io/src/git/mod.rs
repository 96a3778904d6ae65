//! The git repository: checkpoints, commits, and restoring.
//!
//! Whatever the user did not ask for is done with plumbing on a shadow index, and removed work is
//! first saved on a ref under `refs/ralph/`. The user's index, stash, branches, configuration and
//! ignored files stay as they are; ralph never runs `git clean`, `git stash` or
//! `git reset --hard`. Not here: when to commit or to restore.

mod back;
mod command;
mod commit;
mod compared;
mod confine;
mod diff;
mod dirty;
mod head;
mod history;
mod hooks;
mod identity;
mod kept_logs;
mod kept_objects;
mod kept_refs;
mod last_commits;
mod locks;
mod none;
mod observe;
mod outputs;
mod own_files;
mod ref_files;
mod repository;
mod run_refs;
mod scan;
pub mod scratch;
mod shadow;
mod shelf;
mod shelve;
mod side;
mod user_index;
mod vcs;

pub use dirty::{Dirty, DirtyKind};
pub use hooks::framework_store;
pub use last_commits::CommitLine;
pub use none::NoRepository;
pub use repository::{Discovery, Repository};
pub use run_refs::{RunRef, RunRefKind};
pub use shelf::{Shelf, Taken};
pub use side::PutBack;
pub use vcs::Git;

/// Parses git's output, for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    diff::fuzz(bytes);
    dirty::fuzz(bytes);
    scan::fuzz(bytes);
}

#[cfg(test)]
mod tests;
