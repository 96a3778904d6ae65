//! Merges the commits of workers into the work tree of a run, and fetches them from clones.
//!
//! No git operation is ever in progress: the merge is computed as a tree, and only a tree
//! without conflicts is checked out. Not here: when to merge.

use ralph_core::ports::{FetchOutcome, Vcs as _, VcsError};
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::parallel_state::{Candidate, MergeOutcome};
use ralph_model::recipe::PROGRESS;
use ralph_model::run::IterationMark;
use ralph_model::worker::JobResult;
use ralph_model::worktree::{Checkpoint, CommitId, TreeId};

use super::head::is_object_id;
use super::restore::find_obstacles;
use super::vcs::GitVcs;

/// What is reported of files that are in the way of a merge.
const OBSTACLES: &str = "These files are in the way, and git ignores them.";

/// A merge of two commits, computed and not checked out.
#[derive(Debug, PartialEq, Eq)]
struct ComputedMerge {
    /// With conflict markers, if there are conflicts.
    tree: String,
    conflicts: Vec<String>,
    messages: String,
}

impl GitVcs {
    /// Merges a candidate into the work tree as of a checkpoint. What a killed process left of
    /// the same merge is rolled back first.
    pub(super) fn merge_into_tree(
        &mut self,
        mark: &IterationMark,
        onto: &Checkpoint,
        candidate: &Candidate,
    ) -> Result<MergeOutcome, VcsError> {
        let Checkpoint::Git { head: Some(CommitId(head)), tree: Some(TreeId(before)), .. } = onto
        else {
            return Ok(MergeOutcome::Missing { reason: "there is no commit to merge into".into() });
        };
        let CommitId(commit) = &candidate.commit;
        if !self.has_commit(commit)? {
            let reason = format!("the commit {} is not there", candidate.commit.short_id());
            return Ok(MergeOutcome::Missing { reason });
        }
        let base = self.find_merge_base(head, commit)?;
        let theirs = self.without_list(commit, base.as_deref())?;
        // The same for every repetition: the tree of the checkpoint, not of the work tree.
        let here = self.repository.commit_tree(
            before,
            std::slice::from_ref(head),
            "ralph: the work tree",
        )?;
        let ComputedMerge { tree, conflicts: paths, messages } =
            self.compute_merge(&here, &theirs)?;
        if !paths.is_empty() {
            return Ok(MergeOutcome::Conflict { tree: TreeId(tree), paths, messages });
        }
        let now = self.shadow.survey_tree(&self.repository)?;
        if now != tree {
            if now != *before {
                self.roll_back(mark, onto)?;
            }
            let arriving = self.repository.diff_trees(&tree, before)?;
            let obstacles = find_obstacles(&self.repository.top, &arriving)?;
            if !obstacles.is_empty() {
                let paths = obstacles.iter().map(|path| String::from_utf8_lossy(path).into_owned());
                let (paths, messages) = (paths.collect(), OBSTACLES.to_owned());
                return Ok(MergeOutcome::Conflict { tree: TreeId(tree), paths, messages });
            }
            self.switch_tree(before, &tree)?;
        }
        let is_same = base.as_deref() == Some(head) && self.has_only_list_changes(head, before)?;
        let tree = TreeId(tree);
        Ok(if is_same { MergeOutcome::Same { tree } } else { MergeOutcome::Clean { tree } })
    }

    fn has_commit(&self, commit: &str) -> Result<bool, VcsError> {
        let name = format!("{commit}^{{commit}}");
        Ok(is_object_id(commit) && self.repository.resolve_name(&name)?.is_some())
    }

    fn find_merge_base(&self, ours: &str, theirs: &str) -> Result<Option<String>, VcsError> {
        let call = self.repository.build_plumbing(&["merge-base", ours, theirs]);
        let ran = self.repository.commands.run(call)?;
        match ran.code {
            0 => Ok(Some(String::from_utf8_lossy(&ran.stdout).trim().to_owned())),
            1 => Ok(None),
            _ => Err(ran.to_error()),
        }
    }

    /// Returns a commit like this one with the task list of the base: only ralph writes the
    /// list of the run.
    fn without_list(&self, commit: &str, base: Option<&str>) -> Result<String, VcsError> {
        let Some(base) = base else { return Ok(commit.to_owned()) };
        let (from, to) = (
            self.repository.resolve_tree(Some(base))?,
            self.repository.resolve_tree(Some(commit))?,
        );
        let changes = self.repository.diff_trees(&from, &to)?;
        if !changes.iter().any(|change| self.is_list(&change.path)) {
            return Ok(commit.to_owned());
        }
        let tree = self.build_tree_with(commit, |path| self.is_list(path), base)?;
        self.repository.commit_tree(&tree, &[base.to_owned()], "ralph: without the task list")
    }

    /// Returns whether a path is the task list, or the notes next to it.
    fn is_list(&self, path: &[u8]) -> bool {
        let Some(own) = &self.repository.own else { return false };
        let directory = own.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let notes = [&own[..directory], PROGRESS.as_bytes()].concat();
        path == own.as_slice() || path == notes.as_slice()
    }

    /// Returns whether a work tree differs from a commit only in what belongs to the run.
    fn has_only_list_changes(&self, head: &str, tree: &str) -> Result<bool, VcsError> {
        let committed = self.repository.resolve_tree(Some(head))?;
        let changes = self.repository.diff_trees(&committed, tree)?;
        let is_ours = |path: &[u8]| self.is_list(path) || self.repository.owns(path);
        Ok(changes.iter().all(|change| is_ours(&change.path)))
    }

    fn compute_merge(&self, ours: &str, theirs: &str) -> Result<ComputedMerge, VcsError> {
        let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs];
        let call = self.repository.build_plumbing(&args).with_ralph_identity();
        let ran = self.repository.commands.run(call)?;
        match (ran.code, parse_merge(&ran.stdout)) {
            (0, Some(merge)) => Ok(ComputedMerge { conflicts: Vec::new(), ..merge }),
            // A conflict that names no path is still one.
            (1, Some(mut merge)) => {
                if merge.conflicts.is_empty() {
                    merge.conflicts.push("unnamed paths".to_owned());
                }
                Ok(merge)
            }
            (_, _) => Err(ran.to_error()),
        }
    }

    /// Fetches the commits that a worker ended with: its last one onto a ref of the run, and its
    /// failure branch.
    pub(super) fn fetch_candidate(
        &mut self,
        run: &RunId,
        worker: &WorkerId,
        result: &JobResult,
    ) -> Result<FetchOutcome, VcsError> {
        let commit = result.commit.as_ref().map(|CommitId(commit)| commit.as_str());
        let commit = commit.map(|it| format!("+{it}:refs/ralph/candidates/{run}/{worker}"));
        let branch = result.failure_branch.as_ref();
        let branch = branch.map(|branch| format!("refs/heads/{branch}:refs/heads/{branch}"));
        let wanted: Vec<String> = commit.into_iter().chain(branch).collect();
        if wanted.is_empty() {
            return Ok(FetchOutcome::Fetched);
        }
        if let Some(CommitId(commit)) = result.commit.as_ref().filter(|it| !is_object_id(&it.0)) {
            return Ok(FetchOutcome::Missing { reason: format!("`{commit}` is not a commit") });
        }
        let call = self
            .repository
            .build_plumbing(&["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
            .with_args(["--no-auto-maintenance", "--no-prune", "--no-recurse-submodules", "--"])
            .with_args([result.repository.as_os_str()])
            .with_args(&wanted)
            // The clone is outside of what a sandboxed git sees. An agent made the objects.
            .with_setting("transfer.fsckObjects=true")
            .without_sandbox();
        let ran = self.repository.commands.run(call)?;
        if ran.code == 0 {
            return Ok(FetchOutcome::Fetched);
        }
        Ok(FetchOutcome::Missing { reason: ran.to_error().message })
    }
}

/// Parses the output of `merge-tree -z --name-only --messages`: the tree, the paths in conflict,
/// an empty field, then messages with their paths and kind.
fn parse_merge(output: &[u8]) -> Option<ComputedMerge> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let mut fields = output.split(|byte| *byte == 0);
    let tree = text(fields.next()?);
    let conflicts = fields.by_ref().take_while(|field| !field.is_empty()).map(text).collect();
    let mut messages = String::new();
    while let Some(count) = fields.next().and_then(|it| text(it).parse::<usize>().ok()) {
        let kind = fields.by_ref().nth(count).map(text)?;
        let message = fields.next().map(text)?;
        if kind != "Auto-merging" {
            messages.push_str(&message);
        }
    }
    is_object_id(&tree).then_some(ComputedMerge { tree, conflicts, messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_merge_is_parsed() {
        let tree = "0123456789012345678901234567890123456789";
        let clean = parse_merge(format!("{tree}\0\0").as_bytes()).expect("parsed");
        assert_eq!((clean.tree.as_str(), clean.conflicts.len()), (tree, 0));
        let text = format!(
            "{tree}\0a.txt\0b c\0\01\0a.txt\0Auto-merging\0Auto-merging a.txt\n\0\
             2\0a.txt\0x\0CONFLICT (contents)\0CONFLICT (content): a.txt\n\0"
        );
        let merge = parse_merge(text.as_bytes()).expect("parsed");
        assert_eq!(merge.conflicts, ["a.txt", "b c"]);
        assert_eq!(merge.messages, "CONFLICT (content): a.txt\n");
        assert_eq!(parse_merge(b"fatal: no\0"), None);
    }
}
