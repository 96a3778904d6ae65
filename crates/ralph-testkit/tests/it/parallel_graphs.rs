//! Parallel runs over random graphs of tasks whose workers finish, fail, conflict, get lost or meet
//! limits, with 1 to 8 slots.
//!
//! What must hold after each event and at the end: no task is taken twice or started before its
//! dependencies have landed, no slot is idle while a task may start, each task that is done has one
//! commit, rounds are bounded, and agents are called once per task and once more per failed merge.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ralph_core::ports::{AgentRequest, Moment, StopRequest};
use ralph_core::run_loop::choose::{Step, choose_next_step};
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_model::event::Event;
use ralph_model::ids::TaskId;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{ParallelPolicy, Recipe, Work};
use ralph_model::run::RunState;
use ralph_model::task::{Task, TaskStatus};
use ralph_model::worker::WorkerLimitKind;
use ralph_testkit::effort;
use ralph_testkit::world::{ScriptedAction, SharedWorld};
use serde_json::json;

use crate::parallel::{check_end, count_calls, events, id, requeues, two_workers, world};
use crate::tasks::{handoff, list, says, task};

/// What becomes of a task in its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    /// Its attempts break a gate.
    Fails,
    /// It sets a word that others set too.
    Conflicts,
    /// Its worker is killed this often.
    Lost(u32),
    Limited,
}

/// A task of a random graph.
#[derive(Debug, Clone)]
struct Node {
    fate: Fate,
    polls: u32,
    /// Distances to the tasks that it depends on.
    depends_on: Vec<usize>,
    /// The directory that it declares, if any.
    touches: Option<u8>,
}

fn any_node() -> impl Strategy<Value = Node> {
    let fate = prop_oneof![
        6 => Just(Fate::Done),
        1 => Just(Fate::Fails),
        2 => Just(Fate::Conflicts),
        1 => (1u32..3).prop_map(Fate::Lost),
        1 => Just(Fate::Limited),
    ];
    let depends_on = prop::collection::vec(1usize..8, 0..3);
    let touches = prop::option::weighted(0.4, 0u8..4);
    (fate, 1u32..7, depends_on, touches).prop_map(|(fate, polls, depends_on, touches)| Node {
        fate,
        polls,
        depends_on,
        touches,
    })
}

/// The name of a task tells the script what to do.
fn name_task(at: usize, fate: Fate) -> String {
    let prefix = match fate {
        Fate::Fails => "bad",
        Fate::Conflicts => "same",
        Fate::Done | Fate::Lost(_) | Fate::Limited => "t",
    };
    format!("{prefix}{at}")
}

fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
    let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
    let says = says(handoff(&task, &json!({})));
    if task.starts_with("bad") {
        return ScriptedAction { tree: Some(format!("broken{}", request.iteration)), ..says };
    }
    let mut words: Vec<String> =
        tree.split(' ').filter(|it| *it != "<<<").map(str::to_owned).collect();
    if task.starts_with("same") {
        words.retain(|it| !it.starts_with("x="));
        words.push(format!("x={task}"));
    }
    if !words.contains(&task) {
        words.push(task);
    }
    ScriptedAction { tree: Some(words.join(" ")), ..says }
}

/// Returns the world and the recipe of a graph.
fn build_run(nodes: &[Node], jobs: u32) -> (SharedWorld, Recipe) {
    let names: Vec<String> =
        nodes.iter().enumerate().map(|(at, node)| name_task(at, node.fate)).collect();
    let mut tasks: Vec<Task> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let earlier = node.depends_on.iter().filter_map(|back| at.checked_sub(*back));
        let mut earlier: Vec<&str> = earlier.map(|it| names[it].as_str()).collect();
        earlier.sort_unstable();
        earlier.dedup();
        let touches = node.touches.map(|it| format!("dir{it}/**")).into_iter().collect();
        tasks.push(Task { touches, ..task(&names[at], &earlier) });
    }
    let world = world(list(tasks), script);
    {
        let mut inner = world.0.borrow_mut();
        for (name, node) in names.iter().zip(nodes) {
            inner.worker_polls.insert(id(name), node.polls);
            match node.fate {
                Fate::Lost(times) => drop(inner.losses.insert(id(name), times)),
                Fate::Limited => {
                    inner.limits.insert(id(name), WorkerLimitKind::Overload);
                }
                Fate::Done | Fate::Fails | Fate::Conflicts => {}
            }
        }
    }
    // A task that conflicts with all others is started again for each of them.
    let policy = ParallelPolicy { merge_attempts: 50, ..ParallelPolicy::new(jobs) };
    let mut recipe = Recipe { parallel: Some(policy), ..two_workers() };
    recipe.limits.iterations = 10_000;
    if let Work::Tasks(work) = &mut recipe.work {
        work.attempts = 1;
    }
    (world, recipe)
}

/// Checks the state after each event.
fn check_prefixes(world: &SharedWorld, jobs: usize) -> Result<(), TestCaseError> {
    let journal = world.0.borrow().journal.clone();
    let mut state = start_state(&journal[0]).expect("it begins");
    for recorded in &journal[1..] {
        let before = state.clone();
        apply_event(&mut state, recorded).expect("it fits");
        let parallel = state.parallel.as_ref().expect("it is parallel");
        prop_assert!(parallel.running.len() <= jobs);
        let running = parallel.running.values().map(|it| &it.assignment.task);
        let mut taken: Vec<&TaskId> =
            running.chain(parallel.queue.iter().map(|it| &it.task)).collect();
        taken.sort();
        let count = taken.len();
        taken.dedup();
        prop_assert_eq!(taken.len(), count, "a task is taken twice");
        if let (Event::JobAssigned { assignment }, Some(tasks)) = (&recorded.event, &state.tasks) {
            let task = tasks.list.find_task(&assignment.task).expect("it is listed");
            prop_assert!(tasks.list.find_unmet_dependencies(task).is_empty());
            let is_same = |it: &&TaskId| **it != task.id && declares_same(&state, it, task);
            prop_assert!(!taken.iter().any(is_same), "{} waits", task.id);
        }
        if matches!(recorded.event, Event::IterationStarted { .. }) {
            check_no_idle_slot(&before, recorded.at)?;
        }
    }
    Ok(())
}

fn declares_same(state: &RunState, other: &TaskId, task: &Task) -> bool {
    let tasks = state.tasks.as_ref().expect("a list");
    let other = tasks.list.find_task(other).expect("it is listed");
    !task.touches.is_empty() && other.touches == task.touches
}

/// Checks that no task could start where a merge began: slots are filled first.
fn check_no_idle_slot(
    before: &RunState,
    now: ralph_model::units::Timestamp,
) -> Result<(), TestCaseError> {
    let parallel = before.parallel.as_ref().expect("it is parallel");
    let jobs = before.recipe.parallel.as_ref().expect("a policy").jobs;
    let is_held = parallel.holds.values().any(|until| *until > now);
    let most = parallel.concurrency.min(jobs) as usize;
    if is_held || parallel.running.len() >= most {
        return Ok(());
    }
    let tasks = before.tasks.as_ref().expect("a list");
    let taken = |task: &TaskId| parallel.is_taken(task);
    let can_start = |task: &&Task| {
        let is_open = matches!(task.status, TaskStatus::Pending | TaskStatus::InProgress);
        let shares = tasks
            .list
            .tasks
            .iter()
            .any(|it| taken(&it.id) && !task.touches.is_empty() && it.touches == task.touches);
        is_open
            && !taken(&task.id)
            && tasks.list.find_unmet_dependencies(task).is_empty()
            && !shares
    };
    let idle = tasks.list.tasks.iter().find(can_start).map(|task| &task.id);
    prop_assert_eq!(idle, None, "a slot was idle");
    Ok(())
}

/// Checks the end of a run: what is done, what is not and why, and how often agents were called.
fn check_outcome(
    world: &SharedWorld,
    nodes: &[Node],
    outcome: &Outcome,
) -> Result<(), TestCaseError> {
    let list = world.0.borrow().tasks.clone().expect("a list");
    let mut failed = Vec::new();
    for (task, node) in list.tasks.iter().zip(nodes) {
        let is_blocked = task
            .depends_on
            .iter()
            .any(|it| !list.find_task(it).is_some_and(|it| it.status.is_done()));
        let expect = match (is_blocked, node.fate) {
            (true, _) => TaskStatus::Pending,
            (false, Fate::Fails) => TaskStatus::Failed,
            (false, Fate::Done | Fate::Conflicts | Fate::Lost(_) | Fate::Limited) => {
                TaskStatus::Done
            }
        };
        prop_assert_eq!(task.status, expect, "{}", &task.id);
        failed.extend((expect == TaskStatus::Failed).then(|| task.id.clone()));
    }
    match outcome {
        Outcome::Complete => prop_assert!(failed.is_empty()),
        Outcome::TasksLeft { failed: named, .. } => prop_assert_eq!(named, &failed),
        other => prop_assert!(false, "{other}"),
    }
    // Nothing that landed was undone by a later landing.
    let tree = world.0.borrow().tree.clone();
    for task in list.tasks.iter().filter(|it| it.status.is_done()) {
        prop_assert!(tree.split(' ').any(|it| it == task.id.0), "{} is gone: {tree}", task.id);
    }
    let tried = list.tasks.iter().filter(|it| it.status != TaskStatus::Pending).count();
    prop_assert_eq!(count_calls(world), tried + requeues(world).len(), "n tasks, k conflicts");
    let rounds = events(world, |event| match event {
        Event::JobAssigned { assignment } => Some((assignment.task.clone(), assignment.round)),
        _ => None,
    });
    let mut reached: BTreeMap<TaskId, u32> = BTreeMap::new();
    for (task, round) in rounds {
        prop_assert!(round <= reached.get(&task).copied().unwrap_or(0) + 1, "{task}");
        reached.insert(task, round);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        u32::try_from(effort::choose_count(40, 4)).expect("small")
    ))]

    #[test]
    fn graphs_of_tasks_are_done_by_any_number_of_workers(
        nodes in prop::collection::vec(any_node(), 1..=40),
        jobs in 1u32..=8,
    ) {
        let (world, recipe) = build_run(&nodes, jobs);
        let outcome = world.run_to_end(&recipe).expect("it runs");
        check_end(&world, "graph");
        check_prefixes(&world, jobs as usize)?;
        check_outcome(&world, &nodes, &outcome)?;
    }

    /// The state of a run is a function of its journal: a process that dies anywhere chooses the
    /// same next step.
    #[test]
    fn every_prefix_of_a_graph_has_a_next_step(
        nodes in prop::collection::vec(any_node(), 1..=12),
        jobs in 1u32..=4,
    ) {
        let (world, recipe) = build_run(&nodes, jobs);
        world.run_to_end(&recipe).expect("it runs");
        let journal = world.0.borrow().journal.clone();
        let mut state = start_state(&journal[0]).expect("it begins");
        for recorded in &journal[1..journal.len() - 1] {
            apply_event(&mut state, recorded).expect("it fits");
            let moment =
                Moment { now: recorded.at, ran: recorded.ran, stop: StopRequest::Continue };
            let step = choose_next_step(&state, moment);
            let may_end = matches!(step, Step::Finish(Outcome::Complete | Outcome::TasksLeft { .. }));
            prop_assert!(may_end || !matches!(step, Step::Finish(_)), "{step:?}");
        }
    }
}
