//! Assembles prompts from their parts.
//!
//! The base texts for work on tasks are in [`task`], cut to their budget by `budget_fit` and built
//! from the state of a run by [`attempt`]. Templates are in [`role`] (work on tasks) and [`run`]
//! (everything else), the rules for the task list in [`list_ownership`], the compaction prompt in
//! [`compact`], and the prompt after an answer in the wrong form in `follow_up`. Not here:
//! reading files, and the text of the feedback.

pub mod attempt;
mod budget_fit;
pub mod compact;
pub(crate) mod follow_up;
pub mod list_ownership;
pub mod role;
pub mod run;
pub mod task;

use ralph_model::context::{Calibration, SectionCost, SectionName};
use ralph_model::gate::FailAction;
use ralph_model::ids::IterationNumber;
use ralph_model::judgement::Feedback;
use ralph_model::recipe::{Completion, FinishNote, IterationCount, PromptPlan, Recipe};
use ralph_model::run::PromptSize;
use ralph_model::text::Excerpt;

use crate::answers::completion;
use crate::asking::context;

/// Separates the parts of a prompt.
const BETWEEN: &str = "\n\n";

/// Characters kept at each end of a feedback text when the whole prompt did not fit into the
/// model's window: enough to name what failed, the path of its log and the end of the output.
const SMALLEST_FEEDBACK: usize = 500;

/// The parts of a prompt.
#[derive(Debug, Clone, Copy)]
pub struct PromptParts<'a> {
    pub base: &'a str,
    /// Feedback from the previous iteration.
    pub feedback: &'a [Feedback],
    pub iteration: IterationNumber,
    pub limit: u32,
    pub size: PromptSize,
}

/// Returns the prompt of an iteration.
///
/// Each feedback is added according to its action: after, before, or instead of the base text.
pub fn assemble_prompt(plan: &PromptPlan, parts: PromptParts<'_>) -> String {
    let feedback_with = |action| {
        parts.feedback.iter().filter(move |feedback| feedback.action == action).map(|feedback| {
            match parts.size {
                PromptSize::Full => feedback.text.clone(),
                PromptSize::Smallest => {
                    let mut excerpt = Excerpt::with_ends(SMALLEST_FEEDBACK, SMALLEST_FEEDBACK);
                    excerpt.feed_text(&feedback.text);
                    excerpt.to_text()
                }
            }
        })
    };
    let mut pieces: Vec<String> = Vec::new();
    match plan.iteration_count {
        IterationCount::Shown => pieces.push(format_count_line(parts.iteration, parts.limit)),
        IterationCount::Hidden => {}
    }
    pieces.extend(feedback_with(FailAction::Prepend));
    let before = pieces.len();
    pieces.extend(feedback_with(FailAction::Replace));
    if pieces.len() == before {
        pieces.push(parts.base.to_owned());
    }
    pieces.extend(feedback_with(FailAction::Append));
    pieces.join(BETWEEN)
}

/// Returns the user's text followed by how to finish, unless it already names a completion tag.
pub fn with_finish_note(recipe: &Recipe, text: String) -> String {
    match (recipe.prompt.finish, recipe.completion) {
        (FinishNote::Omitted, _) | (_, Completion::Gates) => return text,
        (FinishNote::Added, Completion::Signal) => {}
    }
    if completion::has_completion_tag(&text) {
        return text;
    }
    let commands = recipe.gate_commands();
    let (checks, pass) = match commands.as_slice() {
        [] => (String::new(), ""),
        commands => {
            let lines: Vec<String> = commands.iter().map(|it| format!("- `{it}`")).collect();
            let checks =
                format!("These checks run after you, and all must pass:\n{}\n\n", lines.join("\n"));
            (checks, " and the checks pass")
        }
    };
    let signal = recipe.completion_tag();
    format!(
        "{}{BETWEEN}{checks}When everything is done{pass}, end your final answer with {signal}. Until then do not write it: you will be asked again.",
        text.trim_end()
    )
}

/// Adds the text that was appended to a prompt's base text (the feedback of the gates) to the
/// cost table, where it does not count against the budget.
pub fn count_feedback(
    budget: &mut Vec<SectionCost>,
    base: &str,
    prompt: &str,
    calibration: Calibration,
) {
    if !budget.is_empty() {
        let added = prompt.chars().count().saturating_sub(base.chars().count());
        context::add_section_cost(budget, SectionName::Failure, added, calibration);
    }
}

fn format_count_line(iteration: IterationNumber, limit: u32) -> String {
    let remaining = limit.saturating_sub(iteration.0);
    format!("Iteration {iteration} of {limit}, {remaining} remaining.")
}

#[cfg(test)]
mod tests {
    use ralph_model::gate::{Gate, GateKind};

    use super::*;

    #[track_caller]
    fn check(count: IterationCount, feedback: &[(&str, FailAction)], expect: &str) {
        let feedback: Vec<Feedback> = feedback
            .iter()
            .map(|(text, action)| Feedback { text: (*text).to_owned(), action: *action })
            .collect();
        let plan = PromptPlan {
            iteration_count: count,
            output_chars: 5000,
            vars: std::collections::BTreeMap::new(),
            context: ralph_model::context::ContextPlan::default(),
            finish: ralph_model::recipe::FinishNote::Omitted,
        };
        let parts = PromptParts {
            base: "base\n",
            feedback: &feedback,
            iteration: IterationNumber(3),
            limit: 10,
            size: PromptSize::Full,
        };
        assert_eq!(assemble_prompt(&plan, parts), expect);
    }

    #[test]
    fn feedback_joins_by_its_action() {
        use FailAction::{Append, Prepend, Replace};
        use IterationCount::{Hidden, Shown};
        check(Hidden, &[], "base\n");
        check(Hidden, &[("a", Append)], "base\n\n\na");
        check(Hidden, &[("a", Append), ("b", Append)], "base\n\n\na\n\nb");
        check(Hidden, &[("p", Prepend)], "p\n\nbase\n");
        check(Hidden, &[("r", Replace)], "r");
        check(
            Hidden,
            &[("r", Replace), ("a", Append), ("p", Prepend), ("s", Replace)],
            "p\n\nr\n\ns\n\na",
        );
        check(Shown, &[], "Iteration 3 of 10, 7 remaining.\n\nbase\n");
    }

    #[track_caller]
    fn check_finish(text: &str, gates: &[&str], expect: &str) {
        let mut recipe = crate::run_loop::choose::tests::recipe();
        recipe.prompt.finish = FinishNote::Added;
        recipe.completion = Completion::Signal;
        let gate = |command: &&str| Gate::for_command(GateKind::Test, *command);
        recipe.gates = gates.iter().map(gate).collect();
        assert_eq!(with_finish_note(&recipe, text.to_owned()), expect);
    }

    #[test]
    fn a_text_without_a_tag_is_completed() {
        let end = "end your final answer with <response>DONE</response>. Until then do not write it: you will be asked again.";
        check_finish("Fix it.\n", &[], &format!("Fix it.\n\nWhen everything is done, {end}"));
        let checks = "These checks run after you, and all must pass:\n- `make test`";
        let pass = "When everything is done and the checks pass,";
        let expect = format!("Fix it.\n\n{checks}\n\n{pass} {end}");
        check_finish("Fix it.", &["make test"], &expect);
        for named in ["Say <PROMISE>x</PROMISE>.\n", "Put it into <response> tags."] {
            check_finish(named, &["make test"], named);
        }
    }

    #[test]
    fn the_smallest_prompt_keeps_the_base_whole() {
        let base = "b".repeat(2_000);
        let feedback = [Feedback { text: "f".repeat(2_000), action: FailAction::Append }];
        let plan = PromptPlan {
            iteration_count: IterationCount::Hidden,
            output_chars: 5000,
            vars: std::collections::BTreeMap::new(),
            context: ralph_model::context::ContextPlan::default(),
            finish: ralph_model::recipe::FinishNote::Omitted,
        };
        let parts = PromptParts {
            base: &base,
            feedback: &feedback,
            iteration: IterationNumber(1),
            limit: 1,
            size: PromptSize::Smallest,
        };
        let prompt = assemble_prompt(&plan, parts);
        assert!(prompt.starts_with(&base));
        assert_eq!(prompt.len(), 2_000 + 2 + 500 + "\n... [truncated]\n".len() + 500);
    }
}
