//! Task lists for people: the table of all tasks, and one task in full.
//!
//! People and agents write the task file, so its text goes through `sanitize` first. Not here:
//! which file it is, and changing it.

use ralph_core::ids::TaskId;
use ralph_core::review::ReviewStatus;
use ralph_core::task::{Blockage, Next, Task, TaskList, TaskStatus};

use crate::safe;
use crate::style::{Mark, Motion, Paint, Style};

/// Longer than any sensible title; an endless one must not hide the list.
const LONGEST: usize = 200;

/// Returns a list as a table, followed by the next task.
pub fn list(list: &TaskList, next: &Next<'_>, style: &Style) -> String {
    let mut text = format!("{}\n", style.paint(Paint::Strong, &heading(list)));
    let mut tasks: Vec<&Task> = list.tasks.iter().collect();
    tasks.sort_by_key(|task| (task.order.is_none(), task.order));
    let widest = |column: &dyn Fn(&Task) -> String| {
        tasks.iter().map(|task| safe::columns(&column(task))).max().unwrap_or_default()
    };
    let columns = (widest(&|task| name(&task.id)), widest(&|task| state_of(task).1.to_owned()));
    if !tasks.is_empty() {
        text.push('\n');
    }
    for task in &tasks {
        text.push_str(&row(task, columns, style));
    }
    text.push('\n');
    text.push_str(&outlook(next, list, style));
    text
}

/// Returns one task with all its details.
pub fn show(task: &Task, list: &TaskList, style: &Style) -> String {
    let mut text = format!(
        "{}  {}\n\n",
        style.paint(Paint::Strong, &name(&task.id)),
        safe::one_line(&task.title, LONGEST, "…")
    );
    let mut fact = |label: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("{label:<12}{value}\n"));
        }
    };
    fact("Status", state_of(task).1.to_owned());
    let attempts = match task.max_retries {
        Some(retries) => format!("{} failed, {} allowed", task.attempts, u64::from(retries) + 1),
        None if task.attempts > 0 => format!("{} failed", task.attempts),
        None => String::new(),
    };
    fact("Attempts", attempts);
    fact("Order", task.order.map(|order| order.to_string()).unwrap_or_default());
    let with_status = |id: &TaskId| {
        let status = list.task(id).map_or("unknown", |task| state_of(task).1);
        format!("{} ({status})", name(id))
    };
    fact("Depends on", task.depends_on.iter().map(with_status).collect::<Vec<_>>().join(", "));
    fact("Skills", joined(&task.skills));
    fact("Libraries", joined(&task.libraries));
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
        let paragraph = safe::harmless(paragraph);
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

fn heading(list: &TaskList) -> String {
    let progress = list.progress();
    let project = safe::one_line(&list.project, LONGEST, "…");
    let project = if project.is_empty() { project } else { format!("{project}: ") };
    let (done, total) = (progress.done, progress.total);
    format!("{project}{done} of {total} tasks done{}", progress.shortfall())
}

fn row(task: &Task, (ids, states): (usize, usize), style: &Style) -> String {
    let (mark, label, paint) = state_of(task);
    let mark = style.mark(mark);
    let label = padded(label, states);
    let id = padded(&name(&task.id), ids);
    let start = format!("{mark} {id}  {}  ", style.paint(paint, &label));
    let title = safe::one_line(&task.title, LONGEST, "…");
    let waits = match task.depends_on.as_slice() {
        [] => String::new(),
        ids => format!(" (after {})", ids.iter().map(name).collect::<Vec<_>>().join(", ")),
    };
    // On a terminal a row is one line; in a pipe nothing is cut, so that it can be searched.
    let used = format!("{mark} {id}  {label}  ");
    let room = style.width.saturating_sub(safe::columns(&used));
    let (title, waits) = match style.motion {
        Motion::Appends => (title, waits),
        Motion::Rewrites => {
            let title = fitted(&title, room);
            let waits = fitted(&waits, room.saturating_sub(safe::columns(&title)));
            (title, waits)
        }
    };
    format!("{start}{title}{}", style.paint(Paint::Dim, &waits)).trim_end().to_owned() + "\n"
}

fn outlook(next: &Next<'_>, list: &TaskList, style: &Style) -> String {
    let work = |verb: &str, task: &Task| {
        let title = safe::one_line(&task.title, LONGEST, "…");
        format!("Next: {} {}, {title}\n", style.paint(Paint::Act, verb), name(&task.id))
    };
    match next {
        Next::Fix(task) => work("fix", task),
        Next::Review(task) => work("review", task),
        Next::Implement(task) => work("implement", task),
        Next::AllDone if list.tasks.is_empty() => "There is no task yet.\n".into(),
        Next::AllDone => "Nothing is left to do.\n".into(),
        Next::Nothing { blocked } => {
            let mut text = String::from("No task can start:\n");
            for blockage in blocked {
                text.push_str(&format!("  {}\n", blocking(blockage)));
            }
            text
        }
    }
}

/// Returns which tasks wait for one that will not be done.
fn blocking(blockage: &Blockage) -> String {
    // As many as fit on a line or two.
    const SHOWN: usize = 8;
    let mut text = format!("{} {}", name(&blockage.blocker), blockage.status);
    let waiting: Vec<String> = blockage
        .waiting
        .iter()
        .take(SHOWN)
        .map(|waiting| {
            if waiting.through == blockage.blocker {
                name(&waiting.task)
            } else {
                format!("{} (through {})", name(&waiting.task), name(&waiting.through))
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
fn state_of(task: &Task) -> (Mark, &'static str, Paint) {
    state(task.status, task.review.status)
}

/// Returns the mark, label and color for a task status and a review status.
pub(crate) fn state(status: TaskStatus, review: ReviewStatus) -> (Mark, &'static str, Paint) {
    match (status, review) {
        (TaskStatus::Done, _) => (Mark::TaskDone, "done", Paint::Good),
        (TaskStatus::Failed, _) => (Mark::TaskFailed, "failed", Paint::Bad),
        (TaskStatus::Skipped, _) => (Mark::TaskSkipped, "skipped", Paint::Dim),
        (TaskStatus::Pending | TaskStatus::InProgress, ReviewStatus::NeedsReview) => {
            (Mark::TaskActive, "needs review", Paint::Act)
        }
        (TaskStatus::Pending | TaskStatus::InProgress, ReviewStatus::ChangesRequested) => {
            (Mark::TaskActive, "changes requested", Paint::Warn)
        }
        (TaskStatus::InProgress, ReviewStatus::None | ReviewStatus::Approved) => {
            (Mark::TaskActive, "in progress", Paint::Act)
        }
        (TaskStatus::Pending, ReviewStatus::None | ReviewStatus::Approved) => {
            (Mark::TaskPending, "pending", Paint::None)
        }
    }
}

/// Returns the sanitized id of a task.
pub(crate) fn name(id: &TaskId) -> String {
    // No sensible id is longer than this.
    safe::one_line(&id.0, 40, "…")
}

fn joined(names: &[String]) -> String {
    safe::one_line(&names.join(", "), LONGEST, "…")
}

/// Returns a text padded with spaces to this many columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(safe::columns(text)))
}

fn fitted(text: &str, room: usize) -> String {
    if safe::columns(text) <= room {
        return text.to_owned();
    }
    match room {
        0 => String::new(),
        room => format!("{}…", safe::fit(text, room - 1)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_core::review::ReviewPolicy;
    use ralph_core::task::Retrying;

    use super::*;
    use crate::style::tests::{pipe, terminal};
    use crate::style::{Surroundings, Wishes};

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

    fn shown(list: &TaskList, around: &Surroundings) -> String {
        let next = list.next(ReviewPolicy::Fresh { cap: 5 }, Retrying::Never);
        super::list(list, &next, &Style::choose(&Wishes::default(), around))
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
    fn a_terminal_gets_a_line_for_each_task() {
        let around = Surroundings { no_color: Some("1".into()), ..terminal() };
        let text = shown(&sample(), &around);
        assert!(text.lines().all(|line| safe::columns(line) <= 100), "{text}");
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

            There is no task yet.
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
        let style = Style::choose(&Wishes::default(), &pipe());
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
        .assert_eq(&show(&list.tasks[4], &list, &style));
    }
}
