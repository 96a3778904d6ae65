//! The report of a run: a fold over its journal that counts what the state does not keep.
//!
//! Its size is bounded: an entry for each task, role and gate, a series that thins itself out,
//! and the latest items of unbounded lists, never an entry for each event. [`Report::summary`] is
//! the result for people and programs. Not here: how it is printed.

mod counts;
mod parallel_figures;
mod review_stats;
mod summary;
pub mod timeline;

use std::collections::BTreeMap;

use crate::run_loop::fold::{FoldError, apply_event, start_state};

pub use counts::{GateCount, LatestItems, ResourceUse, TokenCount, WaitCount};
pub use parallel_figures::{ParallelFigures, TaskRounds, WorkerRunSummary};
pub use review_stats::{ReviewAssessment, ReviewStats};
pub use summary::{
    AmendmentNote, AutoApprovedTask, CommitNote, ControlRequestNote, CurrentIteration,
    DivergingTask, FailedTask, FailureBranchNote, GateSummary, RequestedChange, RoleSummary,
    StuckSummary, Summary, TaskRemainder, TaskSummary, UserQuestion, find_questions,
    list_left_open,
};
pub use timeline::Timeline;

use parallel_figures::WorkerCounts;
use ralph_model::agent_output::Reply;
use ralph_model::control::Pause;
use ralph_model::event::{Event, Recorded};
use ralph_model::gate::{GateResult, GateStatus, Severity};
use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::Verdict;
use ralph_model::plan::Counts;
use ralph_model::review::ReviewResult;
use ralph_model::run::RunState;
use ralph_model::text;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worktree::Landed;

use crate::run_loop::settle;

/// Prefix of warnings about the network of a sandbox.
pub const REFUSED_CONNECTION: &str = "the sandbox's network: ";

/// The report of a run so far.
#[derive(Debug, Clone, Default)]
pub struct Report {
    state: Option<RunState>,
    last: Timestamp,
    /// The end of the last wait. A control request interrupts a wait, which is then recorded again.
    last_wait: Option<Timestamp>,
    tasks: BTreeMap<TaskId, TaskCount>,
    roles: BTreeMap<&'static str, (Role, ResourceUse)>,
    gates: BTreeMap<String, GateCount>,
    last_gates: Vec<GateResult>,
    asked: Option<Role>,
    waits: WaitCount,
    resumed: u32,
    amendments: LatestItems<AmendmentNote>,
    amendments_refused: u32,
    amendments_proposed: u32,
    edits: LatestItems<String>,
    requested_changes: LatestItems<RequestedChange>,
    plan: Option<Counts>,
    kept: LatestItems<String>,
    failure_branches: LatestItems<FailureBranchNote>,
    control_requests: LatestItems<ControlRequestNote>,
    commits: LatestItems<CommitNote>,
    warnings: LatestItems<String>,
    refused: LatestItems<String>,
    timeline: Timeline,
    workers: WorkerCounts,
}

/// A longer feedback of a review is cut.
const FEEDBACK_CHARS: usize = 1_000;

/// The figures of a task.
#[derive(Debug, Clone, Default)]
struct TaskCount {
    spent: ResourceUse,
    commits: u32,
    /// Failures of soft gates, by gate.
    quality: BTreeMap<String, u32>,
    /// What a soft gate last objected to, by gate.
    objections: BTreeMap<String, String>,
}

impl Report {
    /// Builds the report from all events of a journal.
    pub fn from_events<'a>(
        events: impl IntoIterator<Item = &'a Recorded>,
    ) -> Result<Self, FoldError> {
        let mut report = Self::default();
        for recorded in events {
            report.apply_event(recorded)?;
        }
        Ok(report)
    }

    /// Returns the state of the run, once it has begun.
    pub fn state(&self) -> Option<&RunState> {
        self.state.as_ref()
    }

    /// Returns the iterations so far, in order.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Returns the gate results of the last iteration so far.
    pub fn last_gates(&self) -> &[GateResult] {
        &self.last_gates
    }

    /// Returns the running time at `now` of a run whose process is at work: the time since the last
    /// event counts, unless the run is paused or waits.
    pub fn running_time_at(&self, now: Timestamp) -> Millis {
        let Some(state) = &self.state else { return Millis::ZERO };
        let is_paused = matches!(state.control.pause, Pause::Since { .. });
        if is_paused || state.wait.is_some() {
            return state.ran;
        }
        state.ran.saturating_add(now.elapsed_since(self.last))
    }

    /// Applies the next event.
    pub fn apply_event(&mut self, recorded: &Recorded) -> Result<(), FoldError> {
        self.last = recorded.at;
        match self.state.take() {
            None => self.state = Some(start_state(recorded)?),
            Some(mut state) => {
                self.add_time(&state, recorded.ran);
                self.count_event(&state, recorded);
                let is_over = matches!(recorded.event, Event::IterationEnded { .. });
                let closed = is_over.then(|| state.current.clone()).flatten();
                apply_event(&mut state, recorded)?;
                if let Some(closed) = closed {
                    let left = timeline::count_remaining(&state, self.plan.map(|plan| plan.open));
                    self.timeline.end_iteration(&closed, recorded, left);
                }
                self.state = Some(state);
            }
        }
        Ok(())
    }

    /// Adds the time since the last event to the task and role of the open iteration.
    fn add_time(&mut self, before: &RunState, now: Millis) {
        let passed = Millis(now.0.saturating_sub(before.ran.0));
        self.workers.add_time(before, passed);
        let Some(current) = &before.current else { return };
        for spent in self.find_figures(current.task.as_ref(), current.role) {
            spent.ran = spent.ran.saturating_add(passed);
        }
    }

    /// Returns the figures of a task and of a role.
    fn find_figures(
        &mut self,
        task: Option<&TaskId>,
        role: Role,
    ) -> impl Iterator<Item = &mut ResourceUse> {
        let of_role =
            &mut self.roles.entry(role.name()).or_insert((role, ResourceUse::default())).1;
        let of_task = task.map(|task| &mut self.tasks.entry(task.clone()).or_default().spent);
        of_task.into_iter().chain([of_role])
    }

    /// Counts an event, given the state before it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the report counts what people ask about")]
    fn count_event(&mut self, before: &RunState, recorded: &Recorded) {
        let current = before.current.as_ref();
        let task = current.and_then(|current| current.task.as_ref());
        self.workers.apply_event(before, recorded);
        match &recorded.event {
            Event::RunResumed { .. } => self.resumed += 1,
            Event::TasksRead { remarks, list: _ } => {
                for remark in remarks {
                    self.edits.push_item(remark.clone());
                }
            }
            Event::IterationStarted { role, task, iteration: _ } => {
                self.last_gates.clear();
                let left = timeline::count_remaining(before, self.plan.map(|plan| plan.open));
                self.timeline.begin_iteration(left);
                // A merge counts against no limit, and is no attempt at the task.
                let task = task.as_ref().filter(|_| *role != Role::Merge);
                self.find_figures(task, *role).for_each(|spent| spent.iterations += 1);
            }
            Event::Asked { role, .. } => self.asked = Some(*role),
            Event::Replied { reply, ask: _ } => {
                let role = self.asked.take().or(current.map(|current| current.role));
                self.count_reply(task, role.unwrap_or(Role::Prompt), reply);
            }
            Event::Waiting { reason, until } => {
                let is_new = self.last_wait.replace(*until) != Some(*until);
                if is_new {
                    self.waits.count_wait(*reason);
                }
            }
            Event::Observed { kept: Some(name), observation: _ } => {
                self.kept.push_item(name.clone());
            }
            Event::PlanSeen { look } => {
                let plan = before.recipe.plan.as_ref();
                if let Some(warning) = plan.and_then(|plan| look.describe_restore(&plan.file)) {
                    self.warnings.push_item(warning);
                }
                self.plan = look.counts().or(self.plan);
            }
            Event::AgentListRead { diff: claim } => {
                let role = current.map_or("agent", |current| current.role.name());
                for violation in &claim.refused {
                    self.edits.push_item(format!("reverted after {role}: {violation}"));
                }
            }
            Event::GateChecked { result, survey: _ } => self.count_gate(task, result),
            Event::Refused { refusal, .. } => {
                let name = format!("{} (refused)", refusal.kind);
                let count = self.gates.entry(name);
                count.or_insert_with(|| GateCount::new(Severity::Hard)).count_refusal();
            }
            Event::BaselineChecked { result } => {
                let gate = self.gates.entry(result.gate.clone());
                let gate = gate.or_insert_with(|| GateCount::new(result.severity));
                gate.before = Some(result.status);
                gate.count_tests(result);
            }
            Event::Judged { judgement } => self.count_verdict(before, task, &judgement.verdict),
            Event::Landed { landed } => {
                let role = current.map(|current| current.role);
                self.count_landing(task, role, landed);
            }
            Event::IterationEnded { .. } => self.count_amendments(before),
            Event::ControlRequested { asked, refused } => {
                self.control_requests.push_item(ControlRequestNote {
                    at: asked.at,
                    by: asked.by.clone(),
                    request: asked.request.clone(),
                    refused: refused.clone(),
                });
            }
            Event::TaskSkipped { task, branch, commit, by: _ } => {
                if let (Some(branch), Some(commit)) = (branch.clone(), commit.clone()) {
                    let (task, commit) = (Some(task.clone()), commit.0);
                    self.failure_branches.push_item(FailureBranchNote { task, branch, commit });
                }
            }
            Event::Warned { text } => {
                if let Some(refused) = text.strip_prefix(REFUSED_CONNECTION) {
                    self.refused.push_item(refused.to_owned());
                }
                self.warnings.push_item(text.clone());
            }
            _ => {}
        }
    }

    /// Returns what the run used, with its workers.
    fn sum_resources(&self, state: &RunState) -> ResourceUse {
        // The limit counts the iterations of workers, and not the merges.
        let workers = state.parallel.as_ref().map(|it| it.total_iterations());
        let mut total = ResourceUse {
            iterations: workers.unwrap_or(state.iterations),
            asks: state.totals.asks.saturating_add(self.workers.count_asks()),
            ran: state.ran,
            ..ResourceUse::default()
        };
        total.add_usage(state.total_usage());
        total
    }

    fn count_reply(&mut self, task: Option<&TaskId>, role: Role, reply: &Reply) {
        self.timeline.add_usage(reply.usage);
        for spent in self.find_figures(task, role) {
            spent.asks += 1;
            spent.add_usage(reply.usage);
        }
    }

    fn count_gate(&mut self, task: Option<&TaskId>, result: &GateResult) {
        let gate = self.gates.entry(result.gate.clone());
        gate.or_insert_with(|| GateCount::new(result.severity)).count_result(result);
        let is_warning = result.severity == Severity::Soft && result.status == GateStatus::Failed;
        if let (Some(task), true) = (task, is_warning) {
            let count = self.tasks.entry(task.clone()).or_default();
            *count.quality.entry(result.gate.clone()).or_default() += 1;
            let objection = text::join_to_line(&result.output, FEEDBACK_CHARS);
            count.objections.insert(result.gate.clone(), objection);
        }
        self.last_gates.push(result.clone());
    }

    /// Records what a review wants fixed.
    fn count_verdict(&mut self, before: &RunState, task: Option<&TaskId>, verdict: &Verdict) {
        let Verdict::Reviewed { verdict, feedback } = verdict else { return };
        let task = task.and_then(|id| before.tasks.as_ref()?.list.find_task(id));
        let (Some(task), ReviewResult::ChangesRequested) =
            (task, ReviewResult::new(*verdict, feedback))
        else {
            return;
        };
        self.requested_changes.push_item(RequestedChange {
            id: task.id.clone(),
            title: task.title.clone(),
            review: task.review.count.saturating_add(1),
            feedback: text::join_to_line(feedback, FEEDBACK_CHARS),
        });
    }

    fn count_landing(&mut self, task: Option<&TaskId>, role: Option<Role>, landed: &Landed) {
        match landed {
            Landed::Committed { commit, subject } => {
                if let Some(task) = task {
                    self.tasks.entry(task.clone()).or_default().commits += 1;
                }
                let (id, subject) = (commit.0.clone(), subject.clone());
                self.commits.push_item(CommitNote { id, subject, task: task.cloned() });
            }
            Landed::SavedToFailureBranch { branch, commit } => {
                let (branch, commit) = (branch.clone(), commit.0.clone());
                self.failure_branches.push_item(FailureBranchNote {
                    task: task.cloned(),
                    branch,
                    commit,
                });
            }
            Landed::RolledBack { kept } | Landed::MessageChecked { kept } => {
                if let Some(name) = kept {
                    self.kept.push_item(name.clone());
                    if role == Some(Role::Review) && matches!(landed, Landed::RolledBack { .. }) {
                        self.warnings.push_item(format!(
                            "files changed during the review: the changes, also any of yours, were undone; kept on {name}"
                        ));
                    }
                }
            }
            Landed::Surveyed { .. }
            | Landed::NothingToCommit
            | Landed::CommitRefused { .. }
            | Landed::ScmRan { .. }
            | Landed::ListWritten => {}
        }
    }

    /// Records the amendments of an iteration that is about to be closed. Changes to the list are
    /// not counted if the work was rejected after all; proposals are.
    fn count_amendments(&mut self, before: &RunState) {
        let (Some(current), Some(task_state)) = (&before.current, &before.tasks) else { return };
        let Some(judgement) = current.judgement() else { return };
        let settled = settle::settle_iteration(&before.recipe, task_state, current);
        let is_made = judgement.changes.iter().all(|change| settled.changes.contains(change));
        for amended in judgement.amended.iter().filter(|it| is_made || it.proposed.is_some()) {
            self.amendments_refused += u32::from(amended.refusal.is_some());
            self.amendments_proposed += u32::from(amended.proposed.is_some());
            self.amendments.push_item(AmendmentNote {
                iteration: current.number,
                proposal: amended.proposal.clone(),
                reason: amended.reason.clone(),
                refusal: amended.refusal.clone(),
                proposed: amended.proposed.as_ref().map(|proposed| proposed.id.clone()),
            });
        }
    }
}
