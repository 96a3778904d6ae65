//! Checks the agent's work: observes the work tree, runs gates on it, and reads verdicts
//! of review agents.

use std::path::PathBuf;

use ralph_model::agent_call_state::{AgentCallEnd, AgentCallState};
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::event::{Event, Purpose};
use ralph_model::gate::{GateResult, GateStatus, Severity};
use ralph_model::ids::IterationNumber;
use ralph_model::outcome::Outcome;
use ralph_model::phase::Iteration;
use ralph_model::recipe::{CommitPolicy, HistoryOwner, Recipe};
use ralph_model::review::ReviewVerdict;
use ralph_model::units::Millis;
use ralph_model::worktree::{Checkpoint, History, Landed, TreeDiff};

use super::{Engine, StepError, ViewKind, record_with};
use crate::checking::review;
use crate::checking::stuck::ErrorHasher;
use crate::landing::scm;
use crate::ports::{Activity, GateOrder, Observation, Ports, Survey};
use crate::run_loop::choose;

impl Engine<'_> {
    /// Runs a gate before the first agent call.
    pub(super) fn check_baseline(
        &mut self,
        gate: usize,
        severity: Severity,
    ) -> Result<(), StepError> {
        let result = self.run_gate(gate, severity, IterationNumber(0))?;
        self.record_event(Event::BaselineChecked { result })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Runs a gate on the agent's work.
    pub(super) fn check_gate(&mut self, gate: usize, severity: Severity) -> Result<(), StepError> {
        let iteration = IterationNumber(self.state.iterations);
        self.ports.vcs.ensure_git_files_recorded();
        let mut result = self.run_gate(gate, severity, iteration)?;
        let survey = match (result.status, severity) {
            (GateStatus::Passed, Severity::Hard) => self.recheck_after_gate(&mut result)?,
            (GateStatus::Failed | GateStatus::Cached, Severity::Hard) => None,
            // The next gate must not check anything else than this one did.
            (_, Severity::Soft) => self.survey_after_gate()?,
        };
        self.record_event(Event::GateChecked { result, survey: survey.map(Box::new) })?;
        self.ports.vcs.forget_reported_tampering();
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Fails a gate that passed if protected paths changed while it ran. Gates run code
    /// that agents wrote, and what that code does to the tree has not been observed. Returns
    /// the work tree, if it was looked at.
    fn recheck_after_gate(&mut self, result: &mut GateResult) -> Result<Option<Survey>, StepError> {
        let Recipe { protect, scope, .. } = &self.state.recipe;
        let (Some(since), false, true) =
            (self.state.observed_state(), protect.is_empty(), scope.is_empty())
        else {
            return self.survey_after_gate();
        };
        let watched = protect.clone();
        let Some(now) = self.ports.vcs.observe(&since, &watched)? else { return Ok(None) };
        let changed =
            self.map_current(|current| choose::find_forbidden_paths(&self.state, current, &now));
        let mut reasons = Vec::new();
        let mut survey = now.to_survey();
        if let Some(paths) = changed.filter(|paths| !paths.is_empty()) {
            let paths = paths.join(", ");
            let place = self.restore_forbidden_paths()?;
            let text = "protected paths were changed while it ran, and were restored";
            self.record_event(Event::Warned { text: format!("{text}: {paths}{place}") })?;
            reasons.push(format!("{text}: {paths}"));
            survey = self.ports.vcs.survey_tree()?.unwrap_or(survey);
        }
        if !now.git_tampering.is_empty() {
            let paths = now.git_tampering.join(", ");
            reasons
                .push(format!("these files were changed while it ran, and were restored: {paths}"));
        }
        if !reasons.is_empty() {
            let reason = reasons.join("; ");
            let mut hasher = ErrorHasher::new(&result.gate);
            hasher.feed_text(&reason);
            result.status = GateStatus::Failed;
            result.hash = Some(hasher.finish_hash());
            result.reason = Some(reason);
        }
        Ok(Some(survey))
    }

    /// Returns the work tree after a gate, where it is compared with what the gates check.
    fn survey_after_gate(&mut self) -> Result<Option<Survey>, StepError> {
        let is_compared = |it: &Iteration| Some(choose::needs_recheck(it.role, it.checking()?));
        match self.map_current(is_compared).flatten() {
            Some(true) => Ok(self.ports.vcs.survey_tree()?),
            Some(false) | None => Ok(None),
        }
    }

    /// Records the tree that passed. Where only ralph commits, a branch that moved after
    /// the agent was observed (most likely by a gate) is reset.
    pub(super) fn record_survey(&mut self) -> Result<(), StepError> {
        let documents = self.documents_to_commit();
        let mut survey = match (&documents, self.reusable_survey()) {
            (Some(documents), _) => self.ports.vcs.survey_documents(documents)?,
            (None, Some(survey)) => Some(survey),
            (None, None) => self.ports.vcs.survey_tree()?,
        };
        if let Some(before) = self.find_moved_history(survey.as_ref()) {
            let kept = self.ports.vcs.reset_history(&self.git_mark(), &before)?;
            let place = describe_kept_ref(kept.as_deref());
            self.record_event(Event::Warned {
                text: format!(
                    "the branch moved after the agent had ended, while gates ran: the history was restored{place}"
                ),
            })?;
            survey = match &documents {
                Some(documents) => self.ports.vcs.survey_documents(documents)?,
                None => self.ports.vcs.survey_tree()?,
            };
        }
        // Without an answer from git there may be something to commit.
        let changes = survey.as_ref().map_or(TreeDiff::Dirty, |survey| survey.changes);
        let (tree, checked_out) =
            survey.map_or((None, None), |survey| (Some(survey.tree), survey.checked_out));
        self.record_event(Event::Landed {
            landed: Landed::Surveyed { tree, changes, checked_out },
        })?;
        Ok(())
    }

    /// Returns the documents (task file and notes) if only those are committed. A review
    /// writes its verdict there, and no gate has checked anything else in the work tree.
    /// Where the agent commits, ralph commits nothing else.
    pub(super) fn documents_to_commit(&self) -> Option<Vec<PathBuf>> {
        let recipe = &self.state.recipe;
        let role = self.map_current(|current| current.role)?;
        let is_scm = matches!(recipe.landing.commit, CommitPolicy::Scm(_));
        let is_alone = recipe.ownership().commits_documents_only(role, is_scm);
        let work = recipe.task_work().filter(|_| is_alone)?;
        Some(work.documents().into())
    }

    /// Returns the survey from the checks, or the observation where no gate followed it, if the
    /// landing has not changed the work tree.
    fn reusable_survey(&self) -> Option<Survey> {
        let landing = self.state.current.as_ref()?.landing()?;
        let checked = &landing.checked;
        let observed = checked.observation().filter(|_| checked.gates.is_empty());
        let survey = checked.survey.clone().or_else(|| observed.map(Observation::to_survey));
        survey.filter(|_| landing.plan.done.is_empty())
    }

    /// Returns the state to reset the history to, if it moved without permission.
    pub(super) fn find_moved_history(&self, survey: Option<&Survey>) -> Option<Checkpoint> {
        let now = survey?.checked_out.as_ref()?;
        let current = self.state.current.as_ref()?;
        let before = if current.is_rolled_back() {
            current.checkpoint().cloned()
        } else {
            self.state.observed_state()
        };
        let is_ours = self.state.recipe.ownership().history == HistoryOwner::Ralph;
        before.filter(|before| match before {
            Checkpoint::Git { head, branch, .. } => {
                is_ours && (*head != now.head || *branch != now.branch)
            }
            Checkpoint::None => false,
        })
    }

    pub(super) fn run_gate(
        &mut self,
        gate: usize,
        severity: Severity,
        iteration: IterationNumber,
    ) -> Result<GateResult, StepError> {
        let (recipe, run) = (&self.state.recipe, self.state.run.clone());
        let gate = &recipe.gates[gate].clone();
        let Ports { gates, store, clock, ui, .. } = &mut self.ports;
        ui.show_activity(&Activity::Gate(gate));
        let order = GateOrder {
            run: &run,
            iteration,
            gate,
            command: gate.check.label(),
            severity,
            output_chars: recipe.prompt.output_chars,
        };
        let (mut has_passed, mut warned) = (false, Ok(()));
        let mut tick = |ran| {
            ui.show_activity(&Activity::GateRuns { gate, ran });
            if ran >= gate.soft_limit && !has_passed {
                has_passed = true;
                let (name, soft, hard) = (&gate.name, gate.soft_limit, gate.hard_limit);
                let text =
                    format!("gate {name} passed its soft limit of {soft}; it is ended at {hard}");
                let event = Event::Warned { text };
                warned = record_with(&mut self.state, *store, *clock, *ui, event);
            }
        };
        let result = gates.run_gate(&order, &mut tick);
        warned?;
        // A gate that the user interrupted has no result; it runs again when the run is
        // resumed.
        if let Some(end) = &result.end
            && matches!(end.ending, Ending::Interrupted { .. })
        {
            return Err(StepError::Outcome(Outcome::Interrupted));
        }
        Ok(result)
    }

    /// Records the verdict of the agent that a gate asked. Discards its changes to the
    /// tree and the history first: only its answer counts.
    pub(super) fn finish_gate_review(
        &mut self,
        gate: usize,
        severity: Severity,
    ) -> Result<(), StepError> {
        if let Some(as_seen) = self.state.observed_state() {
            let name = &self.state.recipe.gates[gate].name;
            self.discard_side_effects(&format!("the reviewer of `{name}`"), &as_seen)?;
        }
        let spec = &self.state.recipe.gates[gate];
        let call = self.map_current(|current| {
            current.call_state(&Purpose::Gate(spec.name.clone())).cloned().unwrap_or_default()
        });
        let result = build_gate_result(spec, severity, &call.unwrap_or_default());
        self.record_event(Event::GateChecked { result, survey: None })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Discards the changes of an agent that was asked for a commit message: nothing may
    /// be added to what the gates passed.
    pub(super) fn discard_message_side_effects(&mut self) -> Result<(), StepError> {
        let before = self.map_current(|it| it.landing()?.before_message.clone()).flatten();
        let kept = match before {
            Some(before) => {
                self.discard_side_effects("the agent asked for a commit message", &before)?
            }
            None => None,
        };
        if self.map_current(is_message_missing) == Some(true) {
            self.warn_once("the agent wrote no commit message; ralph wrote it instead".to_owned())?;
        }
        self.record_event(Event::Landed { landed: Landed::MessageChecked { kept } })?;
        Ok(())
    }

    /// Returns the state to restore after a read-only agent call.
    pub(super) fn state_to_restore(&self, purpose: &Purpose) -> Option<Checkpoint> {
        let current = self.state.current.as_ref()?;
        match purpose {
            Purpose::Work => None,
            Purpose::Gate(_) => self.state.observed_state(),
            Purpose::Message => {
                let landing = current.landing()?;
                landing.before_message.clone().or_else(|| landing.plan.surveyed_state())
            }
        }
    }

    /// Discards the changes of a read-only agent call. Returns the ref that keeps them.
    pub(super) fn discard_side_effects(
        &mut self,
        agent: &str,
        before: &Checkpoint,
    ) -> Result<Option<String>, StepError> {
        let Checkpoint::Git { tree, .. } = before else { return Ok(None) };
        let Some(now) = self.ports.vcs.observe(before, &[])? else { return Ok(None) };
        let did = match now.history {
            History::Same if tree.as_ref() == Some(&now.tree) => None,
            History::Same => Some("changed files"),
            History::Advanced { .. } => Some("made commits"),
            History::Rewritten => Some("rewrote the history or switched the branch"),
        };
        let mut warnings = Vec::new();
        let mut kept = None;
        // If the run ended in between, ralph itself restored the list, so that is no
        // change by the agent.
        let is_list_ours = self.map_current(Iteration::is_list_written_by_ralph) == Some(true);
        let is_ralphs = is_list_ours
            && now.more_files == 0
            && now.files.iter().all(|file| self.is_list_document(&file.path));
        if let Some(did) = did {
            kept = self.ports.vcs.roll_back(&self.git_mark(), before)?;
            let place = describe_kept_ref(kept.as_deref());
            if !is_ralphs {
                warnings.push(format!("{did}, which was undone{place}"));
            }
        }
        if !now.git_tampering.is_empty() {
            let paths = now.git_tampering.join(", ");
            warnings.push(format!("changed these files, which were restored: {paths}"));
        }
        for warning in warnings {
            self.record_event(Event::Warned { text: format!("{agent} {warning}") })?;
        }
        self.ports.vcs.forget_reported_tampering();
        Ok(kept)
    }
}

/// Returns whether the agent was asked for a commit message and wrote none.
fn is_message_missing(current: &Iteration) -> bool {
    let end = current.landing().and_then(|landing| landing.checked.message.end.as_ref());
    matches!(end, Some(AgentCallEnd::Answered(reply))
        if scm::parse_commit_message(&reply.text).is_none())
}

/// Returns a clause that names the ref with the removed work.
pub(super) fn describe_kept_ref(name: Option<&str>) -> String {
    name.map(|name| format!("; kept on {name}")).unwrap_or_default()
}

/// Returns the result of a gate from its agent's answer.
pub(super) fn build_gate_result(
    gate: &ralph_model::gate::Gate,
    severity: Severity,
    asking: &AgentCallState,
) -> GateResult {
    let (status, code, output) = match &asking.end {
        Some(AgentCallEnd::Answered(reply)) => {
            match review::parse_review_answer(reply, asking.token.as_deref()) {
                Some(answer) if answer.verdict == ReviewVerdict::Approved => {
                    (GateStatus::Passed, 0, answer.feedback)
                }
                Some(answer) => (GateStatus::Failed, 1, answer.feedback),
                None => (GateStatus::Failed, 1, "the reviewer gave no verdict".to_owned()),
            }
        }
        Some(AgentCallEnd::FailedAttempt(failure)) if asking.wrong.is_some() => {
            let output = format!("the reviewer gave no usable verdict: {}", failure.message);
            (GateStatus::Failed, 1, output)
        }
        Some(AgentCallEnd::FailedAttempt(failure) | AgentCallEnd::Hopeless(failure)) => {
            let output = format!(
                "the reviewer did not answer ({}): {}",
                failure.class.name(),
                failure.message
            );
            (GateStatus::Failed, 1, output)
        }
        None => (GateStatus::Failed, 1, String::new()),
    };
    let hash = (status == GateStatus::Failed).then(|| {
        let mut hasher = ErrorHasher::new(&gate.name);
        hasher.feed_text(&output);
        hasher.finish_hash()
    });
    let ran = match &asking.end {
        Some(AgentCallEnd::Answered(reply)) => reply.end.ran,
        Some(AgentCallEnd::FailedAttempt(_) | AgentCallEnd::Hopeless(_)) | None => Millis::ZERO,
    };
    GateResult {
        end: Some(ChildEnd { ran, ..ChildEnd::from_ending(Ending::Exited { code }) }),
        is_verdict: true,
        output,
        hash,
        ..GateResult::new(gate.name.clone(), gate.name.clone(), severity, status)
    }
}
