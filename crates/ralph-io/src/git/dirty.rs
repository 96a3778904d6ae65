//! What is not committed when a run begins.
//!
//! Not here: whether that matters. The caller knows who is going to commit.

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

/// A path that is not committed as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirty {
    /// The path from the top of the work tree.
    pub path: PathBuf,
    /// In what way.
    pub kind: DirtyKind,
}

/// In what way a path is not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirtyKind {
    /// It differs from the last commit, staged or not.
    Changed,
    /// A merge left it in conflict.
    Conflict,
    /// git does not know it.
    Untracked,
}

impl Repository {
    /// Returns every path that is not committed, but ralph's runtime files, what the run itself is
    /// about, and what is inside submodules.
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

    /// Returns whether commits would go onto no branch.
    pub fn is_detached(&self) -> Result<bool, VcsError> {
        Ok(self.head()?.branch.is_none())
    }

    /// Returns the operation of git's that is under way, such as a merge, in git's word for it.
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

/// Reads one entry; the path comes after a number of fields that depends on its first letter.
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

/// Reads states of files, for fuzzing.
pub(super) fn fuzz(output: &[u8]) {
    for Dirty { path, .. } in output.split(|byte| *byte == 0).filter_map(read) {
        assert!(path.as_os_str().len() <= output.len());
    }
}
