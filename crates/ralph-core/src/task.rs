//! Task lists as data: one model behind every file dialect.
//!
//! Not here: reading and writing task files, which is `ralph-io`'s.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::review::ReviewState;

/// A list of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskList {
    /// The name of the project or feature.
    pub project: String,
    /// What the list is about.
    pub description: String,
    /// The branch the work belongs on.
    pub branch: Option<String>,
    /// Commands that become hard test gates where the settings define none.
    pub verify_commands: Vec<String>,
    /// The tasks in the order of the file.
    pub tasks: Vec<Task>,
}

/// One piece of work that fits an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Unique in the list.
    pub id: TaskId,
    /// One line.
    pub title: String,
    /// What is wanted.
    pub description: String,
    /// How to tell that it is done.
    pub acceptance_criteria: Vec<String>,
    /// Lower comes first.
    pub order: i64,
    /// The tasks that must be done before.
    pub depends_on: Vec<TaskId>,
    /// Skills that join the prompt, by name.
    pub skills: Vec<String>,
    /// Libraries whose documentation is wanted first.
    pub libraries: Vec<String>,
    /// Whether documentation is wanted first although no library is named.
    pub needs_docs: bool,
    /// How far it is.
    pub status: TaskStatus,
    /// What the review says.
    pub review: ReviewState,
    /// Attempts made so far.
    pub attempts: u32,
    /// What was noted about it.
    pub notes: String,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Finished: gates green and, with review on, approved.
    Done,
    /// Given up; its work lies on a branch.
    Failed,
    /// Left out by a person.
    Skipped,
}

/// Who writes the task file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeper {
    /// ralph: agents return verdicts and handoffs.
    Ralph,
    /// The agent: ralph compares the file with a trusted snapshot after each iteration.
    Agent,
}

impl TaskList {
    /// Returns the next task to begin: the lowest order among those pending whose dependencies
    /// are done. Among equals the order of the file decides.
    pub fn next(&self) -> Option<&Task> {
        self.tasks
            .iter()
            .filter(|task| task.status == TaskStatus::Pending && self.waits_for(task).is_empty())
            .min_by_key(|task| task.order)
    }

    /// Returns the tasks that a task waits for.
    pub fn waits_for(&self, task: &Task) -> Vec<TaskId> {
        let is_done = |id: &&TaskId| {
            self.tasks.iter().any(|other| other.id == **id && other.status == TaskStatus::Done)
        };
        task.depends_on.iter().filter(|id| !is_done(id)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::ReviewStatus;

    fn task(id: &str, order: i64, depends_on: &[&str], status: TaskStatus) -> Task {
        Task {
            id: TaskId(id.into()),
            title: id.into(),
            description: String::new(),
            acceptance_criteria: Vec::new(),
            order,
            depends_on: depends_on.iter().map(|id| TaskId((*id).into())).collect(),
            skills: Vec::new(),
            libraries: Vec::new(),
            needs_docs: false,
            status,
            review: ReviewState { status: ReviewStatus::None, count: 0, feedback: String::new() },
            attempts: 0,
            notes: String::new(),
        }
    }

    #[track_caller]
    fn check(tasks: Vec<Task>, expect: Option<&str>) {
        let list = TaskList {
            project: "p".into(),
            description: String::new(),
            branch: None,
            verify_commands: Vec::new(),
            tasks,
        };
        assert_eq!(list.next().map(|task| task.id.0.as_str()), expect);
    }

    #[test]
    fn the_next_task_is_the_lowest_that_can_begin() {
        use TaskStatus::{Done, Failed, Pending};
        check(vec![], None);
        check(vec![task("b", 2, &[], Pending), task("a", 1, &[], Pending)], Some("a"));
        check(vec![task("b", 1, &[], Pending), task("a", 1, &[], Pending)], Some("b"));
        check(vec![task("a", 1, &["b"], Pending), task("b", 2, &[], Pending)], Some("b"));
        check(vec![task("a", 1, &["b"], Pending), task("b", 2, &[], Done)], Some("a"));
        check(vec![task("a", 1, &["b"], Pending), task("b", 2, &[], Failed)], None);
        check(vec![task("a", 1, &["gone"], Pending)], None);
    }
}
