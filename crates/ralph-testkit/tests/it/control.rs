//! Control requests in a scripted world: pauses, stops, skips and notes, and a death at every
//! port call.

use ralph_core::ports::AgentRequest;
use ralph_core::run_loop::control::MAX_NOTE_CHARS;
use ralph_core::run_loop::fold::fold_events;
use ralph_model::control::{ControlRequest, ControlRequestId, SubmittedRequest};
use ralph_model::event::Event;
use ralph_model::ids::{Role, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{Recipe, TaskWork};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::TaskStatus;
use ralph_model::units::{Millis, Timestamp};
use ralph_testkit::effort;
use ralph_testkit::world::{BEGINNING, ScriptedAction, SharedWorld};
use serde_json::json;

use crate::tasks::{gate, handoff, honest, list, recipe, says, statuses, subjects, task, work};

/// An agent takes a second, so this is in the middle of the first call.
const DURING_FIRST: i64 = 500;

fn asked(after: i64, request: ControlRequest) -> SubmittedRequest {
    let id = ControlRequestId(format!("{after:015}-{}", request.describe()));
    SubmittedRequest { id, at: Timestamp(BEGINNING + after), by: Some("ann".into()), request }
}

fn skip(after: i64, name: &str) -> SubmittedRequest {
    asked(after, ControlRequest::Skip { task: TaskId(name.into()) })
}

fn note(after: i64, text: &str) -> SubmittedRequest {
    asked(after, ControlRequest::Note { text: text.into() })
}

/// Returns a world with two tasks, of which `a` never passes its gate.
fn world(requests: &[SubmittedRequest]) -> SharedWorld {
    fn script(request: &AgentRequest, tree: &str) -> ScriptedAction {
        if request.task.as_ref().is_some_and(|task| task.0 == "a") {
            let tree = Some(format!("{tree} bad{}", request.iteration));
            return ScriptedAction { tree, ..says(handoff("a", &json!({}))) };
        }
        honest(request, tree)
    }
    let world = SharedWorld::new(script);
    world.0.borrow_mut().tasks = Some(list(vec![task("a", &[]), task("good", &[])]));
    world.0.borrow_mut().inbox = requests.to_vec();
    world
}

fn stubborn() -> Recipe {
    let mut recipe = recipe(TaskWork { attempts: 3, ..work() }, vec![gate("good")]);
    recipe.limits.delay = Millis(10_000);
    recipe
}

/// Runs undisturbed, and then with a death at every port call.
fn every_death(
    recipe: &Recipe,
    requests: &[SubmittedRequest],
    check: impl Fn(&SharedWorld, Outcome, Option<u64>),
) -> SharedWorld {
    let calm = world(requests);
    let outcome = calm.run_to_end(recipe).expect("it runs");
    check(&calm, outcome, None);
    let calls = calm.0.borrow().calls;
    for death in (1..=calls).step_by(effort::choose_count(1, 7)) {
        let world = world(requests);
        world.0.borrow_mut().die_at = Some(death);
        let outcome = world.run_to_end(recipe).expect("it runs");
        check(&world, outcome, Some(death));
    }
    calm
}

fn events(world: &SharedWorld, is_it: impl Fn(&Event) -> bool) -> usize {
    world.0.borrow().journal.iter().filter(|recorded| is_it(&recorded.event)).count()
}

fn refusals(world: &SharedWorld) -> Vec<String> {
    let world = world.0.borrow();
    let refused = world.journal.iter().filter_map(|recorded| match &recorded.event {
        Event::ControlRequested { refused, .. } => refused.clone(),
        _ => None,
    });
    refused.collect()
}

fn notes_of(world: &SharedWorld, task: usize) -> String {
    world.0.borrow().tasks.as_ref().expect("a list").tasks[task].notes.clone()
}

#[test]
fn a_task_is_skipped_in_the_middle_of_its_work_and_the_work_is_kept() {
    // In the first call, in the second, and between the two.
    for (after, tree) in
        [(DURING_FIRST, "start bad1"), (11_500, "start bad1 bad2"), (5_000, "start bad1")]
    {
        every_death(&stubborn(), &[skip(after, "a")], |world, outcome, death| {
            let when = format!("asked after {after}, died at {death:?}");
            assert_eq!(outcome, Outcome::Complete, "{when}");
            let expect = [("a", TaskStatus::Skipped), ("good", TaskStatus::Done)];
            assert_eq!(statuses(world), expect.map(|(id, it)| (id.to_owned(), it)), "{when}");
            let notes = notes_of(world, 0);
            assert!(
                notes.starts_with("skipped by ann; its work is on wip/ralph-fail-a-"),
                "{notes}"
            );
            let world = world.0.borrow();
            let branches: Vec<&str> =
                world.failure_branches.iter().map(|(tree, _)| tree.as_str()).collect();
            assert_eq!(branches, [tree], "{when}");
            assert_eq!(world.tree, "start good", "{when}");
            assert_eq!(world.inbox, [], "{when}");
        });
    }
}

#[test]
fn a_task_without_work_is_skipped_without_a_branch() {
    every_death(&stubborn(), &[skip(0, "a"), skip(0, "good")], |world, outcome, death| {
        assert_eq!(outcome, Outcome::Complete, "{death:?}");
        assert!(statuses(world).iter().all(|(_, status)| *status == TaskStatus::Skipped));
        assert_eq!(notes_of(world, 1), "skipped by ann");
        let world = world.0.borrow();
        assert_eq!((world.failure_branches.len(), world.prompts.len()), (0, 0), "{death:?}");
    });
}

#[test]
fn a_task_that_lands_first_is_done_and_not_skipped() {
    let calm = every_death(&stubborn(), &[skip(DURING_FIRST, "a")], |_, _, _| {});
    // `good` takes its second and is checked, judged and committed with no time passing.
    let landed = calm.0.borrow().now - BEGINNING;
    let world = world(&[skip(DURING_FIRST, "a"), skip(landed, "good")]);
    assert_eq!(world.run_to_end(&stubborn()).expect("it runs"), Outcome::Complete);
    let [(_, first), (_, second)] = &statuses(&world)[..] else { panic!("two tasks") };
    assert_eq!(*first, TaskStatus::Skipped);
    assert!(matches!(second, TaskStatus::Skipped | TaskStatus::Done));
}

#[test]
fn an_open_review_is_closed_when_its_task_is_skipped() {
    let review = ReviewPolicy::Fresh { cap: 5 };
    let recipe = recipe(TaskWork { review, ..work() }, vec![gate("start")]);
    // The first task is implemented in the first second and reviewed in the next.
    let world = SharedWorld::new(honest);
    world.0.borrow_mut().tasks = Some(list(vec![task("a", &[]), task("good", &[])]));
    world.0.borrow_mut().inbox = vec![skip(1_500, "a")];
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Complete);
    let review = world.0.borrow().prompts[1].0;
    assert_eq!(review, Role::Review);
    assert_eq!(statuses(&world)[0].1, TaskStatus::Skipped);
    assert_eq!(subjects(&world)[0], "ralph[1]: a — The a");
    assert_eq!(world.0.borrow().failure_branches.len(), 0, "what was reviewed is committed");
}

#[test]
fn a_note_is_in_one_prompt_whatever_happens() {
    let requests = [note(DURING_FIRST, "Use tabs."), note(700, "And `$$` stays.")];
    every_death(&stubborn(), &requests, |world, _, death| {
        let world = world.0.borrow();
        let found: Vec<usize> = (world.prompts.iter().enumerate())
            .filter(|(_, (_, prompt))| prompt.contains("# A note from ann\n\nUse tabs."))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(found, [1], "died at {death:?}");
        let second = &world.prompts[1].1;
        assert!(second.contains("# A note from ann\n\nAnd `$$` stays."), "{second}");
        assert!(second.contains("Guardrail \"good\" failed"), "the failure is reported as well");
    });
}

#[test]
fn a_pause_costs_no_running_time_and_ends_on_request() {
    let requests =
        [asked(DURING_FIRST, ControlRequest::Pause), asked(900_000, ControlRequest::Resume)];
    let undisturbed = world(&[]);
    let expect = undisturbed.run_to_end(&stubborn()).expect("it runs");
    let calm = every_death(&stubborn(), &requests, |world, outcome, death| {
        assert_eq!(outcome, expect, "died at {death:?}");
        assert_eq!(world.0.borrow().ran, undisturbed.0.borrow().ran, "died at {death:?}");
    });
    assert_eq!(events(&calm, |event| *event == Event::Paused), 1);
    let state = fold_events(&calm.0.borrow().journal).expect("it folds");
    assert_eq!(state.totals.paused, Millis(900_000 - 1_000));
}

#[test]
fn a_paused_run_can_be_stopped_by_a_request_and_by_a_signal() {
    for by_signal in [true, false] {
        let world = world(&[asked(DURING_FIRST, ControlRequest::Pause), note(2_000, "Later.")]);
        if by_signal {
            world.0.borrow_mut().stop_at = Some(BEGINNING + 60_000);
        } else {
            world.0.borrow_mut().inbox.push(asked(60_000, ControlRequest::Stop));
        }
        assert_eq!(world.run_to_end(&stubborn()).expect("it runs"), Outcome::Interrupted);
        assert_eq!(world.0.borrow().now, BEGINNING + 60_000);
        world.0.borrow_mut().stop_at = None;
        // The pause is over in the resumed run, and the note is still there.
        world.run_to_end(&stubborn()).expect("it runs");
        assert!(world.0.borrow().prompts[1].1.contains("# A note from ann\n\nLater."));
    }
}

#[test]
fn a_stop_that_came_too_late_does_not_stop_the_resumed_run() {
    let world = world(&[asked(DURING_FIRST, ControlRequest::Stop)]);
    let mut recipe = stubborn();
    assert_eq!(world.run_to_end(&recipe).expect("it runs"), Outcome::Interrupted);
    assert_eq!(world.0.borrow().prompts.len(), 1);
    world.0.borrow_mut().inbox =
        vec![asked(600, ControlRequest::Stop), asked(601, ControlRequest::Pause)];
    recipe.limits.iterations = 9;
    assert!(matches!(world.run_to_end(&recipe).expect("it runs"), Outcome::TasksLeft { .. }));
    let late = "the run ended and was resumed since";
    assert_eq!(refusals(&world), [late, late]);
}

#[test]
fn impossible_requests_are_refused_and_reported() {
    let long = "x".repeat(MAX_NOTE_CHARS + 1);
    let requests = [
        asked(1, ControlRequest::Resume),
        skip(2, "nowhere"),
        note(3, &long),
        note(4, " "),
        asked(5, ControlRequest::Pause),
        asked(6, ControlRequest::Pause),
        asked(7, ControlRequest::Resume),
        skip(8, "a"),
        skip(9, "a"),
    ];
    let world = world(&requests);
    world.run_to_end(&stubborn()).expect("it runs");
    assert_eq!(
        refusals(&world),
        [
            "the run is not paused",
            "there is no such task",
            "it is too long",
            "it is empty",
            "that was requested before",
            "that was requested before",
        ]
    );
    assert_eq!(events(&world, |event| *event == Event::Paused), 0, "resumed before it began");
    assert_eq!(
        events(&world, |event| matches!(event, Event::ControlRequested { .. })),
        requests.len()
    );
}
