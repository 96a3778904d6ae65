//! A source-control command that lands work.
//!
//! Not here: running it.

use serde::{Deserialize, Serialize};

/// A source-control command and what to do with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scm {
    pub command: String,
    /// What to run, in order.
    pub tasks: Vec<ScmTask>,
    #[serde(default)]
    pub message: MessageAuthor,
}

/// Who writes the message of a commit that is one of the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageAuthor {
    /// An agent is asked for it.
    #[default]
    Agent,
    /// ralph, without a call.
    Ralph,
}

impl Scm {
    /// Returns whether the program is git, at any path.
    pub fn is_git(&self) -> bool {
        self.command.rsplit('/').next() == Some("git")
    }

    /// Returns the remote that git pushes to, if one of the tasks pushes.
    pub fn find_push_remote(&self) -> Option<&str> {
        let push = self.tasks.iter().find_map(|task| match task {
            ScmTask::Run(args) if self.is_git() => args.split_first().filter(|it| it.0 == "push"),
            ScmTask::Run(_) | ScmTask::Commit => None,
        })?;
        Some(push.1.iter().find(|it| !it.starts_with('-')).map_or("origin", String::as_str))
    }
}

/// One source-control task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScmTask {
    /// Commits everything except runtime files, with the agent's message.
    Commit,
    /// Runs the command with these arguments.
    Run(Vec<String>),
}

impl ScmTask {
    /// Returns whether this is the commit.
    pub fn is_commit(&self) -> bool {
        match self {
            Self::Commit => true,
            Self::Run(_) => false,
        }
    }
}
