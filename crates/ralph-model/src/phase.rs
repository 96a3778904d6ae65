//! The open iteration, as a state machine.
//!
//! An iteration passes through four phases. Each holds what the phases before it found
//! out, so what a phase needs is there, and what is not known yet cannot be read:
//!
//! ```text
//! Started ──checkpoint──▶ Working ──answer──▶ Checking ──judgement──▶ Landing ──▶ closed
//! ```
//!
//! Only events move it on. A few move it back: a run that is resumed asks a hopeless call
//! again (Working), and checks work again that changed while it was stopped (Checking).
//! Not here: the fold that applies events, and the choice of the next step.

use std::collections::VecDeque;

use crate::agent_call_state::{AgentCallEnd, AgentCallState};
use crate::agent_list_diff::{AgentListDiff, AgentListFile};
use crate::control::UserNote;
use crate::event::{Purpose, Recorded};
use crate::gate::{Gate, GateResult};
use crate::ids::{AskNumber, IterationNumber, Role, TaskId};
use crate::judgement::{Judgement, Landing, Verdict};
use crate::plan::PlanState;
use crate::refusal::{Refusal, RefusalKind};
use crate::units::{Millis, Timestamp};
use crate::worktree::{CheckedOut, Checkpoint, Landed, Observation, Survey, TreeDiff, TreeId};

/// An iteration that is open.
#[derive(Debug, Clone, PartialEq)]
pub struct Iteration {
    pub number: IterationNumber,
    pub role: Role,
    pub task: Option<TaskId>,
    pub started: Timestamp,
    /// Running time of the run when it began.
    pub began: Millis,
    /// Notes from the user for its agent.
    pub notes: Vec<UserNote>,
    /// Number of agent calls so far, for any purpose.
    pub asks: u32,
    /// Forbidden files that the agent created and ralph removed after the call.
    pub removed: Vec<String>,
    pub phase: Phase,
}

/// Where an iteration stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Nothing is recorded of the work tree yet.
    Started,
    /// The agent does the work.
    Working(Working),
    /// The agent has answered; its work is read, observed and checked.
    Checking(Box<Checking>),
    /// The work is judged; the steps of the landing are done one after the other.
    Landing(Box<LandingPhase>),
}

/// The agent does the work.
#[derive(Debug, Clone, PartialEq)]
pub struct Working {
    /// The state that the iteration started from.
    pub checkpoint: Checkpoint,
    pub call: AgentCallState,
}

/// The agent's work is checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Checking {
    /// The state that the iteration started from.
    pub checkpoint: Checkpoint,
    /// The agent call that did the work. It has ended, unless the user skips the task.
    pub work: AgentCallState,
    /// The agent's edits of the task list, once read; only where it owns the list.
    pub list_diff: Option<AgentListDiff>,
    /// The state of the plan after the agent, once read; only where there is a plan.
    pub plan: Option<PlanState>,
    /// The agent's changes, once observed.
    pub observed: Option<Observed>,
    /// What ralph itself refused so far.
    pub refusals: Vec<Refusal>,
    /// Gate results so far.
    pub gates: Vec<GateResult>,
    /// The review gate that is asking an agent.
    pub review: Option<GateReview>,
    /// How often all gates started over because files changed while they ran.
    pub rounds: u32,
    /// The work tree as last seen, if nothing can have changed it since.
    pub survey: Option<Survey>,
    /// Whether the work tree is known to be what the gates checked.
    pub is_rechecked: bool,
    /// Whether the run was stopped since the work tree was observed. Somebody may have
    /// changed it, so it is compared before anything else.
    pub was_stopped: bool,
    /// The agent call for a commit message. Asked when the work lands; the answer is kept if
    /// the work has to be checked again.
    pub message: AgentCallState,
}

/// The agent's changes of the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The observation, where there is a repository and the recipe needs one.
    pub observation: Option<Observation>,
    /// The ref that keeps commits by the agent that were reset.
    pub kept: Option<String>,
}

/// A review gate that is asking an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct GateReview {
    pub gate: String,
    pub call: AgentCallState,
}

/// The judged work lands.
#[derive(Debug, Clone, PartialEq)]
pub struct LandingPhase {
    pub checked: Checking,
    pub judgement: Judgement,
    pub plan: LandingPlan,
    /// The state before an agent was asked for a commit message, until it is verified or
    /// restored.
    pub before_message: Option<Checkpoint>,
}

/// The steps of a landing, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingPlan {
    pub todo: VecDeque<LandingStep>,
    /// What was done, oldest first.
    pub done: Vec<Landed>,
}

/// A step of a landing that is still to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandingStep {
    /// Restore the checkpoint.
    Rollback,
    /// Save the work to a failure branch, and go back to where work on the task began.
    SaveToFailureBranch,
    /// Write the list to the task file as the landing changes it.
    WriteList,
    /// Record the tree to commit, or that the history did not move.
    Survey,
    /// Ask an agent for the commit message.
    AskForMessage,
    /// Commit the surveyed tree.
    Commit,
    /// Run the source-control command with these arguments.
    RunScm(Vec<String>),
}

impl LandingPhase {
    /// Returns the next step of the plan. A message that was asked for need not be asked
    /// for again.
    pub fn next_step(&self) -> Option<&LandingStep> {
        let has_message = match &self.checked.message.end {
            Some(AgentCallEnd::Answered(_) | AgentCallEnd::FailedAttempt(_)) => true,
            Some(AgentCallEnd::Hopeless(_)) | None => false,
        };
        let is_done = |step: &&LandingStep| has_message && **step == LandingStep::AskForMessage;
        self.plan.todo.iter().find(|step| !is_done(step))
    }
}

impl LandingPlan {
    /// Returns a plan of which nothing is done.
    pub fn new(todo: impl IntoIterator<Item = LandingStep>) -> Self {
        Self { todo: todo.into_iter().collect(), done: Vec::new() }
    }

    /// Records a finished step.
    pub fn record_done(&mut self, landed: Landed) {
        let is_done = |step: &LandingStep| match (&landed, step) {
            (Landed::RolledBack { .. }, LandingStep::Rollback)
            | (Landed::SavedToFailureBranch { .. }, LandingStep::SaveToFailureBranch)
            | (Landed::ListWritten, LandingStep::WriteList)
            | (Landed::Surveyed { .. }, LandingStep::Survey)
            | (Landed::ScmRan { .. }, LandingStep::RunScm(_))
            | (Landed::Committed { .. } | Landed::NothingToCommit, LandingStep::Commit) => true,
            (_, _) => false,
        };
        if let Some(at) = self.todo.iter().position(is_done) {
            self.todo.remove(at);
        }
        self.done.push(landed);
    }

    /// Drops steps that are not needed.
    pub fn drop_steps(&mut self, is_dropped: impl Fn(&LandingStep) -> bool) {
        self.todo.retain(|step| !is_dropped(step));
    }

    /// Adds a step in front of all others, unless it is planned already.
    pub fn add_first(&mut self, step: LandingStep) {
        if !self.todo.contains(&step) {
            self.todo.push_front(step);
        }
    }

    /// Plans the steps again that concern the list, as if they had not been done.
    fn repeat_list_steps(&mut self, must_write: bool) {
        let is_committed = self.is_committed();
        if self.is_commit_next() && !is_committed {
            self.add_first(LandingStep::Survey);
        }
        if must_write {
            self.add_first(LandingStep::WriteList);
        }
        self.done.retain(|landed| match landed {
            Landed::ListWritten => false,
            Landed::Surveyed { .. } => is_committed,
            Landed::MessageChecked { .. }
            | Landed::Committed { .. }
            | Landed::NothingToCommit
            | Landed::CommitRefused { .. }
            | Landed::ScmRan { .. }
            | Landed::SavedToFailureBranch { .. }
            | Landed::RolledBack { .. } => true,
        });
    }

    /// Returns whether the work is committed.
    pub fn is_committed(&self) -> bool {
        self.done.iter().any(|it| matches!(it, Landed::Committed { .. }))
    }

    /// Returns whether something was done that follows from the judgement.
    pub fn has_begun(&self) -> bool {
        !self.done.iter().all(|landed| match landed {
            Landed::MessageChecked { .. } | Landed::RolledBack { .. } => true,
            Landed::Surveyed { .. }
            | Landed::Committed { .. }
            | Landed::NothingToCommit
            | Landed::CommitRefused { .. }
            | Landed::ScmRan { .. }
            | Landed::ListWritten
            | Landed::SavedToFailureBranch { .. } => false,
        })
    }

    /// Returns whether the tree was restored to the checkpoint.
    pub fn is_rolled_back(&self) -> bool {
        self.done.iter().any(|it| matches!(it, Landed::RolledBack { .. }))
    }

    /// Returns whether the next step is a commit or one of the commands around it.
    pub fn is_commit_next(&self) -> bool {
        match self.todo.front() {
            Some(LandingStep::AskForMessage | LandingStep::Commit | LandingStep::RunScm(_)) => true,
            Some(
                LandingStep::Rollback
                | LandingStep::SaveToFailureBranch
                | LandingStep::WriteList
                | LandingStep::Survey,
            )
            | None => false,
        }
    }

    /// Returns the state that is about to be committed, if surveyed.
    pub fn surveyed_state(&self) -> Option<Checkpoint> {
        self.done.iter().rev().find_map(|landed| {
            let CheckedOut { head, branch } = landed.surveyed_head()?.clone();
            Some(Checkpoint::Git { head, branch, tree: landed.surveyed_tree().cloned() })
        })
    }

    /// Returns the tree that is about to be committed, if surveyed.
    pub fn surveyed_tree(&self) -> Option<&TreeId> {
        self.done.iter().rev().find_map(Landed::surveyed_tree)
    }
}

impl Checking {
    /// Returns the checks of an agent call that has just ended.
    pub fn new(checkpoint: Checkpoint, work: AgentCallState) -> Self {
        Self {
            checkpoint,
            work,
            list_diff: None,
            plan: None,
            observed: None,
            refusals: Vec::new(),
            gates: Vec::new(),
            review: None,
            rounds: 0,
            survey: None,
            is_rechecked: false,
            was_stopped: false,
            message: AgentCallState::default(),
        }
    }

    /// Returns the observation of the agent's changes, if any.
    pub fn observation(&self) -> Option<&Observation> {
        self.observed.as_ref()?.observation.as_ref()
    }

    /// Returns whether ralph refused the work for this reason.
    pub fn is_refused(&self, kind: RefusalKind) -> bool {
        self.refusals.iter().any(|refusal| refusal.kind == kind)
    }

    /// Returns whether the work is refused, or a hard gate failed.
    pub fn has_failed(&self) -> bool {
        !self.refusals.is_empty() || self.gates.iter().any(GateResult::is_hard_failure)
    }

    /// Returns whether a gate ran a command on the work.
    pub fn has_run_commands(&self) -> bool {
        self.gates.iter().any(|result| result.log.is_some())
    }

    /// Records the agent's changes. If they were observed before, files changed while gates
    /// ran: all gates run again, review gates included.
    pub fn record_observation(&mut self, observed: Observed) {
        if self.observed.is_some() {
            self.gates.clear();
            self.refusals.clear();
            self.review = None;
            self.rounds += u32::from(!self.was_stopped);
            self.was_stopped = false;
        }
        self.survey = observed.observation.as_ref().map(Observation::to_survey);
        self.is_rechecked = true;
        self.observed = Some(observed);
    }

    /// Records that the work tree is what the gates checked.
    pub fn record_recheck(&mut self, survey: Option<Survey>) {
        (self.survey, self.is_rechecked, self.was_stopped) = (survey, true, false);
    }

    /// Handles that the run was stopped. While an agent is asked for a verdict there is
    /// nothing to compare: its changes are discarded anyway.
    fn record_stop(&mut self) {
        if self.observation().is_some() && self.review.is_none() {
            (self.survey, self.is_rechecked, self.was_stopped) = (None, false, true);
        }
    }

    /// Records the work tree after a gate, if it was surveyed.
    pub fn record_survey_after_gate(&mut self, survey: Option<Survey>) {
        let tree = self.observation().map(|seen| &seen.tree);
        self.is_rechecked = survey.as_ref().is_some_and(|now| Some(&now.tree) == tree);
        self.survey = survey;
    }

    /// Inserts a gate result. Results stay in the order of the recipe, even if some gates
    /// ran again.
    pub fn insert_gate_result(&mut self, result: GateResult, gates: &[Gate]) {
        let place = |name: &str| gates.iter().position(|gate| gate.name == name);
        let own_place = place(&result.gate);
        let is_later = |it: &GateResult| own_place.is_some() && place(&it.gate) > own_place;
        self.gates.retain(|it| it.gate != result.gate);
        let at = self.gates.iter().position(is_later).unwrap_or(self.gates.len());
        self.gates.insert(at, result);
    }

    /// Handles that ralph wrote the task file since the agent's edits were read.
    fn mark_list_rewritten(&mut self) {
        if let Some(diff) = &mut self.list_diff {
            diff.file = AgentListFile::Rewritten;
        }
    }
}

impl Iteration {
    /// Returns an iteration that has just begun.
    pub fn new(
        number: IterationNumber,
        role: Role,
        task: Option<TaskId>,
        recorded: &Recorded,
    ) -> Self {
        Self {
            number,
            role,
            task,
            started: recorded.at,
            began: recorded.ran,
            notes: Vec::new(),
            asks: 0,
            removed: Vec::new(),
            phase: Phase::Started,
        }
    }

    /// Moves to `Working`.
    pub fn begin_work(&mut self, checkpoint: Checkpoint) {
        self.phase = Phase::Working(Working { checkpoint, call: AgentCallState::default() });
    }

    /// Changes what is known of the checks. Begins them, if the agent was still at work:
    /// the user skips the task.
    pub fn update_checking(&mut self, change: impl FnOnce(&mut Checking)) {
        match &mut self.phase {
            Phase::Checking(checking) => change(checking),
            Phase::Landing(landing) => change(&mut landing.checked),
            Phase::Started | Phase::Working(_) => {
                let mut checking = self.take_checking();
                change(&mut checking);
                self.phase = Phase::Checking(Box::new(checking));
            }
        }
    }

    fn take_checking(&mut self) -> Checking {
        match std::mem::replace(&mut self.phase, Phase::Started) {
            Phase::Started => Checking::new(Checkpoint::None, AgentCallState::default()),
            Phase::Working(Working { checkpoint, call }) => Checking::new(checkpoint, call),
            Phase::Checking(checking) => *checking,
            Phase::Landing(landing) => landing.checked,
        }
    }

    /// Moves to `Landing`.
    pub fn begin_landing(&mut self, judgement: Judgement, plan: LandingPlan) {
        self.phase = Phase::Landing(Box::new(LandingPhase {
            checked: self.take_checking(),
            judgement,
            plan,
            before_message: None,
        }));
    }

    /// Moves to `Checking` once the agent call that does the work has ended.
    pub fn check_after_answer(&mut self) {
        if let Phase::Working(Working { call, .. }) = &self.phase
            && call.end.is_some()
        {
            self.phase = Phase::Checking(Box::new(self.take_checking()));
        }
    }

    /// Gives calls that failed another chance, in a run that ended and is resumed.
    pub fn reset_failures(&mut self, is_message: impl Fn(&AgentCallEnd) -> bool) {
        match &mut self.phase {
            Phase::Started => {}
            Phase::Working(working) => working.call.reset_failures(),
            Phase::Checking(checking) => {
                checking.work.reset_failures();
                if let Some(review) = &mut checking.review {
                    review.call.reset_failures();
                }
                if checking.work.end.is_none() && checking.observed.is_none() {
                    let (checkpoint, call) =
                        (checking.checkpoint.clone(), std::mem::take(&mut checking.work));
                    self.phase = Phase::Working(Working { checkpoint, call });
                }
            }
            Phase::Landing(landing) => {
                let has_message = landing.checked.message.end.as_ref().is_some_and(is_message);
                // A commit that was made without a message of the agent needs none any more.
                // A call that was open when the process was killed may have been answered.
                if !has_message && landing.plan.todo.contains(&LandingStep::Commit) {
                    let pending = landing.checked.message.pending;
                    landing.checked.message =
                        AgentCallState { pending, ..AgentCallState::default() };
                }
            }
        }
    }

    /// Handles that the task file was reset to the list. What a landing wrote into it
    /// before is written again, and surveyed again before a commit still to come.
    pub fn reset_list_landing(&mut self, must_write: bool) {
        match &mut self.phase {
            Phase::Started | Phase::Working(_) => {}
            Phase::Checking(checking) => checking.mark_list_rewritten(),
            Phase::Landing(landing) => {
                landing.checked.mark_list_rewritten();
                landing.plan.repeat_list_steps(must_write);
            }
        }
    }

    /// Handles that the run was stopped, so that somebody may have changed the work tree.
    /// Work that has not begun to land is compared with what was checked, and judged again.
    /// Changes made during a review are discarded like those of the reviewer.
    pub fn record_stop(&mut self) {
        match &mut self.phase {
            Phase::Started | Phase::Working(_) => {}
            Phase::Checking(checking) => checking.record_stop(),
            Phase::Landing(landing) if landing.plan.has_begun() => {}
            Phase::Landing(landing) if self.role == Role::Review => {
                if landing.plan.is_rolled_back() {
                    landing.plan.add_first(LandingStep::Rollback);
                }
            }
            Phase::Landing(landing) if landing.judgement.landing == Landing::Commit => {
                let mut checking = self.take_checking();
                checking.record_stop();
                self.phase = Phase::Checking(Box::new(checking));
            }
            Phase::Landing(_) => {}
        }
    }

    /// Returns the state that the iteration started from, once recorded.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        match &self.phase {
            Phase::Started => None,
            Phase::Working(working) => Some(&working.checkpoint),
            Phase::Checking(checking) => Some(&checking.checkpoint),
            Phase::Landing(landing) => Some(&landing.checked.checkpoint),
        }
    }

    /// Returns the checks, once they began.
    pub fn checking(&self) -> Option<&Checking> {
        match &self.phase {
            Phase::Started | Phase::Working(_) => None,
            Phase::Checking(checking) => Some(checking),
            Phase::Landing(landing) => Some(&landing.checked),
        }
    }

    /// Returns the landing, once the iteration is judged.
    pub fn landing(&self) -> Option<&LandingPhase> {
        match &self.phase {
            Phase::Landing(landing) => Some(landing),
            Phase::Started | Phase::Working(_) | Phase::Checking(_) => None,
        }
    }

    /// Returns the judgement, once there is one.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.landing().map(|landing| &landing.judgement)
    }

    /// Returns the steps of the landing that are done.
    pub fn landed(&self) -> &[Landed] {
        self.landing().map_or(&[], |landing| &landing.plan.done)
    }

    /// Returns the gate results so far.
    pub fn gates(&self) -> &[GateResult] {
        self.checking().map_or(&[], |checking| &checking.gates)
    }

    /// Returns what ralph itself refused so far.
    pub fn refusals(&self) -> &[Refusal] {
        self.checking().map_or(&[], |checking| &checking.refusals)
    }

    /// Returns the agent's edits of the task list, once read.
    pub fn list_diff(&self) -> Option<&AgentListDiff> {
        self.checking()?.list_diff.as_ref()
    }

    /// Returns the state of the plan after the agent, once read.
    pub fn plan(&self) -> Option<&PlanState> {
        self.checking()?.plan.as_ref()
    }

    /// Returns whether the agent's edits were written over by ralph since.
    pub fn is_list_written_by_ralph(&self) -> bool {
        self.list_diff().is_some_and(|diff| diff.file == AgentListFile::Rewritten)
    }

    /// Returns whether unaccepted work on a task is in the tree. ralph then commits only
    /// the task list, and the next attempt is compared with the state before this one.
    pub fn has_unaccepted_work(&self) -> bool {
        let is_attempt = match self.role {
            Role::Implement | Role::Fix => true,
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Review
            | Role::Compact
            | Role::Message => false,
        };
        let verdict = self.judgement().map(|judgement| &judgement.verdict);
        is_attempt && matches!(verdict, Some(Verdict::NotHandedIn { .. }))
    }

    /// Returns whether the work is committed.
    pub fn is_committed(&self) -> bool {
        self.landing().is_some_and(|landing| landing.plan.is_committed())
    }

    /// Returns whether the tree was restored to the checkpoint.
    pub fn is_rolled_back(&self) -> bool {
        self.landing().is_some_and(|landing| landing.plan.is_rolled_back())
    }

    /// Returns the agent call that does the work, once it can begin.
    pub fn work(&self) -> Option<&AgentCallState> {
        self.call_state(&Purpose::Work)
    }

    /// Returns how the agent call that does the work ended.
    pub fn work_end(&self) -> Option<&AgentCallEnd> {
        self.work()?.end.as_ref()
    }

    /// Returns whether the agent that does the work has answered.
    pub fn is_answered(&self) -> bool {
        matches!(self.work_end(), Some(AgentCallEnd::Answered(_)))
    }

    /// Returns the agent call for a purpose, if there is one.
    pub fn call_state(&self, purpose: &Purpose) -> Option<&AgentCallState> {
        match (purpose, &self.phase) {
            (Purpose::Work, Phase::Working(working)) => Some(&working.call),
            (Purpose::Work, _) => Some(&self.checking()?.work),
            (Purpose::Gate(_), Phase::Checking(checking)) => {
                checking.review.as_ref().map(|review| &review.call)
            }
            (Purpose::Message, Phase::Landing(landing)) => Some(&landing.checked.message),
            (Purpose::Gate(_) | Purpose::Message, _) => None,
        }
    }

    /// Returns the agent call that waits for the reply to this request.
    pub fn pending_call_mut(&mut self, ask: AskNumber) -> Option<&mut AgentCallState> {
        let calls = match &mut self.phase {
            Phase::Started => [None, None],
            Phase::Working(working) => [Some(&mut working.call), None],
            Phase::Checking(checking) => {
                let review = checking.review.as_mut().map(|review| &mut review.call);
                [review, Some(&mut checking.work)]
            }
            Phase::Landing(landing) => {
                let Checking { message, work, .. } = &mut landing.checked;
                [Some(message), Some(work)]
            }
        };
        calls.into_iter().flatten().find(|call| call.pending == Some(ask))
    }

    /// Returns the agent call that is under way or next: the work first, then the verdict of
    /// a gate, and after the judgement the commit message.
    pub fn open_call(&self) -> Option<&AgentCallState> {
        match &self.phase {
            Phase::Started => None,
            Phase::Working(working) => Some(&working.call),
            Phase::Checking(checking) => {
                Some(checking.review.as_ref().map_or(&checking.work, |review| &review.call))
            }
            Phase::Landing(landing) => Some(&landing.checked.message),
        }
    }

    /// Returns the observation of the agent's changes, if any.
    pub fn observation(&self) -> Option<&Observation> {
        self.checking()?.observation()
    }

    /// Returns the tree after the agent.
    pub fn observed_tree(&self) -> Option<&TreeId> {
        self.observation().map(|observation| &observation.tree)
    }

    /// Returns the paths that changed.
    pub fn observed_files(&self) -> Vec<String> {
        let files = self.observation().into_iter().flat_map(|observation| &observation.files);
        files.map(|file| file.path.clone()).collect()
    }

    /// Returns the output of the hook that refused the commit, if one did.
    pub fn commit_refusal(&self) -> Option<&str> {
        self.landed().iter().find_map(Landed::refusal)
    }

    /// Returns the failure branch that holds the work.
    pub fn failure_branch(&self) -> Option<&str> {
        self.landed().iter().find_map(Landed::failure_branch)
    }

    /// Returns whether the surveyed tree differs from the last commit, if surveyed.
    pub fn surveyed_changes(&self) -> Option<TreeDiff> {
        self.landed().iter().rev().find_map(|landed| {
            let Landed::Surveyed { changes, .. } = landed else { return None };
            Some(*changes)
        })
    }
}
