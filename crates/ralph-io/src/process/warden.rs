//! The warden: a tiny second process that ends what is running when ralph itself is killed.
//!
//! A subreaper helps only as long as it lives. After `kill -9`, or when the kernel is out of
//! memory, an agent would go on, paid and unwatched. The warden holds the other end of a pipe; when
//! the pipe closes without a goodbye, it ends everything that carries the run's id, every process
//! group that it was told of, and their children.
//!
//! What it cannot find is a process that cleared its environment, started a session of its own and
//! lost its parent before ralph died.
//!
//! Not here: the end of a run that ralph lives to see (`sweep`).

use std::collections::BTreeSet;
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

use super::registry::{self, Kind};
use super::sweep::end_run;
use super::tree::{self, Life};

/// The word that sends the warden home.
const GOODBYE: &str = "b";

/// Between TERM and KILL. Nobody waits for these processes any more.
const GRACE: Duration = Duration::from_secs(2);

/// It leaves within a millisecond or two; a second is for a loaded machine.
const LEAVING_LOOKS: u32 = 1000;

/// The warden of a run, seen from ralph.
#[derive(Debug)]
pub struct Warden {
    child: Child,
}

impl Warden {
    /// Starts `program args_prefix… run_id`, which is to call [`main`].
    ///
    /// From here on it is told of every process group that is started.
    pub fn start(program: &Path, args_prefix: &[&str], run_id: &str) -> io::Result<Self> {
        // An empty environment keeps it out of its own hunt; its own group keeps the terminal's
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
        let mut registry = registry::lock();
        let (mut child, _) = registry.start(&mut command, Kind::Warden)?;
        if let Some(pipe) = child.stdin.take() {
            // A warden that does not read must not hold up the run.
            let _ = rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK);
            registry.set_warden(Some(pipe));
        }
        Ok(Self { child })
    }

    /// Says goodbye: the run is over, nothing is left to guard.
    ///
    /// A warden that is dropped instead does its work when this process ends.
    pub fn release(mut self) {
        let pipe = registry::lock().set_warden(None);
        if let Some(mut pipe) = pipe {
            let _ = writeln!(pipe, "{GOODBYE}");
        }
        let pid = Pid::from_child(&self.child);
        for _ in 0..LEAVING_LOOKS {
            if tree::process(pid).is_none_or(|process| process.life == Life::Zombie) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // It is gone by now unless somebody has stopped it.
        registry::signal_group(pid, Signal::KILL);
        let _ = registry::lock().reap(&mut self.child);
    }
}

/// The body of the warden's process.
pub fn main(run_id: &str) -> ExitCode {
    // A handler that does nothing is how a signal is ignored without unsafe code.
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGTSTP] {
        let nobody_looks = Arc::new(AtomicBool::new(false));
        if signal_hook::flag::register(signal, nobody_looks).is_err() {
            return ExitCode::FAILURE;
        }
    }
    match listen(io::stdin().lock()) {
        Farewell::Goodbye => {}
        Farewell::Death { groups } => {
            end_run(run_id, &groups, GRACE);
        }
    }
    ExitCode::SUCCESS
}

/// How ralph left.
#[derive(Debug, PartialEq, Eq)]
enum Farewell {
    Goodbye,
    Death { groups: BTreeSet<i32> },
}

/// Keeps the list of groups until ralph leaves.
fn listen(lines: impl BufRead) -> Farewell {
    let mut groups = BTreeSet::new();
    for line in lines.lines() {
        let Ok(line) = line else { break };
        if line == GOODBYE {
            return Farewell::Goodbye;
        }
        let group = |text: &str| text.parse().ok().filter(|&group: &i32| group > 1);
        if let Some(group) = line.strip_prefix('+').and_then(group) {
            groups.insert(group);
        } else if let Some(group) = line.strip_prefix('-').and_then(group) {
            groups.remove(&group);
        }
    }
    Farewell::Death { groups }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_goodbye_sends_the_guard_home() {
        let death = |groups: &[i32]| Farewell::Death { groups: groups.iter().copied().collect() };
        let cases = [
            ("", death(&[])),
            ("b\n", Farewell::Goodbye),
            ("+20\n+30\n-20\n", death(&[30])),
            ("+20\nb\n", Farewell::Goodbye),
            ("+0\n+1\n+-5\n+x\n?\n+7", death(&[7])),
        ];
        for (input, expected) in cases {
            assert_eq!(listen(input.as_bytes()), expected, "{input:?}");
        }
    }
}
