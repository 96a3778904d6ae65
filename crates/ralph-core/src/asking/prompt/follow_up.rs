//! The short prompt after an answer in the wrong form: what was missing, the answer itself, and
//! what to fill in.
//!
//! A fresh agent process reads it, so it includes as much of the task as the answer needs. Not
//! here: validating the form of an answer, and the object to fill in, which is added as with every
//! prompt.

use std::fmt::Write as _;

use ralph_model::task::Task;
use ralph_model::text;
use ralph_model::worktree::TreeId;

/// How many characters of an answer are quoted: enough for the findings of a review.
const QUOTED_CHARS: usize = 6_000;

/// The kind of answer that was requested.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WantedAnswer<'a> {
    Verdict {
        /// The task that is reviewed, where there is one.
        task: Option<&'a Task>,
        /// The trees before and after the change, where git knows them.
        range: Option<(&'a TreeId, &'a TreeId)>,
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
        let quoted = text::excerpt_text(answer, QUOTED_CHARS / answers.len().max(1));
        let lines: Vec<String> = quoted.lines().map(|line| format!("> {line}")).collect();
        let _ = write!(text, "\nThis is what you answered:\n\n{}\n", lines.join("\n"));
    }
    text.push('\n');
    match wanted {
        WantedAnswer::Verdict { task, range } => ask_for_verdict(&mut text, task, range),
        WantedAnswer::Handoff => text.push_str(
            "Your work is saved; do not repeat it, and change no files. Answer with only the JSON object that describes it.\n",
        ),
        WantedAnswer::Memory => text.push_str(
            "Change no files. Answer with only the JSON object that holds the new memory.\n",
        ),
        WantedAnswer::Message => text.push_str(
            "Change no files. Answer with only a short imperative commit message for the changes, like this:\n\n<response>Add a parser</response>\n",
        ),
    }
    text
}

fn ask_for_verdict(text: &mut String, task: Option<&Task>, range: Option<(&TreeId, &TreeId)>) {
    text.push_str("Do not review everything again, and change no files. Put your judgement into the requested form. Look something up only where you have no evidence yet.\n");
    if let Some(task) = task {
        let _ = writeln!(text, "\nTask {}: {}", task.id, task.title.trim());
        for criterion in &task.acceptance_criteria {
            let _ = writeln!(text, "- [ ] {}", criterion.trim());
        }
    }
    if let Some((TreeId(from), TreeId(to))) = range {
        let _ = writeln!(text, "\n`git diff {from} {to}` shows the change.");
    }
    text.push_str(
        "\nAnswer with only the JSON object. An approval has one entry in `criteria`, with `evidence`, for each criterion.\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follow_up_says_what_was_missing_and_quotes_the_answer() {
        let answers = ["Looks good.\nApproved!".to_owned()];
        let wanted = WantedAnswer::Verdict { task: None, range: None };
        expect_test::expect![[r"
            Your last answer could not be used: it contains no JSON object of the requested form.

            This is what you answered:

            > Looks good.
            > Approved!

            Do not review everything again, and change no files. Put your judgement into the requested form. Look something up only where you have no evidence yet.

            Answer with only the JSON object. An approval has one entry in `criteria`, with `evidence`, for each criterion.
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
