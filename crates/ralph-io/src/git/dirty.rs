//! Uncommitted changes when a run begins.
//!
//! Not here: whether they matter. The caller knows who is going to commit.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use ralph_core::ports::VcsError;

use super::repository::Repository;

/// The operation after which the same tree may be committed again.
pub(super) const MERGE: &str = "merge";

/// The other operations that a commit ends.
pub(super) const CHERRY_PICK: &str = "cherry-pick";
pub(super) const REVERT: &str = "revert";

/// The operation that no commit ends.
pub(super) const BISECT: &str = "bisect";

/// An uncommitted path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirty {
    /// The path from the top of the work tree.
    pub path: PathBuf,
    pub kind: DirtyKind,
}

/// How a path is uncommitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirtyKind {
    /// It differs from the last commit, staged or not.
    Changed,
    /// It has merge conflicts.
    Conflict,
    /// git does not track it.
    Untracked,
}

impl Repository {
    /// Returns every uncommitted path except ralph's runtime files, the files of the run itself,
    /// and paths inside submodules.
    pub fn dirty(&self) -> Result<Vec<Dirty>, VcsError> {
        let call = self
            .git(&["status", "--porcelain=v2", "-z"])
            .args(["--untracked-files=all", "--ignore-submodules=dirty", "--no-renames", "--"])
            .args(self.all_but_runtime_files());
        let mut dirty: Vec<Dirty> =
            self.commands.output(call)?.split(|byte| *byte == 0).filter_map(read).collect();
        dirty.retain(|it| !self.owns(it.path.as_os_str().as_bytes()));
        Ok(dirty)
    }

    /// Returns whether HEAD is detached, so that commits would be on no branch.
    pub fn is_detached(&self) -> Result<bool, VcsError> {
        Ok(self.head()?.branch.is_none())
    }

    /// Returns the git operation in progress, by its command name, such as `merge`.
    pub fn operation(&self) -> Option<&'static str> {
        const TRACES: [(&str, &str); 8] = [
            ("MERGE_HEAD", MERGE),
            ("CHERRY_PICK_HEAD", CHERRY_PICK),
            ("REVERT_HEAD", REVERT),
            ("rebase-merge", "rebase"),
            ("rebase-apply/applying", "am"),
            ("rebase-apply", "rebase"),
            ("sequencer", CHERRY_PICK),
            ("BISECT_LOG", BISECT),
        ];
        TRACES
            .into_iter()
            .find(|(trace, _)| self.git_dir.join(trace).exists())
            .map(|(_, operation)| operation)
    }
}

/// Parses one entry; the number of fields before the path depends on the first letter.
fn read(entry: &[u8]) -> Option<Dirty> {
    let (kind, fields) = match entry.first()? {
        b'1' => (DirtyKind::Changed, 9),
        b'u' => (DirtyKind::Conflict, 11),
        b'?' => (DirtyKind::Untracked, 2),
        _ => return None,
    };
    let path = entry.splitn(fields, |byte| *byte == b' ').nth(fields - 1)?;
    Some(Dirty { path: OsStr::from_bytes(path).into(), kind })
}

/// Parses file states, for fuzzing.
pub(super) fn fuzz(output: &[u8]) {
    for Dirty { path, .. } in output.split(|byte| *byte == 0).filter_map(read) {
        assert!(path.as_os_str().len() <= output.len());
    }
}
