//! The end of a run: its outcome, its totals, and the next commands to type.
//!
//! Not here: problems found before a run began (`error_report`).

use std::io::Write;

use ralph_model::glob::Pattern;
use ralph_model::ids::Role;
use ralph_model::outcome::{Outcome, SandboxBlockedGate};
use ralph_model::plan::{PlanState, RemovedItems};
use ralph_model::recipe::CommitPolicy;
use ralph_model::run::RunState;
use ralph_model::text::{choose_plural, quote_word};
use ralph_model::units::{Millis, Timestamp};

use crate::line_text::shorten_text;
use crate::line_writer::LineWriter;
use crate::next_steps::{self, FailedWork, NextStepFacts};
use crate::sanitize;
use crate::stream::format_tokens;
use crate::style::{LineMark, Paint};

/// The last line is the one people look for, so it shows the whole message of git or the agent
/// unless that is absurdly long.
const OUTCOME_CHARS: usize = 2_000;

/// Prints how a run ended, with its totals and the next commands.
pub(crate) fn print_summary<W: Write>(
    page: &mut LineWriter<W>,
    outcome: &Outcome,
    now: Timestamp,
    state: &RunState,
) {
    // Some warnings are no events, and those of an earlier process were not written here.
    let warnings = page.count_warnings().max(state.totals.warnings);
    page.write_blank_line();
    print_outcome(page, outcome);
    let removed = state.last_plan.as_ref().and_then(PlanState::removed);
    if let Some(text) = removed.and_then(RemovedItems::describe) {
        let text = shorten_text(page, &text);
        page.write_indented(2, Paint::Warn, &text);
    }
    crate::task_lines::print_questions(page, state);
    page.write_indented(2, Paint::None, &format_figures(state, warnings));
    crate::task_lines::print_task_summary(page, state);
    crate::task_lines::print_left_open(page, state);
    let usage = state.total_usage();
    if usage.tokens().0 > 0 {
        page.write_indented(2, Paint::None, &format!("tokens: {}", format_tokens(usage)));
    }
    if let Some(text) = describe_changes(state) {
        page.write_indented(2, Paint::None, &text);
    }
    for note in state.unread_notes() {
        let text = shorten_text(page, &note.text);
        let text = format!("no agent read this note, because the run ended first: {text}");
        page.write_indented(2, Paint::Warn, &text);
    }
    if !state.autorun_changes.is_empty() {
        page.write_indented(2, Paint::Warn, &format_autorun_files(state));
    }
    if *outcome != Outcome::Complete && !state.files_with_shapes.is_empty() {
        print_secrets_hint(page, state);
    }
    if let Outcome::AgentFailed { failure, .. } = outcome
        && let Some(hint) = &failure.hint
    {
        let hint = shorten_text(page, hint);
        page.write_indented(2, Paint::None, &format!("hint: {hint}"));
    }
    match outcome {
        Outcome::BaselineBroken { sandbox: Some(gate), .. } => {
            print_sandbox_hints(page, gate, NEW_RUN_HINT);
        }
        Outcome::SandboxBlocked { gate } => print_sandbox_hints(page, gate, RESUME_HINT),
        _ => {}
    }
    // A worker is resumed by the run that it belongs to.
    if state.recipe.task_work().is_some_and(|work| work.job.is_some()) {
        return;
    }
    let commands = next_steps::suggest_commands(&collect_facts(outcome, state), |at| {
        page.clock().format_minutes(at, now)
    });
    let widest = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, what) in commands {
        page.write_indented(2, Paint::None, &format!("{command:widest$}  {what}"));
    }
}

/// Prints the setting that allows what only has the shape of a secret.
fn print_secrets_hint<W: Write>(page: &mut LineWriter<W>, state: &RunState) {
    /// More files have a pattern in common, which the user knows best.
    const NAMED: usize = 5;
    let known = state.recipe.secrets_allowed.iter().map(|it| it.as_str().to_owned());
    let is_glob = |path: &str| path.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let refused = state.files_with_shapes.iter().take(NAMED).map(|path| {
        let escaped = Pattern::for_path(path).filter(|_| is_glob(path));
        escaped.map_or_else(|| path.clone(), |pattern| pattern.as_str().to_owned())
    });
    let globs: Vec<String> = known
        .chain(refused)
        .map(|it| format!("{:?}", sanitize::sanitize_line(&it, 300, "")))
        .collect();
    let hint = "hint: if what was refused as a secret is sample data, add this to the settings:";
    page.write_indented(2, Paint::None, hint);
    let line = format!("\"secrets\": {{ \"allow\": [{}] }}", globs.join(", "));
    page.write_indented(4, Paint::None, &line);
}

/// The hint for a run that has not begun: settings take effect only in a new run.
const NEW_RUN_HINT: &str =
    "hint: then start a new run; `\"baseline\": \"off\"` runs without this check";

/// The hint for a run with work to keep: it takes over what the sandbox settings allow now.
const RESUME_HINT: &str = "hint: then `ralph resume` runs the gates again, with these settings";

/// Prints what makes a gate pass in the sandbox.
fn print_sandbox_hints<W: Write>(page: &mut LineWriter<W>, gate: &SandboxBlockedGate, next: &str) {
    let line = |text: &str| sanitize::sanitize_line(text, OUTCOME_CHARS, "...");
    let command = quote_word(&line(&gate.command));
    let cures: Vec<String> = gate.sign.list_remedies().map(|it| line(&it)).collect();
    page.write_indented(2, Paint::None, &format!("hint: {}", cures.join("; or ")));
    page.write_indented(2, Paint::None, next);
    page.write_indented(2, Paint::None, "hint: to try the gate where it runs:");
    page.write_indented(
        4,
        Paint::None,
        &format!("ralph sandbox exec --as gate -- sh -c {command}"),
    );
}

/// Prints how a run ended in one line.
pub(crate) fn print_outcome<W: Write>(page: &mut LineWriter<W>, outcome: &Outcome) {
    let mark = match outcome {
        Outcome::Complete => LineMark::Ok,
        Outcome::IterationsUsedUp { .. }
        | Outcome::NothingChanges { .. }
        | Outcome::SameFailure { .. }
        | Outcome::BudgetUsedUp { .. }
        | Outcome::LimitTooLong { .. }
        | Outcome::TasksLeft { .. }
        | Outcome::ApprovedAtCap { .. }
        | Outcome::Interrupted => LineMark::Warn,
        _ => LineMark::Error,
    };
    let more = page.style().format_mark(LineMark::More);
    let text = sanitize::sanitize_line(&outcome.to_string(), OUTCOME_CHARS, more);
    page.write_marked(mark, &format!("Run ended: {text}"));
}

/// Returns `3 iterations, 2 commits, $1.23, 12m 4s`.
fn format_figures(state: &RunState, warnings: u32) -> String {
    let totals = &state.totals;
    let counted =
        |count: u32, what: &str| format!("{count} {what}{}", choose_plural(count as usize));
    let workers = state.parallel.as_ref().map(|it| it.total_iterations());
    let iterations = counted(workers.unwrap_or(state.iterations), "iteration");
    let mut parts = vec![iterations, counted(totals.commits, "commit")];
    parts.extend(state.total_usage().cost.map(|cost| cost.to_string()));
    parts.push(state.ran.to_string());
    let waited = totals.waited.saturating_add(totals.retry_waited);
    if waited > Millis::ZERO {
        parts.push(format!("{waited} of waiting"));
    }
    if warnings > 0 {
        parts.push(counted(warnings, "warning"));
    }
    parts.join(", ")
}

/// Returns which files the run changed and whether they are committed, or that a complete run
/// changed nothing; `None` if that is unknown.
fn describe_changes(state: &RunState) -> Option<String> {
    const NAMED: usize = 5;
    const UNOBSERVED: &str = "uncommitted changes of the last agent call; `git status` shows them";
    let files = state.collect_changed_files().unwrap_or_default();
    let unobserved = state.has_unobserved_changes();
    if files.is_empty() && unobserved {
        return Some(format!("changed: {UNOBSERVED}"));
    }
    if files.is_empty() {
        return state.is_complete_without_changes().then(|| match state.totals.gates {
            0 => "changed: nothing".into(),
            _ => "changed: nothing; the gates passed on the files as they were".into(),
        });
    }
    let named: Vec<String> =
        files.iter().take(NAMED).map(|it| sanitize::sanitize_line(it, 60, "...")).collect();
    let more = if files.len() > NAMED { ", ..." } else { "" };
    let is_open = state.current.as_ref().is_some_and(|it| it.observation().is_some())
        || !state.unlanded_files.is_empty();
    let how = match state.totals.commits {
        _ if unobserved => format!("; and {UNOBSERVED}"),
        0 => ", not committed; `git diff` and `git status` show them".into(),
        _ if is_open => ", the last ones not committed".into(),
        _ => String::new(),
    };
    let count = files.len();
    Some(format!("changed: {count} file{}: {}{more}{how}", choose_plural(count), named.join(", ")))
}

/// Returns `2 changed autorun files, check them before use: .envrc, .vscode/tasks.json`.
fn format_autorun_files(state: &RunState) -> String {
    const NAMED: usize = 3;
    let count = state.autorun_changes.len();
    let names: Vec<String> = state
        .autorun_changes
        .iter()
        .take(NAMED)
        .map(|file| sanitize::sanitize_line(&file.path, 60, "..."))
        .collect();
    let more = if count > NAMED { ", ..." } else { "" };
    let (files, them) = if count == 1 { ("file", "it") } else { ("files", "them") };
    format!("{count} changed autorun {files}, check {them} before use: {}{more}", names.join(", "))
}

/// Returns the notes that a command can pass on; planning takes none.
fn collect_note_texts(state: &RunState) -> Vec<&str> {
    let notes = state.unread_notes().iter().filter(|_| state.recipe.role != Role::Plan);
    let workers = state.parallel.iter().flat_map(|it| it.jobs.keys());
    next_steps::drop_task_names(notes.map(|note| note.text.as_str()), &workers)
}

/// Returns the facts that select the next commands.
fn collect_facts<'a>(outcome: &'a Outcome, state: &'a RunState) -> NextStepFacts<'a> {
    let failed = match (outcome, &state.tasks) {
        // One task is enough here; the report lists the commands for every task.
        (Outcome::TasksLeft { failed, .. }, Some(task_state)) => failed
            .iter()
            .take(1)
            .map(|task| {
                let given_up = task_state.given_up.get(task);
                FailedWork {
                    task,
                    branch: given_up.and_then(|it| it.branch.as_deref()),
                    onto: given_up.and_then(|it| it.onto.as_deref()),
                }
            })
            .collect(),
        (_, _) => Vec::new(),
    };
    let own = match state.recipe.landing.commit {
        CommitPolicy::Agent => 0,
        CommitPolicy::Ralph | CommitPolicy::Scm(_) | CommitPolicy::NoCommit => state.totals.commits,
    };
    NextStepFacts {
        outcome: Some(outcome),
        failed,
        approved_at_cap: Vec::new(),
        commits: own,
        agent_commits: state.totals.commits - own,
        started: state.started,
        has_tasks: state.tasks.is_some(),
        is_plan: state.recipe.role == Role::Plan,
        unread_notes: collect_note_texts(state),
        run: None,
    }
}
