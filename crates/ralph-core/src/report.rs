//! The report of a run: a fold over its journal that counts what the state does not keep.
//!
//! Its size is bounded: an entry for each task, role and gate, a series that thins itself out,
//! and the latest items of unbounded lists, never an entry for each event. [`Report::summary`] is
//! the result for people and programs. Not here: how it is printed.

mod counts;
mod summary;
pub mod timeline;

use std::collections::BTreeMap;

pub use counts::{GateCount, Latest, Spent, TokenCount, WaitCount};
pub use summary::{
    AmendmentNote, AutoApproved, CommitNote, Diverging, FailedTask, GateSummary, OpenIteration,
    Question, ReviewReading, Reviews, RoleSummary, ShelvedNote, Stuck, Summary, TaskSummary,
    WishNote, questions,
};
pub use timeline::Timeline;

use crate::checklist::Counts;
use crate::event::{Event, Landed, Recorded};
use crate::gate::{GateResult, GateStatus, Severity};
use crate::ids::{Role, TaskId};
use crate::reading::Reply;
use crate::run::{FoldError, RunState};
use crate::settle;
use crate::units::{Millis, Timestamp};

/// Prefix of warnings about the network of a sandbox.
pub const REFUSED_CONNECTION: &str = "the sandbox's network: ";

/// Prefix of a warning about a file that a process in the sandbox created, may not create, and
/// that ralph therefore removed.
pub const REMOVED_NAME: &str = "not allowed in the sandbox, removed: ";

/// The report of a run so far.
#[derive(Debug, Clone, Default)]
pub struct Report {
    state: Option<RunState>,
    last: Timestamp,
    tasks: BTreeMap<TaskId, TaskCount>,
    roles: BTreeMap<&'static str, (Role, Spent)>,
    gates: BTreeMap<String, GateCount>,
    last_gates: Vec<GateResult>,
    asked: Option<Role>,
    waits: WaitCount,
    resumed: u32,
    amendments: Latest<AmendmentNote>,
    amendments_refused: u32,
    amendments_proposed: u32,
    edits: Latest<String>,
    plan: Option<Counts>,
    kept: Latest<String>,
    shelved: Latest<ShelvedNote>,
    wishes: Latest<WishNote>,
    commits: Latest<CommitNote>,
    warnings: Latest<String>,
    refused: Latest<String>,
    timeline: Timeline,
}

/// The figures of a task.
#[derive(Debug, Clone, Default)]
struct TaskCount {
    spent: Spent,
    commits: u32,
    /// Failures of soft gates, by gate.
    quality: BTreeMap<String, u32>,
}

impl Report {
    /// Builds the report from all events of a journal.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Result<Self, FoldError> {
        let mut report = Self::default();
        for recorded in events {
            report.apply(recorded)?;
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

    /// Applies the next event.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), FoldError> {
        self.last = recorded.at;
        match self.state.take() {
            None => self.state = Some(RunState::begin(recorded)?),
            Some(mut state) => {
                self.pass_time(&state, recorded.ran);
                self.count(&state, recorded);
                let is_over = matches!(recorded.event, Event::IterationEnded { .. });
                let closed = is_over.then(|| state.current.clone()).flatten();
                state.apply(recorded)?;
                if let Some(closed) = closed {
                    let left = timeline::left(&state, self.plan.map(|plan| plan.open));
                    self.timeline.end(&closed, recorded, left);
                }
                self.state = Some(state);
            }
        }
        Ok(())
    }

    /// Adds the time since the last event to the task and role of the open iteration.
    fn pass_time(&mut self, before: &RunState, now: Millis) {
        let Some(current) = &before.current else { return };
        let passed = Millis(now.0.saturating_sub(before.ran.0));
        for spent in self.accounts(current.task.as_ref(), current.role) {
            spent.ran = spent.ran.plus(passed);
        }
    }

    /// Returns the figures of a task and of a role.
    fn accounts(&mut self, task: Option<&TaskId>, role: Role) -> impl Iterator<Item = &mut Spent> {
        let of_role = &mut self.roles.entry(role.name()).or_insert((role, Spent::default())).1;
        let of_task = task.map(|task| &mut self.tasks.entry(task.clone()).or_default().spent);
        of_task.into_iter().chain([of_role])
    }

    /// Counts an event, given the state before it.
    fn count(&mut self, before: &RunState, recorded: &Recorded) {
        let current = before.current.as_ref();
        let task = current.and_then(|current| current.task.as_ref());
        match &recorded.event {
            Event::RunResumed { .. } => self.resumed += 1,
            Event::TasksRead { remarks, list: _ } => {
                for remark in remarks {
                    self.edits.push(remark.clone());
                }
            }
            Event::IterationStarted { role, task, iteration: _ } => {
                self.last_gates.clear();
                let left = timeline::left(before, self.plan.map(|plan| plan.open));
                self.timeline.begin(left);
                self.accounts(task.as_ref(), *role).for_each(|spent| spent.iterations += 1);
            }
            Event::Asked { role, .. } => self.asked = Some(*role),
            Event::Replied { reply, ask: _ } => {
                let role = self.asked.take().or(current.map(|current| current.role));
                self.replied(task, role.unwrap_or(Role::Prompt), reply);
            }
            Event::Waiting { reason, until: _ } => self.waits.add(*reason),
            Event::Observed { kept, observation: _ } => {
                if let Some(name) = kept {
                    self.kept.push(name.clone());
                }
            }
            Event::PlanSeen { look } => {
                let plan = before.recipe.plan.as_ref();
                if let Some(warning) = plan.and_then(|plan| look.put_back(&plan.file)) {
                    self.warnings.push(warning);
                }
                self.plan = look.counts().or(self.plan);
            }
            Event::Claimed { claim } => {
                let role = current.map_or("agent", |current| current.role.name());
                for violation in &claim.refused {
                    self.edits.push(format!("reverted after {role}: {violation}"));
                }
            }
            Event::GateChecked { result } => self.gate_checked(task, result),
            Event::BaselineChecked { result } => {
                let gate = self.gates.entry(result.gate.clone());
                gate.or_insert_with(|| GateCount::new(result.severity)).before =
                    Some(result.status);
            }
            Event::Landed { landed } => self.landed(task, landed),
            Event::IterationEnded { .. } => self.amended(before),
            Event::Wished { asked, refused } => {
                self.wishes.push(WishNote {
                    at: asked.at,
                    by: asked.by.clone(),
                    wish: asked.wish.clone(),
                    refused: refused.clone(),
                });
            }
            Event::TaskSkipped { task, branch, commit, by: _ } => {
                if let (Some(branch), Some(commit)) = (branch.clone(), commit.clone()) {
                    let (task, commit) = (Some(task.clone()), commit.0);
                    self.shelved.push(ShelvedNote { task, branch, commit });
                }
            }
            Event::Warned { text } => {
                if let Some(refused) = text.strip_prefix(REFUSED_CONNECTION) {
                    self.refused.push(refused.to_owned());
                }
                self.warnings.push(text.clone());
            }
            Event::RunStarted { .. }
            | Event::TasksWritten
            | Event::BaselineStarted { .. }
            | Event::Checkpointed { .. }
            | Event::Judged { .. }
            | Event::Paused
            | Event::RunEnded { .. } => {}
        }
    }

    fn replied(&mut self, task: Option<&TaskId>, role: Role, reply: &Reply) {
        self.timeline.replied(reply.usage);
        for spent in self.accounts(task, role) {
            spent.asks += 1;
            spent.add(reply.usage);
        }
    }

    fn gate_checked(&mut self, task: Option<&TaskId>, result: &GateResult) {
        let gate = self.gates.entry(result.gate.clone());
        gate.or_insert_with(|| GateCount::new(result.severity)).add(result);
        let is_warning = result.severity == Severity::Soft && result.status == GateStatus::Failed;
        if let (Some(task), true) = (task, is_warning) {
            let count = self.tasks.entry(task.clone()).or_default();
            *count.quality.entry(result.gate.clone()).or_default() += 1;
        }
        self.last_gates.push(result.clone());
    }

    fn landed(&mut self, task: Option<&TaskId>, landed: &Landed) {
        match landed {
            Landed::Committed { commit, subject } => {
                if let Some(task) = task {
                    self.tasks.entry(task.clone()).or_default().commits += 1;
                }
                let (id, subject) = (commit.0.clone(), subject.clone());
                self.commits.push(CommitNote { id, subject, task: task.cloned() });
            }
            Landed::Shelved { branch, commit } => {
                let (branch, commit) = (branch.clone(), commit.0.clone());
                self.shelved.push(ShelvedNote { task: task.cloned(), branch, commit });
            }
            Landed::RolledBack { kept } | Landed::Heard { kept } => {
                if let Some(name) = kept {
                    self.kept.push(name.clone());
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
    fn amended(&mut self, before: &RunState) {
        let (Some(current), Some(work), Some(board)) =
            (&before.current, before.recipe.task_work(), &before.board)
        else {
            return;
        };
        let (Some(judgement), Some(task)) = (&current.judgement, &current.task) else { return };
        let settled = settle::settle(work, board.log(task).failed, &board.list, current);
        let is_made = settled.changes == judgement.changes;
        for amended in judgement.amended.iter().filter(|it| is_made || it.proposed.is_some()) {
            self.amendments_refused += u32::from(amended.refusal.is_some());
            self.amendments_proposed += u32::from(amended.proposed.is_some());
            self.amendments.push(AmendmentNote {
                iteration: current.number,
                proposal: amended.proposal.clone(),
                reason: amended.reason.clone(),
                refusal: amended.refusal.clone(),
                proposed: amended.proposed.as_ref().map(|proposed| proposed.id.clone()),
            });
        }
    }
}
