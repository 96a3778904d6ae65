//! The section of the report about the workers of a parallel run.

use std::cmp::Reverse;
use std::fmt::Write as _;

use ralph_core::reporting::parallel_status::ParallelStatus;
use ralph_core::reporting::report::{ParallelFigures, Summary, TaskRounds};
use ralph_model::text::choose_plural;

use super::markdown::{add_table, escape_markdown};

/// More paths are in the JSON report.
const MOST_PATHS: usize = 5;

/// Adds what the workers did, and what has not landed.
pub(super) fn add_workers(page: &mut String, summary: &Summary) {
    let Some(figures) = &summary.parallel_figures else { return };
    if figures.tasks.is_empty() {
        return;
    }
    page.push_str("\n## Workers\n\n");
    let rows: Vec<Vec<String>> = figures
        .tasks
        .iter()
        .map(|task| {
            let conflicts = list_conflicts(task);
            vec![
                escape_markdown(&task.task.0),
                escape_markdown(&list_slots(task)),
                task.rounds.to_string(),
                task.waited.to_string(),
                escape_markdown(&conflicts),
            ]
        })
        .collect();
    add_table(page, "Task|Slots|Rounds|Waited to land|Conflicts", &rows);
    page.push('\n');
    for line in describe_figures(figures) {
        let _ = writeln!(page, "- {line}");
    }
    if let Some(paths) = list_conflict_paths(figures) {
        let _ = writeln!(page, "- {}", escape_markdown(&paths));
    }
    if let Some(status) = &summary.parallel {
        add_open_work(page, status);
    }
}

/// Lists what is ready or under way but not on the branch, and why.
fn add_open_work(page: &mut String, status: &ParallelStatus) {
    let lines = list_open_work(status);
    if !lines.is_empty() {
        page.push_str("\n### Not landed\n\n");
    }
    for (task, how) in lines {
        let _ = writeln!(page, "- **{}** {}", escape_markdown(&task), escape_markdown(&how));
    }
}

/// Returns the tasks whose work is not on the branch, and why.
fn list_open_work(status: &ParallelStatus) -> Vec<(String, String)> {
    let workers = status.workers.iter().map(|it| (it.task.0.clone(), it.doing.clone()));
    let queue = status.queue.iter().map(|it| (it.task.0.clone(), it.stage.describe()));
    let requeued = status.requeued.iter();
    let requeued = requeued.map(|it| {
        (it.task.0.clone(), format!("starts again in round {}: {}", it.round, it.reason))
    });
    workers.chain(queue).chain(requeued).collect()
}

/// Returns the slots that a task was worked on in, in order.
pub(crate) fn list_slots(task: &TaskRounds) -> String {
    let slots = task.workers.iter().map(|it| {
        let slot = it.slot.as_deref().unwrap_or("-");
        match &it.taken_over_from {
            Some(taken) => format!("{slot} {taken}"),
            None => slot.to_owned(),
        }
    });
    slots.collect::<Vec<_>>().join(", ")
}

/// Returns the paths of a task that were in conflict.
pub(crate) fn list_conflicts(task: &TaskRounds) -> String {
    let named: Vec<&str> = task.conflicts.iter().take(MOST_PATHS).map(String::as_str).collect();
    match task.conflicts.len().saturating_sub(MOST_PATHS) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns the paths that were in conflict, the most frequent first.
pub(crate) fn list_conflict_paths(figures: &ParallelFigures) -> Option<String> {
    let mut paths: Vec<(&String, &u32)> = figures.conflict_paths.iter().collect();
    paths.sort_by_key(|(_, count)| Reverse(**count));
    let more = paths.len().saturating_sub(MOST_PATHS);
    let named = paths.iter().take(MOST_PATHS).map(|(path, count)| format!("{path} {count}×"));
    let more = (more > 0).then(|| format!("{more} more"));
    let named: Vec<String> = named.chain(more).collect();
    (!named.is_empty()).then(|| format!("Conflicts by path: {}", named.join(", ")))
}

/// Returns the figures of a parallel run, one line each.
pub(crate) fn describe_figures(figures: &ParallelFigures) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(milli) = figures.speed_up_milli {
        let time = figures.spent.ran;
        let (whole, tenths) = (milli / 1000, milli % 1000 / 100);
        lines.push(format!("Speed-up: {whole}.{tenths} (worker time {time} ÷ time of the run)"));
    }
    if let Some(percent) = figures.idle_percent {
        lines.push(format!("Idle slots: {percent}% of the time"));
    }
    lines.push(format!("Merges: {}", figures.merge_time));
    let counted = |count: u32, what: &str| {
        (count > 0).then(|| format!("{what}: {count} time{}", choose_plural(count as usize)))
    };
    lines.extend(counted(figures.requeues, "Started again"));
    lines.extend(counted(figures.losses, "Workers lost"));
    lines
}
