//! The prompts for work on a task: implementing it, fixing what a review found, and reviewing.
//!
//! This file writes each section. Not here: their order, which the template decides, and where
//! their contents come from.

use std::fmt::Write as _;
use std::path::Path;

use ralph_model::attempt::{Attempt, FailedOutput};
use ralph_model::handoff::{Handoff, WorkOutcome};
use ralph_model::memory::Memory;
use ralph_model::stuck::Escalation;
use ralph_model::task::Task;
use ralph_model::worktree::TreeId;

use super::budget_fit::{FailureText, render_within_budget};
use super::list_ownership::{self, ListOwnership};
use super::role::{
    RenderedPrompt, RoleFrame, RolePrompt, TemplateValues, format_section, render_role_prompt,
};
use crate::asking::context::PromptRoom;
use crate::memory::handoff_summary::describe_author_statements;

/// How many characters of a patch a reviewer is shown. The rest is in the work tree.
pub const REVIEWED_PATCH: usize = 30_000;

/// The inputs of the prompt for an attempt at a task.
#[derive(Debug, Clone, Copy)]
pub struct TaskParts<'a> {
    pub task: &'a Task,
    /// What a review wants fixed; empty for a first implementation.
    pub review_feedback: &'a str,
    /// The record of the failed attempts, without the output of their gates.
    pub record: Option<&'a str>,
    /// Output of the gates that failed in the last attempt.
    pub outputs: &'a [FailedOutput],
    /// Outcome of the last attempt's work, if known.
    pub last_outcome: Option<&'a WorkOutcome>,
    pub attempts: &'a [Attempt],
    /// How far the prompt escalates beyond the task.
    pub escalation: Escalation,
    /// The patch of the work that keeps failing.
    pub patch: &'a str,
    /// Files that the error names, with their contents.
    pub context: &'a [(String, String)],
    /// Handoffs of earlier iterations, oldest first. The last few are included.
    pub handoffs: &'a [Handoff],
    /// The memory compacted from all earlier handoffs.
    pub memory: Option<&'a Memory>,
    /// Skills that the task names, with their text.
    pub skills: &'a [(String, String)],
    /// Gates that failed before the run began.
    pub broken_before: &'a [String],
    /// Protected paths.
    pub protected: &'a [String],
    /// Who owns the list and who commits.
    pub keeping: ListOwnership<'a>,
    /// The space available in the prompt.
    pub room: PromptRoom,
}

impl<'a> TaskParts<'a> {
    /// Returns the inputs of a first attempt about which nothing else is known.
    pub fn for_first_attempt(task: &'a Task, keeping: ListOwnership<'a>) -> Self {
        Self {
            task,
            review_feedback: "",
            record: None,
            outputs: &[],
            last_outcome: None,
            attempts: &[],
            escalation: Escalation::None,
            patch: "",
            context: &[],
            handoffs: &[],
            memory: None,
            skills: &[],
            broken_before: &[],
            protected: &[],
            keeping,
            room: PromptRoom::default(),
        }
    }
}

/// Returns the prompt for a first attempt at a task.
pub fn render_implement(parts: &TaskParts<'_>, frame: &RoleFrame<'_>) -> RenderedPrompt {
    let keeping =
        parts.keeping.write_implement_rules(parts.task, frame.companions.progress.as_deref());
    render_attempt(RolePrompt::Implement, parts, frame, keeping)
}

/// Returns the prompt for fixing what a review found.
pub fn render_fix(parts: &TaskParts<'_>, frame: &RoleFrame<'_>) -> RenderedPrompt {
    let keeping = parts.keeping.write_fix_rules(parts.task, frame.companions.progress.as_deref());
    render_attempt(RolePrompt::Fix, parts, frame, keeping)
}

fn render_attempt(
    prompt: RolePrompt,
    parts: &TaskParts<'_>,
    frame: &RoleFrame<'_>,
    keeping: String,
) -> RenderedPrompt {
    let feedback = match parts.review_feedback.trim() {
        "" => String::new(),
        feedback => format!(
            "A reviewer found problems in this task. Fix all of the following:\n\n{feedback}"
        ),
    };
    let mut values = build_task_values(parts.task);
    values.extend([
        ("FEEDBACK", format_section("What the review found", &feedback)),
        ("BROKEN", describe_broken_gates(parts.broken_before)),
        ("GATES", describe_gates(frame.gates) + &describe_protected_paths(parts.protected)),
        ("KEEPING", keeping),
        ("ANSWER", parts.keeping.attempt_answer().to_owned()),
    ]);
    render_within_budget(prompt, parts, frame, values, &describe_failure(parts))
}

fn build_task_values(task: &Task) -> TemplateValues {
    TemplateValues::from([
        ("TASK_ID", task.id.0.clone()),
        ("TASK_TITLE", task.title.trim().to_owned()),
        ("TASK", format_task(task)),
    ])
}

fn describe_failure(parts: &TaskParts<'_>) -> FailureText {
    let mut text = String::from("## Previous attempts\n");
    match parts.record {
        None => text.push_str("First attempt.\n"),
        Some(record) => {
            let _ = write!(
                text,
                "Attempts at this task have failed. Understand why before you change anything. {}\n\n{}\n",
                locate_last_changes(parts.last_outcome),
                record.trim_end()
            );
        }
    }
    text.truncate(text.trim_end().len());
    let mut output = String::new();
    write_escalation(&mut output, parts);
    output.truncate(output.trim_end().len());
    FailureText { record: text, output }
}

/// Describes where the changes of the last attempt are.
fn locate_last_changes(outcome: Option<&WorkOutcome>) -> String {
    match outcome {
        Some(WorkOutcome::RolledBack { kept: Some(kept), .. }) => format!(
            "The changes of the last attempt were rolled back: the work tree is as it was before it. They are kept on `{kept}`; `git diff HEAD {kept}` shows them, and `git checkout {kept} -- PATH` brings back a file that was good."
        ),
        Some(WorkOutcome::RolledBack { kept: None, .. }) => {
            "The last attempt was rolled back: the work tree is as it was before it.".to_owned()
        }
        Some(WorkOutcome::Abandoned { branch: Some(branch), .. }) => {
            format!("Their changes are on the branch `{branch}` and not in the work tree.")
        }
        Some(
            WorkOutcome::Passed { .. }
            | WorkOutcome::Failed { .. }
            | WorkOutcome::Abandoned { branch: None, .. },
        ) => "Their changes are still in the work tree, for you to keep or to undo.".to_owned(),
        None => "Look at `git status` for what is left of their changes.".to_owned(),
    }
}

fn describe_broken_gates(gates: &[String]) -> String {
    if gates.is_empty() {
        return String::new();
    }
    format!(
        "## Broken before\nThese checks failed before any work began. They must still pass before this task counts as done:\n{}",
        format_commands(gates)
    )
}

pub(super) fn describe_gates(gates: &[String]) -> String {
    let text = if gates.is_empty() {
        "Run the project's own checks.".to_owned()
    } else {
        format!(
            "These will be run after you, and all must pass. Run them yourself first:\n{}",
            format_commands(gates)
        )
    };
    format_section("Checks", &text)
}

/// How many protected paths are listed; agents skip a longer list.
const MOST_PROTECTED: usize = 20;

fn describe_protected_paths(paths: &[String]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let named: Vec<String> =
        paths.iter().take(MOST_PROTECTED).map(|path| format!("`{path}`")).collect();
    let more = match paths.len().saturating_sub(MOST_PROTECTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "\nProtected (an attempt that changes one of these fails): {}{more}, and the settings of ralph.",
        named.join(", ")
    )
}

fn format_commands(commands: &[String]) -> String {
    let lines = commands.iter().map(|command| format!("- `{}`", command.trim()));
    lines.collect::<Vec<_>>().join("\n")
}

fn format_task(task: &Task) -> String {
    let mut text = format!(
        "## Current task\nID: {}\nTitle: {}\n\nDescription:\n{}\n\nAcceptance criteria (all of them must be met):\n",
        task.id,
        task.title.trim(),
        task.description.trim()
    );
    for criterion in &task.acceptance_criteria {
        let _ = writeln!(text, "- [ ] {}", criterion.trim());
    }
    if !task.libraries.is_empty() {
        let _ = writeln!(text, "\nLibraries: {}", task.libraries.join(", "));
    }
    text.truncate(text.trim_end().len());
    text
}

fn write_escalation(text: &mut String, parts: &TaskParts<'_>) {
    match parts.escalation {
        Escalation::None | Escalation::HardStop => return,
        Escalation::StrategyShift | Escalation::ContextExpansion => {}
    }
    let count = parts.attempts.len();
    let _ = write!(
        text,
        "## Another approach is required\nThe last attempts failed in the same way. What they tried does not work, and trying it again will not help. Take a fundamentally different approach.\n\nThe failure, word for word:\n"
    );
    for output in parts.outputs {
        let _ = write!(text, "\n{}\n", indent_lines(&output.text));
    }
    if count > 0 {
        text.push_str("\nDo NOT do any of this again:\n");
        for attempt in parts.attempts {
            let what = attempt.summary.trim();
            let files = attempt.files.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
            let what = if what.is_empty() { "the same change" } else { what };
            let _ = writeln!(
                text,
                "- {}{}",
                what.lines().next().unwrap_or_default(),
                if files.is_empty() { String::new() } else { format!(" (in {files})") }
            );
        }
    }
    if !parts.patch.is_empty() {
        let _ = write!(text, "\nThe change that keeps failing:\n\n{}\n", indent_lines(parts.patch));
    }
    if parts.escalation == Escalation::ContextExpansion && !parts.context.is_empty() {
        text.push_str("\nThe failure mentions something that is missing. These files may help:\n");
        for (path, content) in parts.context {
            let _ = write!(text, "\n### {path}\n{}\n", indent_lines(content));
        }
    }
}

fn indent_lines(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Returns a patch without the changes to one file. Used for the task list: ralph writes it, so
/// its changes are not part of the work.
pub fn remove_file_from_patch(patch: &str, file: &Path) -> String {
    let mut is_shown = true;
    let lines = patch.split_inclusive('\n').filter(|line| {
        // Content lines begin with a space or a sign, so only headers match.
        if let Some(names) = line.strip_prefix("diff --git ") {
            let name = names.trim_end().rsplit_once(" b/").map_or("", |(_, name)| name);
            is_shown = name.is_empty() || !file.ends_with(name);
        }
        is_shown
    });
    lines.collect()
}

/// The inputs of the prompt for a review.
#[derive(Debug, Clone, Copy)]
pub struct ReviewParts<'a> {
    /// `None` if the work is a prompt.
    pub task: Option<&'a Task>,
    /// The user's prompt, if there is no task.
    pub asked: &'a str,
    pub focus: ReviewFocus,
    pub patch: &'a str,
    /// The trees before and after the change, if git knows them.
    pub range: Option<(&'a TreeId, &'a TreeId)>,
    /// The handoff of the agent that did the work.
    pub handoff: Option<&'a Handoff>,
    /// What the last review wanted fixed.
    pub last_feedback: &'a str,
    pub hint: Option<&'a str>,
    /// Who owns the list; `None` for the verdict of a gate, which no list records.
    pub keeping: Option<ListOwnership<'a>>,
}

impl<'a> ReviewParts<'a> {
    /// Returns the inputs of a review about which nothing else is known.
    pub fn for_task(task: Option<&'a Task>) -> Self {
        Self {
            task,
            asked: "",
            focus: ReviewFocus::Criteria,
            patch: "",
            range: None,
            handoff: None,
            last_feedback: "",
            hint: None,
            keeping: None,
        }
    }
}

/// What a review judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewFocus {
    /// Whether the work meets each acceptance criterion.
    Criteria,
    Quality,
}

/// Returns the prompt for a review with a fresh context.
pub fn render_review(parts: &ReviewParts<'_>, frame: &RoleFrame<'_>) -> RenderedPrompt {
    let prompt = match parts.focus {
        ReviewFocus::Criteria => RolePrompt::Review,
        ReviewFocus::Quality => RolePrompt::Quality,
    };
    render_role_prompt(prompt, frame, build_review_values(parts, frame))
}

fn build_review_values(parts: &ReviewParts<'_>, frame: &RoleFrame<'_>) -> TemplateValues {
    let mut values = match parts.task {
        Some(task) => build_task_values(task),
        None => TemplateValues::from([("TASK", format_section("What was asked", parts.asked))]),
    };
    let feedback = match parts.last_feedback.trim() {
        "" => String::new(),
        feedback => format!("{feedback}\n\nCheck first whether all of this is fixed."),
    };
    let handoff = parts.handoff.map(describe_author_statements);
    let checks = match frame.gates {
        [] => String::new(),
        gates => format!(
            "These were run on this work. Run them again if you are not sure:\n{}",
            format_commands(gates)
        ),
    };
    let progress = frame.companions.progress.as_deref();
    let (keeping, answer) = match (&parts.keeping, parts.task) {
        (Some(keeping), Some(task)) => {
            (keeping.write_review_rules(task, progress), keeping.review_answer())
        }
        (Some(_), None) | (None, _) => {
            (list_ownership::CHANGE_NOTHING.to_owned(), list_ownership::ANSWER_WITH_VERDICT)
        }
    };
    values.extend([
        ("HINT", format_section("Look out for", parts.hint.unwrap_or_default())),
        ("FEEDBACK", format_section("What the last review wanted", &feedback)),
        ("HANDOFFS", format_section("What the author says", &handoff.unwrap_or_default())),
        ("DIFF", describe_diff(parts)),
        ("GATES", format_section("Checks", &checks)),
        ("KEEPING", keeping),
        ("ANSWER", answer.to_owned()),
    ]);
    values
}

fn describe_diff(parts: &ReviewParts<'_>) -> String {
    let range = parts.range.filter(|(from, to)| from != to).map(|(TreeId(from), TreeId(to))| {
        format!(
            "`git diff {from} {to}` shows the complete change, even if it is shortened here.\n\n"
        )
    });
    let patch = indent_lines(parts.patch);
    format_section("The change", &format!("{}{patch}", range.unwrap_or_default()))
}

#[cfg(test)]
mod tests;
