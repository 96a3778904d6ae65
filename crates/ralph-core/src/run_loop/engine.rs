//! The loop.
//!
//! One short function over seven ports: read the clock, choose the next step, do it, and
//! record the result. All decisions are pure functions elsewhere in this crate; all side
//! effects are behind a port. Longer steps live in the submodules: agent calls, gate
//! checks, the task file, control requests, the progress log, the plan file, and
//! the comparison of the work tree with what the gates checked.

mod agent_calls;
mod base_instructions;
mod checking;
mod control_requests;
mod judging;
mod merging;
mod observing;
mod parallel;
mod plan_file;
mod progress_log;
mod recheck;
mod refusals;
mod resume_guard;
mod task_file;

use std::path::PathBuf;

use ralph_model::event::{Event, Recorded, WaitReason, choose_journal_version};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::outcome::Outcome;
use ralph_model::phase::Iteration;
use ralph_model::recipe::Recipe;
use ralph_model::run::{IterationMark, RunState};
use ralph_model::units::Timestamp;
use ralph_model::worktree::{CheckedOut, Checkpoint, Landed, TreeId};
use recheck::Recheck;
pub use resume_guard::check_unchanged_since_end;

use crate::asking::capability;
use crate::asking::request::CallOrder;
use crate::ports::PromptError;
use crate::ports::{
    Activity, Clock, CommitOrder, CommitResult, Moment, Ports, ScmResult, StopRequest, Store,
    StoreError, TasksError, Ui, VcsError, View,
};
use crate::run_loop::choose::{self, Step};
use crate::run_loop::fold::{FoldError, apply_event, start_state};

/// Runs the loop of one run.
pub struct Engine<'a> {
    state: RunState,
    ports: Ports<'a>,
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
    /// HEAD moved between the survey and the commit. A resumed run finds HEAD moved as well
    /// and leaves the decision to the user.
    Moved { then: CheckedOut, now: CheckedOut },
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

/// Records an event with the ports that this needs, while another port is in use.
fn record_with(
    state: &mut RunState,
    store: &mut dyn Store,
    clock: &mut dyn Clock,
    ui: &mut dyn Ui,
    event: Event,
) -> Result<(), EngineError> {
    let moment = clock.read_moment();
    let event = store.mask_secrets(event);
    let recorded = Recorded { seq: state.seq + 1, at: moment.now, ran: moment.ran, event };
    store.append_event(&recorded)?;
    apply_event(state, &recorded)?;
    ui.show_event(&recorded, state);
    Ok(())
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
                journal: choose_journal_version(&start.recipe),
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
        check_unchanged_since_end(&engine.state, &mut *engine.ports.vcs)?;
        let is_changed = recipe.is_some();
        // Must happen before `RunResumed` is recorded: until then only the user can have
        // edited the list.
        if engine.can_only_user_have_edited() {
            engine.merge_user_edits()?;
        }
        engine.record_event(Event::RunResumed { version, recipe: recipe.map(Box::new) })?;
        engine.poll_old_control_requests()?;
        if is_changed {
            engine.warn_unsupported_settings()?;
        }
        Ok(engine)
    }

    /// Opens a run whose process was killed, to end it with a clock that asks to stop.
    pub fn open_killed_run(ports: Ports<'a>, state: RunState) -> Self {
        Self::new(state, ports)
    }

    /// Ends a run that was killed. `left` is what was checked out when it died, if the user
    /// has checked out something else since.
    pub fn end_killed_run(&mut self, left: Option<CheckedOut>) -> Result<Outcome, EngineError> {
        self.run_to_end(left)
    }

    fn new(state: RunState, ports: Ports<'a>) -> Self {
        Self { state, ports }
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
        self.run_to_end(None)
    }

    /// Runs the loop. `left` is what was checked out before the user moved HEAD, if so.
    fn run_to_end(&mut self, left: Option<CheckedOut>) -> Result<Outcome, EngineError> {
        loop {
            self.poll_control_requests()?;
            let moment = self.ports.clock.read_moment();
            let step = choose::choose_next_step(&self.state, moment);
            match self.execute_step(step, moment) {
                Ok(()) => {}
                // The second signal ends git commands too, and a resumed run repeats them.
                Err(StepError::Outcome(Outcome::GitFailed { .. })) if self.must_stop_now() => {
                    return self.finish_run(Outcome::Interrupted, left);
                }
                Err(StepError::Outcome(outcome)) => return self.finish_run(outcome, left),
                Err(StepError::Moved { then, now }) => {
                    let message = format!(
                        "HEAD moved before the commit: {then} was checked out, and now it is {now}; \
                         `ralph resume` shows the options; a new run with `--include-dirty` starts \
                         from the current commit and keeps the work"
                    );
                    return self.finish_run(Outcome::GitFailed { message }, Some(then));
                }
                Err(StepError::Engine(error)) => return Err(error),
            }
        }
    }

    fn must_stop_now(&mut self) -> bool {
        self.ports.clock.read_moment().stop == StopRequest::StopNow
    }

    /// Ends the run. `expected_head` is what was checked out before another process moved HEAD, if so.
    fn finish_run(
        &mut self,
        outcome: Outcome,
        expected_head: Option<CheckedOut>,
    ) -> Result<Outcome, EngineError> {
        self.restore_task_file()?;
        self.restore_plan_file()?;
        let left = self.take_end_snapshot(expected_head);
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
        if step.needs_synced_events() {
            self.ports.store.sync_events().map_err(EngineError::from)?;
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
                if !self.merge_task_file_edits()? {
                    self.record_event(Event::IterationStarted { iteration, role, task })?;
                }
            }
            Step::Checkpoint(depth) => {
                self.test_commit_hooks()?;
                let checkpoint = self.ports.vcs.create_checkpoint(&self.git_mark(), depth)?;
                if self.state.has_branch_moved(&checkpoint) {
                    let text = "you committed or switched the branch between two iterations: the \
                                work continues from there";
                    self.record_event(Event::Warned { text: text.to_owned() })?;
                }
                self.record_event(Event::Checkpointed { checkpoint })?;
            }
            Step::Recover { ask, purpose } => self.recover_call(ask, purpose, moment)?,
            Step::Ask { ask, purpose, size } => {
                self.call_agent(&CallOrder { ask, purpose, size }, moment)?;
            }
            Step::Wait { until, reason } => self.wait_until(until, reason)?,
            Step::RecordPlanState => self.record_plan_state()?,
            Step::Observe => {
                self.keep_or_restore_plan()?;
                if self.state.recipe.is_list_owned_by_agent() {
                    self.read_agent_list()?;
                    self.observe_changes()?;
                } else if !self.merge_task_file_edits()? {
                    self.observe_changes()?;
                }
            }
            Step::Check { gate, severity } => self.check_gate(gate, severity)?,
            Step::RecordVerdict { gate, severity } => self.finish_gate_review(gate, severity)?,
            Step::Reuse { gate, severity } => {
                let result = choose::build_cached_result(&self.state.recipe.gates[gate], severity);
                self.record_event(Event::GateChecked { result, survey: None })?;
            }
            Step::Refuse(kind) => self.refuse_work(kind)?,
            Step::Recheck => self.recheck_tree()?,
            Step::Judge => {
                if self.run_commit_hook()? == Recheck::Same {
                    self.record_judgement()?;
                }
            }
            Step::WriteList => self.write_landing_list()?,
            Step::Survey => self.record_survey()?,
            Step::DiscardMessageSideEffects => self.discard_message_side_effects()?,
            Step::Commit { message, command } => self.commit_work(message, command)?,
            Step::FindCommit => self.find_unrecorded_commit()?,
            Step::Scm { command, args } => self.run_scm(&command, &args)?,
            Step::Rollback => self.roll_back()?,
            Step::SaveToFailureBranch => self.save_failed_work(moment)?,
            Step::Skip { skip, left } => self.skip_task(skip, left)?,
            Step::WaitWhilePaused => self.wait_while_paused()?,
            Step::StartJob(job) => self.start_job(*job)?,
            Step::PollWorkers { until } => self.poll_workers(until, moment)?,
            Step::CancelWorker { worker } => self.cancel_worker(worker)?,
            Step::MergeCandidate => self.merge_candidate()?,
            Step::EndIteration(iteration) => {
                self.keep_requeued_tree()?;
                self.publish_memory(iteration)?;
                let has_handoff = self.map_current(|current| {
                    current.judgement().is_some_and(|it| it.handoff.is_some())
                });
                self.record_event(Event::IterationEnded { iteration })?;
                if has_handoff == Some(true) {
                    self.publish_handoff_outcome(iteration)?;
                }
                self.publish_view(ViewKind::State)?;
                self.publish_attempts(moment)?;
            }
            // The user may have added a task meanwhile.
            Step::Finish(_) if self.state.current.is_none() && self.merge_task_file_edits()? => {}
            Step::Finish(outcome) => return Err(StepError::Outcome(outcome)),
        }
        Ok(())
    }

    /// Records an event: appends it to the journal, applies it to the state and shows it,
    /// in that order. Masks its secrets first, so that nothing derived from the state can
    /// hold them.
    fn record_event(&mut self, event: Event) -> Result<(), EngineError> {
        let Ports { store, clock, ui, .. } = &mut self.ports;
        record_with(&mut self.state, *store, *clock, *ui, event)
    }

    /// Goes back to the checkpoint. The list stays as it is now: the user's edits of it may be newer.
    fn roll_back(&mut self) -> Result<(), StepError> {
        let checkpoint = self.map_current(|current| current.checkpoint().cloned());
        let checkpoint = checkpoint.flatten().unwrap_or(Checkpoint::None);
        let was_current = self.is_task_file_current();
        let kept = self.ports.vcs.roll_back(&self.git_mark(), &checkpoint)?;
        if was_current && !self.is_task_file_current() {
            self.write_task_file()?;
        }
        self.record_event(Event::Landed { landed: Landed::RolledBack { kept } })
            .map_err(StepError::from)
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
            let made = self.ports.vcs.commit_tree(&order);
            match made.or_else(|error| self.find_failed_commit(error))? {
                CommitResult::Made(commit) => Landed::Committed { commit, subject },
                CommitResult::Nothing => Landed::NothingToCommit,
                CommitResult::MessageRefused { output } => {
                    return Err(recheck::build_message_error(&subject, &output));
                }
                CommitResult::Refused { output } => Landed::CommitRefused { output },
                CommitResult::Interrupted => return Err(StepError::Outcome(Outcome::Interrupted)),
                CommitResult::Moved { then, now } => return Err(StepError::Moved { then, now }),
            }
        };
        self.record_event(Event::Landed { landed })?;
        self.ports.vcs.forget_reported_tampering();
        Ok(())
    }

    /// Returns the commit that git made although it failed.
    fn find_failed_commit(&mut self, error: VcsError) -> Result<CommitResult, VcsError> {
        match self.ports.vcs.find_commit(&self.git_mark()) {
            Ok(Some((commit, _))) => Ok(CommitResult::Made(commit)),
            Ok(None) | Err(_) => Err(error),
        }
    }

    /// Records the commit that a killed process made. Without one, the run ends.
    fn find_unrecorded_commit(&mut self) -> Result<(), StepError> {
        match self.ports.vcs.find_commit(&self.git_mark())? {
            Some((commit, subject)) => {
                let landed = Landed::Committed { commit, subject };
                Ok(self.record_event(Event::Landed { landed })?)
            }
            None => Err(StepError::Outcome(Outcome::Interrupted)),
        }
    }

    fn surveyed_tree(&self) -> Option<TreeId> {
        self.state.current.as_ref()?.landing()?.plan.surveyed_tree().cloned()
    }

    /// Returns what was checked out when the tree to commit was surveyed.
    fn surveyed_head(&self) -> Option<CheckedOut> {
        let landed = self.state.current.as_ref()?.landed();
        let has_run = landed.iter().any(|it| matches!(it, Landed::ScmRan { .. }));
        let on = landed.iter().rev().find_map(Landed::surveyed_head).cloned();
        on.filter(|_| !has_run)
    }

    fn run_scm(&mut self, command: &str, args: &[String]) -> Result<(), StepError> {
        let shown = format!("{command} {}", args.join(" "));
        match self.ports.vcs.run_scm(command, args)? {
            ScmResult::Done => {
                self.record_event(Event::Landed { landed: Landed::ScmRan { command: shown } })?;
                Ok(())
            }
            // The work is saved here in any case.
            ScmResult::Failed { output } if self.has_failure_branch() => {
                self.warn(format!("`{shown}` failed: {output}"))?;
                let command = format!("{shown} (it failed)");
                self.record_event(Event::Landed { landed: Landed::ScmRan { command } })?;
                Ok(())
            }
            ScmResult::Failed { output } => {
                Err(StepError::Outcome(Outcome::ScmFailed { command: shown, output }))
            }
        }
    }

    fn has_failure_branch(&self) -> bool {
        self.state.current.as_ref().is_some_and(|current| current.failure_branch().is_some())
    }

    /// Publishes the memory that a compaction produced, if any.
    fn publish_memory(&mut self, iteration: IterationNumber) -> Result<(), EngineError> {
        let judgement = self.state.current.as_ref().and_then(Iteration::judgement);
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
                let (results, refusals) = (current.gates(), current.refusals());
                View::Gates { iteration: current.number, results, refusals }
            }
            (ViewKind::Gates, None, Some(baseline)) => {
                let results = &baseline.results;
                View::Gates { iteration: IterationNumber(0), results, refusals: &[] }
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

    fn map_current<T>(&self, look: impl FnOnce(&Iteration) -> T) -> Option<T> {
        self.state.current.as_ref().map(look)
    }
}

#[derive(Debug, Clone, Copy)]
enum ViewKind {
    State,
    Gates,
}
