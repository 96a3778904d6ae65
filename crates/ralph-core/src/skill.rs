//! Skills: short texts that a task may ask for by name.
//!
//! A project has its own in files; a few for every project ship with ralph, and one of the same
//! name in the project takes the place of ralph's. Not here: reading files, and how much of them
//! joins a prompt.

/// The skills that ship with ralph, by name.
pub const SHIPPED: [(&str, &str); 6] = [
    ("debugging", include_str!("../skills/debugging.md")),
    ("error-handling", include_str!("../skills/error-handling.md")),
    ("git-commits", include_str!("../skills/git-commits.md")),
    ("refactoring", include_str!("../skills/refactoring.md")),
    ("security", include_str!("../skills/security.md")),
    ("testing", include_str!("../skills/testing.md")),
];

/// Returns a skill that ships with ralph.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// Returns what to say of a skill that nobody has.
pub fn missing(name: &str) -> String {
    let shipped = SHIPPED.map(|(name, _)| name);
    format!(
        "there is no skill `{name}`: neither a file of the project's, nor one of ralph's own ({})",
        shipped.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Task, TaskList, TaskStatus};

    #[test]
    fn the_skills_that_ship_are_short_and_in_order() {
        let names = SHIPPED.map(|(name, _)| name);
        assert!(names.is_sorted());
        for (name, text) in SHIPPED {
            // All of one fits into its section, which has room for 1500 tokens.
            assert!((500..2_000).contains(&text.len()), "{name}: {}", text.len());
            assert!(!text.contains("\n#"), "{name} has headings of its own");
            assert_eq!(shipped(name), Some(text));
        }
        assert_eq!(shipped("nothing"), None);
    }

    #[test]
    fn open_tasks_are_told_of_skills_that_nobody_has() {
        let named = |id: &str, skills: &[&str]| Task {
            skills: skills.iter().map(|it| (*it).to_owned()).collect(),
            ..Task::new(id, "t")
        };
        let done = Task { status: TaskStatus::Done, ..named("c", &["gone"]) };
        let tasks = vec![named("a", &["testing", "own"]), named("b", &["own", "tsting"]), done];
        let list = TaskList { tasks, ..TaskList::default() };
        let problems = list.skill_problems(|name| name == "own");
        let told: Vec<String> =
            problems.iter().map(|it| format!("{it} ({})", it.fault.remedy())).collect();
        assert_eq!(told, ["task `b` names an unknown skill `tsting` (did you mean `testing`?)"]);
    }
}
