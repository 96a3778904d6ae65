//! One `ralph worker` on a node: started, followed, and stopped through its input.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time;

use crate::service::JobProgress;

/// How long a worker may take to stop after the end of its input. Then it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// The exit code for a git remote that refused a push, or did not work for an hour.
const GIT_FAILED: i32 = 5;

/// How a worker is started.
#[derive(Debug, Clone)]
pub(crate) struct WorkerCommand {
    pub(crate) job: String,
    pub(crate) label: String,
    /// The name of the node, which people see.
    pub(crate) node: String,
    pub(crate) remote: String,
    /// The directory of clones on this node.
    pub(crate) directory: PathBuf,
    /// What it prints for people goes here.
    pub(crate) log: PathBuf,
}

/// What an exit code of `ralph worker` means for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerExit {
    /// The result is on its ref.
    HasResult,
    /// The machine does not do this job, for example because its version differs.
    Refused,
    /// The run withdrew the job, or started another attempt.
    Withdrawn,
    /// Another attempt makes sense.
    Lost(Option<i32>),
}

impl WorkerExit {
    /// Returns the meaning of an exit code; none if a signal ended the worker.
    pub(crate) fn from_code(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::HasResult,
            Some(2) => Self::Refused,
            Some(3) => Self::Withdrawn,
            code => Self::Lost(code),
        }
    }

    /// Returns a description for people. What the worker printed is in its log, on the node.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::HasResult => "has a result",
            Self::Refused => "refused; see its log on the node",
            Self::Withdrawn => "withdrawn by the run",
            Self::Lost(Some(GIT_FAILED)) => {
                "the git remote refused the push or did not answer; see its log on the node"
            }
            Self::Lost(Some(_)) => "`ralph worker` failed; see its log on the node",
            Self::Lost(None) => "`ralph worker` was killed",
        }
    }
}

/// Runs a worker to its end, or until it is to stop.
pub(crate) async fn run_worker(
    command: &WorkerCommand,
    progress: &Mutex<JobProgress>,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<WorkerExit> {
    fs::create_dir_all(&command.directory)?;
    let log = File::options().create(true).append(true).open(&command.log)?;
    // The end of its input stops the worker, also when this process is killed.
    let mut child = Command::new("ralph")
        .args(["worker", "--json", "--lifeline", "--job", &command.job])
        .args(["--attempt", &command.label, "--remote", &command.remote])
        .args(["--name", &command.node, "-C"])
        .arg(&command.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let mut lifeline = child.stdin.take();
    let output = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    let mut lines = BufReader::new(output).lines();
    let mut has_output = true;
    let mut patience = None;
    loop {
        tokio::select! {
            line = lines.next_line(), if has_output => match line {
                Ok(Some(line)) => {
                    progress.lock().unwrap_or_else(PoisonError::into_inner).apply_line(&line);
                }
                Ok(None) | Err(_) => has_output = false,
            },
            status = child.wait() => return Ok(WorkerExit::from_code(status?.code())),
            _ = stopping.wait_for(|it| *it), if lifeline.is_some() => {
                lifeline = None;
                patience = Some(time::Instant::now() + STOP_TIMEOUT);
            }
            () = sleep_until(patience), if patience.is_some() => {
                patience = None;
                child.start_kill()?;
            }
        }
    }
}

async fn sleep_until(end: Option<time::Instant>) {
    if let Some(end) = end {
        time::sleep_until(end).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_of_workers_are_read() {
        for (code, expected) in [
            (Some(0), WorkerExit::HasResult),
            (Some(2), WorkerExit::Refused),
            (Some(3), WorkerExit::Withdrawn),
            (Some(5), WorkerExit::Lost(Some(5))),
            (Some(130), WorkerExit::Lost(Some(130))),
            (None, WorkerExit::Lost(None)),
        ] {
            assert_eq!(WorkerExit::from_code(code), expected, "{code:?}");
        }
    }
}
