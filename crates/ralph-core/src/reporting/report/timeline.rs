//! The iterations of a run in order: a series for charts, which thins itself out, and the latest
//! iterations with details.
//!
//! Its size is bounded however long a run is. Not here: totals over the run, and how it is drawn.

use std::collections::BTreeMap;

use ralph_model::agent_output::Usage;
use ralph_model::event::Recorded;
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::ids::{IterationNumber, Role, TaskId};
use ralph_model::judgement::{Verdict, describe_incomplete};
use ralph_model::refusal::Refusal;
use ralph_model::review::ReviewResult;
use ralph_model::run::{Iteration, RunState};
use ralph_model::units::{Millis, Timestamp, Tokens, UsdMicros};
use ralph_model::worktree::{Checkpoint, Landed, TreeId};

use super::LatestItems;
use crate::checking::gate::excerpt::excerpt_output;

/// A chart has no more columns on a phone; if there are more, neighbors are merged.
const MOST_SPANS: usize = 120;

/// Limit for the output of an agent or a gate in one iteration; the rest is in the logs.
const MAX_OUTPUT_CHARS: usize = 4_000;

/// How many failed gates of an iteration are listed.
const MOST_GATES: usize = 8;

/// The iterations of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// All of them, in spans of equal length except for the last.
    pub spans: Vec<IterationSpan>,
    /// How many iterations a full span has.
    pub stride: u32,
    /// What was left to do before the first.
    pub at_first: Option<u32>,
    /// The latest ones, oldest first.
    pub iterations: LatestItems<IterationNote>,
    /// Usage of the open iteration so far.
    used: Usage,
}

/// Consecutive iterations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IterationSpan {
    pub first: IterationNumber,
    pub last: IterationNumber,
    pub count: u32,
    /// How many of them had which role and which result.
    pub results: BTreeMap<(Role, IterationResult), u32>,
    pub ran: Millis,
    /// The cost, if the agents report it.
    pub cost: Option<UsdMicros>,
    pub tokens: Tokens,
    /// What was left to do after them: tasks, or items of the plan.
    pub left: Option<u32>,
}

/// One iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IterationNote {
    pub iteration: IterationNumber,
    pub role: Role,
    pub task: Option<TaskId>,
    pub started: Timestamp,
    pub ran: Millis,
    pub asks: u32,
    /// The cost, if the agent reports it.
    pub cost: Option<UsdMicros>,
    pub tokens: Tokens,
    pub result: IterationResult,
    /// Details of the result; may be empty.
    pub details: String,
    pub failed: Vec<FailedGate>,
    /// The trees before and after it, if both are known.
    pub change: Option<(TreeId, TreeId)>,
    /// The commit it produced.
    pub commit: Option<String>,
}

/// A gate that failed in an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedGate {
    pub name: String,
    /// None for the verdict of an agent.
    pub exit_code: Option<i32>,
    pub ran: Millis,
    /// The output, as in the next prompt.
    pub output: String,
    /// The file with the full output, relative to the project directory.
    pub log: Option<String>,
}

/// The result of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IterationResult {
    Complete,
    Passed,
    Approved,
    Compacted,
    ChangesRequested,
    GatesFailed,
    NothingChanged,
    /// The work did not meet the rules for handing it in.
    NotHandedIn,
    /// Its author says that work is left.
    Incomplete,
    CommitRefused,
    Blocked,
    NoAnswer,
    /// The user asked to skip the task.
    Skipped,
    /// The work of a worker did not land; its task starts again.
    Requeued,
    Held,
    /// It ended before there was a verdict.
    Undecided,
}

/// Whether a result is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultTone {
    Good,
    /// A normal intermediate result.
    Middling,
    Bad,
}

impl IterationResult {
    /// Returns the result as text.
    pub fn label(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Passed => "passed",
            Self::Approved => "approved",
            Self::Compacted => "compacted",
            Self::ChangesRequested => "changes requested",
            Self::GatesFailed => "gates failed",
            Self::NothingChanged => "nothing changed",
            Self::NotHandedIn => "not handed in",
            Self::Incomplete => "not complete",
            Self::CommitRefused => "commit refused",
            Self::Blocked => "blocked",
            Self::NoAnswer => "no answer",
            Self::Skipped => "skipped",
            Self::Requeued => "requeued",
            Self::Held => "waits for the user",
            Self::Undecided => "undecided",
        }
    }

    /// Returns whether the result is good news.
    pub fn tone(self) -> ResultTone {
        match self {
            Self::Complete | Self::Passed | Self::Approved | Self::Compacted => ResultTone::Good,
            Self::ChangesRequested
            | Self::Skipped
            | Self::Requeued
            | Self::Held
            | Self::Undecided => ResultTone::Middling,
            Self::GatesFailed
            | Self::NothingChanged
            | Self::NotHandedIn
            | Self::Incomplete
            | Self::CommitRefused
            | Self::Blocked
            | Self::NoAnswer => ResultTone::Bad,
        }
    }
}

impl Timeline {
    pub(super) fn begin_iteration(&mut self, left: Option<u32>) {
        self.used = Usage::default();
        if self.spans.is_empty() {
            self.at_first = left;
        }
    }

    pub(super) fn add_usage(&mut self, usage: Usage) {
        self.used = self.used.plus(usage);
    }

    /// Adds a finished iteration, given what is left to do after it.
    pub(super) fn end_iteration(
        &mut self,
        open: &Iteration,
        recorded: &Recorded,
        left: Option<u32>,
    ) {
        let note = build_note(open, recorded, self.used);
        self.add_span(IterationSpan {
            first: note.iteration,
            last: note.iteration,
            count: 1,
            results: BTreeMap::from([((note.role, note.result), 1)]),
            ran: note.ran,
            cost: note.cost,
            tokens: note.tokens,
            left,
        });
        self.iterations.push_item(note);
    }

    /// Adds one iteration to the series. Merges neighbors if it grows too long.
    fn add_span(&mut self, one: IterationSpan) {
        self.stride = self.stride.max(1);
        match self.spans.last_mut() {
            Some(last) if last.count < self.stride => last.merge_next(one),
            Some(_) | None => self.spans.push(one),
        }
        if self.spans.len() > MOST_SPANS {
            self.stride = self.stride.saturating_mul(2);
            let spans = std::mem::take(&mut self.spans);
            for span in spans {
                match self.spans.last_mut() {
                    Some(last) if last.count < self.stride => last.merge_next(span),
                    Some(_) | None => self.spans.push(span),
                }
            }
        }
    }
}

impl IterationSpan {
    /// Merges the span that follows into this one.
    fn merge_next(&mut self, next: Self) {
        self.last = next.last;
        self.count = self.count.saturating_add(next.count);
        for (what, count) in next.results {
            *self.results.entry(what).or_default() += count;
        }
        self.ran = self.ran.saturating_add(next.ran);
        self.cost = match (self.cost, next.cost) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.tokens = self.tokens.saturating_add(next.tokens);
        self.left = next.left;
    }
}

/// Returns what is left to do: tasks that are neither done nor skipped, or else open items of the
/// plan.
pub(super) fn count_remaining(state: &RunState, open_items: Option<u32>) -> Option<u32> {
    let tasks = state.tasks.as_ref().map(|task_state| {
        let progress = task_state.progress();
        let left = progress.pending + progress.in_progress + progress.failed;
        u32::try_from(left).unwrap_or(u32::MAX)
    });
    tasks.or(open_items)
}

fn build_note(open: &Iteration, recorded: &Recorded, used: Usage) -> IterationNote {
    let (came_to, words) = judge_result(open);
    let failed = open.gates().iter().filter(|result| result.status == GateStatus::Failed);
    let refused = open.refusals().iter().map(describe_refusal);
    IterationNote {
        iteration: open.number,
        role: open.role,
        task: open.task.clone(),
        started: open.started,
        ran: Millis(recorded.ran.0.saturating_sub(open.began.0)),
        asks: open.asks,
        cost: used.cost,
        tokens: used.tokens(),
        result: came_to,
        details: truncate_text(&words),
        failed: refused.chain(failed.map(describe_failed_gate)).take(MOST_GATES).collect(),
        change: find_change(open),
        commit: find_commit(open),
    }
}

fn judge_result(open: &Iteration) -> (IterationResult, String) {
    if let Some(output) = open.landed().iter().find_map(Landed::refusal) {
        return (IterationResult::CommitRefused, output.to_owned());
    }
    let Some(judgement) = open.judgement() else {
        return (IterationResult::Undecided, String::new());
    };
    match &judgement.verdict {
        Verdict::Complete => (IterationResult::Complete, String::new()),
        Verdict::Passed { signal } => (IterationResult::Passed, signal.clone().unwrap_or_default()),
        Verdict::GatesFailed { gates } => (IterationResult::GatesFailed, gates.join(", ")),
        Verdict::AttemptFailed { failure } => {
            (IterationResult::NoAnswer, format!("{}: {}", failure.class.name(), failure.message))
        }
        Verdict::NothingChanged => (IterationResult::NothingChanged, String::new()),
        Verdict::NotHandedIn { reasons } => (IterationResult::NotHandedIn, reasons.join("\n")),
        Verdict::Incomplete { left } => (IterationResult::Incomplete, describe_incomplete(left)),
        Verdict::Blocked { blocked } => (IterationResult::Blocked, blocked.description()),
        Verdict::Reviewed { verdict, feedback } => {
            let came_to = match ReviewResult::new(*verdict, feedback) {
                ReviewResult::Approved | ReviewResult::ApprovedAtCap => IterationResult::Approved,
                ReviewResult::ChangesRequested => IterationResult::ChangesRequested,
            };
            (came_to, feedback.clone())
        }
        Verdict::Skipped { .. } => (IterationResult::Skipped, String::new()),
        Verdict::Requeued { reason } => (IterationResult::Requeued, reason.clone()),
        Verdict::Held { reason } => (IterationResult::Held, reason.clone()),
        Verdict::Compacted { trigger } => (IterationResult::Compacted, trigger.reason().to_owned()),
    }
}

fn describe_refusal(refusal: &Refusal) -> FailedGate {
    FailedGate {
        name: refusal.kind.name().to_owned(),
        exit_code: Some(1),
        ran: Millis::ZERO,
        output: excerpt_output(&refusal.output, MAX_OUTPUT_CHARS),
        log: None,
    }
}

fn describe_failed_gate(result: &GateResult) -> FailedGate {
    let reason = result.reason.as_ref().map(|reason| format!("\n[ralph] {reason}"));
    let sandbox = result.sandbox.as_ref().map(|sign| {
        let remedies: Vec<String> = sign.list_remedies().collect();
        format!("[ralph] {}: {}\n", sign.reason, remedies.join("; or "))
    });
    FailedGate {
        name: result.gate.clone(),
        exit_code: (!result.is_verdict).then(|| result.exit_code()),
        ran: result.end.as_ref().map_or(Millis::ZERO, |end| end.ran),
        output: excerpt_output(
            &format!(
                "{}{}{}",
                sandbox.unwrap_or_default(),
                result.output,
                reason.unwrap_or_default()
            ),
            MAX_OUTPUT_CHARS,
        ),
        log: result.log.clone(),
    }
}

/// Returns the trees before and after an iteration that may change files. If the checkpoint has
/// no tree, its commit is used.
fn find_change(open: &Iteration) -> Option<(TreeId, TreeId)> {
    match open.role {
        Role::Prompt | Role::Plan | Role::Build | Role::Implement | Role::Fix => {}
        Role::Review | Role::Compact | Role::Message | Role::Merge => return None,
    }
    let before = match open.checkpoint()? {
        Checkpoint::None => return None,
        Checkpoint::Git { head, tree, branch: _ } => {
            tree.clone().or_else(|| head.as_ref().map(|head| TreeId(head.0.clone())))?
        }
    };
    let surveyed = open.landed().iter().find_map(Landed::surveyed_tree);
    let after = open.observed_tree().or(surveyed).cloned();
    let committed = || find_commit(open).map(TreeId);
    let after = after.or_else(committed)?;
    (before != after).then_some((before, after))
}

fn find_commit(open: &Iteration) -> Option<String> {
    open.landed().iter().find_map(Landed::commit).map(|commit| commit.0.clone())
}

fn truncate_text(text: &str) -> String {
    match text.char_indices().nth(MAX_OUTPUT_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(number: u32) -> IterationSpan {
        let came_to = if number.is_multiple_of(3) {
            IterationResult::GatesFailed
        } else {
            IterationResult::Passed
        };
        IterationSpan {
            first: IterationNumber(number),
            last: IterationNumber(number),
            count: 1,
            results: BTreeMap::from([((Role::Implement, came_to), 1)]),
            ran: Millis(10),
            cost: number.is_multiple_of(2).then_some(UsdMicros(5)),
            tokens: Tokens(7),
            left: Some(20_000 - number),
        }
    }

    #[test]
    fn a_series_thins_out_and_loses_nothing_of_its_sums() {
        for count in [1, 119, 120, 121, 240, 241, 1_000, 10_000] {
            let mut timeline = Timeline::default();
            (1..=count).for_each(|number| timeline.add_span(one(number)));
            let spans = &timeline.spans;
            assert!(spans.len() <= MOST_SPANS, "{count}: {}", spans.len());
            assert!(spans.len() >= count.min(60) as usize, "{count}: {}", spans.len());
            assert_eq!(spans.iter().map(|span| span.count).sum::<u32>(), count);
            assert_eq!(spans.iter().map(|span| span.ran.0).sum::<u64>(), u64::from(count) * 10);
            let came_to = spans.iter().flat_map(|span| &span.results);
            let bad = came_to.filter(|((_, it), _)| it.tone() == ResultTone::Bad);
            let bad: u32 = bad.map(|(_, count)| count).sum();
            assert_eq!(bad, count / 3);
            assert_eq!(spans.last().and_then(|span| span.left), Some(20_000 - count));
            for pair in spans.windows(2) {
                assert_eq!(pair[0].last.0 + 1, pair[1].first.0, "{count}: no gap");
                assert_eq!(pair[0].count, timeline.stride, "{count}: only the last is shorter");
            }
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(truncate_text("short"), "short");
        let cut = truncate_text(&"ä".repeat(MAX_OUTPUT_CHARS + 1));
        assert_eq!(cut.chars().count(), MAX_OUTPUT_CHARS + 1);
    }
}
