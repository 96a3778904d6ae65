//! Writers that never stop a run: one ignores errors, one never blocks.
//!
//! A closed pipe, a full disk or a terminal stopped with Ctrl-S must not end a run. Not here: the
//! journal, whose loss does stop a run.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Erases the line the cursor is on.
pub(crate) const ERASE_LINE: &str = "\r\u{1b}[2K";

/// Ends a line that is erased before the next one is written.
pub(crate) const TEMPORARY_END: char = '\r';

/// Writes whole pieces and keeps the first error instead of returning it.
#[derive(Debug)]
pub struct IgnoreErrors<W> {
    inner: W,
    first_error: Option<io::Error>,
}

impl<W: Write> IgnoreErrors<W> {
    /// Returns a writer that ignores the errors of this one.
    pub fn new(inner: W) -> Self {
        Self { inner, first_error: None }
    }

    /// Writes a piece and ignores errors. Later pieces are still tried: a full disk may have room
    /// by then.
    pub fn write_piece(&mut self, piece: &[u8]) {
        let done = self.inner.write_all(piece).and_then(|()| self.inner.flush());
        if let Err(error) = done {
            self.keep_first_error(error);
        }
    }

    /// Keeps an error if it is the first.
    fn keep_first_error(&mut self, error: io::Error) {
        self.first_error.get_or_insert(error);
    }

    /// Returns the inner writer, which an empty one replaces.
    pub(crate) fn take_inner(&mut self) -> W
    where
        W: Default,
    {
        std::mem::take(&mut self.inner)
    }

    /// Returns the inner writer.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> &W {
        &self.inner
    }

    /// Returns the first error, if there was one.
    pub fn first_error(&self) -> Option<&io::Error> {
        self.first_error.as_ref()
    }
}

/// A writer that passes pieces to a thread and never blocks.
///
/// Drops what does not fit into the queue, and reports the number of dropped lines as soon as
/// there is room again. Clones write to the same queue, so that a signal handler can print while
/// the view is busy.
#[derive(Debug, Clone)]
pub struct NonBlocking {
    shared: Arc<SharedQueue>,
}

#[derive(Debug)]
struct SharedQueue {
    queue: Mutex<PieceQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PieceQueue {
    pieces: VecDeque<QueuedPiece>,
    /// The bytes in `pieces`.
    bytes: usize,
    /// Whether pieces were dropped since the last report.
    is_lossy: bool,
    /// Lines dropped since the last report.
    lost: u64,
    /// All dropped lines.
    lost_in_all: u64,
    /// What ends the line that the last queued piece left open.
    line_end: &'static str,
    /// Whether the thread holds a piece that is not written yet.
    is_writing: bool,
    /// The first error of the thread.
    first_error: Option<io::ErrorKind>,
}

#[derive(Debug)]
struct QueuedPiece {
    bytes: Vec<u8>,
    /// The lines of the view in it; 0 for the report of dropped lines.
    lines: u64,
}

/// About a minute of a talkative agent; more than a person scrolls back.
const QUEUE_BYTES: usize = 1 << 20;

/// Pause before retrying a terminal that another program set to non-blocking.
const FULL_TERMINAL_PAUSE: Duration = Duration::from_millis(10);

impl NonBlocking {
    /// Starts a thread that writes to `inner` and ignores its errors.
    ///
    /// The thread is never joined: it may block in a write for as long as the terminal does.
    pub fn start(inner: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(SharedQueue {
            queue: Mutex::new(PieceQueue::default()),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("view".to_owned()).spawn(move || theirs.write_pieces(inner))?;
        Ok(Self { shared })
    }

    /// Writes a separate line, ending an open line first.
    pub fn write_line(&self, line: &str) {
        let mut queue = self.shared.lock_queue();
        let end = queue.line_end;
        queue.push_piece(format!("{end}{line}\n").into_bytes());
        self.shared.changed.notify_all();
    }

    /// Waits until everything is written, at most for `patience`. Returns what was lost.
    pub fn wait_until_written(&self, patience: Duration) -> Losses {
        let mut queue = self.shared.lock_queue();
        queue.report_loss();
        self.shared.changed.notify_all();
        let (queue, _) = self
            .shared
            .changed
            .wait_timeout_while(queue, patience, |queue| {
                queue.is_writing || !queue.pieces.is_empty()
            })
            .unwrap_or_else(PoisonError::into_inner);
        let left: u64 = queue.pieces.iter().map(|piece| piece.lines).sum();
        Losses { lines: queue.lost_in_all + left, error: queue.first_error }
    }
}

/// Output that was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Losses {
    /// Lines that were dropped or are still queued.
    pub lines: u64,
    /// The first error of the inner writer.
    pub error: Option<io::ErrorKind>,
}

impl Write for NonBlocking {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.shared.lock_queue().push_piece(piece.to_vec());
        self.shared.changed.notify_all();
        Ok(piece.len())
    }

    /// Does nothing: the thread writes as fast as it can.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PieceQueue {
    fn push_piece(&mut self, bytes: Vec<u8>) {
        let lines = bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum();
        // A huge piece is in memory anyway, so it is accepted if the queue is empty.
        if self.bytes.saturating_add(bytes.len()) > QUEUE_BYTES && !self.pieces.is_empty() {
            self.is_lossy = true;
            self.lost += lines;
            self.lost_in_all += lines;
            return;
        }
        self.report_loss();
        self.line_end = match bytes.last() {
            None => self.line_end,
            Some(b'\n') => "",
            Some(b'\r') => ERASE_LINE,
            Some(_) => "\n",
        };
        self.bytes += bytes.len();
        self.pieces.push_back(QueuedPiece { bytes, lines });
    }

    /// Queues a line that reports how many lines were dropped here.
    fn report_loss(&mut self) {
        if !self.is_lossy {
            return;
        }
        let start = self.line_end;
        let note = match self.lost {
            // Pieces of one line.
            0 => format!("{start}... part of a line not shown\n"),
            1 => format!("{start}... 1 line not shown\n"),
            lost => format!("{start}... {} lines not shown\n", group_thousands(lost)),
        }
        .into_bytes();
        (self.is_lossy, self.lost) = (false, 0);
        self.line_end = "";
        self.bytes += note.len();
        self.pieces.push_back(QueuedPiece { bytes: note, lines: 0 });
    }
}

impl SharedQueue {
    /// Ignores poisoning: a panic elsewhere leaves the queue valid.
    fn lock_queue(&self) -> MutexGuard<'_, PieceQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes pieces until the program ends.
    fn write_pieces(&self, mut inner: impl Write) {
        let mut queue = self.lock_queue();
        loop {
            let Some(piece) = queue.pieces.pop_front() else {
                self.changed.notify_all();
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.bytes -= piece.bytes.len();
            queue.is_writing = true;
            drop(queue);
            let done = write_with_retry(&mut inner, &piece.bytes);
            queue = self.lock_queue();
            queue.is_writing = false;
            if let Err(error) = done {
                queue.first_error.get_or_insert(error.kind());
            }
        }
    }
}

/// Writes a whole piece, waiting while a non-blocking terminal has no room.
fn write_with_retry(inner: &mut impl Write, mut piece: &[u8]) -> io::Result<()> {
    while !piece.is_empty() {
        match inner.write(piece) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => piece = &piece[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(FULL_TERMINAL_PAUSE);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    inner.flush()
}

/// Returns `1 234 567`.
pub(crate) fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests;
