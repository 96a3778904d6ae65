//! The loop.
//!
//! One short function over six ports: look at the moment, choose the next step, do it, and
//! record what came of it. Everything that decides is pure and lives elsewhere in this crate;
//! everything that acts is behind a port.

use std::path::PathBuf;

use crate::capability::{self, Support};
use crate::choose::{self, Step, TreeNeed};
use crate::event::{
    Changes, Checkpoint, Event, JOURNAL_VERSION, Landed, Recorded, TreeId, WaitReason,
};
use crate::gate::Severity;
use crate::ids::{AskNumber, IterationNumber, Role, RunId};
use crate::judge::{self, Evidence};
use crate::outcome::Outcome;
use crate::ports::{
    Activity, CommitOrder, CommitResult, GateOrder, Mark, Moment, Ports, PromptError, Request,
    ScmResult, StoreError, VcsError, View,
};
use crate::prompt::{self, Parts};
use crate::recipe::{PromptSource, Recipe, Work};
use crate::run::{AskingEnd, FoldError, PromptSize, RunState};
use crate::scm;
use crate::text;
use crate::units::{Millis, Timestamp};

/// The engine of one run.
pub struct Engine<'a> {
    state: RunState,
    ports: Ports<'a>,
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
        let mut engine = Self { state, ports };
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
        let mut engine = Self { state, ports };
        let is_changed = recipe.is_some();
        engine.record(Event::RunResumed { version, recipe: recipe.map(Box::new) })?;
        if is_changed {
            engine.warn_of_agents()?;
        }
        Ok(engine)
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
        self.record(Event::RunEnded { outcome: outcome.clone() })?;
        self.publish(ViewKind::State)?;
        Ok(outcome)
    }

    /// Does one step.
    fn take(&mut self, step: Step, moment: Moment) -> Result<(), Trouble> {
        match step {
            Step::Begin { iteration, role } => {
                self.record(Event::IterationStarted { iteration, role, task: None })?;
            }
            Step::Checkpoint(depth) => {
                let checkpoint = self.ports.vcs.checkpoint(&self.mark(), depth)?;
                self.record(Event::Checkpointed { checkpoint })?;
            }
            Step::Recover { ask, role } => self.recover(ask, role, moment)?,
            Step::Ask { ask, role, size } => self.ask(ask, role, size, moment)?,
            Step::Wait { until, reason } => self.wait(until, reason)?,
            Step::BeginCheck(need) => {
                let tree = match need {
                    TreeNeed::Needed => self.ports.vcs.survey()?.map(|survey| survey.tree),
                    TreeNeed::NotNeeded => None,
                };
                self.record(Event::CheckStarted { tree })?;
            }
            Step::Check { gate, severity } => self.check(gate, severity)?,
            Step::Reuse { gate, severity } => {
                let result = choose::reused(&self.state.recipe.gates[gate], severity);
                self.record(Event::GateChecked { result })?;
            }
            Step::Judge => self.judge()?,
            Step::Survey => {
                let survey = self.ports.vcs.survey()?;
                // Without git's word on it there may well be something to commit.
                let changes = survey.as_ref().map_or(Changes::Some, |survey| survey.changes);
                let tree = survey.map(|survey| survey.tree);
                self.record(Event::Landed { landed: Landed::Surveyed { tree, changes } })?;
            }
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
            Step::EndIteration(iteration) => {
                self.record(Event::IterationEnded { iteration })?;
                self.publish(ViewKind::State)?;
            }
            Step::Finish(outcome) => return Err(Trouble::Outcome(outcome)),
        }
        Ok(())
    }

    /// Learns a fact: append it to the journal, apply it to the state, tell it, in that order.
    fn record(&mut self, event: Event) -> Result<(), EngineError> {
        let moment = self.ports.clock.moment();
        let recorded = Recorded { seq: self.state.seq + 1, at: moment.now, ran: moment.ran, event };
        self.ports.store.append(&recorded)?;
        self.state.apply(&recorded)?;
        self.ports.ui.tell(&recorded, &self.state);
        Ok(())
    }

    /// Asks an agent, and records the call before and the reply after it.
    fn ask(
        &mut self,
        ask: AskNumber,
        role: Role,
        size: PromptSize,
        moment: Moment,
    ) -> Result<(), Trouble> {
        let prompt = self.prompt(role, size)?;
        let prompt = self.with_instructions(role, prompt)?;
        let request = self.request(ask, role, prompt, moment);
        self.record(Event::Asked {
            ask,
            role,
            agent: request.agent.kind,
            command: self.ports.agent.command_line(&request),
            prompt_chars: request.prompt.chars().count(),
            prompt_start: text::glance(&request.prompt, 200),
        })?;
        let ui = &mut *self.ports.ui;
        let reply = self.ports.agent.ask(&request, &mut |event| ui.hear(event));
        self.record(Event::Replied { ask, reply: Box::new(reply) })?;
        Ok(())
    }

    /// Looks for the reply to a call that was begun before a crash, and asks again only if it
    /// was not received completely.
    fn recover(&mut self, ask: AskNumber, role: Role, moment: Moment) -> Result<(), Trouble> {
        let request = self.request(ask, role, String::new(), moment);
        if let Some(reply) = self.ports.agent.recover(&request) {
            self.record(Event::Replied { ask, reply: Box::new(reply) })?;
            return Ok(());
        }
        let size = self.current(|current| current.asking(role).size).unwrap_or_default();
        self.ask(AskNumber(ask.0 + 1), role, size, moment)
    }

    fn prompt(&mut self, role: Role, size: PromptSize) -> Result<String, Trouble> {
        match role {
            Role::Message => return Ok(scm::MESSAGE_PROMPT.to_owned()),
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Review
            | Role::Fix
            | Role::Compact => {}
        }
        let Work::Prompt(source) = &self.state.recipe.work;
        let base = match source {
            PromptSource::Text(text) => text.clone(),
            PromptSource::File(path) => self.ports.store.read_prompt(path)?,
        };
        let parts = Parts {
            base: &base,
            feedback: &self.state.feedback,
            iteration: IterationNumber(self.state.iterations),
            limit: self.state.recipe.limits.iterations,
            size,
        };
        Ok(prompt::assemble(&self.state.recipe.prompt, parts))
    }

    /// Puts standing instructions in front of the prompt of an agent that has no other place for
    /// them.
    fn with_instructions(&mut self, role: Role, prompt: String) -> Result<String, Trouble> {
        let agent = self.state.recipe.agent_for(role);
        match (&agent.system_prompt, agent.capabilities.system_prompt) {
            (Some(file), Support::No) => {
                let instructions = self.ports.store.read_prompt(file)?;
                Ok(format!("{}\n\n{prompt}", instructions.trim_end()))
            }
            (Some(_), Support::Yes) | (None, _) => Ok(prompt),
        }
    }

    fn request(&self, ask: AskNumber, role: Role, prompt: String, moment: Moment) -> Request {
        let limits = &self.state.recipe.limits;
        // An agent may not run past the end of the run's time.
        let hard_limit = match limits.budget.time_left(moment.ran) {
            Some(left) => limits.ask_hard.min(left.max(Millis(1))),
            None => limits.ask_hard,
        };
        let agent = self.state.recipe.agent_for(role).clone();
        let cost_left = match agent.capabilities.cost_limit {
            Support::Yes => limits.budget.cost_left(self.state.totals.usage),
            Support::No => None,
        };
        Request {
            run: self.state.run.clone(),
            iteration: IterationNumber(self.state.iterations),
            ask,
            role,
            agent,
            prompt,
            soft_limit: limits.ask_soft,
            hard_limit,
            idle_limit: limits.ask_idle,
            cost_left,
            task: None,
            schema: None,
        }
    }

    fn wait(&mut self, until: Timestamp, reason: WaitReason) -> Result<(), Trouble> {
        self.record(Event::Waiting { until, reason })?;
        let ui = &mut *self.ports.ui;
        self.ports.clock.wait(until, &mut |left| {
            ui.doing(&Activity::Waiting { until, reason, left });
        });
        Ok(())
    }

    fn check(&mut self, gate: usize, severity: Severity) -> Result<(), Trouble> {
        let recipe = &self.state.recipe;
        let gate = &recipe.gates[gate];
        self.ports.ui.doing(&Activity::Gate(gate));
        let result = self.ports.gates.check(&GateOrder {
            run: &self.state.run,
            iteration: IterationNumber(self.state.iterations),
            gate,
            severity,
            output_chars: recipe.prompt.output_chars,
        });
        // A gate that the user ended has not spoken: it is run again when the run goes on.
        if let Some(end) = &result.end
            && matches!(end.ending, crate::child::Ending::Interrupted { .. })
        {
            return Err(Trouble::Outcome(Outcome::Interrupted));
        }
        self.record(Event::GateChecked { result })?;
        self.publish(ViewKind::Gates)?;
        Ok(())
    }

    fn judge(&mut self) -> Result<(), EngineError> {
        let recipe = &self.state.recipe;
        let judgement = self.current(|current| match &current.work.end {
            Some(AskingEnd::Answered(reply)) => {
                judge::judge(recipe, Evidence::Answered { reply, gates: &current.gates })
            }
            Some(AskingEnd::FailedAttempt(failure) | AskingEnd::Hopeless(failure)) => {
                judge::judge(recipe, Evidence::Failed(failure))
            }
            None => unreachable!("a question that is open is asked before it is judged"),
        });
        match judgement {
            Some(judgement) => self.record(Event::Judged { judgement }),
            None => Ok(()),
        }
    }

    fn commit(&mut self, message: String, command: String) -> Result<(), Trouble> {
        let tree = self.surveyed_tree();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let landed = if message.is_empty() {
            Landed::NothingToCommit
        } else {
            let order = CommitOrder { mark: self.mark(), message, tree, command };
            match self.ports.vcs.commit(&order)? {
                CommitResult::Made(commit) => Landed::Committed { commit, subject },
                CommitResult::Nothing => Landed::NothingToCommit,
                CommitResult::Refused { output } => Landed::CommitRefused { output },
            }
        };
        self.record(Event::Landed { landed })?;
        Ok(())
    }

    fn surveyed_tree(&self) -> Option<TreeId> {
        self.state.current.as_ref()?.landed.iter().find_map(|landed| match landed {
            Landed::Surveyed { tree, .. } => tree.clone(),
            Landed::Committed { .. }
            | Landed::NothingToCommit
            | Landed::CommitRefused { .. }
            | Landed::ScmRan { .. }
            | Landed::RolledBack { .. } => None,
        })
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

    /// Writes a view for people. If it is lost, the run goes on and says so.
    fn publish(&mut self, kind: ViewKind) -> Result<(), EngineError> {
        let view = match (kind, &self.state.current) {
            (ViewKind::Gates, Some(current)) => {
                View::Gates { iteration: current.number, results: &current.gates }
            }
            (ViewKind::State | ViewKind::Gates, _) => View::State(&self.state),
        };
        match self.ports.store.publish(&view) {
            Ok(()) => Ok(()),
            Err(error) => self.record(Event::Warned { text: error.message }),
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            run: self.state.run.clone(),
            iteration: IterationNumber(self.state.iterations),
            task: self.current(|current| current.task.clone()).flatten(),
        }
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
