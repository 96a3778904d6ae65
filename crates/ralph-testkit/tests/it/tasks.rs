//! Task lists in a scripted world: choosing, attempts, being stuck, reviews, amendments, edits,
//! and a death at every port call.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_core::run_loop::fold::fold_events;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::Event;
use ralph_model::failure::FailureClass;
use ralph_model::gate::{Gate, GateCheck, GateKind};
use ralph_model::ids::{Role, TaskId};
use ralph_model::outcome::{Outcome, TaskWait};
use ralph_model::recipe::{BaselinePolicy, CommitPolicy, OnFailure, Recipe, TaskWork, Work};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{Task, TaskList, TaskStatus};
use ralph_model::worktree::Landed;
use ralph_testkit::effort;
use ralph_testkit::world::{ScriptedAction, ScriptedWorld, SharedWorld, WorldScript};
use serde_json::{Value, json};

fn id(name: &str) -> TaskId {
    TaskId(name.into())
}

pub(crate) fn task(name: &str, depends_on: &[&str]) -> Task {
    Task {
        description: format!("Make {name}."),
        acceptance_criteria: vec![format!("{name} is there")],
        depends_on: depends_on.iter().map(|name| id(name)).collect(),
        ..Task::new(name, format!("The {name}"))
    }
}

pub(crate) fn list(tasks: Vec<Task>) -> TaskList {
    TaskList { project: "p".into(), tasks, ..TaskList::default() }
}

pub(crate) fn work() -> TaskWork {
    TaskWork::new("plan.json")
}

pub(crate) fn recipe(work: TaskWork, gates: Vec<Gate>) -> Recipe {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let mut recipe = Recipe { gates, ..Recipe::new(Work::Tasks(work), agent) };
    recipe.landing.commit = CommitPolicy::Ralph;
    recipe.limits.iterations = 50;
    recipe
}

pub(crate) fn gate(word: &str) -> Gate {
    Gate::for_command(GateKind::Test, word)
}

fn run(
    tasks: TaskList,
    recipe: &Recipe,
    script: fn(&AgentRequest, &str) -> ScriptedAction,
) -> (SharedWorld, Outcome) {
    let world = SharedWorld::new(script);
    world.0.borrow_mut().tasks = Some(tasks);
    let outcome = world.run_to_end(recipe).expect("it runs");
    (world, outcome)
}

pub(crate) fn says(text: impl Into<String>) -> ScriptedAction {
    ScriptedAction { tree: None, text: text.into(), failure: None }
}

pub(crate) fn handoff(task: &str, more: &Value) -> String {
    let mut value = json!({
        "task_completed": {"task_id": task, "summary": format!("Did {task}."), "fully_complete": true},
    });
    for (key, entry) in more.as_object().into_iter().flatten() {
        value[key] = entry.clone();
    }
    format!("Done.\n```json\n{value}\n```\n")
}

fn task_of(request: &AgentRequest) -> String {
    request.task.as_ref().map(|task| task.0.clone()).unwrap_or_default()
}

/// An approval with evidence for as many criteria as a task of these tests has, by number.
pub(crate) const APPROVED: &str = r#"{"verdict": "approved", "feedback": "", "criteria": [
    {"criterion": "1", "met": true, "evidence": "x:1"}, {"criterion": "2", "met": true, "evidence": "x:2"}]}"#;

/// Adds a word for its task to the tree.
pub(crate) fn honest(request: &AgentRequest, tree: &str) -> ScriptedAction {
    let task = task_of(request);
    match request.role {
        Role::Review => says(APPROVED),
        Role::Prompt
        | Role::Plan
        | Role::Build
        | Role::Implement
        | Role::Fix
        | Role::Compact
        | Role::Message
        | Role::Merge => ScriptedAction {
            tree: Some(format!("{tree} {task}")),
            ..says(handoff(&task, &json!({})))
        },
    }
}

pub(crate) fn statuses(world: &SharedWorld) -> Vec<(String, TaskStatus)> {
    let world = world.0.borrow();
    let tasks = world.tasks.as_ref().expect("there is a list").tasks.iter();
    tasks.map(|task| (task.id.0.clone(), task.status)).collect()
}

pub(crate) fn subjects(world: &SharedWorld) -> Vec<String> {
    world.0.borrow().commits.iter().map(|commit| commit.1.clone()).collect()
}

pub(crate) fn warnings(world: &SharedWorld) -> Vec<String> {
    let world = world.0.borrow();
    let remarks = world.journal.iter().flat_map(|recorded| match &recorded.event {
        Event::Warned { text } => vec![text.clone()],
        Event::TasksRead { remarks, .. } => remarks.clone(),
        _ => Vec::new(),
    });
    remarks.collect()
}

#[test]
fn timeouts_count_as_attempts_and_limits_do_not() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        match (request.iteration.0, request.ask.0) {
            (1, 1) => ScriptedAction { failure: Some(FailureClass::HardTimeout), ..says("") },
            (2, 1) => ScriptedAction {
                failure: Some(FailureClass::RateLimited { resets_at: None }),
                ..says("")
            },
            _ => honest(request, tree),
        }
    }
    let tasks = list(vec![task("a", &[])]);
    let (world, outcome) = run(tasks, &recipe(TaskWork { attempts: 2, ..work() }, vec![]), script);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(world.0.borrow().tasks.as_ref().expect("a list").tasks[0].attempts, 1);
}

#[test]
fn side_effects_of_a_reviewer_are_reverted_and_nothing_else() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        honest(request, tree)
    }
    fn changes_files(request: &AgentRequest, world: &mut ScriptedWorld) {
        match request.role {
            Role::Review => "side effect".clone_into(&mut world.tree),
            _ => world.foreign_commits = 1,
        }
    }
    fn commits(request: &AgentRequest, world: &mut ScriptedWorld) {
        if request.role == Role::Review {
            world.foreign_commits += 1;
        }
    }
    let spec = Gate {
        name: "spec".into(),
        kind: GateKind::Spec,
        check: GateCheck::Agent(Box::new(AgentChoice::new(AgentKind::Text, "reviewer"))),
        ..gate("x")
    };
    let cases: [(CommitPolicy, WorldScript, u32, &str); 3] = [
        (CommitPolicy::Agent, changes_files, 1, "changed files, which was undone"),
        (CommitPolicy::Agent, commits, 0, "made commits, which was undone"),
        (CommitPolicy::Ralph, commits, 0, "made commits, which was undone"),
    ];
    for (policy, doing, commits, message) in cases {
        let world = SharedWorld::new(script);
        world.0.borrow_mut().tasks = Some(list(vec![task("a", &[])]));
        world.0.borrow_mut().world_script = Some(doing);
        let mut recipe = recipe(work(), vec![spec.clone()]);
        recipe.landing.commit = policy.clone();
        recipe.limits.iterations = 1;
        world.run_to_end(&recipe).expect("it runs");
        let found = warnings(&world);
        assert!(found.iter().any(|it| it.contains(message)), "{policy:?}: {found:?}");
        let world = world.0.borrow();
        assert_eq!(
            (world.foreign_commits, world.tree.as_str()),
            (commits, "start a"),
            "{policy:?}"
        );
    }
}

#[test]
fn a_refused_commit_is_a_failed_attempt() {
    let world = SharedWorld::new(honest);
    world.0.borrow_mut().tasks = Some(list(vec![task("a", &[])]));
    world.0.borrow_mut().hook = Some("no ticket".into());
    let outcome =
        world.run_to_end(&recipe(TaskWork { attempts: 2, ..work() }, vec![])).expect("runs");
    assert!(matches!(outcome, Outcome::TasksLeft { .. }));
    assert_eq!(statuses(&world), [("a".to_owned(), TaskStatus::Failed)]);
    let world = world.0.borrow();
    assert!(world.prompts[1].1.contains("no ticket"));
    assert_eq!(world.failure_branches.len(), 1);
    assert_eq!(world.tree, "start");
}

#[test]
fn one_task_alone() {
    let tasks = list(vec![task("a", &[]), task("b", &["a"]), task("c", &[])]);
    let only = |name: &str| TaskWork { only: Some(id(name)), ..work() };
    let (world, outcome) = run(tasks.clone(), &recipe(only("c"), vec![]), honest);
    assert_eq!((outcome, subjects(&world).len()), (Outcome::Complete, 1));
    let (_, outcome) = run(tasks, &recipe(only("b"), vec![]), honest);
    assert_eq!(
        outcome,
        Outcome::TasksLeft {
            failed: vec![],
            waiting: vec![TaskWait { task: id("b"), on: id("a") }]
        }
    );
}

fn log() -> BTreeMap<String, String> {
    BTreeMap::from([("progress.txt".to_owned(), "## Codebase Patterns\n\n---\n".to_owned())])
}

fn untimed(files: &BTreeMap<String, String>) -> String {
    let lines = files["progress.txt"].lines();
    lines.map(|line| line.rsplit(" — ").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_death_anywhere_changes_nothing() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        match (task_of(request).as_str(), request.role, request.iteration.0) {
            ("a", Role::Review, 2) => {
                says(r#"{"verdict": "changes_requested", "feedback": "More.", "criteria": []}"#)
            }
            ("b", Role::Implement, _) => {
                ScriptedAction { tree: Some(format!("bad{}", request.iteration)), ..says("b") }
            }
            _ => honest(request, tree),
        }
    }
    let tasks = || list(vec![task("a", &[]), task("b", &[]), task("c", &[])]);
    for on_failure in [OnFailure::Keep, OnFailure::Rollback] {
        let work = TaskWork { attempts: 2, review: ReviewPolicy::Fresh { cap: 3 }, ..work() };
        // The second task never passes this.
        let mut recipe = recipe(work, vec![gate("start")]);
        recipe.baseline = BaselinePolicy::Note;
        recipe.landing.on_failure = on_failure;
        let calm = SharedWorld::new(script);
        calm.0.borrow_mut().tasks = Some(tasks());
        calm.0.borrow_mut().companion_files = log();
        let expected = calm.run_to_end(&recipe).expect("it runs");
        assert_eq!(calm.0.borrow().failure_branches.len(), 1);
        let calls = calm.0.borrow().calls;
        assert!(calls > 100, "{calls}");
        for die_at in (1..=calls).step_by(effort::choose_count(1, 17)) {
            let world = SharedWorld::new(script);
            world.0.borrow_mut().tasks = Some(tasks());
            world.0.borrow_mut().companion_files = log();
            world.0.borrow_mut().die_at = Some(die_at);
            let outcome = world.run_to_end(&recipe).expect("it runs");
            assert_eq!(outcome, expected, "dead at {die_at}");
            assert_eq!(subjects(&world), subjects(&calm), "dead at {die_at}");
            assert_eq!(statuses(&world), statuses(&calm), "dead at {die_at}");
            let (one, two) = (world.0.borrow(), calm.0.borrow());
            assert_eq!(one.tree, two.tree, "dead at {die_at}");
            // Entries contain the start of an iteration, and an answer may have to be requested again.
            assert_eq!(
                untimed(&one.companion_files),
                untimed(&two.companion_files),
                "dead at {die_at}"
            );
            assert_eq!(one.failure_branches.len(), two.failure_branches.len(), "dead at {die_at}");
            let state = fold_events(&one.journal).expect("it folds");
            assert_eq!(state.outcome, Some(expected.clone()));
            let landed = one.journal.iter().filter(|recorded| {
                matches!(recorded.event, Event::Landed { landed: Landed::Committed { .. } })
            });
            assert_eq!(landed.count(), one.commits.len(), "dead at {die_at}");
        }
    }
}
