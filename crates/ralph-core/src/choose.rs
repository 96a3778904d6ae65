//! The choice of the next step, as a pure function of the state and the moment.
//!
//! Every step leaves events behind, and those alone decide the step after it. So a run that
//! died anywhere goes on where its journal ends: there is no other memory of where it was.
//! Not here: doing the step.

use crate::event::{Changes, Landed, WaitReason};
use crate::failure::{Failure, FailureClass, Patience};
use crate::gate::{Gate, GateResult, GateStatus, Persistence, Reuse, Severity};
use crate::ids::{AskNumber, IterationNumber, Role};
use crate::judge::{Judgement, Landing};
use crate::outcome::Outcome;
use crate::ports::{Depth, Moment, StopWish};
use crate::recipe::{CommitPolicy, OnFailure, Recipe, ScmTask, Work};
use crate::run::{Asking, AskingEnd, Completeness, Iteration, PromptSize, RunState};
use crate::scm;
use crate::units::Timestamp;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Begin an iteration.
    Begin {
        /// Its number.
        iteration: IterationNumber,
        /// What it is for.
        role: Role,
    },
    /// Note the state that the iteration starts from.
    Checkpoint(Depth),
    /// Look for the reply to a call that was begun before a crash.
    Recover {
        /// The call.
        ask: AskNumber,
        /// What it was for.
        role: Role,
    },
    /// Ask an agent.
    Ask {
        /// The number of the call.
        ask: AskNumber,
        /// What it is for.
        role: Role,
        /// Which prompt it gets.
        size: PromptSize,
    },
    /// Wait.
    Wait {
        /// Until when.
        until: Timestamp,
        /// For what.
        reason: WaitReason,
    },
    /// Note the tree that the gates are about to be run on.
    BeginCheck(TreeNeed),
    /// Run a gate of the recipe, by its place there.
    Check {
        /// The place.
        gate: usize,
        /// How severe a failure is.
        severity: Severity,
    },
    /// Take a gate as passed, because it passed on the same tree.
    Reuse {
        /// The place of the gate.
        gate: usize,
        /// How severe a failure would have been.
        severity: Severity,
    },
    /// Decide what follows from the iteration.
    Judge,
    /// Note the tree that passed.
    Survey,
    /// Commit it.
    Commit {
        /// The message.
        message: String,
        /// The source-control program.
        command: String,
    },
    /// Run a source-control command.
    Scm {
        /// The program.
        command: String,
        /// Its arguments.
        words: Vec<String>,
    },
    /// Go back to the checkpoint.
    Rollback,
    /// Close the iteration.
    EndIteration(IterationNumber),
    /// End the run.
    Finish(Outcome),
}

/// Whether the gates need to know the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeNeed {
    /// A gate may be taken as passed on the same tree.
    Needed,
    /// There is no such gate.
    NotNeeded,
}

/// Chooses the next step.
pub fn next(state: &RunState, moment: Moment) -> Step {
    match (moment.stop, &state.current) {
        (StopWish::Stop, _) if state.completeness == Completeness::Open => {
            Step::Finish(Outcome::Interrupted)
        }
        (_, None) => between(state, moment),
        (_, Some(current)) => within(state, current, moment),
    }
}

/// Chooses between two iterations.
fn between(state: &RunState, moment: Moment) -> Step {
    let limits = &state.recipe.limits;
    match state.completeness {
        Completeness::Complete => return Step::Finish(Outcome::Complete),
        Completeness::Open => {}
    }
    if let Some(exhausted) = limits.budget.exhausted(state.totals.usage, moment.ran) {
        return Step::Finish(Outcome::BudgetUsedUp { exhausted });
    }
    if state.iterations >= limits.iterations {
        return Step::Finish(Outcome::IterationsUsedUp { limit: limits.iterations });
    }
    match state.last_ended.map(|ended| ended.plus(limits.delay)) {
        Some(until) if moment.now < until => Step::Wait { until, reason: WaitReason::Delay },
        Some(_) | None => Step::Begin {
            iteration: IterationNumber(state.iterations + 1),
            role: match state.recipe.work {
                Work::Prompt(_) => Role::Prompt,
            },
        },
    }
}

/// Chooses within an iteration: checkpoint, ask, check, judge, land, close.
fn within(state: &RunState, current: &Iteration, moment: Moment) -> Step {
    if current.checkpoint.is_none() {
        return Step::Checkpoint(depth(&state.recipe));
    }
    match &current.work.end {
        None => return ask(state, current, &current.work, current.role, moment),
        Some(AskingEnd::Hopeless(failure)) => return give_up(current, failure),
        Some(AskingEnd::Answered(_)) => {
            if let Some(step) = check(state, current) {
                return step;
            }
        }
        Some(AskingEnd::FailedAttempt(_)) => {}
    }
    match &current.judgement {
        None => Step::Judge,
        Some(judgement) => {
            land(state, current, judgement, moment).unwrap_or(Step::EndIteration(current.number))
        }
    }
}

/// A checkpoint notes the whole tree only where the recipe may have to go back to it.
fn depth(recipe: &Recipe) -> Depth {
    match recipe.landing.on_failure {
        OnFailure::Rollback => Depth::Tree,
        OnFailure::Keep => Depth::Head,
    }
}

/// Chooses the next step of a question to an agent.
fn ask(state: &RunState, current: &Iteration, asking: &Asking, role: Role, moment: Moment) -> Step {
    if let Some(ask) = asking.pending {
        return Step::Recover { ask, role };
    }
    let limits = &state.recipe.limits;
    let is_refused = asking
        .last_failure
        .as_ref()
        .is_some_and(|failure| matches!(failure.class, FailureClass::RateLimited { .. }));
    if is_refused && let Some(outcome) = limit_outcome(&state.recipe, asking) {
        return Step::Finish(outcome);
    }
    // A call that is part of an open iteration was not begun on an empty purse; only its
    // repetition is.
    if current.asks > 0
        && let Some(exhausted) = limits.budget.exhausted(state.totals.usage, moment.ran)
        && role != Role::Message
    {
        return Step::Finish(Outcome::BudgetUsedUp { exhausted });
    }
    match asking.not_before {
        Some(until) if moment.now < until => Step::Wait {
            until,
            reason: if is_refused { WaitReason::UsageLimit } else { WaitReason::Retry },
        },
        Some(_) | None => Step::Ask { ask: AskNumber(current.asks + 1), role, size: asking.size },
    }
}

/// Returns how the run ends at a usage limit, if it may not wait for it.
fn limit_outcome(recipe: &Recipe, asking: &Asking) -> Option<Outcome> {
    let failure = asking.last_failure.as_ref()?;
    let FailureClass::RateLimited { resets_at } = failure.class else { return None };
    let may_wait = match recipe.rate_limit.wait {
        Patience::Wait => asking.waited <= recipe.rate_limit.max_wait,
        Patience::Stop => false,
    };
    (!may_wait).then(|| Outcome::LimitTooLong { resets_at, words: failure.words.clone() })
}

fn give_up(current: &Iteration, failure: &Failure) -> Step {
    Step::Finish(Outcome::AgentFailed { failure: failure.clone(), asks: current.asks })
}

/// Chooses the next gate, or nothing when all have spoken.
fn check(state: &RunState, current: &Iteration) -> Option<Step> {
    let recipe = &state.recipe;
    if current.judgement.is_some() {
        return None;
    }
    let due = || {
        recipe.gates.iter().enumerate().filter_map(|(place, gate)| {
            let severity = recipe.strategy.severity(gate)?;
            is_for(gate, current.role).then_some((place, gate, severity))
        })
    };
    let Some(tree) = &current.check else {
        let need = if due().any(|(_, gate, _)| gate.reuse == Reuse::SameTree) {
            TreeNeed::Needed
        } else {
            TreeNeed::NotNeeded
        };
        return due().next().map(|_| Step::BeginCheck(need));
    };
    let has_failed = current.gates.iter().any(GateResult::is_hard_failure);
    let (gate, spec, severity) = due()
        .filter(|(_, gate, _)| !has_failed || gate.persistence == Persistence::Always)
        .find(|(_, gate, _)| current.gates.iter().all(|result| result.gate != gate.name))?;
    let is_green = tree.is_some() && state.green.get(&spec.name) == tree.as_ref();
    Some(match spec.reuse {
        Reuse::SameTree if is_green => Step::Reuse { gate, severity },
        Reuse::SameTree | Reuse::Never => Step::Check { gate, severity },
    })
}

fn is_for(gate: &Gate, role: Role) -> bool {
    gate.roles.is_empty() || gate.roles.contains(&role)
}

/// Returns the result of a gate that is taken as passed.
pub fn reused(gate: &Gate, severity: Severity) -> GateResult {
    GateResult {
        gate: gate.name.clone(),
        command: gate.check.label().to_owned(),
        severity,
        status: GateStatus::Cached,
        end: None,
        log: None,
        output: String::new(),
        hash: None,
        failing: Vec::new(),
        reason: None,
    }
}

/// Chooses the next step of the landing, or nothing when it is done.
fn land(
    state: &RunState,
    current: &Iteration,
    judgement: &Judgement,
    moment: Moment,
) -> Option<Step> {
    match judgement.landing {
        Landing::Keep => None,
        Landing::Rollback => current.landed.is_empty().then_some(Step::Rollback),
        Landing::Commit => commit(state, current, moment),
    }
}

fn commit(state: &RunState, current: &Iteration, moment: Moment) -> Option<Step> {
    let Some(changes) = surveyed(current) else { return Some(Step::Survey) };
    match &state.recipe.landing.commit {
        CommitPolicy::Agent | CommitPolicy::Nobody => None,
        CommitPolicy::Ralph => match (changes, current.landed.len()) {
            (Changes::Some, 1) => Some(Step::Commit {
                message: own_subject(state, current),
                command: "git".to_owned(),
            }),
            (Changes::Some | Changes::None, _) => None,
        },
        CommitPolicy::Scm(scm) => {
            let is_refused =
                current.landed.iter().any(|landed| matches!(landed, Landed::CommitRefused { .. }));
            let task = scm.tasks.get(current.landed.len() - 1).filter(|_| !is_refused)?;
            Some(match (task, changes) {
                (ScmTask::Run(words), _) => {
                    Step::Scm { command: scm.command.clone(), words: words.clone() }
                }
                (ScmTask::Commit, Changes::None) => {
                    Step::Commit { message: String::new(), command: scm.command.clone() }
                }
                (ScmTask::Commit, Changes::Some) => match &current.message.end {
                    None => ask(state, current, &current.message, Role::Message, moment),
                    Some(AskingEnd::Answered(reply)) => match scm::commit_message(&reply.text) {
                        Some(message) => Step::Commit { message, command: scm.command.clone() },
                        None => Step::Finish(Outcome::NoCommitMessage),
                    },
                    Some(AskingEnd::FailedAttempt(failure) | AskingEnd::Hopeless(failure)) => {
                        give_up(current, failure)
                    }
                },
            })
        }
    }
}

fn surveyed(current: &Iteration) -> Option<Changes> {
    current.landed.iter().find_map(|landed| match landed {
        Landed::Surveyed { changes, .. } => Some(*changes),
        Landed::Committed { .. }
        | Landed::NothingToCommit
        | Landed::CommitRefused { .. }
        | Landed::ScmRan { .. }
        | Landed::RolledBack { .. } => None,
    })
}

/// Returns the subject of a commit that ralph words itself.
fn own_subject(state: &RunState, current: &Iteration) -> String {
    let about = match &current.task {
        Some(task) => task.0.clone(),
        None => current.role.name().to_owned(),
    };
    format!("{}[{}]: {about}", state.recipe.landing.commit_prefix, current.number)
}

#[cfg(test)]
pub(crate) mod tests;
