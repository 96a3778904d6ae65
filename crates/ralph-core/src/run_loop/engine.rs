//! The loop.
//!
//! One short function over six ports: read the clock, choose the next step, do it, and
//! record the result. All decisions are pure functions elsewhere in this crate; all side
//! effects are behind a port. Longer steps live in the submodules: agent calls, gate
//! checks, compaction, the task file, control requests, prompt inputs, the plan file, and
//! the comparison of the work tree with what the gates checked.

mod agent_calls;
mod checking;
mod compaction;
mod control_requests;
mod judging;
mod observing;
mod plan_file;
mod prompt_inputs;
mod recheck;
mod refusals;
mod resume_guard;
mod task_file;

use std::path::PathBuf;

use ralph_model::event::{Event, JOURNAL_VERSION, Purpose, Recorded, WaitReason};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::Recipe;
use ralph_model::run::{IterationMark, RunState};
use ralph_model::units::Timestamp;
use ralph_model::worktree::{CheckedOut, Checkpoint, Landed, TreeId, UNCOMMITTED_FILES};
use recheck::Recheck;

use crate::asking::capability;
use crate::asking::prompt::PromptError;
use crate::ports::{
    Activity, CommitOrder, CommitResult, CompareMode, Moment, Ports, ScmResult, StoreError, Survey,
    TasksError, VcsError, View,
};
use crate::run_loop::choose::{self, Step};
use crate::run_loop::fold::{FoldError, apply_event, start_state};

/// Runs the loop of one run.
pub struct Engine<'a> {
    state: RunState,
    ports: Ports<'a>,
    prompt_warnings: prompt_inputs::PromptWarnings,
    /// Set on resume: an earlier process may have reset the history without recording it.
    may_repeat_history_reset: bool,
    /// How the task file is compared before the next iteration.
    compare_mode: CompareMode,
    /// Whether the commit hooks were test-run.
    are_hooks_tried: bool,
    /// Survey taken after the last gate; cleared by any step that may change the work
    /// tree.
    post_gate_survey: Option<Survey>,
    /// HEAD at survey time, set when a commit found that HEAD had moved.
    expected_head: Option<CheckedOut>,
}

/// Parameters of a new run.
#[derive(Debug)]
pub struct RunStart {
    pub run: RunId,
    pub project: PathBuf,
    pub recipe: Recipe,
    pub version: String,
}

/// ralph could not do its job.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal could not be written. Nothing may be done without it.
    #[error("the journal cannot be written")]
    Journal(#[from] StoreError),
    /// Protected paths were changed after the run ended, so by the user. The user decides
    /// before an agent call is paid for that could not pass.
    #[error("protected paths were changed since the run ended: {}", paths.join(", "))]
    Protected {
        paths: Vec<String>,
        /// The tree that still holds the original files.
        left: TreeId,
    },
    /// The user made commits or checked out something else after the run ended. ralph
    /// does not reset the user's history.
    #[error("when the run ended, {left} was checked out, and now it is {now}")]
    Moved { left: CheckedOut, now: CheckedOut },
    /// git could not report what is checked out.
    #[error("cannot read what is checked out: {0}")]
    Git(VcsError),
    /// An event did not fit the state: a bug in ralph.
    #[error("the journal contradicts itself")]
    Fold(#[from] FoldError),
}

/// Why a step could not be done. Ends the run, which can be resumed later.
enum StepError {
    /// ralph could not do its job.
    Engine(EngineError),
    /// Something outside of ralph failed; the run ends regularly.
    Outcome(Outcome),
}

impl From<EngineError> for StepError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<VcsError> for StepError {
    fn from(error: VcsError) -> Self {
        Self::Outcome(Outcome::GitFailed { message: error.message })
    }
}

impl From<TasksError> for StepError {
    fn from(error: TasksError) -> Self {
        Self::Outcome(Outcome::TasksLost { message: error.message })
    }
}

impl From<PromptError> for StepError {
    fn from(error: PromptError) -> Self {
        Self::Outcome(Outcome::PromptLost { message: error.message })
    }
}

impl<'a> Engine<'a> {
    /// Starts a run.
    pub fn start_run(ports: Ports<'a>, start: RunStart) -> Result<Self, EngineError> {
        let moment = ports.clock.read_moment();
        let first = Recorded {
            seq: 1,
            at: moment.now,
            ran: moment.ran,
            event: Event::RunStarted {
                journal: JOURNAL_VERSION,
                version: start.version,
                run: start.run,
                project: start.project,
                recipe: Box::new(start.recipe),
            },
        };
        ports.store.append_event(&first)?;
        let state = start_state(&first)?;
        ports.ui.show_event(&first, &state);
        let mut engine = Self::new(state, ports);
        engine.warn_unsupported_settings()?;
        Ok(engine)
    }

    /// Resumes a run whose journal folds to `state`.
    pub fn resume_run(
        ports: Ports<'a>,
        state: RunState,
        version: String,
        recipe: Option<Recipe>,
    ) -> Result<Self, EngineError> {
        let mut engine = Self::new(state, ports);
        engine.may_repeat_history_reset = true;
        engine.check_unchanged_since_end()?;
        let is_changed = recipe.is_some();
        // Must happen before `RunResumed` is recorded: until then only the user can have
        // edited the list.
        if engine.can_only_user_have_edited() {
            engine.merge_user_edits()?;
        }
        let meanwhile = engine.find_changes_while_stopped();
        let files = meanwhile.as_ref().map_or(&[][..], |it| &it.files);
        let paths = files.iter().map(|file| file.path.as_str()).take(UNCOMMITTED_FILES);
        let paths: Vec<&str> = paths.collect();
        let text = (!paths.is_empty()).then(|| {
            let paths = paths.join(", ");
            format!("files changed while the run was stopped, so all gates run again: {paths}")
        });
        engine.record_event(Event::RunResumed {
            version,
            recipe: recipe.map(Box::new),
            meanwhile,
        })?;
        if let Some(text) = text {
            engine.warn(text)?;
        }
        engine.poll_old_control_requests()?;
        if is_changed {
            engine.warn_unsupported_settings()?;
        }
        Ok(engine)
    }

    /// Opens a run whose process was killed, to end it with a clock that asks to stop. `left` is
    /// what was checked out when it died, if the user has checked out something else since.
    pub fn open_killed_run(ports: Ports<'a>, state: RunState, left: Option<CheckedOut>) -> Self {
        let mut engine = Self::new(state, ports);
        engine.expected_head = left;
        engine
    }

    fn new(state: RunState, ports: Ports<'a>) -> Self {
        let (prompt_warnings, compare_mode) =
            (prompt_inputs::PromptWarnings::default(), CompareMode::Content);
        Self {
            state,
            ports,
            prompt_warnings,
            may_repeat_history_reset: false,
            compare_mode,
            are_hooks_tried: false,
            post_gate_survey: None,
            expected_head: None,
        }
    }

    /// Warns about settings that an agent does not support.
    fn warn_unsupported_settings(&mut self) -> Result<(), EngineError> {
        for warning in capability::find_unsupported(&self.state.recipe) {
            self.warn(warning)?;
        }
        Ok(())
    }

    /// Records a warning for the user.
    pub fn warn(&mut self, text: String) -> Result<(), EngineError> {
        self.record_event(Event::Warned { text })
    }

    /// Returns the current state.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// Runs the loop until the run ends.
    pub fn run(&mut self) -> Result<Outcome, EngineError> {
        loop {
            self.poll_control_requests()?;
            let moment = self.ports.clock.read_moment();
            let step = choose::choose_next_step(&self.state, moment);
            match self.execute_step(step, moment) {
                Ok(()) => {}
                Err(StepError::Outcome(outcome)) => return self.finish_run(outcome),
                Err(StepError::Engine(error)) => return Err(error),
            }
        }
    }

    fn finish_run(&mut self, outcome: Outcome) -> Result<Outcome, EngineError> {
        self.restore_task_file()?;
        self.restore_plan_file()?;
        let left = self.take_end_snapshot();
        let restored = self.ports.vcs.restore_last_refs();
        if !restored.is_empty() {
            let text =
                format!("the agent changed these, and they were restored: {}", restored.join(", "));
            self.record_event(Event::Warned { text })?;
        }
        self.record_event(Event::RunEnded { outcome: outcome.clone(), left })?;
        self.publish_view(ViewKind::State)?;
        Ok(outcome)
    }

    /// Executes one step.
    fn execute_step(&mut self, step: Step, moment: Moment) -> Result<(), StepError> {
        if !step.leaves_tree_untouched() {
            self.post_gate_survey = None;
        }
        match step {
            Step::ReadTasks => self.read_tasks()?,
            Step::WriteTasks => self.write_tasks()?,
            Step::BeginBaseline => {
                let tree = self.ports.vcs.survey_tree()?.map(|survey| survey.tree);
                self.record_event(Event::BaselineStarted { tree })?;
            }
            Step::Baseline { gate, severity } => self.check_baseline(gate, severity)?,
            Step::Begin { iteration, role, task } => {
                if !self.merge_task_file_edits(self.compare_mode)? {
                    self.record_event(Event::IterationStarted { iteration, role, task })?;
                }
            }
            Step::Checkpoint(depth) => {
                self.test_commit_hooks()?;
                let checkpoint = self.ports.vcs.create_checkpoint(&self.git_mark(), depth)?;
                self.record_event(Event::Checkpointed { checkpoint })?;
            }
            Step::Recover { ask, purpose } => self.recover_call(ask, purpose, moment)?,
            Step::Ask { ask, purpose, size } => {
                let is_gate = matches!(purpose, Purpose::Gate(_));
                if !is_gate || self.recheck_tree()? == Recheck::Same {
                    self.call_agent(ask, purpose, size, moment)?;
                }
            }
            Step::Wait { until, reason } => self.wait_until(until, reason)?,
            Step::RecordPlanState => self.record_plan_state()?,
            Step::Observe => {
                self.restore_lost_plan()?;
                if self.state.recipe.is_list_owned_by_agent() {
                    self.read_agent_list()?;
                    self.observe_changes()?;
                } else if !self.merge_task_file_edits(CompareMode::Content)? {
                    self.observe_changes()?;
                }
            }
            Step::Check { gate, severity } => self.check_gate(gate, severity)?,
            Step::RecordVerdict { gate, severity } => self.finish_gate_review(gate, severity)?,
            Step::Reuse { gate, severity } => {
                let result = choose::build_cached_result(&self.state.recipe.gates[gate], severity);
                self.record_event(Event::GateChecked { result })?;
            }
            Step::Refuse { paths } => self.refuse_paths(&paths)?,
            Step::RefuseLeaks => self.refuse_leaks()?,
            Step::RefuseGitTampering => self.refuse_git_tampering()?,
            Step::Judge => {
                if self.recheck_work()? == Recheck::Same {
                    self.judge_iteration()?;
                }
            }
            Step::WriteList => self.write_landing_list()?,
            Step::Survey => self.record_survey()?,
            Step::DiscardMessageSideEffects => self.discard_message_side_effects()?,
            Step::Commit { message, command } => self.commit_work(message, command)?,
            Step::FindCommit => self.find_unrecorded_commit()?,
            Step::Scm { command, args } => self.run_scm(&command, &args)?,
            Step::Rollback => {
                let checkpoint = self
                    .map_current(|current| current.checkpoint.clone())
                    .flatten()
                    .unwrap_or(Checkpoint::None);
                let kept = self.ports.vcs.roll_back(&self.git_mark(), &checkpoint)?;
                self.record_event(Event::Landed { landed: Landed::RolledBack { kept } })?;
            }
            Step::SaveToFailureBranch => self.save_failed_work(moment)?,
            Step::Skip { skip, left } => self.skip_task(skip, left)?,
            Step::WaitWhilePaused => self.wait_while_paused()?,
            Step::EndIteration(iteration) => {
                self.publish_memory(iteration)?;
                let has_handoff = self.map_current(|current| {
                    current.judgement.as_ref().is_some_and(|it| it.handoff.is_some())
                });
                self.record_event(Event::IterationEnded { iteration })?;
                if has_handoff == Some(true) {
                    self.publish_handoff_outcome(iteration)?;
                }
                self.publish_view(ViewKind::State)?;
                self.publish_attempts(moment)?;
            }
            Step::Finish(outcome) => return Err(StepError::Outcome(outcome)),
        }
        Ok(())
    }

    /// Records an event: appends it to the journal, applies it to the state and shows it,
    /// in that order. Masks its secrets first, so that nothing derived from the state can
    /// hold them.
    fn record_event(&mut self, event: Event) -> Result<(), EngineError> {
        let moment = self.ports.clock.read_moment();
        let event = self.ports.store.mask_secrets(event);
        let recorded = Recorded { seq: self.state.seq + 1, at: moment.now, ran: moment.ran, event };
        self.ports.store.append_event(&recorded)?;
        apply_event(&mut self.state, &recorded)?;
        self.ports.ui.show_event(&recorded, &self.state);
        Ok(())
    }

    fn wait_until(&mut self, until: Timestamp, reason: WaitReason) -> Result<(), StepError> {
        self.record_event(Event::Waiting { until, reason })?;
        let ui = &mut *self.ports.ui;
        self.ports.clock.wait_until(until, &mut |left| {
            ui.show_activity(&Activity::Waiting { until, reason, left });
        });
        Ok(())
    }

    fn commit_work(&mut self, message: String, command: String) -> Result<(), StepError> {
        let tree = self.surveyed_tree();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let landed = if message.is_empty() {
            Landed::NothingToCommit
        } else {
            let order = CommitOrder {
                mark: self.git_mark(),
                message,
                tree,
                expected_head: self.surveyed_head(),
                command,
            };
            match self.ports.vcs.commit_tree(&order)? {
                CommitResult::Made(commit) => Landed::Committed { commit, subject },
                CommitResult::Nothing => Landed::NothingToCommit,
                CommitResult::MessageRefused { output } => {
                    return Err(recheck::build_message_error(&subject, &output));
                }
                CommitResult::Refused { output } => Landed::CommitRefused { output },
                CommitResult::Interrupted => return Err(StepError::Outcome(Outcome::Interrupted)),
                CommitResult::Moved { then, now } => return Err(self.report_moved_head(then, &now)),
            }
        };
        self.record_event(Event::Landed { landed })?;
        Ok(())
    }

    /// Records the commit that a killed process made. If there is none, the run ends.
    fn find_unrecorded_commit(&mut self) -> Result<(), StepError> {
        match self.ports.vcs.find_commit(&self.git_mark())? {
            Some((commit, subject)) => {
                let landed = Landed::Committed { commit, subject };
                Ok(self.record_event(Event::Landed { landed })?)
            }
            None => Err(StepError::Outcome(Outcome::Interrupted)),
        }
    }

    /// Ends the run because HEAD moved between the survey and the commit. A resumed run
    /// finds HEAD moved as well and leaves the decision to the user.
    fn report_moved_head(&mut self, then: CheckedOut, now: &CheckedOut) -> StepError {
        let message = format!(
            "HEAD moved before the commit: {then} was checked out, and now it is {now}; \
             `ralph resume` shows the options; a new run with `--include-dirty` starts from \
             the current commit and keeps the work"
        );
        self.expected_head = Some(then);
        StepError::Outcome(Outcome::GitFailed { message })
    }

    fn surveyed_tree(&self) -> Option<TreeId> {
        self.state.current.as_ref()?.landed.iter().find_map(Landed::surveyed_tree).cloned()
    }

    /// Returns what was checked out when the tree to commit was surveyed.
    fn surveyed_head(&self) -> Option<CheckedOut> {
        let landed = &self.state.current.as_ref()?.landed;
        let has_run = landed.iter().any(|it| matches!(it, Landed::ScmRan { .. }));
        let on = landed.iter().find_map(Landed::surveyed_head).cloned();
        on.filter(|_| !has_run)
    }

    fn run_scm(&mut self, command: &str, args: &[String]) -> Result<(), StepError> {
        let shown = format!("{command} {}", args.join(" "));
        match self.ports.vcs.run_scm(command, args)? {
            ScmResult::Done => {
                self.record_event(Event::Landed { landed: Landed::ScmRan { command: shown } })?;
                Ok(())
            }
            ScmResult::Failed { output } => {
                Err(StepError::Outcome(Outcome::ScmFailed { command: shown, output }))
            }
        }
    }

    /// Publishes the memory that a compaction produced, if any.
    fn publish_memory(&mut self, iteration: IterationNumber) -> Result<(), EngineError> {
        let judgement = self.state.current.as_ref().and_then(|current| current.judgement.as_ref());
        let Some(compacted) = judgement.and_then(|it| it.compacted.as_deref()) else {
            return Ok(());
        };
        let view = View::Memory { run: &self.state.run, iteration, compacted };
        let published = self.ports.store.publish_view(&view);
        self.warn_on_error(published)
    }

    /// Writes a view for people. If that fails, warns and continues.
    fn publish_view(&mut self, kind: ViewKind) -> Result<(), EngineError> {
        let view = match (kind, &self.state.current, &self.state.baseline) {
            (ViewKind::Gates, Some(current), _) => {
                View::Gates { iteration: current.number, results: &current.gates }
            }
            (ViewKind::Gates, None, Some(baseline)) => {
                View::Gates { iteration: IterationNumber(0), results: &baseline.results }
            }
            (ViewKind::State | ViewKind::Gates, _, _) => View::State(&self.state),
        };
        let published = self.ports.store.publish_view(&view);
        self.warn_on_error(published)
    }

    /// Records a warning if a view could not be written.
    fn warn_on_error(&mut self, published: Result<(), StoreError>) -> Result<(), EngineError> {
        match published {
            Ok(()) => Ok(()),
            Err(error) => self.record_event(Event::Warned { text: error.message }),
        }
    }

    fn git_mark(&self) -> IterationMark {
        self.state.git_mark()
    }

    fn map_current<T>(&self, look: impl FnOnce(&ralph_model::run::Iteration) -> T) -> Option<T> {
        self.state.current.as_ref().map(look)
    }
}

#[derive(Debug, Clone, Copy)]
enum ViewKind {
    State,
    Gates,
}
