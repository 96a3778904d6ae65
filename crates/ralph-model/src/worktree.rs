//! The work tree and its history: checkpoints, observations of changes, and the steps of a landing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::handoff::FileTouched;

/// Snapshot of the repository and the task file when a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSnapshot {
    /// The state of the repository, if there is work that has not landed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Checkpoint>,
    /// Whether the task file matched the run's list.
    #[serde(default, rename = "is_listed")]
    pub task_file_in_sync: bool,
}

/// What is checked out: commit and branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedOut {
    /// The commit; none before the first one.
    pub head: Option<CommitId>,
    /// The full name of the branch; none if HEAD is detached.
    pub branch: Option<String>,
}

impl CheckedOut {
    /// Returns the branch name without `refs/heads/`.
    pub fn short_branch(&self) -> Option<&str> {
        self.branch.as_deref().map(|name| name.strip_prefix("refs/heads/").unwrap_or(name))
    }
}

/// Such as `main at 1f2e3d4`.
impl fmt::Display for CheckedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.short_branch(), &self.head) {
            (Some(branch), Some(head)) => write!(f, "{branch} at {}", head.short_id()),
            (Some(branch), None) => write!(f, "{branch} without a commit"),
            (None, Some(head)) => write!(f, "{} without a branch", head.short_id()),
            (None, None) => f.write_str("nothing"),
        }
    }
}

/// Changes of the work tree and of the history since work began that has not landed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The tree id of the whole work tree.
    pub tree: TreeId,
    /// Whether it differs from the commit that is checked out.
    pub changes: TreeDiff,
    /// Files that differ from the checkpoint, as paths from the project directory,
    /// watched ones first; at most [`OBSERVED_FILES`].
    pub files: Vec<FileTouched>,
    /// Number of further files.
    pub more_files: u32,
    pub history: History,
    /// What is checked out; none in old journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_out: Option<CheckedOut>,
    /// Paths that differ from the commit that is checked out; at most [`UNCOMMITTED_FILES`].
    #[serde(default)]
    pub uncommitted: Vec<String>,
    /// Secrets in added text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<SecretLeak>,
    /// git's own files that were changed, and were restored.
    #[serde(default, rename = "meddling", skip_serializing_if = "Vec::is_empty")]
    pub git_tampering: Vec<String>,
    /// Files in which conflict markers of a merge were left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflict_markers: Vec<String>,
    /// Changed autorun files; at most `MAX_AUTORUN_CHANGES`.
    #[serde(default, rename = "planted", skip_serializing_if = "Vec::is_empty")]
    pub autorun_changes: Vec<AutorunChange>,
}

impl Observation {
    /// Returns an observation of which nothing else is known.
    pub fn new(tree: TreeId, changes: TreeDiff) -> Self {
        Self {
            tree,
            changes,
            files: Vec::new(),
            more_files: 0,
            history: History::Same,
            checked_out: None,
            uncommitted: Vec::new(),
            leaks: Vec::new(),
            git_tampering: Vec::new(),
            conflict_markers: Vec::new(),
            autorun_changes: Vec::new(),
        }
    }

    /// Adds what an earlier observation found. Forbidden changes stay forbidden if they are
    /// gone after the run was stopped: ralph may have undone them before it died.
    pub fn add_forbidden(&mut self, before: &Self) {
        let is_new = |file: &&FileTouched| !self.files.iter().any(|it| it.path == file.path);
        let files: Vec<FileTouched> = before.files.iter().filter(is_new).cloned().collect();
        self.files.extend(files);
        let is_new = |path: &&String| !self.git_tampering.contains(path);
        let paths: Vec<String> = before.git_tampering.iter().filter(is_new).cloned().collect();
        self.git_tampering.extend(paths);
    }

    /// Returns the work tree as observed.
    pub fn to_survey(&self) -> Survey {
        let Self { tree, changes, checked_out, .. } = self;
        Survey { tree: tree.clone(), changes: *changes, checked_out: checked_out.clone() }
    }
}

/// Everything in the work tree that is not ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    pub tree: TreeId,
    /// Whether it differs from the last commit.
    pub changes: TreeDiff,
    /// What is checked out, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_out: Option<CheckedOut>,
}

impl Survey {
    /// Returns the surveyed state to compare with.
    pub fn to_checkpoint(&self) -> Checkpoint {
        let place = self.checked_out.clone();
        let (head, branch) = place.map_or((None, None), |it| (it.head, it.branch));
        Checkpoint::Git { head, branch, tree: Some(self.tree.clone()) }
    }
}

/// Returns the feedback for an agent that changed git's own files.
pub fn describe_git_tampering(paths: &[String]) -> String {
    format!(
        "These files belong to git itself, or are hidden from git, or are refs that are not yours, and were changed. They have been restored; do not touch them:\n- {}",
        paths.join("\n- ")
    )
}

/// How many changed files an observation names.
pub const OBSERVED_FILES: usize = 200;

/// How many uncommitted files an observation names.
pub const UNCOMMITTED_FILES: usize = 20;

/// The id of a git tree: a fingerprint of everything that is not ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeId(pub String);

impl TreeId {
    /// Returns the first ten digits, enough among all objects of a repository.
    pub fn short_id(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }
}

/// The id of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(pub String);

impl CommitId {
    /// Returns the first seven digits.
    pub fn short_id(&self) -> &str {
        self.0.get(..7).unwrap_or(&self.0)
    }
}

/// The state that an iteration starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Checkpoint {
    /// There is no repository: nothing can be restored.
    None,
    /// A state of the repository.
    Git {
        /// The commit that was checked out; none before the first commit.
        head: Option<CommitId>,
        /// The full name of the branch that was checked out; none if HEAD was detached.
        #[serde(default)]
        branch: Option<String>,
        /// The tree id of the work tree, where the recipe may have to restore it.
        tree: Option<TreeId>,
    },
}

impl Checkpoint {
    /// Returns the commit that was checked out.
    pub fn head(&self) -> Option<&CommitId> {
        match self {
            Self::None => None,
            Self::Git { head, .. } => head.as_ref(),
        }
    }
}

/// A finished step of a landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "did")]
pub enum Landed {
    /// The tree that passed was recorded, so that exactly it is committed.
    Surveyed {
        tree: Option<TreeId>,
        /// Whether it differs from the last commit.
        changes: TreeDiff,
        /// What is checked out; none in old journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checked_out: Option<CheckedOut>,
    },
    /// The agent asked for a commit message has answered, and its changes were discarded.
    #[serde(rename = "heard")]
    MessageChecked {
        /// The ref that keeps removed work; none if there was none.
        kept: Option<String>,
    },
    Committed {
        commit: CommitId,
        subject: String,
    },
    NothingToCommit,
    /// The commit was refused: git's own files changed, or a file contains a secret. Hooks run
    /// before the judgement.
    CommitRefused {
        output: String,
    },
    /// A source-control command was run.
    ScmRan {
        command: String,
    },
    /// The list as changed by this landing was written to the task file.
    ListWritten,
    /// The work was saved to a failure branch, and the tree went back to where it began.
    #[serde(rename = "shelved")]
    SavedToFailureBranch {
        branch: String,
        commit: CommitId,
    },
    /// The tree was restored to the checkpoint.
    RolledBack {
        /// The ref that keeps removed work; none if there was none.
        kept: Option<String>,
    },
}

impl Landed {
    /// Returns the tree that passed, if this is a survey.
    pub fn surveyed_tree(&self) -> Option<&TreeId> {
        let Self::Surveyed { tree, .. } = self else { return None };
        tree.as_ref()
    }

    /// Returns the HEAD that the survey was taken on.
    pub fn surveyed_head(&self) -> Option<&CheckedOut> {
        let Self::Surveyed { checked_out, .. } = self else { return None };
        checked_out.as_ref()
    }

    /// Returns the new commit, if this made one.
    pub fn commit(&self) -> Option<&CommitId> {
        let Self::Committed { commit, .. } = self else { return None };
        Some(commit)
    }

    /// Returns why a commit was refused.
    pub fn refusal(&self) -> Option<&str> {
        let Self::CommitRefused { output } = self else { return None };
        Some(output)
    }

    /// Returns the failure branch, if work was saved to one.
    pub fn failure_branch(&self) -> Option<&str> {
        let Self::SavedToFailureBranch { branch, .. } = self else { return None };
        Some(branch)
    }
}

/// Whether a tree differs from the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeDiff {
    #[serde(rename = "some")]
    Dirty,
    #[serde(rename = "none")]
    Clean,
}

/// How the history changed since a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum History {
    /// Branch and commit are the same.
    Same,
    /// There are further commits on the branch.
    Advanced { commits: u32 },
    /// The checkpoint's commit is no longer an ancestor, or another branch is checked out.
    Rewritten,
}

/// A secret in an added line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretLeak {
    /// The file, relative to the project directory.
    pub path: String,
    /// The line number, from 1.
    pub line: u32,
    /// The kind of secret, such as `a GitHub token`.
    pub what: String,
}

impl SecretLeak {
    /// The kind of a secret that is known by its value.
    pub const KNOWN_VALUE: &str = "a known secret";
    /// Begins the path of a secret in a commit message.
    pub const IN_MESSAGE: &str = "the message of commit ";
    /// Begins the path of a secret in the name of a file.
    pub const IN_NAME: &str = "the name of the file ";

    /// Returns whether `secrets.allow` can allow it: it is in a file, and only its shape is known.
    pub fn can_be_allowed(&self) -> bool {
        let is_in_file = ![Self::IN_MESSAGE, Self::IN_NAME, "*"]
            .iter()
            .any(|start| self.path.starts_with(start));
        is_in_file && self.what != Self::KNOWN_VALUE
    }
}

/// A change to an autorun file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AutorunChange {
    /// The file, relative to the project directory.
    pub path: String,
    pub kind: AutorunKind,
}

/// The kind of an autorun file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutorunKind {
    /// A file that became executable.
    Executable,
    /// Git hooks in the repository.
    Hooks,
    /// Tasks and settings of an editor.
    Editor,
    Ci,
    /// Instructions, servers or hooks of an agent.
    Agent,
    /// Loaded by a shell on entering the directory.
    Shell,
    /// Scripts that a package manager runs by itself.
    Package,
    Submodules,
    /// It says what a gate checks, or a gate starts it.
    Gate,
}

impl AutorunKind {
    /// Returns the kind as text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Executable => "a new executable",
            Self::Hooks => "git hooks",
            Self::Editor => "editor settings",
            Self::Ci => "jobs of a build server",
            Self::Agent => "configuration of an agent",
            Self::Shell => "loaded by the shell",
            Self::Package => "scripts of a package manager",
            Self::Submodules => "submodules",
            Self::Gate => "defines what a gate checks",
        }
    }
}

/// How many are listed at most; a person has to check each of them.
pub const MAX_AUTORUN_CHANGES: usize = 50;
