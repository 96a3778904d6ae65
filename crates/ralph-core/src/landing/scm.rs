//! Commit messages from agents and templates, and the results of commit hooks. Does not commit.

use ralph_model::ids::{IterationNumber, Role};

use crate::answers::completion;
use crate::template;

/// The question for a commit message, word for word.
pub const MESSAGE_PROMPT: &str = "Provide a short imperative commit message for the changes. \
                                  Output only the message, no explanation.";

/// Returns the question for a commit message: the required sentence, then the task and the list of
/// changed files.
pub(crate) fn write_message_prompt(title: Option<&str>, change: &str) -> String {
    let mut text = format!(
        "{MESSAGE_PROMPT}\n\nPut it into <response>...</response>. Do not edit files, do not commit, and run no checks."
    );
    if let Some(title) = title {
        text.push_str(&format!("\n\nThe task was: {}", title.trim()));
    }
    if !change.is_empty() {
        text.push_str(&format!("\n\nThe changed files:\n{change}"));
    }
    text
}

/// A longer line is not a subject line.
const LONGEST_MESSAGE: usize = 200;

/// Returns the commit message in an agent's answer: the content of a completion tag, else the first
/// line with content, without fences and quotes.
pub(crate) fn parse_commit_message(answer: &str) -> Option<String> {
    match completion::find_signal(answer) {
        Some(tagged) => find_first_line(&tagged),
        None => find_first_line(answer),
    }
}

fn find_first_line(text: &str) -> Option<String> {
    let lines = || {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("```"))
            .map(strip_quotes)
            .filter(|line| line.chars().any(char::is_alphanumeric))
    };
    // "Here is the message:" only introduces it.
    let line = lines().find(|line| !line.ends_with(':')).or_else(|| lines().next());
    line.map(|line| {
        let clean: String = line.chars().filter(|character| !character.is_control()).collect();
        clean.chars().take(LONGEST_MESSAGE).collect::<String>().trim_end().to_owned()
    })
}

/// Strips quotes around the whole line.
fn strip_quotes(line: &str) -> &str {
    ['"', '\'', '`', '*'].into_iter().fold(line, |line, quote| {
        let inner = line.trim_start_matches(quote).trim_end_matches(quote);
        let is_around = line.starts_with(quote) && line.ends_with(quote);
        if is_around { inner.trim() } else { line }
    })
}

/// The result of the pre-commit hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookResult {
    Absent,
    Passed,
    Refused {
        output: String,
    },
    /// The user interrupted the run.
    Interrupted,
}

/// The result of trying the commit hooks before any work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookTrial {
    /// They passed, or there are none.
    Passed,
    /// The pre-commit hook refused an empty commit.
    CommitRefused {
        output: String,
        /// The current branch.
        branch: Option<String>,
    },
    MessageRefused {
        output: String,
    },
    /// The user interrupted the run.
    Interrupted,
}

/// The variables of the template `commitMessage`.
pub const MESSAGE_VARIABLES: [&str; 6] =
    ["ITERATION", "PREFIX", "SUBJECT", "TASK_ID", "TASK_TITLE", "TYPE"];

/// The values for a commit message template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageParts<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) iteration: IterationNumber,
    /// The type of the change in conventional commits.
    pub(crate) kind: &'a str,
    /// The task's id; or empty.
    pub(crate) task: &'a str,
    pub(crate) title: &'a str,
    pub(crate) subject: &'a str,
}

/// Returns the type in conventional commits for the work of a role.
pub(crate) fn choose_commit_type(role: Role) -> &'static str {
    match role {
        Role::Prompt | Role::Build | Role::Implement | Role::Merge => "feat",
        Role::Fix => "fix",
        Role::Plan => "docs",
        Role::Review | Role::Compact | Role::Message => "chore",
    }
}

/// Fills in the template of commit messages.
pub(crate) fn fill_message(template: &str, parts: &MessageParts<'_>) -> String {
    let (iteration, subject) = (parts.iteration.to_string(), lower_first_letter(parts.subject));
    let value = |name: &str| {
        Some(match name {
            "ITERATION" => iteration.as_str(),
            "PREFIX" => parts.prefix,
            "SUBJECT" => subject.as_str(),
            "TASK_ID" => parts.task,
            "TASK_TITLE" => parts.title,
            "TYPE" => parts.kind,
            _ => return None,
        })
    };
    template::expand_template(template, value).text.trim().to_owned()
}

/// Returns a subject that begins in lower case, as checkers of conventional commits expect. A word
/// such as `API` is kept.
fn lower_first_letter(subject: &str) -> String {
    let mut rest = subject.chars();
    match (rest.next(), rest.clone().next()) {
        (Some(first), second) if second.is_none_or(|it| !it.is_uppercase()) => {
            first.to_lowercase().chain(rest).collect()
        }
        (_, _) => subject.to_owned(),
    }
}

/// Returns whether the output of a hook that refuses an empty commit mentions the branch.
pub(crate) fn mentions_branch(output: &str, branch: &str) -> bool {
    let is_name = |word: &str| {
        !branch.is_empty() && word.trim_matches(|it: char| !it.is_alphanumeric()) == branch
    };
    // `File "main.py", line 1, in main` is a place in a program.
    let mut lines = output.lines().filter(|line| !line.trim_start().starts_with("File \""));
    lines.any(|line| line.to_lowercase().contains("branch") || line.split_whitespace().any(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_answers() {
        let long = "x".repeat(300);
        for (answer, expect) in [
            ("Add a parser", Some("Add a parser")),
            ("\n\n  Add a parser  \nBecause.", Some("Add a parser")),
            ("Sure!\n<response> Add a parser\n</response>", Some("Add a parser")),
            ("```\nAdd a parser\n```", Some("Add a parser")),
            ("```text\n\"Add a parser\"\n```", Some("Add a parser")),
            ("`Add `parser` now`", Some("Add `parser` now")),
            ("**Add a parser**", Some("Add a parser")),
            ("Don't panic", Some("Don't panic")),
            ("Add \u{1b}[31mred", Some("Add [31mred")),
            (long.as_str(), Some(&long[..200])),
            ("Here is a commit message:\n\n```\nAdd a parser\n```", Some("Add a parser")),
            ("Parser:", Some("Parser:")),
            ("", None),
            ("```\n```", None),
            ("---", None),
            ("<response></response>", None),
        ] {
            assert_eq!(parse_commit_message(answer).as_deref(), expect, "{answer:?}");
        }
    }

    #[test]
    fn the_question_for_a_message_names_the_change() {
        expect_test::expect![[r"
            Provide a short imperative commit message for the changes. Output only the message, no explanation.

            Put it into <response>...</response>. Do not edit files, do not commit, and run no checks.

            The task was: Login

            The changed files:
            a.rs | +1 -0"]]
        .assert_eq(&write_message_prompt(Some("Login"), "a.rs | +1 -0"));
    }

    #[test]
    fn templates_of_messages_are_filled_in() {
        let parts = MessageParts {
            prefix: "ralph",
            iteration: IterationNumber(3),
            kind: "feat",
            task: "T-1",
            title: "Add a parser",
            subject: "Add a parser",
        };
        for (template, expect) in [
            ("${TYPE}: ${SUBJECT}", "feat: add a parser"),
            ("${TYPE}(${TASK_ID}): ${TASK_TITLE}", "feat(T-1): Add a parser"),
            ("${PREFIX}[${ITERATION}]", "ralph[3]"),
            ("${SUBJECT}\n\nRefs: ${TASK_ID}\n", "add a parser\n\nRefs: T-1"),
            ("${UNKNOWN} $$", "${UNKNOWN} $"),
        ] {
            assert_eq!(fill_message(template, &parts), expect, "{template}");
        }
        for (subject, expect) in [("API of x", "API of x"), ("A", "a"), ("Ä b", "ä b"), ("", "")]
        {
            assert_eq!(lower_first_letter(subject), expect, "{subject}");
        }
    }

    #[test]
    fn refusals_that_mention_the_branch_are_recognized() {
        for (output, expect) in [
            ("You can't commit directly to protected branch", true),
            ("do not commit to main!", true),
            ("commits to 'main' are not allowed", true),
            ("src/main.rs:1: error", false),
            ("  File \"a/main.py\", line 4, in main\nOSError: no", false),
            ("3 tests failed", false),
            ("", false),
        ] {
            assert_eq!(mentions_branch(output, "main"), expect, "{output}");
        }
    }
}
