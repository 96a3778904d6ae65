//! The repository as the engine sees it.

use std::fmt::Write as _;
use std::path::PathBuf;

use ralph_core::ports::{
    CheckpointDepth, CommitOrder, CommitResult, FailureBranchOrder, SavedBranch, ScmResult, Survey,
    Vcs, VcsError,
};
use ralph_model::glob::Pattern;
use ralph_model::run::IterationMark;
use ralph_model::worktree::{CheckedOut, Checkpoint, CommitId, Observation, SecretLeak, TreeId};

use super::{GIT_ERROR, Port};
use crate::simulation::observer::Invariant;
use crate::simulation::plan::{CommitMode, FaultKind};
use crate::simulation::repository::{
    KeptState, RepositoryState, SimulatedRepository, USERS_BRANCH, format_commit_id,
    format_tree_id, parse_tree_id,
};

impl Port {
    /// Fails like git, if this fault occurs now.
    fn try_git(&self, kind: FaultKind) -> Result<(), VcsError> {
        if self.has_fault(kind) {
            return Err(VcsError { message: format!("{GIT_ERROR}: {kind:?}") });
        }
        Ok(())
    }

    fn report_kept_tampering(&self) {
        let message = "a change of git's own files by an agent was not undone";
        self.observer.borrow_mut().report_violation(Invariant::NothingLost, message);
    }

    fn is_repository(&self) -> bool {
        self.world.borrow().plan.commit != CommitMode::NoGit
    }

    /// Restores git's own files. Returns those that were changed.
    fn repair_git_dir(&self) -> Vec<String> {
        let mut world = self.world.borrow_mut();
        world.repository.restore_users_branch();
        world.git_dir.repair();
        let is_changed = world.git_dir.take_tampering();
        is_changed.then(|| ".git/hooks/pre-commit".to_owned()).into_iter().collect()
    }

    fn compare_work_tree(&self, since: &Checkpoint, watched: &[Pattern]) -> Option<Observation> {
        let mut world = self.world.borrow_mut();
        let place = RepositoryState::from_checkpoint(since, &world.repository)?;
        let tree = world.repository.number_work_tree();
        let repository = &world.repository;
        let base = repository.find_tree(place.tree);
        let mut files = SimulatedRepository::list_touched(&base, &repository.work);
        files.sort_by_key(|file| !watched.iter().any(|pattern| pattern.matches(&file.path)));
        let is_secret =
            |path: &String| repository.work.get(path).is_some_and(|it| it.has_text("SECRET"));
        let leaks = files.iter().filter(|file| is_secret(&file.path));
        let leaks =
            leaks.map(|file| SecretLeak { path: file.path.clone(), line: 1, what: "a key".into() });
        let uncommitted =
            SimulatedRepository::list_touched(&repository.head_tree(), &repository.work);
        Some(Observation {
            leaks: leaks.collect(),
            files,
            history: repository.compare_history(place.head, Some(&place.branch)),
            checked_out: Some(describe_checked_out(repository)),
            uncommitted: uncommitted.into_iter().map(|file| file.path).collect(),
            ..Observation::new(format_tree_id(tree), repository.changes())
        })
    }
}

fn describe_checked_out(repository: &SimulatedRepository) -> CheckedOut {
    CheckedOut {
        head: repository.head.map(format_commit_id),
        branch: Some(repository.branch.clone()),
    }
}

fn format_kept_ref(IterationMark { run, iteration, .. }: &IterationMark) -> String {
    format!("refs/ralph/kept/{run}/{iteration}")
}

impl Vcs for Port {
    fn create_checkpoint(
        &mut self,
        _mark: &IterationMark,
        depth: CheckpointDepth,
    ) -> Result<Checkpoint, VcsError> {
        self.count_step();
        self.try_git(FaultKind::CheckpointFails)?;
        if !self.is_repository() {
            return Ok(Checkpoint::None);
        }
        let mut world = self.world.borrow_mut();
        if world.git_dir.record() {
            self.report_kept_tampering();
        }
        let Checkpoint::Git { head, branch, tree } = world.repository.checkpoint() else {
            return Ok(Checkpoint::None);
        };
        let tree = match depth {
            CheckpointDepth::Head => None,
            CheckpointDepth::Tree => tree,
        };
        if let Some(tree) = &tree {
            world.repository.note_checkpoint(tree);
        }
        Ok(Checkpoint::Git { head, branch, tree })
    }

    fn survey_tree(&mut self) -> Result<Option<Survey>, VcsError> {
        self.count_step();
        self.try_git(FaultKind::SurveyFails)?;
        if !self.is_repository() {
            return Ok(None);
        }
        let mut world = self.world.borrow_mut();
        world.git_dir.repair();
        let tree = format_tree_id(world.repository.number_work_tree());
        let checked_out = Some(describe_checked_out(&world.repository));
        Ok(Some(Survey { tree, changes: world.repository.changes(), checked_out }))
    }

    fn survey_documents(&mut self, documents: &[PathBuf]) -> Result<Option<Survey>, VcsError> {
        let Some(survey) = self.survey_tree()? else { return Ok(None) };
        let mut world = self.world.borrow_mut();
        let is_one = |path: &str| documents.iter().any(|it| it.ends_with(path));
        let (tree, changes) = world.repository.select_paths(is_one);
        Ok(Some(Survey { tree: format_tree_id(tree), changes, ..survey }))
    }

    fn peek_changes_since(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.count_step();
        self.try_git(FaultKind::ObserveFails)?;
        let seen = self.compare_work_tree(since, watched);
        self.count_step();
        Ok(seen)
    }

    fn take_final_survey(&mut self) -> Option<Survey> {
        self.survey_tree().ok()?
    }

    fn observe(
        &mut self,
        since: &Checkpoint,
        watched: &[Pattern],
    ) -> Result<Option<Observation>, VcsError> {
        self.count_step();
        self.try_git(FaultKind::ObserveFails)?;
        let git_tampering = self.repair_git_dir();
        let seen = self.compare_work_tree(since, watched);
        let seen = seen.map(|seen| Observation { git_tampering, ..seen });
        self.count_step();
        Ok(seen)
    }

    fn restore_last_refs(&mut self) -> Vec<String> {
        self.count_step();
        let is_restored = self.world.borrow_mut().repository.restore_users_branch();
        is_restored.then(|| USERS_BRANCH.to_owned()).into_iter().collect()
    }

    fn replace_files(
        &mut self,
        tree: &TreeId,
        is_replaced: &dyn Fn(&str) -> bool,
    ) -> Result<(), VcsError> {
        self.count_step();
        {
            let mut world = self.world.borrow_mut();
            let Some(tree) = parse_tree_id(tree) else {
                return Err(VcsError { message: "no such tree".to_owned() });
            };
            if !world.repository.is_referenced(tree) {
                let message = "the tree with earlier instructions is not referenced";
                self.observer.borrow_mut().report_violation(Invariant::KeptFirst, message);
            }
            world.repository.replace_files(tree, is_replaced);
        }
        self.count_step();
        Ok(())
    }

    fn keep_reachable(&mut self, _mark: &IterationMark, to: &Checkpoint) {
        self.count_step();
        self.world.borrow_mut().repository.hold_tree(to);
    }

    fn ensure_git_files_recorded(&mut self) {
        self.count_step();
        if self.is_repository() && self.world.borrow_mut().git_dir.ensure_record() {
            self.report_kept_tampering();
        }
    }

    fn forget_reported_tampering(&mut self) {
        self.count_step();
        self.world.borrow_mut().git_dir.forget_reported();
    }

    fn commit_tree(&mut self, order: &CommitOrder) -> Result<CommitResult, VcsError> {
        self.count_step();
        self.try_git(FaultKind::CommitFails)?;
        {
            let mut world = self.world.borrow_mut();
            let git_dir = &mut world.git_dir;
            git_dir.repair();
            if git_dir.is_changed {
                self.report_kept_tampering();
            }
            if git_dir.take_tampering() {
                return Ok(CommitResult::Refused { output: "git's own files".to_owned() });
            }
        }
        let refuses = self.has_fault(FaultKind::HookRefuses);
        let result = {
            let mut world = self.world.borrow_mut();
            let repository = &mut world.repository;
            let tree = match order.tree.as_ref().and_then(parse_tree_id) {
                Some(tree) => tree,
                None => repository.number_work_tree(),
            };
            let is_there = |at: usize| repository.commits[at].mark.as_ref() == Some(&order.mark);
            let now = describe_checked_out(repository);
            let moved = order.expected_head.clone().filter(|then| *then != now);
            if let Some(made) = repository.list_ancestors(repository.head).find(|at| is_there(*at))
            {
                CommitResult::Made(format_commit_id(made))
            } else if let Some(then) = moved {
                CommitResult::Moved { then, now }
            } else if repository.head.map(|head| repository.commits[head].tree) == Some(tree) {
                CommitResult::Nothing
            } else if refuses {
                CommitResult::Refused { output: "the hook says no".to_owned() }
            } else {
                let made = repository.make_commit(tree, &order.message, Some(order.mark.clone()));
                CommitResult::Made(format_commit_id(made))
            }
        };
        self.count_step();
        self.try_git(FaultKind::CommitFailsLate)?;
        Ok(result)
    }

    fn find_commit(
        &mut self,
        mark: &IterationMark,
    ) -> Result<Option<(CommitId, String)>, VcsError> {
        self.count_step();
        let world = self.world.borrow();
        let repository = &world.repository;
        let is_ours = |at: &usize| repository.commits[*at].mark.as_ref() == Some(mark);
        Ok(repository.head.filter(is_ours).map(|made| {
            let message = repository.commits[made].message.lines().next().unwrap_or_default();
            (format_commit_id(made), message.to_owned())
        }))
    }

    fn roll_back(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.count_step();
        self.try_git(FaultKind::RollbackFails)?;
        let kept = {
            let mut world = self.world.borrow_mut();
            world.git_dir.repair();
            let place = RepositoryState::from_checkpoint(to, &world.repository);
            if let Some(place) = &place
                && !world.repository.is_referenced(place.tree)
            {
                let message = "the tree to roll back to is not referenced";
                self.observer.borrow_mut().report_violation(Invariant::KeptFirst, message);
            }
            place.and_then(|place| world.repository.reset_to(&place, &format_kept_ref(mark)))
        };
        self.count_step();
        Ok(kept)
    }

    fn restore_paths(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
        is_restored: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, VcsError> {
        self.count_step();
        let kept = {
            let mut world = self.world.borrow_mut();
            world.git_dir.repair();
            let place = RepositoryState::from_checkpoint(to, &world.repository);
            place.and_then(|place| {
                world.repository.restore_paths(&place, is_restored, &format_kept_ref(mark))
            })
        };
        self.count_step();
        Ok(kept)
    }

    fn reset_history(
        &mut self,
        mark: &IterationMark,
        to: &Checkpoint,
    ) -> Result<Option<String>, VcsError> {
        self.count_step();
        let name = format!("{}-history", format_kept_ref(mark));
        let kept = {
            let mut world = self.world.borrow_mut();
            world.git_dir.repair();
            let repository = &mut world.repository;
            let first = repository.kept.contains_key(&name).then(|| name.clone());
            match RepositoryState::from_checkpoint(to, repository) {
                Some(place)
                    if place.head != repository.head || place.branch != repository.branch =>
                {
                    let (tree, head) = (repository.number_work_tree(), repository.head);
                    let now = repository.keep_state(&name, KeptState { tree, head });
                    repository.set_head(&place);
                    first.or(Some(now))
                }
                Some(_) | None => first,
            }
        };
        self.count_step();
        Ok(kept)
    }

    fn save_to_failure_branch(
        &mut self,
        order: &FailureBranchOrder,
    ) -> Result<SavedBranch, VcsError> {
        self.count_step();
        self.try_git(FaultKind::FailureBranchFails)?;
        self.world.borrow_mut().git_dir.repair();
        let commit = self.world.borrow_mut().repository.make_failure_branch(order);
        self.count_step();
        {
            let mut world = self.world.borrow_mut();
            if let Some(place) =
                RepositoryState::from_checkpoint(&order.checkpoint, &world.repository)
            {
                let _ = world.repository.reset_to(&place, &format_kept_ref(&order.mark));
            }
        }
        self.count_step();
        let branch = {
            let world = self.world.borrow();
            let found = world.repository.failure_branches.iter().find(|(_, made)| *made == commit);
            found.map_or_else(|| order.branch.clone(), |(order, _)| order.branch.clone())
        };
        Ok(SavedBranch { branch, commit: format_commit_id(commit) })
    }

    fn diff_trees(&mut self, from: &TreeId, to: &TreeId, chars: usize) -> Result<String, VcsError> {
        self.count_step();
        self.try_git(FaultKind::DiffFails)?;
        let world = self.world.borrow();
        let (Some(from), Some(to)) = (parse_tree_id(from), parse_tree_id(to)) else {
            return Err(VcsError { message: "no such tree".to_owned() });
        };
        let (from, to) = (world.repository.find_tree(from), world.repository.find_tree(to));
        let files = SimulatedRepository::list_touched(&from, &to);
        let mut patch = String::new();
        for file in &files {
            let _ = writeln!(patch, "diff --git a/{0} b/{0}\n+{1:?}", file.path, file.action);
        }
        Ok(patch.chars().take(chars).collect())
    }

    fn run_scm(&mut self, _command: &str, _words: &[String]) -> Result<ScmResult, VcsError> {
        self.count_step();
        if self.has_fault(FaultKind::ScmFails) {
            return Ok(ScmResult::Failed { output: "no route to host".to_owned() });
        }
        self.count_step();
        Ok(ScmResult::Done)
    }
}
