//! The open iteration: what is known of it so far.
//!
//! Not here: the fold that applies events to it.

use serde::{Deserialize, Serialize};

use crate::agent_call_state::AgentCallState;
use crate::agent_list_diff::{AgentListDiff, AgentListFile};
use crate::control::UserNote;
use crate::event::{Purpose, Recorded};
use crate::gate::{Gate, GateCheck, GateResult};
use crate::handoff::FileTouched;
use crate::ids::{IterationNumber, Role, TaskId};
use crate::judgement::{Feedback, Judgement, Verdict};
use crate::plan::PlanState;
use crate::units::{Millis, Timestamp};
use crate::worktree::{ChangesWhileStopped, CheckedOut, Checkpoint, Landed, Observation, TreeId};

/// An iteration that is open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    pub number: IterationNumber,
    pub role: Role,
    pub task: Option<TaskId>,
    pub started: Timestamp,
    /// Running time of the run when it began.
    pub began: Millis,
    pub checkpoint: Option<Checkpoint>,
    /// Notes from the user for its agent.
    #[serde(default)]
    pub notes: Vec<UserNote>,
    /// Number of agent calls so far.
    pub asks: u32,
    /// The agent call that does the work.
    pub work: AgentCallState,
    /// The agent's edits of the task list, once read; only where it owns the list.
    #[serde(default, rename = "claim")]
    pub list_diff: Option<AgentListDiff>,
    /// The state of the plan after the agent, once read.
    #[serde(default)]
    pub plan: Option<PlanState>,
    /// Forbidden files that the agent created and ralph removed after the call.
    #[serde(default)]
    pub removed: Vec<String>,
    /// The agent's changes, once observed.
    pub observed: Option<Observed>,
    /// The agent call of the review gate that is running.
    pub gate: AgentCallState,
    #[serde(default)]
    pub gate_asked: Option<String>,
    /// Gate results so far.
    pub gates: Vec<GateResult>,
    /// How often all gates started over because files changed while they ran.
    #[serde(default)]
    pub rounds: u32,
    pub judgement: Option<Judgement>,
    /// The agent call for a commit message.
    pub message: AgentCallState,
    /// Snapshot taken before a read-only agent call; cleared once the tree is verified or
    /// restored.
    #[serde(default, rename = "unheard")]
    pub pre_question: Option<Checkpoint>,
    /// Landing steps done so far.
    pub landed: Vec<Landed>,
}

/// The agent's changes of the work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The observation, where there is a repository and the recipe needs one.
    pub observation: Option<Observation>,
    /// The ref that keeps commits by the agent that were reset.
    #[serde(default)]
    pub kept: Option<String>,
}

impl Iteration {
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
            checkpoint: None,
            notes: Vec::new(),
            asks: 0,
            work: AgentCallState::default(),
            list_diff: None,
            plan: None,
            removed: Vec::new(),
            observed: None,
            gate: AgentCallState::default(),
            gate_asked: None,
            gates: Vec::new(),
            rounds: 0,
            judgement: None,
            message: AgentCallState::default(),
            pre_question: None,
            landed: Vec::new(),
        }
    }

    /// Handles that the task file was reset to the list. Drops what a landing wrote into
    /// it before, and the survey for a commit still to come.
    pub fn reset_list_landing(&mut self) {
        if let Some(diff) = &mut self.list_diff {
            diff.file = AgentListFile::Rewritten;
        }
        let is_committed = self.is_committed();
        self.landed.retain(|landed| match landed {
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

    /// Applies changes made to the work tree while the run was stopped. If more than the
    /// list changed, the gates and the judgement are repeated. Verdicts of agents were
    /// paid for and are kept, as are refusals before any gate. Forbidden changes stay
    /// forbidden, even if the user made them: the agent's work may be what ended the run. Changes
    /// made during a review are discarded like those of the reviewer.
    pub fn invalidate_gates(&mut self, meanwhile: &ChangesWhileStopped, gates: &[Gate]) {
        let is_work = !meanwhile.files.is_empty();
        if let Some(seen) = self.observed.as_mut().and_then(|it| it.observation.as_mut()) {
            seen.tree = meanwhile.tree.clone();
            if is_work {
                seen.changes = meanwhile.changes;
            }
            let new = |file: &&FileTouched| !seen.files.iter().any(|it| it.path == file.path);
            let files: Vec<FileTouched> = meanwhile.files.iter().filter(new).cloned().collect();
            seen.files.extend(files);
            seen.leaks.extend(meanwhile.leaks.iter().cloned());
            let new_paths =
                meanwhile.git_tampering.iter().filter(|path| !seen.git_tampering.contains(path));
            let new_paths: Vec<String> = new_paths.cloned().collect();
            seen.git_tampering.extend(new_paths);
        }
        if !is_work {
            return;
        }
        if self.role == Role::Review {
            self.landed.retain(|it| !matches!(it, Landed::RolledBack { .. }));
            return;
        }
        self.gates.retain(|result| {
            let is_command = |gate: &&Gate| matches!(gate.check, GateCheck::Command(_));
            !gates.iter().filter(is_command).any(|gate| gate.name == result.gate)
        });
        self.judgement = None;
    }

    /// Handles that the work tree was observed again because files changed while gates
    /// ran: all gates run again, review gates included.
    pub fn restart_gates(&mut self) {
        self.gates.clear();
        self.gate = AgentCallState::default();
        self.pre_question = None;
        self.rounds += 1;
    }

    /// Inserts a gate result. Results stay in the order of the recipe, even if some gates
    /// ran again.
    pub fn insert_gate_result(&mut self, result: GateResult, gates: &[Gate]) {
        let place = |name: &str| gates.iter().position(|gate| gate.name == name);
        let own_place = place(&result.gate);
        let is_later = |it: &GateResult| own_place.is_some() && place(&it.gate) > own_place;
        let at = self.gates.iter().position(is_later).unwrap_or(self.gates.len());
        self.gates.insert(at, result);
    }

    /// Returns whether ralph wrote the list after the agent that owns it.
    pub fn is_list_written_by_ralph(&self) -> bool {
        self.list_diff.as_ref().is_some_and(|diff| diff.file == AgentListFile::Rewritten)
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
        let verdict = self.judgement.as_ref().map(|judgement| &judgement.verdict);
        is_attempt && matches!(verdict, Some(Verdict::NotHandedIn { .. }))
    }

    /// Returns whether the work is committed.
    pub fn is_committed(&self) -> bool {
        self.landed.iter().any(|it| matches!(it, Landed::Committed { .. }))
    }

    /// Returns the state that is about to be committed, if surveyed.
    pub fn surveyed_state(&self) -> Option<Checkpoint> {
        self.landed.iter().find_map(|landed| {
            let CheckedOut { head, branch } = landed.surveyed_head()?.clone();
            Some(Checkpoint::Git { head, branch, tree: landed.surveyed_tree().cloned() })
        })
    }

    /// Returns the agent call that an answer belongs to.
    pub fn call_state(&self, purpose: &Purpose) -> &AgentCallState {
        match purpose {
            Purpose::Work => &self.work,
            Purpose::Gate(_) => &self.gate,
            Purpose::Message => &self.message,
        }
    }

    pub fn call_state_mut(&mut self, purpose: &Purpose) -> &mut AgentCallState {
        match purpose {
            Purpose::Work => &mut self.work,
            Purpose::Gate(_) => &mut self.gate,
            Purpose::Message => &mut self.message,
        }
    }

    /// Returns the observation of the agent's changes, if any.
    pub fn observation(&self) -> Option<&Observation> {
        self.observed.as_ref()?.observation.as_ref()
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

    /// Returns feedback about a refused commit.
    pub fn refusal_feedback(&self) -> Option<Feedback> {
        let output = self.landed.iter().find_map(Landed::refusal)?;
        Some(Feedback::from_text(format!(
            "The commit was refused. Fix the reported problems:\n{output}"
        )))
    }
}
