//! Copies bytes between two sockets, both ways, with two small buffers and one thread.
//!
//! Not here: which connections are allowed.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::socket::{NonblockingSocket, StopSignal, WaitResult, wait_for_sockets};

/// How much is read at once. A slow reader blocks its writer after this much, so memory is bounded.
const BUFFER: usize = 32 << 10;

/// How long a tunnel may be idle.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimits {
    /// While both directions are open.
    pub(super) open: Duration,
    /// After one side has closed.
    pub(super) half_closed: Duration,
}

/// One direction.
struct TunnelDirection<'a> {
    from: &'a NonblockingSocket,
    to: &'a NonblockingSocket,
    /// What was read and is not yet written, from `at` on.
    held: Vec<u8>,
    at: usize,
    state: DirectionState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DirectionState {
    Open,
    /// The end was read; what is held still has to be written.
    Ending,
    Done,
}

/// Copies bytes until both sides have closed, one has failed, both were idle for too long, or the
/// service ends. `first` is sent to `server` before anything that is read from `client`.
pub(super) fn run_tunnel(
    client: &NonblockingSocket,
    server: &NonblockingSocket,
    first: Vec<u8>,
    silence: IdleLimits,
    stop: &StopSignal,
) -> io::Result<()> {
    let mut ways = [
        TunnelDirection {
            from: client,
            to: server,
            held: first,
            at: 0,
            state: DirectionState::Open,
        },
        TunnelDirection {
            from: server,
            to: client,
            held: Vec::new(),
            at: 0,
            state: DirectionState::Open,
        },
    ];
    loop {
        let [up, down] = &mut ways;
        up.finish_if_drained();
        down.finish_if_drained();
        let longest = match (up.state, down.state) {
            (DirectionState::Done, DirectionState::Done) => return Ok(()),
            (DirectionState::Open, DirectionState::Open) => silence.open,
            (DirectionState::Open | DirectionState::Ending | DirectionState::Done, _) => {
                silence.half_closed
            }
        };
        // A socket without a pending operation is not polled: its hang-up would be reported
        // forever.
        let wanted =
            [(up.from, up.wants_in(), down.wants_out()), (up.to, down.wants_in(), up.wants_out())];
        let mut asked = Vec::with_capacity(2);
        for (socket, reads, writes) in wanted {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            if !flags.is_empty() {
                asked.push((socket.fd(), flags));
            }
        }
        match wait_for_sockets(&asked, stop, Instant::now() + longest)? {
            WaitResult::Ready => {}
            WaitResult::TimedOut => return Err(io::ErrorKind::TimedOut.into()),
            WaitResult::Stopped => return Ok(()),
        }
        // Nothing blocks, so it is simplest to try every pending operation.
        for way in &mut ways {
            way.copy_available()?;
        }
    }
}

impl TunnelDirection<'_> {
    fn wants_in(&self) -> bool {
        self.state == DirectionState::Open && self.is_empty()
    }

    fn wants_out(&self) -> bool {
        !self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.at == self.held.len()
    }

    /// Closes the other side when everything before the end has been written.
    fn finish_if_drained(&mut self) {
        if self.state == DirectionState::Ending && self.is_empty() {
            self.to.shutdown_write();
            self.state = DirectionState::Done;
        }
    }

    fn copy_available(&mut self) -> io::Result<()> {
        if self.wants_in() {
            self.held.resize(BUFFER, 0);
            self.at = 0;
            let read = self.from.read(&mut self.held);
            self.held.truncate(read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => self.state = DirectionState::Ending,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        while self.wants_out() {
            match self.to.write(&self.held[self.at..]) {
                Ok(written) => self.at += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
