//! Lines about a task list: what is to do, the result of each attempt, and progress.
//!
//! Not here: the lines shared by all workflows (`lines`), and the report.

use std::io::Write;

use ralph_core::claim::Claim;
use ralph_core::gate::{GateResult, GateStatus};
use ralph_core::ids::Role;
use ralph_core::judge::{Judgement, Verdict};
use ralph_core::recipe::Recipe;
use ralph_core::report;
use ralph_core::review::{ReviewPolicy, ReviewResult};
use ralph_core::run::RunState;
use ralph_core::settle;
use ralph_core::stuck::Escalation;
use ralph_core::task::{TaskList, TaskStatus};
use ralph_core::units::Millis;

use crate::lines::{gate_output, warn, words};
use crate::page::Page;
use crate::stream::plural;
use crate::style::{Mark, Paint};

/// Prints a summary of a task list that was read, with an estimate of its iterations.
pub(crate) fn read<W: Write>(
    page: &mut Page<W>,
    list: &TaskList,
    remarks: &[String],
    state: &RunState,
) {
    for remark in remarks {
        warn(page, remark);
    }
    if state.iterations > 0 {
        return;
    }
    let progress = list.progress();
    let open = progress.pending + progress.in_progress;
    let mut text = format!("{} task{}, {open} to do", progress.total, plural(progress.total));
    let iterations = estimate(list, state);
    if open > 0 {
        text.push_str(&format!(
            "; about {iterations} iteration{} if all goes well, {} allowed",
            plural(iterations),
            state.recipe.limits.iterations
        ));
    }
    page.say(Mark::Todo, Paint::None, &text);
}

/// Returns how many iterations are left if every attempt and every review passes.
fn estimate(list: &TaskList, state: &RunState) -> usize {
    let has_review = state
        .recipe
        .task_work()
        .is_some_and(|work| matches!(work.review, ReviewPolicy::Fresh { .. }));
    list.tasks
        .iter()
        .map(|task| match (task.status, task.review.status.is_open()) {
            (TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped, _) => 0,
            (_, true) => 1,
            (TaskStatus::Pending | TaskStatus::InProgress, false) => 1 + usize::from(has_review),
        })
        .sum()
}

/// Prints which task an iteration is for, and which attempt this is.
pub(crate) fn begun<W: Write>(page: &mut Page<W>, state: &RunState) {
    let (Some(board), Some(work), Some(current)) =
        (&state.board, state.recipe.task_work(), &state.current)
    else {
        return;
    };
    let Some(task) = current.task.as_ref().and_then(|id| board.list.task(id)) else { return };
    let log = board.log(&task.id);
    let title = words(page, &task.title);
    let attempt = match (current.role, log.failed) {
        (Role::Review, _) => {
            format!(" (review {})", task.review.count.saturating_add(1))
        }
        (_, 0) => String::new(),
        (_, failed) => {
            let limit = settle::limit(work, &board.list, &task.id);
            format!(" (attempt {} of {limit})", failed + 1)
        }
    };
    page.add(2, Paint::None, &format!("{title}{attempt}"));
    match log.escalation {
        Escalation::None | Escalation::HardStop => {}
        Escalation::StrategyShift => {
            let text = "The same failure again: asking for another approach";
            page.say(Mark::Warn, Paint::Warn, text);
        }
        Escalation::ContextExpansion => {
            let text = "The same failure again: giving the agent the files that it mentions";
            page.say(Mark::Warn, Paint::Warn, text);
        }
    }
}

/// Prints the result of a gate before any work.
pub(crate) fn baseline_checked<W: Write>(page: &mut Page<W>, result: &GateResult, recipe: &Recipe) {
    let gate = words(page, &result.gate);
    match result.status {
        GateStatus::Passed | GateStatus::Cached => {
            page.say(Mark::Pass, Paint::Good, &format!("Gate {gate}: green before any work"));
        }
        GateStatus::Failed => {
            page.say(Mark::Warn, Paint::Warn, &format!("Gate {gate}: broken before any work"));
            gate_output(page, result, recipe);
        }
    }
}

/// Prints the changes of an agent to the task list that were not allowed.
pub(crate) fn claimed<W: Write>(page: &mut Page<W>, claim: &Claim) {
    for violation in &claim.refused {
        let text = words(page, &violation.to_string());
        page.say(Mark::Warn, Paint::Warn, &format!("reverted in the task list: {text}"));
    }
}

fn has_refused(state: &RunState) -> bool {
    let claim = state.current.as_ref().and_then(|current| current.claim.as_ref());
    claim.is_some_and(|claim| !claim.refused.is_empty())
}

/// Returns whether the open iteration is a review without a usable answer.
fn is_without_verdict(state: &RunState) -> bool {
    let current = state.current.as_ref();
    current.is_some_and(|current| current.role == Role::Review && current.work.wrong.is_some())
}

/// Prints the judgement of an attempt at a task. Returns whether the iteration has a task.
pub(crate) fn judged<W: Write>(
    page: &mut Page<W>,
    judgement: &Judgement,
    state: &RunState,
) -> bool {
    let Some(task) = state.current.as_ref().and_then(|current| current.task.as_ref()) else {
        return false;
    };
    let task = words(page, &task.0);
    if let Some(gives_up) = judgement.failed.as_ref().and_then(|failed| failed.gives_up.as_ref()) {
        let why = words(page, &gives_up.words());
        page.say(Mark::Fail, Paint::Bad, &format!("Task {task} {why}"));
        return true;
    }
    let (mark, paint, text) = match &judgement.verdict {
        Verdict::Complete | Verdict::Passed { .. } => {
            let waits = state
                .recipe
                .task_work()
                .is_some_and(|work| matches!(work.review, ReviewPolicy::Fresh { .. }));
            let then = if waits { "passed, waits for its review" } else { "done" };
            (Mark::Pass, Paint::Good, format!("Task {task}: {then}"))
        }
        Verdict::Reviewed { verdict, feedback } => {
            let result = ReviewResult::new(*verdict, feedback);
            let feedback = words(page, feedback);
            match result {
                ReviewResult::Approved => {
                    (Mark::Pass, Paint::Good, format!("Task {task}: approved by the review"))
                }
                ReviewResult::ApprovedAtCap => {
                    let text = format!("Task {task}: approved at the cap: {feedback}");
                    (Mark::Warn, Paint::Warn, text)
                }
                ReviewResult::ChangesRequested => {
                    let text = format!("Task {task}: the review wants changes: {feedback}");
                    (Mark::Step, Paint::Warn, text)
                }
            }
        }
        Verdict::GatesFailed { gates } => {
            let gates = words(page, &gates.join(", "));
            (Mark::Fail, Paint::Bad, format!("Task {task}: attempt failed at {gates}"))
        }
        Verdict::AttemptFailed { .. } if is_without_verdict(state) => {
            (Mark::Fail, Paint::Bad, format!("Task {task}: the review failed, no usable verdict"))
        }
        Verdict::AttemptFailed { failure } => {
            let name = failure.class.name();
            (Mark::Fail, Paint::Bad, format!("Task {task}: attempt failed, {name}"))
        }
        Verdict::NothingChanged => {
            (Mark::Fail, Paint::Bad, format!("Task {task}: attempt failed, nothing was changed"))
        }
        // The reverted changes have been reported already.
        Verdict::NotHandedIn { .. } if has_refused(state) => {
            (Mark::Fail, Paint::Bad, format!("Task {task}: not handed in as required"))
        }
        Verdict::NotHandedIn { reasons } => {
            let reasons = words(page, &reasons.join(" "));
            (Mark::Fail, Paint::Bad, format!("Task {task}: not handed in as required: {reasons}"))
        }
        Verdict::Blocked { blocked } => {
            let needs = words(page, &blocked.needs);
            (Mark::Fail, Paint::Bad, format!("Task {task}: says it is blocked, needs {needs}"))
        }
        // These are not about a task.
        Verdict::Skipped { .. } | Verdict::Compacted { .. } => return false,
    };
    page.say(mark, paint, &text);
    if let Some(divergence) = &judgement.divergence {
        let how = words(page, &divergence.words());
        let text = format!("the reviews of {task} do not converge: {how}");
        page.say(Mark::Warn, Paint::Warn, &text);
    }
    for amended in &judgement.amended {
        let proposal = words(page, &amended.proposal);
        match (&amended.refusal, &amended.proposed) {
            (None, None) => page.add(2, Paint::None, &format!("the list: {proposal}")),
            (None, Some(proposed)) => {
                let text = format!("proposed as {}, for you to decide: {proposal}", proposed.id);
                page.add(2, Paint::Warn, &text);
            }
            (Some(refusal), _) => {
                let refusal = words(page, refusal);
                page.add(2, Paint::Warn, &format!("refused: {proposal} ({refusal})"));
            }
        }
    }
    true
}

/// Returns the progress of the list, with the remaining time estimated from this run's pace.
pub(crate) fn progress(state: &RunState) -> Option<String> {
    let board = state.board.as_ref()?;
    let progress = board.progress();
    let mut text = format!("Progress: {}/{} tasks done", progress.done, progress.total);
    text.push_str(&progress.shortfall());
    if let Some(rest) = rest(state) {
        text.push_str(&format!(", about {rest} to go"));
    }
    Some(text)
}

/// Returns how long the rest of the list takes at this run's pace if every attempt passes.
pub(crate) fn rest(state: &RunState) -> Option<Millis> {
    let left = estimate(&state.board.as_ref()?.list, state);
    let each = state.ran.0.checked_div(u64::from(state.iterations))?;
    (left > 0).then(|| Millis(each.saturating_mul(left as u64)))
}

/// Prints at the end which tasks wait for an answer of a person.
pub(crate) fn questions<W: Write>(page: &mut Page<W>, state: &RunState) {
    let Some(board) = &state.board else { return };
    for question in report::questions(board) {
        let (task, needs) = (words(page, &question.task.0), words(page, &question.needs));
        page.add(2, Paint::Warn, &format!("blocked: {task} {needs}"));
    }
}

/// Prints at the end how many tasks are done, and what failed.
pub(crate) fn summary<W: Write>(page: &mut Page<W>, state: &RunState) {
    let Some(board) = &state.board else { return };
    let progress = board.progress();
    let (done, total, shortfall) = (progress.done, progress.total, progress.shortfall());
    let left = match progress.pending + progress.in_progress {
        0 => String::new(),
        left => format!(", {left} left"),
    };
    let text = format!("tasks: {done} of {total} done{shortfall}{left}");
    page.add(2, Paint::None, &text);
    if !board.proposed.is_empty() {
        let count = board.proposed.len();
        let text = format!(
            "proposals: agents want {count} change{} of the list, for you to decide: ralph tasks proposals",
            plural(count)
        );
        page.add(2, Paint::Warn, &text);
    }
    for task in board.list.tasks.iter().filter(|task| task.status == TaskStatus::Failed) {
        let (id, notes) = (words(page, &task.id.0), words(page, &task.notes));
        page.add(2, Paint::Bad, &format!("{id} {notes}"));
        if let Some(given_up) = board.given_up.get(&task.id)
            && let (None, Some(error)) = (given_up.question(), &given_up.error)
        {
            let (gate, error) = (words(page, &given_up.gate), words(page, error));
            page.add(4, Paint::None, &format!("{gate}: {error}"));
        }
    }
    for task in board.list.tasks.iter().filter(|task| task.review.is_approved_at_cap()) {
        let id = words(page, &task.id.0);
        let text = format!("{id} was approved at the cap of reviews: look at it by hand");
        page.add(2, Paint::Warn, &text);
    }
}
