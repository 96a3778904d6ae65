//! The workers of a parallel run on a page: what they do now, the merge queue, and what they did.

use maud::{Markup, html};
use ralph_core::reporting::parallel_status::ParallelStatus;
use ralph_core::reporting::report::{ParallelFigures, Summary};
use ralph_model::ids::WorkerId;

use super::foreign_text::{clean_line, render_time};
use super::sections::{render_section, render_table};
use super::{RunActivity, WorkerKeys};
use crate::report::{describe_figures, list_conflict_paths, list_conflicts, list_slots};
use crate::status::workers::describe_work;
use crate::time::WallClock;

/// Returns the section about workers, if the run has some.
pub(super) fn render_workers(
    summary: &Summary,
    status: RunActivity,
    keys: &WorkerKeys,
    clock: &WallClock,
) -> Markup {
    let (Some(parallel), Some(figures)) = (&summary.parallel, &summary.parallel_figures) else {
        return Markup::default();
    };
    let is_shown = status != RunActivity::Ended || parallel.has_open_work();
    let body = html! {
        @if is_shown { (render_now(parallel, keys, clock)) }
        (render_rounds(figures, keys))
    };
    render_section("Workers", &body)
}

/// Returns what workers do, what waits to land and why, and agents that take no calls.
fn render_now(parallel: &ParallelStatus, keys: &WorkerKeys, clock: &WallClock) -> Markup {
    let rows: Vec<Markup> = parallel
        .workers
        .iter()
        .map(|worker| {
            html! {
                tr {
                    td { (clean_line(worker.slot.as_deref().unwrap_or("-"))) }
                    th scope="row" { (render_link(&worker.worker, &worker.task.0, keys)) }
                    td.n { (worker.round) }
                    td { (clean_line(&describe_work(worker))) }
                    td.n { (worker.iterations) }
                    td.n { @if let Some(cost) = worker.cost { (cost) } }
                    td { (render_time(clock, worker.since)) }
                }
            }
        })
        .collect();
    let head = "Slot|Task|#Round|Doing|#Iterations|#Cost|Since";
    let now = (clock.now)();
    html! {
        p.note { (parallel.workers.iter().filter(|it| it.is_live).count()) " of " (parallel.jobs) " at work." }
        @if !rows.is_empty() { (render_table("Workers, and what each does", head, &rows)) }
        @for candidate in &parallel.queue {
            p.note {
                (render_link(&candidate.worker, &candidate.task.0, keys)) " "
                (clean_line(&candidate.stage.describe()))
            }
        }
        @for task in &parallel.requeued {
            p.note {
                (clean_line(&task.task.0)) " starts again in round " (task.round) ": "
                (clean_line(&task.reason))
            }
        }
        @for hold in parallel.holds_at(now) {
            p.note { (hold.agent.name()) " takes no calls before " (render_time(clock, hold.until)) "." }
        }
    }
}

/// Returns what became of each task, and the figures of the run.
fn render_rounds(figures: &ParallelFigures, keys: &WorkerKeys) -> Markup {
    if figures.tasks.is_empty() {
        return Markup::default();
    }
    let rows: Vec<Markup> = figures
        .tasks
        .iter()
        .map(|task| {
            html! {
                tr {
                    th scope="row" {
                        @if let Some(last) = task.workers.last() {
                            (render_link(&last.worker, &task.task.0, keys))
                        } @else {
                            (clean_line(&task.task.0))
                        }
                    }
                    td { (clean_line(&list_slots(task))) }
                    td.n { (task.rounds) }
                    td.n { (task.waited) }
                    td { (clean_line(&list_conflicts(task))) }
                }
            }
        })
        .collect();
    html! {
        (render_table("Tasks, and how their work landed", "Task|Slots|#Rounds|#Waited to land|Conflicts", &rows))
        @for line in describe_figures(figures) { p.note { (line) "." } }
        @if let Some(paths) = list_conflict_paths(figures) { p.note { (clean_line(&paths)) "." } }
    }
}

/// Returns the task as a link to the page of its worker, where there is one.
fn render_link(worker: &WorkerId, task: &str, keys: &WorkerKeys) -> Markup {
    html! {
        @if let Some(key) = keys.get(worker) {
            a href={ "../" (key) "/" } { (clean_line(task)) }
        } @else {
            (clean_line(task))
        }
    }
}
