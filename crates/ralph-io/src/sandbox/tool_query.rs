//! Runs a short query against another program: whether it exists, and what it prints.
//!
//! Not here: what the answers mean.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use ralph_model::child::{Ending, NotStarted};

use crate::process::{Captured, ProcessLimits, Spawn, StdinSource, Watch, capture_output};

/// Longest time for an answer. A container engine answers in half a second, and on a busy machine
/// in more than three.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 30 });

/// More than any answer that is read.
const MOST_BYTES: usize = 1 << 20;

/// The result of a query.
pub(super) enum ToolAnswer {
    /// Exit code 0, with its standard output.
    Output(String),
    /// Any other ending, with the last line of its standard error.
    Failed(String),
    /// It did not end in time; a message with the timeout.
    Silent(String),
    /// There is no such program.
    Absent,
}

/// Returns a child for a query, in a directory that always exists.
pub(super) fn build_query(
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
        stdin: StdinSource::Null,
        limits: ProcessLimits {
            hard: Some(longest),
            grace: Duration::from_millis(200),
            ..ProcessLimits::default()
        },
    }
}

/// Runs the query.
pub(super) fn query_tool(spawn: &Spawn, watch: &Watch) -> ToolAnswer {
    let Captured { end, stdout, stderr, .. } = capture_output(spawn, watch, MOST_BYTES);
    match end.ending {
        Ending::Exited { code: 0 } => {
            ToolAnswer::Output(String::from_utf8_lossy(&stdout).into_owned())
        }
        Ending::NotStarted { reason: NotStarted::NotFound { .. } } => ToolAnswer::Absent,
        Ending::TimedOut { .. } => {
            let seconds = spawn.limits.hard.unwrap_or_default().as_secs();
            ToolAnswer::Silent(format!("it does not answer within {seconds} s"))
        }
        Ending::Exited { .. }
        | Ending::Signalled { .. }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }
        | Ending::NotStarted { .. } => {
            let stderr = String::from_utf8_lossy(&stderr).into_owned();
            let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
            ToolAnswer::Failed(last.map_or_else(|| "it prints no reason".to_owned(), str::to_owned))
        }
    }
}
