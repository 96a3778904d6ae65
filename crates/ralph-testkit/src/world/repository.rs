//! The repository of a small world: a work tree that is one text, and commits that are a list.

use std::path::PathBuf;

use ralph_core::ports::{
    CheckpointDepth, CommitOrder, CommitResult, FailedWorkLocation, FailureBranchOrder,
    FetchOutcome, Observation, SavedBranch, ScmResult, Survey, Vcs, VcsError,
};
use ralph_model::glob::Pattern;
use ralph_model::handoff::{FileAction, FileTouched};
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::parallel_state::{Candidate, MergeOutcome};
use ralph_model::run::IterationMark;
use ralph_model::worker::JobResult;
use ralph_model::worktree::{CheckedOut, Checkpoint, CommitId, History, TreeDiff, TreeId};

use super::{ScriptedWorld, SharedWorld};

/// The branch that is checked out.
pub(super) const MAIN: &str = "refs/heads/main";

/// Returns how many commits of the agent's own a head contains.
fn count_foreign_commits(head: Option<&CommitId>) -> u32 {
    let (_, many) = head.and_then(|CommitId(head)| head.split_once('+')).unwrap_or_default();
    many.parse().unwrap_or(0)
}

impl ScriptedWorld {
    fn checked_out(&self) -> CheckedOut {
        let head = self.build_head(self.foreign_commits);
        CheckedOut { head, branch: Some(MAIN.to_owned()) }
    }

    /// Returns the last commit, with this many commits of the agent on top of it.
    fn build_head(&self, foreign: u32) -> Option<CommitId> {
        let last = self.commits.len().checked_sub(1).map(|at| at.to_string());
        match (last, foreign) {
            (None, 0) => None,
            (last, foreign) => Some(CommitId(format!("{}+{foreign}", last.unwrap_or_default()))),
        }
    }
}

impl Vcs for SharedWorld {
    fn create_checkpoint(
        &mut self,
        _mark: &IterationMark,
        depth: CheckpointDepth,
    ) -> Result<Checkpoint, VcsError> {
        self.count_call();
        let world = self.0.borrow();
        let head = world.build_head(0);
        let tree = match depth {
            CheckpointDepth::Head => None,
            CheckpointDepth::Tree => Some(TreeId(world.tree.clone())),
        };
        Ok(Checkpoint::Git { head, branch: Some(MAIN.to_owned()), tree })
    }

    fn survey_tree(&mut self) -> Result<Option<Survey>, VcsError> {
        self.count_call();
        self.0.borrow_mut().surveys += 1;
        let world = self.0.borrow();
        let is_clean = world.commits.last().map_or("start", |commit| &commit.0) == world.tree;
        Ok(Some(Survey {
            tree: TreeId(world.tree.clone()),
            changes: if is_clean { TreeDiff::Clean } else { TreeDiff::Dirty },
            checked_out: Some(world.checked_out()),
        }))
    }

    fn survey_documents(&mut self, _documents: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        self.survey_tree()
    }

    fn peek_changes_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.observe(since, watched)
    }

    fn take_final_survey(&mut self) -> Option<Survey> {
        self.survey_tree().ok()?
    }

    fn keep_reachable(&mut self, _mark: &IterationMark, _to: &Checkpoint) {
        self.count_call();
    }

    /// The world's tree is a single file named `tree`.
    fn observe(
        &mut self,
        since: &Checkpoint,
        _watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.count_call();
        let Checkpoint::Git { head, tree, .. } = since else {
            return Ok(None);
        };
        let world = self.0.borrow();
        let committed = |head: &Option<CommitId>| match head {
            Some(CommitId(at)) => {
                let at = at.split('+').next().and_then(|at| at.parse().ok());
                at.and_then(|at: usize| world.commits.get(at)).map(|it| it.0.clone())
            }
            None => Some("start".to_owned()),
        };
        let before = tree.clone().map(|TreeId(tree)| tree).or_else(|| committed(head));
        let is_same = before.as_deref() == Some(&world.tree);
        let touched = FileTouched { path: "tree".to_owned(), action: FileAction::Modified };
        let is_clean = world.commits.last().map_or("start", |commit| &commit.0) == world.tree;
        Ok(Some(Observation {
            files: if is_same { Vec::new() } else { vec![touched] },
            history: match world.foreign_commits.checked_sub(count_foreign_commits(head.as_ref())) {
                Some(0) => History::Same,
                Some(commits) => History::Advanced { commits },
                None => History::Rewritten,
            },
            checked_out: Some(world.checked_out()),
            uncommitted: if is_clean { Vec::new() } else { vec!["tree".to_owned()] },
            ..Observation::new(
                TreeId(world.tree.clone()),
                if is_clean { TreeDiff::Clean } else { TreeDiff::Dirty },
            )
        }))
    }

    fn commit_tree(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        self.count_call();
        let result = {
            let mut world = self.0.borrow_mut();
            let is_there = world.commits.last().is_some_and(|commit| commit.2 == order.mark);
            if let (Some(output), false) = (world.hook.clone(), is_there) {
                CommitResult::Refused { output }
            } else {
                if !is_there {
                    let tree = order.tree.clone().map_or_else(|| world.tree.clone(), |id| id.0);
                    world.commits.push((tree, order.message.clone(), order.mark.clone()));
                }
                CommitResult::Made(CommitId((world.commits.len() - 1).to_string()))
            }
        };
        self.count_call();
        Ok(result)
    }

    fn find_commit(
        &mut self,
        mark: &IterationMark,
    ) -> Result<Option<(CommitId, String)>, VcsError> {
        self.count_call();
        let world = self.0.borrow();
        let last = world.commits.last().filter(|commit| commit.2 == *mark);
        Ok(last.map(|(_, message, _)| {
            let subject = message.lines().next().unwrap_or_default().to_owned();
            (CommitId((world.commits.len() - 1).to_string()), subject)
        }))
    }

    fn roll_back(
        &mut self,
        _mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.count_call();
        if let Checkpoint::Git { head, tree: Some(tree), .. } = to {
            let mut world = self.0.borrow_mut();
            world.foreign_commits = count_foreign_commits(head.as_ref());
            let removed = world.tree.clone();
            if removed != tree.0 {
                world.kept.push(removed);
                world.tree.clone_from(&tree.0);
            }
        }
        self.count_call();
        Ok(Some("refs/ralph/kept".into()))
    }

    /// The world's tree is a single file: it is restored as a whole, or not at all.
    fn restore_paths(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
        is_restored: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, VcsError> {
        if is_restored("tree") { self.roll_back(mark, to) } else { Ok(None) }
    }

    fn reset_history(
        &mut self,
        mark: &IterationMark,
        _to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.count_call();
        let name = format!("refs/ralph/kept/{}/{}-history", mark.run, mark.iteration);
        let has_moved = {
            let mut world = self.0.borrow_mut();
            let has_moved = world.foreign_commits > 0 || world.kept.contains(&name);
            if world.foreign_commits > 0 {
                world.kept.push(name.clone());
                world.foreign_commits = 0;
            }
            has_moved
        };
        self.count_call();
        Ok(has_moved.then_some(name))
    }

    fn save_to_failure_branch(
        &mut self,
        order: &FailureBranchOrder,
    ) -> Result<SavedBranch, VcsError> {
        self.count_call();
        let place = {
            let mut world = self.0.borrow_mut();
            let place = world.failure_branches.iter().position(|(_, it)| it.mark == order.mark);
            let place = place.unwrap_or_else(|| {
                let tree = match &order.work {
                    FailedWorkLocation::InWorkTree => world.tree.clone(),
                    FailedWorkLocation::Candidate(CommitId(commit)) => {
                        world.candidates[commit].1.clone()
                    }
                };
                world.failure_branches.push((tree, order.clone()));
                world.failure_branches.len() - 1
            });
            if let (
                FailedWorkLocation::InWorkTree,
                Checkpoint::Git { tree: Some(TreeId(tree)), .. },
            ) = (&order.work, &order.checkpoint)
            {
                world.tree.clone_from(tree);
                world.foreign_commits = 0;
            }
            place
        };
        self.count_call();
        Ok(SavedBranch {
            branch: order.branch.clone(),
            commit: CommitId(format!("failed-{place}")),
        })
    }

    fn diff_trees(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError> {
        self.count_call();
        let patch = if from == to { String::new() } else { format!("-{}\n+{}\n", from.0, to.0) };
        Ok(patch.chars().take(chars).collect())
    }

    fn read_head(&mut self) -> Result<CheckedOut, VcsError> {
        self.count_call();
        Ok(self.0.borrow().checked_out())
    }

    fn fetch_result(
        &mut self,
        _run: &RunId,
        worker: &WorkerId,
        result: &JobResult,
    ) -> Result<FetchOutcome, VcsError> {
        self.count_call();
        {
            let mut world = self.0.borrow_mut();
            let task = world.workers.get(worker).map(|it| it.job.assignment.task.clone());
            let left = task.and_then(|task| world.unfetchable.get_mut(&task));
            if let Some(left) = left.filter(|left| **left > 0) {
                *left -= 1;
                return Ok(FetchOutcome::Missing { reason: "no such object".to_owned() });
            }
            world.fetched.push((worker.clone(), result.commit.clone()));
        }
        self.count_call();
        Ok(FetchOutcome::Fetched)
    }

    fn merge_candidate(
        &mut self,
        _mark: &IterationMark,
        onto: &Checkpoint,
        candidate: &Candidate,
    ) -> Result<MergeOutcome, VcsError> {
        self.count_call();
        let missing = || MergeOutcome::Missing { reason: "no such commit".to_owned() };
        let merged = {
            let mut world = self.0.borrow_mut();
            let known = world.candidates.get(&candidate.commit.0).cloned();
            match (onto, known) {
                (Checkpoint::Git { tree: Some(TreeId(ours)), .. }, Some((base, theirs))) => {
                    world.merge_words(ours, &base, &theirs)
                }
                (Checkpoint::Git { .. } | Checkpoint::None, _) => missing(),
            }
        };
        self.count_call();
        Ok(merged)
    }

    fn keep_requeued_tree(
        &mut self,
        _run: &RunId,
        worker: &WorkerId,
        tree: &TreeId,
    ) -> Result<(), VcsError> {
        self.count_call();
        self.0.borrow_mut().requeued.insert(worker.clone(), tree.clone());
        self.count_call();
        Ok(())
    }

    fn run_scm(&mut self, command: &str, args: &[String]) -> Result<ScmResult, VcsError> {
        self.count_call();
        self.0.borrow_mut().scm.push(format!("{command} {}", args.join(" ")));
        self.count_call();
        Ok(ScmResult::Done)
    }
}
