//! What an agent with a fresh context knows about the rest of the work: the other tasks with
//! their state, and the last commits.

use std::fmt::Write as _;

use ralph_model::handoff::Handoff;
use ralph_model::ids::TaskId;
use ralph_model::recipe::OtherTask;
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::text;

use super::role::format_section;

/// How many commits a prompt names.
pub const NAMED_COMMITS: usize = 5;

/// The most characters of the section: about 150 tokens.
const MOST_CHARS: usize = 600;

/// How many tasks a prompt names at most: those around the current one.
const NAMED_TASKS: usize = 20;

/// A longer title of a task is cut.
const TITLE_CHARS: usize = 60;

/// A longer subject of a commit, or id of a task, is cut.
const LINE_CHARS: usize = 50;

/// A longer decision is cut.
const DECISION_CHARS: usize = 240;

/// Returns the section about the other tasks and the last commits; empty if there are none. Names
/// as many tasks as fit.
pub fn describe_surroundings(
    list: Option<&TaskList>,
    current: Option<&TaskId>,
    commits: &[String],
) -> String {
    let mut history = String::new();
    if !commits.is_empty() {
        history.push_str("Last commits, newest first:\n");
        for subject in commits.iter().take(NAMED_COMMITS) {
            let _ = writeln!(history, "- {}", text::join_to_line(subject, LINE_CHARS));
        }
    }
    let tasks = list.map(|list| &list.tasks[..]).filter(|tasks| tasks.len() > 1);
    let describe = |count: usize| {
        let tasks = tasks.map(|tasks| list_tasks(tasks, current, count)).unwrap_or_default();
        format_section("Other work", &format!("{tasks}{history}"))
    };
    let mut sizes = (1..=NAMED_TASKS).rev().map(describe);
    let fitting = sizes.find(|text| text.chars().count() <= MOST_CHARS);
    fitting.unwrap_or_else(|| describe(1))
}

/// Returns some tasks around the current one, one line each.
fn list_tasks(tasks: &[Task], current: Option<&TaskId>, count: usize) -> String {
    let here = tasks.iter().position(|task| Some(&task.id) == current).unwrap_or(0);
    let last_start = tasks.len().saturating_sub(count);
    let start = here.saturating_sub(count / 2).min(last_start);
    let end = (start + count).min(tasks.len());
    let mut text = String::from("All tasks of the list, in order:\n");
    if start > 0 {
        let _ = writeln!(text, "- {start} before these");
    }
    for task in &tasks[start..end] {
        let is_current = Some(&task.id) == current;
        let state = if is_current { "this one" } else { describe_status(task.status) };
        let id = text::join_to_line(&task.id.0, LINE_CHARS);
        let title = text::join_to_line(&task.title, TITLE_CHARS);
        let _ = writeln!(text, "- {id} {title} ({state})");
    }
    if end < tasks.len() {
        let _ = writeln!(text, "- {} more", tasks.len() - end);
    }
    text
}

fn describe_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Done => "done",
        TaskStatus::Failed => "given up",
        TaskStatus::Skipped => "skipped",
        TaskStatus::Pending | TaskStatus::InProgress => "later",
    }
}

/// How many tasks that a task depends on are named, and how many that these depend on.
const NAMED_DEPENDENCIES: usize = 10;

/// How many decisions of each of them are shown.
const SHOWN_DECISIONS: usize = 3;

/// Returns the tasks that a task depends on, with the decisions of the given handoffs about them;
/// empty if there are none. Tasks that these depend on are named only where they have decisions.
pub(crate) fn describe_dependencies(list: &TaskList, task: &Task, handoffs: &[&Handoff]) -> String {
    let mut text = String::new();
    let direct = task.depends_on.iter().take(NAMED_DEPENDENCIES);
    for other in direct.filter_map(|id| list.find_task(id)) {
        let title = text::join_to_line(&other.title, TITLE_CHARS);
        let _ = writeln!(text, "- {} {title} ({})", other.id, describe_status(other.status));
        text.push_str(&list_task_decisions(&other.id, handoffs));
    }
    let indirect = find_indirect_dependencies(list, task).into_iter();
    let indirect = indirect.map(|other| (other, list_task_decisions(&other.id, handoffs)));
    let decided = indirect.filter(|(_, decisions)| !decisions.is_empty());
    for (other, decisions) in decided.take(NAMED_DEPENDENCIES) {
        let title = text::join_to_line(&other.title, TITLE_CHARS);
        let state = describe_status(other.status);
        let _ = write!(text, "- {} {title} ({state}, indirectly)\n{decisions}", other.id);
    }
    if text.is_empty() { text } else { format!("Depends on:\n{}", text.trim_end()) }
}

/// How many tasks of other workers are named.
const NAMED_OTHERS: usize = 8;

/// Returns the tasks that other workers do at the same time, one line each; empty if there are
/// none.
pub(crate) fn describe_other_workers(others: &[OtherTask]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "Other agents work on these tasks at the same time, in copies of their own. Do not change what belongs to them:\n",
    );
    for other in others.iter().take(NAMED_OTHERS) {
        let title = text::join_to_line(&other.title, TITLE_CHARS);
        let paths = match other.touches.join(", ") {
            paths if paths.is_empty() => paths,
            paths => format!(" ({})", text::join_to_line(&paths, TITLE_CHARS)),
        };
        let _ = writeln!(text, "- {} {title}{paths}", other.task);
    }
    if others.len() > NAMED_OTHERS {
        let _ = writeln!(text, "- {} more", others.len() - NAMED_OTHERS);
    }
    text.trim_end().to_owned()
}

/// Returns the tasks that the dependencies of a task depend on, the nearest first.
fn find_indirect_dependencies<'a>(list: &'a TaskList, task: &'a Task) -> Vec<&'a Task> {
    let mut known: Vec<&TaskId> = std::iter::once(&task.id).chain(&task.depends_on).collect();
    let mut at = 1;
    while let Some(&id) = known.get(at) {
        at += 1;
        let next = list.find_task(id).map(|other| &other.depends_on[..]).unwrap_or_default();
        let new: Vec<&TaskId> = next.iter().filter(|id| !known.contains(id)).collect();
        known.extend(new);
    }
    let indirect = known.into_iter().skip(1 + task.depends_on.len());
    indirect.filter_map(|id| list.find_task(id)).collect()
}

/// Returns the decisions of the handoffs about a task, one line each.
fn list_task_decisions(id: &TaskId, handoffs: &[&Handoff]) -> String {
    let of_task = handoffs.iter().filter(|it| it.task_completed.task_id == *id);
    let decisions = of_task.flat_map(|it| &it.architectural_notes).take(SHOWN_DECISIONS);
    let line = |it: &String| format!("  - decided: {}\n", text::join_to_line(it, DECISION_CHARS));
    decisions.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_named_with_their_decisions() {
        let mut list = list(2);
        list.tasks[0].status = TaskStatus::Done;
        list.tasks[1].depends_on = vec![TaskId("T-1".into()), TaskId("gone".into())];
        let value = serde_json::json!({
            "task_completed": {"summary": "Did it."}, "architectural_notes": ["One loop"]
        });
        let id = TaskId("T-1".into());
        let handoff = crate::memory::handoff_reading::read_handoff([value], "", &id, &[]);
        let text = describe_dependencies(&list, &list.tasks[1], &[&handoff]);
        assert_eq!(text, "Depends on:\n- T-1 Part 1 (done)\n  - decided: One loop");
        assert_eq!(describe_dependencies(&list, &list.tasks[0], &[&handoff]), "");
        let mut third = Task::new("T-3", "Part 3");
        third.depends_on = vec![TaskId("T-2".into())];
        // A circle ends.
        list.tasks[0].depends_on = vec![TaskId("T-3".into())];
        list.tasks.push(third);
        expect_test::expect![[r"
            Depends on:
            - T-2 Part 2 (later)
            - T-1 Part 1 (done, indirectly)
              - decided: One loop"]]
        .assert_eq(&describe_dependencies(&list, &list.tasks[2], &[&handoff]));
    }

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

    #[test]
    fn the_section_has_at_most_150_tokens() {
        let commits = vec!["Change a great many things at once ".repeat(9); 30];
        for (count, length) in [(2, 1), (8, 4), (500, 4), (500, 400)] {
            let mut list = list(count);
            for task in &mut list.tasks {
                task.title = "A long title ".repeat(length);
                task.id.0 = format!("{}{}", task.id.0, "-x".repeat(length));
            }
            let id = list.tasks[count / 2].id.clone();
            let text = describe_surroundings(Some(&list), Some(&id), &commits);
            assert!(text.chars().count() <= MOST_CHARS, "{}: {text}", text.chars().count());
            assert!(text.contains("(this one)"), "{text}");
        }
    }
}
