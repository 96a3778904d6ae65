//! The iteration that is open: what is known of it so far.
//!
//! Not here: how events change it, which is the fold's.

use serde::{Deserialize, Serialize};

use crate::asking::Asking;
use crate::claim::{Claim, ClaimFile};
use crate::control::Note;
use crate::event::{
    CheckedOut, Checkpoint, Landed, Meanwhile, Observation, Purpose, Recorded, TreeId,
};
use crate::gate::{Check, Gate, GateResult};
use crate::handoff::FileTouched;
use crate::ids::{IterationNumber, Role, TaskId};
use crate::judge::{Feedback, Judgement, Verdict};
use crate::plan::PlanLook;
use crate::units::{Millis, Timestamp};

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
    /// How long the run had been running then.
    pub began: Millis,
    /// The state it starts from.
    pub checkpoint: Option<Checkpoint>,
    /// What people want its agent to know.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// How many calls were made in it.
    pub asks: u32,
    /// The question the iteration is for.
    pub work: Asking,
    /// What the agent made of the task list, once that was read; only where it keeps the list.
    #[serde(default)]
    pub claim: Option<Claim>,
    /// What the agent made of the plan, once that was looked at.
    #[serde(default)]
    pub plan: Option<PlanLook>,
    /// What the agent created, may not create, and what was removed after its call.
    #[serde(default)]
    pub removed: Vec<String>,
    /// What the agent left, once it was looked at.
    pub observed: Option<Observed>,
    /// The question of the gate that an agent is being asked for.
    pub gate: Asking,
    /// The name of that gate.
    #[serde(default)]
    pub gate_asked: Option<String>,
    /// What the gates said so far.
    pub gates: Vec<GateResult>,
    /// How often all gates began again because files had changed while they ran.
    #[serde(default)]
    pub rounds: u32,
    /// What follows.
    pub judgement: Option<Judgement>,
    /// The question for a commit message.
    pub message: Asking,
    /// The state in which everything was when somebody was last asked for words only, until it was
    /// seen to that it is still so.
    #[serde(default)]
    pub unheard: Option<Checkpoint>,
    /// What the landing did so far.
    pub landed: Vec<Landed>,
}

/// What an agent left in the work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// What was seen, where there is a repository and somebody needed to know.
    pub observation: Option<Observation>,
    /// The ref that keeps commits of the agent's that were taken back.
    #[serde(default)]
    pub kept: Option<String>,
}

impl Iteration {
    pub(super) fn new(
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
            work: Asking::default(),
            claim: None,
            plan: None,
            removed: Vec::new(),
            observed: None,
            gate: Asking::default(),
            gate_asked: None,
            gates: Vec::new(),
            rounds: 0,
            judgement: None,
            message: Asking::default(),
            unheard: None,
            landed: Vec::new(),
        }
    }

    /// Takes in that the task file was made to say what the list says. What a landing wrote into
    /// it before is gone, and with it the tree that was noted for a commit still to come.
    pub(super) fn list_was_put_back(&mut self) {
        if let Some(claim) = &mut self.claim {
            claim.file = ClaimFile::Written;
        }
        let is_committed = self.is_committed();
        self.landed.retain(|landed| match landed {
            Landed::ListWritten => false,
            Landed::Surveyed { .. } => is_committed,
            Landed::Heard { .. }
            | Landed::Committed { .. }
            | Landed::NothingToCommit
            | Landed::CommitRefused { .. }
            | Landed::ScmRan { .. }
            | Landed::Shelved { .. }
            | Landed::RolledBack { .. } => true,
        });
    }

    /// Takes in what became of the work tree while the run stood still. If more was changed than the
    /// list, gates speak of it anew, and so does the judgement. The verdict of an agent was paid for,
    /// and stays; so does what was refused before any gate. Whoever changed it, what may not change
    /// may not: an agent's work may have ended the run for it. What somebody changes in a review is
    /// undone, as what the reviewer changes is.
    pub(super) fn look_again(&mut self, meanwhile: &Meanwhile, gates: &[Gate]) {
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
            let untold = meanwhile.meddling.iter().filter(|path| !seen.meddling.contains(path));
            let untold: Vec<String> = untold.cloned().collect();
            seen.meddling.extend(untold);
        }
        if !is_work {
            return;
        }
        if self.role == Role::Review {
            self.landed.retain(|it| !matches!(it, Landed::RolledBack { .. }));
            return;
        }
        self.gates.retain(|result| {
            let is_command = |gate: &&Gate| matches!(gate.check, Check::Command(_));
            !gates.iter().filter(is_command).any(|gate| gate.name == result.gate)
        });
        self.judgement = None;
    }

    /// Takes in that the work tree was looked at again, because files had changed while gates ran:
    /// all of them run again, those that an agent answers too.
    pub(super) fn start_gates_again(&mut self) {
        self.gates.clear();
        self.gate = Asking::default();
        self.unheard = None;
        self.rounds += 1;
    }

    /// Takes in what a gate said. Whichever of them had to begin anew, they stand in their order.
    pub(super) fn gate_spoke(&mut self, result: GateResult, gates: &[Gate]) {
        let place = |name: &str| gates.iter().position(|gate| gate.name == name);
        let own = place(&result.gate);
        let behind = |it: &GateResult| own.is_some() && place(&it.gate) > own;
        let at = self.gates.iter().position(behind).unwrap_or(self.gates.len());
        self.gates.insert(at, result);
    }

    /// Returns whether ralph wrote the list after the agent that keeps it.
    pub(crate) fn is_list_ours(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.file == ClaimFile::Written)
    }

    /// Returns whether the agent's work on a task is in the tree without being accepted. What
    /// ralph commits then is the task list, and the next attempt is measured from where this one
    /// began.
    pub(super) fn is_work_open(&self) -> bool {
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
    pub(super) fn is_committed(&self) -> bool {
        self.landed.iter().any(|it| matches!(it, Landed::Committed { .. }))
    }

    /// Returns the state that is about to be committed, where git was asked.
    pub(crate) fn surveyed(&self) -> Option<Checkpoint> {
        self.landed.iter().find_map(|landed| {
            let CheckedOut { head, branch } = landed.surveyed_on()?.clone();
            Some(Checkpoint::Git { head, branch, tree: landed.surveyed().cloned() })
        })
    }

    /// Returns the question that an answer is for.
    pub fn asking(&self, purpose: &Purpose) -> &Asking {
        match purpose {
            Purpose::Work => &self.work,
            Purpose::Gate(_) => &self.gate,
            Purpose::Message => &self.message,
        }
    }

    pub(super) fn asking_mut(&mut self, purpose: &Purpose) -> &mut Asking {
        match purpose {
            Purpose::Work => &mut self.work,
            Purpose::Gate(_) => &mut self.gate,
            Purpose::Message => &mut self.message,
        }
    }

    /// Returns what the agent left, as far as it was seen.
    pub fn observation(&self) -> Option<&Observation> {
        self.observed.as_ref()?.observation.as_ref()
    }

    /// Returns the tree the agent left.
    pub(crate) fn observed_tree(&self) -> Option<&TreeId> {
        self.observation().map(|observation| &observation.tree)
    }

    /// Returns the paths that changed.
    pub(crate) fn observed_files(&self) -> Vec<String> {
        let files = self.observation().into_iter().flat_map(|observation| &observation.files);
        files.map(|file| file.path.clone()).collect()
    }

    /// Returns what a refused commit says to the next iteration.
    pub(super) fn refusal(&self) -> Option<Feedback> {
        let output = self.landed.iter().find_map(Landed::refusal)?;
        Some(Feedback::after(format!(
            "The commit was refused. Mend what is complained about:\n{output}"
        )))
    }
}
