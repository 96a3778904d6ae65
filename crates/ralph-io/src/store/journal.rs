//! The journal on disk: one event per line. What cannot be repeated is synced before ralph acts on it.
//!
//! Reading holds one line at a time, so the memory use does not depend on the length. Not here:
//! what the events mean, which the core's fold decides.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::run_loop::fold::{FoldError, apply_event, start_state};
use ralph_model::event::{Event, JOURNAL_VERSION, Recorded};
use ralph_model::ids::Role;
use ralph_model::recipe::Recipe;
use ralph_model::run::RunState;
use serde::Deserialize;

use crate::atomic_file;

/// The longest line that is read. Ours are below a MiB; a damaged file without newlines must not
/// fill the memory.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// A journal open for writing.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// The length of the complete lines.
    length: u64,
    /// Whether the entry in its directory may not survive a power cut yet.
    is_new: bool,
    /// Whether events must be synced before ralph acts.
    is_unsynced: bool,
}

/// A journal that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operation failed.
    #[error("cannot {doing} the journal `{}`: {source}", .path.display())]
    Refused { doing: &'static str, path: PathBuf, source: io::Error },
    /// It has no complete line.
    #[error("the journal `{}` is empty: the run never began", .path.display())]
    Empty { path: PathBuf },
    /// A line other than the last cannot be read.
    #[error(
        "line {line} of the journal `{}` is damaged ({reason}); the run cannot be resumed, but its {} earlier events are readable and its commits and refs are in the repository",
        .path.display(),
        .line - 1
    )]
    Damaged {
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
        reason: String,
    },
    /// A later version of ralph wrote it.
    #[error(
        "the journal `{}` has format {version}, and this ralph knows {JOURNAL_VERSION}; resume with the ralph version that wrote it",
        .path.display()
    )]
    Newer { path: PathBuf, version: u32 },
    /// An event does not follow from those before it.
    #[error("the journal `{}` is inconsistent: {source}", .path.display())]
    Inconsistent { path: PathBuf, source: FoldError },
}

impl Journal {
    /// Creates the journal of a new run.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| build_io_error("create", path, source))?;
        Ok(Self { file, path: path.to_owned(), length: 0, is_new: true, is_unsynced: false })
    }

    /// Opens the journal of a resumed run. Cuts off a torn last line, which ralph has not acted on.
    pub fn open_for_append(path: &Path) -> Result<Self, JournalError> {
        let mut reading = open_for_reading(path)?;
        if let Some(version) = reading.newer {
            return Err(JournalError::Newer { path: path.to_owned(), version });
        }
        for recorded in &mut reading {
            recorded?;
        }
        let refused = |source| build_io_error("open", path, source);
        let file = OpenOptions::new().append(true).open(path).map_err(refused)?;
        if reading.torn.is_some() {
            let last_written = file.metadata().and_then(|it| it.modified());
            file.set_len(reading.intact_bytes).and_then(|()| file.sync_data()).map_err(refused)?;
            // The time of the run's last event must stay visible.
            let _ = last_written.and_then(|it| file.set_modified(it));
        }
        let (path, length) = (path.to_owned(), reading.intact_bytes);
        Ok(Self { file, path, length, is_new: false, is_unsynced: false })
    }

    /// Syncs the events that must be on the disk before ralph acts.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        if !self.is_unsynced {
            return Ok(());
        }
        self.sync_file().map_err(|source| build_io_error("sync", &self.path, source))
    }

    fn sync_file(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.is_unsynced = false;
        if std::mem::take(&mut self.is_new) {
            self.path.parent().map_or(Ok(()), atomic_file::sync_directory)?;
        }
        Ok(())
    }

    /// Appends an event. After a failure the journal ends with the previous event.
    pub fn append(&mut self, recorded: &Recorded) -> Result<(), JournalError> {
        let written = serde_json::to_vec(recorded).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            // Usually one write for the whole line; on a full disk a part of it may be written,
            // which is removed below.
            self.file.write_all(&line)?;
            match find_sync_time(&recorded.event) {
                SyncTime::AtOnce => self.sync_file()?,
                SyncTime::BeforeActing => self.is_unsynced = true,
                SyncTime::WithTheNext => {}
            }
            Ok(line.len() as u64)
        });
        match written {
            Ok(bytes) => {
                self.length += bytes;
                Ok(())
            }
            Err(source) => {
                // If even this fails, the line stays torn and the next reader drops it.
                let _ = self.file.set_len(self.length).and_then(|()| self.file.sync_data());
                Err(build_io_error("append to", &self.path, source))
            }
        }
    }
}

/// When an event must survive a power cut. It is written at once in any case, so that it survives the
/// end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncTime {
    AtOnce,
    /// Before the next step that does something outside the run.
    BeforeActing,
    /// Whenever another one is synced: without it a resumed run repeats a step that has no effect
    /// outside the run.
    WithTheNext,
}

/// Returns when an event must survive a power cut.
#[expect(clippy::wildcard_enum_match_arm, reason = "an event that is not known to be harmless")]
pub const fn find_sync_time(event: &Event) -> SyncTime {
    match event {
        // Its checkpoint says what the work tree was before the merge, which comes next.
        Event::IterationStarted { role: Role::Merge, .. } => SyncTime::BeforeActing,
        Event::RunStarted { .. }
        | Event::Warned { .. }
        | Event::BaselineStarted { .. }
        | Event::BaselineChecked { .. }
        | Event::IterationStarted { .. }
        | Event::Checkpointed { .. }
        | Event::GateChecked { .. }
        | Event::Rechecked { .. }
        | Event::IterationEnded { .. }
        | Event::WorkerStarted { .. }
        | Event::WorkerProgressed { .. } => SyncTime::WithTheNext,
        Event::Observed { .. } | Event::Judged { .. } | Event::Landed { .. } => {
            SyncTime::BeforeActing
        }
        _ => SyncTime::AtOnce,
    }
}

/// Returns the state that follows from a journal's events.
pub fn fold_journal(path: &Path) -> Result<RunState, JournalError> {
    let misfit = |source| JournalError::Inconsistent { path: path.to_owned(), source };
    let mut reading = open_for_reading(path)?;
    let first = reading.next().ok_or_else(|| JournalError::Empty { path: path.to_owned() })??;
    let mut state = start_state(&first).map_err(misfit)?;
    for recorded in reading {
        apply_event(&mut state, &recorded?).map_err(misfit)?;
    }
    Ok(state)
}

/// Returns the recipe that a run began with, if its journal can be read. Reads one event.
pub fn read_recipe(path: &Path) -> Option<Recipe> {
    let first = open_for_reading(path).ok()?.next()?.ok()?;
    let Event::RunStarted { recipe, .. } = first.event else { return None };
    Some(*recipe)
}

/// Opens a journal for reading, even if it is being written or from a later version.
pub fn open_for_reading(path: &Path) -> Result<JournalReader, JournalError> {
    let open = || {
        let mut lines = BufReader::new(File::open(path)?);
        let mut line = Vec::new();
        read_line(&mut lines, &mut line)?;
        Ok((lines, line))
    };
    let (lines, next) = open().map_err(|source| build_io_error("read", path, source))?;
    let newer = serde_json::from_slice::<JournalFirstLine>(&next)
        .ok()
        .map(|first| first.event.journal)
        .filter(|version| *version > JOURNAL_VERSION);
    Ok(JournalReader {
        lines,
        path: path.to_owned(),
        next,
        line: 0,
        intact_bytes: 0,
        newer,
        torn: None,
    })
}

/// The events of a journal, in order, read on demand.
#[derive(Debug)]
pub struct JournalReader {
    lines: BufReader<File>,
    path: PathBuf,
    /// The next line with its newline; reading one line ahead tells which is the last.
    next: Vec<u8>,
    line: u64,
    intact_bytes: u64,
    newer: Option<u32>,
    torn: Option<TornLine>,
}

/// What was dropped at the end of a journal: an event that was being written when ralph or the
/// machine died. ralph has not acted on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornLine {
    pub bytes: u64,
}

impl JournalReader {
    /// Returns what was dropped, once all events are read.
    pub fn torn_line(&self) -> Option<TornLine> {
        self.torn
    }

    fn read_next(&mut self) -> Result<Option<Recorded>, JournalError> {
        if self.next.is_empty() || self.torn.is_some() {
            return Ok(None);
        }
        self.line += 1;
        let current = std::mem::take(&mut self.next);
        read_line(&mut self.lines, &mut self.next)
            .map_err(|source| build_io_error("read", &self.path, source))?;
        let parsed: Result<Recorded, String> = if current.ends_with(b"\n") {
            serde_json::from_slice(&current).map_err(|error| error.to_string())
        } else {
            Err("it has no end".to_owned())
        };
        match (parsed, self.newer) {
            (Ok(recorded), _) => {
                self.intact_bytes += current.len() as u64;
                Ok(Some(recorded))
            }
            (Err(_), _) if self.next.is_empty() => {
                self.torn = Some(TornLine { bytes: current.len() as u64 });
                Ok(None)
            }
            (Err(_), Some(version)) => {
                Err(JournalError::Newer { path: self.path.clone(), version })
            }
            (Err(reason), None) => {
                Err(JournalError::Damaged { path: self.path.clone(), line: self.line, reason })
            }
        }
    }
}

impl Iterator for JournalReader {
    type Item = Result<Recorded, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read_next().transpose();
        if let Some(Err(_)) = next {
            // Events after a damaged line may not follow from those before it.
            self.next.clear();
        }
        next
    }
}

#[derive(Deserialize)]
struct JournalFirstLine {
    event: JournalFirstEvent,
}

#[derive(Deserialize)]
struct JournalFirstEvent {
    journal: u32,
}

fn read_line(lines: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<()> {
    lines.by_ref().take(LONGEST_LINE).read_until(b'\n', line).map(drop)
}

fn build_io_error(doing: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::Refused { doing, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
