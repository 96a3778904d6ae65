//! What is written down for the hooks before each call to an agent, in a scripted world.

use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::glob::Pattern;
use ralph_model::hook_state::{Committer, make_session_id};
use ralph_model::ids::{AskNumber, IterationNumber, Role, TaskId};
use ralph_model::list_snapshot::ListSnapshot;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{CommitPolicy, PromptSource, Recipe, TaskWork, Work};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{ListOwner, Task, TaskList};
use ralph_testkit::world::{ScriptedAction, SharedWorld};

fn agent() -> AgentChoice {
    AgentChoice::new(AgentKind::Text, "agent")
}

/// Does its task, approves every review.
fn honest(request: &AgentRequest, tree: &str) -> ScriptedAction {
    let (tree, text) = match request.role {
        Role::Review => (None, crate::tasks::APPROVED),
        _ => (Some(format!("{tree} more")), "<response>DONE</response>"),
    };
    ScriptedAction { tree, text: text.to_owned(), failure: None }
}

fn list() -> TaskList {
    let task = Task {
        description: "d".into(),
        acceptance_criteria: vec!["c".into()],
        ..Task::new("US-1", "The first")
    };
    TaskList { tasks: vec![task], ..TaskList::default() }
}

#[test]
fn the_hooks_know_of_each_call_before_it_begins() {
    let work = TaskWork {
        review: ReviewPolicy::Fresh { cap: 4 },
        keeper: ListOwner::Agent,
        ..TaskWork::new("ralph/tasks.json")
    };
    let mut recipe = Recipe::new(Work::Tasks(work), agent());
    recipe.landing.commit = CommitPolicy::Ralph;
    let world = SharedWorld::new(honest);
    world.0.borrow_mut().tasks = Some(list());
    world.run_to_end(&recipe).expect("it runs");
    let world = world.0.borrow();
    assert_eq!(world.active.len(), world.prompts.len());
    let first = &world.active[0];
    assert_eq!(first.iteration_mode.as_deref(), Some("implement"));
    assert_eq!((first.iteration, first.max_iterations), (Some(IterationNumber(1)), Some(10)));
    assert_eq!((first.skip_review, first.review_cap), (false, Some(4)));
    assert_eq!(first.task, Some(TaskId("US-1".into())));
    assert_eq!(first.title.as_deref(), Some("The first"));
    assert_eq!(first.tasks_file.as_deref(), Some("/project/ralph/tasks.json".as_ref()));
    assert_eq!((first.keeper, first.commit), (Some(ListOwner::Agent), Some(Committer::Ralph)));
    let session = make_session_id(&first.run, IterationNumber(1), AskNumber(1));
    assert_eq!(first.session.as_ref(), Some(&session));
    let snapshot = first.pre_iteration_snapshot.as_ref().expect("there is one");
    let asks = |snapshot: &ListSnapshot| snapshot.0[&TaskId("US-1".into())].requirements.clone();
    assert_eq!(asks(snapshot), asks(&ListSnapshot::from_list(&list())));
}

#[test]
fn what_a_task_names_is_not_kept_from_it() {
    let mut recipe = Recipe::new(Work::Tasks(TaskWork::new("ralph/tasks.json")), agent());
    let patterns =
        ["/check.sh", "/other.sh", "tests/**"].map(|glob| Pattern::new(glob).expect("a glob"));
    recipe.protect = patterns.to_vec();
    let world = SharedWorld::new(honest);
    let mut list = list();
    list.tasks[0].title = "Extend check.sh and tests/**".into();
    world.0.borrow_mut().tasks = Some(list);
    world.run_to_end(&recipe).expect("it runs");
    assert_eq!(world.0.borrow().active[0].protect, patterns[1..]);
}

#[test]
fn a_run_over_a_prompt_says_what_there_is() {
    let work = Work::Prompt(PromptSource::Text("do it".into()));
    let world = SharedWorld::new(honest);
    assert_eq!(world.run_to_end(&Recipe::new(work, agent())).expect("it runs"), Outcome::Complete);
    let world = world.0.borrow();
    let only = &world.active[0];
    assert_eq!(only.role(), Some(Role::Prompt));
    assert_eq!((&only.task, &only.tasks_file, only.keeper), (&None, &None, None));
    assert_eq!(only.commit, Some(Committer::NoCommit));
    assert_eq!(only.pre_iteration_snapshot, None);
}
