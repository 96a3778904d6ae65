//! The loop.
//!
//! One short function over six ports: look at the moment, choose the next step, do it, and
//! record what came of it. Everything that decides is pure and lives elsewhere in this crate;
//! everything that acts is behind a port. The steps that take more than a few lines are in
//! `asking`, `checking`, `compacting` and `tasks`; what people ask of the run is heard in
//! `control`, what prompts are set in is read in `framing`, the plan of an agent is looked after in
//! `planned`, and what was checked is compared with what is there in `rechecking`.

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

/// The engine of one run.
pub struct Engine<'a> {
    state: RunState,
    ports: Ports<'a>,
    heed: framing::Heed,
    /// Whether an earlier process may have put the history back without having said so.
    is_unsure: bool,
    /// How closely the task file is looked at before the next iteration.
    look: Look,
    /// Whether the commit hooks were tried.
    are_hooks_tried: bool,
    /// What was seen behind the last gate, as long as nothing has happened since.
    behind: Option<Survey>,
    /// What the work was looked at on, if somebody else moved the history since.
    stood: Option<CheckedOut>,
}

/// What a new run is told.
#[derive(Debug)]
pub struct Start {
    /// The run's id.
    pub run: RunId,
    /// The project directory.
    pub project: PathBuf,
    /// The policies.
    pub recipe: Recipe,
    /// The version of ralph.
    pub version: String,
}

/// ralph could not do its job.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal could not be written: without it nothing may be done.
    #[error("the journal cannot be written")]
    Journal(#[from] StoreError),
    /// Protected paths were changed after the end of the run: by a person then, who is to decide
    /// before anybody is paid for an attempt that could not pass.
    #[error("protected paths were changed since the run ended: {}", paths.join(", "))]
    Protected {
        /// Which.
        paths: Vec<String>,
        /// The tree in which they are as they were.
        left: TreeId,
    },
    /// Commits were made or others checked out after the end of the run: by a person then, whose
    /// history is no agent's to be put back.
    #[error("when the run ended, {left} was checked out, and now it is {now}")]
    Moved {
        /// What was checked out at the end.
        left: CheckedOut,
        /// What is now.
        now: CheckedOut,
    },
    /// git could not tell what is checked out, so nobody knows whose that is.
    #[error("git cannot tell what is checked out: {0}")]
    Git(VcsError),
    /// An event did not fit the state; a fault of ralph's own.
    #[error("the journal contradicts itself")]
    Fold(#[from] FoldError),
}

/// Why a step could not be done. The run ends with it, and can go on later.
enum Trouble {
    /// ralph could not do its job.
    Engine(EngineError),
    /// The world did not play along; the run ends in order.
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
    /// Begins a run.
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

    /// Goes on with a run whose journal folds to `state`.
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
        // Before it is written down that the run goes on: nobody but a person can have edited it so far.
        if engine.edits_are_a_persons() {
            engine.take_over_edits()?;
        }
        let meanwhile = engine.changed_meanwhile();
        let files = meanwhile.as_ref().map_or(&[][..], |it| &it.files);
        let paths = files.iter().map(|file| file.path.as_str()).take(UNCOMMITTED_FILES);
        let paths: Vec<&str> = paths.collect();
        let text = (!paths.is_empty()).then(|| {
            let paths = paths.join(", ");
            format!("changed since the work was looked at, so the gates begin anew: {paths}")
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
        let (heed, look) = (framing::Heed::default(), Look::Content);
        Self {
            state,
            ports,
            heed,
            is_unsure: false,
            look,
            are_hooks_tried: false,
            behind: None,
            stood: None,
        }
    }

    /// Says what the recipe asks of its agents in vain.
    fn warn_of_agents(&mut self) -> Result<(), EngineError> {
        for concern in capability::concerns(&self.state.recipe) {
            self.warn(concern)?;
        }
        Ok(())
    }

    /// Records something that a person should know.
    pub fn warn(&mut self, text: String) -> Result<(), EngineError> {
        self.record(Event::Warned { text })
    }

    /// Returns the state so far.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// Runs the loop to its end.
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

    /// Does one step.
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
            Step::Scm { command, words } => self.scm(&command, &words)?,
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

    /// Learns a fact: append it to the journal, apply it to the state, tell it, in that order.
    /// Its secrets are masked first, so that nothing that is made of the state can hold them.
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

    /// Notes that somebody moved the history behind the work that was about to be committed. Whoever
    /// goes on finds it moved: that is a person's to decide.
    fn moved_on(&mut self, then: CheckedOut, now: &CheckedOut) -> Trouble {
        let message = format!(
            "when the work was looked at, {then} was checked out, and now it is {now}; \
             `ralph resume` says how the run can go on, and a new one with `--include-dirty` starts \
             from there and takes the work along"
        );
        self.stood = Some(then);
        Trouble::Outcome(Outcome::GitFailed { message })
    }

    fn surveyed_tree(&self) -> Option<TreeId> {
        self.state.current.as_ref()?.landed.iter().find_map(Landed::surveyed).cloned()
    }

    /// Returns what was checked out when the tree was looked at that is committed now.
    fn surveyed_on(&self) -> Option<CheckedOut> {
        let landed = &self.state.current.as_ref()?.landed;
        let has_run = landed.iter().any(|it| matches!(it, Landed::ScmRan { .. }));
        let on = landed.iter().find_map(Landed::surveyed_on).cloned();
        on.filter(|_| !has_run)
    }

    fn scm(&mut self, command: &str, words: &[String]) -> Result<(), Trouble> {
        let shown = format!("{command} {}", words.join(" "));
        match self.ports.vcs.scm(command, words)? {
            ScmResult::Done => {
                self.record(Event::Landed { landed: Landed::ScmRan { command: shown } })?;
                Ok(())
            }
            ScmResult::Failed { output } => {
                Err(Trouble::Outcome(Outcome::ScmFailed { command: shown, output }))
            }
        }
    }

    /// Writes down the memory that the iteration leaves, if it does.
    fn publish_memory(&mut self, iteration: IterationNumber) -> Result<(), EngineError> {
        let judgement = self.state.current.as_ref().and_then(|current| current.judgement.as_ref());
        let Some(compacted) = judgement.and_then(|it| it.compacted.as_deref()) else {
            return Ok(());
        };
        let view = View::Memory { run: &self.state.run, iteration, compacted };
        let published = self.ports.store.publish(&view);
        self.told(published)
    }

    /// Writes a view for people. If it is lost, the run goes on and says so.
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

    /// Says that a view was lost, if it was.
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

/// Which view to write.
#[derive(Debug, Clone, Copy)]
enum ViewKind {
    State,
    Gates,
}
