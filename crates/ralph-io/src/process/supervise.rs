//! Runs one child from start to end.
//!
//! Not here: which limit applies (`limits`), how signals reach us (`watch`), how leftovers are
//! found (`orphan_reaper`).

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use ralph_model::child::{ChildEnd, Ending, Force, Leftovers, NotStarted};
use rustix::process::{Pid, Signal};

use super::child_stdin::ChildStdin;
use super::limits::{ChildAction, LimitInput, LimitTracker, OutputActivity, RunningTime, TICK};
use super::orphan_reaper::{TermSent, end_leftovers};
use super::pipes::{self, ChildEvent};
use super::program;
use super::registry::{self, ProcessKind, signal_group};
use super::space::DiskGauge;
use super::spawn::{Spawn, StdinSource};
use super::watch::{StopStage, Watch};

/// A piece of a child's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'a> {
    Stdout(&'a [u8]),
    Stderr(&'a [u8]),
}

/// Runs a child and returns how it ended, once nothing of it is left.
///
/// `sink` receives all output of the child, in pieces; while it is slow, the child waits. A child
/// that is still running at the second signal is ended; from then on none is started.
pub fn supervise(
    spawn: &Spawn,
    watch: &Watch,
    sink: &mut dyn FnMut(Chunk<'_>) -> OutputActivity,
) -> ChildEnd {
    run_child(spawn, watch, &mut |chunk, _| sink(chunk), &mut |_| {})
}

/// Runs a child like [`supervise`], and calls `tick` with its running time: about once a second, and
/// when it passes its soft limit.
pub fn supervise_with_ticks(
    spawn: &Spawn,
    watch: &Watch,
    sink: &mut dyn FnMut(Chunk<'_>) -> OutputActivity,
    tick: &mut dyn FnMut(Duration),
) -> ChildEnd {
    run_child(spawn, watch, &mut |chunk, _| sink(chunk), tick)
}

/// Runs a child like [`supervise_with_ticks`], and lets `sink` send answers.
///
/// Answers reach a child whose input is [`StdinSource::Open`]; for any other the input is closed.
pub fn supervise_dialog(
    spawn: &Spawn,
    watch: &Watch,
    sink: &mut dyn FnMut(Chunk<'_>, &mut ChildStdin) -> OutputActivity,
    tick: &mut dyn FnMut(Duration),
) -> ChildEnd {
    run_child(spawn, watch, sink, tick)
}

fn run_child(
    spawn: &Spawn,
    watch: &Watch,
    sink: &mut dyn FnMut(Chunk<'_>, &mut ChildStdin) -> OutputActivity,
    tick: &mut dyn FnMut(Duration),
) -> ChildEnd {
    if watch.stage() >= StopStage::End {
        return ChildEnd::from_ending(Ending::Interrupted { force: Force::Terminated });
    }
    let (events, received) = mpsc::sync_channel(pipes::MOST_EVENTS);
    let _listening = watch.add_listener(events.clone());
    match GroupLeader::start(spawn, &events) {
        Ok(leader) => {
            let gauge = DiskGauge::start(spawn.limits.space.as_ref(), &events);
            run_to_end(spawn, watch, leader, (&received, &gauge), sink, tick)
        }
        Err(reason) => ChildEnd::from_ending(Ending::NotStarted { reason }),
    }
}

fn run_to_end(
    spawn: &Spawn,
    watch: &Watch,
    mut leader: GroupLeader,
    (events, gauge): (&Receiver<ChildEvent>, &DiskGauge),
    sink: &mut dyn FnMut(Chunk<'_>, &mut ChildStdin) -> OutputActivity,
    tick: &mut dyn FnMut(Duration),
) -> ChildEnd {
    let mut ticked = Duration::ZERO;
    let mut course = LimitTracker::new(spawn.limits.clone());
    let mut running = RunningTime::from_reading(watch.clock());
    let mut now = running.advance(watch.clock());
    let mut processes = 0;
    let mut interrupted = false;
    let mut input = LimitInput::Quiet;
    loop {
        if let Some(limit) = gauge.exceeded_limit() {
            course.note_exceeded(limit);
        }
        let before = course.soft_limit();
        let action = course.process_input(input, now);
        if before != course.soft_limit() {
            tick(now);
        }
        match action {
            ChildAction::Listen => {
                // Checked before every wait, and not only when woken: a flood of output leaves no
                // room for a wake.
                input = if !interrupted && watch.stage() >= StopStage::End {
                    interrupted = true;
                    LimitInput::Interrupted
                } else {
                    let stdin = &mut leader.stdin;
                    let patience = course.compute_patience(now);
                    wait_for_event(events, patience, &mut |chunk| {
                        let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = chunk;
                        course.count_bytes(bytes.len());
                        sink(chunk, stdin)
                    })
                };
                now = running.advance(watch.clock());
                if now.saturating_sub(ticked) >= TICK {
                    ticked = now;
                    tick(now);
                }
            }
            ChildAction::Terminate => {
                leader.stdin.close_for_shutdown();
                signal_group(leader.pid, Signal::TERM);
                // A stopped process, as after reading from a terminal that is not its own, handles
                // TERM only when it is continued.
                signal_group(leader.pid, Signal::CONT);
                input = LimitInput::Quiet;
            }
            ChildAction::Kill => {
                signal_group(leader.pid, Signal::KILL);
                input = LimitInput::Quiet;
            }
            ChildAction::Sweep => {
                let term_sent =
                    if course.was_ended() { TermSent::ToGroup } else { TermSent::NotSent };
                processes = end_leftovers(leader.pid, term_sent);
                now = running.advance(watch.clock());
                input = LimitInput::Swept;
            }
            ChildAction::Done => break,
        }
    }
    let by_itself = if course.has_exited() { leader.reap_child() } else { leader.abandon_child() };
    ChildEnd {
        ending: course.to_ending(by_itself),
        ran: course.compute_running_time(now).into(),
        soft_limit: course.soft_limit(),
        leftovers: Leftovers { processes, held_pipe: course.held_pipe() },
    }
}

/// Waits for the next event, and passes output to the sink.
fn wait_for_event(
    events: &Receiver<ChildEvent>,
    patience: Duration,
    sink: &mut dyn FnMut(Chunk<'_>) -> OutputActivity,
) -> LimitInput {
    match events.recv_timeout(patience) {
        Ok(ChildEvent::Stdout(block)) => {
            let activity = sink(Chunk::Stdout(block.bytes()));
            block.give_back();
            LimitInput::Output(activity)
        }
        Ok(ChildEvent::Stderr(block)) => {
            let activity = sink(Chunk::Stderr(block.bytes()));
            block.give_back();
            LimitInput::Output(activity)
        }
        Ok(ChildEvent::Eof) => LimitInput::Eof,
        Ok(ChildEvent::Exited) => LimitInput::Exited,
        Ok(ChildEvent::Wake) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            LimitInput::Quiet
        }
    }
}

/// The child itself, which leads its process group.
struct GroupLeader {
    child: Option<Child>,
    pid: Pid,
    stdin: ChildStdin,
}

impl GroupLeader {
    fn start(spawn: &Spawn, events: &SyncSender<ChildEvent>) -> Result<Self, NotStarted> {
        let mut command = Command::new(program::find_program(spawn)?);
        command
            .arg0(&spawn.program)
            .args(&spawn.args)
            .current_dir(&spawn.cwd)
            .env_clear()
            .envs(spawn.env.iter().map(|(name, value)| (name, value)))
            .stdin(match spawn.stdin {
                StdinSource::Null => Stdio::null(),
                StdinSource::Bytes(_) | StdinSource::Open(_) => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (child, pid) = registry::lock_registry()
            .start_process(&mut command, ProcessKind::Supervised)
            .map_err(|error| program::convert_start_error(spawn, &error))?;
        let mut leader = Self { child: Some(child), pid, stdin: ChildStdin::default() };
        match leader.start_threads(&spawn.stdin, events) {
            Ok(()) => Ok(leader),
            Err(error) => Err(program::convert_start_error(spawn, &error)),
        }
    }

    fn start_threads(
        &mut self,
        stdin: &StdinSource,
        events: &SyncSender<ChildEvent>,
    ) -> io::Result<()> {
        let Some(child) = &mut self.child else {
            return Ok(());
        };
        if let Some(pipe) = child.stdout.take() {
            pipes::read_stdout(pipe, events.clone())?;
        }
        if let Some(pipe) = child.stderr.take() {
            pipes::read_stderr(pipe, events.clone())?;
        }
        match (child.stdin.take(), stdin) {
            (Some(pipe), StdinSource::Bytes(bytes)) => pipes::feed_stdin(pipe, bytes.clone())?,
            (Some(pipe), StdinSource::Open(first)) => {
                self.stdin = ChildStdin::new(pipes::open_dialog(pipe, first.clone())?);
            }
            (Some(_), StdinSource::Null) | (None, _) => {}
        }
        pipes::wait_for_exit(self.pid, events.clone())
    }

    fn reap_child(&mut self) -> Ending {
        let status =
            self.child.take().map(|mut child| registry::lock_registry().reap_child(&mut child));
        match status {
            Some(Ok(status)) => convert_exit_status(status),
            // Only ralph waits for it, so this does not happen; 128 means "unknown" in shells.
            Some(Err(_)) | None => Ending::Exited { code: 128 },
        }
    }

    /// Abandons a child that the kernel does not let exit; a later sweep may find it.
    fn abandon_child(&mut self) -> Ending {
        self.child = None;
        registry::lock_registry().unregister(self.pid);
        Ending::Signalled { signal: Signal::KILL.as_raw() }
    }
}

impl Drop for GroupLeader {
    /// Ends the child if the sink panicked or a thread could not be started.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal_group(self.pid, Signal::KILL);
            let _ = registry::lock_registry().reap_child(&mut child);
        }
    }
}

fn convert_exit_status(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited { code },
        (None, Some(signal)) => Ending::Signalled { signal },
        (None, None) => Ending::Exited { code: 128 },
    }
}
