//! The journal and the files as the engine sees them.

use std::panic;
use std::path::Path;
use std::rc::Rc;

use ralph_core::event::{Event, Recorded};
use ralph_core::plan::PlanLook;
use ralph_core::ports::{
    ListOrder, Look, PromptError, Store, StoreError, TasksError, TasksFound, View,
};
use ralph_core::task::TaskList;

use super::{Caught, Port};
use crate::simulation::plan::FaultKind;
use crate::simulation::recipe::{PLAN, TASKS};
use crate::simulation::repository::Content;

fn full() -> StoreError {
    StoreError { message: "no space left on device".to_owned() }
}

impl Port {
    fn missing(&self, path: &Path) -> Option<String> {
        let iteration = self.iteration();
        let is_missing = self.world.borrow_mut().fails_since(FaultKind::PromptIsMissing, iteration);
        is_missing.then(|| format!("no prompt file `{}`", path.display()))
    }
}

impl Store for Port {
    fn masked(&self, event: Event) -> Event {
        event
    }

    fn append(&mut self, recorded: &Recorded) -> Result<(), StoreError> {
        self.step();
        let seq = u32::try_from(recorded.seq).unwrap_or(u32::MAX);
        if self.world.borrow_mut().happens(FaultKind::JournalIsFull, seq) {
            return Err(full());
        }
        {
            let mut world = self.world.borrow_mut();
            world.journal.push(recorded.clone());
            self.observer.borrow_mut().see(recorded, &mut world);
        }
        if self.observer.borrow().has_found() {
            panic::resume_unwind(Box::new(Caught));
        }
        if self.world.borrow_mut().happens(FaultKind::JournalFailsLate, seq) {
            return Err(full());
        }
        self.step();
        Ok(())
    }

    fn read_prompt(&mut self, path: &Path) -> Result<String, PromptError> {
        self.step();
        match self.missing(path) {
            Some(message) => Err(PromptError { message }),
            None => Ok("Do ${RALPH_ITERATION}, and $$ it.\n".to_owned()),
        }
    }

    fn read_tasks(&mut self, path: &Path) -> Result<TaskList, TasksError> {
        self.step();
        let is_missing = self.world.borrow_mut().fails_since(FaultKind::ListIsMissing, u32::MAX);
        let world = self.world.borrow();
        match world.repository.work.get(TASKS) {
            Some(Content::List(list)) if !is_missing => Ok((**list).clone()),
            Some(_) | None => {
                Err(TasksError { message: format!("no task file `{}`", path.display()) })
            }
        }
    }

    fn look_at_tasks(&mut self, path: &Path, known: &TaskList, _look: Look) -> TasksFound {
        self.step();
        let world = self.world.borrow();
        match (world.repository.work.get(TASKS), &world.left_list) {
            // A file as this process left it is not read again.
            (Some(Content::List(there)), Some(left)) if Rc::ptr_eq(there, left) => TasksFound::Same,
            (there, _) => found(there, path, known),
        }
    }

    fn write_tasks(&mut self, _path: &Path, order: &ListOrder<'_>) -> Result<(), StoreError> {
        self.step();
        let left = self.world.borrow_mut().left_list.take();
        if self.fails(FaultKind::ListIsReadOnly) {
            self.world.borrow_mut().list_failed = true;
            return Err(full());
        }
        {
            let mut world = self.world.borrow_mut();
            let list = match (world.repository.work.get(TASKS), &left) {
                // A file that is still as it was left is only changed where the order requires
                // it.
                (Some(Content::List(there)), Some(left)) if Rc::ptr_eq(there, left) => {
                    let mut list = TaskList::clone(left);
                    for change in order.changes_since(left) {
                        list.apply(&change).expect("a change fits the list it was made for");
                    }
                    list
                }
                (Some(_) | None, _) => order.outcome(),
            };
            let list = Rc::new(list);
            world.left_list = Some(Rc::clone(&list));
            world.repository.work.insert(TASKS.to_owned(), Content::List(list));
        }
        self.step();
        Ok(())
    }

    fn read_file(&mut self, path: &str, chars: usize) -> Option<String> {
        self.step();
        match self.world.borrow().repository.work.get(path)? {
            Content::Text(text) => Some(text.chars().take(chars).collect()),
            Content::List(_) => None,
        }
    }

    fn skill(&mut self, name: &str) -> Result<Option<String>, PromptError> {
        self.step();
        Ok((name == "known").then(|| "Know this.\n".repeat(200)))
    }

    fn prompt_template(&mut self, name: &str) -> Result<Option<String>, PromptError> {
        self.step();
        if self.fails(FaultKind::TemplateIsBroken) {
            return Err(PromptError { message: format!("`{name}.md` cannot be used") });
        }
        Ok(None)
    }

    fn read_beside(&mut self, _tasks: &Path, name: &str) -> Result<Option<String>, PromptError> {
        self.step();
        let world = self.world.borrow();
        Ok(world.repository.work.get(name).and_then(|content| match content {
            Content::Text(text) => Some(text.to_string()),
            Content::List(_) => None,
        }))
    }

    fn write_beside(&mut self, _tasks: &Path, name: &str, text: &str) -> Result<(), StoreError> {
        self.step();
        {
            let content = Content::text(text);
            self.world.borrow_mut().repository.work.insert(name.to_owned(), content);
        }
        self.step();
        Ok(())
    }

    fn look_at_plan(&mut self, _file: &Path) -> PlanLook {
        self.step();
        self.world.borrow_mut().look_at_plan()
    }

    fn put_plan_back(&mut self, _file: &Path) -> Result<(), StoreError> {
        self.step();
        if self.fails(FaultKind::PlanIsReadOnly) {
            self.world.borrow_mut().plan_failed = true;
            return Err(full());
        }
        {
            let mut world = self.world.borrow_mut();
            if let Some(copy) = world.plan_copy.clone() {
                world.repository.work.insert(PLAN.to_owned(), copy);
            }
        }
        self.step();
        Ok(())
    }

    fn publish(&mut self, _view: &View<'_>) -> Result<(), StoreError> {
        self.step();
        if self.fails(FaultKind::ViewsFail) { Err(full()) } else { Ok(()) }
    }
}

/// Returns the state of the task file.
fn found(there: Option<&Content>, path: &Path, known: &TaskList) -> TasksFound {
    match there {
        Some(Content::List(list)) if **list == *known => TasksFound::Same,
        Some(Content::List(list)) => TasksFound::Edited(Box::new((**list).clone())),
        Some(Content::Text(_)) => TasksFound::Broken { message: "it is no list".to_owned() },
        None => TasksFound::Broken { message: format!("no task file `{}`", path.display()) },
    }
}
