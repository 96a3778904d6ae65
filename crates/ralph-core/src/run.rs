//! The state of a run: the fold of its events, and nothing else.
//!
//! It holds one iteration and some totals, so it stays small however long the run is. Not
//! here: what to do next, which `choose` decides from this state.

mod closing;
mod controlled;
mod form;
mod iteration;
mod resuming;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::asking::{Asking, AskingEnd, PromptSize};
use crate::board::{Board, Turn};
use crate::context::Calibration;
use crate::control::{self, Control};
use crate::event::{
    Checkpoint, Event, History, Landed, Left, Observation, Purpose, Recorded, TreeId, WaitReason,
};
use crate::failure::FailureClass;
use crate::gate::{GateResult, GateStatus};
use crate::handoff::Handoff;
use crate::ids::{AskNumber, Role, RunId};
use crate::judge::Feedback;
use crate::memory::{self, Memory, Since, Trigger};
use crate::outcome::Outcome;
use crate::planted::{MOST_PLANTED, Planted};
use crate::reading::{Reply, Usage};
use crate::recipe::{AgentKind, CommitPolicy, Recipe};
use crate::report::REMOVED_NAME;
use crate::settle;
use crate::task::Task;
use crate::units::{Millis, Timestamp};

pub use closing::{Ahead, Stands};
pub use iteration::{Iteration, Observed};

/// How many accounts of iterations are at hand for the next prompt.
const HANDOFFS: usize = 4;

/// How many accounts of failed attempts are at hand for the next attempt at the same task.
const FAILED_HANDOFFS: usize = 2;

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// The run's id.
    pub run: RunId,
    /// The project directory.
    pub project: PathBuf,
    /// The policies.
    pub recipe: Recipe,
    /// When it began.
    pub started: Timestamp,
    /// The number of the last event.
    pub seq: u64,
    /// How long it has been running, without waits and pauses.
    pub ran: Millis,
    /// How many iterations have begun.
    pub iterations: u32,
    /// The iteration that is open, if any.
    pub current: Option<Iteration>,
    /// When the last iteration ended.
    pub last_ended: Option<Timestamp>,
    /// What the next iteration is told.
    pub feedback: Vec<Feedback>,
    /// How many items of the plan were open when the agent last said that all is done and was not
    /// believed.
    #[serde(default)]
    pub doubted: Option<u32>,
    /// How many iterations on a prompt in a row passed the checks and changed nothing.
    #[serde(default)]
    pub unchanged: u32,
    /// The tree that the last iteration on a prompt left, where it was looked at.
    #[serde(default)]
    pub last_tree: Option<TreeId>,
    /// The trees on which gates passed, by gate.
    pub green: BTreeMap<String, TreeId>,
    /// What was changed that acts by itself later on.
    pub planted: BTreeSet<Planted>,
    /// The task list, where that is the work and it has been read.
    pub board: Option<Board>,
    /// What the gates said before any agent was paid, where they were asked.
    pub baseline: Option<Baseline>,
    /// The state that work which is not landed yet began from.
    pub base: Option<Checkpoint>,
    /// How many commits of agents since then are counted.
    #[serde(default)]
    pub counted: u32,
    /// The accounts of the last iterations on tasks, oldest first.
    pub handoffs: Vec<Handoff>,
    /// What compaction has made of older ones.
    #[serde(default)]
    pub memory: Option<Box<Memory>>,
    /// What has gathered since the last compaction.
    #[serde(default)]
    pub since: Since,
    /// How many characters a token has, as far as the agents told.
    #[serde(default)]
    pub calibration: Calibration,
    /// Agents whose API has refused a schema: they are asked for structured answers in words.
    #[serde(default)]
    pub schema_refused_by: Vec<AgentKind>,
    /// Whether the work is complete.
    pub completeness: Completeness,
    /// Sums over the run.
    pub totals: Totals,
    /// Since when the run waits for a usage limit, if it does.
    pub waiting_since: Option<Timestamp>,
    /// What was asked of it and is not done yet.
    #[serde(default)]
    pub control: Control,
    /// How the run ended the last time, if it is not running.
    pub outcome: Option<Outcome>,
    /// What it left then.
    #[serde(default)]
    pub left: Option<Box<Left>>,
}

/// What the gates said before any agent was paid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The tree they were run on.
    pub tree: Option<TreeId>,
    /// Their results so far.
    pub results: Vec<GateResult>,
}

/// Whether the work is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// There is work left.
    Open,
    /// It is done.
    Complete,
}

/// Sums over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Calls to agents.
    pub asks: u32,
    /// Calls that were repeated because of a failure.
    pub retries: u32,
    /// Tokens and money.
    pub usage: Usage,
    /// Tools called by agents.
    pub tools: u32,
    /// Gates run.
    pub gates: u32,
    /// Gates that failed.
    pub gate_failures: u32,
    /// Commits made.
    pub commits: u32,
    /// Iterations that passed all hard gates.
    pub passed: u32,
    /// Time spent in waiting for usage limits.
    pub waited: Millis,
    /// Time spent in pauses that somebody asked for.
    #[serde(default)]
    pub paused: Millis,
    /// Processes that had to be ended after their parent was gone.
    pub leftovers: u32,
    /// Warnings given.
    pub warnings: u32,
}

/// An event that cannot follow from the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} does not fit: {reason}")]
pub struct FoldError {
    /// The number of the event.
    pub seq: u64,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl RunState {
    /// Returns the state after the first event of a journal.
    pub fn begin(first: &Recorded) -> Result<Self, FoldError> {
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
            doubted: None,
            unchanged: 0,
            last_tree: None,
            green: BTreeMap::new(),
            planted: BTreeSet::new(),
            board: None,
            baseline: None,
            base: None,
            counted: 0,
            handoffs: Vec::new(),
            memory: recipe.memory.as_ref().and_then(|policy| policy.known.clone()),
            since: Since::default(),
            calibration: Calibration::default(),
            schema_refused_by: Vec::new(),
            completeness: Completeness::Open,
            totals: Totals::default(),
            waiting_since: None,
            control: Control::default(),
            outcome: None,
            left: None,
        })
    }

    /// Returns the state after all events of a journal.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Result<Self, FoldError> {
        let mut events = events.into_iter();
        let first = events.next().ok_or(FoldError { seq: 0, reason: "the journal is empty" })?;
        let mut state = Self::begin(first)?;
        for recorded in events {
            state.apply(recorded)?;
        }
        Ok(state)
    }

    /// Takes in the next event.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), FoldError> {
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
                self.resumed(recipe.as_deref(), meanwhile.as_ref());
            }
            Event::TasksRead { list, remarks: _ } => {
                match &mut self.board {
                    Some(board) => board.take_over((**list).clone()),
                    None => self.board = Some(Board::new((**list).clone())),
                }
                // The file is about to be put right, and may be so if ralph dies now.
                if let Some(current) = &mut self.current {
                    current.list_was_put_back();
                }
            }
            Event::TasksWritten => {
                if let Some(board) = &mut self.board {
                    board.written();
                }
                if let Some(current) = &mut self.current {
                    current.list_was_put_back();
                }
            }
            Event::BaselineStarted { tree } => {
                self.baseline = Some(Baseline { tree: tree.clone(), results: Vec::new() });
            }
            Event::BaselineChecked { result } => self.baseline_checked(result),
            Event::IterationStarted { iteration, role, task } => {
                self.iterations = iteration.0;
                // An agent that keeps the list, or commits it, finds it as it was left.
                if let (Some(board), Some(task), Role::Implement | Role::Fix) =
                    (&mut self.board, task, role)
                    && !self.recipe.is_kept_by_agent()
                    && self.recipe.landing.commit != CommitPolicy::Agent
                {
                    board.begin(task);
                }
                let open = Iteration::new(*iteration, *role, task.clone(), recorded);
                self.current = Some(open);
            }
            Event::Waiting { reason, until: _ } => {
                self.waiting_since = (*reason == WaitReason::UsageLimit).then_some(recorded.at);
            }
            Event::Wished { .. } | Event::Paused | Event::TaskSkipped { .. } => {
                self.controlled(recorded);
            }
            Event::Warned { text } => self.warned(text),
            Event::IterationEnded { .. } => self.close(recorded.at),
            Event::RunEnded { outcome, left } => {
                (self.outcome, self.left) = (Some(outcome.clone()), left.clone());
            }
            Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Replied { .. }
            | Event::PlanSeen { .. }
            | Event::Claimed { .. }
            | Event::Observed { .. }
            | Event::GateChecked { .. }
            | Event::Judged { .. }
            | Event::Landed { .. } => {
                let mut current = self.current.take().ok_or(misfit("no iteration is open"))?;
                self.apply_within(&mut current, recorded);
                self.current = Some(current);
            }
        }
        Ok(())
    }

    /// Counts a warning, and notes for the next prompt what was removed after a call.
    fn warned(&mut self, text: &str) {
        self.totals.warnings += 1;
        if let (Some(current), Some(removed)) = (&mut self.current, text.strip_prefix(REMOVED_NAME))
        {
            current.removed.push(removed.to_owned());
        }
    }

    /// Counts a wait that is over with this event. One that a crash cut short is not counted:
    /// nobody knows how long it was.
    fn count_wait(&mut self, recorded: &Recorded) {
        let Some(since) = self.waiting_since.take() else { return };
        if !matches!(recorded.event, Event::RunResumed { .. }) {
            self.totals.waited = self.totals.waited.plus(recorded.at.since(since));
        }
    }

    /// Takes in an event that belongs to the open iteration.
    fn apply_within(&mut self, current: &mut Iteration, recorded: &Recorded) {
        match &recorded.event {
            Event::Checkpointed { checkpoint } => {
                current.checkpoint = Some(checkpoint.clone());
                // A compaction is about no work: what is under way stays what it is.
                if self.base.is_none() && current.role != Role::Compact {
                    (self.base, self.counted) = (Some(checkpoint.clone()), 0);
                }
            }
            Event::Asked { ask, purpose, prompt_chars, agent, token, .. } => {
                self.totals.asks += 1;
                self.calibration.ask(*prompt_chars);
                current.asks = ask.0;
                if *purpose == Purpose::Work && control::takes_notes(current.role) {
                    current.notes.append(&mut self.control.notes);
                }
                let asking = current.asking_mut(purpose);
                asking.pending = Some(*ask);
                asking.agent = Some(*agent);
                asking.token.clone_from(token);
                if let Purpose::Gate(name) = purpose {
                    current.gate_asked = Some(name.clone());
                }
                if current.unheard.is_none() {
                    current.unheard = match purpose {
                        Purpose::Work => None,
                        Purpose::Gate(_) => self.seen_in(current),
                        Purpose::Message => current.surveyed(),
                    };
                }
            }
            Event::Replied { ask, reply } => self.replied(current, *ask, reply, recorded.at),
            Event::PlanSeen { look } => current.plan = Some(look.clone()),
            Event::Claimed { claim } => current.claim = Some(claim.clone()),
            Event::Observed { observation, kept } => {
                let planted = observation.iter().flat_map(|seen| &seen.planted);
                let room = MOST_PLANTED.saturating_sub(self.planted.len());
                self.planted.extend(planted.take(room).cloned());
                if let (Some(seen), None) = (observation, kept) {
                    self.count_commits(seen);
                }
                if current.observed.is_some() {
                    // What passed on the tree before does not pass by itself: it was rewritten.
                    let before = current.observed_tree().cloned();
                    self.green.retain(|_, tree| Some(&*tree) != before.as_ref());
                    current.start_gates_again();
                }
                let (observation, kept) = (observation.clone(), kept.clone());
                current.observed = Some(Observed { observation, kept });
            }
            Event::GateChecked { result } => {
                self.count_gate(result);
                let tree = current.observed_tree().cloned();
                self.note_green(result, tree);
                current.gate = Asking::default();
                current.unheard = None;
                current.gate_spoke(result.clone(), &self.recipe.gates);
            }
            Event::Judged { judgement } => current.judgement = Some((**judgement).clone()),
            Event::Landed { landed } => {
                match landed {
                    Landed::Committed { .. } => {
                        self.totals.commits += 1;
                        self.note_work(current);
                        if current.is_work_open() {
                            // The commit is ralph's own, not one of the agent's.
                            self.counted += 1;
                        } else {
                            self.base = None;
                        }
                    }
                    Landed::NothingToCommit if current.is_work_open() => {}
                    Landed::NothingToCommit | Landed::Shelved { .. } => self.base = None,
                    // What earlier attempts left is still there, and nobody has passed it.
                    Landed::RolledBack { .. } => {
                        if current.role != Role::Compact && self.base == current.checkpoint {
                            self.base = None;
                        }
                    }
                    Landed::Heard { .. } => current.unheard = None,
                    Landed::ListWritten => self.note_written(current),
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
            | Event::Wished { .. }
            | Event::Paused
            | Event::TaskSkipped { .. }
            | Event::Warned { .. }
            | Event::IterationEnded { .. }
            | Event::RunEnded { .. } => {}
        }
    }

    /// Notes what the task file was made to say before the list is.
    fn note_written(&mut self, current: &Iteration) {
        if let (Some(board), Some(work), Some(task)) =
            (&mut self.board, self.recipe.task_work(), &current.task)
        {
            let settled = settle::settle(work, board.log(task).failed, &board.list, current);
            board.written_ahead(&settled.changes);
        }
    }

    /// Counts the commits that an agent made where that is its business.
    fn count_commits(&mut self, seen: &Observation) {
        if let (CommitPolicy::Agent, History::Advanced { commits }) =
            (&self.recipe.landing.commit, seen.history)
        {
            self.totals.commits += commits.saturating_sub(self.counted);
            self.counted = commits;
        }
    }

    /// Takes in the reply to a call.
    fn replied(&mut self, current: &mut Iteration, ask: AskNumber, reply: &Reply, at: Timestamp) {
        self.totals.usage = self.totals.usage.plus(reply.usage);
        self.totals.tools += reply.tools;
        self.calibration.hear(reply);
        self.totals.leftovers += reply.end.leftovers.processes;
        let form = self.check_form(current, ask, reply);
        let asking = [&mut current.message, &mut current.gate, &mut current.work]
            .into_iter()
            .find(|asking| asking.pending == Some(ask));
        let Some(asking) = asking else { return };
        asking.hear(reply, form, at, &self.recipe);
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

    /// Remembers which change a review of the task will have to look at.
    fn note_work(&mut self, current: &Iteration) {
        let surveyed = current.landed.iter().find_map(Landed::surveyed);
        if let (Some(board), Some(task), Role::Implement | Role::Fix) =
            (&mut self.board, &current.task, current.role)
            && let Some(Checkpoint::Git { tree: Some(from), .. }) = &self.base
            && let Some(to) = surveyed.or_else(|| current.observed_tree()).cloned()
        {
            board.committed(task, from.clone(), to);
        }
    }

    fn baseline_checked(&mut self, result: &GateResult) {
        self.count_gate(result);
        let tree = self.baseline.as_ref().and_then(|baseline| baseline.tree.clone());
        self.note_green(result, tree);
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

    fn note_green(&mut self, result: &GateResult, tree: Option<TreeId>) {
        match (result.status, tree) {
            (GateStatus::Passed | GateStatus::Cached, Some(tree)) => {
                self.green.insert(result.gate.clone(), tree);
            }
            (GateStatus::Failed, _) | (_, None) => {}
        }
    }

    /// Returns the task of the next coding iteration, if that is what comes next.
    pub fn next_coding(&self) -> Option<&Task> {
        let Turn::Next(next) = self.board.as_ref()?.turn(self.recipe.task_work()?) else {
            return None;
        };
        match next.work()? {
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

    /// Returns why handoffs are to be compacted before the next iteration, if they are.
    pub fn compaction_due(&self) -> Option<Trigger> {
        memory::due(self.recipe.memory.as_ref()?, &self.since, self.next_coding()?)
    }

    /// Returns why the open compaction was begun. Nothing that it depends on changes while one is
    /// open, but for the list, which a person may edit.
    pub fn trigger(&self) -> Trigger {
        self.compaction_due().unwrap_or(Trigger::Periodic)
    }

    /// Returns the number that the last iteration may have. Compactions have numbers, and do not
    /// count.
    pub fn last_iteration(&self) -> u32 {
        let is_open = self.current.as_ref().is_some_and(|current| current.role == Role::Compact);
        let compactions = self.since.compactions.saturating_add(u32::from(is_open));
        self.recipe.limits.iterations.saturating_add(compactions)
    }

    /// Returns whether a gate was red before any agent was paid.
    pub(crate) fn was_broken(&self, gate: &str) -> bool {
        self.baseline
            .iter()
            .flat_map(|baseline| &baseline.results)
            .any(|result| result.gate == gate && result.status == GateStatus::Failed)
    }

    /// Returns whether an iteration left the tree as the one before it did, or as it found it.
    /// Where nobody looked, it may have changed something.
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
