//! What is known of the agent's work while it is checked.

use std::collections::BTreeMap;

use crate::agent_call_state::AgentCallState;
use crate::agent_list_diff::{AgentListDiff, AgentListFile};
use crate::gate::{Gate, GateResult};
use crate::parallel_state::MergedCandidate;
use crate::plan::PlanState;
use crate::recipe::Ownership;
use crate::refusal::{Refusal, RefusalKind};
use crate::worktree::{Checkpoint, Observation, Survey};

/// The agent's work is checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Checking {
    /// The state that the iteration started from.
    pub checkpoint: Checkpoint,
    /// The agent call that did the work. It has ended, unless the user skips the task.
    pub work: AgentCallState,
    /// The candidate that was merged in place of an answer; only in role `merge`.
    pub merge: Option<Box<MergedCandidate>>,
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
    /// How often gates were repeated that failed after a merge, by gate.
    pub repeats: BTreeMap<String, u32>,
    /// The review gate that is asking an agent.
    pub review: Option<GateReview>,
    /// How often all gates started over because files changed while they ran.
    pub rounds: u32,
    /// The work tree as last seen, if nothing can have changed it since.
    pub survey: Option<Survey>,
    /// The work trees after gates of this round that were not what the gates check. A later
    /// gate may have changed them back.
    pub altered: Vec<Survey>,
    /// Whether the work tree is known to be what the gates checked, since the first gate.
    pub is_rechecked: bool,
    /// Whether the run was stopped since the work tree was observed. The user may have
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

impl Checking {
    /// Returns the checks of an agent call that has just ended.
    pub fn new(checkpoint: Checkpoint, work: AgentCallState) -> Self {
        Self {
            checkpoint,
            work,
            merge: None,
            list_diff: None,
            plan: None,
            observed: None,
            refusals: Vec::new(),
            gates: Vec::new(),
            repeats: BTreeMap::new(),
            review: None,
            rounds: 0,
            survey: None,
            altered: Vec::new(),
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
    pub fn record_observation(&mut self, mut observed: Observed) {
        if self.was_stopped
            && let (Some(now), Some(before)) = (&mut observed.observation, self.observation())
        {
            now.add_forbidden(before);
        }
        if self.observed.is_some() {
            self.gates.clear();
            self.refusals.clear();
            self.review = None;
            self.rounds += u32::from(!self.was_stopped);
            self.was_stopped = false;
        }
        self.survey = observed.observation.as_ref().map(Observation::to_survey);
        (self.altered, self.is_rechecked) = (Vec::new(), true);
        self.observed = Some(observed);
    }

    /// Records the work tree after a refusal restored paths: what follows checks that, and a
    /// reviewer's changes are undone to that.
    pub fn record_restored_paths(&mut self, survey: &Survey) {
        let Some(seen) = self.observed.as_mut().and_then(|it| it.observation.as_mut()) else {
            return;
        };
        (seen.tree, seen.changes) = (survey.tree.clone(), survey.changes);
        self.survey = Some(survey.clone());
    }

    /// Records that the work tree is what the gates checked.
    pub fn record_recheck(&mut self, survey: Option<Survey>) {
        let seen = self.observed.as_mut().and_then(|it| it.observation.as_mut());
        // The list may have been restored when the run ended.
        if let (true, Some(seen), Some(now)) = (self.was_stopped, seen, &survey) {
            seen.tree = now.tree.clone();
        }
        // A run that was stopped is compared once more, for what its gates did before.
        if !self.was_stopped {
            self.altered.clear();
        }
        (self.survey, self.was_stopped) = (survey, false);
        self.is_rechecked = self.altered.is_empty();
    }

    /// Handles that the run was stopped. While an agent is asked for a verdict there is
    /// nothing to compare: its changes are discarded anyway.
    pub(super) fn record_stop(&mut self) {
        if self.observation().is_some() && self.review.is_none() {
            (self.survey, self.is_rechecked, self.was_stopped) = (None, false, true);
        }
    }

    /// Returns whether the work tree is what the gates check. Where agents commit, so is
    /// what is checked out.
    pub fn is_as_observed(&self, now: &Survey, ownership: Ownership) -> bool {
        let Some(seen) = self.observation() else { return false };
        let is_moved = match (&seen.checked_out, &now.checked_out) {
            (Some(then), Some(now)) => then != now && ownership.do_agents_commit(),
            (_, _) => false,
        };
        seen.tree == now.tree && !is_moved
    }

    /// Records the work tree after a gate, if it was surveyed.
    pub fn record_survey_after_gate(&mut self, survey: Option<Survey>, ownership: Ownership) {
        let is_same = survey.as_ref().is_some_and(|now| self.is_as_observed(now, ownership));
        if let Some(now) = survey.as_ref().filter(|now| !is_same && !self.altered.contains(now)) {
            self.altered.push(now.clone());
        }
        self.is_rechecked = is_same && self.altered.is_empty();
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
    pub(super) fn mark_list_rewritten(&mut self) {
        if let Some(diff) = &mut self.list_diff {
            diff.file = AgentListFile::Rewritten;
        }
    }
}
