//! What may not become of what a person did while a run stood still.

use std::rc::Rc;

use ralph_core::event::Event;
use ralph_core::ids::Role;
use ralph_core::outcome::Outcome;
use ralph_core::task::{Task, TaskList, TaskStatus};

use super::{Forged, Meant, plan};
use crate::simulation::observer::Invariant;
use crate::simulation::person::{EditedList, PERSONS};
use crate::simulation::plan::Workflow;
use crate::simulation::recipe::list;

/// Tells of a run that ended and goes on, with an edit of the list in between.
fn edited(is_open: bool, edit: impl Fn(&mut Vec<Task>), taken: impl Fn(&mut Vec<Task>)) -> Forged {
    let plan = plan(Workflow::Tasks);
    let mut forged = Forged::new(&plan);
    let mut before = list(&plan);
    if is_open {
        forged.begin(1, Role::Implement);
        forged.answer(Role::Implement, false, Meant::Nothing);
        before.tasks[0].status = TaskStatus::InProgress;
    }
    forged.tell_end();
    let with = |change: &dyn Fn(&mut Vec<Task>)| {
        let mut list = TaskList::clone(&before);
        change(&mut list.tasks);
        list
    };
    let after = Rc::new(with(&edit));
    forged.world.edited = Some(EditedList { before: Rc::new(before.clone()), after });
    forged.tell(Event::TasksRead { list: Box::new(with(&taken)), remarks: Vec::new() });
    forged.tell(Event::RunResumed { version: "0".into(), recipe: None, meanwhile: None });
    forged.finds(None);
    forged.tell(Event::Paused);
    forged
}

#[test]
fn an_edit_that_is_not_taken_over_is_found() {
    let skip = |tasks: &mut Vec<Task>| tasks[1].status = TaskStatus::Skipped;
    let gone = |tasks: &mut Vec<Task>| drop(tasks.remove(1));
    for is_open in [false, true] {
        edited(is_open, skip, skip).finds(None);
        edited(is_open, gone, gone).finds(None);
        let said = "what a person made of the list was not taken over";
        edited(is_open, skip, |_| {}).finds_that(Invariant::NothingLost, said);
        edited(is_open, gone, skip).finds_that(Invariant::NothingLost, said);
    }
}

#[test]
fn an_edit_of_the_task_that_is_being_worked_on_must_not_be_taken_over() {
    let done = |tasks: &mut Vec<Task>| tasks[0].status = TaskStatus::Done;
    let words = |tasks: &mut Vec<Task>| tasks[0].acceptance_criteria = vec!["Less".into()];
    let gone = |tasks: &mut Vec<Task>| drop(tasks.remove(0));
    let edits: [fn(&mut Vec<Task>); 3] = [done, words, gone];
    for edit in edits {
        edited(true, edit, |_| {}).finds(None);
        edited(true, edit, edit).finds(Some(Invariant::NothingLost));
        edited(false, edit, edit).finds(None);
    }
}

#[test]
fn a_commit_of_a_persons_that_is_taken_apart_is_found() {
    for (is_there, found) in [(true, None), (false, Some(Invariant::NothingLost))] {
        let mut forged = Forged::new(&plan(Workflow::Prompt));
        let tree = forged.world.repository.now();
        let made = forged.world.repository.commit(tree, PERSONS, None);
        forged.world.persons.push(made);
        if !is_there {
            forged.world.repository.branches.insert("refs/heads/kept".into(), Some(made));
            forged.world.repository.head = Some(0);
        }
        forged.tell(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
        forged.finds(found);
    }
}
