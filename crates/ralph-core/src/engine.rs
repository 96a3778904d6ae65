//! The loop.
//!
//! One short function over six ports: read the clock, choose the next step, do it, and
//! record the result. All decisions are pure functions elsewhere in this crate; all side
//! effects are behind a port. Longer steps live in the submodules: agent calls, gate
//! checks, compaction, the task file, control requests, prompt inputs, the plan file, and
//! the comparison of the work tree with what the gates checked.

mod asking;
mod checking;
mod compacting;
mod control;
mod framing;
mod planned;
mod rechecking;
mod tasks;

use std::path::PathBuf;

use crate::capability;
use crate::choose::{self, Step};
use crate::event::{
    CheckedOut, Checkpoint, Event, JOURNAL_VERSION, Landed, Purpose, Recorded, TreeId,
    UNCOMMITTED_FILES, WaitReason,
};
use crate::ids::{IterationNumber, RunId};
use crate::outcome::Outcome;
use crate::ports::{
    Activity, CommitOrder, CommitResult, Look, Mark, Moment, Ports, PromptError, ScmResult,
    StoreError, Survey, TasksError, VcsError, View,
};
use crate::recipe::Recipe;
use crate::run::{FoldError, RunState};
use crate::units::Timestamp;

use rechecking::Recheck;

/// Runs the loop of one run.
pub struct Engine<'a> {
    state: RunState,
    ports: Ports<'a>,
    heed: framing::Heed,
    /// Set on resume: an earlier process may have reset the history without recording it.
    is_unsure: bool,
    /// How the task file is compared before the next iteration.
    look: Look,
    /// Whether the commit hooks were test-run.
    are_hooks_tried: bool,
    /// Survey taken after the last gate; cleared by any step that may change the work
    /// tree.
    behind: Option<Survey>,
    /// HEAD at survey time, set when a commit found that HEAD had moved.
    stood: Option<CheckedOut>,
}

/// Parameters of a new run.
#[derive(Debug)]
pub struct Start {
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
enum Trouble {
    /// ralph could not do its job.
    Engine(EngineError),
    /// Something outside of ralph failed; the run ends regularly.
    Outcome(Outcome),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<VcsError> for Trouble {
    fn from(error: VcsError) -> Self {
        Self::Outcome(Outcome::GitFailed { message: error.message })
    }
}

impl From<TasksError> for Trouble {
    fn from(error: TasksError) -> Self {
        Self::Outcome(Outcome::TasksLost { message: error.message })
    }
}

impl From<PromptError> for Trouble {
    fn from(error: PromptError) -> Self {
        Self::Outcome(Outcome::PromptLost { message: error.message })
    }
}

impl<'a> Engine<'a> {
    /// Starts a run.
    pub fn start(ports: Ports<'a>, start: Start) -> Result<Self, EngineError> {
        let moment = ports.clock.moment();
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
        ports.store.append(&first)?;
        let state = RunState::begin(&first)?;
        ports.ui.tell(&first, &state);
        let mut engine = Self::new(state, ports);
        engine.warn_of_agents()?;
        Ok(engine)
    }

    /// Resumes a run whose journal folds to `state`.
    pub fn resume(
        ports: Ports<'a>,
        state: RunState,
        version: String,
        recipe: Option<Recipe>,
    ) -> Result<Self, EngineError> {
        let mut engine = Self::new(state, ports);
        engine.is_unsure = true;
        engine.everything_is_as_left()?;
        let is_changed = recipe.is_some();
        // Must happen before `RunResumed` is recorded: until then only the user can have
        // edited the list.
        if engine.edits_are_a_persons() {
            engine.take_over_edits()?;
        }
        let meanwhile = engine.changed_meanwhile();
        let files = meanwhile.as_ref().map_or(&[][..], |it| &it.files);
        let paths = files.iter().map(|file| file.path.as_str()).take(UNCOMMITTED_FILES);
        let paths: Vec<&str> = paths.collect();
        let text = (!paths.is_empty()).then(|| {
            let paths = paths.join(", ");
            format!("files changed while the run was stopped, so all gates run again: {paths}")
        });
        engine.record(Event::RunResumed { version, recipe: recipe.map(Box::new), meanwhile })?;
        if let Some(text) = text {
            engine.warn(text)?;
        }
        engine.hear_old_wishes()?;
        if is_changed {
            engine.warn_of_agents()?;
        }
        Ok(engine)
    }

    fn new(state: RunState, ports: Ports<'a>) -> Self {
        let (prompt_warnings, compare_mode) = (framing::Heed::default(), Look::Content);
        Self {
            state,
            ports,
            heed: prompt_warnings,
            is_unsure: false,
            look: compare_mode,
            are_hooks_tried: false,
            behind: None,
            stood: None,
        }
    }

    /// Warns about settings that an agent does not support.
    fn warn_of_agents(&mut self) -> Result<(), EngineError> {
        for warning in capability::concerns(&self.state.recipe) {
            self.warn(warning)?;
        }
        Ok(())
    }

    /// Records a warning for the user.
    pub fn warn(&mut self, text: String) -> Result<(), EngineError> {
        self.record(Event::Warned { text })
    }

    /// Returns the current state.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// Runs the loop until the run ends.
    pub fn run(&mut self) -> Result<Outcome, EngineError> {
        loop {
            self.hear_wishes()?;
            let moment = self.ports.clock.moment();
            let step = choose::next(&self.state, moment);
            match self.take(step, moment) {
                Ok(()) => {}
                Err(Trouble::Outcome(outcome)) => return self.finish(outcome),
                Err(Trouble::Engine(error)) => return Err(error),
            }
        }
    }

    fn finish(&mut self, outcome: Outcome) -> Result<Outcome, EngineError> {
        self.leave_list_right()?;
        self.leave_plan_right()?;
        let left = self.left_behind();
        let restored = self.ports.vcs.restore_last_refs();
        if !restored.is_empty() {
            let text =
                format!("the agent changed these, and they were restored: {}", restored.join(", "));
            self.record(Event::Warned { text })?;
        }
        self.record(Event::RunEnded { outcome: outcome.clone(), left })?;
        self.publish(ViewKind::State)?;
        Ok(outcome)
    }

    /// Executes one step.
    fn take(&mut self, step: Step, moment: Moment) -> Result<(), Trouble> {
        if !step.is_thought() {
            self.behind = None;
        }
        match step {
            Step::ReadTasks => self.read_tasks()?,
            Step::WriteTasks => self.write_tasks()?,
            Step::BeginBaseline => {
                let tree = self.ports.vcs.survey()?.map(|survey| survey.tree);
                self.record(Event::BaselineStarted { tree })?;
            }
            Step::Baseline { gate, severity } => self.baseline(gate, severity)?,
            Step::Begin { iteration, role, task } => {
                if !self.tasks_were_edited(self.look)? {
                    self.record(Event::IterationStarted { iteration, role, task })?;
                }
            }
            Step::Checkpoint(depth) => {
                self.try_hooks()?;
                let checkpoint = self.ports.vcs.checkpoint(&self.mark(), depth)?;
                self.record(Event::Checkpointed { checkpoint })?;
            }
            Step::Recover { ask, purpose } => self.recover(ask, purpose, moment)?,
            Step::Ask { ask, purpose, size } => {
                let is_gate = matches!(purpose, Purpose::Gate(_));
                if !is_gate || self.recheck_tree()? == Recheck::Same {
                    self.ask(ask, purpose, size, moment)?;
                }
            }
            Step::Wait { until, reason } => self.wait(until, reason)?,
            Step::SeePlan => self.see_plan()?,
            Step::Observe => {
                self.put_plan_back()?;
                if self.state.recipe.is_kept_by_agent() {
                    self.hear_claim()?;
                    self.observe()?;
                } else if !self.tasks_were_edited(Look::Content)? {
                    self.observe()?;
                }
            }
            Step::Check { gate, severity } => self.check(gate, severity)?,
            Step::Hear { gate, severity } => self.hear_verdict(gate, severity)?,
            Step::Reuse { gate, severity } => {
                let result = choose::reused(&self.state.recipe.gates[gate], severity);
                self.record(Event::GateChecked { result })?;
            }
            Step::Refuse { paths } => self.refuse(&paths)?,
            Step::RefuseLeaks => self.refuse_leaks()?,
            Step::RefuseMeddling => self.refuse_meddling()?,
            Step::Judge => {
                if self.recheck()? == Recheck::Same {
                    self.judge()?;
                }
            }
            Step::WriteList => self.write_list()?,
            Step::Survey => self.survey()?,
            Step::HearMessage => self.hear_message()?,
            Step::Commit { message, command } => self.commit(message, command)?,
            Step::Scm { command, words: args } => self.scm(&command, &args)?,
            Step::Rollback => {
                let checkpoint = self
                    .current(|current| current.checkpoint.clone())
                    .flatten()
                    .unwrap_or(Checkpoint::None);
                let kept = self.ports.vcs.rollback(&self.mark(), &checkpoint)?;
                self.record(Event::Landed { landed: Landed::RolledBack { kept } })?;
            }
            Step::Shelve => self.shelve(moment)?,
            Step::Skip { skip, left } => self.skip(skip, left)?,
            Step::Rest => self.rest()?,
            Step::EndIteration(iteration) => {
                self.publish_memory(iteration)?;
                let has_handoff = self.current(|current| {
                    current.judgement.as_ref().is_some_and(|it| it.handoff.is_some())
                });
                self.record(Event::IterationEnded { iteration })?;
                if has_handoff == Some(true) {
                    self.publish_outcome(iteration)?;
                }
                self.publish(ViewKind::State)?;
                self.publish_attempts(moment)?;
            }
            Step::Finish(outcome) => return Err(Trouble::Outcome(outcome)),
        }
        Ok(())
    }

    /// Records an event: appends it to the journal, applies it to the state and shows it,
    /// in that order. Masks its secrets first, so that nothing derived from the state can
    /// hold them.
    fn record(&mut self, event: Event) -> Result<(), EngineError> {
        let moment = self.ports.clock.moment();
        let event = self.ports.store.masked(event);
        let recorded = Recorded { seq: self.state.seq + 1, at: moment.now, ran: moment.ran, event };
        self.ports.store.append(&recorded)?;
        self.state.apply(&recorded)?;
        self.ports.ui.tell(&recorded, &self.state);
        Ok(())
    }

    fn wait(&mut self, until: Timestamp, reason: WaitReason) -> Result<(), Trouble> {
        self.record(Event::Waiting { until, reason })?;
        let ui = &mut *self.ports.ui;
        self.ports.clock.wait(until, &mut |left| {
            ui.doing(&Activity::Waiting { until, reason, left });
        });
        Ok(())
    }

    fn commit(&mut self, message: String, command: String) -> Result<(), Trouble> {
        let tree = self.surveyed_tree();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let landed = if message.is_empty() {
            Landed::NothingToCommit
        } else {
            let order =
                CommitOrder { mark: self.mark(), message, tree, on: self.surveyed_on(), command };
            match self.ports.vcs.commit(&order)? {
                CommitResult::Made(commit) => Landed::Committed { commit, subject },
                CommitResult::Nothing => Landed::NothingToCommit,
                CommitResult::MessageRefused { output } => {
                    return Err(rechecking::message_refused(&subject, &output));
                }
                CommitResult::Refused { output } => Landed::CommitRefused { output },
                CommitResult::Interrupted => return Err(Trouble::Outcome(Outcome::Interrupted)),
                CommitResult::Moved { then, now } => return Err(self.moved_on(then, &now)),
            }
        };
        self.record(Event::Landed { landed })?;
        Ok(())
    }

    /// Ends the run because HEAD moved between the survey and the commit. A resumed run
    /// finds HEAD moved as well and leaves the decision to the user.
    fn moved_on(&mut self, then: CheckedOut, now: &CheckedOut) -> Trouble {
        let message = format!(
            "HEAD moved before the commit: {then} was checked out, and now it is {now}; \
             `ralph resume` shows the options; a new run with `--include-dirty` starts from \
             the current commit and keeps the work"
        );
        self.stood = Some(then);
        Trouble::Outcome(Outcome::GitFailed { message })
    }

    fn surveyed_tree(&self) -> Option<TreeId> {
        self.state.current.as_ref()?.landed.iter().find_map(Landed::surveyed).cloned()
    }

    /// Returns what was checked out when the tree to commit was surveyed.
    fn surveyed_on(&self) -> Option<CheckedOut> {
        let landed = &self.state.current.as_ref()?.landed;
        let has_run = landed.iter().any(|it| matches!(it, Landed::ScmRan { .. }));
        let on = landed.iter().find_map(Landed::surveyed_on).cloned();
        on.filter(|_| !has_run)
    }

    fn scm(&mut self, command: &str, args: &[String]) -> Result<(), Trouble> {
        let shown = format!("{command} {}", args.join(" "));
        match self.ports.vcs.scm(command, args)? {
            ScmResult::Done => {
                self.record(Event::Landed { landed: Landed::ScmRan { command: shown } })?;
                Ok(())
            }
            ScmResult::Failed { output } => {
                Err(Trouble::Outcome(Outcome::ScmFailed { command: shown, output }))
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
        let published = self.ports.store.publish(&view);
        self.told(published)
    }

    /// Writes a view for people. If that fails, warns and continues.
    fn publish(&mut self, kind: ViewKind) -> Result<(), EngineError> {
        let view = match (kind, &self.state.current, &self.state.baseline) {
            (ViewKind::Gates, Some(current), _) => {
                View::Gates { iteration: current.number, results: &current.gates }
            }
            (ViewKind::Gates, None, Some(baseline)) => {
                View::Gates { iteration: IterationNumber(0), results: &baseline.results }
            }
            (ViewKind::State | ViewKind::Gates, _, _) => View::State(&self.state),
        };
        let published = self.ports.store.publish(&view);
        self.told(published)
    }

    /// Records a warning if a view could not be written.
    fn told(&mut self, published: Result<(), StoreError>) -> Result<(), EngineError> {
        match published {
            Ok(()) => Ok(()),
            Err(error) => self.record(Event::Warned { text: error.message }),
        }
    }

    fn mark(&self) -> Mark {
        self.state.mark()
    }

    fn current<T>(&self, look: impl FnOnce(&crate::run::Iteration) -> T) -> Option<T> {
        self.state.current.as_ref().map(look)
    }
}

#[derive(Debug, Clone, Copy)]
enum ViewKind {
    State,
    Gates,
}
