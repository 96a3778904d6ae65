//! Chooses the next task, finds what blocks the rest if no task can be done, and tells when a
//! compaction comes first.
//!
//! Choosing takes about linear time: lists of ten thousand tasks are examined before each
//! iteration. Not here: lists with mistakes; a task on a cycle or with an unknown dependency is
//! never chosen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use ralph_model::ids::{Role, TaskId};
use ralph_model::memory::CompactionTrigger;
use ralph_model::recipe::TaskWork;
use ralph_model::review::{ReviewPolicy, ReviewStatus};
use ralph_model::run::RunState;
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::task_state::TaskState;
use serde::{Deserialize, Serialize};

use crate::memory;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextWork<'a> {
    /// Fix what a review found in this task.
    Fix(&'a Task),
    Review(&'a Task),
    /// Begin this task, or retry it.
    Implement(&'a Task),
    /// Nothing can be done, although something is left.
    Nothing {
        /// Every failed task, and every skipped one that others wait for.
        blocked: Vec<Blockage>,
    },
    /// Every task is done or skipped.
    AllDone,
}

impl<'a> NextWork<'a> {
    /// Returns the role and the task, if there is something to do.
    pub fn role_and_task(&self) -> Option<(Role, &'a Task)> {
        match *self {
            Self::Fix(task) => Some((Role::Fix, task)),
            Self::Review(task) => Some((Role::Review, task)),
            Self::Implement(task) => Some((Role::Implement, task)),
            Self::Nothing { .. } | Self::AllDone => None,
        }
    }
}

/// Whether failed tasks are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPolicy {
    Never,
    /// Retried while attempts are left.
    WhileAttemptsLeft {
        /// How many attempts a task gets that does not set this itself.
        usual: u32,
    },
}

/// A task that will not be done, and the tasks that wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blockage {
    pub blocker: TaskId,
    /// Failed or skipped.
    pub status: TaskStatus,
    /// Tasks that wait for it, directly or through others, nearest first. A task that waits for
    /// several blockers is listed once, with the first of them.
    pub waiting: Vec<BlockedDependent>,
}

/// A task that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedDependent {
    pub task: TaskId,
    /// The dependency that blocks it: the blocker, or another task that waits.
    pub through: TaskId,
}

/// Indexing all tasks takes as long as about ten searches of the list.
const MAX_SEARCHES: usize = 8;

/// Finds tasks by their ids; efficient for a few and for all of them.
struct TaskFinder<'a> {
    list: &'a TaskList,
    /// How often the list was searched.
    searches: usize,
    /// The index of all tasks, once many searches were made.
    places: Option<BTreeMap<&'a str, usize>>,
}

impl TaskFinder<'_> {
    fn is_done(&mut self, id: &TaskId) -> bool {
        let list = self.list;
        self.searches += 1;
        let task = if self.searches <= MAX_SEARCHES {
            list.find_task(id)
        } else {
            let places = self.places.get_or_insert_with(|| list.index_by_id());
            places.get(id.0.as_str()).map(|&at| &list.tasks[at])
        };
        task.is_some_and(|task| task.status.is_done())
    }

    /// Returns whether a task waits for no other.
    fn can_begin(&mut self, role: NextWorkKind, task: &Task) -> bool {
        role != NextWorkKind::Implement || task.depends_on.iter().all(|id| self.is_done(id))
    }
}

/// Kinds of work, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NextWorkKind {
    Fix,
    Review,
    Implement,
}

/// Returns what a task needs next, ignoring dependencies.
fn find_next_work(
    task: &Task,
    review: ReviewPolicy,
    retrying: RetryPolicy,
) -> Option<NextWorkKind> {
    match task.status {
        TaskStatus::Pending | TaskStatus::InProgress => {}
        TaskStatus::Done | TaskStatus::Skipped => return None,
        TaskStatus::Failed => match retrying {
            RetryPolicy::Never => return None,
            RetryPolicy::WhileAttemptsLeft { usual } => {
                if task.attempts >= task.count_allowed_attempts(usual) {
                    return None;
                }
            }
        },
    }
    Some(match (review, task.review.status) {
        (ReviewPolicy::Fresh { .. }, ReviewStatus::ChangesRequested) => NextWorkKind::Fix,
        (ReviewPolicy::Fresh { .. }, ReviewStatus::NeedsReview) => NextWorkKind::Review,
        (ReviewPolicy::Fresh { .. }, ReviewStatus::None | ReviewStatus::Approved)
        | (ReviewPolicy::Skip, _) => NextWorkKind::Implement,
    })
}

/// Returns whether nothing is left to do and nothing went wrong.
fn is_over(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Done | TaskStatus::Skipped => true,
        TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Failed => false,
    }
}

/// Returns whether a task still waits for work.
fn is_open(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Pending | TaskStatus::InProgress => true,
        TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped => false,
    }
}

/// Returns what to do next: fixes before reviews before implementing.
///
/// Among equals a task that was begun comes first, so that its work in the tree is not mixed
/// with another's; then the lowest order decides, then the order of the file. Only
/// implementing waits for dependencies: work under review or being fixed already exists.
pub fn choose_next_work(
    list: &TaskList,
    review: ReviewPolicy,
    retrying: RetryPolicy,
) -> NextWork<'_> {
    match find_most_urgent(list, review, retrying, |_| Some(())) {
        Some((NextWorkKind::Fix, task)) => NextWork::Fix(task),
        Some((NextWorkKind::Review, task)) => NextWork::Review(task),
        Some((NextWorkKind::Implement, task)) => NextWork::Implement(task),
        None if list.tasks.iter().all(|task| is_over(task.status)) => NextWork::AllDone,
        None => NextWork::Nothing { blocked: find_blockages(list) },
    }
}

/// Returns the first task that can be worked on, in the order of [`choose_next_work`] within
/// each rank. A task without a rank is left out.
pub(crate) fn find_first_ready<R: Ord + Copy>(
    list: &TaskList,
    review: ReviewPolicy,
    rank: impl Fn(&Task) -> Option<R>,
) -> Option<&Task> {
    find_most_urgent(list, review, RetryPolicy::Never, rank).map(|(_, task)| task)
}

/// Returns all tasks that can be worked on, in the order of [`find_first_ready`], with their
/// ranks.
pub(crate) fn list_ready<R: Ord + Copy>(
    list: &TaskList,
    review: ReviewPolicy,
    rank: impl Fn(&Task) -> Option<R>,
) -> Vec<(R, &Task)> {
    let mut finder = TaskFinder { list, searches: 0, places: None };
    let mut ready = Vec::new();
    for (at, task) in list.tasks.iter().enumerate() {
        let Some(role) = find_next_work(task, review, RetryPolicy::Never) else { continue };
        let Some(rank) = rank(task) else { continue };
        if finder.can_begin(role, task) {
            ready.push((build_urgency(rank, role, task, at), task));
        }
    }
    ready.sort_unstable_by_key(|(key, _)| *key);
    ready.into_iter().map(|(key, task)| (key.0, task)).collect()
}

/// What decides which task comes first: the least.
type Urgency<R> = (R, NextWorkKind, Reverse<bool>, (bool, Option<i64>), usize);

fn build_urgency<R>(rank: R, role: NextWorkKind, task: &Task, at: usize) -> Urgency<R> {
    let has_begun = task.status == TaskStatus::InProgress;
    (rank, role, Reverse(has_begun), (task.order.is_none(), task.order), at)
}

/// Returns the most urgent task that can be worked on, the lowest rank first.
fn find_most_urgent<R: Ord + Copy>(
    list: &TaskList,
    review: ReviewPolicy,
    retrying: RetryPolicy,
    rank: impl Fn(&Task) -> Option<R>,
) -> Option<(NextWorkKind, &Task)> {
    let mut finder = TaskFinder { list, searches: 0, places: None };
    let mut best = None;
    for (at, task) in list.tasks.iter().enumerate() {
        let Some(role) = find_next_work(task, review, retrying) else { continue };
        let Some(rank) = rank(task) else { continue };
        let key = build_urgency(rank, role, task, at);
        if best.is_none_or(|best| key < best) && finder.can_begin(role, task) {
            best = Some(key);
        }
    }
    best.map(|(_, role, _, _, at)| (role, &list.tasks[at]))
}

/// Returns every failed task, and every skipped one that others wait for, in the order of the
/// file, with the tasks that wait for it.
pub fn find_blockages(list: &TaskList) -> Vec<Blockage> {
    let places = list.index_by_id();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); list.tasks.len()];
    for (at, task) in list.tasks.iter().enumerate().filter(|(_, task)| is_open(task.status)) {
        for id in &task.depends_on {
            if let Some(&before) = places.get(id.0.as_str()) {
                dependents[before].push(at);
            }
        }
    }
    let mut is_listed = vec![false; list.tasks.len()];
    let mut blocked = Vec::new();
    for (at, task) in list.tasks.iter().enumerate() {
        let is_blocker = match task.status {
            TaskStatus::Failed => true,
            TaskStatus::Skipped => !dependents[at].is_empty(),
            TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Done => false,
        };
        if is_blocker {
            let waiting = collect_waiting(list, at, &dependents, &mut is_listed);
            blocked.push(Blockage { blocker: task.id.clone(), status: task.status, waiting });
        }
    }
    blocked
}

fn collect_waiting(
    list: &TaskList,
    blocker: usize,
    dependents: &[Vec<usize>],
    is_listed: &mut [bool],
) -> Vec<BlockedDependent> {
    let mut waiting = Vec::new();
    let mut queue = VecDeque::from([blocker]);
    while let Some(through) = queue.pop_front() {
        for &at in &dependents[through] {
            if !std::mem::replace(&mut is_listed[at], true) {
                let task = list.tasks[at].id.clone();
                waiting.push(BlockedDependent { task, through: list.tasks[through].id.clone() });
                queue.push_back(at);
            }
        }
    }
    waiting
}

/// Returns what to work on next.
pub fn choose_work<'a>(tasks: &'a TaskState, work: &TaskWork) -> WorkChoice<'a> {
    let Some(only) = work.only.as_ref().and_then(|id| tasks.list.find_task(id)) else {
        return WorkChoice::Next(choose_next_work(&tasks.list, work.review, RetryPolicy::Never));
    };
    match only.status {
        TaskStatus::Done | TaskStatus::Skipped => return WorkChoice::OnlyDone,
        TaskStatus::Failed => return WorkChoice::OnlyFailed,
        TaskStatus::Pending | TaskStatus::InProgress => {}
    }
    let waits_for = tasks.list.find_unmet_dependencies(only);
    let alone = TaskList {
        tasks: vec![Task { depends_on: Vec::new(), ..only.clone() }],
        ..TaskList::default()
    };
    match choose_next_work(&alone, work.review, RetryPolicy::Never) {
        NextWork::Fix(_) => WorkChoice::Next(NextWork::Fix(only)),
        NextWork::Review(_) => WorkChoice::Next(NextWork::Review(only)),
        NextWork::Implement(_) if waits_for.is_empty() => {
            WorkChoice::Next(NextWork::Implement(only))
        }
        NextWork::Implement(_) => WorkChoice::OnlyWaits(waits_for),
        NextWork::Nothing { .. } | NextWork::AllDone => WorkChoice::OnlyDone,
    }
}

/// What to work on next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkChoice<'a> {
    Next(NextWork<'a>),
    /// The requested task is done or skipped.
    OnlyDone,
    /// The requested task waits for these.
    OnlyWaits(Vec<TaskId>),
    /// The requested task has failed.
    OnlyFailed,
}

/// Returns the task of the next coding iteration, if that is next.
pub fn next_coding_task(state: &RunState) -> Option<&Task> {
    let WorkChoice::Next(next) = choose_work(state.tasks.as_ref()?, state.recipe.task_work()?)
    else {
        return None;
    };
    let (role, task) = next.role_and_task()?;
    role.is_attempt().then_some(task)
}

/// Returns why a compaction is due before the next iteration, if it is.
pub fn find_due_compaction(state: &RunState) -> Option<CompactionTrigger> {
    memory::find_trigger(
        state.recipe.memory.as_ref()?,
        &state.since_compaction,
        next_coding_task(state)?,
    )
}

/// Returns why the open compaction was started. What it depends on does not change
/// while one is open, except for the list, which the user may edit.
pub fn find_compaction_trigger(state: &RunState) -> CompactionTrigger {
    find_due_compaction(state).unwrap_or(CompactionTrigger::Periodic)
}

#[cfg(test)]
mod tests;
