//! The head of a page: the outcome in one sentence, the next commands, and the figures.

use ralph_core::outcome::Outcome;
use ralph_core::report::{OpenIteration, Summary};
use ralph_core::task::Progress;

use super::chart;
use super::words::{code, line, moment};
use crate::report::next_commands;
use crate::stream::plural;
use crate::time::WallClock;

/// Commands shown at once; the rest is collapsed.
const FIRST_COMMANDS: usize = 3;

/// Further commands are not shown.
const MOST_COMMANDS: usize = 12;

/// Whether a run is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Active,
    /// Waits for a resume request.
    Paused,
    /// Ended, as its last event says; without an outcome it was cut off.
    Over,
}

/// Returns the head of a page.
pub(super) fn heading(
    summary: &Summary,
    status: Standing,
    project: &str,
    clock: &WallClock,
) -> String {
    let mood = mood(summary, status);
    let mut html = format!(
        "<div class=\"outcome {mood}\">\n<p class=\"run\">{} <span>run {}</span></p>\n<h1>{}</h1>\n",
        line(project),
        line(&summary.run.0),
        line(&sentence(summary, status))
    );
    if let Some(progress) = summary.progress {
        html.push_str(&chart::progress(progress.done, progress.failed, progress.total));
    }
    html.push_str(&next(summary, status));
    html.push_str("</div>\n");
    html.push_str(&figures(summary, clock));
    html
}

/// Returns the CSS class that colors the head.
fn mood(summary: &Summary, status: Standing) -> &'static str {
    match (status, &summary.outcome) {
        (Standing::Active | Standing::Paused, _) => "active",
        (Standing::Over, Some(Outcome::Complete)) => "good",
        (Standing::Over, Some(Outcome::Interrupted) | None) => "middling",
        (Standing::Over, Some(_)) => "bad",
    }
}

/// Returns the outcome in one sentence.
pub(super) fn sentence(summary: &Summary, status: Standing) -> String {
    let tasks = summary.progress.map(how_far);
    let joined = |first: String| match &tasks {
        Some(tasks) => format!("{first}: {tasks}."),
        None => format!("{first}."),
    };
    match (status, &summary.outcome, &summary.ending) {
        (Standing::Active, ..) => joined(match &summary.current {
            Some(current) => format!("Running {}", doing(current)),
            None => "Running".to_owned(),
        }),
        (Standing::Paused, ..) => joined("Paused".to_owned()),
        (Standing::Over, Some(Outcome::Complete), _) => joined("Complete".to_owned()),
        (Standing::Over, Some(Outcome::Interrupted), _) => joined("Stopped by you".to_owned()),
        // The page lists below which tasks failed, and why.
        (Standing::Over, Some(Outcome::TasksLeft { .. }), _) => joined("Not complete".to_owned()),
        (Standing::Over, _, Some(ending)) => {
            let mut letters = ending.chars();
            let first = letters.next().map(|it| it.to_uppercase().to_string());
            let ending = format!("{}{}", first.unwrap_or_default(), letters.as_str());
            match tasks {
                Some(tasks) => format!("{ending} ({tasks})."),
                None => format!("{ending}."),
            }
        }
        (Standing::Over, _, None) => joined(match &summary.current {
            Some(current) => format!("Cut off in iteration {}", current.iteration),
            None => "Cut off".to_owned(),
        }),
    }
}

fn how_far(progress: Progress) -> String {
    let Progress { total, done, .. } = progress;
    if done == total {
        return format!("all {total} task{} done", plural(total));
    }
    format!("{done} of {total} task{} done{}", plural(total), progress.shortfall())
}

fn doing(current: &OpenIteration) -> String {
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
fn next(summary: &Summary, status: Standing) -> String {
    match status {
        Standing::Active => {
            "<p class=\"next\">Nothing to do: the run is active. <code>ralph status</code> shows the same in a \
             terminal.</p>\n"
                .to_owned()
        }
        Standing::Paused => {
            "<p class=\"next\">The run waits for you: <code>ralph go</code> resumes it.</p>\n".to_owned()
        }
        Standing::Over => {
            let item = |(command, what): &(String, String)| {
                format!("<li>{} <span>{}</span></li>\n", code(command), line(what))
            };
            let mut commands: Vec<String> = next_commands(summary).iter().map(item).collect();
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

fn figures(summary: &Summary, clock: &WallClock) -> String {
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
        let input = usage.input.plus(usage.cache_read).plus(usage.cache_write);
        figures.push(("Tokens in / out", format!("{input} / {}", usage.output)));
    }
    figures.push(("Commits", (summary.commits.count + summary.agent_commits).to_string()));
    figures.push(("Began", moment(clock, summary.started)));
    figures.push(("Last event", moment(clock, summary.last)));
    if summary.resumed > 0 {
        figures.push(("Resumed", summary.resumed.to_string()));
    }
    if let Some(backend) = summary.sandbox {
        figures.push(("Sandbox", line(backend.name())));
    }
    let shown: Vec<String> = figures
        .into_iter()
        .map(|(name, figure)| format!("<div><dt>{name}</dt><dd>{figure}</dd></div>"))
        .collect();
    format!("<dl class=\"figures\">{}</dl>\n", shown.concat())
}
