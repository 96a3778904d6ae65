//! A parallel run with one to four workers, in which the coordinator or a worker dies at each of its
//! port calls: it ends as a run without deaths, and no answer is paid for twice.

use ralph_core::ports::AgentRequest;
use ralph_model::ids::{Role, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{ParallelPolicy, Recipe, TaskWork, Work};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::TaskStatus;
use ralph_testkit::effort;
use ralph_testkit::world::{ScriptedAction, SharedWorld};
use serde_json::json;

use crate::parallel::{check_end, count_calls, id, requeues, two_workers, world};
use crate::tasks::{APPROVED, handoff, list, says, statuses, task, work};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// `a` and `b` set the same word; the later one resolves that.
fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
    if request.role == Role::Review {
        return says(APPROVED);
    }
    let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
    let mut words: Vec<&str> = tree.split(' ').filter(|it| *it != "<<<").collect();
    let set = format!("x={task}");
    if task == "a" || task == "b" {
        words.retain(|it| !it.starts_with("x="));
        words.push(if tree.contains("<<<") { "x=both" } else { &set });
    }
    if !words.contains(&task.as_str()) {
        words.push(&task);
    }
    ScriptedAction { tree: Some(words.join(" ")), ..says(handoff(&task, &json!({}))) }
}

fn make() -> SharedWorld {
    let tasks = vec![task("a", &[]), task("b", &[]), task("c", &["a"]), task("d", &[])];
    world(list(tasks), script)
}

/// Runs to the end and checks it. Each task and each requeued round has one call and one review.
fn check(world: &SharedWorld, recipe: &Recipe, context: &str) {
    let outcome = world.run_to_end(recipe).expect("it runs");
    assert_eq!(outcome, Outcome::Complete, "{context}");
    check_end(world, context);
    let expect = NAMES.map(|name| (name.to_owned(), TaskStatus::Done));
    assert_eq!(statuses(world), expect, "{context}");
    let calls = 2 * (NAMES.len() + requeues(world).len());
    assert_eq!(count_calls(world), calls, "{context}: calls are paid for once");
    let inner = world.0.borrow();
    let words: Vec<&str> = inner.tree.split(' ').collect();
    assert!(NAMES.iter().all(|name| words.contains(name)), "{context}: {}", inner.tree);
    assert!(!words.contains(&"<<<"), "{context}: {}", inner.tree);
}

fn build_recipe(jobs: u32) -> Recipe {
    let base = two_workers();
    let work = TaskWork { review: ReviewPolicy::Fresh { cap: 3 }, ..work() };
    let parallel = Some(ParallelPolicy::new(jobs));
    Recipe { parallel, work: Work::Tasks(work), ..base }
}

/// Returns how many port calls the first worker of a task makes.
fn count_worker_calls(world: &SharedWorld, task: &TaskId) -> u64 {
    let world = world.0.borrow();
    let mut workers = world.workers.values();
    let worker = workers.find(|it| it.job.assignment.task == *task).expect("it ran");
    worker.world.0.borrow().calls
}

#[test]
fn one_to_four_workers_end_alike_if_the_coordinator_dies_at_any_call() {
    for jobs in 1..=4 {
        let recipe = build_recipe(jobs);
        let calm = make();
        check(&calm, &recipe, "calm");
        let calls = calm.0.borrow().calls;
        for death in (jobs.into()..=calls).step_by(effort::choose_count(5, 37)) {
            let world = make();
            world.0.borrow_mut().die_at = Some(death);
            check(&world, &recipe, &format!("{jobs} workers, death at call {death}"));
        }
    }
}

#[test]
fn runs_end_alike_if_the_power_fails_at_any_call_of_the_coordinator_or_a_worker() {
    let recipe = build_recipe(3);
    let calm = make();
    check(&calm, &recipe, "calm");
    let (calls, of_worker) = (calm.0.borrow().calls, count_worker_calls(&calm, &id("a")));
    let mut lost = 0;
    for death in (1..=calls).step_by(effort::choose_count(7, 23)) {
        let world = make();
        {
            let mut inner = world.0.borrow_mut();
            (inner.power_fails, inner.die_at) = (true, Some(death));
            inner.worker_deaths.insert(id("a"), death % of_worker + 1);
        }
        check(&world, &recipe, &format!("the power fails at call {death}"));
        lost += world.0.borrow().lost_events;
    }
    assert!(lost > 0, "no event was lost");
}

#[test]
fn one_to_four_workers_end_alike_if_one_of_them_dies_at_any_call() {
    for jobs in 1..=4 {
        let recipe = build_recipe(jobs);
        let calm = make();
        check(&calm, &recipe, "calm");
        for name in NAMES {
            let calls = count_worker_calls(&calm, &id(name));
            assert!(calls > 20, "{name}: {calls}");
            for death in (jobs.into()..=calls).step_by(effort::choose_count(11, 83)) {
                let world = make();
                let (step, total) = (death * 3, calm.0.borrow().calls);
                {
                    let mut inner = world.0.borrow_mut();
                    inner.worker_deaths.insert(id(name), death);
                    // In some of them the coordinator dies too.
                    inner.die_at = (step % 5 == 0).then_some(step % total + 1);
                }
                check(&world, &recipe, &format!("{jobs} workers, {name} dies at call {death}"));
            }
        }
    }
}
