//! Changes of the work tree and the history since a checkpoint.
//!
//! Not here: what follows from them.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ralph_core::checking::autorun_changes::{self, Execution};
use ralph_core::ports::{OBSERVED_FILES, Observation, VcsError};
use ralph_model::glob::Pattern;
use ralph_model::handoff::{FileAction, FileTouched};
use ralph_model::text::TRUNCATED;
use ralph_model::worktree::{
    AutorunChange, Checkpoint, CommitId, History, MAX_AUTORUN_CHANGES, TreeDiff, TreeId,
    UNCOMMITTED_FILES,
};

use super::diff::TreeChange;
use super::head::HeadState;
use super::repository::GitRepository;
use super::scan::ScannedChanges;
use super::vcs::GitVcs;

impl GitVcs {
    pub(super) fn observe_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        let (commit, branch, tree) = match since {
            Checkpoint::None => return Ok(None),
            Checkpoint::Git { head, branch, tree } => (head, branch, tree),
        };
        let commit = commit.as_ref().map(|CommitId(commit)| commit.as_str());
        let mut before = if let Some(TreeId(tree)) = tree {
            tree.clone()
        } else {
            let head = self.repository.head()?;
            let is_checked_out = commit == head.commit.as_deref();
            if is_checked_out { head.tree } else { self.repository.resolve_tree(commit)? }
        };
        let now = self.shadow.survey_tree(&self.repository)?;
        let head = self.repository.head()?;
        let history = self.repository.compare_history(commit, branch.as_deref(), &head)?;
        let (touched, leaks) = match self.compare_trees(history, commit, &before, &now) {
            // No ref leads to the observed tree, and it was garbage-collected. The committed tree
            // is older: comparing with it shows more changes rather than fewer.
            Err(_) if self.repository.resolve_name(&format!("{before}^{{tree}}"))?.is_none() => {
                before = self.repository.resolve_tree(commit)?;
                self.compare_trees(history, commit, &before, &now)?
            }
            compared => compared?,
        };
        // They change while ralph runs, tracked or not.
        let is_runtime = |it: &TreeChange| self.repository.is_runtime_file(&it.path);
        let touched: Vec<TreeChange> = touched.into_iter().filter(|it| !is_runtime(it)).collect();
        let autorun = self.find_autorun_changes(&touched);
        let mut files: Vec<FileTouched> =
            touched.iter().map(|change| self.repository.to_file_touched(change)).collect();
        let is_watched = |path: &str| watched.iter().any(|pattern| pattern.matches(path));
        files.sort_by_cached_key(|file| (!is_watched(&file.path), file.path.clone()));
        let uncommitted = if before == head.tree {
            files.iter().take(UNCOMMITTED_FILES).map(|file| file.path.clone()).collect()
        } else {
            self.list_uncommitted(&head.tree, &now, &is_watched)?
        };
        let more = files.len().saturating_sub(OBSERVED_FILES);
        files.truncate(OBSERVED_FILES);
        Ok(Some(Observation {
            checked_out: Some(head.checked_out()),
            changes: if uncommitted.is_empty() { TreeDiff::Clean } else { TreeDiff::Dirty },
            tree: TreeId(now),
            files,
            more_files: u32::try_from(more).unwrap_or(u32::MAX),
            history,
            uncommitted,
            leaks,
            git_tampering: Vec::new(),
            conflict_markers: Vec::new(),
            autorun_changes: autorun,
        }))
    }

    /// Returns the difference between two trees, and the secrets added since a commit.
    fn compare_trees(
        &mut self,
        history: History,
        commit: Option<&str>,
        before: &str,
        now: &str,
    ) -> Result<ScannedChanges, VcsError> {
        match history {
            History::Advanced { .. } => {
                Ok((self.repository.diff_trees(before, now)?, self.find_leaks_since(commit)?))
            }
            // ralph's own commit needs no second scan then.
            History::Same | History::Rewritten => self.find_changes_and_leaks(before, now),
        }
    }

    /// Returns the changed files that tools run or load by themselves.
    fn find_autorun_changes(&self, touched: &[TreeChange]) -> Vec<AutorunChange> {
        let there = touched.iter().filter(|change| change.after.is_some());
        let known = there.filter_map(|change| {
            let path = self.repository.name_bytes_from_project(&change.path);
            let execution =
                if change.makes_executable() { Execution::New } else { Execution::Unchanged };
            autorun_changes::find_autorun_kind(&path, execution)
                .map(|kind| AutorunChange { path, kind })
        });
        known.take(MAX_AUTORUN_CHANGES).collect()
    }

    /// Returns the first paths that differ from HEAD.
    fn list_uncommitted(
        &self,
        head: &str,
        now: &str,
        is_watched: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, VcsError> {
        if head == now {
            return Ok(Vec::new());
        }
        let touched = self.repository.diff_trees(head, now)?;
        let is_runtime = |it: &&TreeChange| self.repository.is_runtime_file(&it.path);
        let named = touched
            .iter()
            .filter(|it| !is_runtime(it))
            .map(|change| self.repository.to_file_touched(change).path);
        let mut named: Vec<String> = named.collect();
        named.sort_by_cached_key(|path| (!is_watched(path), path.clone()));
        named.truncate(UNCOMMITTED_FILES);
        Ok(named)
    }
}

impl GitRepository {
    /// Compares HEAD with its earlier state.
    fn compare_history(
        &self,
        commit: Option<&str>,
        branch: Option<&str>,
        head: &HeadState,
    ) -> Result<History, VcsError> {
        if branch != head.branch.as_deref() {
            return Ok(History::Rewritten);
        }
        let range = match (commit, head.commit.as_deref()) {
            (before, now) if before == now => return Ok(History::Same),
            (_, None) => return Ok(History::Rewritten),
            (None, Some(now)) => now.to_owned(),
            (Some(before), Some(now)) => format!("{before}...{now}"),
        };
        let args = ["rev-list", "--count", "--left-right", &range, "--"];
        let ran = self.commands.run(self.build_plumbing(&args))?;
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let mut counts = text.split_whitespace();
        // git fails if a commit is gone altogether.
        match (ran.code, counts.next(), counts.next().map(str::parse)) {
            (0, Some("0"), Some(Ok(commits))) => Ok(History::Advanced { commits }),
            (_, _, _) => Ok(History::Rewritten),
        }
    }

    /// Returns a path of the work tree relative to the project directory, which may be below the
    /// top.
    pub fn name_from_project(&self, path: &Path) -> String {
        self.name_bytes_from_project(path.as_os_str().as_bytes())
    }

    /// Returns a path in git's bytes relative to the project directory.
    pub(super) fn name_bytes_from_project(&self, path: &[u8]) -> String {
        let below = self.project.strip_prefix(&self.top).unwrap_or(Path::new(""));
        let below = below.to_string_lossy();
        let path = String::from_utf8_lossy(path);
        let inside = path.strip_prefix(&*below).and_then(|rest| rest.strip_prefix('/'));
        match (below.is_empty(), inside) {
            (true, _) => path.into_owned(),
            (false, Some(inside)) => inside.to_owned(),
            (false, None) => format!("{}{path}", "../".repeat(below.split('/').count())),
        }
    }

    fn to_file_touched(&self, change: &TreeChange) -> FileTouched {
        FileTouched {
            path: self.name_bytes_from_project(&change.path),
            action: match (&change.before, &change.after) {
                (None, _) => FileAction::Created,
                (Some(_), Some(_)) => FileAction::Modified,
                (Some(_), None) => FileAction::Deleted,
            },
        }
    }

    /// Returns the difference between two trees as a patch of at most this many characters.
    pub fn build_patch(
        &self,
        TreeId(from): &TreeId,
        TreeId(to): &TreeId,
        chars: usize,
    ) -> Result<String, VcsError> {
        // Four bytes are enough for any character, and one character more detects a cut.
        let bytes = chars.saturating_add(1).saturating_mul(4);
        let call = self
            .build_plumbing(&["diff-tree", "-r", "--patch", "--find-renames", "--no-color"])
            .with_args(["--no-ext-diff", "--no-textconv", from, to])
            // Attributes of the old tree apply: one new line of attributes could hide a change.
            .with_env("GIT_ATTR_SOURCE", from.as_str())
            .with_output_limit(bytes);
        let output = self.commands.run_for_output(call)?;
        let patch = String::from_utf8_lossy(&output);
        if patch.chars().nth(chars).is_none() {
            return Ok(patch.into_owned());
        }
        let mark = format!("\n{TRUNCATED}");
        let Some(room) = chars.checked_sub(mark.chars().count()) else {
            return Ok(patch.chars().take(chars).collect());
        };
        let start: String = patch.chars().take(room).collect();
        Ok(format!("{start}{mark}"))
    }
}
