//! The journal and the files as the engine sees them.

use std::panic;
use std::path::Path;
use std::rc::Rc;

use ralph_core::ports::{ListOrder, ProjectText, PromptError, Store, StoreError, TasksError, View};
use ralph_io::store::journal::{SyncTime, find_sync_time};
use ralph_model::event::{Event, Recorded};
use ralph_model::plan::PlanState;
use ralph_model::task::{TaskList, TasksFound};

use super::{Port, ViolationFound};
use crate::simulation::plan::FaultKind;
use crate::simulation::recipe::{PLAN, TASKS};
use crate::simulation::repository::FileContent;

fn build_full_error() -> StoreError {
    StoreError { message: "no space left on device".to_owned() }
}

impl Port {
    fn find_missing_prompt(&self, path: &Path) -> Option<String> {
        let iteration = self.iteration();
        let is_missing =
            self.world.borrow_mut().has_fault_since(FaultKind::PromptIsMissing, iteration);
        is_missing.then(|| format!("no prompt file `{}`", path.display()))
    }
}

impl Store for Port {
    fn mask_secrets(&self, event: Event) -> Event {
        event
    }

    fn append_event(&mut self, recorded: &Recorded) -> Result<(), StoreError> {
        self.count_step();
        let seq = u32::try_from(recorded.seq).unwrap_or(u32::MAX);
        if self.world.borrow_mut().take_fault(FaultKind::JournalIsFull, seq) {
            return Err(build_full_error());
        }
        {
            let mut world = self.world.borrow_mut();
            world.journal.push(recorded.clone());
            self.observer.borrow_mut().check_event(recorded, &mut world);
        }
        if self.observer.borrow().has_found() {
            panic::resume_unwind(Box::new(ViolationFound));
        }
        match find_sync_time(&recorded.event) {
            SyncTime::AtOnce => self.note_sync(),
            SyncTime::BeforeActing => self.synced.borrow_mut().must_sync = true,
            SyncTime::WithTheNext => {}
        }
        if self.world.borrow_mut().take_fault(FaultKind::JournalFailsLate, seq) {
            return Err(build_full_error());
        }
        self.count_step();
        Ok(())
    }

    fn sync_events(&mut self) -> Result<(), StoreError> {
        let must_sync = self.synced.borrow().must_sync;
        if must_sync {
            self.note_sync();
        }
        Ok(())
    }

    fn read_text(&mut self, text: &ProjectText) -> Result<Option<String>, PromptError> {
        self.count_step();
        let find_file = |path: &str| match self.world.borrow().repository.work.get(path) {
            Some(FileContent::Text(text)) => Some(text.to_string()),
            Some(FileContent::List(_)) | None => None,
        };
        match text {
            ProjectText::PromptFile(path) => match self.find_missing_prompt(path) {
                Some(message) => Err(PromptError { message }),
                None => Ok(Some("Do ${RALPH_ITERATION}, and $$ it.\n".to_owned())),
            },
            ProjectText::Template(name) if self.has_fault(FaultKind::TemplateIsBroken) => {
                Err(PromptError { message: format!("`{name}.md` cannot be used") })
            }
            ProjectText::Template(_) => Ok(None),
            ProjectText::Companion { name, .. } => Ok(find_file(name)),
            ProjectText::Skill(name) => Ok((name == "known").then(|| "Know this.\n".repeat(200))),
            ProjectText::Excerpt { path, chars } => {
                Ok(find_file(path).map(|text| text.chars().take(*chars).collect()))
            }
        }
    }

    fn read_tasks(&mut self, path: &Path) -> Result<TaskList, TasksError> {
        self.count_step();
        let is_missing =
            self.world.borrow_mut().has_fault_since(FaultKind::ListIsMissing, u32::MAX);
        let world = self.world.borrow();
        match world.repository.work.get(TASKS) {
            Some(FileContent::List(list)) if !is_missing => Ok((**list).clone()),
            Some(_) | None => {
                Err(TasksError { message: format!("no task file `{}`", path.display()) })
            }
        }
    }

    fn check_task_file(&mut self, path: &Path, known: &TaskList) -> TasksFound {
        self.count_step();
        let world = self.world.borrow();
        match (world.repository.work.get(TASKS), &world.left_list) {
            // A file as this process left it is not read again.
            (Some(FileContent::List(there)), Some(left)) if Rc::ptr_eq(there, left) => {
                TasksFound::Same
            }
            (there, _) => compare_list(there, path, known),
        }
    }

    fn write_tasks(&mut self, _path: &Path, order: &ListOrder<'_>) -> Result<(), StoreError> {
        self.count_step();
        let left = self.world.borrow_mut().left_list.take();
        if self.has_fault(FaultKind::ListIsReadOnly) {
            self.world.borrow_mut().list_failed = true;
            return Err(build_full_error());
        }
        {
            let mut world = self.world.borrow_mut();
            let list = match (world.repository.work.get(TASKS), &left) {
                // A file that is still as it was left is only changed where the order requires
                // it.
                (Some(FileContent::List(there)), Some(left)) if Rc::ptr_eq(there, left) => {
                    let mut list = TaskList::clone(left);
                    for change in order.changes_since(left) {
                        list.apply_change(&change).expect("a change fits the list it was made for");
                    }
                    list
                }
                (Some(_) | None, _) => order.resulting_list(),
            };
            let list = Rc::new(list);
            world.left_list = Some(Rc::clone(&list));
            world.repository.work.insert(TASKS.to_owned(), FileContent::List(list));
        }
        self.count_step();
        Ok(())
    }

    fn write_companion_file(
        &mut self,
        _tasks: &Path,
        name: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        self.count_step();
        {
            let content = FileContent::from_text(text);
            self.world.borrow_mut().repository.work.insert(name.to_owned(), content);
        }
        self.count_step();
        Ok(())
    }

    fn inspect_plan(&mut self, _file: &Path, removed: &[String]) -> PlanState {
        self.count_step();
        self.world.borrow().read_plan(removed)
    }

    fn keep_plan(&mut self, _file: &Path) {
        self.count_step();
        self.world.borrow_mut().keep_plan();
        self.count_step();
    }

    fn restore_plan(&mut self, _file: &Path) -> Result<(), StoreError> {
        self.count_step();
        if self.has_fault(FaultKind::PlanIsReadOnly) {
            self.world.borrow_mut().plan_failed = true;
            return Err(build_full_error());
        }
        {
            let mut world = self.world.borrow_mut();
            if let Some(copy) = world.plan_copy.clone() {
                world.repository.work.insert(PLAN.to_owned(), copy);
            }
        }
        self.count_step();
        Ok(())
    }

    fn publish_view(&mut self, _view: &View<'_>) -> Result<(), StoreError> {
        self.count_step();
        if self.has_fault(FaultKind::ViewsFail) { Err(build_full_error()) } else { Ok(()) }
    }
}

/// Returns the state of the task file.
fn compare_list(there: Option<&FileContent>, path: &Path, known: &TaskList) -> TasksFound {
    match there {
        Some(FileContent::List(list)) if **list == *known => TasksFound::Same,
        Some(FileContent::List(list)) => TasksFound::Edited(Box::new((**list).clone())),
        Some(FileContent::Text(_)) => TasksFound::Broken { message: "it is no list".to_owned() },
        None => TasksFound::Broken { message: format!("no task file `{}`", path.display()) },
    }
}
