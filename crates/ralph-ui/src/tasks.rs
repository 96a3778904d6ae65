//! Task lists for people: the table of all tasks, and one task in full.
//!
//! People and agents write the task file, so its text goes through `sanitize` first. Not here:
//! which file it is, and changing it.

use ralph_core::tasks::next_work::{Blockage, NextWork};
use ralph_core::tasks::side_by_side::SideBySide;
use ralph_model::ids::TaskId;
use ralph_model::review::ReviewStatus;
use ralph_model::task::{Task, TaskList, TaskStatus};

use crate::sanitize;
use crate::style::{LineMark, Paint, Style};

/// Longer than any sensible title; an endless one must not hide the list.
const LONGEST: usize = 200;

/// Returns a list as a table, followed by the next task.
pub fn format_list(list: &TaskList, next: &NextWork<'_>, style: &Style) -> String {
    let mut text = format!("{}\n", style.paint(Paint::Strong, &format_heading(list)));
    let mut tasks: Vec<&Task> = list.tasks.iter().collect();
    tasks.sort_by_key(|task| (task.order.is_none(), task.order));
    let widest = |column: &dyn Fn(&Task) -> String| {
        tasks.iter().map(|task| sanitize::count_columns(&column(task))).max().unwrap_or_default()
    };
    let columns = (
        widest(&|task| format_task_id(&task.id)),
        widest(&|task| describe_task_state(task).1.to_owned()),
    );
    if !tasks.is_empty() {
        text.push('\n');
    }
    for task in &tasks {
        text.push_str(&format_row(task, columns, style));
    }
    text.push('\n');
    text.push_str(&format_outlook(next, list, style));
    text
}

/// Returns which tasks can be done at the same time, and which wait because they change the same
/// paths; empty if there is no choice.
pub fn format_side_by_side(found: &SideBySide<'_>) -> String {
    // As many as fit on a line or two.
    const SHOWN: usize = 12;
    if found.together.len() + found.waiting.len() < 2 {
        return String::new();
    }
    let name_more = |all: usize| match all.saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> =
        found.together.iter().take(SHOWN).map(|it| format_task_id(&it.id)).collect();
    let more = name_more(found.together.len());
    let mut text = format!("Side by side: {}{more}\n", named.join(", "));
    if !found.waiting.is_empty() {
        let named = found.waiting.iter().take(SHOWN);
        let named = named.map(|(task, other)| {
            format!("{} (with {})", format_task_id(&task.id), format_task_id(&other.id))
        });
        let more = name_more(found.waiting.len());
        let named = named.collect::<Vec<_>>().join(", ");
        text.push_str(&format!("Share paths, so they wait: {named}{more}\n"));
    }
    text
}

/// Returns one task with all its details.
pub fn format_task(task: &Task, list: &TaskList, style: &Style) -> String {
    let mut text = format!(
        "{}  {}\n\n",
        style.paint(Paint::Strong, &format_task_id(&task.id)),
        sanitize::sanitize_line(&task.title, LONGEST, "…")
    );
    let mut fact = |label: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("{label:<12}{value}\n"));
        }
    };
    fact("Status", describe_task_state(task).1.to_owned());
    let attempts = match task.max_retries {
        Some(retries) => format!("{} failed, {} allowed", task.attempts, u64::from(retries) + 1),
        None if task.attempts > 0 => format!("{} failed", task.attempts),
        None => String::new(),
    };
    fact("Attempts", attempts);
    fact("Order", task.order.map(|order| order.to_string()).unwrap_or_default());
    let with_status = |id: &TaskId| {
        let status = list.find_task(id).map_or("unknown", |task| describe_task_state(task).1);
        format!("{} ({status})", format_task_id(id))
    };
    fact("Depends on", task.depends_on.iter().map(with_status).collect::<Vec<_>>().join(", "));
    fact("Skills", join_names(&task.skills));
    fact("Touches", join_names(&task.touches));
    fact("Libraries", join_names(&task.libraries));
    fact("Max turns", task.max_turns.map(|turns| turns.to_string()).unwrap_or_default());
    let reviews = match (task.review.count, task.review.status) {
        (0, ReviewStatus::None) => String::new(),
        (count, ReviewStatus::None) => count.to_string(),
        (count, status) => format!("{count}, {}", status.name().replace('_', " ")),
    };
    fact("Reviews", reviews);
    let criteria: Vec<String> =
        task.acceptance_criteria.iter().map(|criterion| format!("- {criterion}")).collect();
    for (label, paragraph) in [
        ("Description", &task.description),
        ("Acceptance criteria", &criteria.join("\n")),
        ("Review feedback", &task.review.feedback),
        ("Notes", &task.notes),
    ] {
        let paragraph = sanitize::sanitize_text(paragraph);
        if !paragraph.trim().is_empty() {
            text.push_str(&format!("\n{}\n", style.paint(Paint::Strong, label)));
            for line in paragraph.trim_end().lines() {
                text.push_str(format!("  {line}").trim_end());
                text.push('\n');
            }
        }
    }
    text
}

fn format_heading(list: &TaskList) -> String {
    let progress = list.progress();
    let project = sanitize::sanitize_line(&list.project, LONGEST, "…");
    let project = if project.is_empty() { project } else { format!("{project}: ") };
    let (done, total) = (progress.done, progress.total);
    format!("{project}{done} of {total} tasks done{}", progress.shortfall())
}

fn format_row(task: &Task, (ids, states): (usize, usize), style: &Style) -> String {
    let (mark, label, paint) = describe_task_state(task);
    let mark = style.format_mark(mark);
    let label = pad_to(label, states);
    let id = pad_to(&format_task_id(&task.id), ids);
    let start = format!("{mark} {id}  {}  ", style.paint(paint, &label));
    let mut title = sanitize::sanitize_line(&task.title, LONGEST, "…");
    let mut waits = match task.depends_on.as_slice() {
        [] => String::new(),
        ids => {
            format!(" (after {})", ids.iter().map(format_task_id).collect::<Vec<_>>().join(", "))
        }
    };
    // On a terminal a row is one line; in a pipe nothing is cut, so that it can be searched.
    let used = format!("{mark} {id}  {label}  ");
    let room = style.width.saturating_sub(sanitize::count_columns(&used));
    if style.rewrites {
        title = fit_to(&title, room);
        waits = fit_to(&waits, room.saturating_sub(sanitize::count_columns(&title)));
    }
    format!("{start}{title}{}", style.paint(Paint::Dim, &waits)).trim_end().to_owned() + "\n"
}

fn format_outlook(next: &NextWork<'_>, list: &TaskList, style: &Style) -> String {
    let work = |verb: &str, task: &Task| {
        let title = sanitize::sanitize_line(&task.title, LONGEST, "…");
        format!("Next: {} {}, {title}\n", style.paint(Paint::Act, verb), format_task_id(&task.id))
    };
    match next {
        NextWork::Fix(task) => work("fix", task),
        NextWork::Review(task) => work("review", task),
        NextWork::Implement(task) => work("implement", task),
        NextWork::AllDone if list.tasks.is_empty() => {
            "There is no task yet: `ralph plan` or `ralph tasks add` makes some.\n".into()
        }
        NextWork::AllDone => "Nothing is left to do.\n".into(),
        NextWork::Nothing { blocked } => {
            let mut text = String::from("No task can start:\n");
            for blockage in blocked {
                text.push_str(&format!("  {}\n", format_blockage(blockage)));
            }
            text
        }
    }
}

/// Returns which tasks wait for one that will not be done.
fn format_blockage(blockage: &Blockage) -> String {
    // As many as fit on a line or two.
    const SHOWN: usize = 8;
    let mut text = format!("{} {}", format_task_id(&blockage.blocker), blockage.status);
    let waiting: Vec<String> = blockage
        .waiting
        .iter()
        .take(SHOWN)
        .map(|waiting| {
            if waiting.through == blockage.blocker {
                format_task_id(&waiting.task)
            } else {
                format!(
                    "{} (through {})",
                    format_task_id(&waiting.task),
                    format_task_id(&waiting.through)
                )
            }
        })
        .collect();
    if !waiting.is_empty() {
        let verb = if blockage.waiting.len() == 1 { "waits" } else { "wait" };
        let more = match blockage.waiting.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!("; {}{more} {verb} for it", waiting.join(", ")));
    }
    text
}

/// Returns how the state of a task is shown: mark, label and color.
fn describe_task_state(task: &Task) -> (LineMark, &'static str, Paint) {
    describe_state(task.status, task.review.status)
}

/// Returns the mark, label and color for a task status and a review status.
pub(crate) fn describe_state(
    status: TaskStatus,
    review: ReviewStatus,
) -> (LineMark, &'static str, Paint) {
    match (status, review) {
        (TaskStatus::Done, _) => (LineMark::TaskDone, "done", Paint::Good),
        (TaskStatus::Failed, _) => (LineMark::TaskFailed, "failed", Paint::Bad),
        (TaskStatus::Skipped, _) => (LineMark::TaskSkipped, "skipped", Paint::Dim),
        (TaskStatus::Pending | TaskStatus::InProgress, ReviewStatus::NeedsReview) => {
            (LineMark::TaskActive, "needs review", Paint::Act)
        }
        (TaskStatus::Pending | TaskStatus::InProgress, ReviewStatus::ChangesRequested) => {
            (LineMark::TaskActive, "changes requested", Paint::Warn)
        }
        (TaskStatus::InProgress, ReviewStatus::None | ReviewStatus::Approved) => {
            (LineMark::TaskActive, "in progress", Paint::Act)
        }
        (TaskStatus::Pending, ReviewStatus::None | ReviewStatus::Approved) => {
            (LineMark::TaskPending, "pending", Paint::None)
        }
    }
}

/// Returns the sanitized id of a task.
pub(crate) fn format_task_id(id: &TaskId) -> String {
    // No sensible id is longer than this.
    sanitize::sanitize_line(&id.0, 40, "…")
}

fn join_names(names: &[String]) -> String {
    sanitize::sanitize_line(&names.join(", "), LONGEST, "…")
}

/// Returns a text padded with spaces to this many columns.
pub(crate) fn pad_to(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(sanitize::count_columns(text)))
}

fn fit_to(text: &str, room: usize) -> String {
    if sanitize::count_columns(text) <= room {
        return text.to_owned();
    }
    match room {
        0 => String::new(),
        room => format!("{}…", sanitize::cut_to_columns(text, room - 1)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_core::tasks::next_work::{RetryPolicy, choose_next_work};
    use ralph_model::review::ReviewPolicy;

    use super::*;
    use crate::style::tests::{pipe, terminal};
    use crate::style::{StreamEnvironment, StylePreferences};

    fn sample() -> TaskList {
        let task = |id: &str, status, depends_on: &[&str]| Task {
            status,
            depends_on: depends_on.iter().map(|id| TaskId((*id).into())).collect(),
            ..Task::new(id, format!("The title of {id}"))
        };
        let mut review = task("T-4", TaskStatus::InProgress, &[]);
        review.review.status = ReviewStatus::NeedsReview;
        review.order = Some(1);
        let mut hostile = task("T-5\x1b[2J", TaskStatus::Pending, &["T-4", "T-3"]);
        hostile.title = "one\r\ntwo \x1b]0;x\x07three ".repeat(9);
        TaskList {
            project: "compass".into(),
            tasks: vec![
                task("T-1", TaskStatus::Done, &[]),
                task("T-2", TaskStatus::Failed, &["T-1"]),
                task("T-3", TaskStatus::Skipped, &[]),
                review,
                hostile,
            ],
            ..TaskList::default()
        }
    }

    fn shown(list: &TaskList, around: &StreamEnvironment) -> String {
        let next = choose_next_work(list, ReviewPolicy::Fresh { cap: 5 }, RetryPolicy::Never);
        super::format_list(list, &next, &Style::choose_style(&StylePreferences::default(), around))
    }

    #[test]
    fn a_list_shows_how_far_everything_is_and_what_comes_next() {
        expect![[r#"
            compass: 1 of 5 tasks done, 1 failed, 1 skipped

            ● T-4  needs review  The title of T-4
            ✔ T-1  done          The title of T-1
            ✘ T-2  failed        The title of T-2 (after T-1)
            – T-3  skipped       The title of T-3
            ○ T-5  pending       one two three one two three one two three one two three one two three one two three one two three one two three one two three (after T-4, T-3)

            Next: review T-4, The title of T-4
        "#]].assert_eq(&shown(&sample(), &pipe()));
    }

    #[test]
    fn tasks_that_can_be_done_at_the_same_time_are_named() {
        let [a, b, c] = ["a", "b", "c"].map(|id| Task::new(id, "t"));
        let both = SideBySide { together: vec![&a, &c], waiting: vec![(&b, &a)] };
        expect![[r#"
            Side by side: a, c
            Share paths, so they wait: b (with a)
        "#]]
        .assert_eq(&format_side_by_side(&both));
        let one = SideBySide { together: vec![&a], waiting: Vec::new() };
        assert_eq!(format_side_by_side(&one), "");
    }

    #[test]
    fn a_terminal_gets_a_line_for_each_task() {
        let around = StreamEnvironment { no_color: Some("1".into()), ..terminal() };
        let text = shown(&sample(), &around);
        assert!(text.lines().all(|line| sanitize::count_columns(line) <= 100), "{text}");
        assert_eq!(text.lines().count(), 9, "{text}");
    }

    #[test]
    fn blocking_tasks_are_named() {
        let mut list = sample();
        list.tasks[3].status = TaskStatus::Failed;
        let text = shown(&list, &pipe());
        let outlook = &text[text.find("No task can").expect("there")..];
        expect![[r#"
            No task can start:
              T-2 failed
              T-3 skipped; T-5 waits for it
              T-4 failed
        "#]]
        .assert_eq(outlook);
        let empty = shown(&TaskList::default(), &pipe());
        expect![[r#"
            0 of 0 tasks done

            There is no task yet: `ralph plan` or `ralph tasks add` makes some.
        "#]]
        .assert_eq(&empty);
    }

    #[test]
    fn a_task_is_shown_in_full() {
        let mut list = sample();
        let task = &mut list.tasks[4];
        task.title = "Short".into();
        task.description = "What\nis wanted.\x1b[31m".into();
        task.acceptance_criteria = vec!["one".into(), "two".into()];
        task.max_retries = Some(2);
        task.attempts = 1;
        task.review.count = 2;
        task.review.feedback = "fix x.rs".into();
        let style = Style::choose_style(&StylePreferences::default(), &pipe());
        expect![[r#"
            T-5  Short

            Status      pending
            Attempts    1 failed, 3 allowed
            Depends on  T-4 (needs review), T-3 (skipped)
            Reviews     2

            Description
              What
              is wanted.

            Acceptance criteria
              - one
              - two

            Review feedback
              fix x.rs
        "#]]
        .assert_eq(&format_task(&list.tasks[4], &list, &style));
    }
}
