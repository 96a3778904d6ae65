//! Whether a job continues.

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::budget::ExhaustedBudget;
use ralph_model::event::{Event, Recorded};
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::recipe::{ClonePolicy, PromptSource, Recipe, Work};
use ralph_model::units::{Millis, Timestamp, UsdMicros};
use ralph_model::worker::{JobAssignment, WorkerShare};

use super::*;
use crate::run_loop::fold::start_state;

fn recipe(iterations: u32) -> Recipe {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let mut recipe = Recipe::new(Work::Prompt(PromptSource::Text(String::new())), agent);
    recipe.limits.iterations = iterations;
    recipe.limits.budget.cost = Some(UsdMicros(u64::from(iterations)));
    recipe
}

fn job(iterations: u32) -> Job {
    let recipe = Box::new(recipe(iterations));
    let share = WorkerShare { budget: recipe.limits.budget, iterations };
    let assignment = JobAssignment {
        worker: WorkerId("w".into()),
        task: TaskId("t".into()),
        round: 1,
        base: None,
        conflicts: Vec::new(),
        compacts: None,
        start_tree: None,
        share,
    };
    Job {
        assignment,
        run: RunId("r".into()),
        project: "/p".into(),
        task_file: "/p/t".into(),
        recipe,
        keep: Vec::new(),
        clones: ClonePolicy::default(),
        earlier: None,
        jobs: None,
    }
}

#[test]
fn only_a_run_that_can_do_more_is_continued() {
    let event = Event::RunStarted {
        journal: 2,
        version: String::new(),
        run: RunId("w".into()),
        project: "/p".into(),
        recipe: Box::new(recipe(3)),
    };
    let first = Recorded { seq: 1, at: Timestamp(0), ran: Millis(0), event };
    let mut state = start_state(&first).expect("it begins");
    state.iterations = 3;
    state.totals.usage.cost = Some(UsdMicros(3));
    assert!(must_continue(&state, &job(3)));
    assert_eq!(build_job_result(&state, &TaskId("t".into()), "s1", Path::new("/c")), None);
    let (used, limit) = (UsdMicros(3), UsdMicros(3));
    let spent = Outcome::BudgetUsedUp { exhausted: ExhaustedBudget::Cost { used, limit } };
    let left = Outcome::TasksLeft { failed: Vec::new(), waiting: Vec::new() };
    for (outcome, iterations, expect) in [
        (Outcome::Interrupted, 3, true),
        (Outcome::GitFailed { message: String::new() }, 3, true),
        (Outcome::IterationsUsedUp { limit: 3 }, 3, false),
        (Outcome::IterationsUsedUp { limit: 3 }, 4, true),
        (spent.clone(), 3, false),
        (spent, 4, true),
        (Outcome::Complete, 9, false),
        (left, 9, false),
    ] {
        state.outcome = Some(outcome.clone());
        assert_eq!(must_continue(&state, &job(iterations)), expect, "{outcome} {iterations}");
        let result = build_job_result(&state, &TaskId("t".into()), "s1", Path::new("/c"));
        assert_eq!(result.map(|it| it.outcome), Some(outcome));
    }
}
