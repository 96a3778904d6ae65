//! Lines about a task list: what is to do, the result of each attempt, and progress.
//!
//! Not here: the lines shared by all workflows (`lines`), and the report.

use std::io::Write;

use ralph_core::reporting::report;
use ralph_model::agent_list_diff::AgentListDiff;
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::ids::Role;
use ralph_model::judgement::{Judgement, Verdict, describe_incomplete};
use ralph_model::recipe::Recipe;
use ralph_model::review::{ReviewPolicy, ReviewResult};
use ralph_model::run::RunState;
use ralph_model::stuck::Escalation;
use ralph_model::task::{TaskList, TaskStatus};
use ralph_model::text::choose_plural;
use ralph_model::units::Millis;

use crate::gate_lines::print_gate_output;
use crate::line_text::{format_agent_name, print_warning, shorten_text};
use crate::line_writer::LineWriter;
use crate::style::{LineMark, Paint};

/// Prints a summary of a task list that was read, with an estimate of its iterations.
pub(crate) fn print_task_list<W: Write>(
    page: &mut LineWriter<W>,
    list: &TaskList,
    remarks: &[String],
    state: &RunState,
) {
    for remark in remarks {
        print_warning(page, remark);
    }
    if state.iterations > 0 {
        return;
    }
    let progress = list.progress();
    let open = progress.pending + progress.in_progress;
    let mut text =
        format!("{} task{}, {open} to do", progress.total, choose_plural(progress.total));
    let iterations = estimate_iterations(list, state);
    if open > 0 {
        text.push_str(&format!(
            "; about {iterations} iteration{} if all goes well, {} allowed",
            choose_plural(iterations),
            state.recipe.limits.iterations
        ));
    }
    page.write_marked(LineMark::Todo, &text);
}

/// Returns how many iterations are left if every attempt and every review passes.
fn estimate_iterations(list: &TaskList, state: &RunState) -> usize {
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
pub(crate) fn print_attempt_start<W: Write>(page: &mut LineWriter<W>, state: &RunState) {
    let (Some(task_state), Some(work), Some(current)) =
        (&state.tasks, state.recipe.task_work(), &state.current)
    else {
        return;
    };
    let Some(task) = current.task.as_ref().and_then(|id| task_state.list.find_task(id)) else {
        return;
    };
    let log = task_state.attempt_log(&task.id);
    let title = shorten_text(page, &task.title);
    let attempt = match (current.role, log.counted()) {
        (Role::Review, _) => {
            format!(" (review {})", task.review.count.saturating_add(1))
        }
        (_, 0) => String::new(),
        (_, failed) => {
            let limit = work.attempt_limit(&task_state.list, &task.id);
            format!(" (attempt {} of {limit})", failed + 1)
        }
    };
    page.write_indented(2, Paint::None, &format!("{title}{attempt}"));
    match log.escalation {
        Escalation::None | Escalation::HardStop => {}
        Escalation::StrategyShift => {
            print_warning(page, "The same failure again: asking for another approach");
        }
        Escalation::ContextExpansion => {
            let text = "The same failure again: giving the agent the files that it mentions";
            print_warning(page, text);
        }
    }
    if let Some(agent) = &state.recipe.escalate
        && current.role.is_attempt()
        && matches!(log.escalation, Escalation::StrategyShift | Escalation::ContextExpansion)
    {
        let name = shorten_text(page, &format_agent_name(agent));
        page.write_indented(2, Paint::None, &format!("Agent for a task that is stuck: {name}"));
    }
}

/// Prints the result of a gate before any work.
pub(crate) fn print_baseline_result<W: Write>(
    page: &mut LineWriter<W>,
    result: &GateResult,
    recipe: &Recipe,
) {
    let gate = shorten_text(page, &result.gate);
    match result.status {
        GateStatus::Passed | GateStatus::Cached => {
            page.write_marked(LineMark::Pass, &format!("Gate {gate}: green before any work"));
        }
        GateStatus::Failed => {
            page.write_marked(LineMark::Warn, &format!("Gate {gate}: broken before any work"));
            print_gate_output(page, result, recipe);
        }
    }
}

/// Prints the changes of an agent to the task list that were not allowed.
pub(crate) fn print_reverted_changes<W: Write>(page: &mut LineWriter<W>, claim: &AgentListDiff) {
    for violation in &claim.refused {
        let text = shorten_text(page, &violation.to_string());
        page.write_marked(LineMark::Warn, &format!("reverted in the task list: {text}"));
    }
}

fn has_reverted_changes(state: &RunState) -> bool {
    let claim = state.current.as_ref().and_then(|current| current.list_diff());
    claim.is_some_and(|claim| !claim.refused.is_empty())
}

/// Returns whether the open iteration is a review without a usable answer.
fn is_review_without_verdict(state: &RunState) -> bool {
    let current = state.current.as_ref();
    current.is_some_and(|current| {
        current.role == Role::Review && current.work().is_some_and(|call| call.wrong.is_some())
    })
}

/// Prints the judgement of an attempt at a task. Returns whether the iteration has a task.
pub(crate) fn print_task_judgement<W: Write>(
    page: &mut LineWriter<W>,
    judgement: &Judgement,
    state: &RunState,
) -> bool {
    let Some(task) = state.current.as_ref().and_then(|current| current.task.as_ref()) else {
        return false;
    };
    let task = shorten_text(page, &task.0);
    if let Some(gives_up) = judgement.failed.as_ref().and_then(|failed| failed.gives_up.as_ref()) {
        let why = shorten_text(page, &gives_up.to_note());
        page.write_marked(LineMark::Fail, &format!("Task {task} {why}"));
        return true;
    }
    let (mark, text) = match &judgement.verdict {
        Verdict::Complete | Verdict::Passed { .. } => {
            let waits = state
                .recipe
                .task_work()
                .is_some_and(|work| matches!(work.review, ReviewPolicy::Fresh { .. }));
            let then = if waits { "passed, waits for its review" } else { "done" };
            (LineMark::Pass, format!("Task {task}: {then}"))
        }
        Verdict::Reviewed { verdict, feedback } => {
            let result = ReviewResult::new(*verdict, feedback);
            let feedback = shorten_text(page, feedback);
            match result {
                ReviewResult::Approved => {
                    (LineMark::Pass, format!("Task {task}: approved by the review"))
                }
                ReviewResult::ApprovedAtCap => {
                    let text = format!("Task {task}: approved at the cap: {feedback}");
                    (LineMark::Warn, text)
                }
                ReviewResult::ChangesRequested => {
                    let text = format!("Task {task}: the review wants changes: {feedback}");
                    (LineMark::Rework, text)
                }
            }
        }
        Verdict::GatesFailed { gates } => {
            let gates = shorten_text(page, &gates.join(", "));
            (LineMark::Fail, format!("Task {task}: attempt failed at {gates}"))
        }
        Verdict::AttemptFailed { .. } if is_review_without_verdict(state) => {
            (LineMark::Fail, format!("Task {task}: the review failed, no usable verdict"))
        }
        Verdict::AttemptFailed { failure } => {
            let name = failure.class.name();
            (LineMark::Fail, format!("Task {task}: attempt failed, {name}"))
        }
        Verdict::NothingChanged => {
            (LineMark::Fail, format!("Task {task}: attempt failed, nothing was changed"))
        }
        // The reverted changes have been reported already.
        Verdict::NotHandedIn { .. } if has_reverted_changes(state) => {
            (LineMark::Fail, format!("Task {task}: not handed in as required"))
        }
        Verdict::NotHandedIn { reasons } => {
            let reasons = shorten_text(page, &reasons.join(" "));
            (LineMark::Fail, format!("Task {task}: not handed in as required: {reasons}"))
        }
        Verdict::Incomplete { left } => {
            let reason = shorten_text(page, &describe_incomplete(left));
            (LineMark::Fail, format!("Task {task}: attempt failed, {reason}"))
        }
        Verdict::Blocked { blocked } => {
            let needs = shorten_text(page, &blocked.needs);
            (LineMark::Fail, format!("Task {task}: says it is blocked, needs {needs}"))
        }
        // These have a line of their own.
        _ => return false,
    };
    page.write_marked(mark, &text);
    if let Some(divergence) = &judgement.divergence {
        let how = shorten_text(page, &divergence.description());
        let text = format!("the reviews of {task} do not converge: {how}");
        page.write_marked(LineMark::Warn, &text);
    }
    for amended in &judgement.amended {
        let proposal = shorten_text(page, &amended.proposal);
        match (&amended.refusal, &amended.proposed) {
            (None, None) => page.write_indented(2, Paint::None, &format!("the list: {proposal}")),
            (None, Some(proposed)) => {
                let text = format!("proposed as {}, for you to decide: {proposal}", proposed.id);
                page.write_indented(2, Paint::Warn, &text);
            }
            (Some(refusal), _) => {
                let refusal = shorten_text(page, refusal);
                page.write_indented(2, Paint::Warn, &format!("refused: {proposal} ({refusal})"));
            }
        }
    }
    true
}

/// Returns the progress of the list, with the remaining time estimated from this run's pace.
pub(crate) fn format_progress(state: &RunState) -> Option<String> {
    let task_state = state.tasks.as_ref()?;
    let progress = task_state.progress();
    let mut text = format!("Progress: {}/{} tasks done", progress.done, progress.total);
    text.push_str(&progress.shortfall());
    if let Some(rest) = estimate_remaining_time(state) {
        text.push_str(&format!(", about {rest} to go"));
    }
    Some(text)
}

/// Fewer tasks say nothing about the pace of a run.
const TASKS_FOR_PACE: usize = 2;

/// A shorter rest is over before it is read.
const SHORTEST_ESTIMATE: Millis = Millis::from_mins(1);

/// Returns how long the rest of the list takes at this run's pace if every attempt passes; `None`
/// as long as the pace is not known.
pub(crate) fn estimate_remaining_time(state: &RunState) -> Option<Millis> {
    let task_state = state.tasks.as_ref()?;
    if task_state.progress().done < TASKS_FOR_PACE {
        return None;
    }
    // The own iterations of a parallel run are merges, one for each task.
    let left = match &state.parallel {
        Some(_) => task_state.progress().pending + task_state.progress().in_progress,
        None => estimate_iterations(&task_state.list, state),
    };
    let each = state.ran.0.checked_div(u64::from(state.iterations))?;
    let rest = Millis(each.saturating_mul(left as u64));
    (rest >= SHORTEST_ESTIMATE).then_some(rest)
}

/// Prints at the end which tasks wait for an answer of a person.
pub(crate) fn print_questions<W: Write>(page: &mut LineWriter<W>, state: &RunState) {
    let Some(task_state) = &state.tasks else { return };
    for question in report::find_questions(task_state) {
        let (task, needs) =
            (shorten_text(page, &question.task.0), shorten_text(page, &question.needs));
        page.write_indented(2, Paint::Warn, &format!("blocked: {task} {needs}"));
    }
}

/// Entries of landed work that are shown at the end of a run.
const MOST_LEFT: usize = 10;

/// Prints at the end what landed work leaves open, and what its authors recommend.
pub(crate) fn print_left_open<W: Write>(page: &mut LineWriter<W>, state: &RunState) {
    let Some(task_state) = &state.tasks else { return };
    let left = report::list_left_open(task_state);
    let open = left
        .iter()
        .flat_map(|task| task.left.entries().map(|(kind, it)| format!("{} {kind}: {it}", task.id)));
    print_entries(page, "left open:", Paint::Warn, &open.collect::<Vec<_>>());
    let advice = left
        .iter()
        .flat_map(|task| task.left.recommendations.iter().map(|it| format!("{}: {it}", task.id)));
    print_entries(page, "recommendations:", Paint::None, &advice.collect::<Vec<_>>());
}

fn print_entries<W: Write>(
    page: &mut LineWriter<W>,
    title: &str,
    paint: Paint,
    entries: &[String],
) {
    if entries.is_empty() {
        return;
    }
    page.write_indented(2, Paint::None, title);
    for entry in entries.iter().take(MOST_LEFT) {
        let entry = shorten_text(page, entry);
        page.write_indented(4, paint, &entry);
    }
    let more = entries.len().saturating_sub(MOST_LEFT);
    if more > 0 {
        page.write_indented(4, Paint::None, &format!("and {more} more, see ralph report"));
    }
}

/// Prints at the end how many tasks are done, and what failed.
pub(crate) fn print_task_summary<W: Write>(page: &mut LineWriter<W>, state: &RunState) {
    let Some(task_state) = &state.tasks else { return };
    let progress = task_state.progress();
    let (done, total, shortfall) = (progress.done, progress.total, progress.shortfall());
    let left = match progress.pending + progress.in_progress {
        0 => String::new(),
        left => format!(", {left} left"),
    };
    let text = format!("tasks: {done} of {total} done{shortfall}{left}");
    page.write_indented(2, Paint::None, &text);
    if !task_state.proposed.is_empty() {
        let count = task_state.proposed.len();
        let text = format!(
            "proposals: agents want {count} change{} of the list, for you to decide: ralph tasks proposals",
            choose_plural(count)
        );
        page.write_indented(2, Paint::Warn, &text);
    }
    for task in task_state.list.tasks.iter().filter(|task| task.status == TaskStatus::Failed) {
        // The lines before are of the planner, and of earlier attempts.
        let notes = task.notes.lines().next_back().unwrap_or_default();
        let (id, notes) = (shorten_text(page, &task.id.0), shorten_text(page, notes));
        page.write_indented(2, Paint::Bad, &format!("{id} {notes}"));
        if let Some(given_up) = task_state.given_up.get(&task.id)
            && let (None, Some(error)) = (given_up.question(), &given_up.error)
        {
            let (gate, error) = (shorten_text(page, &given_up.gate), shorten_text(page, error));
            page.write_indented(4, Paint::None, &format!("{gate}: {error}"));
        }
    }
    for task in task_state.list.tasks.iter().filter(|task| task.review.is_approved_at_cap()) {
        let id = shorten_text(page, &task.id.0);
        let text = format!("{id} was approved at the cap of reviews: check it yourself");
        page.write_indented(2, Paint::Warn, &text);
    }
}
