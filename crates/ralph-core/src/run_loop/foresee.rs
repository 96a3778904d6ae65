//! Foresees the next agent call of a run, or its end, without doing anything.
//!
//! It asks `choose` for the next step like the engine, and applies the event that the step will
//! record, as long as that event is known or can be assumed: waits are over, gates pass before any
//! work, and work that passed its gates lands. Not here: the request of the call, and showing it.

use ralph_model::event::{Event, Recorded};
use ralph_model::gate::{GateResult, GateStatus};
use ralph_model::ids::{AskNumber, IterationNumber, Role, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::run::RunState;
use ralph_model::worktree::Checkpoint;

use super::choose::{self, Step};
use super::fold::{FoldError, apply_event};
use super::judge;
use crate::asking::request::CallOrder;
use crate::ports::Moment;

/// More steps than a run takes before a call, with hundreds of gates and skipped tasks.
const MAX_STEPS: usize = 2_000;

/// What a run does next, as far as it can be known.
#[derive(Debug, Clone, PartialEq)]
pub struct Foreseen {
    /// The state in which it happens.
    pub state: RunState,
    pub moment: Moment,
    /// The steps before it, which are assumed to succeed.
    pub before: Vec<Step>,
    pub next: ForeseenAct,
}

/// What a run does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeseenAct {
    Call(CallOrder),
    Finish(Outcome),
    /// What follows depends on the result of this step.
    Open(Step),
}

/// Returns the next agent call of a run, or how it ends.
pub fn foresee_next(mut state: RunState, mut moment: Moment) -> Result<Foreseen, FoldError> {
    let mut before = Vec::new();
    loop {
        let step = choose::choose_next_step(&state, moment);
        if let Step::Wait { until, .. } = step {
            moment.now = until;
        }
        match foresee_event(&state, &step) {
            Ok(event) if before.len() < MAX_STEPS => {
                apply_foreseen(&mut state, moment, event)?;
                before.push(step);
            }
            Ok(_) => {
                return Ok(Foreseen { state, moment, before, next: ForeseenAct::Open(step) });
            }
            Err(next) => {
                before.extend(matches!(step, Step::Recover { .. }).then_some(step));
                return Ok(Foreseen { state, moment, before, next });
            }
        }
    }
}

/// Returns the call that begins an iteration with this task, whether the task can begin or not.
pub fn foresee_task(
    mut state: RunState,
    moment: Moment,
    task: TaskId,
) -> Result<Foreseen, FoldError> {
    let iteration = IterationNumber(state.iterations + 1);
    let event = Event::IterationStarted { iteration, role: Role::Implement, task: Some(task) };
    apply_foreseen(&mut state, moment, event)?;
    foresee_next(state, moment)
}

/// Applies an event that has not happened.
pub fn apply_foreseen(state: &mut RunState, moment: Moment, event: Event) -> Result<(), FoldError> {
    let recorded = Recorded { seq: state.seq + 1, at: moment.now, ran: moment.ran, event };
    apply_event(state, &recorded)
}

/// Returns the event that a step records, if it is known or can be assumed; otherwise what the run
/// does next.
fn foresee_event(state: &RunState, step: &Step) -> Result<Event, ForeseenAct> {
    let open = || ForeseenAct::Open(step.clone());
    Ok(match step {
        Step::Ask { ask, purpose, size } => {
            let (ask, purpose, size) = (*ask, purpose.clone(), *size);
            return Err(ForeseenAct::Call(CallOrder { ask, purpose, size }));
        }
        // Whether an answer will be found is not known; without one, this is asked.
        Step::Recover { ask, purpose } => {
            let call = state.current.as_ref().and_then(|it| it.call_state(purpose));
            let size = call.map(|call| call.size).unwrap_or_default();
            let (ask, purpose) = (AskNumber(ask.0 + 1), purpose.clone());
            return Err(ForeseenAct::Call(CallOrder { ask, purpose, size }));
        }
        Step::Finish(outcome) => return Err(ForeseenAct::Finish(outcome.clone())),
        Step::WriteTasks => Event::TasksWritten,
        Step::BeginBaseline => Event::BaselineStarted { tree: None },
        Step::Baseline { gate, severity } => {
            let gate = state.recipe.gates.get(*gate).ok_or_else(open)?;
            let result = choose::build_cached_result(gate, *severity);
            Event::BaselineChecked { result: GateResult { status: GateStatus::Passed, ..result } }
        }
        Step::Begin { iteration, role, task } => {
            let (iteration, role, task) = (*iteration, *role, task.clone());
            Event::IterationStarted { iteration, role, task }
        }
        Step::Checkpoint(_) => Event::Checkpointed { checkpoint: Checkpoint::None },
        Step::Wait { until, reason } => Event::Waiting { until: *until, reason: *reason },
        Step::Skip { skip, .. } => {
            let (task, by) = (skip.task.clone(), skip.by.clone());
            Event::TaskSkipped { task, by, branch: None, commit: None }
        }
        // Assumes that the work tree was not changed while the run was stopped.
        Step::Recheck => Event::Rechecked { survey: None },
        Step::Judge => {
            let current = state.current.as_ref().ok_or_else(open)?;
            let judgement = judge::judge_iteration(state, current).ok_or_else(open)?;
            Event::Judged { judgement: Box::new(judgement) }
        }
        Step::EndIteration(iteration) => Event::IterationEnded { iteration: *iteration },
        Step::WriteList
        | Step::Survey
        | Step::DiscardMessageSideEffects
        | Step::Commit { .. }
        | Step::Scm { .. }
        | Step::Rollback
        | Step::SaveToFailureBranch => {
            Event::IterationEnded { iteration: state.current.as_ref().ok_or_else(open)?.number }
        }
        Step::ReadTasks
        | Step::RecordPlanState
        | Step::Observe
        | Step::Check { .. }
        | Step::RecordVerdict { .. }
        | Step::Reuse { .. }
        | Step::Refuse { .. }
        | Step::FindCommit
        | Step::StartJob(_)
        | Step::PollWorkers { .. }
        | Step::CancelWorker { .. }
        | Step::MergeCandidate
        | Step::WaitWhilePaused => return Err(open()),
    })
}

#[cfg(test)]
mod tests {
    use ralph_model::units::{Millis, Timestamp};

    use super::*;
    use crate::ports::StopRequest;
    use crate::run_loop::choose::tests::recipe;
    use crate::run_loop::fold::start_state;

    #[test]
    fn waits_are_skipped_and_limits_end_the_run() {
        let mut recipe = recipe();
        (recipe.limits.iterations, recipe.limits.delay) = (2, Millis(500));
        let event = Event::RunStarted {
            journal: 1,
            version: String::new(),
            run: ralph_model::ids::RunId("r".into()),
            project: "/p".into(),
            recipe: Box::new(recipe),
        };
        let first = Recorded { seq: 1, at: Timestamp(1_000), ran: Millis(0), event };
        let mut state = start_state(&first).expect("it begins");
        let moment = Moment { now: Timestamp(1_000), ran: Millis(0), stop: StopRequest::Continue };
        for number in [1, 2] {
            let foreseen = foresee_next(state, moment).expect("it fits");
            assert!(matches!(foreseen.next, ForeseenAct::Call(_)), "{:?}", foreseen.next);
            assert_eq!(foreseen.state.iterations, number);
            let has_waited = foreseen.before.iter().any(|it| matches!(it, Step::Wait { .. }));
            assert_eq!(has_waited, number == 2);
            assert_eq!(foreseen.moment.now.0, if number == 2 { 1_500 } else { 1_000 });
            state = foreseen.state;
            let event = Event::IterationEnded { iteration: IterationNumber(number) };
            apply_foreseen(&mut state, moment, event).expect("it fits");
        }
        let foreseen = foresee_next(state, moment).expect("it fits");
        let limit = Outcome::IterationsUsedUp { limit: 2 };
        assert_eq!(foreseen.next, ForeseenAct::Finish(limit));
    }
}
