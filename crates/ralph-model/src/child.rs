//! How a child process ended: the one model that agents, gates and git commands share.
//!
//! Not here: starting, reading or ending processes. That is `ralph-io`'s `process` room.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Millis;

/// Everything known about a child process after it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildEnd {
    pub ending: Ending,
    /// How long it ran, without the time it was paused.
    pub ran: Millis,
    /// Whether it ran past its soft limit.
    pub soft_limit: SoftLimit,
    /// Processes and pipes it left behind.
    pub leftovers: Leftovers,
}

impl ChildEnd {
    /// Returns the end of a child that never started, or of which nothing else is known.
    pub fn from_ending(ending: Ending) -> Self {
        Self {
            ending,
            ran: Millis::ZERO,
            soft_limit: SoftLimit::Kept,
            leftovers: Leftovers::default(),
        }
    }
}

/// What ended a child process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Ending {
    /// It exited by itself.
    Exited {
        code: i32,
    },
    /// A signal that was not sent by ralph ended it.
    Signalled {
        signal: i32,
    },
    /// It ran past a limit and was ended.
    TimedOut {
        /// The limit it ran past.
        limit: Limit,
        /// How it was ended.
        force: Force,
    },
    /// It had printed its last result, did not exit within the grace period, and was
    /// ended.
    Lingered {
        /// How it was ended.
        force: Force,
    },
    /// The user asked ralph to end it.
    Interrupted {
        /// How it was ended.
        force: Force,
    },
    NotStarted {
        reason: NotStarted,
    },
}

impl Ending {
    /// Returns whether the child exited by itself with code 0.
    pub fn is_success(&self) -> bool {
        *self == Self::Exited { code: 0 }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code {code}"),
            Self::Signalled { signal } => write!(f, "killed by signal {signal}"),
            Self::TimedOut { limit: Limit::Hard, .. } => f.write_str("timed out"),
            Self::TimedOut { limit: Limit::Idle, .. } => f.write_str("idle for too long"),
            Self::TimedOut { limit: Limit::Output, .. } => f.write_str("printed too much"),
            Self::TimedOut { limit: Limit::Growth, .. } => {
                f.write_str("wrote more to the disk than `sandbox.limits.growth` allows")
            }
            Self::TimedOut { limit: Limit::Disk, .. } => f.write_str("the disk was nearly full"),
            Self::Lingered { .. } => f.write_str("ended after its last result"),
            Self::Interrupted { .. } => f.write_str("interrupted"),
            Self::NotStarted { reason } => write!(f, "not started: {reason}"),
        }
    }
}

/// Which limit ended a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The whole running time.
    Hard,
    /// The time without a useful event.
    Idle,
    /// What it may print.
    Output,
    /// What it may add to the project and to other writable directories.
    Growth,
    /// What must stay free on the disk.
    Disk,
}

/// How a child was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Force {
    /// It exited within the grace period after SIGTERM.
    Terminated,
    /// It had to be killed with SIGKILL.
    Killed,
}

/// Whether a child ran past its soft limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoftLimit {
    /// There was no limit, or it was not reached.
    #[default]
    Kept,
    /// The limit was passed.
    Passed,
}

/// What a child left behind when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Leftovers {
    /// Processes of its tree that were still running and were ended.
    pub processes: u32,
    /// Whether a pipe was still held open when the drain period was over.
    pub held_pipe: bool,
}

/// Why a child never ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum NotStarted {
    /// There is no such program on `PATH` or at the path.
    NotFound { program: String },
    /// The file is not executable, or a directory on the path is not accessible.
    NotAllowed { program: String },
    /// The sandbox hides it or something it needs to start.
    NotInSandbox { program: String, error: String },
    /// Any other error of the system.
    Refused {
        program: String,
        /// The system's error message.
        error: String,
    },
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { program } => write!(f, "`{program}` was not found"),
            Self::NotAllowed { program } => write!(f, "`{program}` may not be executed"),
            Self::NotInSandbox { program, error } | Self::Refused { program, error } => {
                write!(f, "`{program}`: {error}")
            }
        }
    }
}
