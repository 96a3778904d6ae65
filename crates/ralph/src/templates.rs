//! Templates of the workflows' documents.
//!
//! The texts are files of their own, in `templates/`. Not here: writing them anywhere.

use serde_json::json;

use crate::cli_error::CliError;

/// The requirements document.
pub(crate) const PRD_TEMPLATE: &str = include_str!("../templates/prd.md");
/// The notes of the iterations.
pub(crate) const PROGRESS: &str = include_str!("../templates/progress.txt");
/// The project's own instructions for agents.
pub(crate) const PROMPT: &str = include_str!("../templates/prompt.md");
/// A specification.
pub(crate) const SPEC: &str = include_str!("../templates/spec.md");
const TASKS: &str = include_str!("../templates/tasks.json");

/// Most characters of a feature name.
const MAX_NAME_CHARS: usize = 100;

/// Slugs are parts of branch and directory names; this leaves room for the rest of the name.
const MAX_SLUG_BYTES: usize = 60;

/// The name of a feature, as the user wrote it and as a part of branch names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feature {
    /// As the user wrote it.
    pub(crate) name: String,
    /// Letters and digits with `-` between them.
    pub(crate) slug: String,
}

impl Feature {
    /// Parses a name. The error names the flag that gave it.
    pub(crate) fn parse(name: &str, flag: &str) -> Result<Self, CliError> {
        let name = name.trim();
        let slug = slugify(name);
        let wrong = if name.is_empty() {
            "is empty"
        } else if name.chars().count() > MAX_NAME_CHARS {
            "is longer than 100 characters"
        } else if name.chars().any(char::is_control) {
            "is not one line of plain text"
        } else if slug.is_empty() {
            "has no letter and no digit"
        } else {
            return Ok(Self { name: name.to_owned(), slug });
        };
        Err(CliError::for_input(format!("the text given with {flag} {wrong}"))
            .with_hint(format!("for example {flag} \"Search in notes\"")))
    }

    /// Returns the branch for the work.
    pub(crate) fn branch(&self) -> String {
        format!("ralph/{}", self.slug)
    }
}

/// Returns a text as part of a branch or a directory: letters and digits, the rest as `-`.
pub(crate) fn slugify(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars().flat_map(char::to_lowercase) {
        if character.is_alphanumeric() {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= MAX_SLUG_BYTES {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Returns a fresh requirements document.
pub(crate) fn render_prd(name: &str) -> String {
    fill_placeholders(PRD_TEMPLATE, &[("NAME", name)])
}

/// Returns a fresh specification.
pub(crate) fn render_spec(name: &str) -> String {
    fill_placeholders(SPEC, &[("NAME", name)])
}

/// Returns a fresh task file.
pub(crate) fn render_tasks(project: &str, branch: Option<&str>, commands: &[String]) -> String {
    let commands: Vec<String> = commands.iter().map(|command| json!(command).to_string()).collect();
    let values = [
        ("PROJECT", json!(project).to_string()),
        ("BRANCH", json!(branch).to_string()),
        ("VERIFY_COMMANDS", format!("[{}]", commands.join(", "))),
    ];
    fill_placeholders(TASKS, &values.each_ref().map(|(name, value)| (*name, value.as_str())))
}

/// Returns fresh progress notes with a start date.
pub(crate) fn render_progress(name: &str, date: &str) -> String {
    fill_placeholders(PROGRESS, &[("DATE", date), ("NAME", name)])
}

/// Fills in the placeholders of a template. Values are inserted verbatim.
fn fill_placeholders(template: &str, values: &[(&str, &str)]) -> String {
    let mut pieces = template.split("${");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once('}').unwrap_or((piece, ""));
        let value = values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        text.extend([value.unwrap_or_default(), rest]);
    }
    text
}

/// Returns whether a document holds nothing but its template. Headings, comments and the
/// template's own text do not count.
pub(crate) fn is_bare(text: &str, template: &str) -> bool {
    let template = without_comments(template);
    let known: Vec<&str> = template.lines().map(str::trim).collect();
    let is_filled_in = |line: &str| {
        let open = known.iter().filter_map(|line| line.split_once("${"));
        open.filter(|(start, _)| !start.is_empty()).any(|(start, _)| line.starts_with(start.trim()))
    };
    let text = without_comments(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.all(|line| line.starts_with('#') || known.contains(&line) || is_filled_in(line))
}

/// Returns a text without HTML comments. An unclosed comment runs to the end.
fn without_comments(text: &str) -> String {
    let (mut rest, mut kept) = (text, String::new());
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, rest)| rest);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use ralph_io::formats::TaskFile;

    use super::*;

    #[test]
    fn names_become_branches() {
        for (name, expect) in [
            ("Search in notes", Ok("ralph/search-in-notes")),
            ("  v2.0 -- beta! ", Ok("ralph/v2-0-beta")),
            ("Größe", Ok("ralph/größe")),
            ("../../etc", Ok("ralph/etc")),
            ("", Err("the text given with --name is empty")),
            ("   ", Err("the text given with --name is empty")),
            ("?!", Err("the text given with --name has no letter and no digit")),
            ("a\nb", Err("the text given with --name is not one line of plain text")),
            (&"x".repeat(101), Err("the text given with --name is longer than 100 characters")),
        ] {
            let feature = Feature::parse(name, "--name");
            let found = feature.as_ref().map(Feature::branch).map_err(|it| it.message.clone());
            assert_eq!(found, expect.map(str::to_owned).map_err(str::to_owned), "{name:?}");
        }
        assert_eq!(slugify(&"ab ".repeat(60)).len(), 59);
    }

    #[test]
    fn a_fresh_list_is_one_that_can_be_read() {
        let commands = ["make \"test\"".to_owned(), "echo '${BRANCH}'".to_owned()];
        let text = render_tasks("a \"b\" ${BRANCH}", Some("ralph/a"), &commands);
        let file = TaskFile::from_text("tasks.json".as_ref(), text).expect("a list");
        let list = file.list();
        assert_eq!((list.project.as_str(), list.tasks.len()), ("a \"b\" ${BRANCH}", 0));
        assert_eq!(list.branch.as_deref(), Some("ralph/a"));
        assert_eq!(list.verify_commands, commands);
        let text = render_tasks("", None, &[]);
        TaskFile::from_text("tasks.json".as_ref(), text).expect("a list");
    }

    #[test]
    fn filled_in_documents_are_not_bare() {
        let fresh = render_prd("Notes");
        let written = fresh.replace("## 2.", "Notes can be searched.\n\n## 2.");
        let in_a_comment = fresh.replace("## 2.", "<!-- Notes can be searched. -->\n## 2.");
        let row = fresh.replace("## 9.", "| Empty query | Enter | Nothing | |\n\n## 9.");
        for (text, expect) in [
            (fresh.as_str(), true),
            (&in_a_comment, true),
            ("# Notes\n\n## 1. Summary\n", true),
            ("", true),
            ("<!-- never closed\nNotes can be searched.", true),
            (&written, false),
            (&row, false),
            ("Notes can be searched.", false),
        ] {
            assert_eq!(is_bare(text, PRD_TEMPLATE), expect, "{text}");
        }
        let fresh = render_progress("Notes", "2026-11-15");
        assert!(is_bare(&fresh, PROGRESS));
        assert!(!is_bare(&format!("{fresh}\nUS-001 is done.\n"), PROGRESS));
        assert!(is_bare(PROMPT, PROMPT));
        let fresh = render_spec("Notes");
        assert!(is_bare(&fresh, SPEC));
        assert!(!is_bare(&format!("{fresh}\nNotes can be searched.\n"), SPEC));
    }

    #[test]
    fn fresh_documents_leave_nothing_open() {
        let list = render_tasks("p", None, &[]);
        for text in [
            render_prd("Notes"),
            render_progress("Notes", "2026-11-15"),
            list,
            render_spec("Notes"),
        ] {
            assert!(!text.contains("${"), "{text}");
        }
    }
}
