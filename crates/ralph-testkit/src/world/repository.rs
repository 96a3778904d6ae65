//! The repository of a small world: a work tree that is one text, and commits that are a list.

use std::path::PathBuf;

use ralph_core::event::{Changes, CheckedOut, Checkpoint, CommitId, History, TreeId};
use ralph_core::glob::Pattern;
use ralph_core::handoff::{FileAction, FileTouched};
use ralph_core::ports::{
    CommitOrder, CommitResult, Depth, Mark, Observation, ScmResult, ShelveOrder, Shelved, Survey,
    Vcs, VcsError,
};

use super::{Shared, World};

/// The branch that is checked out.
const MAIN: &str = "refs/heads/main";

/// Returns how many commits of the agent's own a head contains.
fn foreign(head: Option<&CommitId>) -> u32 {
    let (_, many) = head.and_then(|CommitId(head)| head.split_once('+')).unwrap_or_default();
    many.parse().unwrap_or(0)
}

impl World {
    fn checked_out(&self) -> CheckedOut {
        let head = self.head_with(self.foreign_commits);
        CheckedOut { head, branch: Some(MAIN.to_owned()) }
    }

    /// Returns the last commit, with this many commits of the agent on top of it.
    fn head_with(&self, foreign: u32) -> Option<CommitId> {
        let last = self.commits.len().checked_sub(1).map(|at| at.to_string());
        match (last, foreign) {
            (None, 0) => None,
            (last, foreign) => Some(CommitId(format!("{}+{foreign}", last.unwrap_or_default()))),
        }
    }
}

impl Vcs for Shared {
    fn checkpoint(&mut self, _mark: &Mark, depth: Depth) -> Result<Checkpoint, VcsError> {
        self.step();
        let world = self.0.borrow();
        let head = world.head_with(0);
        let tree = match depth {
            Depth::Head => None,
            Depth::Tree => Some(TreeId(world.tree.clone())),
        };
        Ok(Checkpoint::Git { head, branch: Some(MAIN.to_owned()), tree })
    }

    fn survey(&mut self) -> Result<Option<Survey>, VcsError> {
        self.step();
        self.0.borrow_mut().surveys += 1;
        let world = self.0.borrow();
        let is_clean = world.commits.last().map_or("start", |commit| &commit.0) == world.tree;
        Ok(Some(Survey {
            tree: TreeId(world.tree.clone()),
            changes: if is_clean { Changes::None } else { Changes::Some },
            checked_out: Some(world.checked_out()),
        }))
    }

    fn survey_of(&mut self, _documents: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        self.survey()
    }

    fn changed_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.observe(since, watched)
    }

    fn last_look(&mut self) -> Option<Survey> {
        self.survey().ok()?
    }

    fn hold(&mut self, _mark: &Mark, _to: &Checkpoint) {
        self.step();
    }

    /// The world's tree is a single file named `tree`.
    fn observe(
        &mut self,
        since: &Checkpoint,
        _watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.step();
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
            tree: TreeId(world.tree.clone()),
            changes: if is_clean { Changes::None } else { Changes::Some },
            files: if is_same { Vec::new() } else { vec![touched] },
            more_files: 0,
            history: match world.foreign_commits.checked_sub(foreign(head.as_ref())) {
                Some(0) => History::Same,
                Some(commits) => History::Advanced { commits },
                None => History::Rewritten,
            },
            checked_out: Some(world.checked_out()),
            uncommitted: if is_clean { Vec::new() } else { vec!["tree".to_owned()] },
            leaks: Vec::new(),
            meddling: Vec::new(),
            planted: Vec::new(),
        }))
    }

    fn commit(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        self.step();
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
        self.step();
        Ok(result)
    }

    fn rollback(&mut self, _mark: &Mark, to: &Checkpoint) -> Result<Option<String>, VcsError> {
        self.step();
        if let Checkpoint::Git { head, tree: Some(tree), .. } = to {
            let mut world = self.0.borrow_mut();
            world.foreign_commits = foreign(head.as_ref());
            let removed = world.tree.clone();
            if removed != tree.0 {
                world.kept.push(removed);
                world.tree.clone_from(&tree.0);
            }
        }
        self.step();
        Ok(Some("refs/ralph/kept".into()))
    }

    /// The world's tree is a single file: it is in the scope as a whole, or not at all.
    fn confine(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
        scope: &[Pattern],
    ) -> Result<Option<String>, VcsError> {
        if scope.iter().any(|pattern| pattern.matches("tree")) {
            return Ok(None);
        }
        self.rollback(mark, to)
    }

    fn put_history_back(
        &mut self,
        mark: &Mark,
        _to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.step();
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
        self.step();
        Ok(has_moved.then_some(name))
    }

    fn shelve(&mut self, order: &ShelveOrder) -> Result<Shelved, VcsError> {
        self.step();
        let place = {
            let mut world = self.0.borrow_mut();
            let place = world.shelves.iter().position(|(_, it)| it.mark == order.mark);
            let place = place.unwrap_or_else(|| {
                let tree = world.tree.clone();
                world.shelves.push((tree, order.clone()));
                world.shelves.len() - 1
            });
            if let Checkpoint::Git { tree: Some(TreeId(tree)), .. } = &order.checkpoint {
                world.tree.clone_from(tree);
            }
            world.foreign_commits = 0;
            place
        };
        self.step();
        Ok(Shelved { branch: order.branch.clone(), commit: CommitId(format!("failed-{place}")) })
    }

    fn diff(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError> {
        self.step();
        let patch = if from == to { String::new() } else { format!("-{}\n+{}\n", from.0, to.0) };
        Ok(patch.chars().take(chars).collect())
    }

    fn scm(&mut self, command: &str, args: &[String]) -> Result<ScmResult, VcsError> {
        self.step();
        self.0.borrow_mut().scm.push(format!("{command} {}", args.join(" ")));
        self.step();
        Ok(ScmResult::Done)
    }
}
