//! Asks a program of others something short: whether it is there, and what it says.
//!
//! Not here: what the answers mean.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use ralph_core::child::{Ending, NotStarted};

use crate::process::{Captured, Limits, Spawn, Stdin, Watch, capture};

/// One that does not answer within this is not there for us. An engine answers in half a second, and
/// on a machine that is busy with everything else in more than three.
pub(super) const PROBE: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 30 });

/// More than any answer that is read.
const MOST_BYTES: usize = 1 << 20;

/// What came of it.
pub(super) enum Answer {
    /// Exit code 0, and this on its standard output.
    Said(String),
    /// It ended otherwise; the last line that it wrote.
    Failed(String),
    /// It did not end in time; how long that was, in words.
    Silent(String),
    /// There is no such program.
    Absent,
}

/// Returns a child that only talks, in a directory that is always there.
pub(super) fn talker(
    program: &Path,
    args: &[&str],
    env: &[(OsString, OsString)],
    longest: Duration,
) -> Spawn {
    Spawn {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: env.to_vec(),
        stdin: Stdin::Null,
        limits: Limits {
            hard: Some(longest),
            grace: Duration::from_millis(200),
            ..Limits::default()
        },
    }
}

/// Runs it and listens.
pub(super) fn ask(spawn: &Spawn, watch: &Watch) -> Answer {
    let Captured { end, stdout, stderr, .. } = capture(spawn, watch, MOST_BYTES);
    match end.ending {
        Ending::Exited { code: 0 } => Answer::Said(String::from_utf8_lossy(&stdout).into_owned()),
        Ending::NotStarted { reason: NotStarted::NotFound { .. } } => Answer::Absent,
        Ending::TimedOut { .. } => {
            let seconds = spawn.limits.hard.unwrap_or_default().as_secs();
            Answer::Silent(format!("it does not answer within {seconds} s"))
        }
        Ending::Exited { .. }
        | Ending::Signalled { .. }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }
        | Ending::NotStarted { .. } => {
            let words = String::from_utf8_lossy(&stderr).into_owned();
            let last = words.lines().rev().find(|line| !line.trim().is_empty());
            Answer::Failed(
                last.map_or_else(|| "it says nothing about why".to_owned(), str::to_owned),
            )
        }
    }
}
