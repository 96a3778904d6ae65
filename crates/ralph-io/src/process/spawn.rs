//! The plain description of a child: what to start, with what, and for how long.
//!
//! Not here: finding the program's file (`program`) and starting it (`registry`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::space::Space;

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// The program: a name to look up on the `PATH` in `env`, or a path; a relative path counts
    /// from `cwd`.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub args: Vec<OsString>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// Its complete environment; nothing else is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may take.
    pub limits: Limits,
}

/// What a child reads on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the end of the file comes at once.
    Null,
    /// These bytes, then the end of the file. A child that does not read them is no error.
    Bytes(Vec<u8>),
    /// These bytes, and then what its listener says, until that closes its [`super::Mouth`].
    Open(Vec<u8>),
}

/// How long a child may take, in running time (pauses and suspends do not count), and how much it
/// may print and write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Past this it is only noted.
    pub soft: Option<Duration>,
    /// Past this it is ended.
    pub hard: Option<Duration>,
    /// After this long without a useful event it is ended.
    pub idle: Option<Duration>,
    /// Between TERM and KILL.
    pub grace: Duration,
    /// How long to wait, after the exit, for pipes that something still holds open.
    pub drain: Duration,
    /// How long it may stay after its final word.
    pub linger: Option<Duration>,
    /// How many bytes it may print; past them it is ended.
    pub output: Option<u64>,
    /// How much of the disk it may take; past it, it is ended.
    pub space: Option<Space>,
}

impl Default for Limits {
    /// Returns no limits on a child that behaves.
    ///
    /// An agent told to end writes its session and ends its tools; 5 s are enough for the
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
