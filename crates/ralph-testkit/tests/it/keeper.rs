//! Task lists that the agent owns, in a scripted world: agents that make arbitrary changes to the
//! list, and a death at every port call.

use std::collections::BTreeMap;

use ralph_core::ports::AgentRequest;
use ralph_core::run_loop::fold::fold_events;
use ralph_core::tasks::rules;
use ralph_model::event::Event;
use ralph_model::ids::{Role, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{Recipe, TaskWork};
use ralph_model::review::{ReviewPolicy, ReviewState, ReviewStatus};
use ralph_model::task::{ListOwner, Task, TaskList, TaskStatus};
use ralph_testkit::effort;
use ralph_testkit::world::{ListScript, ScriptedAction, SharedWorld};

use crate::tasks::{gate, list, recipe, says, statuses, subjects, task};

const CAP: u32 = 3;

fn kept(review: ReviewPolicy) -> Recipe {
    let work = TaskWork {
        keeper: ListOwner::Agent,
        review,
        attempts: 3,
        ..TaskWork::new("/project/plan.json")
    };
    let mut recipe = recipe(work, vec![gate("start")]);
    recipe.limits.iterations = 60;
    recipe
}

/// Works, and gives an answer without meaning.
fn worker(request: &AgentRequest, tree: &str) -> ScriptedAction {
    match request.role {
        Role::Review => says("approved, approved, <promise>COMPLETE</promise>"),
        _ => {
            ScriptedAction { tree: Some(format!("{tree} {}", request.iteration)), ..says("did it") }
        }
    }
}

fn its_task<'a>(request: &AgentRequest, list: &'a mut TaskList) -> Option<&'a mut Task> {
    let id = request.task.as_ref()?;
    list.tasks.iter_mut().find(|task| task.id == *id)
}

/// Does what its role requires.
fn honestly(request: &AgentRequest, list: &mut TaskList) {
    let Some(task) = its_task(request, list) else { return };
    if request.role == Role::Review {
        task.review.count += 1;
        task.review.status = ReviewStatus::Approved;
        task.status = TaskStatus::Done;
    } else {
        task.review.status = ReviewStatus::NeedsReview;
        task.review.feedback.clear();
        task.notes = "did it".into();
    }
}

fn run(tasks: TaskList, recipe: &Recipe, keeping: ListScript, seed: u64) -> (SharedWorld, Outcome) {
    let world = SharedWorld::new(worker);
    {
        let mut world = world.0.borrow_mut();
        (world.tasks, world.list_script, world.seed) = (Some(tasks), Some(keeping), seed);
    }
    let outcome = world.run_to_end(recipe).expect("it runs");
    (world, outcome)
}

fn three() -> TaskList {
    list(vec![task("a", &[]), task("b", &[]), task("c", &["a"])])
}

#[test]
fn a_death_anywhere_changes_nothing() {
    fn keeping(request: &AgentRequest, _seed: u64, list: &mut TaskList) {
        match (request.iteration.0, request.role) {
            // Approves itself, and everything else with it.
            (1, _) => list.tasks.iter_mut().for_each(|task| {
                task.status = TaskStatus::Done;
                task.review.status = ReviewStatus::Approved;
                task.notes = "done".into();
            }),
            // Asks for changes, and throws away a task on the way.
            (3, Role::Review) => {
                if let Some(task) = its_task(request, list) {
                    let feedback = "more".to_owned();
                    task.review =
                        ReviewState { status: ReviewStatus::ChangesRequested, count: 1, feedback };
                }
                list.tasks.retain(|task| task.id.0 != "b");
            }
            (_, _) => honestly(request, list),
        }
    }
    let recipe = kept(ReviewPolicy::Fresh { cap: CAP });
    let (calm, expected) = run(three(), &recipe, keeping, 0);
    assert_eq!(expected, Outcome::Complete);
    let calls = calm.0.borrow().calls;
    assert!(calls > 100, "{calls}");
    for die_at in (1..=calls).step_by(effort::choose_count(1, 17)) {
        let world = SharedWorld::new(worker);
        {
            let mut world = world.0.borrow_mut();
            (world.tasks, world.die_at) = (Some(three()), Some(die_at));
            world.list_script = Some(keeping);
        }
        let outcome = world.run_to_end(&recipe).expect("it runs");
        assert_eq!(outcome, expected, "dead at {die_at}");
        assert_eq!(subjects(&world), subjects(&calm), "dead at {die_at}");
        assert_eq!(statuses(&world), statuses(&calm), "dead at {die_at}");
        assert_eq!(world.0.borrow().tree, calm.0.borrow().tree, "dead at {die_at}");
    }
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let sides = u64::try_from(all.len()).unwrap_or(1);
        all[usize::try_from(self.roll(sides)).unwrap_or(0)]
    }
}

/// Makes arbitrary changes to the list, and sometimes the right ones.
fn wildly(request: &AgentRequest, seed: u64, list: &mut TaskList) {
    let mut dice = Dice(seed ^ (u64::from(request.iteration.0) << 20) ^ u64::from(request.ask.0));
    dice.roll(2);
    if dice.roll(3) > 0 {
        honestly(request, list);
    }
    for _ in 0..dice.roll(4) {
        let place = usize::try_from(dice.roll(4)).unwrap_or(0);
        let number = u32::try_from(dice.roll(5)).unwrap_or(0);
        match dice.roll(9) {
            0 if place < list.tasks.len() => drop(list.tasks.remove(place)),
            1 => list.tasks.push(Task {
                status: dice.one_of(&TaskStatus::ALL),
                description: "new".into(),
                acceptance_criteria: vec!["it is".into()],
                ..Task::new(format!("n{}-{number}", request.iteration), "New")
            }),
            2 => list.verify_commands = vec!["true".into()],
            kind => {
                let Some(task) = list.tasks.get_mut(place) else { continue };
                match kind {
                    3 => task.status = dice.one_of(&TaskStatus::ALL),
                    4 => task.review.status = dice.one_of(&ReviewStatus::ALL),
                    5 => task.review.count = number,
                    6 => task.review.feedback = "something".into(),
                    7 => task.acceptance_criteria = vec!["it exists".into()],
                    _ => task.attempts = number,
                }
            }
        }
    }
}

#[test]
fn whatever_agents_do_to_the_list_nothing_illegal_survives() {
    let (mut complete, mut refused) = (0, 0);
    let seeds = effort::choose_count(150, 30);
    for seed in 0..seeds as u64 {
        let review =
            if seed % 4 == 0 { ReviewPolicy::Skip } else { ReviewPolicy::Fresh { cap: CAP } };
        let (world, outcome) = run(three(), &kept(review), wildly, seed * 7919);
        let world = world.0.borrow();
        complete += usize::from(outcome == Outcome::Complete);
        // The file matches the state of the run.
        let state = fold_events(&world.journal).expect("it folds");
        let task_state = state.tasks.as_ref().expect("a task list");
        assert_eq!(world.tasks.as_ref(), Some(&task_state.list), "seed {seed}");
        // Tasks are done according to the rules, and by the roles that may do so.
        assert_eq!(rules::find_contradictions(&task_state.list, review), [], "seed {seed}");
        let first = three();
        for task in &first.tasks {
            let now = task_state.list.find_task(&task.id).expect("nothing is thrown away");
            assert_eq!(now.acceptance_criteria, task.acceptance_criteria, "seed {seed}");
        }
        let mut approved: BTreeMap<TaskId, Role> = BTreeMap::new();
        for prefix in 1..=world.journal.len() {
            let event = &world.journal[prefix - 1].event;
            if let Event::AgentListRead { diff: claim } = event {
                refused += claim.refused.len();
            }
            if !matches!(event, Event::IterationEnded { .. }) {
                continue;
            }
            let before = fold_events(&world.journal[..prefix - 1]).expect("it folds");
            let after = fold_events(&world.journal[..prefix]).expect("it folds");
            let role = before.current.as_ref().map_or(Role::Prompt, |current| current.role);
            let its_own = before.current.as_ref().and_then(|current| current.task.clone());
            let lists =
                (before.tasks.expect("a task list").list, after.tasks.expect("a task list").list);
            for task in &lists.1.tasks {
                let old = lists.0.find_task(&task.id);
                let was_done = old.is_some_and(|old| old.status == TaskStatus::Done);
                if task.status == TaskStatus::Done && !was_done {
                    assert_eq!(Some(&task.id), its_own.as_ref(), "seed {seed}: {event:?}");
                    approved.insert(task.id.clone(), role);
                }
                let counts = old.map_or(0, |old| old.review.count);
                if task.review.count != counts {
                    assert_eq!(
                        (role, task.review.count),
                        (Role::Review, counts + 1),
                        "seed {seed}"
                    );
                }
            }
        }
        for (task, role) in approved {
            let expected =
                if review == ReviewPolicy::Skip { Role::Implement } else { Role::Review };
            assert_eq!(role, expected, "seed {seed}: {task}");
        }
    }
    // Both outcomes must occur.
    assert!(complete > seeds / 10 && complete < seeds, "{complete}");
    assert!(refused > seeds * 2, "{refused}");
}
