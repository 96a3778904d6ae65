//! Checks what ralph commits, and what it removes.

use ralph_model::event::{Event, Recorded};
use ralph_model::gate::{GateResult, GateStatus, Severity};
use ralph_model::ids::Role;
use ralph_model::recipe::{CommitPolicy, OnFailure, PROGRESS, Recipe};
use ralph_model::worktree::Landed;

use super::{Invariant, Observer, WatchedIteration, check_gates_passed};
use crate::simulation::plan::CommitMode;
use crate::simulation::recipe::{GATE_FILE, INSTRUCTIONS, PLAN, PROTECTED, TASKS};
use crate::simulation::repository::{
    FileContent, KeptState, RepositoryState, SimulatedCommit, SimulatedRepository, Tree,
    USERS_BRANCH, parse_tree_id,
};
use crate::simulation::user_edits::{BY_HAND, USER_COMMIT};
use crate::simulation::world::SimulatedWorld;

/// Returns whether ralph itself writes a path.
fn is_document(world: &SimulatedWorld, path: &str) -> bool {
    world.plan.workflow.is_list() && [TASKS, PROGRESS].contains(&path)
}

/// Returns the differing paths of two trees except for files that ralph writes itself.
fn list_differing(world: &SimulatedWorld, from: &Tree, to: &Tree) -> Vec<String> {
    let touched = SimulatedRepository::list_touched(from, to).into_iter();
    touched.map(|file| file.path).filter(|path| !is_document(world, path)).collect()
}

impl Observer {
    /// Checks commits that were made since the last event.
    pub(super) fn check_commits(&mut self, recipe: &Recipe, world: &SimulatedWorld) {
        let is_failure_branch =
            |at: usize| world.repository.failure_branches.iter().any(|(_, made)| *made == at);
        for at in self.commits..world.repository.commits.len() {
            if world.repository.commits[at].mark.is_some()
                && !is_failure_branch(at)
                && let Err(message) = self.check_commit(at, recipe, world)
            {
                self.report_violation(Invariant::Commits, message);
            }
        }
        self.commits = world.repository.commits.len();
    }

    fn check_commit(
        &self,
        at: usize,
        recipe: &Recipe,
        world: &SimulatedWorld,
    ) -> Result<(), String> {
        let commit = &world.repository.commits[at];
        let Some(watched) = &self.watched else {
            return Err("a commit between two iterations".to_owned());
        };
        if commit.mark.as_ref().map(|mark| mark.iteration.0) != Some(watched.number) {
            return Err("a commit with the mark of another iteration".to_owned());
        }
        let tree = world.repository.find_tree(commit.tree);
        let parent = commit.parent.map(|parent| world.repository.commits[parent].tree);
        let before = parent.map(|tree| world.repository.find_tree(tree)).unwrap_or_default();
        let changed = list_differing(world, &before, &tree);
        if recipe.landing.is_history_owned_by_ralph() {
            check_only_ralph_commits(at, &world.repository)?;
        }
        let by_agent = recipe.landing.commit == CommitPolicy::Agent;
        if watched.role == Role::Review || by_agent {
            return match changed.as_slice() {
                [] => Ok(()),
                paths => Err(format!(
                    "the commit of iteration {} ({}) may only change the list, but changes {paths:?}",
                    watched.number, watched.role
                )),
            };
        }
        check_gates_passed(recipe, watched, world)
            .map_err(|error| format!("committed, but {error}"))?;
        check_committed_tree(watched, &tree, world)?;
        let names = |path: &str| {
            let task = watched.task.as_ref().and_then(|id| self.list.as_ref()?.find_task(id));
            task.is_some_and(|task| task.description.contains(path))
        };
        for path in &changed {
            let is_protected = recipe.protect.iter().any(|it| it.matches(path));
            let is_outside =
                !recipe.scope.is_empty() && !recipe.scope.iter().any(|it| it.matches(path));
            if (is_protected || is_outside) && !names(path) {
                return Err(format!("committed a change of `{path}`, which is protected"));
            }
            if tree.get(path).is_some_and(|content| content.has_text("SECRET")) {
                return Err(format!("committed a secret in `{path}`"));
            }
        }
        Ok(())
    }

    /// Checks what a landing removed.
    pub(super) fn check_landing(&mut self, recorded: &Recorded, world: &SimulatedWorld) {
        let (Event::Landed { landed }, Some(watched)) = (&recorded.event, &self.watched) else {
            return;
        };
        let found = match landed {
            Landed::RolledBack { kept } => check_kept(watched, kept.as_deref(), world),
            Landed::SavedToFailureBranch { branch, .. } => check_failure_branch(branch, world),
            _ => Ok(()),
        };
        if let Err(message) = found {
            self.report_violation(Invariant::KeptFirst, message);
        }
    }

    /// Checks that failed work is gone, if it must be rolled back.
    pub(super) fn check_failed_work(
        &mut self,
        recorded: &Recorded,
        recipe: &Recipe,
        world: &SimulatedWorld,
    ) {
        let (Event::IterationEnded { .. }, Some(watched)) = (&recorded.event, &self.watched) else {
            return;
        };
        let is_wanted = recipe.landing.on_failure == OnFailure::Rollback
            && world.plan.commit != CommitMode::NoGit
            && !matches!(watched.role, Role::Review | Role::Compact);
        let is_red =
            |it: &GateResult| it.severity == Severity::Hard && it.status == GateStatus::Failed;
        // A failure branch takes the work of earlier attempts along.
        let branches = &world.repository.failure_branches;
        let is_on_branch =
            branches.iter().any(|(order, _)| order.mark.iteration.0 == watched.number);
        let is_to_go =
            is_wanted && !is_on_branch && (watched.is_refused || watched.gates.iter().any(is_red));
        let place = watched
            .checkpoint
            .as_ref()
            .and_then(|it| RepositoryState::from_checkpoint(it, &world.repository));
        let (true, Some(place)) = (is_to_go, place) else { return };
        let target = world.repository.find_tree(place.tree);
        let paths = list_differing(world, &target, &world.repository.work);
        if !paths.is_empty() {
            let message = format!("iteration {} failed, but {paths:?} stayed", watched.number);
            self.report_violation(Invariant::KeptFirst, message);
        }
    }

    /// Checks what must exist when a run ends.
    pub(super) fn check_losses(&mut self, recipe: &Recipe, world: &SimulatedWorld) {
        if !world.repository.work.contains_key("README.md") {
            self.report_violation(Invariant::NothingLost, "a file of the user is gone");
        }
        if let Some(number) = world.by_hand
            && !world.repository.has_path(&format!("{BY_HAND}{number}"))
        {
            self.report_violation(Invariant::NothingLost, "a file that a user wrote is lost");
        }
        let history: Vec<usize> = world.repository.list_ancestors(world.repository.head).collect();
        if world.user_commits.iter().any(|it| !history.contains(it)) {
            self.report_violation(
                Invariant::NothingLost,
                "a commit of a user was removed from the history",
            );
        }
        if world.plan.commit != CommitMode::NoGit
            && !world.repository.branches.contains_key(USERS_BRANCH)
        {
            self.report_violation(Invariant::NothingLost, "a branch of the user is gone");
        }
        let lost =
            (0..world.repository.commits.len()).find(|at| !world.repository.is_reachable(*at));
        if let Some(lost) = lost {
            let message = &world.repository.commits[lost].message;
            self.report_violation(
                Invariant::NothingLost,
                format!("no ref leads to commit `{message}`"),
            );
        }
        let is_there = match world.repository.work.get(PLAN) {
            Some(FileContent::Text(text)) => !text.trim().is_empty(),
            Some(FileContent::List(_)) | None => false,
        };
        if recipe.plan.is_some() && world.plan_copy.is_some() && !world.plan_failed && !is_there {
            self.report_violation(Invariant::NothingLost, "the plan is gone");
        }
        // The protected file is in the history, unless agents may commit or a task names it.
        if world.plan.commit == CommitMode::Ralph
            && !world.plan.tasks.iter().any(|task| task.names_protected)
            && self.watched.is_none()
            && world.repository.head_tree().get(PROTECTED).is_none()
        {
            self.report_violation(
                Invariant::NothingLost,
                "the protected file is gone from the history",
            );
        }
    }
}

/// Checks that where ralph commits, the history below contains only its own and earlier commits.
fn check_only_ralph_commits(at: usize, repository: &SimulatedRepository) -> Result<(), String> {
    let is_theirs = |at: &usize| {
        let SimulatedCommit { mark, parent, message, .. } = &repository.commits[*at];
        mark.is_none() && parent.is_some() && message != USER_COMMIT
    };
    match repository.list_ancestors(Some(at)).find(is_theirs) {
        Some(theirs) => {
            let message = &repository.commits[theirs].message;
            Err(format!("committed on top of `{message}`, which passed no gate"))
        }
        None => Ok(()),
    }
}

/// Checks that a rollback's removals are on a ref, and that the tree is as before.
fn check_kept(
    watched: &WatchedIteration,
    kept: Option<&str>,
    world: &SimulatedWorld,
) -> Result<(), String> {
    if world.plan.commit == CommitMode::NoGit {
        return Ok(());
    }
    let place = watched
        .checkpoint
        .as_ref()
        .and_then(|it| RepositoryState::from_checkpoint(it, &world.repository));
    let Some(place) = place else { return Ok(()) };
    let target = world.repository.find_tree(place.tree);
    let paths = list_differing(world, &target, &world.repository.work);
    if !paths.is_empty() {
        return Err(format!("rolled back, but {paths:?} differ"));
    }
    let last = world.truths.range((watched.number, 0)..=(watched.number, u32::MAX)).next_back();
    let Some(left) = last.map(|(_, truth)| world.repository.find_tree(truth.tree)) else {
        return Ok(());
    };
    // A reviewer finds earlier instructions, which ralph replaces itself.
    if list_differing(world, &target, &left).iter().all(|path| path == INSTRUCTIONS) {
        return Ok(());
    }
    // A lost plan is restored before.
    let is_that = |kept: &KeptState| {
        let tree = world.repository.find_tree(kept.tree);
        list_differing(world, &tree, &left).iter().all(|path| {
            [PLAN, INSTRUCTIONS, GATE_FILE].contains(&path.as_str()) || path.starts_with(BY_HAND)
        })
    };
    if kept.is_none() || !world.repository.kept.values().any(is_that) {
        return Err("the work that a rollback removed is on no ref".to_owned());
    }
    Ok(())
}

fn check_failure_branch(branch: &str, world: &SimulatedWorld) -> Result<(), String> {
    match world.repository.branches.get(&format!("refs/heads/{branch}")) {
        Some(Some(_)) => Ok(()),
        Some(None) | None => Err(format!("failure branch `{branch}` does not exist")),
    }
}

/// Checks that the committed tree is the one the gates ran on.
fn check_committed_tree(
    watched: &WatchedIteration,
    tree: &Tree,
    world: &SimulatedWorld,
) -> Result<(), String> {
    let seen = watched.observed.as_ref().and_then(|seen| parse_tree_id(&seen.tree));
    let checked = world.checks.iter().rev().find(|it| it.iteration == watched.number);
    let Some(checked) = seen.or(checked.map(|it| it.tree)) else { return Ok(()) };
    match list_differing(world, &world.repository.find_tree(checked), tree).as_slice() {
        [] => Ok(()),
        paths => Err(format!("committed {paths:?} without checking it")),
    }
}
