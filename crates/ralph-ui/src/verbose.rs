//! The `[ralph]` lines of `--verbose`: commands, prompts, exit codes, completion detection and
//! durations.
//!
//! They are printed in addition to the other lines. Not here: the settings, which the binary
//! reports.

use std::io::Write;

use ralph_core::event::{Changes, Event, Landed, Recorded};
use ralph_core::gate::{Gate, GateResult, GateStatus};
use ralph_core::judge::{Judgement, Landing, Verdict};
use ralph_core::ports::Activity;
use ralph_core::reading::Reply;
use ralph_core::recipe::Completion;
use ralph_core::run::RunState;
use ralph_core::units::Timestamp;

use crate::budget;
use crate::lines::{iteration_of, short, words};
use crate::page::Page;
use crate::safe;
use crate::style::{Mark, Paint};

/// How many characters of a prompt are shown.
const PROMPT_CHARS: usize = 200;
/// Command lines are shown whole unless they are absurdly long.
const COMMAND_CHARS: usize = 10_000;

/// State that later `[ralph]` lines depend on.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    /// When the open iteration began.
    iteration_started: Option<Timestamp>,
}

/// Writes one `[ralph]` line. Never wraps it: people copy commands from it.
pub(crate) fn remark<W: Write>(page: &mut Page<W>, text: &str) {
    let line = format!("[ralph] {text}");
    page.line(&page.style().paint(Paint::Dim, &line));
}

impl Remarks {
    /// Prints the `[ralph]` lines that precede the normal lines of an event.
    pub(crate) fn before<W: Write>(page: &mut Page<W>, recorded: &Recorded, state: &RunState) {
        match &recorded.event {
            Event::RunStarted { journal, project, .. } => {
                let project = words(page, &project.display().to_string());
                remark(page, &format!("Project: {project}, journal version {journal}"));
            }
            Event::Asked { command, prompt_chars, prompt_start, budget, .. } => {
                asked(page, command, *prompt_chars, prompt_start);
                if !budget.is_empty() {
                    for line in budget::table(budget, &state.recipe.prompt.context) {
                        remark(page, &line);
                    }
                }
            }
            Event::GateChecked { result } => gate_checked(page, result),
            Event::Judged { judgement } => judged(page, judgement, state),
            Event::RunResumed { .. }
            | Event::IterationStarted { .. }
            | Event::Checkpointed { .. }
            | Event::Replied { .. }
            | Event::Waiting { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::PlanSeen { .. }
            | Event::Claimed { .. }
            | Event::BaselineStarted { .. }
            | Event::BaselineChecked { .. }
            | Event::Observed { .. }
            | Event::Landed { .. }
            | Event::IterationEnded { .. }
            | Event::Wished { .. }
            | Event::Paused
            | Event::TaskSkipped { .. }
            | Event::Warned { .. }
            | Event::RunEnded { .. } => {}
        }
    }

    /// Prints the `[ralph]` lines that follow the normal lines of an event.
    pub(crate) fn after<W: Write>(
        &mut self,
        page: &mut Page<W>,
        recorded: &Recorded,
        state: &RunState,
    ) {
        match &recorded.event {
            Event::IterationStarted { iteration, .. } => {
                self.iteration_started = Some(recorded.at);
                remark(page, &format!("{} starting", iteration_of(*iteration, state)));
            }
            Event::Replied { reply, .. } => replied(page, reply),
            Event::Observed { observation: Some(observation), .. } => {
                let files = observation.files.len() + observation.more_files as usize;
                let tree = short(&observation.tree.0);
                remark(page, &format!("Running guardrails on tree {tree}, {files} paths changed"));
            }
            Event::BaselineChecked { result } => gate_checked(page, result),
            Event::Landed { landed: Landed::Surveyed { tree, changes, .. } } => {
                let tree = tree.as_ref().map(|tree| short(&tree.0)).unwrap_or_default();
                let differs = match changes {
                    Changes::Some => "differs from",
                    Changes::None => "is the same as",
                };
                remark(page, &format!("The tree {tree} {differs} the last commit"));
            }
            Event::IterationEnded { iteration } => {
                if let Some(started) = self.iteration_started.take() {
                    let took = recorded.at.since(started);
                    remark(page, &format!("Iteration {iteration} took {took}"));
                }
            }
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Waiting { .. }
            | Event::Observed { observation: None, .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::PlanSeen { .. }
            | Event::Claimed { .. }
            | Event::BaselineStarted { .. }
            | Event::GateChecked { .. }
            | Event::Judged { .. }
            | Event::Landed { .. }
            | Event::Wished { .. }
            | Event::Paused
            | Event::TaskSkipped { .. }
            | Event::Warned { .. }
            | Event::RunEnded { .. } => {}
        }
    }
}

/// Prints the `[ralph]` line of a current activity.
pub(crate) fn doing<W: Write>(page: &mut Page<W>, activity: &Activity<'_>) {
    match activity {
        Activity::Gate(gate) => running(page, gate),
        Activity::GateRuns { .. } | Activity::Paused { .. } | Activity::Waiting { .. } => {}
    }
}

fn running<W: Write>(page: &mut Page<W>, gate: &Gate) {
    let command = safe::one_line(gate.check.label(), COMMAND_CHARS, "");
    remark(page, &format!("Running guardrail: {command}"));
}

fn gate_checked<W: Write>(page: &mut Page<W>, result: &GateResult) {
    let text = match (&result.end, result.status) {
        (Some(end), _) => {
            format!("Guardrail exited with code {} ({})", result.exit_code(), end.ran)
        }
        (None, GateStatus::Cached) => "Guardrail not run again: the tree is the same".to_owned(),
        (None, GateStatus::Passed | GateStatus::Failed) => "Guardrail not run".to_owned(),
    };
    remark(page, &text);
}

fn asked<W: Write>(page: &mut Page<W>, command: &[String], prompt_chars: usize, start: &str) {
    let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let command = safe::one_line(&command.join(" "), COMMAND_CHARS, "...");
    remark(page, &format!("Agent command: {command}"));
    let shown = safe::one_line(start, PROMPT_CHARS, page.style().mark(Mark::More));
    remark(page, &format!("Prompt ({prompt_chars} chars): {shown}"));
}

fn replied<W: Write>(page: &mut Page<W>, reply: &Reply) {
    let mut parts = vec![format!("Agent ended: {} ({})", reply.end.ending, reply.end.ran)];
    parts.extend(reply.model.as_ref().map(|model| format!("model {}", words(page, model))));
    parts.extend(reply.session.as_ref().map(|session| format!("session {}", words(page, session))));
    remark(page, &parts.join(", "));
}

/// Prints what completion detection looked for, and what it found.
fn judged<W: Write>(page: &mut Page<W>, judgement: &Judgement, state: &RunState) {
    let sought = words(page, &state.recipe.completion_response);
    let text = match &judgement.verdict {
        Verdict::Complete if state.recipe.completion == Completion::Gates => {
            "not looked for; the gates decide".to_owned()
        }
        Verdict::Complete => format!("looked for \"{sought}\" and found it"),
        Verdict::Passed { signal: Some(signal) } => {
            format!("looked for \"{sought}\", found \"{}\"", words(page, signal))
        }
        Verdict::Passed { signal: None } => format!("looked for \"{sought}\", found no tag"),
        Verdict::GatesFailed { gates } => {
            format!("not checked, because a gate failed: {}", words(page, &gates.join(", ")))
        }
        Verdict::AttemptFailed { .. } => "not checked, because the agent gave no answer".to_owned(),
        Verdict::NothingChanged
        | Verdict::NotHandedIn { .. }
        | Verdict::Blocked { .. }
        | Verdict::Reviewed { .. }
        | Verdict::Skipped { .. }
        | Verdict::Compacted { .. } => "not checked; the task list decides".to_owned(),
    };
    remark(page, &format!("Completion: {text}"));
    let tree = match judgement.landing {
        Landing::Keep => "is kept as it is",
        Landing::Commit => "is committed",
        Landing::Shelve => "is saved on a failure branch",
        Landing::Rollback => "is rolled back to the checkpoint",
    };
    let entries = judgement.feedback.len();
    remark(page, &format!("The work tree {tree}; feedback for the next iteration: {entries}"));
}

/// Returns a word quoted for a shell if needed.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "-_./=:,@%+".contains(it);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        for (word, expect) in [
            ("--model", "--model"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(word), expect);
        }
    }
}
