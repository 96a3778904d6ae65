//! The user's own index: read often, changed only if a commit or a rollback changes what it is
//! compared with.
//!
//! Not here: the shadow index.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;

use super::diff::{TreeChange, format_index_info};
use super::repository::GitRepository;
use super::shadow;

/// The lock that git itself takes to write the index.
#[derive(Debug)]
pub(super) struct IndexLock {
    index: PathBuf,
    /// The lock file; none once it has become the index.
    lock: Option<PathBuf>,
}

impl IndexLock {
    /// Takes the lock; none if another program holds it, or if there is no index yet.
    pub(super) fn acquire(index: &Path) -> Result<Option<Self>, VcsError> {
        let Ok(metadata) = fs::metadata(index) else {
            return Ok(None);
        };
        let lock = index.with_extension("lock");
        let mode = metadata.permissions().mode();
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&lock) {
            Ok(_) => Ok(Some(Self { index: index.to_owned(), lock: Some(lock) })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => {
                Err(VcsError { message: format!("cannot create `{}`: {error}", lock.display()) })
            }
        }
    }

    /// Replaces the user's index by another one, with its stat data, and releases the lock. Returns
    /// the metadata of the new file.
    pub(super) fn install(mut self, other: &Path) -> Result<Metadata, VcsError> {
        let failed = |error: io::Error| VcsError {
            message: format!("cannot write the index `{}`: {error}", self.index.display()),
        };
        let Some(lock) = &self.lock else {
            return Err(failed(io::ErrorKind::NotFound.into()));
        };
        let file = OpenOptions::new().write(true).open(lock).map_err(failed)?;
        shadow::copy_index_into(other, &file).map_err(failed)?;
        fs::rename(lock, &self.index).map_err(failed)?;
        // Renaming changes the ctime, so the metadata is read only now.
        let about = file.metadata().map_err(failed)?;
        self.lock = None;
        Ok(about)
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            let _ = fs::remove_file(lock);
        }
    }
}

impl GitRepository {
    /// Returns the staged changes, compared with a tree.
    pub(super) fn list_staged(&self, tree: &str) -> Result<Vec<TreeChange>, VcsError> {
        let args = ["diff-index", "--cached", "--raw", "-z", "--no-renames", tree];
        self.run_for_changes(self.build_plumbing(&args))
    }

    /// Returns the tree of the index; none while a merge is in conflict.
    pub(super) fn write_index_tree(
        &self,
        head_tree: &str,
        directory: &Path,
    ) -> Result<Option<String>, VcsError> {
        let index = self.index_path();
        if !index.exists() {
            return self.empty_tree().map(Some);
        }
        if let Some(tree) = self.write_tree_of(&index) {
            return Ok(Some(tree));
        }
        let args = ["diff-index", "--cached", "--quiet", head_tree];
        if self.commands.run(self.build_plumbing(&args))?.code == 0 {
            return Ok(Some(head_tree.to_owned()));
        }
        // Writing a tree also changes the index, so this is done on a copy.
        let scratch = directory.join("index.scratch");
        shadow::copy_index(&index, &scratch).map_err(|error| VcsError {
            message: format!("cannot copy the index `{}`: {error}", index.display()),
        })?;
        let ran = self.commands.run(self.build_plumbing(&["write-tree"]).with_index(&scratch))?;
        let tree = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
        Ok((ran.code == 0).then_some(tree))
    }

    /// Updates some paths of the user's index to their state after these changes, and leaves the
    /// others.
    pub(super) fn stage_changes(&self, changes: &[TreeChange]) -> Result<(), VcsError> {
        if changes.is_empty() {
            return Ok(());
        }
        let call = self.build_plumbing(&["update-index", "-z", "--index-info"]);
        self.commands.run_for_output(call.with_stdin(format_index_info(changes))).map(drop)
    }

    /// Resets the user's index to a tree.
    pub(super) fn reset_index(&self, tree: &str) -> Result<(), VcsError> {
        if self.list_staged(tree)?.is_empty() {
            return Ok(());
        }
        self.commands.run_for_output(self.build_plumbing(&["read-tree", "--reset", tree])).map(drop)
    }
}
