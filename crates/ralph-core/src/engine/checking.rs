//! Checks the agent's work: observes the work tree, runs gates on it, and reads verdicts
//! of review agents.

use std::path::PathBuf;

use super::{Engine, EngineError, StepError, ViewKind};
use crate::agent_call_state::{AgentCallEnd, AgentCallState};
use crate::child::{ChildEnd, Ending, Leftovers, SoftLimit};
use crate::choose;
use crate::event::{
    ChangesWhileStopped, CheckedOut, Checkpoint, EndSnapshot, Event, History, Landed, Purpose,
    TreeDiff, describe_git_tampering,
};
use crate::gate::{GateResult, GateStatus, Severity};
use crate::glob::Pattern;
use crate::ids::{IterationNumber, Role};
use crate::judge::{self, Verdict};
use crate::outcome::Outcome;
use crate::plan::PlanState;
use crate::ports::{Activity, CompareMode, GateOrder, Observation, Survey, View};
use crate::recipe::{CommitPolicy, PlanPart, Recipe, Uncommitted};
use crate::review::{self, ReviewVerdict};
use crate::run::Iteration;
use crate::secret::leak;
use crate::stuck::ErrorHasher;
use crate::units::Millis;

impl Engine<'_> {
    /// Observes the agent's changes. Where only ralph commits, commits made by the agent
    /// are reset into the work tree, because they never passed a gate.
    pub(super) fn observe_changes(&mut self) -> Result<(), StepError> {
        let base = self.state.base.clone().unwrap_or(Checkpoint::None);
        let watched = self.watched_patterns();
        let mut observation = self.ports.vcs.observe(&base, &watched)?;
        let mut kept = None;
        let is_unsure = std::mem::take(&mut self.may_repeat_history_reset);
        if let Some(seen) = &observation
            && (self.is_forbidden_history(seen.history)
                || (is_unsure && self.can_have_been_reset(seen.history)))
        {
            kept = self.ports.vcs.reset_history(&self.git_mark(), &base)?;
        }
        if let Some(seen) = &observation
            && (self.is_forbidden_history(seen.history) || kept.is_some())
        {
            let agent_did = match seen.history {
                History::Advanced { commits: 1 } => "the agent made a commit".to_owned(),
                History::Advanced { commits } => format!("the agent made {commits} commits"),
                History::Rewritten => {
                    "the agent rewrote the history or switched the branch".to_owned()
                }
                // The history was reset before ralph died, which was not recorded.
                History::Same => "the agent made commits or switched the branch".to_owned(),
            };
            let place = describe_kept_ref(kept.as_deref());
            self.record_event(Event::Warned {
                text: format!(
                    "{agent_did}, which it may not do here: the history was restored{place}"
                ),
            })?;
            let tampering = seen.git_tampering.clone();
            observation = self.ports.vcs.observe(&base, &watched)?;
            if let Some(again) = &mut observation {
                again.git_tampering.extend(tampering);
            }
        }
        self.record_event(Event::Observed { observation, kept })?;
        Ok(())
    }

    /// Returns whether an unchanged history may have been reset by an earlier process.
    fn can_have_been_reset(&self, history: History) -> bool {
        history == History::Same && self.is_forbidden_history(History::Rewritten)
    }

    /// Returns whether the history changed in a way that the recipe does not allow to
    /// agents.
    fn is_forbidden_history(&self, history: History) -> bool {
        let landing = &self.state.recipe.landing;
        match (history, landing.uncommitted) {
            (History::Same, _) => false,
            (_, _) if landing.is_history_owned_by_ralph() => true,
            // The user's own prompt may ask for a branch.
            (History::Rewritten, Uncommitted::Refused) => landing.commit == CommitPolicy::Agent,
            (History::Rewritten, Uncommitted::Reported) | (History::Advanced { .. }, _) => false,
        }
    }

    /// Returns what changed while the run was stopped in work that has not landed yet.
    /// The work may have landed after all, if the history moved forward. If git fails
    /// here, it fails again where it matters.
    pub(super) fn find_changes_while_stopped(&mut self) -> Option<ChangesWhileStopped> {
        let since = self.state.state_under_check()?;
        let now = self.ports.vcs.observe(&since, &self.watched_patterns()).ok()??;
        let Observation { tree, changes, mut files, leaks, git_tampering, .. } = now;
        files.retain(|file| !self.is_list_document(&file.path));
        let is_same_tree =
            matches!(&since, Checkpoint::Git { tree: Some(seen), .. } if *seen == tree);
        let is_other = !is_same_tree && (!files.is_empty() || !self.is_judged());
        (is_other || !git_tampering.is_empty()).then_some(ChangesWhileStopped {
            tree,
            changes,
            files,
            leaks,
            git_tampering,
        })
    }

    /// Returns the snapshot that a resumed run compares with.
    pub(super) fn take_end_snapshot(&mut self) -> Option<Box<EndSnapshot>> {
        let repository = self.snapshot_unlanded_work();
        let is_listed = self.is_task_file_in_sync();
        (repository.is_some() || is_listed)
            .then(|| Box::new(EndSnapshot { repository, task_file_in_sync: is_listed }))
    }

    /// Returns the state of the repository if there is work that has not landed. Nothing
    /// if git fails: a resumed run then cannot tell what changed.
    fn snapshot_unlanded_work(&mut self) -> Option<Checkpoint> {
        match self.state.unlanded_base() {
            Some(Checkpoint::Git { .. }) => {
                let Survey { tree, checked_out, .. } = self.ports.vcs.take_final_survey()?;
                let CheckedOut { head, branch } = self.expected_head.take().or(checked_out)?;
                Some(Checkpoint::Git { head, branch, tree: Some(tree) })
            }
            Some(Checkpoint::None) | None => None,
        }
    }

    /// Fails if protected paths, or a history that only ralph writes, changed after the
    /// run ended. An agent cannot have done it and must not be blamed for it.
    pub(super) fn check_unchanged_since_end(&mut self) -> Result<(), EngineError> {
        let left = self.state.end_snapshot.as_ref().and_then(|left| left.repository.clone());
        let (Some(_), Some(left)) = (&self.state.outcome, left) else { return Ok(()) };
        let now = self.ports.vcs.peek_changes_since(&left, &self.watched_patterns());
        let Checkpoint::Git { head, branch, tree } = left else { return Ok(()) };
        let now = match now {
            Ok(Some(now)) => now,
            Ok(None) => return Ok(()),
            // `git gc` may have removed the tree, but not what is checked out.
            Err(_) => return self.check_head_unchanged(CheckedOut { head, branch }),
        };
        let paths: Vec<String> = now.files.into_iter().map(|file| file.path).collect();
        let paths = choose::find_protected_paths(&self.state, &paths);
        match (now.checked_out, tree) {
            (Some(other), _) if self.is_forbidden_history(now.history) => {
                Err(EngineError::Moved { left: CheckedOut { head, branch }, now: other })
            }
            (_, Some(left)) if !paths.is_empty() => Err(EngineError::Protected { paths, left }),
            (_, _) => Ok(()),
        }
    }

    /// Fails if a history that only ralph writes has moved. Used where the tree cannot be
    /// compared.
    fn check_head_unchanged(&mut self, left: CheckedOut) -> Result<(), EngineError> {
        let survey = self.ports.vcs.survey_tree().map_err(EngineError::Git)?;
        let is_ralphs = self.state.recipe.landing.is_history_owned_by_ralph();
        match survey.and_then(|survey| survey.checked_out) {
            Some(now) if is_ralphs && now != left => Err(EngineError::Moved { left, now }),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the patterns whose matches are listed first, however many other files
    /// changed.
    fn watched_patterns(&self) -> Vec<Pattern> {
        let Recipe { protect, scope, .. } = &self.state.recipe;
        protect.iter().chain(scope).cloned().collect()
    }

    pub(super) fn is_list_document(&self, path: &str) -> bool {
        let work = self.state.recipe.task_work();
        work.is_some_and(|work| work.is_document(&self.state.project, path))
    }

    fn is_judged(&self) -> bool {
        self.map_current(|current| current.judgement.is_some()) == Some(true)
    }

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
        let mut result = self.run_gate(gate, severity, iteration)?;
        if result.status == GateStatus::Passed && severity == Severity::Hard {
            self.recheck_after_gate(&mut result)?;
        }
        self.record_event(Event::GateChecked { result })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Fails a gate that passed if protected paths changed while it ran. Gates run code
    /// that agents wrote, and what that code does to the tree has not been observed.
    fn recheck_after_gate(&mut self, result: &mut GateResult) -> Result<(), StepError> {
        let Recipe { protect, scope, .. } = &self.state.recipe;
        let (Some(since), false, true) =
            (self.state.observed_state(), protect.is_empty(), scope.is_empty())
        else {
            return Ok(());
        };
        let watched = protect.clone();
        let Some(now) = self.ports.vcs.observe(&since, &watched)? else { return Ok(()) };
        self.post_gate_survey = Some(to_survey(&now));
        let changed =
            self.map_current(|current| choose::find_forbidden_paths(&self.state, current, &now));
        let mut reasons = Vec::new();
        if let Some(paths) = changed.filter(|paths| !paths.is_empty()) {
            let paths = paths.join(", ");
            reasons
                .push(format!("protected paths were changed while it ran, restore them: {paths}"));
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
        Ok(())
    }

    /// Records the tree that passed. Where only ralph commits, a branch that moved after
    /// the agent was observed (most likely by a gate) is reset.
    pub(super) fn record_survey(&mut self) -> Result<(), StepError> {
        let last_survey = self.post_gate_survey.take();
        let documents = self.documents_to_commit();
        let mut survey = match (&documents, self.reusable_survey().or(last_survey)) {
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
    fn documents_to_commit(&self) -> Option<Vec<PathBuf>> {
        let is_review = self.map_current(|current| current.role == Role::Review) == Some(true);
        let is_alone = match self.state.recipe.landing.commit {
            CommitPolicy::Ralph => is_review,
            CommitPolicy::Agent => true,
            CommitPolicy::NoCommit | CommitPolicy::Scm(_) => false,
        };
        let work = self.state.recipe.task_work().filter(|_| is_alone)?;
        Some(work.documents().into())
    }

    /// Returns the survey from the last observation, if nothing has changed the work tree
    /// since: no gate has run and ralph has written nothing.
    fn reusable_survey(&self) -> Option<Survey> {
        let current = self.state.current.as_ref()?;
        let is_untouched = current.gates.is_empty() && current.landed.is_empty();
        current.observation().filter(|_| is_untouched).map(to_survey)
    }

    /// Returns the state to reset the history to, if it moved without permission.
    fn find_moved_history(&self, survey: Option<&Survey>) -> Option<Checkpoint> {
        let now = survey?.checked_out.as_ref()?;
        let current = self.state.current.as_ref()?;
        let is_back = current.landed.iter().any(|it| matches!(it, Landed::RolledBack { .. }));
        let before = if is_back { current.checkpoint.clone() } else { self.state.observed_state() };
        let is_ours = self.state.recipe.landing.is_history_owned_by_ralph();
        before.filter(|before| match before {
            Checkpoint::Git { head, branch, .. } => {
                is_ours && (*head != now.head || *branch != now.branch)
            }
            Checkpoint::None => false,
        })
    }

    fn run_gate(
        &mut self,
        gate: usize,
        severity: Severity,
        iteration: IterationNumber,
    ) -> Result<GateResult, StepError> {
        let recipe = &self.state.recipe;
        let gate = &recipe.gates[gate];
        let ui = &mut *self.ports.ui;
        ui.show_activity(&Activity::Gate(gate));
        let order = GateOrder {
            run: &self.state.run,
            iteration,
            gate,
            command: gate.check.label(),
            severity,
            output_chars: recipe.prompt.output_chars,
        };
        let mut tick = |ran| ui.show_activity(&Activity::GateRuns { gate, ran });
        // A gate runs what agents wrote.
        self.compare_mode = CompareMode::Content;
        let result = self.ports.gates.run_gate(&order, &mut tick);
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
        let asking = self.map_current(|current| current.gate.clone()).unwrap_or_default();
        let result = build_gate_result(&self.state.recipe.gates[gate], severity, &asking);
        self.record_event(Event::GateChecked { result })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Discards the changes of an agent that was asked for a commit message: nothing may
    /// be added to what the gates passed.
    pub(super) fn discard_message_side_effects(&mut self) -> Result<(), StepError> {
        let before = self.map_current(|current| current.pre_question.clone()).flatten();
        let kept = match before {
            Some(before) => {
                self.discard_side_effects("the agent asked for a commit message", &before)?
            }
            None => None,
        };
        self.record_event(Event::Landed { landed: Landed::MessageChecked { kept } })?;
        Ok(())
    }

    /// Returns the state to restore after a read-only agent call.
    pub(super) fn state_to_restore(&self, purpose: &Purpose) -> Option<Checkpoint> {
        let current = self.state.current.as_ref()?;
        match purpose {
            Purpose::Work => None,
            Purpose::Gate(_) => self.state.observed_state(),
            Purpose::Message => current.pre_question.clone().or_else(|| current.surveyed_state()),
        }
    }

    /// Discards the changes of a read-only agent call. Returns the ref that keeps them.
    fn discard_side_effects(
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
        Ok(kept)
    }

    /// Refuses work that changed protected or out-of-scope paths. Out-of-scope files are
    /// restored at once, because the agent cannot fix them.
    pub(super) fn refuse_paths(&mut self, paths: &[String]) -> Result<(), StepError> {
        let list = |paths: Vec<&str>| format!("\n- {}", paths.join("\n- "));
        let changed = list(paths.iter().map(String::as_str).collect());
        let scope = self.state.recipe.scope.clone();
        let output = if scope.is_empty() {
            let recipe = &self.state.recipe;
            let can_be_lifted =
                |path: &&String| recipe.gate_scripts.contains(path) || !recipe.is_locked(path);
            let remedy = paths.iter().find(can_be_lifted).map(|path| {
                format!("\nOnly the user can allow it: `\"protect\": [\"!{path}\"]` in the settings. If the task cannot be done otherwise, report that as a blocker.")
            });
            format!(
                "These paths are protected and were changed. Restore them, and do the task without touching them:{changed}{}",
                remedy.unwrap_or_default()
            )
        } else {
            let base = self.state.base.clone().unwrap_or(Checkpoint::None);
            let kept = self.ports.vcs.restore_outside_scope(&self.git_mark(), &base, &scope)?;
            let place = describe_kept_ref(kept.as_deref());
            let text = format!("the agent changed files outside its scope; restored{place}");
            self.record_event(Event::Warned { text })?;
            // Patterns of single files start with `/`, the project directory.
            let allowed = scope.iter().map(|it| it.as_str().trim_start_matches('/'));
            let allowed = list(allowed.collect());
            format!(
                "Only these paths may be changed:{allowed}\nThese were changed too, and have been restored. Do not touch them:{changed}"
            )
        };
        let result = choose::build_refusal_result(choose::PROTECTED_PATHS, output);
        self.record_event(Event::GateChecked { result })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Refuses work that contains secrets: once committed they are hard to remove.
    pub(super) fn refuse_leaks(&mut self) -> Result<(), StepError> {
        let leaks =
            self.map_current(|current| current.observation().map(|seen| seen.leaks.clone()));
        let output = leak::format_leak_feedback(&leaks.flatten().unwrap_or_default());
        self.record_event(Event::GateChecked {
            result: choose::build_refusal_result(choose::SECRETS, output),
        })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Refuses work that came with changes to git's own files. The files have been
    /// restored.
    pub(super) fn refuse_git_tampering(&mut self) -> Result<(), StepError> {
        let paths = self
            .map_current(|current| current.observation().map(|seen| seen.git_tampering.clone()));
        let output = describe_git_tampering(&paths.flatten().unwrap_or_default());
        self.record_event(Event::GateChecked {
            result: choose::build_refusal_result(choose::GIT_TAMPERING, output),
        })?;
        self.publish_view(ViewKind::Gates)?;
        Ok(())
    }

    /// Returns a warning if this attempt took the task past its soft time limit.
    fn overdue_warning(&self, judgement: &judge::Judgement) -> Option<String> {
        let failed = judgement.failed.as_ref().filter(|failed| failed.gives_up.is_none())?;
        let work = self.state.recipe.task_work()?;
        let task = self.map_current(|current| current.task.clone()).flatten()?;
        let before = self.state.tasks.as_ref()?.attempt_log(&task).spent;
        let spent = before.saturating_add(self.state.ran_in_iteration());
        (before < work.soft_limit && spent >= work.soft_limit).then(|| {
            format!(
                "task {task} has taken longer than {} by attempt {}; it is given up at {}",
                work.soft_limit, failed.attempt.iteration, work.hard_limit
            )
        })
    }

    /// Returns warnings about work that is accepted as complete.
    fn completion_warnings(&self, judgement: &judge::Judgement) -> Vec<String> {
        let (Verdict::Complete, Some(current)) = (&judgement.verdict, &self.state.current) else {
            return Vec::new();
        };
        let counts = current.plan.as_ref().and_then(PlanState::counts);
        let part = self.state.recipe.plan.as_ref().map(|plan| plan.part);
        let open = match (counts, part) {
            (Some(counts), Some(PlanPart::Follows)) => counts.open,
            (_, _) => 0,
        };
        let open = (open > 0).then(|| {
            let items = if open == 1 { "1 item".to_owned() } else { format!("{open} items") };
            format!("the agent reported twice that all is done; {items} of its plan left open")
        });
        let is_left = current.observation().is_some_and(|seen| seen.changes == TreeDiff::Dirty);
        let landing = &self.state.recipe.landing;
        let is_agents = landing.commit == CommitPolicy::Agent;
        let left = (is_left && is_agents && landing.uncommitted == Uncommitted::Reported)
            .then(|| "uncommitted changes are left in the work tree".to_owned());
        open.into_iter().chain(left).collect()
    }

    /// Returns warnings about a compaction.
    fn compaction_warnings(&self, judgement: &judge::Judgement) -> Vec<String> {
        let is_compaction = self.map_current(|current| current.role == Role::Compact) == Some(true);
        match (&judgement.compacted, &judgement.verdict) {
            (Some(compacted), _) => compacted.remarks(),
            (None, Verdict::AttemptFailed { failure }) if is_compaction => vec![format!(
                "compaction failed ({}): {}; the run continues with the memory it has, and tries again later",
                failure.class.name(),
                failure.message
            )],
            (None, _) => Vec::new(),
        }
    }

    pub(super) fn judge_iteration(&mut self) -> Result<(), EngineError> {
        let judgement =
            self.map_current(|current| judge::judge_iteration(&self.state, current)).flatten();
        let Some(judgement) = judgement else { return Ok(()) };
        let (handoff, amended) = (judgement.handoff.clone(), judgement.amended.clone());
        let overdue = self.overdue_warning(&judgement);
        let mut remarks = self.completion_warnings(&judgement);
        remarks.extend(self.compaction_warnings(&judgement));
        self.record_event(Event::Judged { judgement: Box::new(judgement) })?;
        for text in overdue.into_iter().chain(remarks) {
            self.record_event(Event::Warned { text })?;
        }
        let iteration = IterationNumber(self.state.iterations);
        if let Some(handoff) = handoff {
            let view = View::Handoff { iteration, handoff: &handoff };
            let published = self.ports.store.publish_view(&view);
            self.warn_on_error(published)?;
        }
        if !amended.is_empty() {
            let at = self.ports.clock.read_moment().now;
            let view = View::Amendments { iteration, at, log: &amended };
            let published = self.ports.store.publish_view(&view);
            self.warn_on_error(published)?;
        }
        Ok(())
    }
}

/// Returns a clause that names the ref with the removed work.
fn describe_kept_ref(name: Option<&str>) -> String {
    name.map(|name| format!("; kept on {name}")).unwrap_or_default()
}

/// Converts an observation to a survey.
fn to_survey(seen: &Observation) -> Survey {
    let Observation { tree, changes, checked_out, .. } = seen;
    Survey { tree: tree.clone(), changes: *changes, checked_out: checked_out.clone() }
}

/// Returns the result of a gate from its agent's answer.
fn build_gate_result(
    gate: &crate::gate::Gate,
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
    GateResult {
        gate: gate.name.clone(),
        command: gate.name.clone(),
        severity,
        status,
        end: Some(ChildEnd {
            ending: Ending::Exited { code },
            ran: Millis::ZERO,
            soft_limit: SoftLimit::Kept,
            leftovers: Leftovers::default(),
        }),
        log: None,
        output,
        hash,
        failing: Vec::new(),
        reason: None,
        sandbox: None,
    }
}
