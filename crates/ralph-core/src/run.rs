//! The state of a run: the fold of its events.
//!
//! It holds one iteration and some totals, so it stays small however long the run is. Not
//! here: the next step, which `choose` decides from this state.

mod answer_check;
mod control_events;
mod iteration;
mod iteration_end;
mod resume;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::agent_call_state::{AgentCallEnd, AgentCallState, PromptSize};
use crate::agent_output::{Reply, Usage};
use crate::autorun_changes::{AutorunChange, MAX_AUTORUN_CHANGES};
use crate::context::Calibration;
use crate::control::{self, Control};
use crate::event::{
    Checkpoint, EndSnapshot, Event, History, Landed, Observation, Purpose, Recorded, TreeId,
    WaitReason,
};
use crate::failure::FailureClass;
use crate::gate::{GateResult, GateStatus};
use crate::handoff::Handoff;
use crate::ids::{AskNumber, Role, RunId};
use crate::judge::Feedback;
use crate::memory::{self, CompactionTrigger, Memory, SinceCompaction};
use crate::outcome::Outcome;
use crate::recipe::{AgentKind, CommitPolicy, Recipe};
use crate::report::REMOVED_NAME;
use crate::settle;
use crate::task::Task;
use crate::task_state::{TaskState, WorkChoice};
use crate::units::{Millis, Timestamp};

pub use iteration::{Iteration, Observed};
pub use iteration_end::{Durability, PendingList};

/// How many handoffs are kept for the next prompt.
const KEPT_HANDOFFS: usize = 4;

/// How many handoffs of failed attempts are kept for the next attempt at the same task.
const KEPT_FAILED_HANDOFFS: usize = 2;

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub run: RunId,
    pub project: PathBuf,
    pub recipe: Recipe,
    pub started: Timestamp,
    /// The sequence number of the last event.
    pub seq: u64,
    /// Running time, without waits and pauses.
    pub ran: Millis,
    /// How many iterations have begun.
    pub iterations: u32,
    pub current: Option<Iteration>,
    pub last_ended: Option<Timestamp>,
    /// Feedback for the next prompt.
    pub feedback: Vec<Feedback>,
    /// Open plan items at the last completion signal that was rejected.
    #[serde(default, rename = "doubted")]
    pub rejected_open_items: Option<u32>,
    /// Consecutive iterations on a prompt that passed the gates and changed nothing.
    #[serde(default)]
    pub unchanged: u32,
    /// The tree after the last iteration on a prompt, if observed.
    #[serde(default)]
    pub last_tree: Option<TreeId>,
    /// The trees on which gates passed, by gate.
    #[serde(rename = "green")]
    pub passed_trees: BTreeMap<String, TreeId>,
    /// Autorun files that agents changed.
    #[serde(rename = "planted")]
    pub autorun_changes: BTreeSet<AutorunChange>,
    /// The task list and the work on it, once read.
    #[serde(rename = "board")]
    pub tasks: Option<TaskState>,
    /// Gate results from before the first agent call.
    pub baseline: Option<Baseline>,
    /// The state in which work began that has not landed yet.
    pub base: Option<Checkpoint>,
    /// Commits by agents since `base` that are already in the totals.
    #[serde(default, rename = "counted")]
    pub counted_commits: u32,
    /// Handoffs of the last iterations on tasks, oldest first.
    pub handoffs: Vec<Handoff>,
    /// Memory compacted from older handoffs.
    #[serde(default)]
    pub memory: Option<Box<Memory>>,
    /// What has accumulated since the last compaction.
    #[serde(default, rename = "since")]
    pub since_compaction: SinceCompaction,
    /// Characters per token, measured from what agents report.
    #[serde(default)]
    pub calibration: Calibration,
    /// Agents whose API refused a JSON Schema; the prompt asks them for structured
    /// answers instead.
    #[serde(default)]
    pub schema_refused_by: Vec<AgentKind>,
    pub completeness: Completeness,
    pub totals: Totals,
    /// Start of the current wait for a usage limit.
    pub waiting_since: Option<Timestamp>,
    /// Control requests that are not done yet.
    #[serde(default)]
    pub control: Control,
    /// The last end of the run, unless it is running.
    pub outcome: Option<Outcome>,
    /// The snapshot from that end.
    #[serde(default, rename = "left")]
    pub end_snapshot: Option<Box<EndSnapshot>>,
}

/// Gate results from before the first agent call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The tree the gates ran on.
    pub tree: Option<TreeId>,
    pub results: Vec<GateResult>,
}

/// Whether the work is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// There is work left.
    Open,
    Complete,
}

/// Sums over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    pub asks: u32,
    /// Calls that were repeated because of a failure.
    pub retries: u32,
    pub usage: Usage,
    /// Tools called by agents.
    pub tools: u32,
    pub gates: u32,
    pub gate_failures: u32,
    pub commits: u32,
    /// Iterations that passed all hard gates.
    pub passed: u32,
    /// Time spent waiting for usage limits.
    pub waited: Millis,
    /// Time spent in pauses that the user requested.
    #[serde(default)]
    pub paused: Millis,
    /// Processes that ralph ended after their parent was gone.
    pub leftovers: u32,
    pub warnings: u32,
}

/// An event that cannot follow from the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} does not fit: {reason}")]
pub struct FoldError {
    pub seq: u64,
    pub reason: &'static str,
}

impl RunState {
    /// Returns the state after the first event of a journal.
    pub fn from_first_event(first: &Recorded) -> Result<Self, FoldError> {
        let Event::RunStarted { run, project, recipe, journal: _, version: _ } = &first.event
        else {
            return Err(FoldError {
                seq: first.seq,
                reason: "a journal begins with `run_started`",
            });
        };
        Ok(Self {
            run: run.clone(),
            project: project.clone(),
            recipe: (**recipe).clone(),
            started: first.at,
            seq: first.seq,
            ran: first.ran,
            iterations: 0,
            current: None,
            last_ended: None,
            feedback: Vec::new(),
            rejected_open_items: None,
            unchanged: 0,
            last_tree: None,
            passed_trees: BTreeMap::new(),
            autorun_changes: BTreeSet::new(),
            tasks: None,
            baseline: None,
            base: None,
            counted_commits: 0,
            handoffs: Vec::new(),
            memory: recipe.memory.as_ref().and_then(|policy| policy.known.clone()),
            since_compaction: SinceCompaction::default(),
            calibration: Calibration::default(),
            schema_refused_by: Vec::new(),
            completeness: Completeness::Open,
            totals: Totals::default(),
            waiting_since: None,
            control: Control::default(),
            outcome: None,
            end_snapshot: None,
        })
    }

    /// Returns the state after all events of a journal.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Result<Self, FoldError> {
        let mut events = events.into_iter();
        let first = events.next().ok_or(FoldError { seq: 0, reason: "the journal is empty" })?;
        let mut state = Self::from_first_event(first)?;
        for recorded in events {
            state.apply_event(recorded)?;
        }
        Ok(state)
    }

    /// Applies the next event.
    pub fn apply_event(&mut self, recorded: &Recorded) -> Result<(), FoldError> {
        let misfit = |reason| FoldError { seq: recorded.seq, reason };
        if recorded.seq != self.seq + 1 {
            return Err(misfit("its number does not follow"));
        }
        self.seq = recorded.seq;
        self.ran = self.ran.max(recorded.ran);
        self.count_wait(recorded);
        match &recorded.event {
            Event::RunStarted { .. } => return Err(misfit("the run has begun before")),
            Event::RunResumed { recipe, meanwhile, version: _ } => {
                self.apply_resume(recipe.as_deref(), meanwhile.as_ref());
            }
            Event::TasksRead { list, remarks: _ } => {
                match &mut self.tasks {
                    Some(tasks) => tasks.replace_list((**list).clone()),
                    None => self.tasks = Some(TaskState::new((**list).clone())),
                }
                // The file is about to be restored, and may already be if ralph dies now.
                if let Some(current) = &mut self.current {
                    current.reset_list_landing();
                }
            }
            Event::TasksWritten => {
                if let Some(tasks) = &mut self.tasks {
                    tasks.mark_written();
                }
                if let Some(current) = &mut self.current {
                    current.reset_list_landing();
                }
            }
            Event::BaselineStarted { tree } => {
                self.baseline = Some(Baseline { tree: tree.clone(), results: Vec::new() });
            }
            Event::BaselineChecked { result } => self.apply_baseline_result(result),
            Event::IterationStarted { iteration, role, task } => {
                self.iterations = iteration.0;
                // An agent that owns or commits the list finds it unchanged.
                if let (Some(tasks), Some(task), Role::Implement | Role::Fix) =
                    (&mut self.tasks, task, role)
                    && !self.recipe.is_list_owned_by_agent()
                    && self.recipe.landing.commit != CommitPolicy::Agent
                {
                    tasks.mark_in_progress(task);
                }
                let open = Iteration::new(*iteration, *role, task.clone(), recorded);
                self.current = Some(open);
            }
            Event::Waiting { reason, until: _ } => {
                self.waiting_since = (*reason == WaitReason::UsageLimit).then_some(recorded.at);
            }
            Event::ControlRequested { .. } | Event::Paused | Event::TaskSkipped { .. } => {
                self.apply_control_event(recorded);
            }
            Event::Warned { text } => self.apply_warning(text),
            Event::IterationEnded { .. } => self.close_iteration(recorded.at),
            Event::RunEnded { outcome, left } => {
                (self.outcome, self.end_snapshot) = (Some(outcome.clone()), left.clone());
            }
            Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Replied { .. }
            | Event::PlanSeen { .. }
            | Event::AgentListRead { .. }
            | Event::Observed { .. }
            | Event::GateChecked { .. }
            | Event::Judged { .. }
            | Event::Landed { .. } => {
                let mut current = self.current.take().ok_or(misfit("no iteration is open"))?;
                self.apply_in_iteration(&mut current, recorded);
                self.current = Some(current);
            }
        }
        Ok(())
    }

    /// Counts a warning, and keeps removed files for the next prompt.
    fn apply_warning(&mut self, text: &str) {
        self.totals.warnings += 1;
        if let (Some(current), Some(removed)) = (&mut self.current, text.strip_prefix(REMOVED_NAME))
        {
            current.removed.push(removed.to_owned());
        }
    }

    /// Counts a wait that ends with this event. A wait that a crash cut short is not
    /// counted: its length is unknown.
    fn count_wait(&mut self, recorded: &Recorded) {
        let Some(since) = self.waiting_since.take() else { return };
        if !matches!(recorded.event, Event::RunResumed { .. }) {
            self.totals.waited =
                self.totals.waited.saturating_add(recorded.at.elapsed_since(since));
        }
    }

    /// Applies an event of the open iteration.
    fn apply_in_iteration(&mut self, current: &mut Iteration, recorded: &Recorded) {
        match &recorded.event {
            Event::Checkpointed { checkpoint } => {
                current.checkpoint = Some(checkpoint.clone());
                // A compaction changes no code, so the base of the current work stays.
                if self.base.is_none() && current.role != Role::Compact {
                    (self.base, self.counted_commits) = (Some(checkpoint.clone()), 0);
                }
            }
            Event::Asked { ask, purpose, prompt_chars, agent, token, .. } => {
                self.totals.asks += 1;
                self.calibration.record_prompt(*prompt_chars);
                current.asks = ask.0;
                if *purpose == Purpose::Work && control::takes_notes(current.role) {
                    current.notes.append(&mut self.control.notes);
                }
                let asking = current.call_state_mut(purpose);
                asking.pending = Some(*ask);
                asking.agent = Some(*agent);
                asking.token.clone_from(token);
                if let Purpose::Gate(name) = purpose {
                    current.gate_asked = Some(name.clone());
                }
                if current.pre_question.is_none() {
                    current.pre_question = match purpose {
                        Purpose::Work => None,
                        Purpose::Gate(_) => self.observed_state_of(current),
                        Purpose::Message => current.surveyed_state(),
                    };
                }
            }
            Event::Replied { ask, reply } => self.apply_reply(current, *ask, reply, recorded.at),
            Event::PlanSeen { look } => current.plan = Some(look.clone()),
            Event::AgentListRead { diff } => current.list_diff = Some(diff.clone()),
            Event::Observed { observation, kept } => {
                let changed = observation.iter().flat_map(|seen| &seen.autorun_changes);
                let room = MAX_AUTORUN_CHANGES.saturating_sub(self.autorun_changes.len());
                self.autorun_changes.extend(changed.take(room).cloned());
                if let (Some(seen), None) = (observation, kept) {
                    self.count_commits(seen);
                }
                if current.observed.is_some() {
                    // Files were rewritten after these gates passed, so their results
                    // cannot be reused.
                    let before = current.observed_tree().cloned();
                    self.passed_trees.retain(|_, tree| Some(&*tree) != before.as_ref());
                    current.restart_gates();
                }
                let (observation, kept) = (observation.clone(), kept.clone());
                current.observed = Some(Observed { observation, kept });
            }
            Event::GateChecked { result } => {
                self.count_gate(result);
                let tree = current.observed_tree().cloned();
                self.record_passed_tree(result, tree);
                current.gate = AgentCallState::default();
                current.pre_question = None;
                current.insert_gate_result(result.clone(), &self.recipe.gates);
            }
            Event::Judged { judgement } => current.judgement = Some((**judgement).clone()),
            Event::Landed { landed } => {
                match landed {
                    Landed::Committed { .. } => {
                        self.totals.commits += 1;
                        self.record_work_range(current);
                        if current.has_unaccepted_work() {
                            // ralph's own commit must not count as the agent's.
                            self.counted_commits += 1;
                        } else {
                            self.base = None;
                        }
                    }
                    Landed::NothingToCommit if current.has_unaccepted_work() => {}
                    Landed::NothingToCommit | Landed::SavedToFailureBranch { .. } => {
                        self.base = None;
                    }
                    // Changes of earlier attempts are still there and have not passed the
                    // gates.
                    Landed::RolledBack { .. } => {
                        if current.role != Role::Compact && self.base == current.checkpoint {
                            self.base = None;
                        }
                    }
                    Landed::MessageChecked { .. } => current.pre_question = None,
                    Landed::ListWritten => self.record_written_list(current),
                    Landed::Surveyed { .. }
                    | Landed::CommitRefused { .. }
                    | Landed::ScmRan { .. } => {}
                }
                current.landed.push(landed.clone());
            }
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::TasksRead { .. }
            | Event::TasksWritten
            | Event::BaselineStarted { .. }
            | Event::BaselineChecked { .. }
            | Event::IterationStarted { .. }
            | Event::Waiting { .. }
            | Event::ControlRequested { .. }
            | Event::Paused
            | Event::TaskSkipped { .. }
            | Event::Warned { .. }
            | Event::IterationEnded { .. }
            | Event::RunEnded { .. } => {}
        }
    }

    /// Records the list changes that were written to the task file ahead of the state.
    fn record_written_list(&mut self, current: &Iteration) {
        if let (Some(tasks), Some(work), Some(task)) =
            (&mut self.tasks, self.recipe.task_work(), &current.task)
        {
            let settled = settle::settle_iteration(
                work,
                tasks.attempt_log(task).failed,
                &tasks.list,
                current,
            );
            tasks.mark_written_ahead(&settled.changes);
        }
    }

    /// Counts the agent's commits, where agents may commit.
    fn count_commits(&mut self, seen: &Observation) {
        if let (CommitPolicy::Agent, History::Advanced { commits }) =
            (&self.recipe.landing.commit, seen.history)
        {
            self.totals.commits += commits.saturating_sub(self.counted_commits);
            self.counted_commits = commits;
        }
    }

    /// Applies the reply to a call.
    fn apply_reply(
        &mut self,
        current: &mut Iteration,
        ask: AskNumber,
        reply: &Reply,
        at: Timestamp,
    ) {
        self.totals.usage = self.totals.usage.plus(reply.usage);
        self.totals.tools += reply.tools;
        self.calibration.learn_from_reply(reply);
        self.totals.leftovers += reply.end.leftovers.processes;
        let form = self.check_answer_form(current, ask, reply);
        let asking = [&mut current.message, &mut current.gate, &mut current.work]
            .into_iter()
            .find(|asking| asking.pending == Some(ask));
        let Some(asking) = asking else { return };
        asking.apply_reply(reply, form, at, &self.recipe);
        let is_refused =
            reply.failure.as_ref().is_some_and(|it| it.class == FailureClass::SchemaRefused);
        if let Some(agent) = asking.agent.filter(|_| is_refused)
            && !self.schema_refused_by.contains(&agent)
        {
            self.schema_refused_by.push(agent);
        }
        if asking.end.is_none() {
            self.totals.retries += 1;
        }
    }

    /// Records the change that a review of the task will look at.
    fn record_work_range(&mut self, current: &Iteration) {
        let surveyed = current.landed.iter().find_map(Landed::surveyed_tree);
        if let (Some(tasks), Some(task), Role::Implement | Role::Fix) =
            (&mut self.tasks, &current.task, current.role)
            && let Some(Checkpoint::Git { tree: Some(from), .. }) = &self.base
            && let Some(to) = surveyed.or_else(|| current.observed_tree()).cloned()
        {
            tasks.record_commit(task, from.clone(), to);
        }
    }

    fn apply_baseline_result(&mut self, result: &GateResult) {
        self.count_gate(result);
        let tree = self.baseline.as_ref().and_then(|baseline| baseline.tree.clone());
        self.record_passed_tree(result, tree);
        if let Some(baseline) = &mut self.baseline {
            baseline.results.push(result.clone());
        }
    }

    fn count_gate(&mut self, result: &GateResult) {
        self.totals.gates += 1;
        if result.status == GateStatus::Failed {
            self.totals.gate_failures += 1;
        }
        if let Some(end) = &result.end {
            self.totals.leftovers += end.leftovers.processes;
        }
    }

    fn record_passed_tree(&mut self, result: &GateResult, tree: Option<TreeId>) {
        match (result.status, tree) {
            (GateStatus::Passed | GateStatus::Cached, Some(tree)) => {
                self.passed_trees.insert(result.gate.clone(), tree);
            }
            (GateStatus::Failed, _) | (_, None) => {}
        }
    }

    /// Returns the task of the next coding iteration, if that is next.
    pub fn next_coding_task(&self) -> Option<&Task> {
        let WorkChoice::Next(next) = self.tasks.as_ref()?.next_work(self.recipe.task_work()?)
        else {
            return None;
        };
        match next.role_and_task()? {
            (Role::Implement | Role::Fix, task) => Some(task),
            (
                Role::Prompt
                | Role::Plan
                | Role::Build
                | Role::Review
                | Role::Compact
                | Role::Message,
                _,
            ) => None,
        }
    }

    /// Returns why a compaction is due before the next iteration, if it is.
    pub fn compaction_due(&self) -> Option<CompactionTrigger> {
        memory::find_trigger(
            self.recipe.memory.as_ref()?,
            &self.since_compaction,
            self.next_coding_task()?,
        )
    }

    /// Returns why the open compaction was started. What it depends on does not change
    /// while one is open, except for the list, which the user may edit.
    pub fn compaction_trigger(&self) -> CompactionTrigger {
        self.compaction_due().unwrap_or(CompactionTrigger::Periodic)
    }

    /// Returns the highest allowed iteration number. Compactions have numbers but do not
    /// count against the limit.
    pub fn last_iteration(&self) -> u32 {
        let is_open = self.current.as_ref().is_some_and(|current| current.role == Role::Compact);
        let compactions = self.since_compaction.compactions.saturating_add(u32::from(is_open));
        self.recipe.limits.iterations.saturating_add(compactions)
    }

    /// Returns whether a gate failed before the first agent call.
    pub(crate) fn is_broken_at_start(&self, gate: &str) -> bool {
        self.baseline
            .iter()
            .flat_map(|baseline| &baseline.results)
            .any(|result| result.gate == gate && result.status == GateStatus::Failed)
    }

    /// Returns whether an iteration left the tree unchanged. False if the tree was not
    /// observed.
    pub(crate) fn has_changed_nothing(&self, current: &Iteration) -> bool {
        let found = match (&self.last_tree, &current.checkpoint) {
            (Some(last), _) => Some(last),
            (None, Some(Checkpoint::Git { tree, .. })) => tree.as_ref(),
            (None, Some(Checkpoint::None) | None) => None,
        };
        found.is_some() && found == current.observed_tree()
    }

    /// Returns how long the open iteration has been running.
    pub fn ran_in_iteration(&self) -> Millis {
        let began = self.current.as_ref().map_or(self.ran, |current| current.began);
        Millis(self.ran.0.saturating_sub(began.0))
    }
}
