//! The engine in a scripted world: every rule of the loop, and a death at every port call.

use ralph_core::ports::AgentRequest;
use ralph_core::run_loop::fold::fold_events;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::{Event, Recorded};
use ralph_model::failure::FailureClass;
use ralph_model::gate::{Gate, GateKind, Severity};
use ralph_model::glob::Pattern;
use ralph_model::ids::Role;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{
    CommitPolicy, Completion, MessageAuthor, OnFailure, PromptSource, Recipe, Scm, ScmTask, Work,
};
use ralph_model::units::{Millis, Timestamp};
use ralph_testkit::world::{BEGINNING, ScriptedAction, SharedWorld};

fn gate(command: &str) -> Gate {
    Gate::for_command(GateKind::Test, command)
}

fn recipe(gates: Vec<Gate>) -> Recipe {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    Recipe { gates, ..Recipe::new(Work::Prompt(PromptSource::Text("base".into())), agent) }
}

fn with_scm(mut recipe: Recipe, tasks: Vec<ScmTask>) -> Recipe {
    recipe.landing.commit =
        CommitPolicy::Scm(Scm { command: "git".into(), tasks, message: MessageAuthor::Agent });
    recipe
}

fn says(text: &str) -> ScriptedAction {
    ScriptedAction { tree: None, text: text.into(), failure: None }
}

fn fails(class: FailureClass) -> ScriptedAction {
    ScriptedAction { tree: None, text: String::new(), failure: Some(class) }
}

/// Builds in the first iteration, passes the test in the second, and claims to be done in both.
fn steady(request: &AgentRequest, tree: &str) -> ScriptedAction {
    if request.role == Role::Message {
        return says("Add the thing");
    }
    let tree = match (tree.contains("built"), request.iteration.0) {
        (false, _) => "built",
        (true, _) => "built tested",
    };
    ScriptedAction { tree: Some(tree.into()), ..says("<response>DONE</response>") }
}

#[test]
fn a_claim_counts_only_when_the_gates_pass() {
    let world = SharedWorld::new(steady);
    let end = world.run_to_end(&recipe(vec![gate("built"), gate("tested")])).expect("it runs");
    assert_eq!(end, Outcome::Complete);
    let world = world.0.borrow();
    assert_eq!(
        world.prompts.iter().map(|(_, prompt)| prompt.as_str()).collect::<Vec<_>>(),
        [
            "base\n\nThese checks run after you, and all must pass:\n- `built`\n- `tested`",
            "base\n\nThese checks run after you, and all must pass:\n- `built`\n- `tested`\n\n## What failed\nGuardrail \"tested\" failed with exit code 1.\nOutput file: .ralph/guardrail_1_tested.log\nOutput (truncated):\nno tested",
        ]
    );
}

#[test]
fn crashes_are_repeated_and_then_end_the_run() {
    let world = SharedWorld::new(|_, _| fails(FailureClass::Crashed));
    let end = world.run_to_end(&recipe(Vec::new())).expect("it runs");
    assert!(matches!(end, Outcome::AgentFailed { asks: 4, .. }), "{end:?}");
    let waited = world.0.borrow().waited;
    assert!(
        (3 * 35_000 / 4..=5 * 35_000 / 4).contains(&waited),
        "5 + 10 + 20 s, jittered: {waited}"
    );
}

#[test]
fn a_usage_limit_is_waited_for_and_counts_nothing() {
    let world = SharedWorld::new(|request, _| match request.ask.0 {
        1 => fails(FailureClass::RateLimited { resets_at: Some(Timestamp(BEGINNING + 3_600_000)) }),
        _ => says("<response>DONE</response>"),
    });
    let mut recipe = recipe(Vec::new());
    recipe.limits.iterations = 1;
    recipe.retries.max = 0;
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
    let world = world.0.borrow();
    assert_eq!(world.waited, 3_600_000 - 1_000 + 1_000, "until a second past the reset");
    let state = fold_events(&world.journal).expect("it folds");
    assert_eq!(state.totals.waited, Millis(world.waited));
}

#[test]
fn a_limit_that_never_resets_ends_the_run() {
    let world = SharedWorld::new(|_, _| fails(FailureClass::RateLimited { resets_at: None }));
    let end = world.run_to_end(&recipe(Vec::new())).expect("it runs");
    assert!(matches!(end, Outcome::LimitTooLong { resets_at: None, .. }), "{end:?}");
    assert!(world.0.borrow().waited <= 360 * 60_000);
}

#[test]
fn a_reset_that_is_always_over_does_not_become_a_tight_loop() {
    let world = SharedWorld::new(|_, _| {
        fails(FailureClass::RateLimited { resets_at: Some(Timestamp(BEGINNING)) })
    });
    let end = world.run_to_end(&recipe(Vec::new())).expect("it runs");
    assert!(matches!(end, Outcome::LimitTooLong { .. }), "{end:?}");
    let calls = world.0.borrow().prompts.len();
    assert!(calls < 120, "{calls} calls in six hours");
}

#[test]
fn a_tree_surveyed_after_the_last_gate_is_not_surveyed_again() {
    let advisory = Gate { severity: Severity::Soft, ..gate("built") };
    for (gates, surveys) in [
        (vec![], 0),
        (vec![gate("built"), gate("tested")], 0),
        // There is no survey after a gate that cannot fail the work.
        (vec![gate("tested"), advisory], 1),
    ] {
        let world = SharedWorld::new(|_, _| ScriptedAction {
            tree: Some("built tested".into()),
            ..says("<response>DONE</response>")
        });
        let mut recipe = recipe(gates);
        recipe.protect = vec![Pattern::new("elsewhere").expect("a pattern")];
        recipe.landing.commit = CommitPolicy::Ralph;
        assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
        let world = world.0.borrow();
        assert_eq!(world.surveys, surveys);
        assert_eq!(world.commits[0].0, "built tested");
    }
}

#[test]
fn gates_run_again_on_what_a_gate_rewrote() {
    let works = |_: &AgentRequest, _: &str| ScriptedAction {
        tree: Some("built".into()),
        ..says("<response>DONE</response>")
    };
    let mut recipe = recipe(vec![gate("built"), gate("+formatted")]);
    recipe.landing.commit = CommitPolicy::Ralph;
    let undisturbed = SharedWorld::new(works);
    assert_eq!(undisturbed.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
    let expect = outcome_digest(&undisturbed);
    assert_eq!((expect.0[0].0.as_str(), expect.2), ("built formatted", 1));
    let checked = |world: &SharedWorld| {
        let world = world.0.borrow();
        let is_gate = |it: &&Recorded| matches!(it.event, Event::GateChecked { .. });
        world.journal.iter().filter(is_gate).count()
    };
    assert_eq!(checked(&undisturbed), 4);
    let calls = undisturbed.0.borrow().calls;
    for death in 1..=calls {
        let world = SharedWorld::new(works);
        world.0.borrow_mut().die_at = Some(death);
        assert_eq!(
            world.run_to_end(&recipe).expect("it runs"),
            Outcome::Complete,
            "at call {death}"
        );
        assert_eq!(outcome_digest(&world), expect, "died at call {death}");
    }

    recipe.gates = vec![gate("built"), gate("*stamped")];
    recipe.limits.iterations = 2;
    let world = SharedWorld::new(works);
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::IterationsUsedUp { limit: 2 });
    assert_eq!(world.0.borrow().commits.len(), 0, "what passed is never what is there");
    assert!(world.0.borrow().prompts[1].1.contains("change each time"));
}

#[test]
fn a_run_that_gave_up_tries_again_when_it_is_resumed() {
    let world = SharedWorld::new(|request, _| match request.ask.0 {
        1..=4 => fails(FailureClass::Crashed),
        _ => says("<response>DONE</response>"),
    });
    let end = world.run_to_end(&recipe(Vec::new())).expect("it runs");
    assert!(matches!(end, Outcome::AgentFailed { .. }), "{end:?}");
    assert_eq!(world.run_to_end(&recipe(Vec::new())).expect("it runs"), Outcome::Complete);
}

#[test]
fn a_message_that_was_missing_is_asked_for_again() {
    let world = SharedWorld::new(|request, _| match (request.role, request.ask.0) {
        (Role::Message, 2) => says("---"),
        (Role::Message, _) => says("Add it"),
        _ => ScriptedAction { tree: Some("built".into()), ..says("<response>DONE</response>") },
    });
    let recipe = with_scm(recipe(Vec::new()), vec![ScmTask::Commit]);
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
    assert_eq!(world.0.borrow().commits[0].1, "Add it");
}

/// The result of a run, whatever happened on the way.
fn outcome_digest(world: &SharedWorld) -> (Vec<(String, String)>, String, usize, Vec<String>) {
    let world = world.0.borrow();
    let commits =
        world.commits.iter().map(|(tree, message, _)| (tree.clone(), message.clone())).collect();
    (commits, world.tree.clone(), world.prompts.len(), world.scm.clone())
}

/// A death before the agent was reached costs one call more; after its answer was received it
/// must cost none.
#[test]
fn a_death_at_any_port_call_changes_nothing() {
    let push = ScmTask::Run(vec!["push".into()]);
    let mut scm =
        with_scm(recipe(vec![gate("built"), gate("tested")]), vec![ScmTask::Commit, push]);
    scm.retries.backoff = Millis::ZERO;
    let mut rolling = recipe(vec![gate("tested")]);
    rolling.landing.on_failure = OnFailure::Rollback;
    rolling.limits.iterations = 3;
    for recipe in [scm, rolling] {
        let undisturbed = SharedWorld::new(steady);
        let end = undisturbed.run_to_end(&recipe).expect("it runs");
        let expect = outcome_digest(&undisturbed);
        let calls = undisturbed.0.borrow().calls;
        for death in 1..=calls {
            let world = SharedWorld::new(steady);
            world.0.borrow_mut().die_at = Some(death);
            assert_eq!(world.run_to_end(&recipe).expect("it runs"), end, "died at call {death}");
            let mut found = outcome_digest(&world);
            // A push may be repeated; it does nothing the second time.
            found.3.dedup();
            assert_eq!(found, expect, "died at call {death}");
        }
    }
}

/// Work within a scope that only gates complete.
fn gated(scope: &str) -> Recipe {
    let mut recipe = recipe(vec![gate("built"), gate("tested")]);
    recipe.role = Role::Plan;
    recipe.completion = Completion::Gates;
    recipe.landing.commit = CommitPolicy::Ralph;
    recipe.scope = vec![Pattern::for_path(scope).expect("a pattern")];
    recipe
}

#[test]
fn gates_can_complete_the_work_without_a_signal() {
    let world = SharedWorld::new(|_, tree| {
        let tree = if tree.contains("built") { "built tested" } else { "built" };
        ScriptedAction { tree: Some(tree.into()), ..says("Hm.") }
    });
    assert_eq!(world.run_to_end(&gated("tree")).expect("it runs"), Outcome::Complete);
    let world = world.0.borrow();
    let roles: Vec<Role> = world.prompts.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, [Role::Plan, Role::Plan]);
    assert!(world.prompts[1].1.contains("no tested"), "{:?}", world.prompts);
    assert_eq!(world.commits.len(), 1);
    assert!(world.commits[0].1.starts_with("ralph[2]: plan"), "{:?}", world.commits);
}

#[test]
fn work_outside_its_scope_is_reverted_and_reported() {
    let editing_agent = |_: &AgentRequest, _: &str| ScriptedAction {
        tree: Some("built tested".into()),
        ..says("Hm.")
    };
    let mut recipe = gated("plan.json");
    recipe.limits.iterations = 2;
    let undisturbed = SharedWorld::new(editing_agent);
    undisturbed.run_to_end(&recipe).expect("it runs");
    let calls = undisturbed.0.borrow().calls;
    for death in 0..=calls {
        let world = SharedWorld::new(editing_agent);
        world.0.borrow_mut().die_at = Some(death);
        let end = world.run_to_end(&recipe).expect("it runs");
        assert_eq!(end, Outcome::IterationsUsedUp { limit: 2 }, "died at call {death}");
        let world = world.0.borrow();
        assert_eq!((world.tree.as_str(), world.commits.len()), ("start", 0), "at call {death}");
        let feedback = "Only these paths may be changed:\n- plan.json\nThese were changed too";
        let last = world.prompts.last().expect("a prompt");
        assert!(last.1.contains(feedback), "died at call {death}: {}", last.1);
    }
}
