//! The threads of a child: one writes its input, two read its output, one waits for its exit. All
//! report to one channel with one closed set of events.
//!
//! Not here: what follows from an event (`limits`).

use std::io::{self, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::child_stdin;

/// What the threads report.
#[derive(Debug)]
pub(super) enum ChildEvent {
    /// The child wrote to its standard output.
    Stdout(OutputBlock),
    /// The child wrote to its standard error.
    Stderr(OutputBlock),
    /// All writers of one of the pipes are gone.
    Eof,
    /// The child has exited, and waits to be reaped.
    Exited,
    /// Something outside has changed: check the watch.
    Wake,
}

/// The capacity of the event channel. If it is full, the reader is slow, and the child has to wait;
/// blocks are reused, so this also bounds the memory.
pub(super) const MOST_EVENTS: usize = 8;

/// A pipe holds 64 KiB, so one read can empty it.
const BLOCK_BYTES: usize = 64 * 1024;

/// The threads only copy; their buffers are on the heap.
const STACK_BYTES: usize = 128 * 1024;

/// A piece of output in a reusable buffer.
#[derive(Debug)]
pub(super) struct OutputBlock {
    bytes: Box<[u8]>,
    length: usize,
    home: Sender<OutputBlock>,
}

impl OutputBlock {
    /// Returns the bytes that were read.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the buffer to its reader thread.
    pub(super) fn give_back(self) {
        let home = self.home.clone();
        // The reader may have seen the end of its pipe and exited.
        let _ = home.send(self);
    }
}

/// Reads the child's standard output.
pub(super) fn read_stdout(pipe: ChildStdout, events: SyncSender<ChildEvent>) -> io::Result<()> {
    spawn_thread("child-stdout", move || read_pipe(pipe, &events, ChildEvent::Stdout))
}

/// Reads the child's standard error.
pub(super) fn read_stderr(pipe: ChildStderr, events: SyncSender<ChildEvent>) -> io::Result<()> {
    spawn_thread("child-stderr", move || read_pipe(pipe, &events, ChildEvent::Stderr))
}

/// Writes the child's input. The child may exit without reading it.
pub(super) fn feed_stdin(mut pipe: ChildStdin, bytes: Vec<u8>) -> io::Result<()> {
    spawn_thread("child-stdin", move || {
        let _ = pipe.write_all(&bytes);
    })
}

/// Writes `first`, then all messages of the queue, until all senders are gone.
pub(super) fn open_dialog(mut pipe: ChildStdin, first: Vec<u8>) -> io::Result<SyncSender<Vec<u8>>> {
    let (queue, messages) = mpsc::sync_channel::<Vec<u8>>(child_stdin::MOST_MESSAGES);
    spawn_thread("child-stdin", move || {
        // A child that has closed its input shows as a queue without a receiver.
        for message in std::iter::once(first).chain(messages) {
            if pipe.write_all(&message).is_err() {
                return;
            }
        }
    })?;
    Ok(queue)
}

/// Waits for the child's exit without reaping it: its pid stays reserved until `supervise` is done
/// with its group.
pub(super) fn wait_for_exit(pid: Pid, events: SyncSender<ChildEvent>) -> io::Result<()> {
    spawn_thread("child-exit", move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        let _ = events.send(ChildEvent::Exited);
    })
}

fn spawn_thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    thread.spawn(body).map(drop)
}

fn read_pipe(
    mut pipe: impl Read,
    events: &SyncSender<ChildEvent>,
    wrap: fn(OutputBlock) -> ChildEvent,
) {
    let (home, returned) = mpsc::channel();
    loop {
        let mut block: OutputBlock = returned.try_recv().unwrap_or_else(|_| OutputBlock {
            bytes: vec![0; BLOCK_BYTES].into_boxed_slice(),
            length: 0,
            home: home.clone(),
        });
        match pipe.read(&mut block.bytes) {
            Ok(0) => break,
            Ok(length) => block.length = length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        }
        // The receiver is gone once `supervise` has returned.
        if events.send(wrap(block)).is_err() {
            return;
        }
    }
    let _ = events.send(ChildEvent::Eof);
}
