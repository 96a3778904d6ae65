//! The end of a run: its outcome, its totals, and the next commands to type.
//!
//! Not here: problems found before a run began (`error_report`).

use std::io::Write;

use ralph_core::outcome::{HinderedGate, Outcome};
use ralph_core::recipe::CommitPolicy;
use ralph_core::run::RunState;
use ralph_core::units::{Millis, Timestamp};

use crate::lines::words;
use crate::next::{self, Facts, FailedWork};
use crate::page::Page;
use crate::safe;
use crate::stream::{plural, tokens};
use crate::style::{Mark, Paint};
use crate::verbose::quoted;

/// The last line is the one people look for, so it shows the whole message of git or the agent
/// unless that is absurdly long.
const OUTCOME_CHARS: usize = 2_000;

/// Prints how a run ended, with its totals and the next commands.
pub(crate) fn tell<W: Write>(
    page: &mut Page<W>,
    outcome: &Outcome,
    now: Timestamp,
    state: &RunState,
) {
    page.gap();
    tell_briefly(page, outcome);
    crate::board::questions(page, state);
    page.add(2, Paint::None, &figures(state));
    crate::board::summary(page, state);
    if state.totals.usage.tokens().0 > 0 {
        page.add(2, Paint::None, &format!("tokens: {}", tokens(state.totals.usage)));
    }
    if !state.planted.is_empty() {
        page.add(2, Paint::Warn, &planted(state));
    }
    if let Outcome::AgentFailed { failure, .. } = outcome
        && let Some(hint) = &failure.hint
    {
        let hint = words(page, hint);
        page.add(2, Paint::None, &format!("hint: {hint}"));
    }
    if let Outcome::BaselineBroken { sandbox: Some(gate), .. } = outcome {
        tell_cure(page, gate);
    }
    let commands = next::commands(&facts(outcome, state), |at| page.clock().minutes(at, now));
    let widest = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, what) in commands {
        page.add(2, Paint::None, &format!("{command:widest$}  {what}"));
    }
}

/// Prints what makes a gate pass in the sandbox. It takes effect only in a new run.
fn tell_cure<W: Write>(page: &mut Page<W>, gate: &HinderedGate) {
    let line = |text: &str| safe::one_line(text, OUTCOME_CHARS, "...");
    let command = quoted(&line(&gate.command));
    let cures: Vec<String> = gate.sign.cures().map(|it| line(&it)).collect();
    page.add(2, Paint::None, &format!("hint: {}", cures.join("; or ")));
    page.add(
        2,
        Paint::None,
        "hint: then start a new run; `\"baseline\": \"off\"` runs without this check",
    );
    page.add(2, Paint::None, "hint: to try the gate where it runs:");
    page.add(4, Paint::None, &format!("ralph sandbox exec --as gate -- sh -c {command}"));
}

/// Prints how a run ended in one line.
pub(crate) fn tell_briefly<W: Write>(page: &mut Page<W>, outcome: &Outcome) {
    let (mark, paint) = match outcome {
        Outcome::Complete => (Mark::Ok, Paint::Good),
        Outcome::IterationsUsedUp { .. }
        | Outcome::NothingChanges { .. }
        | Outcome::BudgetUsedUp { .. }
        | Outcome::LimitTooLong { .. }
        | Outcome::TasksLeft { .. }
        | Outcome::Interrupted => (Mark::Warn, Paint::Warn),
        Outcome::AgentFailed { .. }
        | Outcome::NoCommitMessage
        | Outcome::ScmFailed { .. }
        | Outcome::GitFailed { .. }
        | Outcome::BaselineBroken { .. }
        | Outcome::TasksLost { .. }
        | Outcome::PlanMissing
        | Outcome::PromptLost { .. } => (Mark::Error, Paint::Bad),
    };
    let more = page.style().mark(Mark::More);
    let text = safe::one_line(&outcome.to_string(), OUTCOME_CHARS, more);
    page.say(mark, paint, &format!("Run ended: {text}"));
}

/// Returns `3 iterations, 2 commits, $1.23, 12m 4s`.
fn figures(state: &RunState) -> String {
    let totals = &state.totals;
    let counted = |count: u32, what: &str| format!("{count} {what}{}", plural(count as usize));
    let mut parts = vec![counted(state.iterations, "iteration"), counted(totals.commits, "commit")];
    parts.extend(totals.usage.cost.map(|cost| cost.to_string()));
    parts.push(state.ran.to_string());
    if totals.waited > Millis::ZERO {
        parts.push(format!("{} of waiting", totals.waited));
    }
    if totals.warnings > 0 {
        parts.push(counted(totals.warnings, "warning"));
    }
    parts.join(", ")
}

/// Returns `2 changed autorun files, check them before use: .envrc, .vscode/tasks.json`.
fn planted(state: &RunState) -> String {
    const NAMED: usize = 3;
    let count = state.planted.len();
    let names: Vec<String> = state
        .planted
        .iter()
        .take(NAMED)
        .map(|file| safe::one_line(&file.path, 60, "..."))
        .collect();
    let more = if count > NAMED { ", ..." } else { "" };
    let (files, them) = if count == 1 { ("file", "it") } else { ("files", "them") };
    format!("{count} changed autorun {files}, check {them} before use: {}{more}", names.join(", "))
}

/// Returns the facts that select the next commands.
fn facts<'a>(outcome: &'a Outcome, state: &'a RunState) -> Facts<'a> {
    let failed = match (outcome, &state.board) {
        // One task is enough here; the report lists the commands for every task.
        (Outcome::TasksLeft { failed, .. }, Some(board)) => failed
            .iter()
            .take(1)
            .map(|task| {
                let given_up = board.given_up.get(task);
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
        CommitPolicy::Ralph | CommitPolicy::Scm(_) | CommitPolicy::Nobody => state.totals.commits,
    };
    Facts {
        outcome: Some(outcome),
        failed,
        approved_at_cap: Vec::new(),
        commits: own,
        agent_commits: state.totals.commits - own,
        started: state.started,
        has_tasks: state.board.is_some(),
        run: None,
    }
}
