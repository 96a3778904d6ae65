//! The rows about workers and the merge queue on the screen, and the worker that keys act on.

use ralph_core::reporting::parallel_status::ParallelStatus;
use ralph_model::ids::TaskId;

use crate::status::workers::{format_queue_rows, format_requeue, format_worker_rows};
use crate::style::Paint;
use crate::tasks;
use crate::tui::facts::ScreenFacts;
use crate::tui::screen::ScreenState;

/// A row of the panel.
pub(crate) struct WorkerPanelRow {
    pub(crate) text: String,
    pub(crate) paint: Paint,
    pub(crate) is_chosen: bool,
}

/// Returns how many rows the panel needs.
pub(crate) fn count_rows(facts: &ScreenFacts) -> usize {
    let rows = |it: &ParallelStatus| it.workers.len() + it.queue.len() + it.requeued.len();
    facts.parallel.as_deref().map_or(0, rows)
}

/// Returns the workers, the candidates that wait, and the tasks that start again.
pub(crate) fn list_rows(screen: &ScreenState) -> Vec<WorkerPanelRow> {
    let Some(status) = &screen.facts.parallel else { return Vec::new() };
    let workers = status.workers.iter().zip(format_worker_rows(status, screen.now));
    let workers = workers.map(|(worker, text)| WorkerPanelRow {
        text,
        paint: if worker.is_live { Paint::None } else { Paint::Dim },
        is_chosen: screen.chosen.as_ref() == Some(&worker.task),
    });
    let row = |text, paint| WorkerPanelRow { text, paint, is_chosen: false };
    let queue = format_queue_rows(status, screen.now).into_iter().map(|it| row(it, Paint::Act));
    let again = status.requeued.iter().map(|it| row(format_requeue(it), Paint::Warn));
    workers.chain(queue).chain(again).collect()
}

/// Returns the task of the worker after the chosen one; none after the last.
pub(crate) fn choose_next(screen: &ScreenState) -> Option<TaskId> {
    let mut tasks = list_tasks(screen);
    match &screen.chosen {
        Some(chosen) if list_tasks(screen).any(|task| task == chosen) => {
            tasks.find(|task| *task == chosen);
            tasks.next().cloned()
        }
        Some(_) | None => tasks.next().cloned(),
    }
}

/// Returns the chosen task, as long as a worker is on it.
pub(crate) fn find_chosen(screen: &ScreenState) -> Option<&TaskId> {
    list_tasks(screen).find(|task| Some(*task) == screen.chosen.as_ref())
}

/// Returns how to see more of the chosen worker, in a run with workers.
pub(crate) fn describe_chosen(screen: &ScreenState) -> Option<String> {
    screen.facts.parallel.as_ref()?;
    Some(match find_chosen(screen) {
        Some(task) => {
            format!("ralph log --task {} --follow shows this worker", tasks::format_task_id(task))
        }
        None => "w chooses a worker".to_owned(),
    })
}

fn list_tasks(screen: &ScreenState) -> impl Iterator<Item = &TaskId> {
    screen.facts.parallel.iter().flat_map(|it| it.workers.iter().map(|worker| &worker.task))
}
