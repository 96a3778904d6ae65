//! Finds tasks that can be done side by side, and picks the next one of a parallel run.

use ralph_model::ids::TaskId;
use ralph_model::parallel_state::ParallelState;
use ralph_model::recipe::{OverlapPolicy, ParallelPolicy};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::task_state::TaskState;

use crate::tasks::expected_paths::{ExpectedPaths, Overlap};
use crate::tasks::next_work::{find_first_ready, list_ready};

/// Returns the next task for a worker: tasks that start again first, then in the order of a
/// sequential run. Dependencies count once they have landed. Two tasks are never in their
/// last round at the same time.
///
/// A task whose paths overlap with those of a task at work comes after others. If both declare
/// them, it waits, unless the policy is to run both.
pub(crate) fn pick_task<'a>(
    tasks: &'a TaskState,
    review: ReviewPolicy,
    parallel: &ParallelState,
    policy: &ParallelPolicy,
) -> Option<&'a Task> {
    let is_last = |round: u32| policy.is_last_round(round);
    let is_reserved = parallel.running.values().any(|it| is_last(it.assignment.round))
        || parallel.queue.iter().any(|it| is_last(it.round));
    let rank = |task: &Task| {
        let requeue = parallel.requeued.get(&task.id);
        let waits = is_reserved && requeue.is_some_and(|it| is_last(it.round));
        let is_free = !parallel.is_taken(&task.id) && !waits;
        is_free.then_some(requeue.is_none())
    };
    let first = find_first_ready(&tasks.list, review, rank)?;
    let find_paths = |task: &Task| ExpectedPaths::for_task(task, tasks, &parallel.conflict_paths);
    let running = parallel.running.values().map(|it| &it.assignment.task);
    let taken = running.chain(parallel.queue.iter().map(|it| &it.task));
    let taken = taken.filter_map(|id| tasks.list.find_task(id));
    let taken: Vec<ExpectedPaths> = taken.map(find_paths).collect();
    let find_overlap = |task: &Task| {
        let paths = find_paths(task);
        taken.iter().map(|it| it.compare(&paths)).max().unwrap_or(Overlap::Apart)
    };
    if find_overlap(first) == Overlap::Apart {
        return Some(first);
    }
    // Only now are all of them compared: a list may be long.
    let mut best: Option<(bool, Overlap, &Task)> = None;
    for (is_new, task) in list_ready(&tasks.list, review, rank) {
        if best
            .is_some_and(|(best_new, overlap, _)| overlap == Overlap::Apart || best_new != is_new)
        {
            break;
        }
        let overlap = find_overlap(task);
        let may_start = overlap < Overlap::Declared || policy.overlap == OverlapPolicy::Run;
        if may_start && best.is_none_or(|(_, least, _)| overlap < least) {
            best = Some((is_new, overlap, task));
        }
    }
    best.map(|(_, _, task)| task)
}

/// Which tasks can be done at the same time now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SideBySide<'a> {
    /// Ready tasks whose declared paths do not overlap, in order.
    pub together: Vec<&'a Task>,
    /// Ready tasks that wait, each with the one whose paths it shares.
    pub waiting: Vec<(&'a Task, &'a Task)>,
}

/// Returns the tasks that a run with enough workers would start now.
pub fn find_side_by_side(list: &TaskList, review: ReviewPolicy) -> SideBySide<'_> {
    let mut found = SideBySide::default();
    let mut taken: Vec<(ExpectedPaths, &Task)> = Vec::new();
    for ((), task) in list_ready(list, review, |_| Some(())) {
        let paths = ExpectedPaths::from_declared(task).unwrap_or_default();
        let overlaps = |it: &&(ExpectedPaths, &Task)| it.0.compare(&paths) == Overlap::Declared;
        if let Some((_, other)) = taken.iter().find(overlaps) {
            found.waiting.push((task, other));
        } else {
            found.together.push(task);
            taken.push((paths, task));
        }
    }
    found
}

/// Returns how many open tasks wait for a task.
pub(crate) fn count_dependents(list: &TaskList, id: &TaskId) -> usize {
    let is_open = |task: &&Task| match task.status {
        TaskStatus::Pending | TaskStatus::InProgress => true,
        TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped => false,
    };
    list.tasks.iter().filter(is_open).filter(|task| task.depends_on.contains(id)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_tasks_run_together_unless_they_declare_the_same_paths() {
        let task = |id: &str, touches: &[&str], depends_on: &[&str]| Task {
            touches: touches.iter().map(|it| (*it).into()).collect(),
            depends_on: depends_on.iter().map(|it| TaskId((*it).into())).collect(),
            ..Task::new(id, "t")
        };
        let tasks = vec![
            task("a", &["src/**"], &[]),
            task("b", &["src/b.rs"], &[]),
            task("c", &[], &[]),
            task("d", &[], &["a"]),
        ];
        let list = TaskList { tasks, ..TaskList::default() };
        let found = find_side_by_side(&list, ReviewPolicy::Skip);
        let [a, b, c] = [0, 1, 2].map(|at| &list.tasks[at]);
        assert_eq!(found, SideBySide { together: vec![a, c], waiting: vec![(b, a)] });
    }
}
