//! The head of a page: the outcome in one sentence, the next commands, and the figures.

use ralph_core::outcome::Outcome;
use ralph_core::report::{CurrentIteration, Summary};
use ralph_core::task::Progress;

use super::chart;
use super::escaping::{escape_line, render_code, render_time};
use crate::report::suggest_next_commands;
use crate::stream::choose_plural;
use crate::time::WallClock;

/// Commands shown at once; the rest is collapsed.
const FIRST_COMMANDS: usize = 3;

/// Further commands are not shown.
const MOST_COMMANDS: usize = 12;

/// Whether a run is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunActivity {
    Active,
    /// Waits for a resume request.
    Paused,
    /// Ended, as its last event says; without an outcome it was cut off.
    Ended,
}

/// Returns the head of a page.
pub(super) fn render_heading(
    summary: &Summary,
    status: RunActivity,
    project: &str,
    clock: &WallClock,
) -> String {
    let mood = choose_mood_class(summary, status);
    let mut html = format!(
        "<div class=\"outcome {mood}\">\n<p class=\"run\">{} <span>run {}</span></p>\n<h1>{}</h1>\n",
        escape_line(project),
        escape_line(&summary.run.0),
        escape_line(&describe_outcome(summary, status))
    );
    if let Some(progress) = summary.progress {
        html.push_str(&chart::draw_progress(progress.done, progress.failed, progress.total));
    }
    html.push_str(&render_next_commands(summary, status));
    html.push_str("</div>\n");
    html.push_str(&render_figures(summary, clock));
    html
}

/// Returns the CSS class that colors the head.
fn choose_mood_class(summary: &Summary, status: RunActivity) -> &'static str {
    match (status, &summary.outcome) {
        (RunActivity::Active | RunActivity::Paused, _) => "active",
        (RunActivity::Ended, Some(Outcome::Complete)) => "good",
        (RunActivity::Ended, Some(Outcome::Interrupted) | None) => "middling",
        (RunActivity::Ended, Some(_)) => "bad",
    }
}

/// Returns the outcome in one sentence.
pub(super) fn describe_outcome(summary: &Summary, status: RunActivity) -> String {
    let tasks = summary.progress.map(describe_progress);
    let joined = |first: String| match &tasks {
        Some(tasks) => format!("{first}: {tasks}."),
        None => format!("{first}."),
    };
    match (status, &summary.outcome, &summary.ending) {
        (RunActivity::Active, ..) => joined(match &summary.current {
            Some(current) => format!("Running {}", describe_iteration(current)),
            None => "Running".to_owned(),
        }),
        (RunActivity::Paused, ..) => joined("Paused".to_owned()),
        (RunActivity::Ended, Some(Outcome::Complete), _) => joined("Complete".to_owned()),
        (RunActivity::Ended, Some(Outcome::Interrupted), _) => joined("Stopped by you".to_owned()),
        // The page lists below which tasks failed, and why.
        (RunActivity::Ended, Some(Outcome::TasksLeft { .. }), _) => {
            joined("Not complete".to_owned())
        }
        (RunActivity::Ended, _, Some(ending)) => {
            let mut letters = ending.chars();
            let first = letters.next().map(|it| it.to_uppercase().to_string());
            let ending = format!("{}{}", first.unwrap_or_default(), letters.as_str());
            match tasks {
                Some(tasks) => format!("{ending} ({tasks})."),
                None => format!("{ending}."),
            }
        }
        (RunActivity::Ended, _, None) => joined(match &summary.current {
            Some(current) => format!("Cut off in iteration {}", current.iteration),
            None => "Cut off".to_owned(),
        }),
    }
}

fn describe_progress(progress: Progress) -> String {
    let Progress { total, done, .. } = progress;
    if done == total {
        return format!("all {total} task{} done", choose_plural(total));
    }
    format!("{done} of {total} task{} done{}", choose_plural(total), progress.shortfall())
}

fn describe_iteration(current: &CurrentIteration) -> String {
    let mut text = format!("iteration {}, {}", current.iteration, current.role);
    if let Some(task) = &current.task {
        text.push_str(&format!(" {task}"));
    }
    if let (Some(attempt), Some(allowed)) = (current.attempt, current.attempts_allowed) {
        text.push_str(&format!(", attempt {attempt} of {allowed}"));
    }
    text
}

/// Returns the next commands.
fn render_next_commands(summary: &Summary, status: RunActivity) -> String {
    match status {
        RunActivity::Active => {
            "<p class=\"next\">Nothing to do: the run is active. <code>ralph status</code> shows the same in a \
             terminal.</p>\n"
                .to_owned()
        }
        RunActivity::Paused => {
            "<p class=\"next\">The run waits for you: <code>ralph go</code> resumes it.</p>\n".to_owned()
        }
        RunActivity::Ended => {
            let item = |(command, what): &(String, String)| {
                format!("<li>{} <span>{}</span></li>\n", render_code(command), escape_line(what))
            };
            let mut commands: Vec<String> = suggest_next_commands(summary).iter().map(item).collect();
            commands.truncate(MOST_COMMANDS);
            let rest = commands.split_off(commands.len().min(FIRST_COMMANDS));
            let folded = match rest.len() {
                0 => String::new(),
                count => format!(
                    "<details id=\"more-commands\"><summary>{count} more</summary>\
                     <ul class=\"next\">\n{}</ul></details>\n",
                    rest.concat()
                ),
            };
            let wait = match summary.questions.len() {
                0 => String::new(),
                1 => "<p class=\"next\"><a href=\"#needs-you\">A question waits for you.</a></p>\n".to_owned(),
                count => format!(
                    "<p class=\"next\"><a href=\"#needs-you\">{count} questions wait for you.</a></p>\n"
                ),
            };
            format!(
                "{wait}<h2 class=\"small\">What to do next</h2>\n<ul class=\"next\">\n{}</ul>\n{folded}",
                commands.concat()
            )
        }
    }
}

fn render_figures(summary: &Summary, clock: &WallClock) -> String {
    let mut figures: Vec<(&str, String)> = Vec::new();
    if let Some(progress) = summary.progress {
        figures.push(("Tasks done", format!("{} / {}", progress.done, progress.total)));
    } else if let Some(plan) = summary.plan {
        figures.push(("Plan items done", format!("{} / {}", plan.done, plan.total())));
    }
    let iterations = format!("{} / {}", summary.total.iterations, summary.maximum_iterations);
    figures.push(("Iterations", iterations));
    figures.push(("Running time", summary.total.ran.to_string()));
    if let Some(cost) = summary.total.cost {
        figures.push(("Cost", cost.to_string()));
    }
    let usage = summary.total.usage();
    if usage.tokens().0 > 0 {
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        figures.push(("Tokens in / out", format!("{input} / {}", usage.output)));
    }
    figures.push(("Commits", (summary.commits.count + summary.agent_commits).to_string()));
    figures.push(("Began", render_time(clock, summary.started)));
    figures.push(("Last event", render_time(clock, summary.last)));
    if summary.resumed > 0 {
        figures.push(("Resumed", summary.resumed.to_string()));
    }
    if let Some(backend) = summary.sandbox {
        figures.push(("Sandbox", escape_line(backend.name())));
    }
    let shown: Vec<String> = figures
        .into_iter()
        .map(|(name, figure)| format!("<div><dt>{name}</dt><dd>{figure}</dd></div>"))
        .collect();
    format!("<dl class=\"figures\">{}</dl>\n", shown.concat())
}
