//! Copies bytes between two sockets, both ways, with two small buffers and one thread.
//!
//! Not here: which connections are allowed.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::socket::{Socket, Stop, Woken, wait};

/// How much is read at once. A slow reader blocks its writer after this much, so memory is bounded.
const BUFFER: usize = 32 << 10;

/// How long a tunnel may be idle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Silence {
    /// While both directions are open.
    pub(super) open: Duration,
    /// After one side has closed.
    pub(super) half_closed: Duration,
}

/// One direction.
struct Way<'a> {
    from: &'a Socket,
    to: &'a Socket,
    /// What was read and is not yet written, from `at` on.
    held: Vec<u8>,
    at: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The end was read; what is held still has to be written.
    Ending,
    Done,
}

/// Copies bytes until both sides have closed, one has failed, both were idle for too long, or the
/// service ends. `first` is sent to `server` before anything that is read from `client`.
pub(super) fn run(
    client: &Socket,
    server: &Socket,
    first: Vec<u8>,
    silence: Silence,
    stop: &Stop,
) -> io::Result<()> {
    let mut ways = [
        Way { from: client, to: server, held: first, at: 0, state: State::Open },
        Way { from: server, to: client, held: Vec::new(), at: 0, state: State::Open },
    ];
    loop {
        let [up, down] = &mut ways;
        up.settle();
        down.settle();
        let longest = match (up.state, down.state) {
            (State::Done, State::Done) => return Ok(()),
            (State::Open, State::Open) => silence.open,
            (State::Open | State::Ending | State::Done, _) => silence.half_closed,
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
        match wait(&asked, stop, Instant::now() + longest)? {
            Woken::Ready => {}
            Woken::Late => return Err(io::ErrorKind::TimedOut.into()),
            Woken::Stopped => return Ok(()),
        }
        // Nothing blocks, so it is simplest to try every pending operation.
        for way in &mut ways {
            way.step()?;
        }
    }
}

impl Way<'_> {
    fn wants_in(&self) -> bool {
        self.state == State::Open && self.is_empty()
    }

    fn wants_out(&self) -> bool {
        !self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.at == self.held.len()
    }

    /// Closes the other side when everything before the end has been written.
    fn settle(&mut self) {
        if self.state == State::Ending && self.is_empty() {
            self.to.finish();
            self.state = State::Done;
        }
    }

    fn step(&mut self) -> io::Result<()> {
        if self.wants_in() {
            self.held.resize(BUFFER, 0);
            self.at = 0;
            let read = self.from.read(&mut self.held);
            self.held.truncate(read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => self.state = State::Ending,
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
