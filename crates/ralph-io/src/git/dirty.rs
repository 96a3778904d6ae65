//! Uncommitted changes when a run begins.
//!
//! Not here: whether they matter. The caller knows who is going to commit.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ralph_core::ports::VcsError;

use super::index_file::{HidingMark, IndexFile};
use super::repository::GitRepository;
use super::shadow::GitFileStamp;

/// A run takes less to begin; the user may change files later.
const MOMENT: Duration = Duration::from_secs(1);

/// The operation after which the same tree may be committed again.
pub(super) const MERGE: &str = "merge";

/// The other operations that a commit ends.
pub(super) const CHERRY_PICK: &str = "cherry-pick";
pub(super) const REVERT: &str = "revert";

/// The operation that no commit ends.
pub(super) const BISECT: &str = "bisect";

/// An uncommitted path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirtyPath {
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

impl GitRepository {
    /// Returns every uncommitted path except ralph's runtime files, the files of the run itself,
    /// and paths inside submodules.
    pub fn list_dirty(&self) -> Result<Vec<DirtyPath>, VcsError> {
        let mut dirty = self.list_all_dirty()?;
        dirty.retain(|it| !self.owns(it.path.as_os_str().as_bytes()));
        Ok(dirty)
    }

    /// Like [`GitRepository::list_dirty`], with the files of the run itself.
    pub fn list_all_dirty(&self) -> Result<Vec<DirtyPath>, VcsError> {
        let stamp = self.read_head_stamp();
        let call = self
            .build_plumbing(&["status", "--porcelain=v2", "-z"])
            .with_args(["--untracked-files=all", "--ignore-submodules=dirty", "--no-renames", "--"])
            .with_args(self.pathspecs_without_runtime_files());
        let output = self.commands.run_for_output(call)?;
        let entries = || output.split(|byte| *byte == 0);
        if !entries().any(is_staged) {
            self.note_nothing_staged(stamp);
        }
        *self.clean.borrow_mut() = match &*self.seen.borrow() {
            Some(head) if output.is_empty() => Some(self.build_clean_note(&head.tree)),
            Some(_) | None => None,
        };
        Ok(entries().filter_map(parse_entry).collect())
    }

    /// Returns the tracked files whose changes the user has hidden from git, relative to the project.
    /// Knows none in a sparse checkout, where git marks files itself, and in an index that only git
    /// can read.
    pub fn list_hidden_files(&self) -> Vec<(String, HidingMark)> {
        let index = if self.is_sparse() { None } else { self.read_large_index(&self.index_path()) };
        let hidden = index.iter().flat_map(IndexFile::hidden_paths);
        hidden.map(|(path, mark)| (self.name_bytes_from_project(path), mark)).collect()
    }

    /// Returns whether HEAD is detached, so that commits would be on no branch.
    pub fn is_detached(&self) -> Result<bool, VcsError> {
        Ok(self.head()?.branch.is_none())
    }

    /// Returns the branch that is checked out, if there is one.
    pub fn current_branch(&self) -> Result<Option<String>, VcsError> {
        Ok(self.head()?.branch)
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

/// That the work tree is the one of HEAD.
#[derive(Debug, Clone)]
pub(super) struct CleanNote {
    tree: String,
    at: Instant,
    /// How many commands were run until then.
    commands: usize,
    /// The task list, which ralph may write.
    own: Option<GitFileStamp>,
}

impl GitRepository {
    fn build_clean_note(&self, tree: &str) -> CleanNote {
        let own = self.own_path().and_then(|path| path.symlink_metadata().ok());
        CleanNote {
            tree: tree.to_owned(),
            at: Instant::now(),
            commands: self.commands.count(),
            own: own.map(|about| GitFileStamp::from_metadata(&about)),
        }
    }

    /// Returns the tree of the work tree, if git found it clean a moment ago and has not been used
    /// since, and the task list is the same.
    pub(super) fn take_clean_tree(&self) -> Option<String> {
        let noted = self.clean.take()?;
        let now = self.build_clean_note(&noted.tree);
        let is_same = (now.commands, now.own) == (noted.commands, noted.own);
        (is_same && now.at.duration_since(noted.at) < MOMENT).then_some(noted.tree)
    }
}

/// Returns whether an entry is about something other than the work tree alone.
fn is_staged(entry: &[u8]) -> bool {
    !entry.is_empty() && !entry.starts_with(b"? ") && !entry.starts_with(b"1 .")
}

/// Parses one entry; the number of fields before the path depends on the first letter.
fn parse_entry(entry: &[u8]) -> Option<DirtyPath> {
    let (kind, fields) = match entry.first()? {
        b'1' => (DirtyKind::Changed, 9),
        b'u' => (DirtyKind::Conflict, 11),
        b'?' => (DirtyKind::Untracked, 2),
        _ => return None,
    };
    let path = entry.splitn(fields, |byte| *byte == b' ').nth(fields - 1)?;
    Some(DirtyPath { path: OsStr::from_bytes(path).into(), kind })
}
