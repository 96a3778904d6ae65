//! The `[ralph]` lines of `--verbose`: commands, prompts, exit codes, completion detection and
//! durations.
//!
//! They are printed in addition to the other lines. Not here: the settings, which the binary
//! reports.

use std::io::Write;

use ralph_model::agent_output::Reply;
use ralph_model::event::{Event, Recorded};
use ralph_model::gate::{Gate, GateResult, GateStatus};
use ralph_model::judgement::{Judgement, Landing, Verdict};
use ralph_model::recipe::Completion;
use ralph_model::run::RunState;
use ralph_model::text::quote_for_shell;
use ralph_model::units::Timestamp;
use ralph_model::worktree::{Landed, TreeDiff};

use crate::line_text::{format_iteration, shorten_id, shorten_text};
use crate::line_writer::LineWriter;
use crate::style::{LineMark, Paint};
use crate::{budget, sanitize};

/// How many characters of a prompt are shown.
const PROMPT_CHARS: usize = 200;
/// Command lines are shown whole unless they are absurdly long.
const COMMAND_CHARS: usize = 10_000;

/// State that later `[ralph]` lines depend on.
#[derive(Debug, Default)]
pub(crate) struct VerboseLines {
    /// When the open iteration began.
    iteration_started: Option<Timestamp>,
}

/// Writes one `[ralph]` line. Never wraps it: people copy commands from it.
pub(crate) fn write_remark<W: Write>(page: &mut LineWriter<W>, text: &str) {
    let line = format!("[ralph] {text}");
    page.write_line(&page.style().paint(Paint::Dim, &line));
}

impl VerboseLines {
    /// Prints the `[ralph]` lines that precede the normal lines of an event.
    pub(crate) fn print_before<W: Write>(
        page: &mut LineWriter<W>,
        recorded: &Recorded,
        state: &RunState,
    ) {
        match &recorded.event {
            Event::RunStarted { journal, project, .. } => {
                let project = shorten_text(page, &project.display().to_string());
                write_remark(page, &format!("Project: {project}, journal version {journal}"));
            }
            Event::Asked { command, prompt_chars, prompt_start, budget, .. } => {
                print_agent_call(page, command, *prompt_chars, prompt_start);
                if !budget.is_empty() {
                    for line in budget::format_table(budget, &state.recipe.prompt.context) {
                        write_remark(page, &line);
                    }
                }
            }
            Event::GateChecked { result, .. } => print_gate_result(page, result),
            Event::Judged { judgement } => print_completion(page, judgement, state),
            _ => {}
        }
    }

    /// Prints the `[ralph]` lines that follow the normal lines of an event.
    pub(crate) fn print_after<W: Write>(
        &mut self,
        page: &mut LineWriter<W>,
        recorded: &Recorded,
        state: &RunState,
    ) {
        match &recorded.event {
            Event::IterationStarted { iteration, .. } => {
                self.iteration_started = Some(recorded.at);
                write_remark(page, &format!("{} starting", format_iteration(*iteration, state)));
            }
            Event::Replied { reply, .. } => print_reply(page, reply),
            Event::Observed { observation: Some(observation), .. } => {
                let files = observation.files.len() + observation.more_files as usize;
                let tree = shorten_id(&observation.tree.0);
                write_remark(
                    page,
                    &format!("Running guardrails on tree {tree}, {files} paths changed"),
                );
            }
            Event::BaselineChecked { result } => print_gate_result(page, result),
            Event::Landed { landed: Landed::Surveyed { tree, changes, .. } } => {
                let tree = tree.as_ref().map(|tree| shorten_id(&tree.0)).unwrap_or_default();
                let differs = match changes {
                    TreeDiff::Dirty => "differs from",
                    TreeDiff::Clean => "is the same as",
                };
                write_remark(page, &format!("The tree {tree} {differs} the last commit"));
            }
            Event::IterationEnded { iteration } => {
                if let Some(started) = self.iteration_started.take() {
                    let took = recorded.at.elapsed_since(started);
                    write_remark(page, &format!("Iteration {iteration} took {took}"));
                }
            }
            _ => {}
        }
    }
}

/// Prints the `[ralph]` line of a gate that starts.
pub(crate) fn print_gate_start<W: Write>(page: &mut LineWriter<W>, gate: &Gate) {
    let command = sanitize::sanitize_line(gate.check.label(), COMMAND_CHARS, "");
    write_remark(page, &format!("Running guardrail: {command}"));
}

fn print_gate_result<W: Write>(page: &mut LineWriter<W>, result: &GateResult) {
    let text = match (&result.end, result.status) {
        (Some(end), GateStatus::Passed) if result.is_verdict => {
            format!("Reviewer approved ({})", end.ran)
        }
        (Some(end), _) if result.is_verdict => format!("Reviewer did not approve ({})", end.ran),
        (Some(end), _) => {
            format!("Guardrail exited with code {} ({})", result.exit_code(), end.ran)
        }
        (None, GateStatus::Cached) => "Guardrail not run again: the tree is the same".to_owned(),
        (None, GateStatus::Passed | GateStatus::Failed) => "Guardrail not run".to_owned(),
    };
    write_remark(page, &text);
}

fn print_agent_call<W: Write>(
    page: &mut LineWriter<W>,
    command: &[String],
    prompt_chars: usize,
    start: &str,
) {
    let command = sanitize::sanitize_line(&quote_for_shell(command), COMMAND_CHARS, "...");
    write_remark(page, &format!("Agent command: {command}"));
    let shown =
        sanitize::sanitize_line(start, PROMPT_CHARS, page.style().format_mark(LineMark::More));
    write_remark(page, &format!("Prompt ({prompt_chars} chars): {shown}"));
}

fn print_reply<W: Write>(page: &mut LineWriter<W>, reply: &Reply) {
    let mut parts = vec![format!("Agent ended: {} ({})", reply.end.ending, reply.end.ran)];
    parts.extend(reply.model.as_ref().map(|model| format!("model {}", shorten_text(page, model))));
    parts.extend(
        reply.session.as_ref().map(|session| format!("session {}", shorten_text(page, session))),
    );
    write_remark(page, &parts.join(", "));
}

/// Prints what completion detection looked for, and what it found.
fn print_completion<W: Write>(page: &mut LineWriter<W>, judgement: &Judgement, state: &RunState) {
    let sought = shorten_text(page, &state.recipe.completion_response);
    let text = match &judgement.verdict {
        Verdict::Complete if state.recipe.completion == Completion::Gates => {
            "not looked for; the gates decide".to_owned()
        }
        Verdict::Complete => format!("looked for \"{sought}\" and found it"),
        Verdict::Passed { signal: Some(signal) } => {
            format!("looked for \"{sought}\", found \"{}\"", shorten_text(page, signal))
        }
        Verdict::Passed { signal: None } => format!("looked for \"{sought}\", found no tag"),
        Verdict::GatesFailed { gates } => {
            format!("not checked, because a gate failed: {}", shorten_text(page, &gates.join(", ")))
        }
        Verdict::AttemptFailed { .. } => "not checked, because the agent gave no answer".to_owned(),
        _ => "not checked; the task list decides".to_owned(),
    };
    write_remark(page, &format!("Completion: {text}"));
    let tree = match judgement.landing {
        Landing::Keep => "is kept as it is",
        Landing::Commit => "is committed",
        Landing::FailureBranch => "is saved on a failure branch",
        Landing::Rollback => "is rolled back to the checkpoint",
    };
    let entries = judgement.feedback.len();
    write_remark(
        page,
        &format!("The work tree {tree}; feedback for the next iteration: {entries}"),
    );
}
