//! The head of a page: the outcome in one sentence, the next commands, and the figures.

use maud::{Markup, html};
use ralph_core::reporting::current_action::CurrentAction;
use ralph_core::reporting::report::{CurrentIteration, Summary};
use ralph_model::outcome::Outcome;
use ralph_model::task::Progress;
use ralph_model::text::choose_plural;

use super::chart;
use super::foreign_text::{clean_block, clean_line, render_code, render_time};
use crate::action_line::{format_action, format_figures};
use crate::report::suggest_next_commands;
use crate::time::WallClock;

/// Commands shown at once; the rest is collapsed.
const FIRST_COMMANDS: usize = 3;

/// Further commands are not shown.
const MOST_COMMANDS: usize = 12;

/// More than the tail of a stream has.
const MOST_STREAM_CHARS: usize = 20_000;

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
) -> Markup {
    html! {
        div class={ "outcome " (choose_mood_class(summary, status)) } {
            p.run { (clean_line(project)) " " span { "run " (clean_line(&summary.run.0)) } }
            h1 { (clean_line(&describe_outcome(summary, status))) }
            @if let Some(progress) = summary.progress {
                (chart::draw_progress(progress.done, progress.failed, progress.total))
            }
            (render_next_commands(summary, status))
        }
        (render_figures(summary, clock))
    }
}

/// Returns what the run is doing right now.
pub(super) fn render_action(action: Option<&CurrentAction>, clock: &WallClock) -> Markup {
    html! {
        @if let Some(current) = action {
            @let ran = (clock.now)().elapsed_since(current.since);
            p.now {
                "Now: " (clean_line(&format_action(current))) " "
                span { "(" (format_figures(current, ran)) ")" }
            }
        }
    }
}

/// Returns the last lines of the agent's stream. Scripts keep its end in view.
pub(super) fn render_stream(stream: &str) -> Markup {
    html! {
        @if !stream.is_empty() {
            details #agent-stream open[true] {
                summary { "What the agent prints" }
                div.tail { pre tabindex="0" { (clean_block(stream, MOST_STREAM_CHARS)) } }
            }
        }
    }
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
    let Progress { total, done, pending, in_progress, .. } = progress;
    if done == total && pending + in_progress == 0 {
        let rest = progress.shortfall();
        return format!("all {total} task{} done{rest}", choose_plural(total));
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
fn render_next_commands(summary: &Summary, status: RunActivity) -> Markup {
    match status {
        RunActivity::Active => html! {
            p.next {
                "Running; no action needed. " code { "ralph status" }
                " shows the same in a terminal."
            }
        },
        RunActivity::Paused => html! {
            p.next { "The run waits for you: " code { "ralph resume" } " resumes it." }
        },
        RunActivity::Ended => {
            let mut commands = suggest_next_commands(summary);
            commands.truncate(MOST_COMMANDS);
            let rest = commands.split_off(commands.len().min(FIRST_COMMANDS));
            let list = |commands: &[(String, String)]| {
                html! {
                    ul.next {
                        @for (command, what) in commands {
                            li { (render_code(command)) " " span { (clean_line(what)) } }
                        }
                    }
                }
            };
            let wait = match summary.questions.len() {
                0 => None,
                1 => Some("A question waits for you.".to_owned()),
                count => Some(format!("{count} questions wait for you.")),
            };
            html! {
                @if let Some(wait) = wait {
                    p.next { a href="#needs-you" { (wait) } }
                }
                h2.small { "What to do next" }
                (list(&commands))
                @if !rest.is_empty() {
                    details #more-commands { summary { (rest.len()) " more" } (list(&rest)) }
                }
            }
        }
    }
}

fn render_figures(summary: &Summary, clock: &WallClock) -> Markup {
    let mut figures: Vec<(&str, Markup)> = Vec::new();
    if let Some(progress) = summary.progress {
        figures.push(("Tasks done", html! { (progress.done) " / " (progress.total) }));
    } else if let Some(plan) = summary.plan {
        figures.push(("Plan items done", html! { (plan.done) " / " (plan.total()) }));
        if plan.person > 0 {
            figures.push(("Items that need a person", html! { (plan.person) }));
        }
    }
    let iterations = html! { (summary.total.iterations) " / " (summary.maximum_iterations) };
    figures.push(("Iterations", iterations));
    figures.push(("Running time", html! { (summary.total.ran) }));
    if let Some(cost) = summary.total.cost {
        figures.push(("Cost", html! { (cost) }));
    }
    let usage = summary.total.usage();
    if usage.tokens().0 > 0 {
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        figures.push(("Tokens in / out", html! { (input) " / " (usage.output) }));
    }
    if let Some(turns) = usage.turns {
        figures.push(("Turns of agents", html! { (turns) }));
    }
    figures.push(("Commits", html! { (summary.commits.count + summary.agent_commits) }));
    figures.push(("Began", render_time(clock, summary.started)));
    figures.push(("Last event", render_time(clock, summary.last)));
    if summary.resumed > 0 {
        figures.push(("Resumed", html! { (summary.resumed) }));
    }
    if let Some(backend) = summary.sandbox {
        figures.push(("Sandbox", html! { (clean_line(backend.name())) }));
    }
    html! {
        dl.figures {
            @for (name, figure) in figures {
                div { dt { (name) } dd { (figure) } }
            }
        }
    }
}
