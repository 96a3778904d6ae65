//! The description of a child: what to start, with which input, and for how long.
//!
//! Not here: finding the program's file (`program`) and starting it (`registry`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::space::DiskLimit;

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// A name to look up on the `PATH` in `env`, or a path; a relative path starts from `cwd`.
    pub program: OsString,
    /// The arguments, without the program itself.
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// The complete environment; nothing else is inherited.
    pub env: Vec<(OsString, OsString)>,
    pub stdin: StdinSource,
    pub limits: ProcessLimits,
}

/// The standard input of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdinSource {
    /// End of file at once.
    Null,
    /// These bytes, then end of file. It is no error if the child does not read them.
    Bytes(Vec<u8>),
    /// These bytes, then messages, until the [`super::ChildStdin`] is closed.
    Open(Vec<u8>),
}

/// How long a child may run, in running time (pauses and suspends do not count), and how much it
/// may print and write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Passing this is only recorded.
    pub soft: Option<Duration>,
    /// The child is ended after this.
    pub hard: Option<Duration>,
    /// The child is ended after this long without a useful event.
    pub idle: Option<Duration>,
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// How long to wait, after the exit, for pipes that another process still holds open.
    pub drain: Duration,
    /// How long the child may stay after its final result.
    pub linger: Option<Duration>,
    /// The child is ended after printing more bytes.
    pub output: Option<u64>,
    /// The child is ended after using more disk space.
    pub space: Option<DiskLimit>,
}

impl Default for ProcessLimits {
    /// Returns no limits for a well-behaved child.
    ///
    /// An agent that is terminated saves its session and ends its tools; 5 s are enough for the
    /// known ones. What a child wrote before its exit is in the pipe already and is read within
    /// milliseconds; 500 ms leave room for a loaded machine.
    fn default() -> Self {
        Self {
            soft: None,
            hard: None,
            idle: None,
            grace: Duration::from_secs(5),
            drain: Duration::from_millis(500),
            linger: None,
            output: None,
            space: None,
        }
    }
}
