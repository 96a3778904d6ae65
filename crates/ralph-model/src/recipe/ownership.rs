//! Who owns what of a project during a run: the task list, commits, the history and
//! uncommitted work.
//!
//! Computed from the policies of a recipe in one place, with the questions that depend on
//! several of them. Not here: the policies.

use super::{CommitPolicy, Recipe, Uncommitted};
use crate::ids::Role;
use crate::judgement::Landing;
use crate::task::ListOwner;
use crate::worktree::History;

/// Who owns what of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// Who writes the task list; none without one.
    pub list: Option<ListOwner>,
    pub commits: CommitOwner,
    pub history: HistoryOwner,
}

/// Who commits work that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOwner {
    /// ralph, itself or with the user's source-control commands.
    Ralph,
    /// The agent must, and leave nothing uncommitted. ralph commits its own changes of the
    /// task list.
    Agent,
    /// The agent may, if its prompt wants that. What it leaves is reported to it.
    AgentAtWill,
    /// Changes stay in the work tree.
    NoOne,
}

/// Who may change the history, that is, what is checked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryOwner {
    /// Only ralph: what an agent does to it is reset.
    Ralph,
    /// The agent may add commits, and rewrite nothing.
    AgentAdds,
    /// The agent may do what it wants.
    Anyone,
}

impl Ownership {
    /// Returns who owns what in a run of this recipe.
    pub fn from_recipe(recipe: &Recipe) -> Self {
        let commits = match (&recipe.landing.commit, recipe.landing.uncommitted) {
            (CommitPolicy::Ralph | CommitPolicy::Scm(_), _) => CommitOwner::Ralph,
            (CommitPolicy::Agent, Uncommitted::Refused) => CommitOwner::Agent,
            (CommitPolicy::Agent, Uncommitted::Reported) => CommitOwner::AgentAtWill,
            (CommitPolicy::NoCommit, _) => CommitOwner::NoOne,
        };
        let history = match commits {
            // The history of another program than git is not checked.
            CommitOwner::Ralph if recipe.landing.is_history_owned_by_ralph() => HistoryOwner::Ralph,
            CommitOwner::Agent => HistoryOwner::AgentAdds,
            CommitOwner::Ralph | CommitOwner::AgentAtWill | CommitOwner::NoOne => {
                HistoryOwner::Anyone
            }
        };
        Self { list: recipe.task_work().map(|work| work.keeper), commits, history }
    }

    /// Returns whether the agent owns the task list.
    pub fn does_agent_own_list(self) -> bool {
        self.list == Some(ListOwner::Agent)
    }

    /// Returns whether an agent commits.
    pub fn do_agents_commit(self) -> bool {
        match self.commits {
            CommitOwner::Agent | CommitOwner::AgentAtWill => true,
            CommitOwner::Ralph | CommitOwner::NoOne => false,
        }
    }

    /// Returns whether the history changed in a way that agents may not change it.
    pub fn forbids_history(self, history: History) -> bool {
        match (self.history, history) {
            (_, History::Same)
            | (HistoryOwner::Anyone, _)
            | (HistoryOwner::AgentAdds, History::Advanced { .. }) => false,
            (HistoryOwner::Ralph, _) | (HistoryOwner::AgentAdds, History::Rewritten) => true,
        }
    }

    /// Returns what happens to the work tree after work that passed. Where agents commit,
    /// ralph commits the list, if their commits do not contain it.
    pub fn success_landing(self) -> Landing {
        match (self.commits, self.list) {
            (CommitOwner::Ralph, _) | (CommitOwner::Agent | CommitOwner::AgentAtWill, Some(_)) => {
                Landing::Commit
            }
            (CommitOwner::Agent | CommitOwner::AgentAtWill, None) | (CommitOwner::NoOne, _) => {
                Landing::Keep
            }
        }
    }

    /// Returns whether ralph commits only the task list and its notes after this role. A
    /// review writes its verdict there, and no gate has checked anything else.
    pub fn commits_documents_only(self, role: Role, is_scm: bool) -> bool {
        match self.commits {
            CommitOwner::Ralph => role == Role::Review && !is_scm,
            CommitOwner::Agent | CommitOwner::AgentAtWill => true,
            CommitOwner::NoOne => false,
        }
    }

    /// Returns whether ralph writes into the task list that work on a task has begun. An
    /// agent that owns or commits the list finds it unchanged.
    pub fn marks_task_in_progress(self) -> bool {
        !self.does_agent_own_list() && !self.do_agents_commit()
    }
}
