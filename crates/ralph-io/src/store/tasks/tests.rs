//! What is written of a list, which copies are kept, and how edits of others are found.

use std::collections::BTreeSet;
use std::fs::FileTimes;
use std::os::unix::fs::MetadataExt as _;

use ralph_core::ports::Store as _;
use ralph_model::ids::TaskId;
use ralph_model::task::{TaskFields, TaskStatus};
use ralph_model::task_state::DirtyTasks;

use super::*;
use crate::store::journal::Journal;
use crate::store::layout::ProjectLayout;

const PLAN: &str = r#"{"x": 1, "tasks": [
  {"id": "a", "title": "A", "description": "d", "status": "pending", "acceptance_criteria": ["c"]},
  {"id": "b", "title": "B", "description": "d", "status": "pending", "acceptance_criteria": ["c"], "y": 2}
]}
"#;

struct Project {
    directory: tempfile::TempDir,
    store: RunStore,
    list: TaskList,
}

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("plan.json"), PLAN).expect("a file");
        let root = directory.path().join("state");
        let layout =
            ProjectLayout::for_project(directory.path(), directory.path(), &root).expect("located");
        layout.prepare_state().expect("prepared");
        let journal = Journal::create(&layout.state().join("journal.jsonl")).expect("created");
        let files = RunDir::from_path(directory.path().join("state"));
        let places = [".ralph/skills", ".ralph/prompts"].map(Into::into);
        let [skills, prompts] = places;
        let mut store = RunStore::new(layout, journal, files, skills, prompts);
        let list = store.read_tasks(Path::new("plan.json")).expect("a list");
        Self { directory, store, list }
    }

    fn plan(&self) -> std::path::PathBuf {
        self.directory.path().join("plan.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.plan()).expect("readable")
    }

    /// Returns which file the copy is that is kept with the run.
    fn copy(&self) -> u64 {
        fs::metadata(self.store.files.tasks_path()).expect("kept").ino()
    }

    fn look(&mut self) -> TasksFound {
        self.store.check_task_file(Path::new("plan.json"), &self.list)
    }

    /// Makes changes to the list and has the file written, as a run does.
    fn write(&mut self, changes: &[TaskChange], touched: &DirtyTasks) {
        let order = ListOrder { list: &self.list, changes, touched };
        self.store.write_tasks(Path::new("plan.json"), &order).expect("written");
        self.list = order.resulting_list();
    }
}

fn only(ids: &[&str]) -> DirtyTasks {
    DirtyTasks::Only(ids.iter().map(|id| TaskId((*id).into())).collect::<BTreeSet<_>>())
}

fn set(id: &str, status: TaskStatus) -> TaskChange {
    TaskChange::SetStatus { task: TaskId(id.into()), status }
}

#[test]
fn task_states_are_written_without_another_copy_of_the_list() {
    let mut project = Project::new();
    project.write(&[set("a", TaskStatus::InProgress)], &DirtyTasks::Any);
    let copy = project.copy();
    project.write(&[set("a", TaskStatus::Done)], &only(&["a"]));
    project.write(&[set("b", TaskStatus::InProgress)], &only(&["a"]));
    let expect = PLAN.replacen("pending", "done", 1).replacen("pending", "in_progress", 1);
    assert_eq!(project.text(), expect);
    assert_eq!(project.copy(), copy);
    assert_eq!(project.look(), TasksFound::Same);
    // The text of tasks is not in the journal in a form that could repair a copy.
    let fields = TaskFields { title: Some("B2".into()), ..TaskFields::default() };
    let edit = TaskChange::Modify { task: TaskId("b".into()), fields: Box::new(fields) };
    project.write(&[edit], &only(&[]));
    assert_ne!(project.copy(), copy);
    assert_eq!(project.text(), expect.replace("\"B\"", "\"B2\""));
}

#[test]
fn a_deleted_file_is_restored_with_its_task_states() {
    let mut project = Project::new();
    project.write(&[set("a", TaskStatus::InProgress)], &DirtyTasks::Any);
    project.write(&[set("a", TaskStatus::Done)], &only(&["a"]));
    fs::remove_file(project.plan()).expect("removed");
    assert!(matches!(project.look(), TasksFound::Broken { .. }));
    project.write(&[set("b", TaskStatus::Skipped)], &only(&[]));
    let expect = PLAN.replacen("pending", "done", 1).replacen("pending", "skipped", 1);
    assert_eq!(project.text(), expect);
}

#[test]
fn a_hidden_edit_is_found_and_overwritten() {
    let mut project = Project::new();
    project.write(&[set("a", TaskStatus::InProgress)], &DirtyTasks::Any);
    let written = project.text();
    let before = fs::metadata(project.plan()).expect("there");
    fs::write(project.plan(), written.replace("pending", "skipped")).expect("written");
    let times = FileTimes::new().set_modified(before.modified().expect("known"));
    let file = OpenOptions::new().write(true).open(project.plan()).expect("opened");
    file.set_times(times).expect("set");
    let mut found = project.list.clone();
    found.apply_change(&set("b", TaskStatus::Skipped)).expect("fits");
    for _ in 0..2 {
        assert_eq!(project.look(), TasksFound::Edited(Box::new(found.clone())));
    }
    // Nothing that ralph did touched the task.
    project.write(&[], &only(&[]));
    assert_eq!(project.text(), written);
    assert_eq!(project.look(), TasksFound::Same);
    let copy = fs::read_to_string(project.store.files.tasks_path()).expect("kept");
    assert_eq!(copy, written);
}

#[test]
fn an_edit_of_unknown_fields_stays_and_is_kept() {
    let mut project = Project::new();
    project.write(&[set("a", TaskStatus::InProgress)], &DirtyTasks::Any);
    fs::write(project.plan(), project.text().replace("\"y\": 2", "\"y\": 33")).expect("written");
    assert_eq!(project.look(), TasksFound::Same);
    project.write(&[set("a", TaskStatus::Done)], &only(&["a"]));
    let expect = PLAN.replacen("pending", "done", 1).replace("\"y\": 2", "\"y\": 33");
    assert_eq!(project.text(), expect);
    fs::write(project.plan(), "{").expect("written");
    project.write(&[], &only(&[]));
    assert_eq!(project.text(), expect);
}
