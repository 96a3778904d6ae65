//! Compaction in a scripted world: when it runs, its result, how it fails, and a death at
//! every port call.

use ralph_core::ports::AgentRequest;
use ralph_core::run_loop::fold::fold_events;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::Event;
use ralph_model::failure::FailureClass;
use ralph_model::ids::{IterationNumber, Role};
use ralph_model::judgement::Verdict;
use ralph_model::memory::{CompactionTrigger, Documentation, Memory, MemoryPolicy};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{Recipe, TaskWork};
use ralph_model::run::RunState;
use ralph_model::task::Task;
use ralph_model::units::Timestamp;
use ralph_model::worktree::{Checkpoint, TreeId};
use ralph_testkit::effort;
use ralph_testkit::world::{BEGINNING, ScriptedAction, SharedWorld};
use serde_json::{Value, json};

use crate::tasks::{gate, handoff, honest, list, recipe, says, task, warnings, work};

const LIMIT: &str = "SQLite has one writer";

/// Works honestly, and finds a constraint in the third iteration.
fn finder(request: &AgentRequest, tree: &str) -> ScriptedAction {
    match request.role {
        Role::Compact => forgetful(request),
        Role::Implement | Role::Fix if request.iteration == IterationNumber(3) => {
            let found = json!({"constraints_discovered":
                [{"constraint": LIMIT, "impact": "writes wait", "workaround": "queue them"}]});
            let task = request.task.as_ref().map(|task| task.0.clone()).unwrap_or_default();
            ScriptedAction { tree: Some(format!("{tree} {task}")), ..says(handoff(&task, &found)) }
        }
        Role::Prompt
        | Role::Plan
        | Role::Build
        | Role::Implement
        | Role::Review
        | Role::Fix
        | Role::Message
        | Role::Merge => honest(request, tree),
    }
}

fn answer(more: &Value) -> ScriptedAction {
    let mut value = json!({"project_summary": "A project.", "completed_work": [],
        "active_constraints": [], "architectural_decisions": [], "file_knowledge": []});
    for (key, entry) in more.as_object().into_iter().flatten() {
        value[key] = entry.clone();
    }
    says(format!("```json\n{value}\n```"))
}

/// A compaction that mentions nothing, and changes a file.
fn forgetful(request: &AgentRequest) -> ScriptedAction {
    let summary = format!("A project after iteration {}.", request.iteration);
    ScriptedAction {
        tree: Some("scribbled".into()),
        ..answer(&json!({"project_summary": summary}))
    }
}

fn tasks(count: usize) -> Vec<Task> {
    (1..=count).map(|at| task(&format!("t{at}"), &[])).collect()
}

fn remembering(policy: MemoryPolicy) -> Recipe {
    Recipe { memory: Some(policy), ..recipe(work(), vec![gate("start")]) }
}

fn run(
    tasks: Vec<Task>,
    recipe: &Recipe,
    script: fn(&AgentRequest, &str) -> ScriptedAction,
) -> (SharedWorld, Outcome) {
    let world = SharedWorld::new(script);
    world.0.borrow_mut().tasks = Some(list(tasks));
    let outcome = world.run_to_end(recipe).expect("it runs");
    (world, outcome)
}

fn state(world: &SharedWorld) -> RunState {
    fold_events(&world.0.borrow().journal).expect("it folds")
}

/// The iterations that compacted, with why, or what they failed at.
fn compactions(world: &SharedWorld) -> Vec<(u32, Result<CompactionTrigger, String>)> {
    let world = world.0.borrow();
    let mut open = (0, Role::Prompt);
    let mut found = Vec::new();
    for recorded in &world.journal {
        match &recorded.event {
            Event::IterationStarted { iteration, role, .. } => open = (iteration.0, *role),
            Event::Judged { judgement } if open.1 == Role::Compact => {
                found.push((
                    open.0,
                    match &judgement.verdict {
                        Verdict::Compacted { trigger } => Ok(*trigger),
                        Verdict::AttemptFailed { failure } => Err(failure.message.clone()),
                        odd => Err(format!("{odd:?}")),
                    },
                ));
            }
            _ => {}
        }
    }
    found
}

fn constraints(memory: &Memory) -> Vec<&str> {
    memory.active_constraints.iter().map(|it| it.constraint.as_str()).collect()
}

#[test]
fn handoffs_are_compacted_every_few_iterations() {
    let (world, outcome) = run(tasks(12), &remembering(MemoryPolicy::default()), finder);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(
        compactions(&world),
        [(6, Ok(CompactionTrigger::Periodic)), (12, Ok(CompactionTrigger::Periodic))]
    );
    let state = state(&world);
    let memory = state.memory.as_deref().expect("a memory");
    assert_eq!(memory.project_summary, "A project after iteration 12.");
    assert_eq!(constraints(memory), ["SQLite has one writer: queue them"]);
    assert!(memory.is_carried_over("SQLite has one writer: queue them"));
    let since = &state.since_compaction;
    assert_eq!((since.last, since.compactions), (Some(IterationNumber(12)), 2));
    assert_eq!((since.coding_iterations, since.handoffs.len()), (2, 2));
    let world = world.0.borrow();
    assert_eq!(world.memory.as_ref().map(|it| &it.memory), Some(memory));
    // Its changes to the tree are reverted and kept.
    assert_eq!(world.kept, ["scribbled", "scribbled"]);
    assert!(world.tree.ends_with("t12"), "{}", world.tree);
    assert_eq!(world.commits.len(), 12);
    let (role, prompt) = &world.prompts[11];
    assert_eq!(*role, Role::Compact);
    for expect in [
        "## The memory so far",
        "A project after iteration 6.",
        "Iteration 7:",
        "\"carried_over\": [\n    \"SQLite has one writer: queue them\"",
    ] {
        assert!(prompt.contains(expect), "{expect}: {prompt}");
    }
    assert!(!prompt.contains("Iteration 5:"), "{prompt}");
    assert!(!prompt.contains("Documentation to look up"), "{prompt}");
}

#[test]
fn large_handoffs_are_compacted_early() {
    let policy = MemoryPolicy { threshold_bytes: 1_000, ..MemoryPolicy::default() };
    let (world, outcome) = run(tasks(9), &remembering(policy), finder);
    assert_eq!(outcome, Outcome::Complete);
    let found = compactions(&world);
    assert!(found.len() >= 2, "{found:?}");
    assert!(found.iter().all(|(_, what)| *what == Ok(CompactionTrigger::Size)), "{found:?}");
}

#[test]
fn a_task_that_needs_documentation_gets_it_once() {
    fn script(request: &AgentRequest, _: &str) -> ScriptedAction {
        match request.role {
            Role::Compact => {
                let servers = request.agent.mcp_config.as_ref().expect("servers");
                assert_eq!(servers.to_string_lossy(), "docs.json");
                answer(&json!({"library_docs": [{"library": "serde", "key_apis": "derive"}]}))
            }
            // The first attempt fails, so that the task comes again.
            _ if request.iteration.0 == 2 => {
                ScriptedAction { tree: Some("nothing".into()), ..says(handoff("a", &json!({}))) }
            }
            _ => honest(request, "start"),
        }
    }
    let policy = MemoryPolicy {
        documentation: Documentation::Servers("docs.json".into()),
        ..MemoryPolicy::default()
    };
    let wanting = Task { libraries: vec!["serde".into()], ..task("a", &[]) };
    let (world, outcome) = run(vec![wanting, task("b", &[])], &remembering(policy), script);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(compactions(&world), [(1, Ok(CompactionTrigger::Documentation))]);
    let world = world.0.borrow();
    let prompt = &world.prompts[0].1;
    assert!(
        prompt.contains("The next task, a (The a), needs documentation of: serde. Look them up"),
        "{prompt}"
    );
    assert_eq!(
        world.prompts.iter().map(|(role, _)| *role).collect::<Vec<_>>(),
        [Role::Compact, Role::Implement, Role::Implement, Role::Implement]
    );
}

#[test]
fn missing_documentation_is_reported() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        if request.role == Role::Compact { answer(&json!({})) } else { honest(request, tree) }
    }
    let documentation = Documentation::Nowhere("`npx` is not on the PATH".into());
    let policy = MemoryPolicy { documentation, ..MemoryPolicy::default() };
    let wanting = Task { needs_docs: true, ..task("a", &[]) };
    let (world, outcome) = run(vec![wanting], &remembering(policy), script);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(
        warnings(&world),
        ["the libraries of a cannot be looked up: `npx` is not on the PATH"]
    );
    assert!(world.0.borrow().prompts[0].1.contains("They cannot be looked up here: `npx`"));
}

#[track_caller]
fn fails(script: fn(&AgentRequest, &str) -> ScriptedAction, asks: usize, words: &str) {
    let (world, outcome) = run(tasks(7), &remembering(MemoryPolicy::default()), script);
    assert_eq!(outcome, Outcome::Complete, "{words}");
    assert_eq!(compactions(&world), [(6, Err(words.to_owned()))]);
    let state = state(&world);
    assert_eq!(
        (state.memory, state.since_compaction.last, state.since_compaction.compactions),
        (None, None, 1)
    );
    // The counter starts again, and no handoff is lost.
    assert_eq!(
        (state.since_compaction.coding_iterations, state.since_compaction.handoffs.len()),
        (2, 7)
    );
    let world_ = world.0.borrow();
    let asked = world_.prompts.iter().filter(|(role, _)| *role == Role::Compact).count();
    assert_eq!(asked, asks, "{words}");
    drop(world_);
    let found = warnings(&world);
    assert!(
        found.iter().any(|it| it.starts_with("compaction failed (") && it.contains(words)),
        "{found:?}"
    );
}

fn broken(request: &AgentRequest, tree: &str, class: FailureClass) -> ScriptedAction {
    if request.role == Role::Compact {
        return ScriptedAction { failure: Some(class), ..says("") };
    }
    honest(request, tree)
}

#[test]
fn without_a_memory_the_run_continues() {
    fn words(request: &AgentRequest, tree: &str, text: &str) -> ScriptedAction {
        if request.role == Role::Compact { says(text) } else { honest(request, tree) }
    }
    fails(
        |r, t| words(r, t, "I would rather not."),
        2,
        "the answer contains no memory: it contains no JSON object of the requested form",
    );
    fails(
        |r, t| words(r, t, "{\"project_summary\": \" \"}"),
        1,
        "the memory in the answer is empty",
    );
    fails(
        |r, t| words(r, t, "{\"verdict\": 1}"),
        1,
        "the answer contains no memory: it has no `project_summary`",
    );
    fails(
        |r, t| words(r, t, &json!({"project_summary": "x".repeat(40_000)}).to_string()),
        1,
        "the memory in the answer has 40045 bytes, more than 32000",
    );
    fails(|r, t| broken(r, t, FailureClass::Crashed), 4, "scripted");
    fails(|r, t| broken(r, t, FailureClass::Empty), 4, "scripted");
    fails(|r, t| broken(r, t, FailureClass::HardTimeout), 1, "scripted");
    fails(|r, t| broken(r, t, FailureClass::IdleTimeout), 1, "scripted");
    fails(|r, t| broken(r, t, FailureClass::TurnLimit), 1, "scripted");
    fails(|r, t| broken(r, t, FailureClass::NotInstalled), 1, "scripted");
    fails(|r, t| broken(r, t, FailureClass::NotLoggedIn), 1, "scripted");
    fails(|r, t| broken(r, t, FailureClass::BadCall), 1, "scripted");
    fails(|r, t| broken(r, t, FailureClass::ContextExceeded), 2, "scripted");
}

#[test]
fn a_usage_limit_is_waited_for() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        if request.role == Role::Compact && request.ask.0 == 1 {
            let resets_at = Some(Timestamp(BEGINNING + 3_600_000));
            return broken(request, tree, FailureClass::RateLimited { resets_at });
        }
        finder(request, tree)
    }
    let (world, outcome) = run(tasks(7), &remembering(MemoryPolicy::default()), script);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(compactions(&world), [(6, Ok(CompactionTrigger::Periodic))]);
    assert!(world.0.borrow().waited > 3_000_000);
}

#[test]
fn compactions_have_numbers_and_do_not_count() {
    let policy = MemoryPolicy { every_iterations: 1, ..MemoryPolicy::default() };
    let mut recipe = remembering(policy);
    recipe.limits.iterations = 4;
    let (world, outcome) = run(tasks(9), &recipe, finder);
    assert_eq!(outcome, Outcome::IterationsUsedUp { limit: 4 });
    assert_eq!(compactions(&world).iter().map(|it| it.0).collect::<Vec<_>>(), [2, 4, 6]);
    let state = state(&world);
    assert_eq!((state.iterations, state.last_iteration()), (7, 7));
    assert_eq!(world.0.borrow().commits.len(), 4);
}

#[test]
fn work_that_is_under_way_outlives_a_compaction() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        if request.role == Role::Compact {
            return forgetful(request);
        }
        let word = if request.iteration.0 < 7 { "half" } else { "good" };
        ScriptedAction {
            tree: Some(format!("{tree} {word}{}", request.iteration)),
            ..says(handoff("a", &json!({})))
        }
    }
    let recipe = Recipe {
        memory: Some(MemoryPolicy { every_iterations: 2, ..MemoryPolicy::default() }),
        ..recipe(TaskWork { attempts: 9, ..work() }, vec![gate("good")])
    };
    let (world, outcome) = run(vec![task("a", &[])], &recipe, script);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(compactions(&world).iter().map(|it| it.0).collect::<Vec<_>>(), [3, 6]);
    let world = world.0.borrow();
    assert_eq!(world.commits[0].0, "start half1 half2 half4 half5 good7");
    // The failure is reported after the compaction as well.
    assert!(world.prompts[3].1.contains("Guardrail \"good\" failed"), "{}", world.prompts[3].1);
    let bases: Vec<&str> = world
        .journal
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::Checkpointed {
                checkpoint: Checkpoint::Git { tree: Some(TreeId(tree)), .. },
            } => Some(tree.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(bases.first(), Some(&"start"));
}

#[test]
fn another_agent_may_compact() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        let is_other = request.agent.command == "librarian";
        assert_eq!(is_other, request.role == Role::Compact);
        finder(request, tree)
    }
    let mut recipe = remembering(MemoryPolicy::default());
    let librarian = AgentChoice::new(AgentKind::Text, "librarian");
    recipe.agents.insert(Role::Compact, librarian);
    let (world, outcome) = run(tasks(6), &recipe, script);
    assert_eq!((outcome, compactions(&world).len()), (Outcome::Complete, 1));
}

#[test]
fn the_memory_of_an_earlier_run_is_used() {
    let known = Memory {
        project_summary: "Old.".into(),
        unresolved_issues: vec!["the login is slow".into()],
        ..Memory::default()
    };
    let policy = MemoryPolicy { known: Some(Box::new(known)), ..MemoryPolicy::default() };
    let (world, _) = run(tasks(6), &remembering(policy), finder);
    let memory = state(&world).memory.expect("a memory");
    assert_eq!(memory.unresolved_issues, ["the login is slow"]);
    assert!(memory.is_carried_over("the login is slow"));
}

#[test]
fn a_death_at_any_call_gives_the_same_memory() {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        if request.role == Role::Compact && request.iteration.0 == 7 {
            return says("no");
        }
        finder(request, tree)
    }
    let recipe = remembering(MemoryPolicy { every_iterations: 3, ..MemoryPolicy::default() });
    let summarize = |world: &SharedWorld| {
        let state = state(world);
        let world = world.0.borrow();
        let published = world.memory.clone().map(|it| it.memory);
        let commits: Vec<String> = world.commits.iter().map(|it| it.1.clone()).collect();
        (state.memory, state.since_compaction, published, commits, world.tree.clone())
    };
    let (world, outcome) = run(tasks(8), &recipe, script);
    assert_eq!(outcome, Outcome::Complete);
    let (expect, calls) = (summarize(&world), world.0.borrow().calls);
    assert_eq!(compactions(&world).len(), 2);
    for die_at in (1..=calls).step_by(effort::choose_count(1, 29)) {
        let world = SharedWorld::new(script);
        world.0.borrow_mut().tasks = Some(list(tasks(8)));
        world.0.borrow_mut().die_at = Some(die_at);
        assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete, "{die_at}");
        assert_eq!(summarize(&world), expect, "{die_at}");
    }
}
