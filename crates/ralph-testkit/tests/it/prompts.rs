//! Prompts and the progress log in a scripted world: the project's own templates, the files next
//! to the task file, and the log entries of iterations that land.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::gate::{Gate, GateCheck, GateKind};
use ralph_model::ids::Role;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{Recipe, TaskWork};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{ListOwner, TaskList, TaskStatus};
use ralph_testkit::world::{AgentScript, ScriptedAction, SharedWorld};
use serde_json::json;

use crate::tasks::{gate, handoff, honest, list, recipe, says, task, warnings, work};

/// A world with tasks `a` and `b`.
fn world(script: AgentScript) -> SharedWorld {
    let world = SharedWorld::new(script);
    world.0.borrow_mut().tasks = Some(list(vec![task("a", &[]), task("b", &[])]));
    world
}

fn template(world: &SharedWorld, name: &str, text: Result<&str, &str>) {
    let text = text.map(str::to_owned).map_err(str::to_owned);
    world.0.borrow_mut().templates.insert(name.to_owned(), text);
}

fn add_companion(world: &SharedWorld, name: &str, text: &str) {
    world.0.borrow_mut().companion_files.insert(name.to_owned(), text.to_owned());
}

#[track_caller]
fn run(world: &SharedWorld, recipe: &Recipe) {
    assert_eq!(world.run_to_end(recipe).expect("it runs"), Outcome::Complete);
}

fn prompt(world: &SharedWorld, number: usize) -> String {
    world.0.borrow().prompts[number].1.clone()
}

fn reviewed() -> TaskWork {
    TaskWork { review: ReviewPolicy::Fresh { cap: 5 }, ..work() }
}

#[test]
fn a_template_of_the_project_replaces_the_built_in_one() {
    let world = world(honest);
    template(&world, "implement", Ok("N ${ITERATION} of ${MAX_ITERATIONS}: ${TEAM} ${TAKS}"));
    template(&world, "review", Err("`review.md` cannot be used: it is empty"));
    let mut recipe = recipe(reviewed(), vec![]);
    recipe.prompt.vars.insert("TEAM".into(), "${TASK}".into());
    run(&world, &recipe);
    let first = prompt(&world, 0);
    assert!(first.starts_with("N 1 of 50: ${TASK} ${TAKS}\n\n## Current task\nID: a\n"), "{first}");
    assert!(first.contains("\n\n## Your answer\n"), "{first}");
    assert!(!first.contains("## How to work"), "{first}");
    assert!(prompt(&world, 1).contains("## How to review"));
    assert_eq!(
        warnings(&world),
        [
            "unknown variable `${TAKS}` in implement.md; did you mean `${TASK}`?",
            "`review.md` cannot be used: it is empty; ralph's own template is used",
        ]
    );
}

#[test]
fn a_gate_that_asks_how_good_the_work_is_has_a_template_too() {
    let world = world(honest);
    template(&world, "quality", Ok("Judge ${TASK_ID}.\n\n${HINT}\n\n${DIFF}"));
    template(&world, "review", Ok("Not this."));
    let reviewer = GateCheck::Agent(Box::new(AgentChoice::new(AgentKind::Text, "reviewer")));
    let hint = Some("Costs ${TASK}.".to_owned());
    let quality = Gate { kind: GateKind::Quality, check: reviewer, hint, ..gate("quality") };
    run(&world, &recipe(work(), vec![quality]));
    let judged = prompt(&world, 1);
    let start = "Judge a.\n\n## Look out for\nCosts ${TASK}.\n\n## The change\n`git diff start start a -- . ':!plan.json'` shows";
    assert!(judged.starts_with(start), "{judged}");
    assert!(judged.contains("\n+start a\n```\n\n## Current task\nID: a\n"), "{judged}");
}

/// Marks its task as done, as an agent that owns the list does.
fn ticks(request: &AgentRequest, _seed: u64, list: &mut TaskList) {
    for task in list.tasks.iter_mut().filter(|task| request.task.as_ref() == Some(&task.id)) {
        (task.status, task.notes) = (TaskStatus::Done, "did it".into());
    }
}

#[test]
fn an_agent_that_owns_the_list_gets_its_rules() {
    let world = world(honest);
    world.0.borrow_mut().list_script = Some(ticks);
    run(&world, &recipe(TaskWork { keeper: ListOwner::Agent, ..work() }, vec![]));
    assert!(prompt(&world, 0).contains("set `status` of a to \"done\""), "{}", prompt(&world, 0));
}

fn learns(request: &AgentRequest, tree: &str) -> ScriptedAction {
    let found = json!({"constraints_discovered": [{"constraint": "no net", "impact": "slow"}]});
    match (request.role, request.iteration.0) {
        (Role::Review, 2) => {
            says(r#"{"verdict": "changes_requested", "feedback": "Fix x:3.", "criteria": []}"#)
        }
        (Role::Implement | Role::Fix, number) => {
            ScriptedAction { tree: Some(format!("{tree} {number}")), ..says(handoff("a", &found)) }
        }
        _ => honest(request, tree),
    }
}

#[test]
fn the_log_has_an_entry_for_each_landing() {
    let world = SharedWorld::new(learns);
    world.0.borrow_mut().tasks = Some(list(vec![task("a", &[])]));
    add_companion(&world, "progress.txt", "# Log\n\n## Codebase Patterns\n- Mine\n\n---\ntorn");
    run(&world, &recipe(reviewed(), vec![gate("start")]));
    expect_test::expect![[r"
        # Log

        ## Codebase Patterns
        - Mine
        - no net: slow <!-- ralph -->

        ---
        torn

        ## 2023-11-14 22:13 — a The a (implement)
        <!-- ralph 20260101-000000-test/1 -->
        - Summary: Did a.
        - Files: tree
        - Gates: `start` passed
        - Learned: no net: slow

        ## 2023-11-14 22:13 — a The a (review)
        <!-- ralph 20260101-000000-test/2 -->
        - Verdict: changes requested
          > Fix x:3.

        ## 2023-11-14 22:13 — a The a (fix)
        <!-- ralph 20260101-000000-test/3 -->
        - Summary: Did a.
        - Files: tree
        - Gates: `start` passed
        - Learned: no net: slow

        ## 2023-11-14 22:13 — a The a (review)
        <!-- ralph 20260101-000000-test/4 -->
        - Verdict: approved
    "]]
    .assert_eq(&world.0.borrow().companion_files["progress.txt"]);
    // What the reviewed work added is not a fact to its reviewer.
    let review = prompt(&world, 1);
    assert!(review.contains("\nConstraints:\n- no net: slow\n"), "{review}");
    assert!(review.contains("\n## Codebase patterns\n- Mine\n\n"), "{review}");
}

#[test]
fn no_log_is_created() {
    let world = world(honest);
    run(&world, &recipe(work(), vec![]));
    assert!(world.0.borrow().companion_files.is_empty());
    let world = self::world(honest);
    add_companion(&world, "progress.txt", "");
    world.0.borrow_mut().list_script = Some(ticks);
    run(&world, &recipe(TaskWork { keeper: ListOwner::Agent, ..work() }, vec![]));
    assert_eq!(world.0.borrow().companion_files["progress.txt"], "");
}

#[test]
fn failed_landings_are_not_logged() {
    let world = world(honest);
    world.0.borrow_mut().hook = Some("no ticket".into());
    add_companion(&world, "progress.txt", "# Log\n\n");
    let outcome =
        world.run_to_end(&recipe(TaskWork { attempts: 2, ..work() }, vec![])).expect("runs");
    assert!(matches!(outcome, Outcome::TasksLeft { .. }));
    assert_eq!(world.0.borrow().companion_files["progress.txt"], "# Log\n\n");
}

#[test]
fn a_template_is_read_again_each_time() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        // The text of the prompt shows which template it was made from.
        let tree = format!("{tree} {}", request.prompt.lines().next().unwrap_or_default());
        ScriptedAction { tree: Some(tree), ..says(handoff("x", &json!({}))) }
    }
    let world = world(script);
    template(&world, "implement", Ok("one"));
    let recipe = recipe(work(), vec![]);
    world.0.borrow_mut().stop_at = Some(ralph_testkit::world::BEGINNING + 1_000);
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Interrupted);
    template(&world, "implement", Ok("two"));
    world.0.borrow_mut().stop_at = None;
    run(&world, &recipe);
    assert_eq!(world.0.borrow().tree, "start one two");
}
