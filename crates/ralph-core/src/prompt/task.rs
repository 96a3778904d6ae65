//! The prompts for work on a task: implementing it, mending what a review found, and reviewing.
//!
//! Sections in a fixed order, each said once. Not here: where their contents come from.

use std::fmt::Write as _;
use std::path::Path;

use crate::attempt::{Attempt, FailedOutput};
use crate::handoff::Handoff;
use crate::stuck::Escalation;
use crate::task::Task;

/// What the prompt for an attempt at a task is put together from.
#[derive(Debug, Clone, Copy)]
pub struct TaskParts<'a> {
    /// The task.
    pub task: &'a Task,
    /// What a review wants to be mended; empty for a first implementation.
    pub review_feedback: &'a str,
    /// The record of the failed attempts, without what their gates said.
    pub record: Option<&'a str>,
    /// What the gates said to the last one.
    pub outputs: &'a [FailedOutput],
    /// The last attempts.
    pub attempts: &'a [Attempt],
    /// What is asked beyond the task.
    pub escalation: Escalation,
    /// The patch of the work that keeps failing.
    pub patch: &'a str,
    /// Files that the error names, with their contents.
    pub context: &'a [(String, String)],
    /// The accounts of the iterations before, oldest first.
    pub handoffs: &'a [Handoff],
    /// Skills that the task names, with their text.
    pub skills: &'a [(String, String)],
    /// Gates that were red before the run began.
    pub broken_before: &'a [String],
    /// The commands that will be run, so that the agent can run them first.
    pub gates: &'a [String],
    /// Who commits.
    pub commits: Commits,
}

impl<'a> TaskParts<'a> {
    /// Returns what a first attempt at a task is told if nothing else is known.
    pub fn first(task: &'a Task) -> Self {
        Self {
            task,
            review_feedback: "",
            record: None,
            outputs: &[],
            attempts: &[],
            escalation: Escalation::None,
            patch: "",
            context: &[],
            handoffs: &[],
            skills: &[],
            broken_before: &[],
            gates: &[],
            commits: Commits::Ralph,
        }
    }
}

/// Who commits the work of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// ralph, after the gates passed.
    Ralph,
    /// The agent.
    Agent,
}

/// Returns the prompt for an attempt at a task.
pub fn attempt(parts: &TaskParts<'_>) -> String {
    let mut text = task_section(parts.task);
    if !parts.review_feedback.is_empty() {
        let _ = write!(
            text,
            "\n## What the review found\nA reviewer looked at this task and wants the following mended. Mend exactly this:\n\n{}\n",
            parts.review_feedback.trim()
        );
    }
    text.push_str("\n## Previous attempts\n");
    match parts.record {
        None => text.push_str("First attempt.\n"),
        Some(record) => {
            let _ = write!(
                text,
                "Attempts at this task have failed. Understand why before you change anything. Their work is described below; what is still in the work tree is yours to keep or to undo.\n\n{}\n",
                record.trim_end()
            );
        }
    }
    escalation_section(&mut text, parts);
    if !parts.broken_before.is_empty() {
        text.push_str("\n## Broken before\nThese checks failed before any work began. They must pass all the same before this task counts as done:\n");
        for gate in parts.broken_before {
            let _ = writeln!(text, "- `{gate}`");
        }
    }
    for (name, skill) in parts.skills {
        let _ = write!(text, "\n## Skill: {name}\n{}\n", skill.trim_end());
    }
    handoff_section(&mut text, parts.handoffs);
    process_section(&mut text, parts);
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn task_section(task: &Task) -> String {
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
    text
}

fn escalation_section(text: &mut String, parts: &TaskParts<'_>) {
    match parts.escalation {
        Escalation::None | Escalation::HardStop => return,
        Escalation::StrategyShift | Escalation::ContextExpansion => {}
    }
    let count = parts.attempts.len();
    let _ = write!(
        text,
        "\n## Another approach is required\nThe last attempts failed in the same way. What they tried does not work, and trying it again will not help. Take a fundamentally different approach.\n\nThe failure, word for word:\n"
    );
    for output in parts.outputs {
        let _ = write!(text, "\n{}\n", indented(&output.text));
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
        let _ = write!(text, "\nThe change that keeps failing:\n\n{}\n", indented(parts.patch));
    }
    if parts.escalation == Escalation::ContextExpansion && !parts.context.is_empty() {
        text.push_str("\nThe failure speaks of something that is missing. These files may help:\n");
        for (path, content) in parts.context {
            let _ = write!(text, "\n### {path}\n{}\n", indented(content));
        }
    }
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Returns a patch without what it says of one file. The list is ralph's own, so what became of
/// it is no part of the work.
pub fn without_file(patch: &str, file: &Path) -> String {
    let mut is_shown = true;
    let lines = patch.split_inclusive('\n').filter(|line| {
        // Lines of content begin with a space or a sign.
        if let Some(names) = line.strip_prefix("diff --git ") {
            let name = names.trim_end().rsplit_once(" b/").map_or("", |(_, name)| name);
            is_shown = name.is_empty() || !file.ends_with(name);
        }
        is_shown
    });
    lines.collect()
}

fn handoff_section(text: &mut String, handoffs: &[Handoff]) {
    let Some((last, earlier)) = handoffs.split_last() else { return };
    let _ = write!(text, "\n## The iteration before\n{}\n", last.decisions());
    if !earlier.is_empty() {
        text.push_str("\n## Earlier iterations\n");
        for handoff in earlier.iter().rev() {
            let _ = writeln!(text, "{}", handoff.line());
        }
    }
}

fn process_section(text: &mut String, parts: &TaskParts<'_>) {
    text.push_str(
        "\n## How to work\n\
         1. Read the code this task is about before you change it. Search before you assume that something is missing.\n\
         2. Write or extend tests for the criteria first, then the code. No placeholders, no stubs.\n\
         3. Do this task and nothing else. If you find other work, propose it in `plan_amendments`.\n",
    );
    if parts.gates.is_empty() {
        text.push_str("4. Run the project's own checks and make them pass.\n");
    } else {
        text.push_str(
            "4. These checks will be run after you, and all must pass. Run them yourself first:\n",
        );
        for gate in parts.gates {
            let _ = writeln!(text, "   - `{gate}`");
        }
    }
    text.push_str(match parts.commits {
        Commits::Ralph => {
            "5. Do not commit and do not edit the task list: both are done for you after the checks.\n"
        }
        Commits::Agent => "5. Commit your work with a message that says what it does.\n",
    });
    text.push_str(
        "6. If you cannot go on without a person (a secret, a decision, an access), say so in `blocked` and why.\n\
         \n## Your answer\n\
         End with a handoff: what you did, where you left the plan and why, bugs, decisions, constraints, tests added, and what is left. Be exact; the next iteration knows nothing but this.\n",
    );
}

/// What the prompt for a review is put together from.
#[derive(Debug, Clone, Copy)]
pub struct ReviewParts<'a> {
    /// The task; none where the work is a prompt.
    pub task: Option<&'a Task>,
    /// What the work was asked for in, where there is no task.
    pub asked: &'a str,
    /// What is to be judged.
    pub focus: Focus,
    /// The change, as a patch.
    pub patch: &'a str,
    /// What the one who did the work says about it.
    pub account: Option<&'a Handoff>,
    /// What the last review wanted to be mended.
    pub last_feedback: &'a str,
    /// Guidance of the user's.
    pub hint: Option<&'a str>,
}

/// What a review looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    /// Whether the work does what was asked, criterion by criterion.
    Criteria,
    /// Whether the work is good.
    Quality,
}

/// Returns the prompt for a review with a fresh context.
pub fn review(parts: &ReviewParts<'_>) -> String {
    let mut text = String::from(
        "You review the work of somebody else. You did not write it, and you change nothing: do not edit, create or delete files, and do not commit. Whatever you change is undone.\n\n",
    );
    match parts.task {
        Some(task) => text.push_str(&task_section(task)),
        None => {
            let _ = writeln!(text, "## What was asked\n{}", parts.asked.trim_end());
        }
    }
    if let Some(hint) = parts.hint {
        let _ = write!(text, "\n## Look out for\n{}\n", hint.trim_end());
    }
    if !parts.last_feedback.is_empty() {
        let _ = write!(
            text,
            "\n## What the last review wanted\n{}\n\nCheck first whether this is mended.\n",
            parts.last_feedback.trim()
        );
    }
    if let Some(account) = parts.account {
        let _ = write!(
            text,
            "\n## What the author says\nThis is a claim, not a fact. Check it.\n{}\n",
            account.decisions()
        );
    }
    if !parts.patch.is_empty() {
        let _ = write!(text, "\n## The change\n{}\n", indented(parts.patch));
    }
    text.push_str(match parts.focus {
        Focus::Criteria => {
            "\n## How to review\n\
             1. Read the changed files whole, not just the change.\n\
             2. Go through the acceptance criteria one by one. For each, find the evidence in code or tests, or say what is missing. Run what you need to run.\n\
             3. Look for what was not asked for, for tests that cannot fail, and for stubs that only look done.\n\
             4. Ask for changes only for real faults against the task, and name exactly what to mend and where (file and line). Style and taste are no reason.\n"
        }
        Focus::Quality => {
            "\n## How to review\n\
             1. Read the changed files whole, not just the change.\n\
             2. Look for bugs, missing error handling, needless complexity, duplication, weak tests and unclear names.\n\
             3. Ask for changes only where a careful colleague would, and name exactly what to mend and where (file and line).\n"
        }
    });
    text.push_str(
        "\n## Your answer\n\
         Answer with `verdict` (`approved` or `changes_requested`), `feedback` (what to mend; empty if approved) and `criteria` (each criterion with `met` and the `evidence` you found).\n",
    );
    text
}

#[cfg(test)]
mod tests;
