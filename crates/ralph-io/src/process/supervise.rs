//! Runs one child from start to end.
//!
//! Not here: which limit applies (`limits`), how signals reach us (`watch`), how leftovers are
//! found (`orphan_reaper`).

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use ralph_core::child::{ChildEnd, Ending, Force, Leftovers, NotStarted};
use rustix::process::{Pid, Signal};

use super::course::{Action, Course, Heard, Input, RunningTime, TICK};
use super::mouth::Mouth;
use super::pipes::{self, Event};
use super::program;
use super::registry::{self, Kind, signal_group};
use super::space::Gauge;
use super::spawn::{Spawn, Stdin};
use super::sweep::{Told, sweep};
use super::watch::{Stage, Watch};

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
    sink: &mut dyn FnMut(Chunk<'_>) -> Heard,
) -> ChildEnd {
    converse(spawn, watch, &mut |chunk, _| sink(chunk))
}

/// Runs a child like [`supervise`], and calls `tick` about once a second with its running time.
pub fn supervise_telling(
    spawn: &Spawn,
    watch: &Watch,
    sink: &mut dyn FnMut(Chunk<'_>) -> Heard,
    tick: &mut dyn FnMut(Duration),
) -> ChildEnd {
    run(spawn, watch, &mut |chunk, _| sink(chunk), tick)
}

/// Runs a child like [`supervise`], and lets `sink` send answers.
///
/// Answers reach a child whose input is [`StdinSource::Open`]; for any other the input is closed.
pub fn converse(
    spawn: &Spawn,
    watch: &Watch,
    sink: &mut dyn FnMut(Chunk<'_>, &mut Mouth) -> Heard,
) -> ChildEnd {
    run(spawn, watch, sink, &mut |_| {})
}

fn run(
    spawn: &Spawn,
    watch: &Watch,
    sink: &mut dyn FnMut(Chunk<'_>, &mut Mouth) -> Heard,
    tick: &mut dyn FnMut(Duration),
) -> ChildEnd {
    if watch.stage() >= Stage::End {
        return ChildEnd::by(Ending::Interrupted { force: Force::Terminated });
    }
    let (events, received) = mpsc::sync_channel(pipes::EVENTS);
    let _listening = watch.listen(events.clone());
    match Leader::start(spawn, &events) {
        Ok(leader) => {
            let gauge = Gauge::start(spawn.limits.space.as_ref(), &events);
            follow(spawn, watch, leader, (&received, &gauge), sink, tick)
        }
        Err(reason) => ChildEnd::by(Ending::NotStarted { reason }),
    }
}

fn follow(
    spawn: &Spawn,
    watch: &Watch,
    mut leader: Leader,
    (events, gauge): (&Receiver<Event>, &Gauge),
    sink: &mut dyn FnMut(Chunk<'_>, &mut Mouth) -> Heard,
    tick: &mut dyn FnMut(Duration),
) -> ChildEnd {
    let mut ticked = Duration::ZERO;
    let mut course = Course::new(spawn.limits.clone());
    let mut running = RunningTime::from(watch.clock());
    let mut now = running.advance(watch.clock());
    let mut processes = 0;
    let mut interrupted = false;
    let mut input = Input::Quiet;
    loop {
        if let Some(limit) = gauge.passed() {
            course.exceed(limit);
        }
        match course.step(input, now) {
            Action::Listen => {
                // Checked before every wait, and not only when woken: a flood of output leaves no
                // room for a wake.
                input = if !interrupted && watch.stage() >= Stage::End {
                    interrupted = true;
                    Input::Interrupted
                } else {
                    let stdin = &mut leader.mouth;
                    let patience = course.patience(now);
                    listen(events, patience, &mut |chunk| {
                        let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = chunk;
                        course.count(bytes.len());
                        sink(chunk, stdin)
                    })
                };
                now = running.advance(watch.clock());
                if now.saturating_sub(ticked) >= TICK {
                    ticked = now;
                    tick(now);
                }
            }
            Action::Terminate => {
                leader.mouth.dismiss();
                signal_group(leader.pid, Signal::TERM);
                // A stopped process, as after reading from a terminal that is not its own, handles
                // TERM only when it is continued.
                signal_group(leader.pid, Signal::CONT);
                input = Input::Quiet;
            }
            Action::Kill => {
                signal_group(leader.pid, Signal::KILL);
                input = Input::Quiet;
            }
            Action::Sweep => {
                let term_sent = if course.was_ended() { Told::Group } else { Told::Nobody };
                processes = sweep(leader.pid, term_sent);
                now = running.advance(watch.clock());
                input = Input::Swept;
            }
            Action::Done => break,
        }
    }
    let by_itself = if course.has_exited() { leader.reap() } else { leader.abandon() };
    ChildEnd {
        ending: course.ending(by_itself),
        ran: course.ran(now).into(),
        soft_limit: course.soft_limit(),
        leftovers: Leftovers { processes, held_pipe: course.held_pipe() },
    }
}

/// Waits for the next event, and passes output to the sink.
fn listen(
    events: &Receiver<Event>,
    patience: Duration,
    sink: &mut dyn FnMut(Chunk<'_>) -> Heard,
) -> Input {
    match events.recv_timeout(patience) {
        Ok(Event::Stdout(block)) => {
            let activity = sink(Chunk::Stdout(block.bytes()));
            block.give_back();
            Input::Heard(activity)
        }
        Ok(Event::Stderr(block)) => {
            let activity = sink(Chunk::Stderr(block.bytes()));
            block.give_back();
            Input::Heard(activity)
        }
        Ok(Event::Eof) => Input::Eof,
        Ok(Event::Exited) => Input::Exited,
        Ok(Event::Wake) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Input::Quiet
        }
    }
}

/// The child itself, which leads its process group.
struct Leader {
    child: Option<Child>,
    pid: Pid,
    mouth: Mouth,
}

impl Leader {
    fn start(spawn: &Spawn, events: &SyncSender<Event>) -> Result<Self, NotStarted> {
        let mut command = Command::new(program::find_program(spawn)?);
        command
            .arg0(&spawn.program)
            .args(&spawn.args)
            .current_dir(&spawn.cwd)
            .env_clear()
            .envs(spawn.env.iter().map(|(name, value)| (name, value)))
            .stdin(match spawn.stdin {
                Stdin::Null => Stdio::null(),
                Stdin::Bytes(_) | Stdin::Open(_) => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (child, pid) = registry::lock()
            .start(&mut command, Kind::Supervised)
            .map_err(|error| program::refusal(spawn, &error))?;
        let mut leader = Self { child: Some(child), pid, mouth: Mouth::default() };
        match leader.attend(&spawn.stdin, events) {
            Ok(()) => Ok(leader),
            Err(error) => Err(program::refusal(spawn, &error)),
        }
    }

    fn attend(&mut self, stdin: &Stdin, events: &SyncSender<Event>) -> io::Result<()> {
        let Some(child) = &mut self.child else {
            return Ok(());
        };
        if let Some(pipe) = child.stdout.take() {
            pipes::listen_to_stdout(pipe, events.clone())?;
        }
        if let Some(pipe) = child.stderr.take() {
            pipes::listen_to_stderr(pipe, events.clone())?;
        }
        match (child.stdin.take(), stdin) {
            (Some(pipe), Stdin::Bytes(bytes)) => pipes::feed(pipe, bytes.clone())?,
            (Some(pipe), Stdin::Open(first)) => {
                self.mouth = Mouth::new(pipes::talk(pipe, first.clone())?);
            }
            (Some(_), Stdin::Null) | (None, _) => {}
        }
        pipes::wait_for(self.pid, events.clone())
    }

    fn reap(&mut self) -> Ending {
        let status = self.child.take().map(|mut child| registry::lock().reap(&mut child));
        match status {
            Some(Ok(status)) => ending(status),
            // Only ralph waits for it, so this does not happen; 128 means "unknown" in shells.
            Some(Err(_)) | None => Ending::Exited { code: 128 },
        }
    }

    /// Abandons a child that the kernel does not let exit; a later sweep may find it.
    fn abandon(&mut self) -> Ending {
        self.child = None;
        registry::lock().forget(self.pid);
        Ending::Signalled { signal: Signal::KILL.as_raw() }
    }
}

impl Drop for Leader {
    /// Ends the child if the sink panicked or a thread could not be started.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal_group(self.pid, Signal::KILL);
            let _ = registry::lock().reap(&mut child);
        }
    }
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited { code },
        (None, Some(signal)) => Ending::Signalled { signal },
        (None, None) => Ending::Exited { code: 128 },
    }
}
