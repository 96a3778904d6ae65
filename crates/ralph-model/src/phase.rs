//! The open iteration, as a state machine.
//!
//! An iteration passes through four phases. Each holds what the phases before it found
//! out, so what a phase needs is there, and what is not known yet cannot be read:
//!
//! ```text
//! Started ──checkpoint──▶ Working ──answer──▶ Checking ──judgement──▶ Landing ──▶ closed
//! ```
//!
//! In the role `merge` no agent works: the merged candidate of a worker takes the place of the
//! answer.
//!
//! Only events move it on. A few move it back: a run that is resumed asks a hopeless call
//! again (Working), and checks work again that changed while it was stopped (Checking).
//! Not here: the fold that applies events, and the choice of the next step.

mod checking;
mod landing;

use crate::agent_call_state::{AgentCallEnd, AgentCallState};
use crate::agent_list_diff::{AgentListDiff, AgentListFile};
use crate::control::UserNote;
use crate::event::{Purpose, Recorded};
use crate::gate::GateResult;
use crate::handoff::FileTouched;
use crate::ids::{AskNumber, IterationNumber, Role, TaskId};
use crate::judgement::{Judgement, Landing, Verdict};
use crate::plan::PlanState;
use crate::refusal::Refusal;
use crate::units::{Millis, Timestamp};
use crate::worktree::{Checkpoint, Landed, Observation, TreeDiff, TreeId};

pub use checking::{Checking, GateReview, Observed};
pub use landing::{LandingPhase, LandingPlan, LandingStep};

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
    Working(Box<Working>),
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
        let call = AgentCallState::default();
        self.phase = Phase::Working(Box::new(Working { checkpoint, call }));
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
            Phase::Working(working) => Checking::new(working.checkpoint, working.call),
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
        if let Phase::Working(working) = &self.phase
            && working.call.end.is_some()
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
                let is_working = checking.work.end.is_none() && checking.merge.is_none();
                if is_working && checking.observed.is_none() {
                    let (checkpoint, call) =
                        (checking.checkpoint.clone(), std::mem::take(&mut checking.work));
                    self.phase = Phase::Working(Box::new(Working { checkpoint, call }));
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

    /// Handles that ralph wrote the task file since the agent's edits were read.
    pub fn mark_list_rewritten(&mut self) {
        if self.checking().is_some() {
            self.update_checking(Checking::mark_list_rewritten);
        }
    }

    /// Handles that the task file was reset to the list. What a landing wrote into it
    /// before is written again, and surveyed again before a commit still to come.
    pub fn reset_list_landing(&mut self, must_write: bool) {
        if let Phase::Landing(landing) = &mut self.phase {
            landing.plan.plan_list_again(must_write);
        }
    }

    /// Handles that another process continues the run, after a stop or a crash: the user may have
    /// changed the work tree. Work that has not begun to land is compared with what was checked,
    /// and judged again. Changes made during a review are discarded like those of the reviewer.
    pub fn record_stop(&mut self) {
        if let Phase::Landing(landing) = &mut self.phase {
            if landing.plan.has_begun() {
                return;
            }
            // Failed work was rolled back: what is there now is the user's.
            if landing.plan.is_rolled_back() && self.role != Role::Review {
                return;
            }
            if landing.plan.is_rolled_back() {
                landing.plan.add_first(LandingStep::Rollback);
                return;
            }
            if landing.judgement.landing == Landing::Commit {
                self.phase = Phase::Checking(Box::new(self.take_checking()));
            }
        }
        if let Phase::Checking(checking) = &mut self.phase {
            checking.record_stop();
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

    /// Returns the files that the agent changed, without those that a refusal restored.
    pub fn remaining_files(&self) -> impl Iterator<Item = &FileTouched> {
        let is_restored =
            |path: &String| self.refusals().iter().any(|refusal| refusal.restored.contains(path));
        let files = self.observation().into_iter().flat_map(|seen| &seen.files);
        files.filter(move |file| !is_restored(&file.path))
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

    /// Returns whether an attempt on a task left work in the tree that was not accepted. ralph then
    /// commits the task list at most, and `RunState::base`, which the next attempt is compared
    /// with, stays.
    pub fn has_unaccepted_work(&self) -> bool {
        let verdict = self.judgement().map(|judgement| &judgement.verdict);
        self.role.is_attempt()
            && matches!(verdict, Some(Verdict::NotHandedIn { .. } | Verdict::Incomplete { .. }))
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

    /// Returns whether the agent that does the work has said something, if only in the wrong form. A
    /// follow-up asks for the form alone: the work was done for the task as it was.
    pub fn has_any_answer(&self) -> bool {
        let is_wrong = |work: &AgentCallState| {
            work.wrong.as_ref().is_some_and(|wrong| !wrong.texts.is_empty())
        };
        self.is_answered() || self.work().is_some_and(is_wrong)
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
    pub fn find_pending_call(&mut self, ask: AskNumber) -> Option<&mut AgentCallState> {
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

    /// Returns why the commit was refused, if it was.
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
