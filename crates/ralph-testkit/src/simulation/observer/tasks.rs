//! Checks the task list: which tasks are done and why, and who may change what.

#![expect(clippy::wildcard_enum_match_arm, reason = "most events are about something else")]

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{Role, TaskId};
use ralph_model::recipe::{Recipe, Retry, TaskWork};
use ralph_model::review::{ReviewPolicy, ReviewStatus};
use ralph_model::task::{ListOwner, Task, TaskList, TaskStatus};
use ralph_model::worktree::Landed;

use super::{Invariant, Observer, WatchedIteration, check_gates_passed};
use crate::simulation::agent_action::IntendedVerdict;
use crate::simulation::recipe::TASKS;
use crate::simulation::repository::FileContent;
use crate::simulation::world::SimulatedWorld;

/// What is remembered about tasks over the whole run.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskHistory {
    /// Tasks whose work passed the gates and waits for review.
    green: BTreeSet<TaskId>,
    /// How many attempts at each task failed in a row.
    failed: BTreeMap<TaskId, u32>,
    /// Tasks that are done although their last reviewer did not approve them.
    capped: BTreeSet<TaskId>,
}

impl Observer {
    /// Checks what an event did to the task list.
    pub(super) fn check_list(
        &mut self,
        recorded: &Recorded,
        recipe: &Recipe,
        world: &SimulatedWorld,
    ) {
        let Some(work) = recipe.task_work() else { return };
        let is_end = matches!(recorded.event, Event::IterationEnded { .. });
        let now = self.state.as_ref().and_then(|state| state.tasks.as_ref()).map(|it| &it.list);
        let is_same = now == self.list.as_deref();
        if is_same && !is_end {
            return;
        }
        let now = if is_same { self.list.clone() } else { now.cloned().map(Rc::new) };
        let before = std::mem::replace(&mut self.list, now.clone());
        let Some(now) = now else {
            return self.report_violation(Invariant::Transitions, "the task list was forgotten");
        };
        let Some(before) = before else {
            return self.accept_first_list(&now, work);
        };
        let found = match &recorded.event {
            // A user's edits are checked once all of them are applied.
            Event::TasksRead { .. } if world.edited.is_some() => Ok(()),
            Event::TasksRead { .. } => check_edited(&before, &now, self.watched.as_ref()),
            Event::IterationStarted { task, .. } => check_begun(&before, &now, task.as_ref()),
            Event::TaskSkipped { task, .. } => {
                // If it is taken up again, its attempts count from zero.
                self.tasks.failed.remove(task);
                check_skipped(&before, &now, task)
            }
            Event::IterationEnded { .. } => match self.watched.clone() {
                Some(watched) => {
                    self.check_iteration_end(&before, &now, &watched, (recipe, work), world)
                }
                None => Ok(()),
            },
            _ => Err(format!("the list changed by {:?}", recorded.event)),
        };
        if let Err(message) = found {
            self.report_violation(Invariant::Transitions, message);
        }
    }

    /// Accepts the list as it is at the beginning.
    fn accept_first_list(&mut self, now: &TaskList, work: &TaskWork) {
        let waits = now.tasks.iter().filter(|it| it.review.status == ReviewStatus::NeedsReview);
        self.tasks.green = waits.map(|task| task.id.clone()).collect();
        let is_left = |task: &&Task| task.status == TaskStatus::Failed && work.retry == Retry::All;
        if let Some(task) = now.tasks.iter().find(is_left) {
            self.report_violation(Invariant::Transitions, format!("{} is not retried", task.id));
        }
    }

    fn check_iteration_end(
        &mut self,
        before: &TaskList,
        now: &TaskList,
        watched: &WatchedIteration,
        (recipe, work): (&Recipe, &TaskWork),
        world: &SimulatedWorld,
    ) -> Result<(), String> {
        let is_own = |task: &Task| watched.task.as_ref() == Some(&task.id);
        for old in &before.tasks {
            match now.find_task(&old.id) {
                None if old.status == TaskStatus::Done || is_own(old) => {
                    return Err(format!("{} was removed", old.id));
                }
                None if work.keeper == ListOwner::Agent => {
                    return Err(format!("the agent removed {} from its list", old.id));
                }
                None => {}
                Some(new) if is_own(old) => {
                    self.check_own_task(old, new, watched, (recipe, work), world)?;
                }
                Some(new) => check_other_task(old, new, work)?,
            }
        }
        let added = now.tasks.iter().filter(|task| before.find_task(&task.id).is_none());
        let added: Vec<&Task> = added.collect();
        if added.len() > work.amendments as usize {
            return Err(format!("{} tasks were added at once", added.len()));
        }
        added.into_iter().try_for_each(check_new_task)?;
        check_committed_list(now, watched, world)?;
        if let (Some(task), Role::Implement | Role::Fix) = (&watched.task, watched.role) {
            self.count_attempt(task, watched, now, (recipe, work), world)?;
        }
        Ok(())
    }

    /// Checks what an iteration did to its own task.
    fn check_own_task(
        &mut self,
        old: &Task,
        new: &Task,
        watched: &WatchedIteration,
        (recipe, work): (&Recipe, &TaskWork),
        world: &SimulatedWorld,
    ) -> Result<(), String> {
        let id = &old.id;
        if (&old.title, &old.description, &old.acceptance_criteria, &old.depends_on)
            != (&new.title, &new.description, &new.acceptance_criteria, &new.depends_on)
        {
            return Err(format!("the text of {id} changed while it was worked on"));
        }
        let counts = new.review.count.checked_sub(old.review.count);
        match (watched.role, counts) {
            (_, Some(0)) | (Role::Review, Some(1)) => {}
            (role, _) => return Err(format!("{role} changed the count of reviews of {id}")),
        }
        if new.attempts < old.attempts {
            return Err(format!("attempts at {id} were forgotten"));
        }
        if new.status == TaskStatus::Done && old.status != TaskStatus::Done {
            let found = self.check_done(new, watched, (recipe, work), world);
            if let Err(message) = found {
                self.report_violation(Invariant::Done, message);
            }
        }
        if old.status != new.status {
            match (old.status, new.status) {
                (TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped, _) => {
                    return Err(format!("{id} was {} and is {}", old.status, new.status));
                }
                (_, TaskStatus::Skipped) if !has_skip_request(world) => {
                    return Err(format!("{id} was skipped without a request"));
                }
                (TaskStatus::Pending | TaskStatus::InProgress, _) => {}
            }
        }
        check_review(old, new, watched.role, work)
    }

    /// Checks that no task is done without passed gates and, with reviews, the approval of
    /// another agent.
    fn check_done(
        &mut self,
        task: &Task,
        watched: &WatchedIteration,
        (recipe, work): (&Recipe, &TaskWork),
        world: &SimulatedWorld,
    ) -> Result<(), String> {
        let id = &task.id;
        let Some(ask) = watched.answer else {
            return Err(format!("{id} is done, but there was no answer"));
        };
        match work.review {
            ReviewPolicy::Skip => {
                if !watched.role.is_attempt() {
                    return Err(format!("{id} is done by {}", watched.role));
                }
                if watched.refused {
                    return Err(format!("{id} is done, but its commit was refused"));
                }
                check_gates_passed(recipe, watched, world)
                    .map_err(|error| format!("{id} is done, but {error}"))
            }
            ReviewPolicy::Fresh { cap } => {
                if watched.role != Role::Review {
                    return Err(format!("{id} is done by {}, not by a review", watched.role));
                }
                if !self.tasks.green.contains(id) {
                    return Err(format!("{id} is done, but its work never passed the gates"));
                }
                if task.review.status != ReviewStatus::Approved {
                    return Err(format!("{id} is done, but not approved"));
                }
                let truth = world.truths.get(&(watched.number, ask));
                let is_approved = truth.is_some_and(|truth| match work.keeper {
                    ListOwner::Ralph => truth.meant == IntendedVerdict::Approval,
                    ListOwner::Agent => truth.listed.as_ref().is_some_and(|listed| {
                        listed.review.status == ReviewStatus::Approved
                            && listed.review.count == task.review.count
                    }),
                });
                if !is_approved && task.review.count < cap {
                    return Err(format!("{id} is done, but its reviewer did not approve it"));
                }
                if is_approved {
                    self.tasks.capped.remove(id);
                } else {
                    self.tasks.capped.insert(id.clone());
                }
                Ok(())
            }
        }
    }

    /// Counts attempts that fail in a row.
    fn count_attempt(
        &mut self,
        task: &TaskId,
        watched: &WatchedIteration,
        now: &TaskList,
        (recipe, work): (&Recipe, &TaskWork),
        world: &SimulatedWorld,
    ) -> Result<(), String> {
        self.tasks.green.remove(task);
        let Some(after) = now.find_task(task) else { return Ok(()) };
        let is_over =
            matches!(after.status, TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped);
        let waits = work.review != ReviewPolicy::Skip
            && after.review.status == ReviewStatus::NeedsReview
            && after.status != TaskStatus::Skipped;
        if waits {
            if watched.answer.is_none() || watched.refused {
                return Err(format!("{task} waits for a review, but its work never landed"));
            }
            check_gates_passed(recipe, watched, world)
                .map_err(|error| format!("{task} waits for a review, but {error}"))?;
            self.tasks.green.insert(task.clone());
        }
        let has_passed = is_over || waits;
        let failed = self.tasks.failed.entry(task.clone()).or_default();
        *failed = if has_passed { 0 } else { *failed + 1 };
        let limit = after.max_retries.map_or(work.attempts, |retries| retries + 1).max(1);
        if *failed >= limit {
            let message = format!("{failed} attempts at {task} failed, and it may continue");
            self.report_violation(Invariant::Ends, message);
        }
        Ok(())
    }

    /// Checks that the file matches the run's list when a run ends. Committed work counts, even
    /// if the iteration is still open.
    pub(super) fn check_task_file(&mut self, world: &SimulatedWorld) {
        let Some(list) = &self.list else { return };
        let repository = &world.repository;
        let committed = repository.head_tree();
        let is_committed = self.watched.as_ref().is_some_and(|watched| watched.committed);
        let known = match committed.get(TASKS) {
            Some(FileContent::List(list)) if is_committed => list,
            Some(_) | None => list,
        };
        let is_same = matches!(
            repository.work.get(TASKS),
            Some(FileContent::List(file)) if *file == *known
        );
        if !is_same && !world.list_failed {
            self.report_violation(
                Invariant::Transitions,
                "the task file differs from the run's list",
            );
        }
    }

    /// Checks that nothing is left in a completed list.
    pub(super) fn check_finished_list(&mut self, only: Option<&TaskId>) {
        let Some(list) = &self.list else {
            return self
                .report_violation(Invariant::Completion, "complete, but the list was never read");
        };
        let only = only.filter(|only| list.find_task(only).is_some());
        let mut tasks = list.tasks.iter().filter(|task| only.is_none_or(|only| *only == task.id));
        let open =
            tasks.find(|task| !matches!(task.status, TaskStatus::Done | TaskStatus::Skipped));
        if let Some(open) = open {
            let message = format!("complete, but {} is {}", open.id, open.status);
            return self.report_violation(Invariant::Completion, message);
        }
        let is_capped =
            |task: &&Task| task.status == TaskStatus::Done && self.tasks.capped.contains(&task.id);
        let mut wanted = list.tasks.iter().filter(|task| only.is_none_or(|only| *only == task.id));
        if let Some(capped) = wanted.find(is_capped) {
            let message = format!("complete, but only the cap approved {}", capped.id);
            self.report_violation(Invariant::Completion, message);
        }
    }
}

/// Checks that the commit of an iteration contains its result.
fn check_committed_list(
    now: &TaskList,
    watched: &WatchedIteration,
    world: &SimulatedWorld,
) -> Result<(), String> {
    let repository = &world.repository;
    let head = repository.head.map(|head| &repository.commits[head]);
    let mark = head.and_then(|head| head.mark.as_ref());
    if mark.is_none_or(|mark| mark.iteration.0 != watched.number) || world.list_failed {
        return Ok(());
    }
    // A later edit by a user of other tasks is not in it.
    let is_commit =
        |event: &Event| matches!(event, Event::Landed { landed: Landed::Committed { .. } });
    let mut since = world.journal.iter().rev().map(|it| &it.event).take_while(|it| !is_commit(it));
    let is_edited = since.any(|event| matches!(event, Event::TasksRead { .. }));
    let own = |list: &TaskList| watched.task.as_ref().and_then(|id| list.find_task(id)).cloned();
    let is_same = match repository.head_tree().get(TASKS) {
        Some(FileContent::List(list)) if is_edited => own(list) == own(now),
        Some(FileContent::List(list)) => **list == *now,
        Some(_) | None => false,
    };
    if is_same {
        return Ok(());
    }
    Err(format!("the commit of iteration {} does not contain its result", watched.number))
}

fn has_skip_request(world: &SimulatedWorld) -> bool {
    world.journal.iter().any(|recorded| {
        matches!(
            &recorded.event,
            Event::ControlRequested { asked, refused: None }
                if matches!(asked.request, ralph_model::control::ControlRequest::Skip { .. })
        )
    })
}

/// Checks that a new task has not progressed.
fn check_new_task(task: &Task) -> Result<(), String> {
    let is_far = !matches!(task.status, TaskStatus::Pending | TaskStatus::Skipped)
        || task.review.status != ReviewStatus::None
        || task.review.count != 0;
    if is_far { Err(format!("{} is new and {}", task.id, task.status)) } else { Ok(()) }
}

/// Checks what an iteration did to another task.
fn check_other_task(old: &Task, new: &Task, work: &TaskWork) -> Result<(), String> {
    let id = &old.id;
    if (old.status, &old.review, old.attempts) != (new.status, &new.review, new.attempts) {
        return Err(format!("{id} moved in an iteration on another task"));
    }
    let has_other_text = (&old.acceptance_criteria, &old.description)
        != (&new.acceptance_criteria, &new.description);
    if has_other_text && (old.status == TaskStatus::Done || work.keeper == ListOwner::Agent) {
        return Err(format!("the criteria of {id} changed"));
    }
    Ok(())
}

/// Checks what happened to the review of a task.
fn check_review(old: &Task, new: &Task, role: Role, work: &TaskWork) -> Result<(), String> {
    use ReviewStatus as S;
    let id = &old.id;
    let is_on = work.review != ReviewPolicy::Skip;
    let is_closed = new.status == TaskStatus::Skipped || !is_on;
    let (before, after) = (old.review.status, new.review.status);
    // Only a user reopens an approved task.
    let is_reopened = before == S::Approved && old.status != TaskStatus::Done;
    let is_legal = match role {
        Role::Implement | Role::Fix => {
            matches!((before, after), (S::None | S::ChangesRequested, S::NeedsReview))
                || is_reopened && after == S::NeedsReview
        }
        Role::Review => {
            matches!((before, after), (S::NeedsReview, S::Approved | S::ChangesRequested))
        }
        Role::Prompt | Role::Plan | Role::Build | Role::Compact | Role::Message | Role::Merge => {
            false
        }
    };
    if before != after && !is_legal && !(is_closed && before.is_open() && after == S::None) {
        let (before, after) = (before.name(), after.name());
        return Err(format!("{role} made {after} out of {before} for {id}"));
    }
    if is_on && new.review.status == S::ChangesRequested && new.review.feedback.trim().is_empty() {
        return Err(format!("{id} has changes requested without feedback"));
    }
    let is_approved = after == S::Approved && !(is_reopened && before == after);
    if is_on && is_approved != (new.status == TaskStatus::Done) {
        return Err(format!("{id} is {} and {}", new.status, new.review.status.name()));
    }
    Ok(())
}

/// Checks what was applied from an edited file.
fn check_edited(
    before: &TaskList,
    now: &TaskList,
    watched: Option<&WatchedIteration>,
) -> Result<(), String> {
    let current = watched.and_then(|watched| watched.task.as_ref());
    for old in &before.tasks {
        let is_current = current == Some(&old.id);
        let Some(new) = now.find_task(&old.id) else {
            if old.status == TaskStatus::Pending && !is_current {
                continue;
            }
            return Err(format!("{} was {} and was removed", old.id, old.status));
        };
        if (old.status, &old.review, old.attempts) != (new.status, &new.review, new.attempts) {
            return Err(format!("an edit of the file moved {}", old.id));
        }
        let is_fixed = is_current || old.status == TaskStatus::Done;
        if is_fixed && old.acceptance_criteria != new.acceptance_criteria {
            return Err(format!("an edit of the file changed the criteria of {}", old.id));
        }
    }
    let mut added = now.tasks.iter().filter(|task| before.find_task(&task.id).is_none());
    added.try_for_each(check_new_task)
}

fn check_begun(before: &TaskList, now: &TaskList, task: Option<&TaskId>) -> Result<(), String> {
    let mut expected = before.clone();
    let current = expected.tasks.iter_mut().filter(|it| Some(&it.id) == task);
    current.for_each(|task| task.status = TaskStatus::InProgress);
    if expected == *now { Ok(()) } else { Err("the list changed as an iteration began".to_owned()) }
}

fn check_skipped(before: &TaskList, now: &TaskList, skipped: &TaskId) -> Result<(), String> {
    let others = |list: &TaskList| -> Vec<Task> {
        list.tasks.iter().filter(|task| task.id != *skipped).cloned().collect()
    };
    let status = now.find_task(skipped).map(|task| task.status);
    if others(before) == others(now) && status == Some(TaskStatus::Skipped) {
        Ok(())
    } else {
        Err(format!("the list changed as {skipped} was skipped"))
    }
}
