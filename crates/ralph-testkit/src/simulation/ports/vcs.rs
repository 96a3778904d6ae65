//! The repository as the engine sees it.

use std::fmt::Write as _;
use std::path::PathBuf;

use ralph_core::event::{CheckedOut, Checkpoint, Observation, TreeId};
use ralph_core::glob::Pattern;
use ralph_core::ports::{
    CommitOrder, CommitResult, Depth, Mark, ScmResult, ShelveOrder, Shelved, Survey, Vcs, VcsError,
};
use ralph_core::secret::leak::Leak;

use super::{GIT_FAILS, Port};
use crate::simulation::observer::Invariant;
use crate::simulation::plan::{CommitMode, FaultKind};
use crate::simulation::repository::{Kept, Place, Repository, commit_id, tree_id, tree_number};

impl Port {
    /// Fails like git, if this fault occurs now.
    fn try_git(&self, kind: FaultKind) -> Result<(), VcsError> {
        if self.fails(kind) {
            return Err(VcsError { message: format!("{GIT_FAILS}: {kind:?}") });
        }
        Ok(())
    }

    fn is_repository(&self) -> bool {
        self.world.borrow().plan.commit != CommitMode::NoGit
    }

    fn look(&self, since: &Checkpoint, watched: &[Pattern]) -> Option<Observation> {
        let mut world = self.world.borrow_mut();
        let place = Place::of(since, &world.repository)?;
        let tree = world.repository.now();
        let meddling =
            if world.meddled { vec![".git/hooks/pre-commit".to_owned()] } else { Vec::new() };
        let repository = &world.repository;
        let base = repository.tree(place.tree);
        let mut files = Repository::touched(&base, &repository.work);
        files.sort_by_key(|file| !watched.iter().any(|pattern| pattern.matches(&file.path)));
        let is_secret =
            |path: &String| repository.work.get(path).is_some_and(|it| it.says("SECRET"));
        let leaks = files.iter().filter(|file| is_secret(&file.path));
        let leaks =
            leaks.map(|file| Leak { path: file.path.clone(), line: 1, what: "a key".into() });
        let uncommitted = Repository::touched(&repository.head_tree(), &repository.work);
        Some(Observation {
            tree: tree_id(tree),
            changes: repository.changes(),
            leaks: leaks.collect(),
            files,
            more_files: 0,
            history: repository.history(place.head, Some(&place.branch)),
            checked_out: Some(checked_out(repository)),
            uncommitted: uncommitted.into_iter().map(|file| file.path).collect(),
            meddling,
            planted: Vec::new(),
        })
    }
}

fn checked_out(repository: &Repository) -> CheckedOut {
    CheckedOut { head: repository.head.map(commit_id), branch: Some(repository.branch.clone()) }
}

fn kept_ref(Mark { run, iteration, .. }: &Mark) -> String {
    format!("refs/ralph/kept/{run}/{iteration}")
}

impl Vcs for Port {
    fn checkpoint(&mut self, _mark: &Mark, depth: Depth) -> Result<Checkpoint, VcsError> {
        self.step();
        self.try_git(FaultKind::CheckpointFails)?;
        if !self.is_repository() {
            return Ok(Checkpoint::None);
        }
        let mut world = self.world.borrow_mut();
        world.meddled = false;
        let Checkpoint::Git { head, branch, tree } = world.repository.checkpoint() else {
            return Ok(Checkpoint::None);
        };
        let tree = match depth {
            Depth::Head => None,
            Depth::Tree => tree,
        };
        if let Some(tree) = &tree {
            world.repository.note(tree);
        }
        Ok(Checkpoint::Git { head, branch, tree })
    }

    fn survey(&mut self) -> Result<Option<Survey>, VcsError> {
        self.step();
        self.try_git(FaultKind::SurveyFails)?;
        if !self.is_repository() {
            return Ok(None);
        }
        let mut world = self.world.borrow_mut();
        let tree = tree_id(world.repository.now());
        let checked_out = Some(checked_out(&world.repository));
        Ok(Some(Survey { tree, changes: world.repository.changes(), checked_out }))
    }

    fn survey_of(&mut self, documents: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        let Some(survey) = self.survey()? else { return Ok(None) };
        let mut world = self.world.borrow_mut();
        let is_one = |path: &str| documents.iter().any(|it| it.ends_with(path));
        let (tree, changes) = world.repository.only(is_one);
        Ok(Some(Survey { tree: tree_id(tree), changes, ..survey }))
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

    fn observe(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.step();
        self.try_git(FaultKind::ObserveFails)?;
        let seen = self.look(since, watched);
        self.step();
        Ok(seen)
    }

    fn hold(&mut self, _mark: &Mark, to: &Checkpoint) {
        self.step();
        self.world.borrow_mut().repository.hold(to);
    }

    fn commit(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        self.step();
        self.try_git(FaultKind::CommitFails)?;
        let refuses = self.fails(FaultKind::HookRefuses);
        let result = {
            let mut world = self.world.borrow_mut();
            let repository = &mut world.repository;
            let tree = match order.tree.as_ref().and_then(tree_number) {
                Some(tree) => tree,
                None => repository.now(),
            };
            let is_there = |at: usize| repository.commits[at].mark.as_ref() == Some(&order.mark);
            let now = checked_out(repository);
            let moved = order.on.clone().filter(|then| *then != now);
            if let Some(made) = repository.ancestors(repository.head).find(|at| is_there(*at)) {
                CommitResult::Made(commit_id(made))
            } else if let Some(then) = moved {
                CommitResult::Moved { then, now }
            } else if repository.head.map(|head| repository.commits[head].tree) == Some(tree) {
                CommitResult::Nothing
            } else if refuses {
                CommitResult::Refused { output: "the hook says no".to_owned() }
            } else {
                let made = repository.commit(tree, &order.message, Some(order.mark.clone()));
                CommitResult::Made(commit_id(made))
            }
        };
        self.step();
        self.try_git(FaultKind::CommitFailsLate)?;
        Ok(result)
    }

    fn rollback(&mut self, mark: &Mark, to: &Checkpoint) -> Result<Option<String>, VcsError> {
        self.step();
        self.try_git(FaultKind::RollbackFails)?;
        let kept = {
            let mut world = self.world.borrow_mut();
            let place = Place::of(to, &world.repository);
            if let Some(place) = &place
                && !world.repository.is_within_reach(place.tree)
            {
                let message = "the tree to roll back to is not referenced";
                self.observer.borrow_mut().accuse(Invariant::KeptFirst, message);
            }
            place.and_then(|place| world.repository.go_back(&place, &kept_ref(mark)))
        };
        self.step();
        Ok(kept)
    }

    fn confine(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
        scope: &[Pattern],
    ) -> Result<Option<String>, VcsError> {
        self.step();
        let kept = {
            let mut world = self.world.borrow_mut();
            let place = Place::of(to, &world.repository);
            place.and_then(|place| world.repository.confine(&place, scope, &kept_ref(mark)))
        };
        self.step();
        Ok(kept)
    }

    fn put_history_back(
        &mut self,
        mark: &Mark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.step();
        let name = format!("{}-history", kept_ref(mark));
        let kept = {
            let mut world = self.world.borrow_mut();
            let repository = &mut world.repository;
            let first = repository.kept.contains_key(&name).then(|| name.clone());
            match Place::of(to, repository) {
                Some(place)
                    if place.head != repository.head || place.branch != repository.branch =>
                {
                    let (tree, head) = (repository.now(), repository.head);
                    let now = repository.keep(&name, Kept { tree, head });
                    repository.put_head(&place);
                    first.or(Some(now))
                }
                Some(_) | None => first,
            }
        };
        self.step();
        Ok(kept)
    }

    fn shelve(&mut self, order: &ShelveOrder) -> Result<Shelved, VcsError> {
        self.step();
        self.try_git(FaultKind::ShelveFails)?;
        let commit = self.world.borrow_mut().repository.shelve(order);
        self.step();
        {
            let mut world = self.world.borrow_mut();
            if let Some(place) = Place::of(&order.checkpoint, &world.repository) {
                let _ = world.repository.go_back(&place, &kept_ref(&order.mark));
            }
        }
        self.step();
        let branch = {
            let world = self.world.borrow();
            let found = world.repository.shelves.iter().find(|(_, made)| *made == commit);
            found.map_or_else(|| order.branch.clone(), |(order, _)| order.branch.clone())
        };
        Ok(Shelved { branch, commit: commit_id(commit) })
    }

    fn diff(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError> {
        self.step();
        self.try_git(FaultKind::DiffFails)?;
        let world = self.world.borrow();
        let (Some(from), Some(to)) = (tree_number(from), tree_number(to)) else {
            return Err(VcsError { message: "no such tree".to_owned() });
        };
        let (from, to) = (world.repository.tree(from), world.repository.tree(to));
        let files = Repository::touched(&from, &to);
        let mut patch = String::new();
        for file in &files {
            let _ = writeln!(patch, "diff --git a/{0} b/{0}\n+{1:?}", file.path, file.action);
        }
        Ok(patch.chars().take(chars).collect())
    }

    fn scm(&mut self, _command: &str, _words: &[String]) -> Result<ScmResult, VcsError> {
        self.step();
        if self.fails(FaultKind::ScmFails) {
            return Ok(ScmResult::Failed { output: "no route to host".to_owned() });
        }
        self.step();
        Ok(ScmResult::Done)
    }
}
