//! Work by a plan that the agent maintains: the plan is never lost, uncommitted changes are
//! reported, and a claim of completion is checked against the plan.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::event::Event;
use ralph_model::ids::Role;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{
    CommitPolicy, PlanFile, PlanPart, PromptSource, Recipe, RunPrompt, Template, TemplatePlace,
    Uncommitted, Work,
};
use ralph_model::run::IterationMark;
use ralph_testkit::world::{ScriptedAction, ScriptedWorld, SharedWorld, WorldScript};

const PLAN: &str = "- [ ] one\n- [ ] two\n";

fn recipe(part: PlanPart) -> Recipe {
    let place = TemplatePlace::Named(match part {
        PlanPart::Makes => RunPrompt::PlanSpecs,
        PlanPart::Follows => RunPrompt::Build,
    });
    let template = Template { place, values: BTreeMap::new() };
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let mut recipe = Recipe::new(Work::Prompt(PromptSource::Template(template)), agent);
    recipe.plan = Some(PlanFile { file: "plan.md".into(), part });
    recipe.role = match part {
        PlanPart::Makes => Role::Plan,
        PlanPart::Follows => Role::Build,
    };
    recipe.completion_response = String::from("COMPLETE");
    recipe.landing.commit = CommitPolicy::Agent;
    recipe.limits.iterations = 5;
    recipe
}

/// A world with a short template, in which the agent claims to be done from some iteration on.
fn world(plan: Option<&str>, doing: WorldScript) -> SharedWorld {
    let world = SharedWorld::new(|request: &AgentRequest, _| ScriptedAction {
        tree: None,
        text: if request.iteration.0 == 1 { "On it." } else { "<promise>COMPLETE</promise>" }
            .into(),
        failure: None,
    });
    {
        let mut world = world.0.borrow_mut();
        world.plan = plan.map(str::to_owned);
        world.world_script = Some(doing);
        for name in ["plan", "build"] {
            let text = "${MODE} ${ITERATION}: ${SIGNAL} ${TYPO}".to_owned();
            world.templates.insert(name.to_owned(), Ok(text));
        }
    }
    world
}

/// Commits everything, as an agent does.
fn commit(request: &AgentRequest, world: &mut ScriptedWorld, tree: &str) {
    let mark = IterationMark { run: request.run.clone(), iteration: request.iteration, task: None };
    world.tree = String::from(tree);
    if world.commits.last().is_none_or(|commit| commit.0 != tree) {
        world.commits.push((tree.to_owned(), "the agent's".to_owned(), mark));
        world.foreign_commits += 1;
    }
}

fn prompts(world: &SharedWorld) -> Vec<String> {
    world.0.borrow().prompts.iter().map(|(_, prompt)| prompt.clone()).collect()
}

fn warnings(world: &SharedWorld) -> Vec<String> {
    let world = world.0.borrow();
    let warned = world.journal.iter().filter_map(|recorded| match &recorded.event {
        Event::Warned { text } => Some(text.clone()),
        _ => None,
    });
    warned.collect()
}

const TYPO: &str = "unknown variable `${TYPO}` in build.md";

const UNCHECKED: &str =
    "nothing but the agent's word supports 1 marked item of the plan (no gate, no review)";

#[test]
fn uncommitted_changes_are_reported_and_keep_the_work_open() {
    let world = world(Some("- [x] one\n"), |request, world| match request.iteration.0 {
        1 | 2 => world.tree = "half".to_owned(),
        _ => commit(request, world, "whole"),
    });
    assert_eq!(world.run_to_end(&recipe(PlanPart::Follows)).expect("it runs"), Outcome::Complete);
    let feedback = "\n\n## What failed\nThe previous iteration did not hand in its work correctly:\nThere are uncommitted changes in the work tree. Commit everything that belongs to the work, and leave nothing behind:\n  tree";
    let base = |at: u32| format!("build {at}: <promise>COMPLETE</promise> ${{TYPO}}");
    let expect = [base(1), format!("{}{feedback}", base(2)), format!("{}{feedback}", base(3))];
    assert_eq!(prompts(&world), expect);
    assert_eq!(warnings(&world), [TYPO, UNCHECKED]);
}

#[test]
fn uncommitted_changes_are_only_reported_if_the_prompt_decides() {
    let world = world(Some("- [x] one\n"), |_, world| world.tree = "half".to_owned());
    let mut recipe = recipe(PlanPart::Follows);
    recipe.landing.uncommitted = Uncommitted::Reported;
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
    let feedback = "The previous iteration left uncommitted changes in the work tree. Commit them if the prompt wants that:\n  tree";
    assert!(prompts(&world)[1].ends_with(feedback), "{:?}", prompts(&world));
    let left = "uncommitted changes are left in the work tree";
    assert_eq!(warnings(&world), [TYPO, UNCHECKED, left]);
}

#[test]
fn without_a_plan_no_agent_is_called() {
    let world = world(None, |_, _| {});
    assert_eq!(
        world.run_to_end(&recipe(PlanPart::Follows)).expect("it runs"),
        Outcome::PlanMissing
    );
    assert_eq!(prompts(&world), [""; 0]);
}

#[test]
fn a_claim_that_the_plan_contradicts_is_believed_the_second_time() {
    let world = world(Some(PLAN), |_, _| {});
    assert_eq!(world.run_to_end(&recipe(PlanPart::Follows)).expect("it runs"), Outcome::Complete);
    let prompts = prompts(&world);
    assert_eq!(prompts.len(), 3);
    let feedback = "You said that the work is complete, but 2 items are open in `plan.md`:\n  - [ ] one\n  - [ ] two\nDo them, or remove items that are no longer needed and note why there; then report completion again.";
    assert!(prompts[2].ends_with(feedback), "{}", prompts[2]);
    let expect = "the agent reported twice that all is done; 2 items of its plan left open";
    assert_eq!(warnings(&world), [TYPO, expect]);
}

#[test]
fn a_death_at_any_port_call_changes_nothing() {
    let doing: WorldScript = |request, world| match request.iteration.0 {
        1 => {
            world.tree = "half".to_owned();
            world.plan = None;
        }
        2 => {
            commit(request, world, "whole");
            world.plan = Some("- [x] one\n- [ ] two\n".to_owned());
        }
        _ => commit(request, world, "whole and more"),
    };
    let essence = |shared: &SharedWorld| {
        let world = shared.0.borrow();
        let last = world.journal.last().map(|recorded| recorded.event.clone());
        (world.plan.clone(), world.tree.clone(), world.commits.len(), last)
    };
    let calm = world(Some(PLAN), doing);
    let end = calm.run_to_end(&recipe(PlanPart::Follows)).expect("it runs");
    assert_eq!(end, Outcome::Complete);
    let calls = calm.0.borrow().calls;
    for death in 1..=calls {
        let world = world(Some(PLAN), doing);
        world.0.borrow_mut().die_at = Some(death);
        assert_eq!(world.run_to_end(&recipe(PlanPart::Follows)).expect("it runs"), end, "{death}");
        assert_eq!(essence(&world), essence(&calm), "died at call {death}");
    }
}
