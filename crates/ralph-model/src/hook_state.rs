//! The state file of an active run, for the hooks that run inside an agent.
//!
//! A hook is a process that the agent starts. This file, which the agent cannot reach, is
//! all it knows of the run. Not here: writing and reading the file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::event::Purpose;
use crate::fingerprint;
use crate::glob::Pattern;
use crate::guard_policy::GuardPolicy;
use crate::ids::{AskNumber, IterationNumber, Role, RunId, TaskId};
use crate::list_snapshot::{EditContext, ListSnapshot};
use crate::review::ReviewPolicy;
use crate::task::{ListOwner, TaskList};
use crate::units::Timestamp;

/// The version of the format.
const FORMAT_VERSION: u32 = 1;

/// An active run and its current agent call. `S` is the type of the snapshot, which may
/// be large: a reader that does not need it can skip it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookState<S = ListSnapshot> {
    pub version: u32,
    pub run: RunId,
    /// When this was written, in UTC.
    #[serde(default)]
    pub timestamp: String,
    /// The process id of the run.
    pub pid: u32,
    /// When that process started.
    pub started: Timestamp,
    #[serde(default, rename = "max_iterations")]
    pub max_iterations: Option<u32>,
    /// How agents are started.
    #[serde(default)]
    pub mode: String,
    #[serde(default)]
    pub skip_review: bool,
    /// The number of the review that always approves.
    #[serde(default)]
    pub review_cap: Option<u32>,
    #[serde(default)]
    pub iteration: Option<IterationNumber>,
    /// What the call is for: a role, `review-fix` for a fix, or `gate`.
    #[serde(default)]
    pub iteration_mode: Option<String>,
    #[serde(default)]
    pub task: Option<TaskId>,
    #[serde(default)]
    pub title: Option<String>,
    /// The id of the agent's session, if the agent accepts one.
    #[serde(default)]
    pub session: Option<String>,
    #[serde(default)]
    pub project: Option<PathBuf>,
    #[serde(default)]
    pub tasks_file: Option<PathBuf>,
    #[serde(default)]
    pub keeper: Option<ListOwner>,
    #[serde(default)]
    pub commit: Option<Committer>,
    /// Paths that an attempt may not change.
    #[serde(default = "Vec::new")]
    pub protect: Vec<Pattern>,
    /// The only paths that an attempt may change, if limited.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<Pattern>,
    /// How the guard treats its findings, from the settings.
    #[serde(default)]
    pub guard: GuardPolicy,
    /// The tasks when the call began, where an agent owns the list.
    #[serde(default = "default_to_none")]
    pub pre_iteration_snapshot: Option<S>,
    /// The list without its tasks when the call began, where an agent owns the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_settings: Option<TaskList>,
}

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Committer {
    Agent,
    Ralph,
    /// A source-control command of the user's.
    Scm,
    #[serde(rename = "nobody")]
    NoCommit,
}

impl HookState {
    /// Returns the state of a run that has not called an agent yet.
    pub fn new(run: RunId, pid: u32, started: Timestamp) -> Self {
        Self {
            version: FORMAT_VERSION,
            run,
            timestamp: started.to_utc(),
            pid,
            started,
            max_iterations: None,
            mode: "direct".to_owned(),
            skip_review: false,
            review_cap: None,
            iteration: None,
            iteration_mode: None,
            task: None,
            title: None,
            session: None,
            project: None,
            tasks_file: None,
            keeper: None,
            commit: None,
            protect: Vec::new(),
            scope: Vec::new(),
            guard: GuardPolicy::default(),
            pre_iteration_snapshot: None,
            list_settings: None,
        }
    }
}

impl<S> HookState<S> {
    /// Returns the state with another snapshot, or without one.
    #[must_use]
    pub fn with_snapshot<T>(self, snapshot: Option<T>) -> HookState<T> {
        HookState {
            version: self.version,
            run: self.run,
            timestamp: self.timestamp,
            pid: self.pid,
            started: self.started,
            max_iterations: self.max_iterations,
            mode: self.mode,
            skip_review: self.skip_review,
            review_cap: self.review_cap,
            iteration: self.iteration,
            iteration_mode: self.iteration_mode,
            task: self.task,
            title: self.title,
            session: self.session,
            project: self.project,
            tasks_file: self.tasks_file,
            keeper: self.keeper,
            commit: self.commit,
            protect: self.protect,
            scope: self.scope,
            guard: self.guard,
            pre_iteration_snapshot: snapshot,
            list_settings: self.list_settings,
        }
    }

    /// Returns the role of the call, if it does the work of an iteration.
    pub fn role(&self) -> Option<Role> {
        let roles = [Role::Prompt, Role::Plan, Role::Build, Role::Implement, Role::Review];
        let name = self.iteration_mode.as_deref()?;
        roles
            .into_iter()
            .chain([Role::Fix])
            .find(|role| name_call_mode(&Purpose::Work, *role) == name)
    }

    /// Returns the review policy.
    pub fn review_policy(&self) -> ReviewPolicy {
        match (self.skip_review, self.review_cap) {
            (true, _) => ReviewPolicy::Skip,
            (false, cap) => ReviewPolicy::Fresh { cap: cap.unwrap_or(u32::MAX) },
        }
    }

    /// Returns the context by which edits of the task list are judged; nothing if the
    /// call does not do the work of an iteration.
    pub fn edit_context(&self) -> Option<EditContext> {
        Some(EditContext {
            role: self.role()?,
            task: self.task.clone(),
            review: self.review_policy(),
        })
    }
}

/// Returns the id of an agent's session: always the same for a call, and a valid UUID
/// (version 8, for custom ids).
pub fn make_session_id(run: &RunId, iteration: IterationNumber, ask: AskNumber) -> String {
    let (iteration, ask) = (iteration.0.to_string(), ask.0.to_string());
    let hash = fingerprint::hash_texts(["session", run.0.as_str(), &iteration, &ask]);
    let version = (hash & !(0xf << 76)) | (0x8 << 76);
    let uuid = (version & !(0x3 << 62)) | (0x2 << 62);
    let digits = format!("{uuid:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Returns the name of a call's purpose.
pub fn name_call_mode(purpose: &Purpose, role: Role) -> &'static str {
    match (purpose, role) {
        (Purpose::Gate(_), _) => "gate",
        (Purpose::Message, _) => "message",
        (Purpose::Work, Role::Fix) => "review-fix",
        (
            Purpose::Work,
            Role::Prompt
            | Role::Plan
            | Role::Build
            | Role::Implement
            | Role::Review
            | Role::Compact
            | Role::Message
            | Role::Merge,
        ) => role.name(),
    }
}

fn default_to_none<S>() -> Option<S> {
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::IgnoredAny;

    use super::*;

    #[test]
    fn a_session_id_is_a_uuid_and_unique_per_call() {
        let id = |run: &str, iteration, ask| {
            make_session_id(&RunId(run.into()), IterationNumber(iteration), AskNumber(ask))
        };
        assert_eq!(id("20261114-231500-k3f9", 3, 1), id("20261114-231500-k3f9", 3, 1));
        let mut seen = BTreeSet::new();
        for (run, iteration, ask) in
            (0..30).flat_map(|at| [("a", at, 1), ("a", at, 11), ("b", at, 1), ("a1", at, 1)])
        {
            let id = id(run, iteration, ask);
            let parts: Vec<&str> = id.split('-').collect();
            assert_eq!(parts.iter().map(|it| it.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(parts[2].starts_with('8'), "{id}");
            assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
            assert!(seen.insert(id));
        }
    }

    #[test]
    fn only_roles_of_work_are_read_back() {
        let mut active: HookState = HookState::new(RunId("r".into()), 7, Timestamp(0));
        assert_eq!(active.role(), None);
        for role in [Role::Prompt, Role::Implement, Role::Review, Role::Fix, Role::Build] {
            active.iteration_mode = Some(name_call_mode(&Purpose::Work, role).to_owned());
            assert_eq!(active.role(), Some(role));
        }
        for (purpose, role) in
            [(Purpose::Gate("g".into()), Role::Review), (Purpose::Message, Role::Message)]
        {
            active.iteration_mode = Some(name_call_mode(&purpose, role).to_owned());
            assert_eq!(active.role(), None);
        }
    }

    #[test]
    fn it_can_be_read_without_the_snapshot() {
        let active = HookState {
            pre_iteration_snapshot: Some(ListSnapshot::default()),
            ..HookState::new(RunId("r".into()), 7, Timestamp(0))
        };
        let text = serde_json::to_string(&active).expect("serializable");
        assert!(text.contains(r#""max_iterations":null,"mode":"direct","skipReview":false"#));
        assert_eq!(serde_json::from_str::<HookState>(&text).expect("readable"), active);
        let read: HookState<IgnoredAny> = serde_json::from_str(&text).expect("readable");
        assert_eq!((read.pid, read.run), (7, RunId("r".into())));
        // Files of an older ralph can be read as well.
        let old = r#"{"version":1,"run":"r","pid":7,"started":5}"#;
        let read: HookState = serde_json::from_str(old).expect("readable");
        assert_eq!((read.started, read.pre_iteration_snapshot), (Timestamp(5), None));
    }
}
