//! Several tasks at once in a scripted world: jobs, the merge queue, requeues, budgets, requests,
//! and a death at every port call.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_core::run_loop::fold::{apply_event, fold_events, start_state};
use ralph_model::control::{ControlRequest, ControlRequestId, SubmittedRequest};
use ralph_model::event::{Event, JOURNAL_VERSION};
use ralph_model::gate::GateStatus;
use ralph_model::ids::{Role, TaskId, WorkerId};
use ralph_model::judgement::Verdict;
use ralph_model::outcome::Outcome;
use ralph_model::parallel_state::MergeOutcome;
use ralph_model::recipe::{ParallelPolicy, Recipe, TaskWork};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{TaskList, TaskStatus};
use ralph_model::units::{Timestamp, UsdMicros};
use ralph_testkit::effort;
use ralph_testkit::world::{BEGINNING, ScriptedAction, SharedWorld};
use serde_json::json;

use crate::tasks::{gate, handoff, honest, list, recipe, says, statuses, subjects, task, work};

pub(crate) fn id(name: &str) -> TaskId {
    TaskId(name.into())
}

/// Returns a recipe for two workers, without reviews.
pub(crate) fn two_workers() -> Recipe {
    let work = TaskWork { review: ReviewPolicy::Skip, ..work() };
    Recipe { parallel: Some(ParallelPolicy::new(2)), ..recipe(work, vec![gate("start")]) }
}

pub(crate) fn world(
    tasks: TaskList,
    script: fn(&AgentRequest, &str) -> ScriptedAction,
) -> SharedWorld {
    let world = SharedWorld::new(script);
    world.0.borrow_mut().tasks = Some(tasks);
    world.0.borrow_mut().commit_start();
    world
}

/// Returns the names of events, in order.
pub(crate) fn events<T>(world: &SharedWorld, find: impl Fn(&Event) -> Option<T>) -> Vec<T> {
    world.0.borrow().journal.iter().filter_map(|it| find(&it.event)).collect()
}

fn merges(world: &SharedWorld) -> Vec<&'static str> {
    events(world, |event| match event {
        Event::CandidateMerged { outcome, .. } => Some(match outcome {
            MergeOutcome::Same { .. } => "same",
            MergeOutcome::Clean { .. } => "clean",
            MergeOutcome::Conflict { .. } => "conflict",
            MergeOutcome::Missing { .. } => "missing",
        }),
        _ => None,
    })
}

pub(crate) fn requeues(world: &SharedWorld) -> Vec<String> {
    events(world, |event| match event {
        Event::Judged { judgement } => match &judgement.verdict {
            Verdict::Requeued { reason } => Some(reason.clone()),
            _ => None,
        },
        _ => None,
    })
}

/// Returns how many agent calls the workers made.
pub(crate) fn count_calls(world: &SharedWorld) -> usize {
    let world = world.0.borrow();
    world.workers.values().map(|it| it.world.0.borrow().prompts.len()).sum()
}

/// Checks what must hold at the end of every parallel run.
pub(crate) fn check_end(world: &SharedWorld, context: &str) {
    let done: Vec<String> = statuses(world)
        .into_iter()
        .filter(|(_, status)| *status == TaskStatus::Done)
        .map(|(task, _)| task)
        .collect();
    let world = world.0.borrow();
    let landed: Vec<String> = world
        .commits
        .iter()
        .filter_map(|(_, _, mark)| mark.task.as_ref().map(|task| task.0.clone()))
        .collect();
    // A task is done only by a commit, and has one.
    for task in &done {
        let count = landed.iter().filter(|it| *it == task).count();
        assert_eq!(count, 1, "{context}: commits of {task}");
    }
    assert_eq!(landed.len(), done.len(), "{context}: {landed:?}");
    // What a worker made is fetched before its end is recorded.
    for recorded in &world.journal {
        if let Event::WorkerEnded { worker, result } = &recorded.event {
            let is_it = |(id, commit): &(WorkerId, _)| id == worker && *commit == result.commit;
            assert!(world.fetched.iter().any(is_it), "{context}: {worker}");
        }
    }
    let state = fold_events(&world.journal).expect("it folds");
    let parallel = state.parallel.expect("it is parallel");
    assert!(!parallel.has_live_workers(), "{context}");
    assert_eq!(world.tree, world.commits.last().expect("one").0, "{context}: the tree is clean");
}

/// Runs undisturbed, and then with a death at every port call.
pub(crate) fn run_with_deaths(
    make: impl Fn() -> SharedWorld,
    recipe: &Recipe,
    check: impl Fn(&SharedWorld, &Outcome, &str),
) -> SharedWorld {
    let calm = make();
    let outcome = calm.run_to_end(recipe).expect("it runs");
    check_end(&calm, "calm");
    check(&calm, &outcome, "calm");
    let calls = calm.0.borrow().calls;
    for death in (1..=calls).step_by(effort::choose_count(1, 11)) {
        let world = make();
        world.0.borrow_mut().die_at = Some(death);
        let outcome = world.run_to_end(recipe).expect("it runs");
        let context = format!("death at call {death}");
        check_end(&world, &context);
        check(&world, &outcome, &context);
        assert_eq!(count_calls(&world), count_calls(&calm), "{context}: calls are paid for once");
    }
    calm
}

#[test]
fn independent_tasks_run_at_the_same_time_and_land_one_by_one() {
    let make = || world(list(vec![task("a", &[]), task("b", &[])]), honest);
    let calm = run_with_deaths(make, &two_workers(), |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        assert_eq!(world.0.borrow().tree, "start a b", "{context}");
        assert_eq!(merges(world)[..1], ["same"], "{context}");
    });
    assert_eq!(merges(&calm), ["same", "clean"]);
    // Both were started before the first one ended.
    let order = events(&calm, |event| match event {
        Event::JobAssigned { .. } => Some("start"),
        Event::WorkerEnded { .. } => Some("end"),
        _ => None,
    });
    assert_eq!(order, ["start", "start", "end", "end"]);
    // The gates of the first landing passed in the worker, on the same tree.
    let gates = events(&calm, |event| match event {
        Event::GateChecked { result, .. } => Some(result.status),
        _ => None,
    });
    assert_eq!(gates, [GateStatus::Cached, GateStatus::Passed]);
    let journal = events(&calm, |event| match event {
        Event::RunStarted { journal, .. } => Some(*journal),
        _ => None,
    });
    assert_eq!(journal, [JOURNAL_VERSION]);
    let last = subjects(&calm).pop().expect("a commit");
    assert!(
        last.contains("\n\nRalph-Worker: 20260101-000000-test-b-r1\nRalph-Candidate: "),
        "{last}"
    );
    assert_eq!(count_calls(&calm), 2);
    assert!(calm.0.borrow().prompts.is_empty(), "the coordinator asks no agent");
}

#[test]
fn a_task_waits_until_its_dependencies_have_landed() {
    let tasks =
        || list(vec![task("a", &[]), task("b", &["a"]), task("c", &["a"]), task("d", &["b", "c"])]);
    run_with_deaths(
        || world(tasks(), honest),
        &two_workers(),
        |world, outcome, context| {
            assert_eq!(*outcome, Outcome::Complete, "{context}");
            let landed: Vec<String> = world.0.borrow().commits[1..]
                .iter()
                .filter_map(|(_, _, mark)| mark.task.as_ref().map(|it| it.0.clone()))
                .collect();
            assert_eq!((&*landed[0], &*landed[3]), ("a", "d"), "{context}: {landed:?}");
            let bases = events(world, |event| match event {
                Event::JobAssigned { assignment } => {
                    Some((assignment.task.0.clone(), assignment.base.clone().expect("a base").0))
                }
                _ => None,
            });
            let d = bases.iter().find(|(task, _)| task == "d").expect("d was started");
            assert_eq!(d.1, "3+0", "{context}: it starts from the landed b and c");
        },
    );
}

/// Two tasks set the same word; in its second round a task resolves that.
fn conflicting(request: &AgentRequest, tree: &str) -> ScriptedAction {
    let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
    let mut words: Vec<&str> = tree.split(' ').filter(|it| *it != "<<<").collect();
    words.retain(|it| !it.starts_with("x="));
    let resolved = if tree.contains("<<<") { "x=both".to_owned() } else { format!("x={task}") };
    words.push(&resolved);
    words.push(&task);
    ScriptedAction { tree: Some(words.join(" ")), ..says(handoff(&task, &json!({}))) }
}

#[test]
fn a_conflict_starts_the_task_again_on_the_new_tip() {
    let make = || world(list(vec![task("a", &[]), task("b", &[])]), conflicting);
    let calm = run_with_deaths(make, &two_workers(), |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        assert!(world.0.borrow().tree.contains("x=both"), "{context}");
        assert_eq!(requeues(world), ["conflict in x"], "{context}");
    });
    assert_eq!(merges(&calm), ["same", "conflict", "same"]);
    // Two tasks, one conflict.
    assert_eq!(count_calls(&calm), 3);
    let inner = calm.0.borrow();
    let second = &inner.workers[&WorkerId("20260101-000000-test-b-r2".into())];
    assert_eq!(second.job.assignment.round, 2);
    assert!(
        inner.requeued.values().any(|it| Some(it) == second.job.assignment.start_tree.as_ref())
    );
    let prompts = &second.world.0.borrow().prompts;
    assert!(prompts[0].1.contains("CONFLICT in x"), "{}", prompts[0].1);
    // The failed merge used up no attempt of the agent.
    assert_eq!(inner.tasks.as_ref().expect("a list").tasks[1].attempts, 0);
}

#[test]
fn merged_work_that_fails_a_gate_is_rolled_back_and_started_again() {
    /// Adds a word of its own, and replaces the other one in its second round.
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
        let is_fix = tree.contains("one") && tree.contains("two");
        let tree = if is_fix { tree.replace("one", "three") } else { format!("{tree} {task}") };
        ScriptedAction { tree: Some(tree), ..says(handoff(&task, &json!({}))) }
    }
    let mut recipe = two_workers();
    recipe.gates.push(gate("!one two"));
    let make = || world(list(vec![task("one", &[]), task("two", &[])]), script);
    let calm = run_with_deaths(make, &recipe, |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        assert_eq!(world.0.borrow().tree, "start three two", "{context}");
        assert_eq!(requeues(world), ["failed after the merge: !one two"], "{context}");
    });
    assert_eq!(merges(&calm), ["same", "clean", "same"]);
    assert_eq!(calm.0.borrow().kept, ["start one two"]);
}

#[test]
fn a_gate_that_fails_after_a_merge_is_repeated_once() {
    let mut recipe = two_workers();
    recipe.gates.push(gate("?"));
    recipe.gates[1].roles = vec![Role::Merge];
    let make = || world(list(vec![task("a", &[]), task("b", &[])]), honest);
    let calm = run_with_deaths(make, &recipe, |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        assert_eq!(requeues(world), [""; 0], "{context}");
    });
    let flaky = events(&calm, |event| match event {
        Event::GateChecked { result, .. } if result.gate == "?" => Some(result.status),
        _ => None,
    });
    let (failed, passed) = (GateStatus::Failed, GateStatus::Passed);
    assert_eq!(flaky, [failed, passed, failed, passed]);
    recipe.parallel = Some(ParallelPolicy { flake_retries: 0, ..ParallelPolicy::new(2) });
    let world = make();
    world.run_to_end(&recipe).expect("it runs");
    assert_ne!(requeues(&world), [""; 0]);
}

#[test]
fn a_task_that_never_fits_is_given_up_after_its_last_round_which_is_exclusive() {
    /// Never fixes what does not fit.
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
        let tree = if tree.contains("two") && task == "two" {
            format!("{tree} again")
        } else {
            format!("{tree} {task}")
        };
        ScriptedAction { tree: Some(tree), ..says(handoff(&task, &json!({}))) }
    }
    let mut recipe = two_workers();
    recipe.gates.push(gate("!one two"));
    recipe.gates[1].roles = vec![Role::Merge];
    let tasks =
        || list(vec![task("one", &[]), task("two", &[]), task("late", &[]), task("more", &[])]);
    let make = || world(tasks(), script);
    run_with_deaths(make, &recipe, |world, outcome, context| {
        let failed = vec![id("two")];
        assert_eq!(*outcome, Outcome::TasksLeft { failed, waiting: Vec::new() }, "{context}");
        assert_eq!(requeues(world).len(), 2, "{context}");
        assert_eq!(world.0.borrow().failure_branches.len(), 1, "{context}");
        let done = statuses(world).iter().filter(|it| it.1 == TaskStatus::Done).count();
        assert_eq!(done, 3, "{context}: the other tasks are done");
        // While the last round of `two` was under way, nothing else landed.
        let names = events(world, |event| match event {
            Event::JobAssigned { assignment } if assignment.round == 3 => {
                Some("last round".to_owned())
            }
            Event::IterationStarted { task, role: Role::Merge, .. } => {
                Some(task.as_ref().map(|it| it.0.clone()).unwrap_or_default())
            }
            _ => None,
        });
        let last = names.iter().position(|it| it == "last round").expect("it has one");
        assert_eq!(
            names[last..].iter().find(|it| *it != "last round").map(String::as_str),
            Some("two"),
            "{context}"
        );
    });
}

#[test]
fn a_task_that_fails_in_its_worker_fails_in_the_run() {
    /// Never passes for `bad`.
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
        if task == "bad" {
            let tree = Some(format!("broken{}", request.iteration));
            return ScriptedAction { tree, ..says(handoff("bad", &json!({}))) };
        }
        honest(request, tree)
    }
    let make =
        || world(list(vec![task("bad", &[]), task("b", &[]), task("after", &["bad"])]), script);
    let mut recipe = two_workers();
    if let ralph_model::recipe::Work::Tasks(work) = &mut recipe.work {
        work.attempts = 2;
    }
    run_with_deaths(make, &recipe, |world, outcome, context| {
        let Outcome::TasksLeft { failed, waiting } = outcome else {
            panic!("{context}: {outcome}")
        };
        assert_eq!((failed.as_slice(), waiting.len()), ([id("bad")].as_slice(), 1), "{context}");
        let list = world.0.borrow().tasks.clone().expect("a list");
        assert_eq!(list.tasks[0].status, TaskStatus::Failed, "{context}: the file says so");
        assert_eq!(list.tasks[0].attempts, 2, "{context}");
        assert_eq!(list.tasks[1].status, TaskStatus::Done, "{context}");
    });
}

#[test]
fn a_budget_is_shared_and_exceeded_by_at_most_one_call_per_worker() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut recipe = two_workers();
    // A call costs one cent.
    recipe.limits.budget.cost = Some(UsdMicros::from_dollars(0.03));
    let world = world(list(names.map(|it| task(it, &[])).to_vec()), honest);
    let outcome = world.run_to_end(&recipe).expect("it runs");
    assert!(matches!(outcome, Outcome::BudgetUsedUp { .. }), "{outcome}");
    let calls = count_calls(&world);
    assert!((3..=5).contains(&calls), "{calls}");
    check_end(&world, "budget");
    // What was paid for has landed.
    let done = statuses(&world).iter().filter(|it| it.1 == TaskStatus::Done).count();
    assert_eq!(done, calls);
}

#[test]
fn iterations_of_workers_count_against_the_limit() {
    let mut recipe = two_workers();
    recipe.limits.iterations = 2;
    let world = world(list(["a", "b", "c"].map(|it| task(it, &[])).to_vec()), honest);
    let outcome = world.run_to_end(&recipe).expect("it runs");
    assert_eq!(outcome, Outcome::IterationsUsedUp { limit: 2 });
    assert_eq!(count_calls(&world), 2);
}

fn asked(after: i64, request: ControlRequest) -> SubmittedRequest {
    let id = ControlRequestId(format!("{after:015}-{}", request.describe()));
    SubmittedRequest { id, at: Timestamp(BEGINNING + after), by: None, request }
}

#[test]
fn a_stopped_run_waits_for_its_workers_and_is_resumed() {
    let make = || {
        let world = world(list(vec![task("a", &[]), task("b", &[])]), honest);
        world.0.borrow_mut().worker_polls = BTreeMap::from([(id("a"), 9), (id("b"), 9)]);
        world
    };
    let world = make();
    world.0.borrow_mut().stop_at = Some(BEGINNING + 600);
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Interrupted);
    let state = fold_events(&world.0.borrow().journal).expect("it folds");
    let parallel = state.parallel.expect("parallel");
    assert_eq!((parallel.running.len(), parallel.has_live_workers()), (2, false));
    world.0.borrow_mut().stop_at = None;
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    check_end(&world, "resumed");
    assert_eq!(count_calls(&world), 2);
}

#[test]
fn a_pause_holds_new_jobs_and_merges() {
    let world = world(list(["a", "b", "c"].map(|it| task(it, &[])).to_vec()), honest);
    world.0.borrow_mut().inbox =
        vec![asked(100, ControlRequest::Pause), asked(60_000, ControlRequest::Resume)];
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    let started = world
        .0
        .borrow()
        .journal
        .iter()
        .filter(|it| {
            matches!(it.event, Event::IterationStarted { .. }) && it.at.0 < BEGINNING + 60_000
        })
        .count();
    assert_eq!(started, 0);
    check_end(&world, "paused");
}

#[test]
fn skipping_a_running_task_ends_its_worker() {
    let make = || {
        let world = world(list(vec![task("a", &[]), task("b", &[])]), honest);
        world.0.borrow_mut().worker_polls = BTreeMap::from([(id("b"), 20)]);
        world.0.borrow_mut().inbox = vec![asked(400, ControlRequest::Skip { task: id("b") })];
        world
    };
    run_with_deaths(make, &two_workers(), |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        let expect = [("a".to_owned(), TaskStatus::Done), ("b".to_owned(), TaskStatus::Skipped)];
        assert_eq!(statuses(world), expect, "{context}");
        assert!(
            events(world, |it| matches!(it, Event::WorkerCanceled { .. }).then_some(())).len() <= 1
        );
    });
}

#[test]
fn tasks_that_the_user_removes_or_skips_in_the_file_end_their_workers() {
    fn edit(list: &mut TaskList) {
        list.tasks.retain(|task| task.id != id("gone"));
        for task in &mut list.tasks {
            match task.id.0.as_str() {
                "no" => task.status = TaskStatus::Skipped,
                _ => task.title = "Reworded".to_owned(),
            }
        }
    }
    let tasks = || list(vec![task("gone", &[]), task("no", &[]), task("b", &[])]);
    let make = || {
        let world = world(tasks(), honest);
        let polls = [(id("gone"), 20), (id("no"), 20), (id("b"), 20)];
        world.0.borrow_mut().worker_polls = BTreeMap::from(polls);
        world.0.borrow_mut().user_edit = Some((400, edit));
        world
    };
    let recipe = Recipe { parallel: Some(ParallelPolicy::new(3)), ..two_workers() };
    run_with_deaths(make, &recipe, |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        let expect = [("no".to_owned(), TaskStatus::Skipped), ("b".to_owned(), TaskStatus::Done)];
        assert_eq!(statuses(world), expect, "{context}");
        // What a worker does keeps its text.
        assert_eq!(world.0.borrow().tasks.as_ref().expect("a list").tasks[1].title, "The b");
    });
}

#[test]
fn a_lost_worker_is_started_again_and_one_that_is_always_lost_ends_the_run() {
    let world = world(list(vec![task("a", &[]), task("b", &[])]), honest);
    world.0.borrow_mut().losses = BTreeMap::from([(id("a"), 3)]);
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    check_end(&world, "lost three times");
    assert_eq!(count_calls(&world), 2);

    let world = self::world(list(vec![task("a", &[]), task("b", &[])]), honest);
    world.0.borrow_mut().losses = BTreeMap::from([(id("a"), 99)]);
    let outcome = world.run_to_end(&two_workers()).expect("it runs");
    let Outcome::WorkersFailed { message } = &outcome else { panic!("{outcome}") };
    assert_eq!(message, "worker 20260101-000000-test-a-r1 was lost 4 times: killed");
    // What the other worker did has landed.
    assert_eq!(statuses(&world)[1].1, TaskStatus::Done);
    world.0.borrow_mut().losses.clear();
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
}

#[test]
fn a_commit_hook_that_refuses_merged_work_starts_the_task_again_and_then_fails_it() {
    let world = world(list(vec![task("a", &[])]), honest);
    world.0.borrow_mut().hook = Some("no".to_owned());
    let outcome = world.run_to_end(&two_workers()).expect("it runs");
    assert_eq!(outcome, Outcome::TasksLeft { failed: vec![id("a")], waiting: Vec::new() });
    let rounds = events(&world, |event| match event {
        Event::JobAssigned { assignment } => Some(assignment.round),
        _ => None,
    });
    assert_eq!(rounds, [1, 2, 3]);
    let world = world.0.borrow();
    assert_eq!((world.tree.as_str(), world.failure_branches.len()), ("start", 1));
}

#[test]
fn tasks_that_an_agent_adds_join_the_list_when_its_work_lands() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let task = request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default();
        let add = json!({"plan_amendments": [{"action": "add", "reason": "needed",
            "task": {"id": "new", "title": "New", "description": "New.", "acceptance_criteria": ["x"]}}]});
        let more = if tree.contains("new") || task == "new" { json!({}) } else { add };
        ScriptedAction { tree: Some(format!("{tree} {task}")), ..says(handoff(&task, &more)) }
    }
    let world = world(list(vec![task("a", &[]), task("b", &[])]), script);
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    let names: Vec<String> = statuses(&world).into_iter().map(|(name, _)| name).collect();
    // Both workers added a task of the same name.
    assert_eq!(names, ["a", "new", "b", "new-2"]);
    assert!(statuses(&world).iter().all(|(_, status)| *status == TaskStatus::Done));
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Returns a world with a random graph of tasks, random workers, and a death.
fn random_world(numbers: &mut Numbers) -> SharedWorld {
    let names: Vec<String> = (0..=numbers.draw(8)).map(|it| format!("t{it}")).collect();
    let mut tasks = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let earlier: Vec<&str> = names[..at].iter().map(String::as_str).collect();
        let depends_on: Vec<&str> = earlier.into_iter().filter(|_| numbers.draw(4) == 0).collect();
        tasks.push(task(name, &depends_on));
    }
    let world = world(list(tasks), if numbers.draw(2) == 0 { honest } else { conflicting });
    {
        let mut inner = world.0.borrow_mut();
        for name in &names {
            let polls = u32::try_from(1 + numbers.draw(6)).expect("small");
            inner.worker_polls.insert(id(name), polls);
            inner.losses.insert(id(name), u32::try_from(numbers.draw(8) / 6).expect("small"));
        }
        inner.die_at = (numbers.draw(3) > 0).then(|| 1 + numbers.draw(400));
    }
    world
}

#[test]
fn random_graphs_are_done_by_any_number_of_workers() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for case in 0..effort::choose_count(300, 40) {
        let world = random_world(&mut numbers);
        let jobs = u32::try_from(2 + numbers.draw(3)).expect("small");
        // Conflicts of many tasks on one word take many rounds.
        let policy = ParallelPolicy { merge_attempts: 10, ..ParallelPolicy::new(jobs) };
        let recipe = Recipe { parallel: Some(policy), ..two_workers() };
        let context = format!("case {case}");
        let outcome = world.run_to_end(&recipe).expect("it runs");
        assert_eq!(outcome, Outcome::Complete, "{context}");
        check_end(&world, &context);
        check_prefixes(&world, jobs as usize, &context);
    }
}

/// Checks the state after each event: no more workers than allowed, no task twice, and no task is
/// started before its dependencies have landed.
fn check_prefixes(world: &SharedWorld, jobs: usize, context: &str) {
    let journal = world.0.borrow().journal.clone();
    let mut state = start_state(&journal[0]).expect("it begins");
    for recorded in &journal[1..] {
        apply_event(&mut state, recorded).expect("it fits");
        let parallel = state.parallel.as_ref().expect("it is parallel");
        assert!(parallel.running.len() <= jobs, "{context}");
        let running = parallel.running.values().map(|it| &it.assignment.task);
        let mut taken: Vec<&TaskId> =
            running.chain(parallel.queue.iter().map(|it| &it.task)).collect();
        let count = taken.len();
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), count, "{context}: a task is taken twice");
        if let (Event::JobAssigned { assignment }, Some(tasks)) = (&recorded.event, &state.tasks) {
            let task = tasks.list.find_task(&assignment.task).expect("it is listed");
            assert!(tasks.list.find_unmet_dependencies(task).is_empty(), "{context}");
        }
    }
}
