//! Follows a journal as it grows, for `--follow` and the live page.
//!
//! Not here: a journal that is complete (`journal::open_for_reading`).

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use ralph_model::event::Recorded;

use super::journal::JournalError;

/// How many bytes are read at once.
const PIECE: usize = 64 * 1024;

/// Reads events one by one, and waits for more by being called again.
#[derive(Debug)]
pub struct JournalTail {
    file: File,
    path: PathBuf,
    pending: Vec<u8>,
    /// Where the next line begins in `pending`.
    start: usize,
    line: u64,
}

impl JournalTail {
    /// Opens a journal at its beginning.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(|source| build_read_error(path, source))?;
        Ok(Self { file, path: path.to_owned(), pending: Vec::new(), start: 0, line: 0 })
    }

    /// Returns the next event with its text, or none if it is not there yet, or not completely.
    pub fn next_event(&mut self) -> Result<Option<(Recorded, String)>, JournalError> {
        loop {
            let rest = &self.pending[self.start..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                self.line += 1;
                let text = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.start += end + 1;
                let recorded = serde_json::from_str(&text).map_err(|error| {
                    let (path, line) = (self.path.clone(), self.line);
                    JournalError::Damaged { path, line, reason: error.to_string() }
                })?;
                return Ok(Some((recorded, text)));
            }
            self.pending.drain(..self.start);
            self.start = 0;
            let held = self.pending.len();
            self.pending.resize(held + PIECE, 0);
            let read = self.file.read(&mut self.pending[held..]);
            let count = read.map_err(|source| build_read_error(&self.path, source))?;
            self.pending.truncate(held + count);
            if count == 0 {
                // A line that a crash truncated is dropped when the run is resumed, and another one
                // takes its place: so an incomplete line is read again from its beginning.
                let back = -i64::try_from(held).unwrap_or(i64::MAX);
                let seek = self.file.seek(SeekFrom::Current(back));
                seek.map_err(|source| build_read_error(&self.path, source))?;
                self.pending.clear();
                return Ok(None);
            }
        }
    }
}

fn build_read_error(path: &Path, source: io::Error) -> JournalError {
    JournalError::Refused { doing: "read", path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn events_come_as_they_are_written() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut tail = JournalTail::open(file.path()).expect("opened");
        let line = r#"{"seq":1,"at":5,"ran":0,"event":{"type":"warned","text":"x"}}"#;
        assert!(tail.next_event().expect("readable").is_none());
        write!(file, "{}", &line[..20]).expect("written");
        assert!(tail.next_event().expect("readable").is_none(), "half a line is no event");
        writeln!(file, "{}", &line[20..]).expect("written");
        let (recorded, text) = tail.next_event().expect("readable").expect("whole");
        assert_eq!((recorded.seq, text.as_str()), (1, line));
        assert!(tail.next_event().expect("readable").is_none());
        writeln!(file, "garbage").expect("written");
        let error = tail.next_event().expect_err("damaged").to_string();
        assert!(error.contains("ine 2"), "{error}");
    }
}
