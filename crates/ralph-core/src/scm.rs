//! Commit messages written by an agent.
//!
//! Not here: committing.

use crate::completion;

/// The question for a commit message, word for word.
pub const MESSAGE_PROMPT: &str = "Provide a short imperative commit message for the changes. \
                                  Output only the message, no explanation.";

/// A subject line beyond this is no subject line.
const LONGEST_MESSAGE: usize = 200;

/// Returns the commit message in an agent's answer: the content of a completion tag, else the
/// first line that says something, without fences and quotes.
pub(crate) fn commit_message(answer: &str) -> Option<String> {
    match completion::signal(answer) {
        Some(tagged) => first_line(&tagged),
        None => first_line(answer),
    }
}

fn first_line(text: &str) -> Option<String> {
    let lines = || {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("```"))
            .map(unquoted)
            .filter(|line| line.chars().any(char::is_alphanumeric))
    };
    // "Here is the message:" only leads to it.
    let line = lines().find(|line| !line.ends_with(':')).or_else(|| lines().next());
    line.map(|line| {
        let clean: String = line.chars().filter(|character| !character.is_control()).collect();
        clean.chars().take(LONGEST_MESSAGE).collect::<String>().trim_end().to_owned()
    })
}

/// Strips quotes that stand around the whole line.
fn unquoted(line: &str) -> &str {
    ['"', '\'', '`', '*'].into_iter().fold(line, |line, quote| {
        let inner = line.trim_start_matches(quote).trim_end_matches(quote);
        let is_around = line.starts_with(quote) && line.ends_with(quote);
        if is_around { inner.trim() } else { line }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_what_agents_say() {
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
            assert_eq!(commit_message(answer).as_deref(), expect, "{answer:?}");
        }
    }
}
