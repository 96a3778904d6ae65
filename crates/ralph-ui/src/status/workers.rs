//! The workers of a parallel run and its merge queue, as a table for `status` and the screen.

use ralph_core::reporting::parallel_status::{
    ParallelStatus, QueuedCandidate, RequeuedTask, WorkerSummary,
};
use ralph_model::text::choose_plural;
use ralph_model::units::Timestamp;

use super::format_line;
use crate::sanitize;
use crate::tasks::{format_task_id, pad_to};
use crate::time::{WallClock, format_countdown};

/// Returns the workers, the queue, tasks that start again, and agents that take no calls, one
/// line each.
pub(super) fn format_parallel(status: &ParallelStatus, clock: &WallClock) -> String {
    let now = (clock.now)();
    let live = status.workers.iter().filter(|it| it.is_live).count();
    let most = match status.concurrency {
        fewer if fewer < status.jobs => format!("{} (fewer now: {fewer})", status.jobs),
        _ => status.jobs.to_string(),
    };
    let mut text = format!("Workers    {live} of {most}\n");
    for row in format_worker_rows(status, now) {
        text.push_str(&format!("  {row}\n"));
    }
    if !status.queue.is_empty() {
        text.push_str(&format!("Queue      {}\n", count_candidates(status.queue.len())));
    }
    for row in format_queue_rows(status, now) {
        text.push_str(&format!("  {row}\n"));
    }
    for task in &status.requeued {
        text.push_str(&format!("Again      {}\n", format_requeue(task)));
    }
    for hold in status.holds_at(now) {
        let (agent, at) = (hold.agent.name(), clock.format_minutes(hold.until, now));
        let left = format_countdown(hold.until.elapsed_since(now));
        text.push_str(&format!("Hold       {agent} takes no calls before {at} (in {left})\n"));
    }
    text
}

/// Returns a row for each worker: slot, task, what it does, iterations, cost and age.
pub(crate) fn format_worker_rows(status: &ParallelStatus, now: Timestamp) -> Vec<String> {
    let rows: Vec<_> = status.workers.iter().map(|it| format_worker(it, now).to_vec()).collect();
    format_columns(&rows)
}

/// Returns a row for each candidate: task, how far it is, and age.
pub(crate) fn format_queue_rows(status: &ParallelStatus, now: Timestamp) -> Vec<String> {
    let row = |it: &QueuedCandidate| {
        let age = format_countdown(now.elapsed_since(it.since));
        vec![format_task_id(&it.task), format_line(&it.stage.describe()), age]
    };
    format_columns(&status.queue.iter().map(row).collect::<Vec<_>>())
}

/// Returns the reason why a task starts again.
pub(crate) fn format_requeue(task: &RequeuedTask) -> String {
    let (id, reason) = (format_task_id(&task.task), format_line(&task.reason));
    format!("{id} in round {}: {reason}", task.round)
}

fn format_worker(worker: &WorkerSummary, now: Timestamp) -> [String; 6] {
    let round = match worker.round {
        0 | 1 => String::new(),
        round => format!(" (round {round})"),
    };
    let count = worker.iterations;
    [
        worker.slot.as_deref().map_or_else(|| "-".to_owned(), format_line),
        format!("{}{round}", format_task_id(&worker.task)),
        format_line(&describe_work(worker)),
        format!("{count} iteration{}", choose_plural(count as usize)),
        worker.cost.map(|cost| cost.to_string()).unwrap_or_default(),
        format_countdown(now.elapsed_since(worker.since)),
    ]
}

/// Returns what a worker does, and whose work it continues.
pub(crate) fn describe_work(worker: &WorkerSummary) -> String {
    match &worker.taken_over_from {
        Some(taken) => format!("{}; {taken}", worker.doing),
        None => worker.doing.clone(),
    }
}

fn count_candidates(count: usize) -> String {
    if count == 1 { "1 waits to land".to_owned() } else { format!("{count} wait to land") }
}

/// Returns rows with columns of equal width, without those that are empty everywhere.
fn format_columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| sanitize::count_columns(&row[at])).max();
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| pad_to(cell, *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
