//! The processes that this process started on purpose, so that all its other descendants can be
//! recognized as leftovers.
//!
//! Starting and reaping happen under one lock: a child is never visible to a sweep before it is
//! registered, and only std waits for a pid that std waits for.
//!
//! Not here: deciding when a process ends (`limits`), finding leftovers (`orphan_reaper`).

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use super::tree::{self, Life, Process};

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    orphans: OrphanPolicy::GoToInit,
    known: Vec::new(),
    warden: None,
    stopped: Vec::new(),
});

/// The processes that we started, and how to clean up after them.
pub(super) struct Registry {
    orphans: OrphanPolicy,
    known: Vec<KnownProcess>,
    warden: Option<ChildStdin>,
    /// Processes that were stopped together with ralph, to be continued with it.
    stopped: Vec<Process>,
}

/// Where a process goes whose parent has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrphanPolicy {
    /// To us: an unregistered child of ours is left over from one of our children.
    Adopt,
    /// To us, and they continue: they are jobs, which end by themselves or with their worker.
    Keep,
    /// To init: an unregistered child of ours was started by other code in this process.
    GoToInit,
}

#[derive(Debug, Clone, Copy)]
struct KnownProcess {
    pid: Pid,
    kind: ProcessKind,
}

/// Why a process was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessKind {
    /// By `supervise`; leader of its own group.
    Supervised,
    /// To run alongside ralph; leader of its own group.
    Companion,
    /// A worker host of the user, which may start jobs that outlive this run; leader of its own group.
    JobStarter,
    /// The warden, which must outlive ralph.
    Warden,
}

/// Locks the registry of this process.
pub(super) fn lock_registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// Makes the system give us the orphans of our children, from now on.
    pub(super) fn adopt_orphans(&mut self, policy: OrphanPolicy) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(getpid()))?;
        self.orphans = policy;
        Ok(())
    }

    /// Starts a command in a process group of its own.
    pub(super) fn start_process(
        &mut self,
        command: &mut Command,
        kind: ProcessKind,
    ) -> io::Result<(Child, Pid)> {
        use std::os::unix::process::CommandExt as _;

        let child = spawn_when_free(command.process_group(0))?;
        let pid = Pid::from_child(&child);
        self.known.push(KnownProcess { pid, kind });
        match kind {
            ProcessKind::Supervised | ProcessKind::Companion => self.send_to_warden('+', pid),
            ProcessKind::JobStarter => self.send_to_warden('=', pid),
            ProcessKind::Warden => {}
        }
        Ok((child, pid))
    }

    /// Reaps a child that has exited, and unregisters it.
    ///
    /// Its pid, and with it its group, stays reserved until here.
    pub(super) fn reap_child(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let pid = Pid::from_child(child);
        self.unregister(pid);
        child.wait()
    }

    /// Unregisters a child without waiting for it.
    pub(super) fn unregister(&mut self, pid: Pid) {
        if self.known.iter().any(|known| known.pid == pid) {
            self.known.retain(|known| known.pid != pid);
            self.send_to_warden('-', pid);
        }
    }

    /// Returns the unregistered children of this process that are to be ended; empty if those
    /// cannot be distinguished from children that other code in this process started.
    pub(super) fn list_orphans(&self) -> Vec<Process> {
        match self.orphans {
            OrphanPolicy::Adopt => self.list_unknown_children(),
            OrphanPolicy::Keep | OrphanPolicy::GoToInit => Vec::new(),
        }
    }

    /// Returns whether another supervised child than `pid` is running.
    pub(super) fn supervises_other_than(&self, pid: Pid) -> bool {
        self.known.iter().any(|known| known.kind == ProcessKind::Supervised && known.pid != pid)
    }

    /// Connects the registry with the warden, or disconnects it.
    pub(super) fn set_warden(&mut self, pipe: Option<ChildStdin>) -> Option<ChildStdin> {
        std::mem::replace(&mut self.warden, pipe)
    }

    /// Stops all supervised processes and all their descendants.
    pub(super) fn stop_all(&mut self) {
        let supervised = self.known.iter().filter(|it| it.kind == ProcessKind::Supervised);
        let mut open: Vec<Process> =
            supervised.filter_map(|it| tree::find_process(it.pid)).collect();
        open.extend(self.list_orphans());
        while let Some(process) = open.pop() {
            // A parent is stopped before its children are listed, so that it cannot start more.
            if process.life == Life::Alive && kill_process(process.pid, Signal::STOP).is_ok() {
                self.stopped.push(process);
                open.extend(tree::list_children(process.pid));
            }
        }
        self.signal_groups(Signal::STOP);
    }

    /// Continues what [`Self::stop_all`] stopped.
    pub(super) fn continue_all(&mut self) {
        for process in std::mem::take(&mut self.stopped) {
            let still = tree::find_process(process.pid);
            if still.is_some_and(|it| it.started == process.started) {
                let _ = kill_process(process.pid, Signal::CONT);
            }
        }
        self.signal_groups(Signal::CONT);
    }

    /// Kills everything below this process except the warden, and waits until it is gone.
    pub(super) fn kill_all(&mut self) {
        for _ in 0..50 {
            let known = self.known.iter().filter(|it| it.kind != ProcessKind::Warden);
            let mut known_are_gone = true;
            for known in known {
                signal_group(known.pid, Signal::KILL);
                known_are_gone &=
                    tree::find_process(known.pid).is_none_or(|it| it.life == Life::Zombie);
            }
            // Listed last: a process hands its children over before it counts as gone.
            let orphans = self.list_orphans();
            for orphan in &orphans {
                let _ = kill_process(orphan.pid, Signal::KILL);
                reap_orphan(orphan.pid);
            }
            if known_are_gone && orphans.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn signal_groups(&self, signal: Signal) {
        for known in self.known.iter().filter(|it| it.kind == ProcessKind::Supervised) {
            signal_group(known.pid, signal);
        }
    }

    /// Returns the children of this process that it did not start.
    pub(super) fn list_unknown_children(&self) -> Vec<Process> {
        let mut children = tree::list_children(getpid());
        children.retain(|child| !self.known.iter().any(|known| known.pid == child.pid));
        children
    }

    fn send_to_warden(&mut self, sign: char, group: Pid) {
        if let Some(pipe) = &mut self.warden {
            // A warden that is gone or stuck must not stop the run; processes with the run's id are
            // found without this line.
            let _ = writeln!(pipe, "{sign}{}", group.as_raw_pid());
        }
    }
}

/// Sends a signal to a group that we created and whose leader we have not reaped.
pub(super) fn signal_group(group: Pid, signal: Signal) {
    // 0 would be our own group, 1 all processes.
    if group.as_raw_pid() > 1 {
        let _ = kill_process_group(group, signal);
    }
}

/// Reaps an adopted orphan, if it has exited.
pub(super) fn reap_orphan(pid: Pid) {
    use rustix::process::{WaitOptions, waitpid};

    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
}

/// Starts a command; waits a little if its program file is still being written.
fn spawn_when_free(command: &mut Command) -> io::Result<Child> {
    for _ in 0..10 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(10));
            }
            started => return started,
        }
    }
    command.spawn()
}
