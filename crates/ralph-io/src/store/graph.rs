//! The file of the knowledge graph, which several servers may read and write at once.
//!
//! A writer holds a lock file next to the graph from reading to writing, so no change of another
//! writer is lost. The file is replaced whole, so a reader needs no lock, and a kill or a full disk
//! leaves the old one. It is read again only when it has changed. Not here: what an edit means, and
//! messages for people.

mod lines;

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lines::GraphContent;
use ralph_core::memory::graph::{Graph, GraphEdit, GraphEditResult, GraphEffect, UnknownEntity};
use rustix::fs::OFlags;

use crate::atomic_file;

/// Ten times what a million observations take; no graph is larger.
const LARGEST: u64 = 2 << 30;

/// The largest graph is written in two seconds, and several writers may be waiting.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that writes in place is done with a page of text by then.
const REREAD_DELAY: Duration = Duration::from_millis(100);

/// A knowledge graph file, with its content when it was last read.
#[derive(Debug)]
pub struct GraphFile {
    path: PathBuf,
    patience: Duration,
    seen: Option<GraphSnapshot>,
    notices: Vec<GraphNotice>,
    swept: bool,
}

/// A warning for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphNotice {
    /// Lines cannot be read.
    Damaged {
        path: PathBuf,
        count: usize,
        /// The line number of the first, from 1.
        first: usize,
    },
    /// They were moved to another file, and the graph file is intact again.
    PutAside { path: PathBuf },
}

/// The graph cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// An edit names an entity that does not exist.
    #[error(transparent)]
    Unknown(#[from] UnknownEntity),
    /// The operation failed.
    #[error("cannot {doing} `{}`: {source}", .path.display())]
    Refused { doing: &'static str, path: PathBuf, source: io::Error },
    /// It is a directory, a pipe or a device.
    #[error("`{}` is not a file", .0.display())]
    NotAFile(PathBuf),
    /// It is larger than any graph.
    #[error("`{}` is too large: a graph may have {} MiB", .0.display(), LARGEST >> 20)]
    TooLarge(PathBuf),
    /// Another process keeps the lock.
    #[error("another process has held `{}` for {} seconds", .path.display(), .waited.as_secs())]
    Busy { path: PathBuf, waited: Duration },
}

/// The content of a file when it was read.
#[derive(Debug)]
struct GraphSnapshot {
    content: GraphContent,
    /// None if there is no file.
    version: Option<GraphVersion>,
}

/// A version of the file. It is held open, so that no other file gets its inode number.
#[derive(Debug)]
struct GraphVersion {
    stamp: GraphStamp,
    _file: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GraphStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl GraphFile {
    /// Returns the file at a path, whether it exists or not. Reads nothing yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            patience: PATIENCE,
            seen: None,
            notices: Vec::new(),
            swept: false,
        }
    }

    /// Returns the current graph; empty if there is no file.
    pub fn read_graph(&mut self) -> Result<&Graph, GraphError> {
        let path = self.path.clone();
        Ok(&self.refresh(&path)?.content.graph)
    }

    /// Applies an edit, completely or not at all.
    pub fn apply_edit(&mut self, edit: GraphEdit) -> Result<GraphEditResult, GraphError> {
        // Links are resolved, so that all users of the file use one lock, and the link stays.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(build_io_error("make", directory))?;
        }
        let _lock = self.lock_graph(&path)?;
        let seen = self.refresh(&path)?;
        let (edited, effect) = seen.content.graph.apply_edit(edit)?;
        let is_whole = seen.content.damaged.is_empty();
        match effect {
            GraphEffect::Unchanged if is_whole => {}
            GraphEffect::Unchanged | GraphEffect::Changed => {
                // The snapshot is invalid until it is written.
                let seen = self.seen.take();
                self.seen = seen.map(|seen| self.write_snapshot(&path, seen)).transpose()?;
            }
        }
        Ok(edited)
    }

    /// Returns the warnings since the last call.
    pub fn take_notices(&mut self) -> Vec<GraphNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Reads the file, unless it is unchanged since it was last read.
    fn refresh(&mut self, path: &Path) -> Result<&mut GraphSnapshot, GraphError> {
        let stamp = match fs::metadata(path) {
            Ok(metadata) => Some(GraphStamp::from_metadata(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(build_io_error("read", path)(error)),
        };
        let seen = if let Some(seen) = self.seen.take_if(|seen| seen.stamp() == stamp) {
            seen
        } else {
            self.read_with_retry(path)?
        };
        Ok(self.seen.insert(seen))
    }

    fn read_with_retry(&mut self, path: &Path) -> Result<GraphSnapshot, GraphError> {
        let mut seen = read_snapshot(path)?;
        if !seen.content.damaged.is_empty() {
            // A program that writes in place may be halfway through.
            std::thread::sleep(REREAD_DELAY);
            seen = read_snapshot(path)?;
        }
        if let Some(first) = seen.content.damaged.first() {
            self.notices.push(GraphNotice::Damaged {
                path: path.to_owned(),
                count: seen.content.damaged.len(),
                first: first.line,
            });
        }
        Ok(seen)
    }

    fn write_snapshot(
        &mut self,
        path: &Path,
        mut seen: GraphSnapshot,
    ) -> Result<GraphSnapshot, GraphError> {
        self.remove_temporary_files(path);
        if !seen.content.damaged.is_empty() {
            let aside = save_damaged(path, &seen.content.damaged)
                .map_err(build_io_error("move damaged lines out of", path))?;
            self.notices.push(GraphNotice::PutAside { path: aside });
            seen.content.damaged.clear();
        }
        let permissions = fs::metadata(path)
            .map_or_else(|_| Permissions::from_mode(0o600), |metadata| metadata.permissions());
        let bytes = lines::format_lines(&seen.content.graph, &seen.content.others);
        let version = atomic_file::replace_and_hold(path, &bytes, permissions)
            .and_then(GraphVersion::from_file)
            .map_err(build_io_error("write", path))?;
        Ok(GraphSnapshot { version: Some(version), ..seen })
    }

    /// Removes temporary files of killed writers. Only the holder of the lock writes.
    fn remove_temporary_files(&mut self, path: &Path) {
        if std::mem::replace(&mut self.swept, true) {
            return;
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
        let lead = format!(".{}.", name.to_string_lossy());
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&lead) && name.ends_with(".tmp") {
                // A file that stays does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn lock_graph(&self, path: &Path) -> Result<File, GraphError> {
        let path = with_suffix(path, ".lock");
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let file = open.map_err(build_io_error("lock", &path))?;
        let begun = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => {
                    return Err(build_io_error("lock", &path)(error));
                }
                Err(TryLockError::WouldBlock) if begun.elapsed() >= self.patience => {
                    return Err(GraphError::Busy { path, waited: self.patience });
                }
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
            }
        }
    }
}

impl GraphSnapshot {
    fn stamp(&self) -> Option<GraphStamp> {
        self.version.as_ref().map(|version| version.stamp)
    }
}

impl GraphVersion {
    fn from_file(file: File) -> io::Result<Self> {
        Ok(Self { stamp: GraphStamp::from_metadata(&file.metadata()?), _file: file })
    }
}

impl GraphStamp {
    fn from_metadata(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

fn read_snapshot(path: &Path) -> Result<GraphSnapshot, GraphError> {
    let refused = |error| build_io_error("read", path)(error);
    // Opening a pipe would wait for its writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(GraphSnapshot { content: GraphContent::default(), version: None });
        }
        Err(error) => return Err(refused(error)),
    };
    let metadata = file.metadata().map_err(refused)?;
    if !metadata.is_file() {
        return Err(GraphError::NotAFile(path.to_owned()));
    }
    if metadata.len() > LARGEST {
        return Err(GraphError::TooLarge(path.to_owned()));
    }
    let stamp = GraphStamp::from_metadata(&metadata);
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    (&file).take(LARGEST).read_to_end(&mut bytes).map_err(refused)?;
    let content = lines::parse_lines(&bytes);
    Ok(GraphSnapshot { content, version: Some(GraphVersion { stamp, _file: file }) })
}

/// Saves damaged lines in a file of their own, and returns its path.
fn save_damaged(path: &Path, damaged: &[lines::DamagedLine]) -> io::Result<PathBuf> {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let mut bytes = Vec::new();
    for damaged in damaged {
        bytes.extend(&damaged.bytes);
        bytes.push(b'\n');
    }
    let mut number = 1;
    loop {
        let suffix = match number {
            1 => format!(".damaged-{now}"),
            number => format!(".damaged-{now}-{number}"),
        };
        let aside = with_suffix(path, &suffix);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside) {
            Ok(mut file) => {
                let written = file.write_all(&bytes).and_then(|()| file.sync_all());
                if written.is_err() {
                    let _ = fs::remove_file(&aside);
                }
                return written.map(|()| aside);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn build_io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GraphError {
    let path = path.to_owned();
    move |source| GraphError::Refused { doing, path, source }
}

#[cfg(test)]
mod tests;
