//! What must not happen to a user's edits while a run is stopped.

use std::rc::Rc;

use ralph_model::event::Event;
use ralph_model::ids::Role;
use ralph_model::outcome::Outcome;
use ralph_model::task::{Task, TaskList, TaskStatus};

use super::{Forged, IntendedVerdict, plan};
use crate::simulation::observer::Invariant;
use crate::simulation::plan::SimulatedWorkflow;
use crate::simulation::recipe::build_list;
use crate::simulation::user_edits::{EditedList, USER_COMMIT};

/// Records a run that ended and resumes, with an edit of the list in between.
fn edited(is_open: bool, edit: impl Fn(&mut Vec<Task>), taken: impl Fn(&mut Vec<Task>)) -> Forged {
    let plan = plan(SimulatedWorkflow::Tasks);
    let mut forged = Forged::new(&plan);
    let mut before = build_list(&plan);
    if is_open {
        forged.begin(1, Role::Implement);
        forged.answer(Role::Implement, false, IntendedVerdict::Nothing);
        before.tasks[0].status = TaskStatus::InProgress;
    }
    forged.record_end();
    let with = |change: &dyn Fn(&mut Vec<Task>)| {
        let mut list = TaskList::clone(&before);
        change(&mut list.tasks);
        list
    };
    let after = Rc::new(with(&edit));
    forged.world.edited = Some(EditedList { before: Rc::new(before.clone()), after });
    forged.record(Event::TasksRead { list: Box::new(with(&taken)), remarks: Vec::new() });
    forged.record(Event::RunResumed { version: "0".into(), recipe: None });
    forged.expect_violation(None);
    forged.record(Event::Paused);
    forged
}

#[test]
fn an_edit_that_is_not_applied_is_found() {
    let skip = |tasks: &mut Vec<Task>| tasks[1].status = TaskStatus::Skipped;
    let gone = |tasks: &mut Vec<Task>| drop(tasks.remove(1));
    for is_open in [false, true] {
        edited(is_open, skip, skip).expect_violation(None);
        edited(is_open, gone, gone).expect_violation(None);
        let message = "a user's edit of the list was not applied";
        edited(is_open, skip, |_| {}).expect_message(Invariant::NothingLost, message);
        edited(is_open, gone, skip).expect_message(Invariant::NothingLost, message);
    }
}

#[test]
fn an_edit_of_the_current_task_must_not_be_applied() {
    let done = |tasks: &mut Vec<Task>| tasks[0].status = TaskStatus::Done;
    let words = |tasks: &mut Vec<Task>| tasks[0].acceptance_criteria = vec!["Less".into()];
    let gone = |tasks: &mut Vec<Task>| drop(tasks.remove(0));
    let edits: [fn(&mut Vec<Task>); 3] = [done, words, gone];
    for edit in edits {
        edited(true, edit, |_| {}).expect_violation(None);
        edited(true, edit, edit).expect_violation(Some(Invariant::NothingLost));
        edited(false, edit, edit).expect_violation(None);
    }
}

#[test]
fn a_lost_commit_of_a_user_is_found() {
    for (is_there, found) in [(true, None), (false, Some(Invariant::NothingLost))] {
        let mut forged = Forged::new(&plan(SimulatedWorkflow::Prompt));
        let tree = forged.world.repository.number_work_tree();
        let made = forged.world.repository.make_commit(tree, USER_COMMIT, None);
        forged.world.user_commits.push(made);
        if !is_there {
            forged.world.repository.branches.insert("refs/heads/kept".into(), Some(made));
            forged.world.repository.head = Some(0);
        }
        forged.record(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
        forged.expect_violation(found);
    }
}
