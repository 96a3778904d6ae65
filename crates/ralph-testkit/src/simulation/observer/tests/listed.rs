//! What must not happen to the task list: by event, role and list owner, and in the file.

use ralph_model::event::Event;
use ralph_model::gate::GateStatus;
use ralph_model::ids::Role;
use ralph_model::outcome::Outcome;
use ralph_model::review::{ReviewState, ReviewStatus};
use ralph_model::task::{TaskChange, TaskFields, TaskStatus};

use super::{Forged, done, plan};
use crate::simulation::agent_action::IntendedVerdict;
use crate::simulation::observer::Invariant;
use crate::simulation::plan::{SimulatedWorkflow, SimulationPlan};
use crate::simulation::recipe::{TASKS, build_list, format_task_id};
use crate::simulation::repository::FileContent;

fn status(place: usize, status: TaskStatus) -> TaskChange {
    TaskChange::SetStatus { task: format_task_id(place), status }
}

fn review(status: ReviewStatus, count: u32) -> TaskChange {
    let feedback = String::new();
    TaskChange::SetReview {
        task: format_task_id(0),
        review: ReviewState { status, count, feedback },
    }
}

/// Records an iteration on the first task that makes these changes to the list.
#[track_caller]
fn check(plan: &SimulationPlan, role: Role, changes: Vec<TaskChange>, message: &str) {
    let mut forged = Forged::new(plan);
    forged.begin(1, role);
    forged.answer(role, false, IntendedVerdict::Nothing);
    forged.gate(GateStatus::Passed, true);
    forged.expect_violation(None);
    forged.end(changes);
    forged.expect_message(Invariant::Transitions, message);
}

#[test]
fn forbidden_list_changes_of_an_iteration_are_found() {
    let (tasks, stories) = (plan(SimulatedWorkflow::Tasks), plan(SimulatedWorkflow::Stories));
    let reviewed = SimulationPlan { review: Some(3), ..tasks.clone() };
    let words = |place| TaskChange::Modify {
        task: format_task_id(place),
        fields: Box::new(TaskFields {
            acceptance_criteria: Some(vec!["Nothing".into()]),
            ..TaskFields::default()
        }),
    };
    let implement = Role::Implement;
    let gone = |place| vec![TaskChange::Remove { task: format_task_id(place) }];
    check(&tasks, implement, gone(0), "task-0 was removed");
    check(&stories, implement, gone(1), "the agent removed task-1");
    check(&tasks, implement, vec![words(0)], "the text of task-0 changed");
    check(&stories, implement, vec![words(1)], "the criteria of task-1 changed");
    let skipped = vec![status(0, TaskStatus::Skipped)];
    check(&tasks, implement, skipped, "was skipped without a request");
    let counted = vec![review(ReviewStatus::NeedsReview, 1)];
    check(&reviewed, implement, counted, "changed the count of reviews");
    let again = vec![review(ReviewStatus::ChangesRequested, 0)];
    check(&reviewed, implement, again, "made changes_requested out of none");
}

#[test]
fn a_file_that_differs_from_the_list_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
    let mut other = build_list(&forged.world.plan);
    other.tasks[1].status = TaskStatus::Done;
    let other = FileContent::List(std::rc::Rc::new(other));
    forged.world.repository.work.insert(TASKS.into(), other);
    forged.record(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    forged.expect_message(Invariant::Transitions, "the task file differs");

    let mut committed = Forged::new(&plan(SimulatedWorkflow::Tasks));
    committed.begin(1, Role::Implement);
    committed.answer(Role::Implement, false, IntendedVerdict::Nothing);
    committed.gate(GateStatus::Passed, true);
    committed.commit();
    committed.end(vec![done(0)]);
    committed.expect_message(Invariant::Transitions, "does not contain its result");
}

#[test]
fn a_list_change_by_an_unrelated_event_is_found() {
    let mut forged = Forged::new(&plan(SimulatedWorkflow::Tasks));
    let list = forged.observer.list.as_mut().expect("it was read");
    let list = std::rc::Rc::make_mut(list);
    list.tasks[1].status = TaskStatus::Failed;
    forged.record(Event::Paused);
    forged.expect_message(Invariant::Transitions, "the list changed by Paused");
}
