//! Handoffs: the structured summary that an iteration leaves for the next, as data.
//!
//! Field names are those of the JSON that agents are asked for. Not here: finding one in an
//! answer, and how much of it later prompts include.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::text;

/// The handoff of one iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    pub task_completed: TaskCompleted,
    /// Where the work deviated from its plan.
    #[serde(default)]
    pub deviations: Vec<Deviation>,
    #[serde(default)]
    pub bugs_encountered: Vec<BugReport>,
    #[serde(default)]
    pub architectural_notes: Vec<String>,
    #[serde(default)]
    pub unfinished_business: Vec<UnfinishedItem>,
    #[serde(default)]
    pub recommendations: Vec<String>,
    /// Files changed; taken from git, because agents misremember.
    #[serde(default)]
    pub files_touched: Vec<FileTouched>,
    /// Changes to the plan that the agent proposes.
    #[serde(default)]
    pub plan_amendments: Vec<Amendment>,
    #[serde(default)]
    pub tests_added: Vec<TestsAdded>,
    #[serde(default)]
    pub constraints_discovered: Vec<Constraint>,
    /// What the agent needs from a person, if it cannot continue.
    #[serde(default)]
    pub blocked: Option<BlockedReason>,
    /// Whether ralph derived this handoff because the agent gave none.
    #[serde(default)]
    pub derived: bool,
    /// Whether the work tree is unchanged: a fix that disputes the points of a review.
    #[serde(default, skip_serializing_if = "is_false")]
    pub changed_nothing: bool,
    /// What ralph knows about the outcome of the work; `None` until the iteration has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<WorkOutcome>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The outcome of the work that a handoff describes. The author cannot know it, and often states
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum WorkOutcome {
    /// Passed the checks and is in the tree.
    Passed {
        is_committed: bool,
        /// Whether its last review approved it; `None` before a review.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved: Option<bool>,
    },
    /// Failed. Its changes are still in the work tree.
    Failed {
        /// The gate, or what else it failed at.
        at: String,
    },
    /// Failed, and the tree was reset to the checkpoint.
    RolledBack {
        /// The gate, or what else it failed at.
        at: String,
        /// The ref that keeps the changes; `None` if there were none.
        kept: Option<String>,
    },
    Abandoned {
        /// The gate, or what else it failed at last.
        at: String,
        /// The branch that the changes were moved to, if there is a repository.
        branch: Option<String>,
    },
}

impl WorkOutcome {
    /// Returns whether the work counts: it passed, and later work builds on it.
    pub fn is_accepted(&self) -> bool {
        match self {
            Self::Passed { .. } => true,
            Self::Failed { .. } | Self::RolledBack { .. } | Self::Abandoned { .. } => false,
        }
    }

    /// Returns the outcome as a fragment of a sentence.
    pub fn describe(&self) -> String {
        match self {
            Self::Passed { is_committed, approved } => {
                let committed = if *is_committed { ", committed" } else { "" };
                let reviewed = match approved {
                    None => "",
                    Some(true) => ", approved in review",
                    Some(false) => ", a review asked for changes",
                };
                format!("Passed the checks{committed}{reviewed}")
            }
            Self::Failed { at } => format!("Failed at {at}"),
            Self::RolledBack { at, .. } => format!("Failed at {at}, rolled back"),
            Self::Abandoned { at, branch: None } => format!("Abandoned, failed at {at}"),
            Self::Abandoned { at, branch: Some(branch) } => {
                format!("Abandoned, failed at {at}, moved to {branch}")
            }
        }
    }
}

impl Handoff {
    /// Returns whether the agent itself says that its task is not complete. A derived
    /// handoff says nothing about that.
    pub fn is_incomplete(&self) -> bool {
        !self.derived && !self.task_completed.fully_complete
    }

    /// Returns whether the last review of it asked for changes.
    pub fn is_rejected(&self) -> bool {
        matches!(self.outcome, Some(WorkOutcome::Passed { approved: Some(false), .. }))
    }

    /// Returns whether later work builds on it. An unknown outcome counts as accepted.
    pub fn is_accepted(&self) -> bool {
        self.outcome.as_ref().is_none_or(WorkOutcome::is_accepted)
    }
}

/// What the handoffs of a task's landed work leave open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOpen {
    pub unfinished: Vec<String>,
    /// Unresolved bugs.
    pub bugs: Vec<String>,
    pub recommendations: Vec<String>,
    /// Where the work deviates from its task, and why.
    #[serde(default)]
    pub deviations: Vec<String>,
}

/// Entries of a kind that are kept for a task: more than an agent should leave open.
const MAX_LEFT: usize = 10;

/// Limit of an entry: a few sentences.
const LEFT_CHARS: usize = 400;

impl LeftOpen {
    /// Adds what a handoff leaves open, and removes what it finished or resolved.
    pub fn add_handoff(&mut self, handoff: &Handoff) {
        let line = |text: &str| text::join_to_line(text, LEFT_CHARS);
        let (resolved, open): (Vec<_>, Vec<_>) =
            handoff.bugs_encountered.iter().partition(|bug| bug.resolved);
        let resolved: Vec<String> = resolved.iter().map(|bug| line(&bug.description)).collect();
        self.bugs.retain(|bug| !resolved.contains(bug));
        if handoff.task_completed.fully_complete {
            self.unfinished.clear();
        }
        let unfinished = handoff.unfinished_business.iter();
        let unfinished = unfinished
            .map(|it| line(&format!("{} ({}): {}", it.item, it.priority.name(), it.reason)));
        push_new(&mut self.unfinished, unfinished);
        push_new(&mut self.bugs, open.iter().map(|bug| line(&bug.description)));
        let deviations = handoff.deviations.iter();
        push_new(
            &mut self.deviations,
            deviations.map(|it| line(&format!("{} → {}: {}", it.planned, it.actual, it.reason))),
        );
        push_new(&mut self.recommendations, handoff.recommendations.iter().map(|it| line(it)));
    }

    /// Returns what is open, with its kind, the most important first. Recommendations and
    /// deviations are not.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let kinds = [("unfinished", &self.unfinished), ("bug", &self.bugs)];
        kinds.into_iter().flat_map(|(kind, texts)| texts.iter().map(move |it| (kind, it.as_str())))
    }

    /// Returns whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        let is_done = self.entries().next().is_none();
        is_done && self.recommendations.is_empty() && self.deviations.is_empty()
    }
}

fn push_new(list: &mut Vec<String>, entries: impl Iterator<Item = String>) {
    for entry in entries {
        if !entry.is_empty() && !list.contains(&entry) && list.len() < MAX_LEFT {
            list.push(entry);
        }
    }
}

/// What an iteration did for its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCompleted {
    pub task_id: TaskId,
    pub summary: String,
    /// Whether nothing is left to do.
    pub fully_complete: bool,
}

/// Where the work deviated from its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    pub planned: String,
    pub actual: String,
    pub reason: String,
}

/// A bug found during the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BugReport {
    pub description: String,
    pub resolution: String,
    pub resolved: bool,
}

/// Something left to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedItem {
    pub item: String,
    pub reason: String,
    pub priority: Priority,
}

/// How urgent something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    High,
    Medium,
    Low,
}

impl Priority {
    /// Returns the name used in prompts.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTouched {
    pub path: String,
    pub action: FileAction,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    Created,
    Modified,
    Deleted,
}

/// A change to the plan that an agent proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Amendment {
    Add {
        /// The task, as the agent wrote it.
        task: serde_json::Value,
        #[serde(default)]
        after: Option<TaskId>,
        reason: String,
    },
    Modify {
        task_id: TaskId,
        changes: serde_json::Value,
        reason: String,
    },
    Remove {
        task_id: TaskId,
        reason: String,
    },
    /// An entry that cannot be read, kept so that it can be reported.
    Unreadable {
        /// The beginning of the entry, as the agent wrote it.
        entry: String,
    },
}

/// Tests added to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestsAdded {
    pub file: String,
    pub test_names: Vec<String>,
}

/// A constraint found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    pub constraint: String,
    /// Consequence for the work.
    pub impact: String,
    #[serde(default)]
    pub workaround: Option<String>,
}

/// What an agent needs from a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedReason {
    pub needs: String,
    /// Why it cannot continue without it.
    pub why: String,
}

impl BlockedReason {
    /// Returns what is needed and why, for the user.
    pub fn description(&self) -> String {
        format!("needs {} ({})", self.needs.trim(), self.why.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_handoffs_leave_open_is_bounded_and_loses_resolved_bugs() {
        let handoff = |bugs: serde_json::Value| -> Handoff {
            let value = serde_json::json!({
                "task_completed": {"task_id": "T", "summary": "s", "fully_complete": true},
                "bugs_encountered": bugs,
                "unfinished_business": [{"item": "docs", "reason": "later", "priority": "low"}],
                "recommendations": ["use a cache", " "],
            });
            serde_json::from_value(value).expect("it is valid")
        };
        let bug = |name: &str, resolved: bool| serde_json::json!({"description": name, "resolution": "", "resolved": resolved});
        let mut left = LeftOpen::default();
        left.add_handoff(&handoff(serde_json::json!([bug("a", false), bug("b", true)])));
        left.add_handoff(&handoff(serde_json::json!([bug("a", true), bug("c", false)])));
        assert_eq!(left.recommendations, ["use a cache"]);
        let entries: Vec<_> = left.entries().collect();
        assert_eq!(entries, [("unfinished", "docs (low): later"), ("bug", "c")]);
        let many: Vec<_> = (0..30).map(|at| bug(&format!("bug {at}"), false)).collect();
        left.add_handoff(&handoff(many.into()));
        assert_eq!(left.bugs.len(), MAX_LEFT);
    }

    #[test]
    fn a_sparse_handoff_is_read() {
        let text = r#"{"task_completed": {"task_id": "T1", "summary": "Did it.", "fully_complete": true},
            "plan_amendments": [{"action": "remove", "task_id": "T9", "reason": "obsolete"}]}"#;
        let handoff: Handoff = serde_json::from_str(text).expect("it is valid");
        assert_eq!(handoff.task_completed.task_id, TaskId("T1".into()));
        assert_eq!(
            handoff.plan_amendments,
            [Amendment::Remove { task_id: TaskId("T9".into()), reason: "obsolete".into() }]
        );
        assert_eq!(handoff.blocked, None);
    }
}
