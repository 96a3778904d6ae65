//! The log of one gate: its whole output, up to a size limit.
//!
//! Not here: the excerpt for the prompt.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::atomic_file::remove_if_exists;

/// A gate that prints without end must not fill the disk before its time is up.
pub(super) const LARGEST_LOG: u64 = 64 * 1024 * 1024;

/// A log that is being written.
#[derive(Debug)]
pub(super) struct GateLog {
    file: File,
    left: u64,
    dropped: u64,
}

impl GateLog {
    /// Creates a log. Removes an existing file first instead of following it: it may be a link.
    pub(super) fn create(path: &Path, limit: u64) -> io::Result<Self> {
        remove_if_exists(path)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file, left: limit, dropped: 0 })
    }

    /// Writes the next bytes, as they are.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.file.write_all(&bytes[..room])?;
        self.left -= room as u64;
        self.dropped += (bytes.len() - room) as u64;
        Ok(())
    }

    /// Writes a note of ralph's on its own line, after the number of bytes dropped before it.
    pub(super) fn add_note(&mut self, note: Option<&str>) -> io::Result<()> {
        if self.dropped > 0 {
            write!(self.file, "\n[ralph] {} more bytes were not kept\n", self.dropped)?;
        }
        if let Some(note) = note {
            write!(self.file, "\n{note}\n")?;
        }
        Ok(())
    }
}
