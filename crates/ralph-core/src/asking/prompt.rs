//! Assembles prompts from their parts.
//!
//! The base texts for work on tasks are in [`task`], cut to their budget by `budget_fit` and built
//! from the state of a run by [`attempt`]. Templates are in [`role`] (work on tasks) and [`run`]
//! (everything else). Sections of their own: failed attempts in `failure`, the rest of the list and
//! the last commits in [`orientation`], a change in [`diff`], the rules for the task list in
//! [`list_ownership`]. The compaction prompt is in [`compact`], and the prompt after an answer in
//! the wrong form in `follow_up`. Not here: reading files, and the text of the feedback.

pub mod attempt;
mod budget_fit;
pub mod compact;
pub mod diff;
mod failure;
pub(crate) mod follow_up;
pub mod list_ownership;
pub mod orientation;
pub mod role;
pub mod run;
pub mod task;

use ralph_model::context::{Calibration, SectionCost, SectionName};
use ralph_model::gate::FailAction;
use ralph_model::ids::IterationNumber;
use ralph_model::judgement::Feedback;
use ralph_model::recipe::{
    Completion, FinishNote, IterationCount, PromptPlan, PromptSource, Recipe, Work,
};
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
        let feedback = parts.feedback.iter().filter(move |feedback| feedback.action == action);
        feedback.map(|feedback| cut_feedback(feedback, parts.size))
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
    let is_appended = |it: &&Feedback| it.action == FailAction::Append;
    let appended = parts.feedback.iter().filter(is_appended);
    let appended = format_feedback(appended, parts.size);
    pieces.extend(Some(appended).filter(|text| !text.is_empty()));
    pieces.join(BETWEEN)
}

/// Splits feedback into what the prompt of an attempt shows after its task, and what is put
/// around the whole prompt.
pub(crate) fn split_feedback(feedback: &[Feedback]) -> (Vec<Feedback>, Vec<Feedback>) {
    let is_replaced = feedback.iter().any(|it| it.action == FailAction::Replace);
    let is_inside = |it: &Feedback| it.action == FailAction::Append && !is_replaced;
    feedback.iter().cloned().partition(is_inside)
}

/// Returns feedback as sections: failures, then notes.
fn format_feedback<'a>(feedback: impl Iterator<Item = &'a Feedback>, size: PromptSize) -> String {
    let (notes, failures): (Vec<&Feedback>, Vec<&Feedback>) = feedback.partition(|it| it.is_note);
    let sections = [("What failed", failures), ("Notes", notes)].map(|(title, feedback)| {
        let texts: Vec<String> = feedback.iter().map(|it| cut_feedback(it, size)).collect();
        role::format_section(title, &texts.join(BETWEEN))
    });
    let sections = sections.into_iter().filter(|section| !section.is_empty());
    sections.collect::<Vec<_>>().join(BETWEEN)
}

fn cut_feedback(feedback: &Feedback, size: PromptSize) -> String {
    match size {
        PromptSize::Full => feedback.text.clone(),
        PromptSize::Smallest => {
            let mut excerpt = Excerpt::with_ends(SMALLEST_FEEDBACK, SMALLEST_FEEDBACK);
            excerpt.feed_text(&feedback.text);
            excerpt.to_text()
        }
    }
}

/// Returns the user's text followed by the checks, the protected paths and, unless the text already
/// names a completion tag, how to finish. A template says all of this itself.
pub fn with_finish_note(recipe: &Recipe, text: String) -> String {
    match &recipe.work {
        Work::Prompt(PromptSource::Text(_) | PromptSource::File(_)) => {}
        Work::Prompt(PromptSource::Template(_)) | Work::Tasks(_) => return text,
    }
    let commands = recipe.gate_commands();
    let mut pieces = Vec::new();
    if !commands.is_empty() {
        let commands = task::format_commands(&commands);
        pieces.push(format!("These checks run after you, and all must pass:\n{commands}"));
    }
    let protected = recipe.protected_names();
    pieces.extend(Some(task::describe_protected_paths(&protected)).filter(|it| !it.is_empty()));
    let is_known = match (recipe.prompt.finish, recipe.completion) {
        (FinishNote::Omitted, _) | (_, Completion::Gates) => true,
        (FinishNote::Added, Completion::Signal) => completion::has_completion_tag(&text),
    };
    if !is_known {
        let pass = if commands.is_empty() { "" } else { " and the checks pass" };
        let signal = recipe.completion_tag();
        pieces.push(format!(
            "When everything is done{pass}, end your final answer with {signal}. Until then do not write it: you will be asked again."
        ));
    }
    if pieces.is_empty() {
        return text;
    }
    format!("{}{BETWEEN}{}", text.trim_end(), pieces.join(BETWEEN))
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
            .map(|(text, action)| Feedback { action: *action, ..Feedback::from_text(*text) })
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
        check(Hidden, &[("a", Append)], "base\n\n\n## What failed\na");
        let both = "base\n\n\n## What failed\na\n\nb";
        check(Hidden, &[("a", Append), ("b", Append)], both);
        check(Hidden, &[("p", Prepend)], "p\n\nbase\n");
        check(Hidden, &[("r", Replace)], "r");
        check(
            Hidden,
            &[("r", Replace), ("a", Append), ("p", Prepend), ("s", Replace)],
            "p\n\nr\n\ns\n\n## What failed\na",
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
            check_finish(named, &[], named);
            let expect = format!("{}\n\n{checks}", named.trim_end());
            check_finish(named, &["make test"], &expect);
        }
    }

    #[test]
    fn the_smallest_prompt_keeps_the_base_whole() {
        let base = "b".repeat(2_000);
        let feedback = [Feedback::from_text("f".repeat(2_000))];
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
        let heading = "\n\n## What failed\n".len();
        assert_eq!(prompt.len(), 2_000 + heading + 500 + "\n... [truncated]\n".len() + 500);
    }
}
