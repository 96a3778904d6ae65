//! Skills: short texts that a task may request by name.
//!
//! A project has its own in files; a few ship with ralph, and a project's skill replaces the
//! built-in one of the same name. Not here: reading files, and how much of them a prompt
//! includes.

/// The built-in skills, by name.
pub const SHIPPED: [(&str, &str); 6] = [
    ("debugging", include_str!("../../skills/debugging.md")),
    ("error-handling", include_str!("../../skills/error-handling.md")),
    ("git-commits", include_str!("../../skills/git-commits.md")),
    ("refactoring", include_str!("../../skills/refactoring.md")),
    ("security", include_str!("../../skills/security.md")),
    ("testing", include_str!("../../skills/testing.md")),
];

/// Returns a built-in skill.
pub fn find_shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// Returns the warning about an unknown skill.
pub fn describe_missing(name: &str) -> String {
    let shipped = SHIPPED.map(|(name, _)| name);
    format!(
        "unknown skill `{name}`: the project has no such file, and it is not built in ({})",
        shipped.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use ralph_model::task::{Task, TaskList, TaskStatus};

    use crate::tasks::skill::{SHIPPED, find_shipped};
    use crate::tasks::validation::find_skill_problems;

    #[test]
    fn the_skills_that_ship_are_short_and_in_order() {
        let names = SHIPPED.map(|(name, _)| name);
        assert!(names.is_sorted());
        for (name, text) in SHIPPED {
            // Each fits into its section, which has space for 1500 tokens.
            assert!((500..2_000).contains(&text.len()), "{name}: {}", text.len());
            assert!(!text.contains("\n#"), "{name} has headings of its own");
            assert_eq!(find_shipped(name), Some(text));
        }
        assert_eq!(find_shipped("nothing"), None);
    }

    #[test]
    fn unknown_skills_of_open_tasks_are_reported() {
        let named = |id: &str, skills: &[&str]| Task {
            skills: skills.iter().map(|it| (*it).to_owned()).collect(),
            ..Task::new(id, "t")
        };
        let done = Task { status: TaskStatus::Done, ..named("c", &["gone"]) };
        let tasks = vec![named("a", &["testing", "own"]), named("b", &["own", "tsting"]), done];
        let list = TaskList { tasks, ..TaskList::default() };
        let problems = find_skill_problems(&list, |name| name == "own");
        let messages: Vec<String> =
            problems.iter().map(|it| format!("{it} ({})", it.fault.remedy())).collect();
        assert_eq!(
            messages,
            ["task `b` names an unknown skill `tsting` (did you mean `testing`?)"]
        );
    }
}
