//! Sockets that never block longer than a deadline, and a signal that ends all waiting.
//!
//! Not here: what is sent over them.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::net::Shutdown;

/// Practically no deadline: the caller waits again after this.
pub(super) const NO_DEADLINE: Duration = Duration::from_secs(3600);

/// Pause between two attempts to accept a connection when the system has no room for it.
const PAUSE: Duration = Duration::from_millis(50);

/// A connected stream socket, non-blocking.
#[derive(Debug)]
pub(super) struct NonblockingSocket(OwnedFd);

impl NonblockingSocket {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Self(fd))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Reads what is available; 0 is the end.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut *buffer))?)
    }

    /// Writes what fits.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(&self.0, bytes))?)
    }

    /// Closes the writing direction.
    pub(super) fn shutdown_write(&self) {
        // Fails if the peer is gone, which does not matter.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
    }

    /// Writes all bytes before the deadline.
    pub(super) fn write_all(
        &self,
        mut bytes: &[u8],
        stop: &StopSignal,
        deadline: Instant,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match wait_for_sockets(&[(self.fd(), PollFlags::OUT)], stop, deadline)? {
                WaitResult::Ready => {}
                WaitResult::TimedOut => return Err(io::ErrorKind::TimedOut.into()),
                WaitResult::Stopped => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            match self.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes a connection whose peer may still be sending.
    ///
    /// Closing with unread bytes makes the kernel reset the connection, and the peer may lose
    /// the response. A refused client sends at most its request: 1 s and 1 MiB are enough.
    pub(super) fn close_gently(&self, stop: &StopSignal) {
        self.shutdown_write();
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut buffer = [0; 8192];
        let mut left: usize = 1 << 20;
        while left > 0 {
            match wait_for_sockets(&[(self.fd(), PollFlags::IN)], stop, deadline) {
                Ok(WaitResult::Ready) => match self.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(read) => left = left.saturating_sub(read),
                },
                Ok(WaitResult::TimedOut | WaitResult::Stopped) | Err(_) => return,
            }
        }
    }
}

/// What ended a wait.
#[derive(Debug)]
pub(super) enum WaitResult {
    /// At least one socket is ready.
    Ready,
    /// The deadline has passed.
    TimedOut,
    /// The signal to stop was given.
    Stopped,
}

/// Waits for sockets, a deadline, or the signal to stop.
pub(super) fn wait_for_sockets(
    sockets: &[(BorrowedFd<'_>, PollFlags)],
    stop: &StopSignal,
    deadline: Instant,
) -> io::Result<WaitResult> {
    let mut fds = vec![PollFd::from_borrowed_fd(stop.0.as_fd(), PollFlags::IN)];
    fds.extend(sockets.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Ok(WaitResult::TimedOut),
            Ok(_) if !fds[0].revents().is_empty() => return Ok(WaitResult::Stopped),
            Ok(_) => return Ok(WaitResult::Ready),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The signal to stop, for those who wait: the reading end of a pipe.
#[derive(Debug, Clone)]
pub(super) struct StopSignal(Arc<OwnedFd>);

/// Gives the signal to stop when it is dropped: the only writing end of the pipe.
#[derive(Debug)]
pub(super) struct StopTrigger(#[expect(dead_code, reason = "its end is its use")] OwnedFd);

/// Creates a signal.
pub(super) fn new_stop_signal() -> io::Result<(StopTrigger, StopSignal)> {
    // std's pipes are closed on exec on every system; a child that inherited the writing end
    // would keep the signal from ever being given.
    let (reader, writer) = io::pipe()?;
    Ok((StopTrigger(writer.into()), StopSignal(Arc::new(reader.into()))))
}

/// A listening socket.
#[derive(Debug)]
pub(super) enum ProxyListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ProxyListener {
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Unix(listener) => listener.set_nonblocking(true),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }

    /// Waits for the next connection; `None` if the service ends.
    pub(super) fn accept_next(&self, stop: &StopSignal) -> Option<NonblockingSocket> {
        loop {
            match wait_for_sockets(
                &[(self.fd(), PollFlags::IN)],
                stop,
                Instant::now() + NO_DEADLINE,
            ) {
                Ok(WaitResult::Ready) => {}
                Ok(WaitResult::TimedOut) => continue,
                Ok(WaitResult::Stopped) | Err(_) => return None,
            }
            match self.accept_now().and_then(NonblockingSocket::new) {
                Ok(client) => return Some(client),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Out of descriptors, most likely; without a pause this would spin.
                Err(_) => match wait_for_sockets(&[], stop, Instant::now() + PAUSE) {
                    Ok(WaitResult::TimedOut | WaitResult::Ready) => {}
                    Ok(WaitResult::Stopped) | Err(_) => return None,
                },
            }
        }
    }

    fn accept_now(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| {
                // Small records of encrypted connections must not wait for each other.
                let _ = stream.set_nodelay(true);
                stream.into()
            }),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| stream.into()),
        }
    }
}
