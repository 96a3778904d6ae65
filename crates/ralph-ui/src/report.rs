//! The report of a run as a Markdown page: first what needs a person, then what was done and what
//! it cost, and the next commands.
//!
//! Agents and tools write the titles, errors and questions, so each becomes one sanitized line
//! with Markdown escaped. Not here: counting.

pub mod archive;
mod markdown;
mod sections;
mod terminal;
mod workers;

use markdown::{escape_markdown, format_code};
use ralph_core::reporting::report::{StuckSummary, Summary};
use ralph_model::outcome::Outcome;
use ralph_model::task::Progress;
use ralph_model::text::choose_plural;
use ralph_model::units::Timestamp;

use crate::next_steps::{self, FailedWork, NextStepFacts};
pub use terminal::render_for_terminal;

pub(crate) use sections::{describe_no_changes, describe_reviews, format_severity};
pub(crate) use workers::{describe_figures, list_conflict_paths, list_conflicts, list_slots};

/// Returns the report of a run as Markdown.
pub fn render_report(summary: &Summary) -> String {
    let mut page = String::from("# Execution summary\n\n");
    page.push_str(&render_heading(summary));
    add_questions(&mut page, summary);
    page.push_str(&render_completed(summary));
    add_failed_tasks(&mut page, summary);
    sections::add_auto_approved(&mut page, &summary.auto_approved);
    sections::add_diverging(&mut page, summary);
    sections::add_left_open(&mut page, &summary.left_open);
    sections::add_reviews(&mut page, summary.reviews.as_ref());
    sections::add_requested_changes(&mut page, summary);
    sections::add_tasks(&mut page, summary);
    workers::add_workers(&mut page, summary);
    sections::add_roles(&mut page, summary);
    sections::add_gates(&mut page, summary);
    sections::add_events(&mut page, summary);
    sections::add_commits(&mut page, summary);
    sections::add_changed_files(&mut page, summary);
    sections::add_autorun_files(&mut page, &summary.autorun_changes);
    sections::add_notes(&mut page, summary);
    add_next_commands(&mut page, summary);
    page
}

fn render_heading(summary: &Summary) -> String {
    let ending = match &summary.ending {
        Some(ending) => escape_markdown(ending),
        None => "not ended: it is running, or it was cut off".to_owned(),
    };
    let prompt = summary.prompt.as_ref();
    let prompt = prompt.map(|it| format!("- Prompt: {}\n", escape_markdown(it)));
    let mut text = format!(
        "- Run: {}\n{}- Started: {}\n- Last event: {}\n- Ending: {ending}\n",
        escape_markdown(&summary.run.0),
        prompt.unwrap_or_default(),
        summary.started.to_utc(),
        summary.last.to_utc()
    );
    if summary.resumed > 0 {
        text.push_str(&format!("- Resumed: {}\n", format_times(summary.resumed)));
    }
    text
}

fn add_questions(page: &mut String, summary: &Summary) {
    if summary.questions.is_empty() {
        return;
    }
    page.push_str("\n## Questions (they wait for you)\n\n");
    for question in &summary.questions {
        let (task, title) = (escape_markdown(&question.task.0), escape_markdown(&question.title));
        page.push_str(&format!("- **{task}** ({title}): {}\n", escape_markdown(&question.needs)));
    }
}

fn render_completed(summary: &Summary) -> String {
    let Some(progress) = summary.progress else {
        let is_complete = matches!(summary.outcome, Some(Outcome::Complete));
        let word = if is_complete { "yes" } else { "no" };
        let plan = summary.plan.map(|plan| {
            let (done, total, s) = (plan.done, plan.total(), choose_plural(plan.total() as usize));
            let person = plan.describe_person_items().map(|it| format!(" {it}."));
            let person = person.unwrap_or_default();
            format!("\n{done} of {total} item{s} of the plan done.{person}\n")
        });
        return format!("\n## Completed: {word}\n{}", plan.unwrap_or_default());
    };
    let mut text = render_progress(progress);
    for waits in &summary.waiting {
        text.push_str(&format!(
            "\n- {} waits for {}",
            escape_markdown(&waits.task.0),
            escape_markdown(&waits.on.0)
        ));
    }
    if !summary.waiting.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns the section on the progress of a list.
fn render_progress(progress: Progress) -> String {
    let Progress { total, done, failed, skipped, pending, in_progress, removed, added } = progress;
    let counts = [
        (failed, "failed"),
        (skipped, "skipped"),
        (removed, "removed"),
        (added, "added"),
        (pending + in_progress, "left"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let others: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let mut text = format!("\n## Completed: {done}/{total} tasks\n");
    if !others.is_empty() {
        text.push_str(&format!("\n{}.\n", others.join(", ")));
    }
    text
}

fn add_failed_tasks(page: &mut String, summary: &Summary) {
    if summary.failed.is_empty() {
        return;
    }
    page.push_str("\n## Failed tasks (they need you)\n");
    for task in &summary.failed {
        page.push_str(&format!(
            "\n### {}: {}\n\n",
            escape_markdown(&task.id.0),
            escape_markdown(&task.title)
        ));
        let mut fact = |label: &str, value: String| {
            if !value.is_empty() {
                page.push_str(&format!("- {label}: {value}\n"));
            }
        };
        fact("Attempts", format!("{}/{}", task.attempts, task.attempts_allowed));
        fact("Last gate", escape_markdown(task.last_gate.as_deref().unwrap_or_default()));
        fact("Branch", task.branch.as_deref().map(format_code).unwrap_or_default());
        let is_question = summary.questions.iter().any(|question| question.task == task.id);
        let error = task.error.as_deref().filter(|_| !is_question);
        fact("Error", escape_markdown(error.unwrap_or_default()));
        fact("Failing", escape_markdown(&task.failing.join(", ")));
        fact("Reason", escape_markdown(&task.reason));
        fact("Stuck", task.stuck.map(format_stuck).unwrap_or_default());
        fact("Quality warnings", task.quality_warnings.to_string());
    }
}

/// Returns `Yes (same error 3x, 2 strategy shifts failed)`.
fn format_stuck(stuck: StuckSummary) -> String {
    if !stuck.is_stuck {
        return "No".to_owned();
    }
    let shifts = match stuck.strategy_shifts {
        0 => String::new(),
        1 => ", strategy shift failed".to_owned(),
        shifts => format!(", {shifts} strategy shifts failed"),
    };
    format!("Yes (same error {}x{shifts})", stuck.alike)
}

/// Adds the next commands.
fn add_next_commands(page: &mut String, summary: &Summary) {
    page.push_str("\n## Next\n\n```sh\n");
    for (command, what) in suggest_next_commands(summary) {
        page.push_str(&format!("{command}  # {what}\n"));
    }
    page.push_str("```\n");
}

/// Returns the next commands, each with its purpose.
pub(crate) fn suggest_next_commands(summary: &Summary) -> Vec<(String, String)> {
    let facts = NextStepFacts {
        outcome: summary.outcome.as_ref(),
        failed: summary
            .failed
            .iter()
            .map(|task| FailedWork {
                task: &task.id,
                branch: task.branch.as_deref(),
                onto: task.onto.as_deref(),
            })
            .collect(),
        approved_at_cap: summary.auto_approved.iter().map(|task| &task.id).collect(),
        commits: summary.commits.count,
        agent_commits: summary.agent_commits,
        started: summary.started,
        has_tasks: summary.progress.is_some(),
        is_plan: false,
        unread_notes: {
            let workers = summary.parallel_figures.iter().flat_map(|it| &it.tasks);
            let notes = summary.unread_notes.iter().map(String::as_str);
            next_steps::drop_task_names(notes, &workers.map(|it| &it.task))
        },
        run: Some(&summary.run),
    };
    next_steps::suggest_commands(&facts, Timestamp::to_utc)
}

fn format_times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

#[cfg(test)]
pub(crate) mod tests;
