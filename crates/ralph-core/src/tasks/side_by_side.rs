//! Picks the tasks of a parallel run that can be done side by side.

use ralph_model::ids::TaskId;
use ralph_model::parallel_state::ParallelState;
use ralph_model::recipe::ParallelPolicy;
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{Task, TaskList, TaskStatus};

use crate::tasks::next_work::find_first_ready;

/// Returns the next task for a worker: tasks that start again first, then in the order of a
/// sequential run. Dependencies count once they have landed. Two tasks are never in their
/// last round at the same time.
pub(crate) fn pick_task<'a>(
    list: &'a TaskList,
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
    find_first_ready(list, review, rank)
}

/// Returns how many open tasks wait for a task.
pub(crate) fn count_dependents(list: &TaskList, id: &TaskId) -> usize {
    let is_open = |task: &&Task| match task.status {
        TaskStatus::Pending | TaskStatus::InProgress => true,
        TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped => false,
    };
    list.tasks.iter().filter(is_open).filter(|task| task.depends_on.contains(id)).count()
}
