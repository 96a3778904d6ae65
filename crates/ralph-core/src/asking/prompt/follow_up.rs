//! The short prompt after an answer in the wrong form: what was missing, the answer itself, and
//! what to fill in.
//!
//! A fresh agent process reads it, so it includes as much of the task as the answer needs. Not
//! here: validating the form of an answer, and the object to fill in, which is added as with every
//! prompt.

use std::fmt::Write as _;

use ralph_model::task::Task;
use ralph_model::text;

use super::list_ownership::ListOwnership;

/// How many characters of an answer are quoted: enough for the findings of a review.
pub(crate) const QUOTED_CHARS: usize = 6_000;

/// The kind of answer that was requested.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WantedAnswer<'a> {
    Verdict {
        /// The task that is reviewed, where there is one.
        task: Option<&'a Task>,
        /// The command that shows the change, where git knows it.
        diff_command: Option<&'a str>,
    },
    Handoff,
    Memory,
    Message,
}

/// Returns the prompt that requests what was missing in the answers.
pub(crate) fn render_follow_up(
    answers: &[String],
    fault: &str,
    wanted: WantedAnswer<'_>,
) -> String {
    // A fault that ends with a list has no full stop.
    let stop = if fault.contains('\n') { "" } else { "." };
    let mut text = format!("Your last answer could not be used: {fault}{stop}\n");
    for answer in answers {
        let quoted = quote_answer(answer, QUOTED_CHARS / answers.len().max(1));
        let _ = write!(text, "\nThis is what you answered:\n\n{quoted}\n");
    }
    text.push('\n');
    match wanted {
        WantedAnswer::Verdict { task, diff_command } => {
            text.push_str(NO_NEW_REVIEW);
            write_reviewed_work(&mut text, task, diff_command);
            text.push_str("\nAn approval has one entry in `criteria`, with `evidence`, for each criterion.\n");
        }
        WantedAnswer::Handoff => text.push_str(
            "Your work is saved; do not repeat it, and change no files. Only the object that describes it is missing.\n",
        ),
        WantedAnswer::Memory => text.push_str(
            "Change no files. Only the object with the new memory is missing.\n",
        ),
        WantedAnswer::Message => text.push_str(
            "Change no files. Answer with only a short imperative commit message for the changes, like this:\n\n<response>Add a parser</response>\n",
        ),
    }
    text
}

/// Returns the prompt for a verdict that is missing in the task list, without the answer of the
/// review, which is feedback. `keeping` says how the verdict is written.
pub(crate) fn render_missing_verdict(
    task: &Task,
    diff_command: Option<&str>,
    keeping: &ListOwnership<'_>,
    progress: Option<&str>,
) -> String {
    let mut text = String::from(
        "You review the work of another agent. The review is done, but its verdict is not in the task list; what it answered is below.\n",
    );
    text.push_str(NO_NEW_REVIEW);
    write_reviewed_work(&mut text, Some(task), diff_command);
    format!("{text}\n{}", keeping.write_review_rules(task, progress))
}

/// Instructs an agent to judge by what is known already.
const NO_NEW_REVIEW: &str = "Do not review everything again, and change no files of the work. Put the judgement into the requested form. Look something up only where there is no evidence yet.\n";

fn write_reviewed_work(text: &mut String, task: Option<&Task>, diff_command: Option<&str>) {
    if let Some(task) = task {
        let _ = writeln!(text, "\nTask {}: {}", task.id, task.title.trim());
        for criterion in &task.acceptance_criteria {
            let _ = writeln!(text, "- [ ] {}", criterion.trim());
        }
    }
    if let Some(command) = diff_command {
        let _ = writeln!(text, "\n`{command}` shows the change.");
    }
}

/// Returns an answer as quoted in a prompt, cut to a number of characters.
pub(crate) fn quote_answer(answer: &str, chars: usize) -> String {
    let quoted = text::excerpt_text(answer, chars);
    let lines: Vec<String> = quoted.lines().map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follow_up_says_what_was_missing_and_quotes_the_answer() {
        let answers = ["Looks good.\nApproved!".to_owned()];
        let wanted = WantedAnswer::Verdict { task: None, diff_command: None };
        expect_test::expect![[r"
            Your last answer could not be used: it contains no JSON object of the requested form.

            This is what you answered:

            > Looks good.
            > Approved!

            Do not review everything again, and change no files of the work. Put the judgement into the requested form. Look something up only where there is no evidence yet.

            An approval has one entry in `criteria`, with `evidence`, for each criterion.
        "]]
        .assert_eq(&render_follow_up(&answers, "it contains no JSON object of the requested form", wanted));
    }

    #[test]
    fn long_answers_are_bounded() {
        let answers = ["x".repeat(100_000), "y".repeat(100_000)];
        let prompt = render_follow_up(&answers, "it is long", WantedAnswer::Message);
        assert!(prompt.chars().count() < QUOTED_CHARS + 500, "{}", prompt.len());
        assert!(prompt.contains("<response>"));
    }
}
