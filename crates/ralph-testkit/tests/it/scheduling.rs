//! Scheduling of a parallel run in a scripted world: limits, broken gates, memory, and what workers
//! know of each other.

use ralph_core::ports::AgentRequest;
use ralph_core::run_loop::fold::fold_events;
use ralph_model::control::ControlRequest;
use ralph_model::event::Event;
use ralph_model::gate::GateStatus;
use ralph_model::ids::Role;
use ralph_model::memory::MemoryPolicy;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{BaselinePolicy, ParallelPolicy, Recipe};
use ralph_model::refusal::RefusalKind;
use ralph_model::task::{Task, TaskStatus};
use ralph_model::worker::WorkerLimitKind;
use ralph_testkit::world::{ScriptedAction, SharedWorld};
use serde_json::json;

use crate::parallel::{count_calls, events, id, requeues, run_with_deaths, two_workers, world};
use crate::tasks::{gate, handoff, honest, list, says, statuses, task};

fn find_task(request: &AgentRequest) -> String {
    request.task.as_ref().map(|it| it.0.clone()).unwrap_or_default()
}

/// Returns the first prompt of a worker.
fn first_prompt(world: &SharedWorld, worker: &str) -> String {
    let world = world.0.borrow();
    let (_, worker) = world.workers.iter().find(|(id, _)| id.0.ends_with(worker)).expect("it ran");
    worker.world.0.borrow().prompts[0].1.clone()
}

#[test]
fn workers_know_what_others_do_and_what_has_landed() {
    let declared = Task { touches: vec!["src/b/**".into()], ..task("b", &[]) };
    let world = world(list(vec![task("a", &[]), declared, task("c", &["a", "b"])]), honest);
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    let prompt = first_prompt(&world, "-a-r1");
    assert!(!prompt.contains("Other agents"), "it was the first: {prompt}");
    let prompt = first_prompt(&world, "-b-r1");
    assert!(prompt.contains("Do not change what belongs to them:\n- a The a\n"), "{prompt}");
    let prompt = first_prompt(&world, "-c-r1");
    assert!(prompt.contains("Did a.") && prompt.contains("Did b."), "{prompt}");
}

#[test]
fn a_limit_that_one_worker_meets_holds_the_others() {
    let world = world(list(["a", "b", "c", "d"].map(|it| task(it, &[])).to_vec()), honest);
    world.0.borrow_mut().limits.insert(id("a"), WorkerLimitKind::Overload);
    world.0.borrow_mut().worker_polls.insert(id("b"), 5);
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    let inner = world.0.borrow();
    let [(worker, ControlRequest::Hold { until, .. })] = inner.sent.as_slice() else {
        panic!("{:?}", inner.sent)
    };
    assert!(worker.0.ends_with("-b-r1"), "{worker}");
    // No job was started before that.
    let is_late = |it: &&ralph_model::event::Recorded| matches!(&it.event, Event::JobAssigned { assignment } if assignment.task == id("c"));
    let started = inner.journal.iter().find(is_late).expect("it was started");
    assert!(started.at >= *until, "{:?} {until:?}", started.at);
}

#[test]
fn a_host_that_is_gone_when_a_job_starts_takes_all_workers_with_it() {
    let tasks = || list(vec![task("a", &[]), task("b", &[]), task("c", &["a"])]);
    let make = || {
        let world = world(tasks(), honest);
        world.0.borrow_mut().worker_polls.insert(id("b"), 9);
        world.0.borrow_mut().lost_host = Some(id("c"));
        world
    };
    run_with_deaths(make, &two_workers(), |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        assert_eq!(statuses(world).iter().filter(|it| it.1 == TaskStatus::Done).count(), 3);
    });
}

#[test]
fn a_gate_that_fails_for_two_candidates_and_on_the_tip_ends_the_run() {
    let mut recipe = two_workers();
    recipe.gates.push(gate("never"));
    recipe.gates[1].roles = vec![Role::Merge];
    let world = world(list(["a", "b", "c"].map(|it| task(it, &[])).to_vec()), honest);
    let gates = vec!["never".to_owned()];
    let broken = Outcome::BaselineBroken { gates, sandbox: None };
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), broken);
    assert_eq!(requeues(&world).len(), 2);
    assert!(statuses(&world).iter().all(|it| it.1 != TaskStatus::Failed));
    // What waits lands once the gate is repaired.
    world.0.borrow_mut().tree.push_str(" never");
    world.0.borrow_mut().commit_start();
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
}

#[test]
fn a_gate_that_passes_on_the_tip_is_the_fault_of_the_candidates() {
    /// Adds a word of its own, and removes the first one in later rounds.
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let task = find_task(request);
        let is_fix = tree.contains("one") && tree.contains("zz");
        let tree = if is_fix { tree.replace("one", "won") } else { format!("{tree} {task}") };
        ScriptedAction { tree: Some(tree), ..says(handoff(&task, &json!({}))) }
    }
    let mut recipe = Recipe { parallel: Some(ParallelPolicy::new(3)), ..two_workers() };
    recipe.gates.push(gate("!one zz"));
    let make = || world(list(["one", "zza", "zzb"].map(|it| task(it, &[])).to_vec()), script);
    run_with_deaths(make, &recipe, |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        let checked = events(world, |event| match event {
            Event::BaselineChecked { result } => Some(result.status),
            _ => None,
        });
        assert_eq!(checked.first(), Some(&GateStatus::Passed), "{context}");
    });
}

#[test]
fn gates_that_were_red_before_are_repaired_by_one_worker() {
    let mut recipe = Recipe { baseline: BaselinePolicy::Note, ..two_workers() };
    recipe.gates.push(gate("good"));
    let make = || world(list(["good", "b", "c"].map(|it| task(it, &[])).to_vec()), honest);
    let calm = run_with_deaths(make, &recipe, |_, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
    });
    let order = events(&calm, |event| match event {
        Event::JobAssigned { .. } => Some("start"),
        Event::IterationEnded { .. } => Some("landed"),
        _ => None,
    });
    assert_eq!(order, ["start", "landed", "start", "start", "landed", "landed"]);
    let prompt = first_prompt(&calm, "-good-r1");
    assert!(prompt.contains("## Broken before"), "{prompt}");
}

#[test]
fn one_worker_at_a_time_compacts_and_the_others_use_its_memory() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        match request.role {
            Role::Compact => says(
                json!({"project_summary": "A small shop.", "completed_work": [],
                    "active_constraints": [], "architectural_decisions": [], "file_knowledge": []})
                .to_string(),
            ),
            _ => honest(request, tree),
        }
    }
    let memory = MemoryPolicy { every_iterations: 2, ..MemoryPolicy::default() };
    let recipe = Recipe { memory: Some(memory), ..two_workers() };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let world = world(list(names.map(|it| task(it, &[])).to_vec()), script);
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
    let state = fold_events(&world.0.borrow().journal).expect("it folds");
    assert_eq!(state.memory.expect("a memory").project_summary, "A small shop.");
    assert!(world.0.borrow().memory.is_some(), "the memory is published");
    let duties = events(&world, |event| match event {
        Event::JobAssigned { assignment } => {
            assignment.compacts.map(|it| (assignment.task.0.clone(), it.0))
        }
        _ => None,
    });
    // Two landings make it due; the next one is due when the first has its result.
    assert_eq!(duties, [("e".to_owned(), 2), ("g".to_owned(), 4)]);
    assert_eq!(count_calls(&world), names.len() + duties.len());
    let prompt = first_prompt(&world, "-h-r1");
    assert!(prompt.contains("A small shop."), "{prompt}");
}

#[test]
fn proposals_of_workers_reach_the_run() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let task = find_task(request);
        let remove = json!({"plan_amendments": [
            {"action": "remove", "task_id": "late", "reason": "not needed"}]});
        let more = if task == "a" { remove } else { json!({}) };
        ScriptedAction { tree: Some(format!("{tree} {task}")), ..says(handoff(&task, &more)) }
    }
    let world = world(list(vec![task("a", &[]), task("late", &["a"])]), script);
    assert_eq!(world.run_to_end(&two_workers()).expect("it runs"), Outcome::Complete);
    let state = fold_events(&world.0.borrow().journal).expect("it folds");
    assert_eq!(state.tasks.expect("a list").proposals.len(), 1);
}

#[test]
fn conflict_markers_that_are_left_are_refused() {
    /// Resolves a conflict only in the second attempt.
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let task = find_task(request);
        let words = tree.split(' ').filter(|it| !it.starts_with("x="));
        let tree = words.collect::<Vec<_>>().join(" ");
        let tree = match (tree.contains("<<<"), tree.contains("tried")) {
            (true, false) => format!("{tree} x=both tried"),
            (true, true) => format!("{} x=both", tree.replace(" <<<", "")),
            (false, _) => format!("{tree} x={task}"),
        };
        ScriptedAction { tree: Some(tree), ..says(handoff(&task, &json!({}))) }
    }
    let make = || world(list(vec![task("a", &[]), task("b", &[])]), script);
    let calm = run_with_deaths(make, &two_workers(), |world, outcome, context| {
        assert_eq!(*outcome, Outcome::Complete, "{context}");
        assert!(!world.0.borrow().tree.contains("<<<"), "{context}");
    });
    assert_eq!(count_calls(&calm), 4);
    let inner = calm.0.borrow();
    let (_, second) =
        inner.workers.iter().find(|(id, _)| id.0.ends_with("-b-r2")).expect("it was requeued");
    let refused = events(&second.world, |event| match event {
        Event::Refused { refusal, .. } => Some((refusal.kind, refusal.output.contains("\n- x"))),
        _ => None,
    });
    assert_eq!(refused, [(RefusalKind::ConflictMarkers, true)]);
}
