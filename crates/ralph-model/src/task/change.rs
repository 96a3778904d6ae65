//! Changes of a task list: plain data that can be logged, and applying them.
//!
//! Not here: who may make which change, and whether the result is valid; see `ralph_core::tasks::validation`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Task, TaskList, TaskStatus};
use crate::ids::TaskId;
use crate::review::ReviewState;

/// One change of a task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum TaskChange {
    /// Sets the status.
    SetStatus {
        task: TaskId,
        status: TaskStatus,
    },
    /// Sets the number of failed attempts.
    SetAttempts {
        task: TaskId,
        attempts: u32,
    },
    /// Sets the review state.
    SetReview {
        task: TaskId,
        review: ReviewState,
    },
    /// Replaces the notes.
    SetNotes {
        task: TaskId,
        notes: String,
    },
    Add {
        /// Without an order it gets the last order, or that of the task before it.
        task: Box<Task>,
        /// The task it comes after in the file; `None` for the end.
        after: Option<TaskId>,
    },
    /// Inserts a task unchanged at the position it has in another list.
    Insert {
        task: Box<Task>,
        /// The task it comes after; `None` for the beginning.
        after: Option<TaskId>,
    },
    Modify {
        task: TaskId,
        fields: Box<TaskFields>,
    },
    /// Removes a task. Dependencies on it stay, and are mistakes then.
    Remove {
        task: TaskId,
    },
}

/// New values of fields; `None` keeps the old one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance_criteria: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<TaskId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touches: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libraries: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_docs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
}

/// Why a change could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// The list has no such task.
    #[error("there is no task `{0}`")]
    UnknownTask(TaskId),
    /// The id of a new task is taken.
    #[error("there is already a task `{0}`")]
    TakenId(TaskId),
}

impl TaskChange {
    /// Returns whether the change affects what a task asks for.
    pub fn is_content_change(&self) -> bool {
        match self {
            Self::Add { .. } | Self::Insert { .. } | Self::Modify { .. } => true,
            Self::SetStatus { .. }
            | Self::SetAttempts { .. }
            | Self::SetReview { .. }
            | Self::SetNotes { .. }
            | Self::Remove { .. } => false,
        }
    }

    /// Returns the id of the task that is changed.
    pub fn task_id(&self) -> &TaskId {
        match self {
            Self::SetStatus { task, .. }
            | Self::SetAttempts { task, .. }
            | Self::SetReview { task, .. }
            | Self::SetNotes { task, .. }
            | Self::Modify { task, .. }
            | Self::Remove { task } => task,
            Self::Add { task, .. } | Self::Insert { task, .. } => &task.id,
        }
    }
}

impl TaskList {
    /// Makes a change; on an error the list stays unchanged.
    pub fn apply_change(&mut self, change: &TaskChange) -> Result<(), ChangeError> {
        match change {
            TaskChange::SetStatus { task, status } => self.find_mut(task)?.status = *status,
            TaskChange::SetAttempts { task, attempts } => self.find_mut(task)?.attempts = *attempts,
            TaskChange::SetReview { task, review } => self.find_mut(task)?.review = review.clone(),
            TaskChange::SetNotes { task, notes } => self.find_mut(task)?.notes.clone_from(notes),
            TaskChange::Modify { task, fields } => fields.apply_to(self.find_mut(task)?),
            TaskChange::Remove { task } => {
                let at = self.find_index(task)?;
                self.tasks.remove(at);
            }
            TaskChange::Insert { task, after } => {
                self.check_free_id(&task.id)?;
                let at = match after {
                    Some(after) => self.find_index(after)? + 1,
                    None => 0,
                };
                self.tasks.insert(at, Task::clone(task));
            }
            TaskChange::Add { task, after } => {
                self.check_free_id(&task.id)?;
                let (at, order) = match after {
                    Some(after) => {
                        let before = self.find_index(after)?;
                        (before + 1, self.tasks[before].order)
                    }
                    None => (self.tasks.len(), self.last_order()),
                };
                let mut task = Task::clone(task);
                task.order = task.order.or(order);
                self.tasks.insert(at, task);
            }
        }
        Ok(())
    }

    /// Checks that changes can be made one after the other.
    pub fn can_apply(&self, changes: &[TaskChange]) -> Result<(), ChangeError> {
        // Ids that earlier changes added or removed.
        let mut is_there: BTreeMap<&TaskId, bool> = BTreeMap::new();
        for change in changes {
            let there = |id: &TaskId| {
                is_there.get(id).copied().unwrap_or_else(|| self.find_index(id).is_ok())
            };
            let unknown = |id: &TaskId| Err(ChangeError::UnknownTask(id.clone()));
            match change {
                TaskChange::Add { task, after } | TaskChange::Insert { task, after } => {
                    if there(&task.id) {
                        return Err(ChangeError::TakenId(task.id.clone()));
                    }
                    if let Some(after) = after.as_ref().filter(|after| !there(after)) {
                        return unknown(after);
                    }
                    is_there.insert(&task.id, true);
                }
                TaskChange::SetStatus { task, .. }
                | TaskChange::SetAttempts { task, .. }
                | TaskChange::SetReview { task, .. }
                | TaskChange::SetNotes { task, .. }
                | TaskChange::Modify { task, .. }
                | TaskChange::Remove { task } => {
                    if !there(task) {
                        return unknown(task);
                    }
                    if matches!(change, TaskChange::Remove { .. }) {
                        is_there.insert(task, false);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the index of a task.
    pub fn find_index(&self, id: &TaskId) -> Result<usize, ChangeError> {
        let place = self.tasks.iter().position(|task| task.id == *id);
        place.ok_or_else(|| ChangeError::UnknownTask(id.clone()))
    }

    fn check_free_id(&self, id: &TaskId) -> Result<(), ChangeError> {
        match self.find_index(id) {
            Ok(_) => Err(ChangeError::TakenId(id.clone())),
            Err(_) => Ok(()),
        }
    }

    fn find_mut(&mut self, id: &TaskId) -> Result<&mut Task, ChangeError> {
        let at = self.find_index(id)?;
        Ok(&mut self.tasks[at])
    }
}

impl TaskFields {
    fn apply_to(&self, task: &mut Task) {
        fn replace<T: Clone>(field: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        replace(&mut task.title, self.title.as_ref());
        replace(&mut task.description, self.description.as_ref());
        replace(&mut task.acceptance_criteria, self.acceptance_criteria.as_ref());
        replace(&mut task.depends_on, self.depends_on.as_ref());
        replace(&mut task.skills, self.skills.as_ref());
        replace(&mut task.touches, self.touches.as_ref());
        replace(&mut task.libraries, self.libraries.as_ref());
        replace(&mut task.needs_docs, self.needs_docs.as_ref());
        task.order = self.order.or(task.order);
        task.max_turns = self.max_turns.or(task.max_turns);
        task.max_retries = self.max_retries.or(task.max_retries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ids: &[(&str, Option<i64>)]) -> TaskList {
        let tasks = ids.iter().map(|(id, order)| Task { order: *order, ..Task::new(*id, "t") });
        TaskList { tasks: tasks.collect(), ..TaskList::default() }
    }

    fn add(id: &str, order: Option<i64>, after: Option<&str>) -> TaskChange {
        let task = Box::new(Task { order, ..Task::new(id, "t") });
        TaskChange::Add { task, after: after.map(|id| TaskId(id.into())) }
    }

    #[track_caller]
    fn check(change: &TaskChange, expect: &[(&str, Option<i64>)]) {
        let mut before = list(&[("a", Some(3)), ("b", None)]);
        before.apply_change(change).expect("possible");
        assert_eq!(before, list(expect));
    }

    #[test]
    fn a_new_task_is_inserted_at_the_given_position() {
        check(&add("c", None, None), &[("a", Some(3)), ("b", None), ("c", Some(4))]);
        check(&add("c", Some(1), None), &[("a", Some(3)), ("b", None), ("c", Some(1))]);
        check(&add("c", None, Some("a")), &[("a", Some(3)), ("c", Some(3)), ("b", None)]);
        check(&add("c", None, Some("b")), &[("a", Some(3)), ("b", None), ("c", None)]);
        check(&TaskChange::Remove { task: TaskId("a".into()) }, &[("b", None)]);
    }

    #[test]
    fn an_impossible_change_leaves_the_list_alone() {
        let gone = || TaskId("gone".into());
        let unknown = || ChangeError::UnknownTask(gone());
        for (change, expect) in [
            (add("a", None, None), ChangeError::TakenId(TaskId("a".into()))),
            (add("c", None, Some("gone")), unknown()),
            (TaskChange::Remove { task: gone() }, unknown()),
            (TaskChange::SetAttempts { task: gone(), attempts: 1 }, unknown()),
        ] {
            let before = list(&[("a", Some(3)), ("b", None)]);
            let mut after = before.clone();
            assert_eq!(after.apply_change(&change), Err(expect));
            assert_eq!(after, before);
        }
    }

    #[test]
    fn only_the_fields_given_are_modified() {
        let mut list = list(&[("a", Some(3))]);
        let fields = TaskFields { title: Some("new".into()), ..TaskFields::default() };
        let change = TaskChange::Modify { task: TaskId("a".into()), fields: Box::new(fields) };
        list.apply_change(&change).expect("possible");
        assert_eq!(list.tasks, [Task { order: Some(3), ..Task::new("a", "new") }]);
        let json = serde_json::to_string(&change).expect("serializable");
        assert_eq!(json, r#"{"change":"modify","task":"a","fields":{"title":"new"}}"#);
        assert_eq!(serde_json::from_str::<TaskChange>(&json).expect("readable"), change);
    }
}
