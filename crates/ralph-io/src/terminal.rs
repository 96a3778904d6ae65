//! The terminal: its size, full-screen mode, and whether output goes to a file instead.
//!
//! In that mode keys arrive one by one and are not echoed, but Ctrl-C and Ctrl-Z still send
//! signals. Not here: anything that is printed.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr,
};

/// Returns the number of columns if a stream is a terminal.
pub fn count_columns(stream: impl AsFd) -> Option<usize> {
    tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col))
}

/// Returns whether a stream is redirected to a file.
pub fn is_redirected_to(stream: impl AsFd, path: &Path) -> bool {
    let stream = stream.as_fd().try_clone_to_owned().and_then(|it| File::from(it).metadata());
    let (Ok(stream), Ok(file)) = (stream, path.metadata()) else { return false };
    (stream.dev(), stream.ino()) == (file.dev(), file.ino())
}

/// An interactive terminal. Clones share it.
#[derive(Debug, Clone)]
pub struct Console {
    input: Arc<OwnedFd>,
    output: Arc<File>,
    /// The terminal modes before full-screen mode.
    before: Arc<Mutex<Option<Termios>>>,
    /// Set by SIGWINCH.
    resized: Arc<AtomicBool>,
}

/// The result of waiting for keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyWait {
    Available,
    Absent,
    Gone,
}

/// More than a person types at once; pastes arrive in pieces.
const PIECE: usize = 4096;

/// How long to wait for a terminal that accepts no output when it is restored.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(200);

impl Console {
    /// Returns the terminal of stdin and of a stream to write to, or `None` if either is not a
    /// terminal.
    pub fn from_stream(stream: impl AsFd) -> io::Result<Option<Self>> {
        let output = File::from(stream.as_fd().try_clone_to_owned()?);
        if !io::stdin().is_terminal() || !output.is_terminal() {
            return Ok(None);
        }
        let resized = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGWINCH, Arc::clone(&resized))?;
        Ok(Some(Self {
            input: Arc::new(io::stdin().as_fd().try_clone_to_owned()?),
            output: Arc::new(output),
            before: Arc::default(),
            resized,
        }))
    }

    /// Returns whether this process may change the terminal. A background process would be stopped
    /// for it.
    pub fn is_ours(&self) -> bool {
        // A terminal that is not the controlling one has no foreground.
        tcgetpgrp(&*self.input).map_or(true, |group| group == rustix::process::getpgrp())
    }

    /// Switches to full-screen mode, and writes `bytes` to the terminal.
    pub fn enter_full_screen(&self, bytes: &[u8]) -> io::Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_none() {
            let usual = tcgetattr(&*self.input)?;
            let mut raw = usual.clone();
            raw.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
            raw.input_modes &= !(InputModes::ICRNL | InputModes::IXON);
            raw.special_codes[SpecialCodeIndex::VMIN] = 1;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(&*self.input, OptionalActions::Now, &raw)?;
            *before = Some(usual);
        }
        drop(before);
        self.write(bytes)
    }

    /// Writes `bytes`, then restores the modes from before [`Self::enter_full_screen`]. Does
    /// nothing if the terminal is not taken, and never hangs.
    pub fn restore(&self, bytes: &[u8]) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(before) = before else { return };
        // A terminal that accepts no output gets its modes back all the same.
        if poll_stream(&*self.output, PollFlags::OUT, OUTPUT_PATIENCE) == Ok(PollFlags::OUT) {
            let _ = self.write(bytes);
        }
        let _ = tcsetattr(&*self.input, OptionalActions::Now, &before);
    }

    /// Returns columns and rows, if known.
    pub fn size(&self) -> Option<(u16, u16)> {
        let size = tcgetwinsize(&*self.output).ok()?;
        (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
    }

    /// Returns whether the terminal was resized since the last call. The size alone is not enough:
    /// a terminal that was resized forth and back has lost its content.
    pub fn was_resized(&self) -> bool {
        self.resized.swap(false, Ordering::AcqRel)
    }

    /// Waits for keys for at most `patience`, and appends their bytes to `keys`.
    pub fn read(&self, patience: Duration, keys: &mut Vec<u8>) -> KeyWait {
        match poll_stream(&*self.input, PollFlags::IN, patience) {
            Ok(ready) if ready.contains(PollFlags::IN) => {}
            Ok(ready) if ready.is_empty() => return KeyWait::Absent,
            Err(rustix::io::Errno::INTR) => return KeyWait::Absent,
            Ok(_) | Err(_) => return KeyWait::Gone,
        }
        let mut piece = [0; PIECE];
        match rustix::io::read(&*self.input, &mut piece) {
            Ok(0) => KeyWait::Gone,
            Ok(count) => {
                keys.extend_from_slice(&piece[..count]);
                KeyWait::Available
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => KeyWait::Absent,
            Err(_) => KeyWait::Gone,
        }
    }

    /// Writes everything, waiting where another program made the terminal non-blocking.
    pub fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&*self.output).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Returns when there is room, or after a moment.
                    let _ = poll_stream(&*self.output, PollFlags::OUT, OUTPUT_PATIENCE);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Waits until a stream is ready; returns no flags on a timeout.
fn poll_stream(
    stream: impl AsFd,
    wanted: PollFlags,
    patience: Duration,
) -> Result<PollFlags, rustix::io::Errno> {
    let mut polled = [PollFd::new(&stream, wanted)];
    let patience = Timespec::try_from(patience).map_err(|_| rustix::io::Errno::INVAL)?;
    poll(&mut polled, Some(&patience))?;
    Ok(polled[0].revents())
}

/// Returns the number of rows if a stream is a terminal.
pub fn count_rows(stream: impl AsFd) -> Option<usize> {
    rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_row))
}
