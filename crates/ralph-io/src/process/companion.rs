//! A helper process that runs alongside ralph, such as the sleep inhibitor or a worker.
//!
//! Not here: children whose output and end are supervised (`supervise`), and the warden.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ralph_model::child::NotStarted;
use rustix::process::{Pid, Signal};

use super::program;
use super::registry::{self, ProcessKind, signal_group};
use super::spawn::Spawn;
use super::tree::{self, Life};

/// A helper process that the orphan sweep ignores and that ends with this value.
#[derive(Debug)]
pub struct Companion {
    child: Child,
}

impl Companion {
    /// Starts it, without input or output; limits do not apply.
    pub fn start(spawn: &Spawn) -> Result<Self, NotStarted> {
        Self::start_with(
            spawn,
            [Stdio::null(), Stdio::null(), Stdio::null()],
            ProcessKind::Companion,
        )
    }

    /// Starts it with pipes to its input and from its output. Its errors are written to a file.
    pub fn start_piped(
        spawn: &Spawn,
        errors: Stdio,
    ) -> Result<(Self, ChildStdin, ChildStdout), NotStarted> {
        Self::start_piped_as(spawn, errors, ProcessKind::Companion)
    }

    /// Starts it with pipes, and lets what it has started outlive a ralph that is killed.
    pub fn start_job_starter(
        spawn: &Spawn,
        errors: Stdio,
    ) -> Result<(Self, ChildStdin, ChildStdout), NotStarted> {
        Self::start_piped_as(spawn, errors, ProcessKind::JobStarter)
    }

    fn start_piped_as(
        spawn: &Spawn,
        errors: Stdio,
        kind: ProcessKind,
    ) -> Result<(Self, ChildStdin, ChildStdout), NotStarted> {
        let streams = [Stdio::piped(), Stdio::piped(), errors];
        let mut started = Self::start_with(spawn, streams, kind)?;
        match (started.child.stdin.take(), started.child.stdout.take()) {
            (Some(input), Some(output)) => Ok((started, input, output)),
            (_, _) => Err(program::convert_start_error(spawn, &io::Error::other("no pipes"))),
        }
    }

    fn start_with(
        spawn: &Spawn,
        [input, output, errors]: [Stdio; 3],
        kind: ProcessKind,
    ) -> Result<Self, NotStarted> {
        let mut command = Command::new(program::find_program(spawn)?);
        command
            .args(&spawn.args)
            .current_dir(&spawn.cwd)
            .env_clear()
            .envs(spawn.env.iter().map(|(name, value)| (name, value)))
            .stdin(input)
            .stdout(output)
            .stderr(errors);
        let started = registry::lock_registry().start_process(&mut command, kind);
        match started {
            Ok((child, _)) => Ok(Self { child }),
            Err(error) => Err(program::convert_start_error(spawn, &error)),
        }
    }

    /// Waits until it has exited, but not longer than this. Returns how it exited.
    pub fn wait_for_exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        let (begun, pid) = (Instant::now(), Pid::from_child(&self.child));
        while tree::find_process(pid).is_some_and(|process| process.life == Life::Alive) {
            if begun.elapsed() >= limit {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
        registry::lock_registry().reap_child(&mut self.child).ok()
    }

    /// Lets it outlive ralph, as a browser that the user asked for.
    pub fn release(self) {
        std::mem::forget(self);
    }
}

impl Drop for Companion {
    /// Ends it: TERM, 200 ms, KILL. It has no state to save.
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        signal_group(pid, Signal::TERM);
        for _ in 0..20 {
            // `try_wait` would free the pid while its group may still need the KILL below.
            if tree::find_process(pid).is_none_or(|process| process.life == Life::Zombie) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        signal_group(pid, Signal::KILL);
        let _ = registry::lock_registry().reap_child(&mut self.child);
    }
}
