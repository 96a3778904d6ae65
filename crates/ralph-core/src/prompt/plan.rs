//! The prompt that makes a task list out of a requirements document.
//!
//! The text is a file of its own, and a project may have another in its place. Not here: checking
//! what comes of it, which is a gate's.

use std::collections::BTreeMap;

use super::keeping::Commits;
use crate::template;

/// The text where a project has none of its own.
pub const TEMPLATE: &str = include_str!("../../prompts/plan.md");

/// What is put into the text.
#[derive(Debug, Clone, Copy)]
pub struct PlanParts<'a> {
    /// The requirements document, from the project directory.
    pub prd: &'a str,
    /// The task file, from the project directory.
    pub file: &'a str,
    /// Commands that check the project, as far as they were found.
    pub commands: &'a [String],
    /// Who commits.
    pub commits: Commits,
    /// Variables of the user's.
    pub vars: &'a BTreeMap<String, String>,
}

/// Returns the prompt: the text with what it leaves open.
pub fn plan(template: &str, parts: &PlanParts<'_>) -> String {
    let committing = match parts.commits {
        Commits::Ralph => "Do not commit.".to_owned(),
        Commits::Agent => format!("When you are done, commit `{}` alone.", parts.file),
    };
    let commands: Vec<String> =
        parts.commands.iter().map(|command| format!("`{command}`")).collect();
    let found = match commands.as_slice() {
        [] => String::new(),
        commands => format!(" These were found: {}.", commands.join(", ")),
    };
    let value = |name: &str| match name {
        "PRD_FILE" => Some(parts.prd),
        "TASKS_FILE" => Some(parts.file),
        "COMMITTING" => Some(committing.as_str()),
        "FOUND" => Some(found.as_str()),
        name => parts.vars.get(name).map(String::as_str),
    };
    template::expand(template, value).text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_open() {
        for (commits, commands) in
            [(Commits::Ralph, vec![]), (Commits::Agent, vec!["make test".to_owned()])]
        {
            let parts = PlanParts {
                prd: "ralph/prd.md",
                file: "ralph/tasks.json",
                commands: &commands,
                commits,
                vars: &BTreeMap::new(),
            };
            let prompt = plan(TEMPLATE, &parts);
            assert!(!prompt.contains("${"), "{prompt}");
            assert!(prompt.contains("Write the list to `ralph/tasks.json`."), "{prompt}");
            assert_eq!(prompt.contains("`make test`"), !commands.is_empty());
        }
    }
}
