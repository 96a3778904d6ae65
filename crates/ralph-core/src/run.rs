//! The state of a run: the fold of its events, and nothing else.
//!
//! It holds one iteration and some totals, so it stays small however long the run is. Not
//! here: what to do next, which `choose` decides from this state.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::event::{Checkpoint, Event, Landed, Recorded, TreeId, WaitReason};
use crate::failure::{AFTER_RESET, FIRST_LIMIT_PAUSE, Failure, FailureRule};
use crate::gate::{FailAction, GateResult, GateStatus};
use crate::ids::{AskNumber, IterationNumber, Role, RunId, TaskId};
use crate::judge::{Feedback, Judgement, Verdict};
use crate::outcome::Outcome;
use crate::reading::{Reply, Usage};
use crate::recipe::Recipe;
use crate::scm;
use crate::units::{Millis, Timestamp};

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
    /// The trees on which gates passed, by gate.
    pub green: BTreeMap<String, TreeId>,
    /// Whether the work is complete.
    pub completeness: Completeness,
    /// Sums over the run.
    pub totals: Totals,
    /// Since when the run waits for a usage limit, if it does.
    pub waiting_since: Option<Timestamp>,
    /// How the run ended the last time, if it is not running.
    pub outcome: Option<Outcome>,
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
    /// Processes that had to be ended after their parent was gone.
    pub leftovers: u32,
    /// Warnings given.
    pub warnings: u32,
}

/// An iteration that is open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// Its number.
    pub number: IterationNumber,
    /// What it is for.
    pub role: Role,
    /// The task it works on.
    pub task: Option<TaskId>,
    /// When it began.
    pub started: Timestamp,
    /// The state it starts from.
    pub checkpoint: Option<Checkpoint>,
    /// How many calls were made in it.
    pub asks: u32,
    /// The question the iteration is for.
    pub work: Asking,
    /// Whether the gates have been started, and on which tree.
    pub check: Option<Option<TreeId>>,
    /// What the gates said so far.
    pub gates: Vec<GateResult>,
    /// What follows.
    pub judgement: Option<Judgement>,
    /// The question for a commit message.
    pub message: Asking,
    /// What the landing did so far.
    pub landed: Vec<Landed>,
}

/// A question to an agent that may take several calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Asking {
    /// The call that was begun and has not been heard of since.
    pub pending: Option<AskNumber>,
    /// Failures that count against the retries.
    pub failures: u32,
    /// Refusals by a usage limit.
    pub refusals: u32,
    /// How long those make it wait in all.
    pub waited: Millis,
    /// Not to be asked again before this moment.
    pub not_before: Option<Timestamp>,
    /// Which prompt the next call gets.
    pub size: PromptSize,
    /// How it ended, once it has.
    pub end: Option<AskingEnd>,
    /// The last failure.
    pub last_failure: Option<Failure>,
}

/// Which prompt a call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSize {
    /// The whole one.
    #[default]
    Full,
    /// With as little feedback as possible, because the whole one did not fit.
    Smallest,
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskingEnd {
    /// With an answer.
    Answered(Box<Reply>),
    /// With a failed attempt; the loop goes on.
    FailedAttempt(Failure),
    /// For good: asking again cannot help.
    Hopeless(Failure),
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
            green: BTreeMap::new(),
            completeness: Completeness::Open,
            totals: Totals::default(),
            waiting_since: None,
            outcome: None,
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
            Event::RunResumed { recipe, version: _ } => {
                // A run that ended by a decision gets a new chance; one that crashed goes on
                // with what it had left.
                if let (Some(_), Some(current)) = (self.outcome.take(), &mut self.current) {
                    current.work.revive();
                    match &current.message.end {
                        Some(AskingEnd::Answered(reply))
                            if scm::commit_message(&reply.text).is_some() => {}
                        Some(_) | None => current.message = Asking::default(),
                    }
                }
                if let Some(recipe) = recipe {
                    self.recipe = (**recipe).clone();
                }
            }
            Event::IterationStarted { iteration, role, task } => {
                self.iterations = iteration.0;
                self.current = Some(Iteration::new(*iteration, *role, task.clone(), recorded.at));
            }
            Event::Waiting { reason, until: _ } => {
                self.waiting_since = (*reason == WaitReason::UsageLimit).then_some(recorded.at);
            }
            Event::Warned { .. } => self.totals.warnings += 1,
            Event::IterationEnded { .. } => self.close(recorded.at),
            Event::RunEnded { outcome } => self.outcome = Some(outcome.clone()),
            Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Replied { .. }
            | Event::CheckStarted { .. }
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
            Event::Checkpointed { checkpoint } => current.checkpoint = Some(checkpoint.clone()),
            Event::Asked { ask, role, .. } => {
                self.totals.asks += 1;
                current.asks = ask.0;
                current.asking_mut(*role).pending = Some(*ask);
            }
            Event::Replied { ask, reply } => {
                self.totals.usage = self.totals.usage.plus(reply.usage);
                self.totals.tools += reply.tools;
                self.totals.leftovers += reply.end.leftovers.processes;
                let asking = if current.message.pending == Some(*ask) {
                    &mut current.message
                } else {
                    &mut current.work
                };
                asking.hear(reply, recorded.at, &self.recipe);
                if reply.failure.is_some() && asking.end.is_none() {
                    self.totals.retries += 1;
                }
            }
            Event::CheckStarted { tree } => current.check = Some(tree.clone()),
            Event::GateChecked { result } => {
                self.totals.gates += 1;
                match result.status {
                    GateStatus::Failed => self.totals.gate_failures += 1,
                    GateStatus::Passed | GateStatus::Cached => {
                        if let Some(Some(tree)) = &current.check {
                            self.green.insert(result.gate.clone(), tree.clone());
                        }
                    }
                }
                if let Some(end) = &result.end {
                    self.totals.leftovers += end.leftovers.processes;
                }
                current.gates.push(result.clone());
            }
            Event::Judged { judgement } => current.judgement = Some(judgement.clone()),
            Event::Landed { landed } => {
                if let Landed::Committed { .. } = landed {
                    self.totals.commits += 1;
                }
                current.landed.push(landed.clone());
            }
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::IterationStarted { .. }
            | Event::Waiting { .. }
            | Event::Warned { .. }
            | Event::IterationEnded { .. }
            | Event::RunEnded { .. } => {}
        }
    }

    /// Closes the open iteration: what it leaves is feedback and, at best, completion.
    fn close(&mut self, at: Timestamp) {
        self.last_ended = Some(at);
        let Some(current) = self.current.take() else {
            return;
        };
        let refusal = current.refusal();
        let Some(judgement) = current.judgement else {
            return;
        };
        self.feedback = judgement.feedback;
        match (judgement.verdict, refusal) {
            (Verdict::Complete | Verdict::Passed { .. }, Some(refusal)) => {
                self.feedback.push(refusal);
            }
            (Verdict::Complete, None) => {
                self.totals.passed += 1;
                self.completeness = Completeness::Complete;
            }
            (Verdict::Passed { .. }, None) => self.totals.passed += 1,
            (Verdict::GatesFailed { .. } | Verdict::AttemptFailed { .. }, _) => {}
        }
    }
}

impl Iteration {
    fn new(number: IterationNumber, role: Role, task: Option<TaskId>, started: Timestamp) -> Self {
        Self {
            number,
            role,
            task,
            started,
            checkpoint: None,
            asks: 0,
            work: Asking::default(),
            check: None,
            gates: Vec::new(),
            judgement: None,
            message: Asking::default(),
            landed: Vec::new(),
        }
    }

    /// Returns the question that a role belongs to.
    pub fn asking(&self, role: Role) -> &Asking {
        if role == Role::Message { &self.message } else { &self.work }
    }

    fn asking_mut(&mut self, role: Role) -> &mut Asking {
        if role == Role::Message { &mut self.message } else { &mut self.work }
    }

    /// Returns what a refused commit says to the next iteration.
    fn refusal(&self) -> Option<Feedback> {
        self.landed.iter().find_map(|landed| match landed {
            Landed::CommitRefused { output } => Some(Feedback {
                text: format!(
                    "The commit was refused by a hook of the repository. Mend what it complains about:\n{output}"
                ),
                action: FailAction::Append,
            }),
            Landed::Surveyed { .. }
            | Landed::Committed { .. }
            | Landed::NothingToCommit
            | Landed::ScmRan { .. }
            | Landed::RolledBack { .. } => None,
        })
    }
}

impl Asking {
    /// Forgets what made the run give up, so that it can be tried again.
    fn revive(&mut self) {
        match &self.end {
            Some(AskingEnd::Answered(_) | AskingEnd::FailedAttempt(_)) => {}
            Some(AskingEnd::Hopeless(_)) | None => {
                *self = Self { pending: self.pending, size: self.size, ..Self::default() };
            }
        }
    }

    /// Takes in what a call brought.
    fn hear(&mut self, reply: &Reply, at: Timestamp, recipe: &Recipe) {
        self.pending = None;
        let Some(failure) = &reply.failure else {
            self.end = Some(AskingEnd::Answered(Box::new(reply.clone())));
            return;
        };
        self.last_failure = Some(failure.clone());
        match (failure.class.rule(), self.size) {
            (FailureRule::Retry, _) => {
                self.failures += 1;
                let seed = u64::try_from(at.0).unwrap_or(0);
                self.not_before = Some(at.plus(recipe.retries.pause(self.failures, seed)));
                if self.failures > recipe.retries.max {
                    self.end = Some(AskingEnd::Hopeless(failure.clone()));
                }
            }
            (FailureRule::RetrySmaller, PromptSize::Full) => self.size = PromptSize::Smallest,
            (FailureRule::RetrySmaller, PromptSize::Smallest) | (FailureRule::FailedAttempt, _) => {
                self.end = Some(AskingEnd::FailedAttempt(failure.clone()));
            }
            (FailureRule::Wait { until }, _) => {
                let pause = Millis(FIRST_LIMIT_PAUSE.0 << self.refusals.min(6));
                // A reset that lies in the past, call after call, must not become a tight loop
                // of refused calls.
                let least = at.plus(Millis(AFTER_RESET.0 << self.refusals.min(8)));
                self.refusals += 1;
                let until =
                    until.map_or(at.plus(pause), |reset| reset.plus(AFTER_RESET)).max(least);
                self.waited = self.waited.plus(until.since(at));
                self.not_before = Some(until);
            }
            (FailureRule::Stop, _) => self.end = Some(AskingEnd::Hopeless(failure.clone())),
            (FailureRule::Again, _) => {}
        }
    }
}
