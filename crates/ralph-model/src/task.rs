//! Task lists as data: one model for every file format.
//!
//! [`change`] modifies a list. Not here: reading and writing task files, which `ralph-io` does, and which changes a
//! role may make.

pub mod change;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gate::ValidationStrategy;
use crate::ids::TaskId;
use crate::review::{ReviewState, ReviewStatus};

pub use change::{ChangeError, TaskChange, TaskFields};

/// The requirements, a file next to the task file.
pub const REQUIREMENTS_FILE: &str = "prd.md";

/// A list of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskList {
    /// The name of the project or feature.
    pub project: String,
    pub description: String,
    /// The branch the work belongs on.
    pub branch: Option<String>,
    /// How many iterations a run over the list may take, if set.
    pub max_iterations: Option<u32>,
    /// Which gates count, if set.
    pub validation_strategy: Option<ValidationStrategy>,
    /// Commands that become hard test gates if the settings define none.
    pub verify_commands: Vec<String>,
    /// The tasks in the order of the file.
    pub tasks: Vec<Task>,
}

/// One piece of work that fits an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Unique in the list.
    pub id: TaskId,
    pub title: String,
    pub description: String,
    /// Conditions for being done.
    pub acceptance_criteria: Vec<String>,
    /// Lower comes first; tasks without an order come last.
    pub order: Option<i64>,
    /// The tasks that must be done before.
    pub depends_on: Vec<TaskId>,
    /// Globs of the paths that it is expected to change. Tasks whose globs overlap are not done
    /// at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<String>,
    /// Skills to include in the prompt, by name.
    pub skills: Vec<String>,
    /// Libraries whose documentation is looked up first.
    pub libraries: Vec<String>,
    /// Whether documentation is looked up first although no library is named.
    pub needs_docs: bool,
    /// How many turns an agent gets for it, if set.
    pub max_turns: Option<u32>,
    /// How often it may be retried after a first failed attempt, if set.
    pub max_retries: Option<u32>,
    /// Attempts that failed so far; `retry_count` in files.
    pub attempts: u32,
    pub status: TaskStatus,
    pub review: ReviewState,
    pub notes: String,
}

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Pending,
    InProgress,
    /// Finished: gates green and, with review on, approved.
    Done,
    /// Given up; its work is on a failure branch.
    Failed,
    /// Skipped by the user.
    Skipped,
}

/// The settings in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListTerms<'a> {
    pub branch: Option<&'a str>,
    pub max_iterations: Option<u32>,
    pub validation_strategy: Option<ValidationStrategy>,
    pub verify_commands: &'a [String],
}

/// Who writes the task file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ListOwner {
    /// Ralph, from the agents' answers.
    #[default]
    Ralph,
    /// The agent; ralph checks every change.
    Agent,
}

/// The format of a task file, which an agent that edits it must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListForm {
    /// `tasks`, with a `status` each; names in `snake_case`.
    #[default]
    Plan,
    /// `userStories`, which pass or do not; names in `camelCase`.
    Stories,
}

/// Task counts by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub total: usize,
    pub pending: usize,
    /// Begun, including those that wait for a review or a fix.
    pub in_progress: usize,
    pub done: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Removed from the list since the run began. They count in `total`.
    pub removed: usize,
    /// Added by agents. They count neither in `total` nor in `done`, so that both are about
    /// the list as it was given.
    pub added: usize,
}

impl Progress {
    /// Returns how the list differs from one that is done as given, such as
    /// `, 1 failed, 2 removed`; empty if it does not.
    pub fn shortfall(&self) -> String {
        let counts = [
            (self.failed, "failed"),
            (self.skipped, "skipped"),
            (self.removed, "removed"),
            (self.added, "added"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        counts.map(|(count, word)| format!(", {count} {word}")).collect::<Vec<_>>().concat()
    }
}

impl TaskList {
    /// Returns the settings in the list.
    pub fn list_terms(&self) -> ListTerms<'_> {
        ListTerms {
            branch: self.branch.as_deref(),
            max_iterations: self.max_iterations,
            validation_strategy: self.validation_strategy,
            verify_commands: &self.verify_commands,
        }
    }

    /// Returns the settings of the list, without its tasks.
    #[must_use]
    pub fn without_tasks(&self) -> Self {
        Self {
            project: self.project.clone(),
            description: self.description.clone(),
            branch: self.branch.clone(),
            max_iterations: self.max_iterations,
            validation_strategy: self.validation_strategy,
            verify_commands: self.verify_commands.clone(),
            tasks: Vec::new(),
        }
    }

    /// Returns a task by its id; the first one, if an id is not unique.
    pub fn find_task(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == *id)
    }

    /// Returns the unfinished tasks that a task waits for. A skipped task blocks like a failed
    /// one.
    pub fn find_unmet_dependencies(&self, task: &Task) -> Vec<TaskId> {
        let is_done = |id: &&TaskId| self.find_task(id).is_some_and(|task| task.status.is_done());
        task.depends_on.iter().filter(|id| !is_done(id)).cloned().collect()
    }

    /// Counts the tasks.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress { total: self.tasks.len(), ..Progress::default() };
        for task in &self.tasks {
            let is_under_review = task.review.status.is_open();
            let count = match task.status {
                TaskStatus::Pending if is_under_review => &mut progress.in_progress,
                TaskStatus::Pending => &mut progress.pending,
                TaskStatus::InProgress => &mut progress.in_progress,
                TaskStatus::Done => &mut progress.done,
                TaskStatus::Failed => &mut progress.failed,
                TaskStatus::Skipped => &mut progress.skipped,
            };
            *count += 1;
        }
        progress
    }

    /// Returns the order that puts a new task after all others; none if other tasks have none,
    /// because tasks without an order follow those with one.
    pub fn last_order(&self) -> Option<i64> {
        if self.tasks.is_empty() {
            return Some(1);
        }
        let last = self.tasks.iter().filter_map(|task| task.order).max();
        last.map(|order| order.saturating_add(1))
    }

    /// Returns the index of each id; the first one, if an id is not unique.
    pub fn index_by_id(&self) -> BTreeMap<&str, usize> {
        self.tasks.iter().enumerate().rev().map(|(at, task)| (task.id.0.as_str(), at)).collect()
    }
}

impl Task {
    /// Returns whether the task names a path, which allows it to change a protected file.
    pub fn has_mention_of(&self, path: &str) -> bool {
        let texts = [&self.title, &self.description].into_iter();
        texts.chain(&self.acceptance_criteria).any(|text| text.contains(path))
    }

    /// Returns the notes with one more, after those of the planner.
    pub fn with_note(&self, note: &str) -> String {
        let (notes, note) = (self.notes.trim_end(), note.trim());
        match notes {
            "" => note.to_owned(),
            notes if notes.contains(note) => notes.to_owned(),
            notes => format!("{notes}\n{note}"),
        }
    }

    /// Returns a pending task with nothing but its id and title.
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            id: TaskId(id.into()),
            title: title.into(),
            description: String::new(),
            acceptance_criteria: Vec::new(),
            order: None,
            depends_on: Vec::new(),
            touches: Vec::new(),
            skills: Vec::new(),
            libraries: Vec::new(),
            needs_docs: false,
            max_turns: None,
            max_retries: None,
            attempts: 0,
            status: TaskStatus::Pending,
            review: ReviewState { status: ReviewStatus::None, count: 0, feedback: String::new() },
            notes: String::new(),
        }
    }

    /// Returns how many attempts the task gets: its own retries plus one, or the default.
    pub fn count_allowed_attempts(&self, default: u32) -> u32 {
        self.max_retries.map_or(default, |retries| retries.saturating_add(1))
    }
}

impl TaskStatus {
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::InProgress, Self::Done, Self::Failed, Self::Skipped];

    /// Returns the name used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// Returns the status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Returns whether nothing is left to do and other tasks may build on it.
    pub fn is_done(self) -> bool {
        self == Self::Done
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What was found in the task file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TasksFound {
    Same,
    Edited(Box<TaskList>),
    /// The file cannot be read.
    Broken {
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_counted_by_status() {
        let mut tasks: Vec<Task> = TaskStatus::ALL
            .into_iter()
            .map(|status| Task { status, ..Task::new(status.name(), "t") })
            .collect();
        let mut reviewed = Task::new("r", "waits for its review");
        reviewed.review.status = ReviewStatus::NeedsReview;
        tasks.push(reviewed);
        let list = TaskList { tasks, ..TaskList::default() };
        let expect = Progress {
            total: 6,
            pending: 1,
            in_progress: 2,
            done: 1,
            failed: 1,
            skipped: 1,
            removed: 0,
            added: 0,
        };
        assert_eq!(list.progress(), expect);
    }

    #[test]
    fn retries_of_a_task_come_on_top_of_its_first_attempt() {
        let task = Task { max_retries: Some(2), ..Task::new("a", "t") };
        assert_eq!(
            (task.count_allowed_attempts(5), Task::new("b", "t").count_allowed_attempts(5)),
            (3, 5)
        );
    }
}
