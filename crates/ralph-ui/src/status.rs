//! The output of `ralph status`: open questions first, then the run, then its tasks; also the
//! agent's plan and the last commits.
//!
//! Not here: whether the run is active, which only the lock file tells.

mod commits;
mod outlook;
mod plan;
pub(crate) mod workers;

use ralph_core::reporting::report::{Summary, TaskSummary};
use ralph_model::gate::GateStatus;
use ralph_model::ids::Role;
use ralph_model::sandbox::Backend;
use ralph_model::text::choose_plural;

use crate::report::describe_no_changes;
use crate::style::{Paint, Style};
use crate::{sanitize, tasks};

pub use commits::{StatusCommit, format_last_commits};
pub use outlook::{RunForecast, RunOutlook};
pub use plan::{PlanFileState, format_plan};

/// About two lines of a terminal.
const LONGEST: usize = 200;

/// Returns the status of a run.
pub fn describe_run(
    summary: &Summary,
    forecast: &RunForecast,
    activity: &str,
    style: &Style,
) -> String {
    let mut text = String::new();
    for question in &summary.questions {
        let line =
            format!("{} {}", tasks::format_task_id(&question.task), format_line(&question.needs));
        text.push_str(&format!("{}    {line}\n", style.paint(Paint::Warn, "Blocked")));
    }
    if !summary.questions.is_empty() {
        text.push('\n');
    }
    let total = &summary.total;
    text.push_str(&format!(
        "Run        {}\nState      {}\nIteration  {} of {}\nRan        {}\n",
        format_line(&summary.run.0),
        format_line(activity),
        total.iterations,
        summary.maximum_iterations,
        total.ran
    ));
    for asked in &forecast.pending {
        text.push_str(&format!("{}      {asked}\n", style.paint(Paint::Warn, "Asked")));
    }
    let cost = total.cost.map_or_else(|| "not reported".to_owned(), |cost| cost.to_string());
    let tokens = match total.usage().tokens().0 {
        0 => "tokens not reported".to_owned(),
        _ => format!("{} tokens", total.usage().tokens()),
    };
    let is_first_call =
        summary.outcome.is_none() && total.cost.is_none() && total.usage().tokens().0 == 0;
    let figures = if is_first_call {
        "no call has ended yet".to_owned()
    } else {
        format!("{cost}, {tokens}")
    };
    text.push_str(&format!("Cost       {figures}\n"));
    if let Some(backend) = summary.sandbox {
        text.push_str(&format!("Sandbox    {}\n", describe_backend(backend)));
    }
    text.push_str(&format_gates(summary));
    let by_agents = match summary.agent_commits {
        0 => String::new(),
        count => format!(" by ralph, {count} by agents"),
    };
    text.push_str(&format!("Commits    {}{by_agents}\n", summary.commits.count));
    if summary.is_complete_without_changes {
        text.push_str(&format!("Changed    {}\n", describe_no_changes(summary)));
    }
    if let Some(current) = &summary.current {
        let task = current.task.as_ref().map(|task| format!(" {}", tasks::format_task_id(task)));
        let attempt = match (current.attempt, current.attempts_allowed) {
            (Some(attempt), Some(allowed)) => format!(", attempt {attempt} of {allowed}"),
            (_, _) => String::new(),
        };
        let task = task.unwrap_or_default();
        text.push_str(&format!(
            "Doing      {}{task}{attempt} (call {})\n",
            if current.role == Role::Prompt { "your prompt" } else { current.role.name() },
            current.asks
        ));
    }
    text.push_str(&forecast.workers);
    if let Some(action) = &forecast.action {
        text.push_str(&format!("Now        {action}\n"));
    }
    if let Some(progress) = summary.progress {
        let (done, total, shortfall) = (progress.done, progress.total, progress.shortfall());
        let rest = forecast.rest.map(|rest| format!(", about {rest} to go")).unwrap_or_default();
        text.push_str(&format!("Tasks      {done} of {total} done{shortfall}{rest}\n\n"));
        text.push_str(&format_task_table(&summary.tasks, style));
    }
    let (mut open, mut advice) = (String::new(), String::new());
    for task in &summary.left_open {
        let id = tasks::format_task_id(&task.id);
        for (kind, entry) in task.left.entries() {
            open.push_str(&format!("  {id} {kind}: {}\n", format_line(entry)));
        }
        for entry in &task.left.recommendations {
            advice.push_str(&format!("  {id}: {}\n", format_line(entry)));
        }
    }
    for (title, lines) in [("Left open", open), ("Recommendations", advice)] {
        if !lines.is_empty() {
            text.push_str(&format!("\n{title}\n{lines}"));
        }
    }
    for task in &summary.auto_approved {
        let id = tasks::format_task_id(&task.id);
        text.push_str(&format!("\n{id} was approved at the cap of reviews: check it yourself\n"));
    }
    for task in &summary.diverging {
        let (id, how) = (tasks::format_task_id(&task.id), task.divergence.description());
        let how = sanitize::sanitize_text(&how);
        text.push_str(&format!("\nThe reviews of {id} do not converge: {how}\n"));
    }
    text
}

/// Returns what a backend isolates.
pub(crate) fn describe_backend(backend: Backend) -> String {
    match backend {
        Backend::None => "none: agent and gates can do whatever you can".to_owned(),
        Backend::Guard => "none: the command guard alone".to_owned(),
        _ => backend.to_string(),
    }
}

fn format_gates(summary: &Summary) -> String {
    let (runs, failed) = summary
        .gates
        .iter()
        .fold((0, 0), |(runs, failed), gate| (runs + gate.runs, failed + gate.failed));
    let mut text = format!("Gates      {runs} run, {failed} failed\n");
    let last: Vec<String> = summary
        .gates
        .iter()
        .filter_map(|gate| {
            let word = match gate.last? {
                GateStatus::Passed | GateStatus::Cached => "passed",
                GateStatus::Failed => "failed",
            };
            Some(format!("{} {word}", format_line(&gate.name)))
        })
        .collect();
    if !last.is_empty() {
        text.push_str(&format!("Last gates {}\n", last.join(", ")));
    }
    text
}

fn format_task_table(list: &[TaskSummary], style: &Style) -> String {
    let widest = |column: &dyn Fn(&TaskSummary) -> String| {
        list.iter().map(|task| sanitize::count_columns(&column(task))).max().unwrap_or_default()
    };
    let word = |task: &TaskSummary| tasks::describe_state(task.status, task.review).1.to_owned();
    let (ids, states) = (widest(&|task| tasks::format_task_id(&task.id)), widest(&word));
    let mut text = String::new();
    for task in list {
        let (mark, label, paint) = tasks::describe_state(task.status, task.review);
        let id = tasks::pad_to(&tasks::format_task_id(&task.id), ids);
        let state = style.paint(paint, &tasks::pad_to(label, states));
        let facts = collect_task_facts(task).join(", ");
        let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
        let row = format!(
            "{} {id}  {state}  {}{}",
            style.format_mark(mark),
            format_line(&task.title),
            style.paint(Paint::Dim, &facts)
        );
        text.push_str(&format!("{}\n", row.trim_end()));
    }
    text
}

/// Returns attempts, reviews, warnings and cost of a task, where not zero.
fn collect_task_facts(task: &TaskSummary) -> Vec<String> {
    let counted = |count: u32, word: &str| {
        (count > 0).then(|| format!("{count} {word}{}", choose_plural(count as usize)))
    };
    let failed = (task.failed_attempts > 0)
        .then(|| format!("{} of {} attempts failed", task.failed_attempts, task.attempts_allowed));
    let warnings = task.quality_warnings.values().sum();
    [
        failed,
        counted(task.reviews, "review"),
        counted(warnings, "quality warning"),
        task.spent.cost.map(|cost| cost.to_string()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn format_line(text: &str) -> String {
    sanitize::sanitize_line(text, LONGEST, "…")
}
