//! The observer: the invariants of every run, checked after every event against the truth of the
//! world.
//!
//! It has its own definition of what is right, and uses no code of the engine that it checks: no
//! judgement, no choice, no rules of review. It folds the journal as the engine does, to check
//! that both get the same state. Commits and losses are checked in `commits`, the task list in
//! `tasks`, users' edits of it in `user_edits`, termination in `bounds`, prompts in `prompts`, falling
//! numbers of tests in `test_numbers`.
#![expect(clippy::wildcard_enum_match_arm, reason = "most events are about something else")]

mod bounds;
mod commits;
mod prompts;
mod tasks;
mod test_numbers;
#[cfg(test)]
mod tests;
mod user_edits;

use std::fmt;
use std::rc::Rc;

use bounds::RunBounds;
use ralph_core::run_loop::fold::{apply_event, fold_events, start_state};
use ralph_model::event::{Event, Purpose, Recorded};
use ralph_model::gate::{Gate, GateKind, GateResult, GateStatus, Severity, ValidationStrategy};
use ralph_model::ids::{Role, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{Completion, Recipe, Work};
use ralph_model::refusal::RefusalKind;
use ralph_model::run::RunState;
use ralph_model::task::TaskList;
use ralph_model::worktree::{Checkpoint, Landed, Observation};

use super::agent_action::IntendedVerdict;
use super::dice::hash_numbers;
use super::world::{CallTruth, SimulatedWorld};

/// The invariants, by their numbers in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// 1: no commit by ralph in which a hard gate failed.
    Commits,
    /// 2: no task done without green gates and, with review on, the approval of another agent.
    Done,
    /// 2: a claim of completion counts only after the gates, and only in its exact form.
    Completion,
    /// 3: no illegal transition survives an iteration.
    Transitions,
    Ends,
    /// 5: nothing the user had is lost.
    NothingLost,
    /// 6: what ralph removes is on a ref first.
    KeptFirst,
    Deaths,
    /// 7: no reply that was received is requested again.
    PaidTwice,
    /// 9: the fold of the journal is the state.
    Fold,
    /// 10: prompts keep to their budget and contain the protected parts.
    Prompts,
    Panics,
}

/// One event in this many is serialized and read back.
const READ_BACK: u64 = 32;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvariantViolation {
    pub invariant: Invariant,
    pub message: String,
    pub seq: u64,
}

impl InvariantViolation {
    /// Returns a description that is the same in similar runs.
    pub fn category(&self) -> String {
        let letters = self.message.chars().filter(|letter| !letter.is_ascii_digit());
        format!("{:?} {}", self.invariant, letters.take(40).collect::<String>())
    }
}

impl fmt::Display for InvariantViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, after event {}: {}", self.invariant, self.seq, self.message)
    }
}

/// What is known about the open iteration.
#[derive(Debug, Clone)]
struct WatchedIteration {
    number: u32,
    role: Role,
    task: Option<TaskId>,
    checkpoint: Option<Checkpoint>,
    /// Calls without a reply in the journal.
    open: Vec<(u32, Purpose)>,
    /// The call that answered the work, if there is one.
    answer: Option<u32>,
    observed: Option<Observation>,
    gates: Vec<GateResult>,
    /// Whether ralph refused the work, whatever the gates say.
    is_refused: bool,
    /// Whether a hook refused the commit.
    refused: bool,
    committed: bool,
}

/// Checks the invariants.
#[derive(Debug, Clone, Default)]
pub struct Observer {
    pub violations: Vec<InvariantViolation>,
    state: Option<RunState>,
    recipe: Option<Rc<Recipe>>,
    /// The task list as it is now.
    list: Option<Rc<TaskList>>,
    watched: Option<WatchedIteration>,
    /// The last iteration that ended, for checks at the end of a run.
    last: Option<WatchedIteration>,
    iteration: u32,
    commits: usize,
    bounds: RunBounds,
    tasks: tasks::TaskHistory,
    prompts: prompts::PromptCosts,
    tests: test_numbers::CountedTests,
}

impl Observer {
    /// Returns whether a violation was found.
    pub fn has_found(&self) -> bool {
        !self.violations.is_empty()
    }

    /// Returns the number of the iteration that is open or was open last.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Returns the state according to the journal.
    pub fn state(&self) -> Option<&RunState> {
        self.state.as_ref()
    }

    /// Records a violation.
    pub fn report_violation(&mut self, invariant: Invariant, message: impl Into<String>) {
        let seq = self.state.as_ref().map_or(0, |state| state.seq);
        self.violations.push(InvariantViolation { invariant, message: message.into(), seq });
    }

    /// Checks the engine's state.
    pub fn check_state(&mut self, state: &RunState) {
        if self.state.as_ref() != Some(state) {
            self.report_violation(
                Invariant::Fold,
                "the state of the engine is not the fold of its journal",
            );
        }
    }

    /// Checks an event in the journal.
    pub fn check_event(&mut self, recorded: &Recorded, world: &mut SimulatedWorld) {
        if let Err(message) = self.fold_event(recorded) {
            return self.report_violation(Invariant::Fold, message);
        }
        if let Event::RunStarted { recipe, .. } = &recorded.event {
            self.recipe = Some(Rc::new((**recipe).clone()));
        }
        let Some(recipe) = self.recipe.clone() else { return };
        count_event(recorded, world);
        self.check_edits(recorded, world);
        self.check_repeated_call(recorded, world);
        self.check_bounds(recorded, &recipe, world);
        self.record_event(recorded);
        self.check_gate(recorded, &recipe, world);
        self.check_commits(&recipe, world);
        self.check_landing(recorded, world);
        self.check_failed_work(recorded, &recipe, world);
        self.check_list(recorded, &recipe, world);
        self.count_tests(recorded, world);
        if let Event::RunEnded { outcome, .. } = &recorded.event {
            self.check_end(outcome, &recipe, world);
        }
        if matches!(recorded.event, Event::IterationEnded { .. }) {
            self.last = self.watched.take();
        }
        // Writing and reading an event takes as long as all other checks.
        if hash_numbers(&[recorded.seq, world.all_steps]).is_multiple_of(READ_BACK) {
            self.check_read_back(recorded, serde_json::to_string(recorded));
        }
    }

    /// Checks that an event is read from disk as it was written.
    fn check_read_back(&mut self, recorded: &Recorded, line: serde_json::Result<String>) {
        match line.and_then(|line| serde_json::from_str::<Recorded>(&line)) {
            Ok(read) if read == *recorded => {}
            Ok(_) => self.report_violation(
                Invariant::Fold,
                "an event that is read differs from the written one",
            ),
            Err(error) => self.report_violation(Invariant::Fold, error.to_string()),
        }
    }

    fn fold_event(&mut self, recorded: &Recorded) -> Result<(), String> {
        if let Some(state) = &mut self.state {
            apply_event(state, recorded).map_err(|error| error.to_string())
        } else {
            let first = start_state(recorded).map_err(|error| error.to_string())?;
            self.state = Some(first);
            Ok(())
        }
    }

    /// Folds the journal again, as read from disk.
    pub fn check_journal(&mut self, world: &SimulatedWorld) {
        let line = |recorded: &Recorded| {
            let line = serde_json::to_string(recorded).map_err(|error| error.to_string())?;
            serde_json::from_str::<Recorded>(&line).map_err(|error| error.to_string())
        };
        let read: Result<Vec<Recorded>, String> = world.journal.iter().map(line).collect();
        let folded =
            read.and_then(|journal| fold_events(&journal).map_err(|error| error.to_string()));
        match folded {
            Ok(folded) if self.state.as_ref() == Some(&folded) => {}
            Ok(_) => {
                self.report_violation(
                    Invariant::Fold,
                    "the journal as read from disk folds to another state",
                );
            }
            Err(message) => self.report_violation(Invariant::Fold, message),
        }
    }

    /// Updates what is known about the open iteration.
    fn record_event(&mut self, recorded: &Recorded) {
        if let Event::IterationStarted { iteration, role, task } = &recorded.event {
            self.iteration = iteration.0;
            self.watched = Some(WatchedIteration {
                number: iteration.0,
                role: *role,
                task: task.clone(),
                checkpoint: None,
                open: Vec::new(),
                answer: None,
                observed: None,
                gates: Vec::new(),
                is_refused: false,
                refused: false,
                committed: false,
            });
        }
        let Some(watched) = &mut self.watched else { return };
        match &recorded.event {
            Event::Checkpointed { checkpoint } => watched.checkpoint = Some(checkpoint.clone()),
            Event::Asked { ask, purpose, .. } => watched.open.push((ask.0, purpose.clone())),
            Event::Replied { ask, reply } => {
                let purpose = watched.open.iter().find(|(open, _)| *open == ask.0);
                if purpose.is_some_and(|(_, purpose)| *purpose == Purpose::Work)
                    && reply.failure.is_none()
                {
                    watched.answer = Some(ask.0);
                }
                watched.open.retain(|(open, _)| *open != ask.0);
            }
            Event::Observed { observation, .. } => {
                watched.is_refused = false;
                watched.observed.clone_from(observation);
            }
            // The latest result of a gate counts.
            Event::Refused { .. } => watched.is_refused = true,
            Event::GateChecked { result, .. } => {
                watched.gates.retain(|it| it.gate != result.gate);
                watched.gates.push(result.clone());
            }
            Event::Landed { landed } => {
                watched.refused |= matches!(landed, Landed::CommitRefused { .. });
                watched.committed |= matches!(landed, Landed::Committed { .. });
            }
            _ => {}
        }
    }

    /// Checks that no reply that was received is requested again.
    fn check_repeated_call(&mut self, recorded: &Recorded, world: &SimulatedWorld) {
        let (Event::Asked { ask, purpose, budget, .. }, Some(watched)) =
            (&recorded.event, &self.watched)
        else {
            return;
        };
        self.prompts.budget.clone_from(budget);
        let number = watched.number;
        let has = |open: u32| world.received.contains_key(&(number, open));
        let paid = watched.open.iter().find(|(open, of)| of == purpose && has(*open));
        if let Some((open, _)) = paid {
            let message = format!(
                "call {open} of iteration {number} was answered, and call {} asks again",
                ask.0
            );
            self.report_violation(Invariant::PaidTwice, message);
        }
    }

    /// Checks that a gate reported as passed really passed.
    fn check_gate(&mut self, recorded: &Recorded, recipe: &Recipe, world: &SimulatedWorld) {
        let (Event::GateChecked { result, .. }, Some(watched)) = (&recorded.event, &self.watched)
        else {
            return;
        };
        let Some(gate) = recipe.find_gate(&result.gate) else { return };
        if result.status != GateStatus::Failed
            && let Err(message) = check_gate_passed(gate, watched, world)
        {
            self.report_violation(Invariant::Commits, message);
        }
    }

    fn check_end(&mut self, outcome: &Outcome, recipe: &Recipe, world: &SimulatedWorld) {
        self.check_losses(recipe, world);
        self.check_task_file(world);
        if *outcome != Outcome::Complete {
            return;
        }
        match &recipe.work {
            Work::Tasks(work) => self.check_finished_list(work.only.as_ref()),
            Work::Prompt(_) => self.check_finished_prompt(recipe, world),
        }
    }

    fn check_finished_prompt(&mut self, recipe: &Recipe, world: &SimulatedWorld) {
        let Some(last) = &self.last else {
            return self.report_violation(Invariant::Completion, "complete without an iteration");
        };
        let truth = last.answer.and_then(|ask| world.truths.get(&(last.number, ask)));
        let is_claimed = match recipe.completion {
            Completion::Signal => truth.is_some_and(|truth| truth.claims),
            Completion::Gates => truth.is_some(),
        };
        let green = check_gates_passed(recipe, last, world);
        if !is_claimed {
            self.report_violation(
                Invariant::Completion,
                "complete, but the agent never reported it",
            );
        } else if let Err(message) = green {
            self.report_violation(Invariant::Completion, format!("complete, but {message}"));
        }
    }
}

/// Counts events for the tally.
fn count_event(recorded: &Recorded, world: &mut SimulatedWorld) {
    let what = match &recorded.event {
        Event::RunResumed { .. } => "events resumed",
        Event::TasksRead { remarks, .. } if !remarks.is_empty() => "events list edited",
        Event::IterationStarted { .. } => "events iteration",
        Event::Asked { prompt_start, .. } if prompt_start.starts_with("Your last answer") => {
            "events follow-up"
        }
        Event::Waiting { .. } => "events wait",
        Event::PlanSeen { look } if look.needs_restore() => "events plan restored",
        Event::Observed { kept: Some(_), .. } => "events history restored",
        Event::AgentListRead { diff: claim } if !claim.refused.is_empty() => "events claim refused",
        Event::Refused { refusal, .. } if refusal.kind == RefusalKind::UnstableFiles => {
            "events unstable files"
        }
        Event::Refused { .. } => "events refusal",
        Event::GateChecked { result, .. } => match (result.status, result.severity) {
            (GateStatus::Passed, _) => "events gate passed",
            (GateStatus::Cached, _) => "events gate cached",
            (GateStatus::Failed, Severity::Hard) => "events hard gate failed",
            (GateStatus::Failed, Severity::Soft) => "events soft gate failed",
        },
        Event::Landed { landed } => match landed {
            Landed::Committed { .. } => "events commit",
            Landed::CommitRefused { .. } => "events commit refused",
            Landed::RolledBack { .. } => "events rollback",
            Landed::SavedToFailureBranch { .. } => "events failure branch",
            Landed::ScmRan { .. } => "events scm",
            Landed::MessageChecked { kept: Some(_) } => "events side effect reverted",
            Landed::Surveyed { .. }
            | Landed::MessageChecked { kept: None }
            | Landed::NothingToCommit
            | Landed::ListWritten => return,
        },
        Event::ControlRequested { refused: None, .. } => "events request",
        Event::ControlRequested { .. } => "events request refused",
        Event::Paused => "events pause",
        Event::TaskSkipped { .. } => "events skip",
        Event::BaselineChecked { .. } => "events baseline",
        _ => return,
    };
    world.tally.count_one(what);
}

/// Returns the severity of a gate in a recipe; `None` if it is not run.
fn find_severity(recipe: &Recipe, gate: &Gate) -> Option<Severity> {
    match (recipe.strategy, gate.kind) {
        (ValidationStrategy::Lenient, GateKind::Lint) => Some(Severity::Soft),
        (ValidationStrategy::TestsOnly, GateKind::Test)
        | (ValidationStrategy::Strict | ValidationStrategy::Lenient, _) => Some(gate.severity),
        (
            ValidationStrategy::TestsOnly,
            GateKind::Lint | GateKind::Spec | GateKind::Quality | GateKind::Custom,
        ) => None,
    }
}

/// Returns whether every hard gate passed on the result of an iteration, and what is wrong if
/// not.
fn check_gates_passed(
    recipe: &Recipe,
    watched: &WatchedIteration,
    world: &SimulatedWorld,
) -> Result<(), String> {
    if let Some(red) = watched
        .gates
        .iter()
        .find(|it| it.severity == Severity::Hard && it.status == GateStatus::Failed)
    {
        return Err(format!("`{}` failed in iteration {}", red.gate, watched.number));
    }
    for gate in &recipe.gates {
        let is_hard = find_severity(recipe, gate) == Some(Severity::Hard);
        let is_for_role = gate.roles.is_empty() || gate.roles.contains(&watched.role);
        let is_for_paths = gate.paths.is_empty()
            || watched.observed.as_ref().is_none_or(|seen| {
                seen.files.iter().any(|file| gate.paths.iter().any(|it| it.matches(&file.path)))
            });
        if !(is_hard && is_for_role && is_for_paths) {
            continue;
        }
        let has_run = watched.gates.iter().any(|result| result.gate == gate.name);
        if !has_run {
            return Err(format!("`{}` was not run in iteration {}", gate.name, watched.number));
        }
        check_gate_passed(gate, watched, world)?;
    }
    Ok(())
}

/// Returns whether a gate really passed on the result of an iteration.
fn check_gate_passed(
    gate: &Gate,
    watched: &WatchedIteration,
    world: &SimulatedWorld,
) -> Result<(), String> {
    let (name, number) = (&gate.name, watched.number);
    let failed = || Err(format!("`{name}` is wrongly reported as passed in iteration {number}"));
    let tree =
        watched.observed.as_ref().and_then(|seen| super::repository::parse_tree_id(&seen.tree));
    match &gate.check {
        ralph_model::gate::GateCheck::Command(_) => {
            let of_gate = || world.checks.iter().rev().filter(|it| it.gate == *name);
            let now = of_gate().find(|it| it.iteration == number);
            let before =
                || of_gate().find(|it| tree.is_some() && Some(it.tree) == tree && it.passed);
            match now.or_else(before) {
                Some(check) if check.passed => Ok(()),
                Some(_) | None => failed(),
            }
        }
        ralph_model::gate::GateCheck::Agent(_) => {
            let is_cached =
                watched.gates.iter().any(|it| it.gate == *name && it.status == GateStatus::Cached);
            let from = if is_cached { 0 } else { number };
            let truths = world.truths.range((from, 0)..=(number, u32::MAX));
            let mut verdicts = truths
                .map(|(_, truth)| truth)
                .rev()
                .filter(|truth| truth.purpose == Purpose::Gate(name.clone()) && truth.answered);
            let is_approved = |truth: &CallTruth| truth.meant == IntendedVerdict::Approval;
            let is_passed = if is_cached {
                verdicts.any(is_approved)
            } else {
                verdicts.next().is_some_and(is_approved)
            };
            if is_passed { Ok(()) } else { failed() }
        }
    }
}
