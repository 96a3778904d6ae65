//! What an agent with a fresh context knows about the rest of the work: the other tasks with
//! their state, and the last commits.

use std::fmt::Write as _;

use ralph_model::ids::TaskId;
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::text;

use super::role::format_section;

/// How many commits a prompt names.
pub const NAMED_COMMITS: usize = 5;

/// How many tasks a prompt names: those around the current one.
const NAMED_TASKS: usize = 20;

/// A longer title or subject is cut.
const LINE_CHARS: usize = 100;

/// Returns the section about the other tasks and the last commits; empty if there are none.
pub fn describe_surroundings(
    list: Option<&TaskList>,
    current: Option<&TaskId>,
    commits: &[String],
) -> String {
    let mut text = String::new();
    if let Some(list) = list.filter(|list| list.tasks.len() > 1) {
        text.push_str("All tasks of the list, in order:\n");
        write_tasks(&mut text, &list.tasks, current);
    }
    if !commits.is_empty() {
        text.push_str("Last commits, newest first:\n");
        for subject in commits.iter().take(NAMED_COMMITS) {
            let _ = writeln!(text, "- {}", text::join_to_line(subject, LINE_CHARS));
        }
    }
    format_section("Other work", &text)
}

fn write_tasks(text: &mut String, tasks: &[Task], current: Option<&TaskId>) {
    let here = tasks.iter().position(|task| Some(&task.id) == current).unwrap_or(0);
    let last_start = tasks.len().saturating_sub(NAMED_TASKS);
    let start = here.saturating_sub(NAMED_TASKS / 2).min(last_start);
    let end = (start + NAMED_TASKS).min(tasks.len());
    if start > 0 {
        let _ = writeln!(text, "- {start} before these");
    }
    for task in &tasks[start..end] {
        let state = match task.status {
            _ if Some(&task.id) == current => "this one",
            TaskStatus::Done => "done",
            TaskStatus::Failed => "given up",
            TaskStatus::Skipped => "skipped",
            TaskStatus::Pending | TaskStatus::InProgress => "later",
        };
        let title = text::join_to_line(&task.title, LINE_CHARS);
        let _ = writeln!(text, "- {} {title} ({state})", task.id);
    }
    if end < tasks.len() {
        let _ = writeln!(text, "- {} more", tasks.len() - end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> TaskList {
        let task = |nth: usize| Task::new(format!("T-{nth}"), format!("Part {nth}"));
        TaskList { tasks: (1..=count).map(task).collect(), ..TaskList::default() }
    }

    #[test]
    fn tasks_and_commits_are_named() {
        let mut list = list(3);
        list.tasks[0].status = TaskStatus::Done;
        let id = TaskId("T-2".into());
        let commits = ["Add a parser".to_owned()];
        expect_test::expect![[r"
            ## Other work
            All tasks of the list, in order:
            - T-1 Part 1 (done)
            - T-2 Part 2 (this one)
            - T-3 Part 3 (later)
            Last commits, newest first:
            - Add a parser"]]
        .assert_eq(&describe_surroundings(Some(&list), Some(&id), &commits));
        assert_eq!(describe_surroundings(None, None, &[]), "");
    }

    #[test]
    fn a_long_list_is_bounded_around_the_current_task() {
        let (list, id) = (list(500), TaskId("T-250".into()));
        let text = describe_surroundings(Some(&list), Some(&id), &[]);
        assert_eq!(text.lines().count(), 2 + 1 + NAMED_TASKS + 1);
        assert!(text.contains("- 239 before these\n"), "{text}");
        assert!(text.contains("- T-250 Part 250 (this one)\n"), "{text}");
        assert!(text.ends_with("- 241 more"), "{text}");
    }
}
