//! The summary page that is archived with a task list.
//!
//! Made from the list alone, so it does not depend on who worked on it. Not here: the cost of
//! single runs, which is in their own reports.

use ralph_core::reporting::report::{AutoApprovedTask, ReviewStats};
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::text::choose_plural;

use super::markdown::{add_table, escape_markdown};
use super::{render_progress, sections};

/// An archived task list.
#[derive(Debug, Clone, Copy)]
pub struct ArchivedList<'a> {
    pub name: &'a str,
    /// The day of archiving.
    pub on: &'a str,
    /// The day the work began, if known.
    pub begun: Option<&'a str>,
    /// The day of the last change, if known.
    pub last: Option<&'a str>,
    /// `None` if the list is missing or invalid.
    pub list: Option<&'a TaskList>,
}

/// Returns the page as Markdown.
pub fn render_archive(archived: &ArchivedList<'_>) -> String {
    let project = archived.list.map_or("", |list| list.project.trim());
    let title = if project.is_empty() { archived.name } else { project };
    let mut page = format!("# {}\n\n- Archived: {}\n", escape_markdown(title), archived.on);
    page.push_str(&match (archived.begun, archived.last) {
        (Some(begun), Some(last)) => {
            format!("- Worked on: {} to {}\n", escape_markdown(begun), escape_markdown(last))
        }
        (Some(begun), None) => format!("- Begun: {}\n", escape_markdown(begun)),
        (None, Some(last)) => format!("- Last change: {}\n", escape_markdown(last)),
        (None, None) => String::new(),
    });
    let Some(list) = archived.list else {
        page.push_str("\nThe archive has no readable task list.\n");
        return page;
    };
    if let Some(branch) = list.branch.as_deref().filter(|branch| !branch.trim().is_empty()) {
        page.push_str(&format!("- Branch: {}\n", escape_markdown(branch)));
    }
    if !list.description.trim().is_empty() {
        page.push_str(&format!("\n{}\n", escape_markdown(&list.description)));
    }
    page.push_str(&render_progress(list.progress()));
    add_failed_list(&mut page, list);
    sections::add_auto_approved(&mut page, &AutoApprovedTask::from_list(list));
    sections::add_reviews(&mut page, ReviewStats::from_list(list).as_ref());
    add_task_table(&mut page, list);
    page
}

fn add_failed_list(page: &mut String, list: &TaskList) {
    let failed: Vec<&Task> =
        list.tasks.iter().filter(|task| task.status == TaskStatus::Failed).collect();
    if failed.is_empty() {
        return;
    }
    page.push_str("\n## Failed tasks\n\n");
    for task in failed {
        let reason = match task.notes.trim() {
            "" => "no reason recorded",
            notes => notes,
        };
        let s = choose_plural(task.attempts as usize);
        page.push_str(&format!(
            "- **{}** ({}), after {} failed attempt{s}: {}\n",
            escape_markdown(&task.id.0),
            escape_markdown(&task.title),
            task.attempts,
            escape_markdown(reason)
        ));
    }
}

fn add_task_table(page: &mut String, list: &TaskList) {
    if list.tasks.is_empty() {
        return;
    }
    page.push_str("\n## Tasks\n\n");
    let row = |task: &Task| {
        vec![
            escape_markdown(&task.id.0),
            escape_markdown(&task.title),
            task.status.name().replace('_', " "),
            task.review.count.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = list.tasks.iter().map(row).collect();
    add_table(page, "Task|Title|Status|Reviews", &rows);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_model::review::{ReviewState, ReviewStatus};

    use super::*;

    #[test]
    fn the_page_summarizes_a_list() {
        let done = |id: &str, count, feedback: &str| Task {
            status: TaskStatus::Done,
            review: ReviewState {
                status: ReviewStatus::Approved,
                count,
                feedback: feedback.into(),
            },
            ..Task::new(id, "Does *it*")
        };
        let failed = Task {
            status: TaskStatus::Failed,
            attempts: 5,
            notes: "failed: none of 5 attempts passed; its work is on wip/x".into(),
            ..Task::new("US-3", "Never works")
        };
        let list = TaskList {
            project: "Notes".into(),
            branch: Some("ralph/notes".into()),
            tasks: vec![
                done("US-1", 1, ""),
                done("US-2", 5, "[AUTO-APPROVED AT CAP] still slow"),
                failed,
                Task::new("US-4", "Was not begun"),
            ],
            ..TaskList::default()
        };
        let archived = ArchivedList {
            name: "2026-11-15-notes",
            on: "2026-11-15",
            begun: Some("2026-11-01"),
            last: Some("2026-11-14"),
            list: Some(&list),
        };
        expect![[r#"
            # Notes

            - Archived: 2026-11-15
            - Worked on: 2026-11-01 to 2026-11-14
            - Branch: ralph/notes

            ## Completed: 2/4 tasks

            1 failed, 1 left.

            ## Failed tasks

            - **US-3** (Never works), after 5 failed attempts: failed: none of 5 attempts passed; its work is on wip/x

            ## Approved at the cap (check them yourself)

            - **US-2** (Does \*it\*), after 5 reviews: [AUTO-APPROVED AT CAP] still slow

            ## Reviews

            | Reviews | Tasks |
            | --- | --- |
            | 1 | 1 |
            | 5 | 1 |

            Many tasks took three reviews or more: they catch real faults.
            1 task hit the cap of reviews: check the work yourself.

            ## Tasks

            | Task | Title | Status | Reviews |
            | --- | --- | --- | --- |
            | US-1 | Does \*it\* | done | 1 |
            | US-2 | Does \*it\* | done | 5 |
            | US-3 | Never works | failed | 0 |
            | US-4 | Was not begun | pending | 0 |
        "#]].assert_eq(&render_archive(&archived));
        let nothing = ArchivedList { list: None, begun: None, ..archived };
        expect![[r#"
            # 2026-11-15-notes

            - Archived: 2026-11-15
            - Last change: 2026-11-14

            The archive has no readable task list.
        "#]]
        .assert_eq(&render_archive(&nothing));
    }
}
