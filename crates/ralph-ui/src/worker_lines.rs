//! Lines about the workers of a parallel run and about merges. Each begins with the task, because
//! those of several tasks alternate.
//!
//! Not here: the table of workers, which `status` and the screen show.

use std::io::Write;

use ralph_core::reporting::parallel_status::ParallelStatus;
use ralph_core::tasks::job::find_task_of;
use ralph_model::event::{Event, Recorded};
use ralph_model::gate::{GateResult, GateStatus, Severity};
use ralph_model::ids::{Role, WorkerId};
use ralph_model::judgement::{Judgement, Verdict};
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::{Candidate, RunningWorker};
use ralph_model::run::RunState;
use ralph_model::task::TaskStatus;
use ralph_model::text::choose_plural;
use ralph_model::units::Timestamp;
use ralph_model::worker::{JobResult, WorkerLimitKind};
use ralph_model::worktree::Landed;

use crate::gate_lines::print_gate_output;
use crate::line_text::{shorten_id, shorten_text};
use crate::line_writer::LineWriter;
use crate::style::LineMark;
use crate::time::{WallClock, format_countdown};
use crate::{sanitize, tasks};

/// What a worker does is a few words; more would hide the other workers.
const DOING_CHARS: usize = 40;

/// Prints the line of an event of a worker.
pub(crate) fn print_worker_event<W: Write>(
    page: &mut LineWriter<W>,
    recorded: &Recorded,
    state: &RunState,
) {
    if let Some((mark, text)) = describe_worker_event(recorded, state, page.clock()) {
        let text = shorten_text(page, &text);
        page.write_marked(mark, &text);
    }
}

/// Prints the line of an event within a merge. Returns whether it was one that needs no other
/// line.
pub(crate) fn print_merge_event<W: Write>(
    page: &mut LineWriter<W>,
    event: &Event,
    state: &RunState,
) -> bool {
    let Some(merge) = state.current.as_ref().filter(|it| it.role == Role::Merge) else {
        return false;
    };
    let Some(task) = merge.task.as_ref().map(tasks::format_task_id) else { return false };
    let line = match event {
        Event::IterationStarted { .. } => Some((LineMark::Busy, "merging".to_owned())),
        Event::Judged { judgement } => describe_judgement(judgement, state),
        Event::Landed { landed: Landed::Committed { commit, .. } } => {
            let candidate = state.parallel.as_ref().zip(merge.task.as_ref());
            let candidate = candidate.and_then(|(it, task)| it.find_candidate_of(task));
            let figures = candidate.map(format_candidate_figures).unwrap_or_default();
            Some((LineMark::Pass, format!("landed {}{figures}", shorten_id(&commit.0))))
        }
        Event::Landed { landed: Landed::NothingToCommit } => {
            Some((LineMark::Pass, "landed: it changes nothing".to_owned()))
        }
        Event::GateChecked { result, .. } => {
            print_merge_gate(page, &task, result, state);
            None
        }
        // The judgement reports a conflict.
        Event::Checkpointed { .. }
        | Event::CandidateMerged { .. }
        | Event::Landed { landed: Landed::RolledBack { .. } } => None,
        _ => return false,
    };
    if let Some((mark, text)) = line {
        let text = shorten_text(page, &text);
        page.write_marked(mark, &format!("{task} {text}"));
    }
    true
}

/// Returns the mark and the text for an event of a worker.
pub(crate) fn describe_worker_event(
    recorded: &Recorded,
    state: &RunState,
    clock: &WallClock,
) -> Option<(LineMark, String)> {
    let name = |worker: &WorkerId| {
        let task = find_task_of(state, worker);
        task.map_or_else(|| worker.to_string(), tasks::format_task_id)
    };
    let find_running = |worker| state.parallel.as_ref().and_then(|it| it.running.get(worker));
    Some(match &recorded.event {
        Event::WorkerStarted { worker, place, origin } => {
            let how = find_running(worker).map(describe_start).unwrap_or_default();
            let taken = origin.taken_over.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
            (LineMark::Run, format!("{} started in slot {place}{how}{taken}", name(worker)))
        }
        Event::WorkerProgressed { worker, doing, .. } if !doing.is_empty() => {
            (LineMark::Step, format!("{} {doing}", name(worker)))
        }
        Event::WorkerLimited { worker, agent, until, kind } => {
            let what = match kind {
                WorkerLimitKind::UsageLimit => "usage limit",
                WorkerLimitKind::Overload => "overload",
            };
            let until = until.map(|it| clock.format_minutes(it, recorded.at));
            let until = until.map(|it| format!(", no calls before {it}")).unwrap_or_default();
            (LineMark::Limit, format!("{} {what} of {}{until}", name(worker), agent.name()))
        }
        Event::WorkerEnded { worker, result } => {
            let (mark, mut text) = describe_result(result);
            let is_over = state.parallel.as_ref().is_some_and(|it| it.ending.is_some());
            if matches!(result.outcome, Outcome::WorkersFailed { .. }) && !is_over {
                text.push_str("; tried again once another worker has ended");
            }
            (mark, format!("{} {text}", name(worker)))
        }
        Event::WorkerLost { worker: Some(worker), reason, has_ended: _ } => {
            let next = match state.parallel.as_ref().and_then(|it| it.ending.as_ref()) {
                Some(_) => "the run ends",
                None => "started again",
            };
            (LineMark::Warn, format!("{} worker lost: {reason}; {next}", name(worker)))
        }
        Event::WorkerLost { worker: None, reason, has_ended: _ } => {
            (LineMark::Warn, format!("All workers lost: {reason}; started again"))
        }
        Event::WorkerCanceled { worker } => (LineMark::Back, format!("{} canceled", name(worker))),
        _ => return None,
    })
}

fn describe_start(worker: &RunningWorker) -> String {
    match (worker.iterations, worker.assignment.round) {
        (0, 0 | 1) => String::new(),
        (0, round) => format!(", round {round}"),
        (_, _) => ", continues its work".to_owned(),
    }
}

fn describe_result(result: &JobResult) -> (LineMark, String) {
    let failed = result.task.as_ref().filter(|task| task.status == TaskStatus::Failed);
    match (&result.outcome, failed) {
        (Outcome::Complete | Outcome::ApprovedAtCap { .. }, _) => {
            (LineMark::Step, "waits to land".to_owned())
        }
        (_, Some(task)) if !task.notes.is_empty() => (LineMark::Fail, task.notes.clone()),
        (_, Some(_)) => (LineMark::Fail, "failed".to_owned()),
        (Outcome::Interrupted, None) => (LineMark::Back, "stopped".to_owned()),
        // What a worker may use is a share of what the run may use; it gets another one.
        (Outcome::IterationsUsedUp { limit }, None) => {
            let plural = choose_plural(*limit as usize);
            (LineMark::Step, format!("used its share of {limit} iteration{plural}"))
        }
        (Outcome::BudgetUsedUp { .. }, None) => {
            (LineMark::Step, "used its share of the budget".to_owned())
        }
        (Outcome::WorkersFailed { message }, None) => {
            (LineMark::Warn, format!("cannot start: {message}"))
        }
        (other, None) => (LineMark::Warn, format!("stopped: {other}")),
    }
}

/// Returns the result of a merge that does not land. One that lands is reported by its commit.
fn describe_judgement(judgement: &Judgement, state: &RunState) -> Option<(LineMark, String)> {
    if let Some(reason) = judgement.failed.as_ref().and_then(|failed| failed.gives_up.as_ref()) {
        return Some((LineMark::Fail, reason.to_note()));
    }
    if let Verdict::Held { reason } = &judgement.verdict {
        let text = format!("waits to land, and no other task starts or lands: {reason}");
        return Some((LineMark::Warn, text));
    }
    let Verdict::Requeued { reason } = &judgement.verdict else { return None };
    let checking = state.current.as_ref().and_then(|it| it.checking());
    let round = checking.and_then(|it| it.merge.as_ref()).map_or(1, |it| it.round) + 1;
    Some((LineMark::Again, format!("{reason}: starts again, round {round}")))
}

/// Prints the result of a gate on a merged tree. A cached one passed in the worker.
fn print_merge_gate<W: Write>(
    page: &mut LineWriter<W>,
    task: &str,
    result: &GateResult,
    state: &RunState,
) {
    let ran = result.end.as_ref().map(|end| format!(" ({})", end.ran)).unwrap_or_default();
    let (mark, how) = match (result.status, result.severity) {
        (GateStatus::Cached, _) => return,
        (GateStatus::Passed, _) => (LineMark::Pass, "passed"),
        (GateStatus::Failed, Severity::Hard) => (LineMark::Fail, "failed"),
        (GateStatus::Failed, Severity::Soft) => (LineMark::Warn, "failed, soft"),
    };
    let gate = shorten_text(page, &result.gate);
    page.write_marked(mark, &format!("{task} gate {gate} {how}{ran}"));
    if result.status == GateStatus::Failed {
        print_gate_output(page, result, &state.recipe);
    }
}

/// Returns `, $0.12, 3m 4s`.
fn format_candidate_figures(candidate: &Candidate) -> String {
    let result = &candidate.result;
    let cost = result.usage.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
    format!("{cost}, {}", result.ran)
}

/// Shows all workers in the last line of a terminal.
pub(crate) fn show_workers<W: Write>(page: &mut LineWriter<W>, state: &RunState) {
    if page.style().rewrites {
        let text = format_live_line(state, (page.clock().now)());
        page.write_temporary(LineMark::Busy, &text);
    }
}

/// Returns `$0.42, 1 waits to land | T3 review 4:12 | T5 working 0:30`. The figures come first, so
/// that cutting a long line does not cut them.
pub(crate) fn format_live_line(state: &RunState, now: Timestamp) -> String {
    let Some(status) = ParallelStatus::from_state(state) else { return String::new() };
    let mut figures: Vec<String> = Vec::new();
    figures.extend(state.total_usage().cost.map(|cost| cost.to_string()));
    match status.queue.len() {
        0 => {}
        1 => figures.push("1 waits to land".to_owned()),
        count => figures.push(format!("{count} wait to land")),
    }
    for hold in status.holds_at(now) {
        let left = format_countdown(hold.until.elapsed_since(now));
        figures.push(format!("{} in {left}", hold.agent.name()));
    }
    let workers = status.workers.iter().filter(|it| it.is_live).map(|worker| {
        let doing = sanitize::sanitize_line(&worker.doing, DOING_CHARS, "");
        let age = format_countdown(now.elapsed_since(worker.since));
        format!("{} {doing} {age}", tasks::format_task_id(&worker.task))
    });
    let figures = Some(figures.join(", ")).filter(|it| !it.is_empty());
    figures.into_iter().chain(workers).collect::<Vec<_>>().join(" | ")
}
