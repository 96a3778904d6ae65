//! Merges the commits of workers into the work tree of a run, and fetches them from clones.
//!
//! No git operation is ever in progress: the merge is computed as a tree, and only a tree
//! without conflicts is checked out. Not here: when to merge.

use std::path::Path;

use ralph_core::ports::{FetchOutcome, Vcs as _, VcsError};
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::parallel_state::{Candidate, MergeOutcome};
use ralph_model::recipe::PROGRESS;
use ralph_model::run::IterationMark;
use ralph_model::worker::JobResult;
use ralph_model::worktree::{Checkpoint, CommitId, TreeId};

use super::command::GitCommand;
use super::head::is_object_id;
use super::repository::GitRepository;
use super::restore::find_obstacles;
use super::vcs::GitVcs;

/// What is reported of files that are in the way of a merge.
const OBSTACLES: &str = "These files are in the way, and git ignores them.";

/// More than this is not kept in memory to be copied.
const LARGEST_COPY: usize = 4 * 1024 * 1024;

/// How a tip and a candidate are related.
#[derive(Debug, PartialEq, Eq)]
struct MergeSides {
    /// The trees of both.
    ours: String,
    theirs: String,
    /// The commit that both come from, with its tree; `None` for unrelated histories.
    base: Option<(String, String)>,
}

/// A merge of two commits, computed and not checked out.
#[derive(Debug, PartialEq, Eq)]
struct ComputedMerge {
    /// With conflict markers, if there are conflicts.
    tree: String,
    conflicts: Vec<String>,
    messages: String,
}

impl GitRepository {
    /// Fetches the commits that a worker ended with: its last one onto a ref of the run, and its
    /// failure branch.
    pub fn fetch_candidate(
        &self,
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
        if let (Some(CommitId(commit)), None) = (&result.commit, &result.failure_branch)
            && self.copy_commit(&result.repository, commit)?
        {
            self.set_ref(&format!("refs/ralph/candidates/{run}/{worker}"), commit)?;
            return Ok(FetchOutcome::Fetched);
        }
        let call = self
            .build_plumbing(&["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
            .with_args(["--no-auto-maintenance", "--no-prune", "--no-recurse-submodules", "--"])
            .with_args([result.repository.as_os_str()])
            .with_args(&wanted)
            // The clone is outside of what a sandboxed git sees. An agent made the objects.
            .with_setting("transfer.fsckObjects=true")
            .without_sandbox();
        let ran = self.commands.run(call)?;
        if ran.code == 0 {
            return Ok(FetchOutcome::Fetched);
        }
        Ok(FetchOutcome::Missing { reason: ran.to_error().message })
    }

    /// Copies a commit with what a clone added to the objects that it borrows: two processes where
    /// a fetch takes six. Returns false if a fetch has to do it, or to report why it cannot be done.
    fn copy_commit(&self, clone: &Path, commit: &str) -> Result<bool, VcsError> {
        let Some(head) = self.head()?.commit else { return Ok(false) };
        if !clone.join(".git/objects/info/alternates").exists() {
            return Ok(false);
        }
        let args = ["pack-objects", "--revs", "--local", "--stdout", "-q", "--delta-base-offset"];
        let call = GitCommand::new_plumbing(clone, &args)
            .with_stdin(format!("{commit}\n^{head}\n").into_bytes())
            .with_output_limit(LARGEST_COPY)
            // Missing objects are an error, and not fetched by a program that the clone names.
            .with_env("GIT_NO_LAZY_FETCH", "1")
            .without_sandbox();
        let packed = self.commands.run(call)?;
        if packed.code != 0 || packed.stdout.len() >= LARGEST_COPY {
            return Ok(false);
        }
        // An agent made the objects: this checks them, and that none is missing.
        let call = self.build_plumbing(&["index-pack", "--strict", "--stdin"]).without_sandbox();
        Ok(self.commands.run(call.with_stdin(packed.stdout))?.code == 0)
    }
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
        let Some(MergeSides { ours, theirs, base }) = self.compare_sides(head, commit)? else {
            let reason = format!("the commit {} is not there", candidate.commit.short_id());
            return Ok(MergeOutcome::Missing { reason });
        };
        let (base, from) = base.map_or((None, ours.clone()), |(base, tree)| (Some(base), tree));
        let is_on_tip = base.as_deref() == Some(head);
        // Backwards: what this removes is what arrives.
        let changes = self.repository.diff_trees(&theirs, &from)?;
        let has_list = changes.iter().any(|change| self.is_list(&change.path));
        let merge = if is_on_tip && *before == ours && !has_list {
            ComputedMerge { tree: theirs, conflicts: Vec::new(), messages: String::new() }
        } else {
            let theirs = match &base {
                Some(base) if has_list => self.without_list(commit, base)?,
                Some(_) | None => commit.clone(),
            };
            // The same for every repetition: the tree of the checkpoint, not of the work tree.
            let parents = std::slice::from_ref(head);
            let here = self.repository.commit_tree(before, parents, "ralph: the work tree")?;
            self.compute_merge(&here, &theirs)?
        };
        let ComputedMerge { tree, conflicts: paths, messages } = merge;
        let edits = self.find_edits(&ours, before)?;
        if !paths.is_empty() {
            let edits = self.find_edits_in_conflict(&edits, &paths, head, commit)?;
            return Ok(MergeOutcome::Conflict { tree: TreeId(tree), paths, messages, edits });
        }
        let is_same = is_on_tip && edits.is_empty();
        let now = match self.shadow.surveyed_tree() {
            Some(now) if now == before => before.clone(),
            Some(_) | None => self.shadow.survey_tree(&self.repository)?,
        };
        if now != tree {
            if now != *before {
                self.roll_back(mark, onto)?;
            }
            let changes =
                if is_same { changes } else { self.repository.diff_trees(&tree, before)? };
            let obstacles = find_obstacles(&self.repository.top, &changes)?;
            if !obstacles.is_empty() {
                let paths = obstacles.iter().map(|path| String::from_utf8_lossy(path).into_owned());
                let (paths, messages): (Vec<_>, _) = (paths.collect(), OBSTACLES.to_owned());
                let edits = paths.clone();
                return Ok(MergeOutcome::Conflict { tree: TreeId(tree), paths, messages, edits });
            }
            self.switch_tree(before, &tree)?;
        }
        let tree = TreeId(tree);
        Ok(if is_same { MergeOutcome::Same { tree } } else { MergeOutcome::Clean { tree, edits } })
    }

    /// Looks up a tip and a candidate; none if the candidate is not there.
    fn compare_sides(&self, head: &str, commit: &str) -> Result<Option<MergeSides>, VcsError> {
        if !is_object_id(commit) {
            return Ok(None);
        }
        let repository = &self.repository;
        let call = repository
            .build_plumbing(&["rev-list", "--boundary", "--left-right", "--no-commit-header"])
            .with_args(["--format=%m %H %T", &format!("{head}...{commit}")]);
        let ran = repository.commands.run(call)?;
        if ran.code != 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let find_tree = |id: &str| -> Result<String, VcsError> {
            match text.lines().find_map(|line| line.get(2..)?.strip_prefix(id)) {
                Some(tree) => Ok(tree.trim().to_owned()),
                // Both are the same commit, or one is far away.
                None => repository.resolve_tree(Some(id)),
            }
        };
        let base = match text.lines().filter(|line| line.starts_with('-')).count() {
            // The usual case: no merge commit in between.
            1 => text.lines().find_map(|line| line.strip_prefix("- ")?.split(' ').next()),
            _ => None,
        };
        let base = match base {
            Some(base) => Some(base.to_owned()),
            None => self.find_merge_base(head, commit)?,
        };
        let base = base.map(|base| Ok((base.clone(), find_tree(&base)?))).transpose()?;
        Ok(Some(MergeSides { ours: find_tree(head)?, theirs: find_tree(commit)?, base }))
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
    fn without_list(&self, commit: &str, base: &str) -> Result<String, VcsError> {
        let tree = self.build_tree_with(commit, |path| self.is_list(path), base)?;
        self.repository.commit_tree(&tree, &[base.to_owned()], "ralph: without the task list")
    }

    fn is_list(&self, path: &[u8]) -> bool {
        self.repository.own.as_ref().is_some_and(|own| is_list_or_notes(own, path))
    }

    /// Returns the files in which a work tree differs from a committed tree, except for what
    /// belongs to the run.
    fn find_edits(&self, committed: &str, tree: &str) -> Result<Vec<String>, VcsError> {
        let mut changes = self.repository.diff_trees(committed, tree)?;
        changes.retain(|change| !self.is_list(&change.path) && !self.repository.owns(&change.path));
        let paths = changes.iter().map(|change| String::from_utf8_lossy(&change.path).into_owned());
        Ok(paths.collect())
    }

    /// Returns the paths in conflict that the user edited; all of them if there is no conflict with
    /// the commit that the user edited.
    fn find_edits_in_conflict(
        &self,
        edits: &[String],
        conflicts: &[String],
        head: &str,
        theirs: &str,
    ) -> Result<Vec<String>, VcsError> {
        let both = conflicts.iter().filter(|it| edits.contains(it)).cloned().collect::<Vec<_>>();
        if edits.is_empty() || !both.is_empty() {
            return Ok(both);
        }
        let is_clean = self.compute_merge(head, theirs)?.conflicts.is_empty();
        Ok(if is_clean { conflicts.to_vec() } else { Vec::new() })
    }

    /// Writes a tree into the work tree as uncommitted work, without the task list in it: that is
    /// in the state of the run, which no worker may change. Returns the state before.
    pub fn restore_start_tree(
        &mut self,
        run: &RunId,
        TreeId(tree): &TreeId,
        list: &Path,
    ) -> Result<Checkpoint, VcsError> {
        let start = self.save_start(run)?;
        let now = self.shadow.survey_tree(&self.repository)?;
        let tree = match self.repository.resolve_path_from_top(list) {
            Some(list) => self.build_tree_with(tree, |path| is_list_or_notes(&list, path), &now)?,
            None => tree.clone(),
        };
        self.switch_tree(&now, &tree)?;
        Ok(start)
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
}

/// Returns whether a path is the task list, or the notes next to it.
fn is_list_or_notes(list: &[u8], path: &[u8]) -> bool {
    let directory = list.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let notes = [&list[..directory], PROGRESS.as_bytes()].concat();
    path == list || path == notes.as_slice()
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
