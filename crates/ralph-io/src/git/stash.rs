//! The user's uncommitted changes, set aside during a run and restored after it.
//!
//! Not here: asking the user for consent.

use ralph_core::ports::VcsError;
use ralph_model::ids::RunId;

use super::diff::{format_index_info, split_at_zeros};
use super::ref_files::RefFiles;
use super::repository::GitRepository;
use super::restore::{RestoreTarget, find_obstacles};
use super::vcs::GitVcs;

/// The result of restoring changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoredChanges {
    Nothing,
    /// The changes are in the work tree again.
    Done,
    /// They conflict with the work of the run. Nothing was changed; a kept ref holds them, so that
    /// restoring is not tried again.
    Conflict {
        kept: String,
        paths: Vec<String>,
    },
}

impl GitVcs {
    /// Saves all uncommitted changes, untracked files included, on a ref of the run, and resets the
    /// work tree to HEAD, except for the run's own documents. Returns the ref, or none if
    /// everything is committed.
    pub fn set_aside(&mut self, run: &RunId) -> Result<Option<String>, VcsError> {
        if let Some(operation) = self.repository.operation() {
            return Err(VcsError {
                message: format!(
                    "`git {operation}` is in progress and cannot be set aside; finish or abort it first"
                ),
            });
        }
        let head = self.repository.head()?;
        let tree = if self.repository.owns_any_file() {
            let now = self.shadow.survey_tree(&self.repository)?;
            self.build_tree_with(&head.tree, |path| self.repository.owns(path), &now)?
        } else {
            head.tree.clone()
        };
        let target = RestoreTarget { tree, index: head.tree, place: None, operation: None };
        self.restore(&target, &set_aside_ref(run))
    }

    /// Restores the changes that were set aside for a run, merged with the work of the run.
    pub fn restore_set_aside(&mut self, run: &RunId) -> Result<RestoredChanges, VcsError> {
        if !self.repository.runs_with_set_aside()?.contains(run) {
            return Ok(RestoredChanges::Nothing);
        }
        let name = set_aside_ref(run);
        let Some(aside) = self.repository.resolve_name(&name)? else {
            return Ok(RestoredChanges::Nothing);
        };
        let head = self.repository.head()?;
        let now = self.shadow.survey_tree(&self.repository)?;
        let users = self.without_own_documents(&aside)?;
        if let Err(paths) = self.merge_into(&now, &users)? {
            let kept = format!("refs/ralph/kept/{run}/set-aside");
            for args in [["update-ref", &kept, &aside].as_slice(), &["update-ref", "-d", &name]] {
                self.repository.commands.run_for_output(self.repository.build_plumbing(args))?;
            }
            return Ok(RestoredChanges::Conflict { kept, paths });
        }
        // Staged changes are staged again if they still apply; they are in the work tree anyway.
        if let Some(staged) = self.repository.resolve_name(&format!("{name}^2"))?
            && let Some(commit) = &head.commit
            && let MergedCommits { tree, conflicts } = self.merge_commits(commit, &staged)?
            && conflicts.is_empty()
        {
            let staged = self.repository.diff_trees(&head.tree, &tree)?;
            self.repository.stage_changes(&staged)?;
        }
        let args = ["update-ref", "-d", &name, &aside];
        self.repository.commands.run_for_output(self.repository.build_plumbing(&args))?;
        Ok(RestoredChanges::Done)
    }

    /// Returns a commit like this one in which the run's own documents are as before it.
    pub(super) fn without_own_documents(&self, commit: &str) -> Result<String, VcsError> {
        let before = self.repository.resolve_name(&format!("{commit}^1"))?;
        let Some(before) = before.filter(|_| self.repository.owns_any_file()) else {
            return Ok(commit.to_owned());
        };
        let tree = self.build_tree_with(commit, |path| self.repository.owns(path), &before)?;
        self.repository.commit_tree(&tree, &[before], "ralph: what was set aside")
    }

    /// Returns a tree with some paths taken from another one.
    pub(super) fn build_tree_with(
        &self,
        tree: &str,
        is_taken: impl Fn(&[u8]) -> bool,
        from: &str,
    ) -> Result<String, VcsError> {
        let tree = self.repository.resolve_tree(Some(tree))?;
        let from = self.repository.resolve_tree(Some(from))?;
        let mut changes = self.repository.diff_trees(&tree, &from)?;
        changes.retain(|change| is_taken(&change.path));
        // Not in the shadow index, which would lose its stat data.
        let index = self.scratch.join("index.scratch");
        let git = |args: &[&str]| self.repository.build_plumbing(args).with_index(&index);
        let commands = &self.repository.commands;
        commands.run_for_output(git(&["read-tree", "--reset", &tree]))?;
        let update = git(&["update-index", "-z", "--index-info"]);
        commands.run_for_output(update.with_stdin(format_index_info(&changes)))?;
        commands.run_for_line(git(&["write-tree"]))
    }

    /// Merges a commit into the work tree, whose tree is `now`. Returns the conflicting paths, in
    /// which case nothing is changed.
    pub(super) fn merge_into(
        &mut self,
        now: &str,
        theirs: &str,
    ) -> Result<Result<(), Vec<String>>, VcsError> {
        let MergedCommits { tree, conflicts } = self.merge_with_tree(now, theirs)?;
        if !conflicts.is_empty() {
            return Ok(Err(conflicts));
        }
        self.write_merged(now, &tree)
    }

    /// Merges a commit into the work tree, whose tree is `now`, with markers where it conflicts.
    /// Returns the paths in conflict, or else the paths that cannot be written, in which case
    /// nothing is changed.
    pub(super) fn merge_with_markers(
        &mut self,
        now: &str,
        theirs: &str,
    ) -> Result<Result<Vec<String>, Vec<String>>, VcsError> {
        let MergedCommits { tree, conflicts } = self.merge_with_tree(now, theirs)?;
        let written = self.write_merged(now, &tree)?;
        Ok(written.map(|()| conflicts))
    }

    fn merge_with_tree(&self, now: &str, theirs: &str) -> Result<MergedCommits, VcsError> {
        let parents: Vec<String> = self.repository.head()?.commit.into_iter().collect();
        let here = self.repository.commit_tree(now, &parents, "ralph: the work tree")?;
        self.merge_commits(&here, theirs)
    }

    /// Writes a merged tree into the work tree. Returns the paths with files in the way, in which
    /// case nothing is changed.
    fn write_merged(
        &mut self,
        now: &str,
        merged: &str,
    ) -> Result<Result<(), Vec<String>>, VcsError> {
        let arriving = self.repository.diff_trees(merged, now)?;
        let obstacles = find_obstacles(&self.repository.top, &arriving)?;
        if !obstacles.is_empty() {
            let paths = obstacles.iter().map(|path| String::from_utf8_lossy(path).into_owned());
            return Ok(Err(paths.collect()));
        }
        self.switch_tree(now, merged)?;
        Ok(Ok(()))
    }

    /// Merges two commits into a tree.
    fn merge_commits(&self, ours: &str, theirs: &str) -> Result<MergedCommits, VcsError> {
        let git = |args: &[&str]| self.repository.build_plumbing(args);
        let base = self.repository.resolve_name(&format!("{theirs}^1^{{tree}}"))?;
        if base.is_some() && base == self.repository.resolve_name(&format!("{ours}^{{tree}}"))? {
            // Nothing has changed since; this also works with older versions of git.
            let tree = self
                .repository
                .commands
                .run_for_line(git(&["rev-parse", &format!("{theirs}^{{tree}}")]))?;
            return Ok(MergedCommits { tree, conflicts: Vec::new() });
        }
        let call = git(&["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"])
            .with_args(["--allow-unrelated-histories", ours, theirs])
            .with_ralph_identity();
        let ran = self.repository.commands.run(call)?;
        let mut fields =
            split_at_zeros(&ran.stdout).map(|field| String::from_utf8_lossy(field).into_owned());
        match (ran.code, fields.next()) {
            (0, Some(tree)) => Ok(MergedCommits { tree, conflicts: Vec::new() }),
            (1, Some(tree)) => {
                let mut conflicts: Vec<String> = fields.collect();
                // A conflict that names no path is still one.
                if conflicts.is_empty() {
                    conflicts.push("unnamed paths".to_owned());
                }
                Ok(MergedCommits { tree, conflicts })
            }
            (_, _) => Err(ran.to_error()),
        }
    }
}

/// Two commits merged into a tree.
struct MergedCommits {
    /// With markers where the commits conflict.
    tree: String,
    conflicts: Vec<String>,
}

impl GitRepository {
    /// Returns the runs with changes set aside, those of other work trees included.
    pub fn runs_with_set_aside(&self) -> Result<Vec<RunId>, VcsError> {
        let mut files = RefFiles::new(self.common_dir());
        let refs = files.read_all(self, |name| name.starts_with(SET_ASIDE))?;
        let runs = refs.keys().filter_map(|name| name.strip_prefix(SET_ASIDE));
        Ok(runs.map(|run| RunId(run.to_owned())).collect())
    }
}

/// Where changes are saved while they are set aside.
const SET_ASIDE: &str = "refs/ralph/set-aside/";

fn set_aside_ref(run: &RunId) -> String {
    format!("{SET_ASIDE}{run}")
}
