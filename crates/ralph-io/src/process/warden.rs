//! The warden: a tiny second process that ends what is running when ralph itself is killed.
//!
//! A subreaper only helps as long as it lives. After `kill -9`, or when the kernel runs out of
//! memory, an agent would continue, paid and unwatched. The warden holds the other end of a pipe;
//! when the pipe closes without a goodbye, it ends every process that carries the run's id, every
//! process group that ralph reported to it, and their children. A worker host of the user ends by
//! itself, and what it has started is not ended: it is a job that may continue without its run.
//!
//! It cannot find a process that cleared its environment, started a session of its own and lost its
//! parent before ralph died.
//!
//! Not here: the end of a run that ralph survives (`orphan_reaper`).

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};

use super::orphan_reaper::{KnownGroups, end_run};
use super::registry::{self, ProcessKind};
use super::tree::{self, Life};

/// The line that makes the warden exit.
const GOODBYE: &str = "b";

/// The time between TERM and KILL. No process waits for these any more.
const GRACE: Duration = Duration::from_secs(2);

/// It exits within a millisecond or two; a second is for a loaded machine.
const EXIT_CHECKS: u32 = 1000;

/// The handle of a run's warden.
#[derive(Debug)]
pub struct Warden {
    child: Child,
}

impl Warden {
    /// Starts `program args_prefix… run_id`, which must call [`run_warden`].
    ///
    /// From then on every process group that ralph starts is reported to it.
    pub fn start(program: &Path, args_prefix: &[&str], run_id: &str) -> io::Result<Self> {
        // An empty environment keeps it from finding itself; its own group keeps the terminal's
        // signals away; `/` keeps no disk busy.
        let mut command = Command::new(program);
        command
            .args(args_prefix)
            .arg(run_id)
            .current_dir("/")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut registry = registry::lock_registry();
        let (mut child, _) = registry.start_process(&mut command, ProcessKind::Warden)?;
        if let Some(pipe) = child.stdin.take() {
            // A warden that does not read must not delay the run.
            let _ = rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK);
            registry.set_warden(Some(pipe));
        }
        Ok(Self { child })
    }

    /// Makes the warden exit: the run is over, and nothing is left to guard.
    ///
    /// A warden that is dropped instead does its work when this process ends.
    pub fn release(mut self) {
        let pipe = registry::lock_registry().set_warden(None);
        if let Some(mut pipe) = pipe {
            let _ = writeln!(pipe, "{GOODBYE}");
        }
        let pid = Pid::from_child(&self.child);
        for _ in 0..EXIT_CHECKS {
            if tree::find_process(pid).is_none_or(|process| process.life == Life::Zombie) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // It has exited by now unless it was stopped.
        registry::signal_group(pid, Signal::KILL);
        let _ = registry::lock_registry().reap_child(&mut self.child);
    }
}

/// The main function of the warden process.
pub fn run_warden(run_id: &str) -> ExitCode {
    // A handler that does nothing is how a signal is ignored without unsafe code.
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGTSTP] {
        let unused_flag = Arc::new(AtomicBool::new(false));
        if signal_hook::flag::register(signal, unused_flag).is_err() {
            return ExitCode::FAILURE;
        }
    }
    if let RalphExit::Death(known) = track_groups(io::stdin().lock()) {
        end_run(run_id, &known, GRACE);
    }
    ExitCode::SUCCESS
}

/// How ralph exited.
#[derive(Debug, PartialEq, Eq)]
enum RalphExit {
    Goodbye,
    Death(KnownGroups),
}

/// Tracks the process groups until ralph exits.
fn track_groups(lines: impl BufRead) -> RalphExit {
    let mut known = KnownGroups::default();
    for line in lines.lines() {
        let Ok(line) = line else { break };
        if line == GOODBYE {
            return RalphExit::Goodbye;
        }
        let group = |text: &str| text.parse().ok().filter(|&group: &i32| group > 1);
        if let Some(group) = line.strip_prefix('+').and_then(group) {
            known.groups.insert(group);
        } else if let Some(group) = line.strip_prefix('=').and_then(group) {
            known.job_starters.insert(group);
        } else if let Some(group) = line.strip_prefix('-').and_then(group) {
            known.groups.remove(&group);
            known.job_starters.remove(&group);
        }
    }
    RalphExit::Death(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_goodbye_makes_the_warden_exit() {
        let death = |groups: &[i32]| {
            let groups = groups.iter().copied().collect();
            RalphExit::Death(KnownGroups { groups, ..KnownGroups::default() })
        };
        let job_starter =
            RalphExit::Death(KnownGroups { groups: [20].into(), job_starters: [40].into() });
        let cases = [
            ("", death(&[])),
            ("b\n", RalphExit::Goodbye),
            ("+20\n+30\n-20\n", death(&[30])),
            ("+20\nb\n", RalphExit::Goodbye),
            ("+20\n=30\n=40\n-30\n", job_starter),
            ("+0\n+1\n+-5\n+x\n?\n+7", death(&[7])),
        ];
        for (input, expected) in cases {
            assert_eq!(track_groups(input.as_bytes()), expected, "{input:?}");
        }
    }
}
