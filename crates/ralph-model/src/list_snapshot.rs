//! Snapshots of a task list, to compare a later state of the list with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::ids::{Role, TaskId};
use crate::review::{ReviewPolicy, ReviewState, ReviewStatus};
use crate::task::{Task, TaskList, TaskStatus};

/// The state of every task; of the first one, if an id is not unique.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ListSnapshot(pub BTreeMap<TaskId, TaskSnapshot>);

impl ListSnapshot {
    /// Takes a snapshot of a list.
    pub fn from_list(list: &TaskList) -> Self {
        let tasks = list.tasks.iter().rev();
        Self(tasks.map(|task| (task.id.clone(), TaskSnapshot::from_task(task))).collect())
    }
}

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct TaskSnapshot {
    pub status: TaskStatus,
    pub review: ReviewState,
    /// The number of failed attempts so far.
    pub attempts: u32,
    /// The most turns of an agent for it.
    pub max_turns: Option<u32>,
    /// The most retries.
    pub max_retries: Option<u32>,
    /// The fingerprint of its requirements: title, description and criteria.
    pub requirements: Fingerprint,
    /// The fingerprint of its other fields.
    pub other_fields: Fingerprint,
}

impl TaskSnapshot {
    /// Takes a snapshot of a task.
    pub fn from_task(task: &Task) -> Self {
        Self {
            status: task.status,
            review: task.review.clone(),
            attempts: task.attempts,
            max_turns: task.max_turns,
            max_retries: task.max_retries,
            requirements: hash_requirements(task),
            other_fields: hash_other_fields(task),
        }
    }

    /// Returns whether the task is still to be done. Closed tasks can no longer change.
    pub fn is_open(&self) -> bool {
        is_open(self.status)
    }
}

/// Returns whether a task with a status is still to be done.
pub fn is_open(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Pending | TaskStatus::InProgress => true,
        TaskStatus::Done | TaskStatus::Failed | TaskStatus::Skipped => false,
    }
}

fn hash_requirements(task: &Task) -> Fingerprint {
    let texts = [task.title.as_str(), task.description.as_str()];
    Fingerprint::from_texts(
        texts.into_iter().chain(task.acceptance_criteria.iter().map(String::as_str)),
    )
}

fn hash_other_fields(task: &Task) -> Fingerprint {
    let order = task.order.map(|order| order.to_string()).unwrap_or_default();
    let needs_docs = if task.needs_docs { "docs" } else { "" };
    // The lengths separate one list from the next.
    let lengths = format!("{} {}", task.depends_on.len(), task.skills.len());
    let texts = [order.as_str(), needs_docs, lengths.as_str(), task.notes.as_str()];
    let depends_on = task.depends_on.iter().map(|id| id.0.as_str());
    let names = task.skills.iter().chain(&task.libraries).map(String::as_str);
    let touches = task.touches.first().map(|_| "touches").into_iter();
    let touches = touches.chain(task.touches.iter().map(String::as_str));
    Fingerprint::from_texts(texts.into_iter().chain(depends_on).chain(names).chain(touches))
}

/// The file format of a task's state, with the field names of `ralph/tasks.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    passes: bool,
    review_status: Option<ReviewStatus>,
    review_count: u32,
    review_feedback: String,
    status: TaskStatus,
    attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    asks: Fingerprint,
    rest: Fingerprint,
}

impl From<TaskSnapshot> for Wire {
    fn from(standing: TaskSnapshot) -> Self {
        let ReviewState { status: review, count, feedback } = standing.review;
        Self {
            passes: standing.status.is_done(),
            review_status: (review != ReviewStatus::None).then_some(review),
            review_count: count,
            review_feedback: feedback,
            status: standing.status,
            attempts: standing.attempts,
            max_turns: standing.max_turns,
            max_retries: standing.max_retries,
            asks: standing.requirements,
            rest: standing.other_fields,
        }
    }
}

impl From<Wire> for TaskSnapshot {
    fn from(wire: Wire) -> Self {
        Self {
            status: wire.status,
            review: ReviewState {
                status: wire.review_status.unwrap_or(ReviewStatus::None),
                count: wire.review_count,
                feedback: wire.review_feedback,
            },
            attempts: wire.attempts,
            max_turns: wire.max_turns,
            max_retries: wire.max_retries,
            requirements: wire.asks,
            other_fields: wire.rest,
        }
    }
}

/// What an edit of the list is judged by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditContext {
    pub role: Role,
    /// The task it was given; without one, any single task may move.
    pub task: Option<TaskId>,
    pub review: ReviewPolicy,
}
