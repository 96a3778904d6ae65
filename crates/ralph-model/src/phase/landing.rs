//! The landing of judged work: its plan, and how far it is.

use std::collections::VecDeque;

use super::Checking;
use crate::agent_call_state::AgentCallEnd;
use crate::judgement::Judgement;
use crate::worktree::{CheckedOut, Checkpoint, Landed, TreeId};

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
    /// Push the failure branch. The last step, because there may be none.
    PushFailureBranch,
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
            | (Landed::ScmRan { .. }, LandingStep::RunScm(_) | LandingStep::PushFailureBranch)
            | (Landed::Committed { .. } | Landed::NothingToCommit, LandingStep::Commit) => true,
            (_, _) => false,
        };
        if let Some(at) = self.todo.iter().position(is_done) {
            self.todo.remove(at);
        }
        self.done.push(landed);
    }

    /// Adds a step in front of all others, unless it is planned already.
    pub fn add_first(&mut self, step: LandingStep) {
        if !self.todo.contains(&step) {
            self.todo.push_front(step);
        }
    }

    /// Plans the steps again that concern the list, as if they had not been done.
    pub(super) fn plan_list_again(&mut self, must_write: bool) {
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
                | LandingStep::Survey
                | LandingStep::PushFailureBranch,
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
