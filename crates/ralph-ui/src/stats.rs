//! The output of `ralph stats`: a table per agent, model and role, and the figures of all runs.
//!
//! Not here: counting.

use ralph_core::reporting::stats::{ProjectStats, StatsRow};
use ralph_model::text::choose_plural;

use crate::sanitize;
use crate::tasks::pad_to;
use crate::time::WallClock;

/// Longer names of agents and models are cut.
const NAME_CHARS: usize = 30;

const TITLES: [&str; 9] =
    ["Agent", "Model", "Role", "Calls", "Attempts", "Landed", "Rejected", "Time", "Cost"];

/// Returns the statistics for people.
pub fn describe_stats(stats: &ProjectStats, clock: &WallClock) -> String {
    let (Some(first), Some(last)) = (stats.first, stats.last) else {
        return "There is no run of this project to count.\n".to_owned();
    };
    let (first, last) = (clock.format_full(first), clock.format_full(last));
    let mut text = format!("From {first} to {last}: {}\n\n", describe_totals(stats));
    let rows = stats.rows.iter().map(format_row);
    text.push_str(&format_table(std::iter::once(TITLES.map(str::to_owned)).chain(rows)));
    let failing: Vec<String> = stats
        .gates
        .iter()
        .filter(|(_, gate)| gate.failed > 0)
        .map(|(name, gate)| format!("{} {} of {}", shorten(name), gate.failed, gate.runs))
        .collect();
    if !failing.is_empty() {
        text.push_str(&format!("\nFailed gates: {}\n", failing.join(", ")));
    }
    if stats.waits > 0 {
        let (count, plural) = (stats.waits, choose_plural(stats.waits as usize));
        text.push_str(&format!("\n{count} wait{plural} for usage limits, {}\n", stats.waited));
    }
    text
}

/// Returns how many runs there were, and what a landed task took.
pub(crate) fn describe_totals(stats: &ProjectStats) -> String {
    let (runs, landed) = (stats.runs, stats.total.landed);
    let mut text = format!(
        "{runs} run{}, {} complete; {landed} task{} landed",
        choose_plural(runs as usize),
        stats.complete_runs,
        choose_plural(landed as usize),
    );
    if let Some(milli) = stats.attempts_per_task_milli {
        text.push_str(&format!(", {}.{} attempts each", milli / 1000, milli % 1000 / 100));
    }
    text.extend(stats.time_per_task.map(|time| format!(", {time} each")));
    text.extend(stats.cost_per_task.map(|cost| format!(", {cost} each")));
    text
}

fn format_row(row: &StatsRow) -> [String; 9] {
    let figures = &row.figures;
    let is_review = figures.rejections > 0 || row.role == ralph_model::ids::Role::Review;
    [
        shorten(&row.agent),
        if row.model.is_empty() { "-".to_owned() } else { shorten(&row.model) },
        row.role.to_string(),
        figures.calls.to_string(),
        figures.attempts.to_string(),
        figures.landed.to_string(),
        if is_review { figures.rejections.to_string() } else { "-".to_owned() },
        figures.ran.to_string(),
        figures.cost.map_or_else(|| "-".to_owned(), |cost| cost.to_string()),
    ]
}

fn format_table(rows: impl Iterator<Item = [String; 9]>) -> String {
    let rows: Vec<[String; 9]> = rows.collect();
    let width = |column: usize| {
        rows.iter().map(|row| sanitize::count_columns(&row[column])).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..9).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| pad_to(cell, *width));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    text
}

fn shorten(name: &str) -> String {
    sanitize::sanitize_line(name, NAME_CHARS, "…")
}
