//! The prompts for work on a task: implementing it, mending what a review found, and reviewing.
//!
//! What each section says. Not here: in which order they stand, which is the template's, and
//! where their contents come from.

use std::fmt::Write as _;
use std::path::Path;

use super::keeping::{self, Keeping};
use super::role::{Frame, Rendered, RolePrompt, Values, render, section};
use super::within::{Failure, render_within};
use crate::attempt::{Attempt, FailedOutput};
use crate::context::Room;
use crate::event::TreeId;
use crate::handoff::{Handoff, WorkOutcome};
use crate::memory::Memory;
use crate::stuck::Escalation;
use crate::task::Task;

/// How much of a patch a reviewer is shown. The rest is in the work tree.
pub const REVIEWED_PATCH: usize = 30_000;

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
    /// What became of the work of the last one, where that is known.
    pub last_outcome: Option<&'a WorkOutcome>,
    /// The last attempts.
    pub attempts: &'a [Attempt],
    /// What is asked beyond the task.
    pub escalation: Escalation,
    /// The patch of the work that keeps failing.
    pub patch: &'a str,
    /// Files that the error names, with their contents.
    pub context: &'a [(String, String)],
    /// The accounts of the iterations before, oldest first. The last few join.
    pub handoffs: &'a [Handoff],
    /// What is remembered of all of them.
    pub memory: Option<&'a Memory>,
    /// Skills that the task names, with their text.
    pub skills: &'a [(String, String)],
    /// Gates that were red before the run began.
    pub broken_before: &'a [String],
    /// What an attempt may not change.
    pub protected: &'a [String],
    /// Who keeps the list and who commits.
    pub keeping: Keeping<'a>,
    /// How much there is room for.
    pub room: Room,
}

impl<'a> TaskParts<'a> {
    /// Returns what a first attempt at a task is told if nothing else is known.
    pub fn first(task: &'a Task, keeping: Keeping<'a>) -> Self {
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
            room: Room::default(),
        }
    }
}

/// Returns the prompt for a first attempt at a task.
pub fn implement(parts: &TaskParts<'_>, frame: &Frame<'_>) -> Rendered {
    let keeping = parts.keeping.of_implement(parts.task, frame.beside.progress.as_deref());
    attempt(RolePrompt::Implement, parts, frame, keeping)
}

/// Returns the prompt for mending what a review found.
pub fn fix(parts: &TaskParts<'_>, frame: &Frame<'_>) -> Rendered {
    let keeping = parts.keeping.of_fix(parts.task, frame.beside.progress.as_deref());
    attempt(RolePrompt::Fix, parts, frame, keeping)
}

fn attempt(
    prompt: RolePrompt,
    parts: &TaskParts<'_>,
    frame: &Frame<'_>,
    keeping: String,
) -> Rendered {
    let feedback = match parts.review_feedback.trim() {
        "" => String::new(),
        feedback => format!(
            "A reviewer looked at this task and wants the following mended, all of it:\n\n{feedback}"
        ),
    };
    let mut values = task_values(parts.task);
    values.extend([
        ("FEEDBACK", section("What the review found", &feedback)),
        ("BROKEN", broken(parts.broken_before)),
        ("GATES", gates(frame.gates) + &protected(parts.protected)),
        ("KEEPING", keeping),
        ("ANSWER", parts.keeping.attempt_answer().to_owned()),
    ]);
    render_within(prompt, parts, frame, values, &failure(parts))
}

fn task_values(task: &Task) -> Values {
    Values::from([
        ("TASK_ID", task.id.0.clone()),
        ("TASK_TITLE", task.title.trim().to_owned()),
        ("TASK", task_section(task)),
    ])
}

fn failure(parts: &TaskParts<'_>) -> Failure {
    let mut text = String::from("## Previous attempts\n");
    match parts.record {
        None => text.push_str("First attempt.\n"),
        Some(record) => {
            let _ = write!(
                text,
                "Attempts at this task have failed. Understand why before you change anything. {}\n\n{}\n",
                whereabouts(parts.last_outcome),
                record.trim_end()
            );
        }
    }
    text.truncate(text.trim_end().len());
    let mut output = String::new();
    escalation_section(&mut output, parts);
    output.truncate(output.trim_end().len());
    Failure { record: text, output }
}

/// Returns where the changes of the last attempt are.
fn whereabouts(outcome: Option<&WorkOutcome>) -> String {
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
        )
        | None => {
            "Their changes are still in the work tree, for you to keep or to undo.".to_owned()
        }
    }
}

fn broken(gates: &[String]) -> String {
    if gates.is_empty() {
        return String::new();
    }
    format!(
        "## Broken before\nThese checks failed before any work began. They must pass all the same before this task counts as done:\n{}",
        commands(gates)
    )
}

pub(super) fn gates(gates: &[String]) -> String {
    let text = if gates.is_empty() {
        "Run the project's own checks.".to_owned()
    } else {
        format!(
            "These will be run after you, and all must pass. Run them yourself first:\n{}",
            commands(gates)
        )
    };
    section("Checks", &text)
}

/// So many protected paths are named; a longer list would be skipped over.
const MOST_PROTECTED: usize = 20;

fn protected(paths: &[String]) -> String {
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
        "\nProtected, an attempt that changes one of these fails: {}{more}, and the settings of ralph.",
        named.join(", ")
    )
}

fn commands(commands: &[String]) -> String {
    let lines = commands.iter().map(|command| format!("- `{}`", command.trim()));
    lines.collect::<Vec<_>>().join("\n")
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
    text.truncate(text.trim_end().len());
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
        "## Another approach is required\nThe last attempts failed in the same way. What they tried does not work, and trying it again will not help. Take a fundamentally different approach.\n\nThe failure, word for word:\n"
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
    /// The trees before and after it, where git knows them.
    pub range: Option<(&'a TreeId, &'a TreeId)>,
    /// What the one who did the work says about it.
    pub account: Option<&'a Handoff>,
    /// What the last review wanted to be mended.
    pub last_feedback: &'a str,
    /// Guidance of the user's.
    pub hint: Option<&'a str>,
    /// Who keeps the list; none for the verdict of a gate, which no list knows of.
    pub keeping: Option<Keeping<'a>>,
}

impl<'a> ReviewParts<'a> {
    /// Returns what a review is told if nothing else is known.
    pub fn of(task: Option<&'a Task>) -> Self {
        Self {
            task,
            asked: "",
            focus: Focus::Criteria,
            patch: "",
            range: None,
            account: None,
            last_feedback: "",
            hint: None,
            keeping: None,
        }
    }
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
pub fn review(parts: &ReviewParts<'_>, frame: &Frame<'_>) -> Rendered {
    let prompt = match parts.focus {
        Focus::Criteria => RolePrompt::Review,
        Focus::Quality => RolePrompt::Quality,
    };
    render(prompt, frame, review_values(parts, frame))
}

fn review_values(parts: &ReviewParts<'_>, frame: &Frame<'_>) -> Values {
    let mut values = match parts.task {
        Some(task) => task_values(task),
        None => Values::from([("TASK", section("What was asked", parts.asked))]),
    };
    let feedback = match parts.last_feedback.trim() {
        "" => String::new(),
        feedback => format!("{feedback}\n\nCheck first whether this is mended, all of it."),
    };
    let account = parts
        .account
        .map(|account| format!("This is a claim, not a fact. Check it.\n{}", account.decisions()));
    let checks = match frame.gates {
        [] => String::new(),
        gates => format!(
            "These were run on this work. Run them again where in doubt:\n{}",
            commands(gates)
        ),
    };
    let progress = frame.beside.progress.as_deref();
    let (keeping, answer) = match (&parts.keeping, parts.task) {
        (Some(keeping), Some(task)) => (keeping.of_review(task, progress), keeping.review_answer()),
        (Some(_), None) | (None, _) => {
            (keeping::CHANGE_NOTHING.to_owned(), keeping::ANSWER_WITH_VERDICT)
        }
    };
    values.extend([
        ("HINT", section("Look out for", parts.hint.unwrap_or_default())),
        ("FEEDBACK", section("What the last review wanted", &feedback)),
        ("HANDOFFS", section("What the author says", &account.unwrap_or_default())),
        ("DIFF", diff(parts)),
        ("GATES", section("Checks", &checks)),
        ("KEEPING", keeping),
        ("ANSWER", answer.to_owned()),
    ]);
    values
}

fn diff(parts: &ReviewParts<'_>) -> String {
    let range = parts.range.filter(|(from, to)| from != to).map(|(TreeId(from), TreeId(to))| {
        format!("`git diff {from} {to}` shows the whole of it, also where it is cut here.\n\n")
    });
    let patch = indented(parts.patch);
    section("The change", &format!("{}{patch}", range.unwrap_or_default()))
}

#[cfg(test)]
mod tests;
