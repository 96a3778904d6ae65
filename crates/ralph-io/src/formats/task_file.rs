//! A task file on disk: read whole, changed in memory, replaced whole with a backup beside it.
//!
//! Not here: how its text is understood (`task_reader`) and changed (`task_editor`).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::task::{ChangeError, TaskChange, TaskList};
use rustix::fs::OFlags;
use thiserror::Error;

use super::dialect::Dialect;
use super::json_text::{self, Position};
use super::problem::FileProblem;
use super::task_editor::Document;
use super::task_reader::{self, Found};
use crate::store::atomic;

/// Ten thousand tasks with a page of text each; a larger file was not written by a person.
const LARGEST: u64 = 64 << 20;

/// A task file as it was read, with the changes made since.
#[derive(Debug)]
pub struct TaskFile {
    path: PathBuf,
    document: Document,
    /// What the file holds on disk.
    written: String,
}

/// Why a task file was not written. What was on disk is there still.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Somebody else changed it meanwhile.
    #[error("`{}` was changed by someone else meanwhile", .0.display())]
    Changed(PathBuf),
    /// The disk refused.
    #[error("cannot write `{}`", path.display())]
    Io {
        /// The file, or its backup.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl TaskFile {
    /// Reads a file, or tells everything that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Vec<FileProblem>> {
        Self::from_text(path, read_text(path)?)
    }

    /// Reads a text as if it were that of a file.
    pub fn from_text(path: &Path, text: String) -> Result<Self, Vec<FileProblem>> {
        let root = root_of(path, &text)?;
        let (list, places) =
            task_reader::read(&text, &root).map_err(|found| located(path, &text, found))?;
        let written = text.clone();
        Ok(Self { path: path.into(), document: Document { text, list, places }, written })
    }

    /// Reads the list of a file in spite of faults in it, such as a task that is done and yet
    /// under review; none where a field cannot be read. Tells everything that is wrong.
    pub fn read_in_spite(path: &Path) -> (Option<TaskList>, Vec<FileProblem>) {
        let read = || {
            let text = read_text(path)?;
            let root = root_of(path, &text)?;
            let (read, found) = task_reader::read_in_spite(&text, &root);
            Ok((read.map(|(list, _)| list), located(path, &text, found)))
        };
        read().unwrap_or_else(|problems| (None, problems))
    }

    /// Returns the file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how it is written.
    pub fn dialect(&self) -> Dialect {
        self.document.places.dialect
    }

    /// Returns the tasks.
    pub fn list(&self) -> &TaskList {
        &self.document.list
    }

    /// Returns the text, changes included.
    pub fn text(&self) -> &str {
        &self.document.text
    }

    /// Makes changes: all of them, or none. The file on disk stays as it is until [`Self::write`].
    pub fn apply(&mut self, changes: &[TaskChange]) -> Result<(), ChangeError> {
        self.document.apply(changes)
    }

    /// Tells what is wrong with the tasks after changes, if anything is.
    pub fn check(&self) -> Result<(), Vec<FileProblem>> {
        Self::from_text(&self.path, self.document.text.clone()).map(|_| ())
    }

    /// Tells why the list is no plan, in which tasks are there and none has begun.
    pub fn check_untouched(&self) -> Result<(), Vec<FileProblem>> {
        // A plan is read by whoever gets the project, and a link leads out of it.
        if fs::symlink_metadata(&self.path).is_ok_and(|there| there.is_symlink()) {
            return Err(vec![whole(&self.path, None, "is a link", "write a file in its place")]);
        }
        let Document { text, list, places } = &self.document;
        let problems = if list.tasks.is_empty() {
            vec![Found {
                offset: places.list.start,
                at: self.dialect().tasks().to_owned(),
                message: "holds no task".to_owned(),
                remedy: Some("add at least one".to_owned()),
            }]
        } else {
            task_reader::find(text, places, &list.begun_problems())
        };
        if problems.is_empty() { Ok(()) } else { Err(located(&self.path, text, problems)) }
    }

    /// Tells which skills open tasks name and nobody has; `has` knows those of the project.
    pub fn check_skills(&self, has: impl FnMut(&str) -> bool) -> Result<(), Vec<FileProblem>> {
        let Document { text, list, places } = &self.document;
        let problems = task_reader::find(text, places, &list.skill_problems(has));
        if problems.is_empty() { Ok(()) } else { Err(located(&self.path, text, problems)) }
    }

    /// Returns whether the file on disk is still what was read or written last. That costs a
    /// fraction of reading it anew.
    pub fn is_current(&self) -> bool {
        open(&self.path).is_ok_and(|file| holds(file, self.written.as_bytes()))
    }

    /// Replaces the file, if there are changes. What it held is kept beside it as `.bak`.
    ///
    /// A link stays a link: what it leads to is replaced.
    pub fn write(&mut self) -> Result<(), WriteError> {
        let backup = backup_of(&self.path.canonicalize().unwrap_or_else(|_| self.path.clone()));
        self.write_keeping(&backup)
    }

    /// Replaces the file, if there are changes. What it held is kept as `backup`, in whose
    /// directory the new one is written first.
    pub fn write_keeping(&mut self, backup: &Path) -> Result<(), WriteError> {
        if self.document.text == self.written {
            return Ok(());
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| WriteError::Io { path, source }
        };
        let real = self.path.canonicalize().map_err(failed(&self.path))?;
        let permissions = fs::metadata(&real).map_err(failed(&real))?.permissions();
        if !self.is_current() {
            return Err(WriteError::Changed(self.path.clone()));
        }
        let scratch = backup.parent().unwrap_or(Path::new("."));
        let replace = |path: &Path, text: &str, permissions: Permissions| {
            atomic::replace_by_way_of(scratch, path, text.as_bytes(), permissions)
                .map_err(failed(path))
        };
        // What is replaced becomes the backup itself, where both places are on one disk.
        if atomic::link_in_place(&real, backup).is_err() {
            replace(backup, &self.written, permissions.clone())?;
        }
        replace(&real, &self.document.text, permissions)?;
        self.written.clone_from(&self.document.text);
        Ok(())
    }
}

fn read_text(path: &Path) -> Result<String, Vec<FileProblem>> {
    let bytes =
        read_bytes(path).map_err(|(message, remedy)| vec![whole(path, None, message, remedy)])?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        let position = json_text::positions(&text, [text.len()]).first().copied();
        vec![whole(path, position, "is not UTF-8", "save it as UTF-8")]
    })
}

/// Returns where the document stands in a text that is JSON.
fn root_of(path: &Path, text: &str) -> Result<Range<usize>, Vec<FileProblem>> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    if text[start..].trim().is_empty() {
        return Err(vec![whole(path, None, "is empty", "write `{\"tasks\": []}` for no tasks")]);
    }
    json_text::root(text, start).map_err(|error| {
        vec![FileProblem {
            file: path.into(),
            position: Some(error.position),
            at: String::new(),
            message: format!("not valid JSON: {}", error.message),
            remedy: error.hint.map(Into::into),
        }]
    })
}

fn backup_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".bak");
    name.into()
}

/// Why a file cannot be read, and what helps.
fn cannot(error: &io::Error) -> (String, &'static str) {
    if error.kind() == io::ErrorKind::NotFound {
        ("there is no such file".to_owned(), "is the name right?")
    } else {
        (format!("cannot be read: {error}"), "check its permissions")
    }
}

/// Opens an ordinary file. A pipe is not waited for.
fn open(path: &Path) -> Result<File, (String, &'static str)> {
    let cannot = |error: io::Error| cannot(&error);
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    if !about.is_file() {
        return Err(("is not a file".into(), "name the task file itself"));
    }
    Ok(file)
}

/// Returns whether a file holds exactly these bytes. It is read piece by piece: a large list is
/// looked at several times in an iteration.
fn holds(mut file: File, mut expect: &[u8]) -> bool {
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return expect.is_empty(),
            Ok(count) => match expect.strip_prefix(&piece[..count]) {
                Some(rest) => expect = rest,
                None => return false,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Reads an ordinary file of bearable size.
fn read_bytes(path: &Path) -> Result<Vec<u8>, (String, &'static str)> {
    let mut bytes = Vec::new();
    let mut bounded = File::take(open(path)?, LARGEST + 1);
    bounded.read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err((format!("is larger than {} MiB", LARGEST >> 20), "split the list"));
    }
    Ok(bytes)
}

fn whole(
    path: &Path,
    position: Option<Position>,
    message: impl Into<String>,
    remedy: &str,
) -> FileProblem {
    FileProblem {
        file: path.into(),
        position,
        at: String::new(),
        message: message.into(),
        remedy: Some(remedy.into()),
    }
}

/// Adds lines and columns to mistakes, which come in the order of the text.
fn located(path: &Path, text: &str, found: Vec<Found>) -> Vec<FileProblem> {
    let positions = json_text::positions(text, found.iter().map(|found| found.offset));
    let with_position = found.into_iter().zip(positions);
    with_position
        .map(|(Found { at, message, remedy, .. }, position)| FileProblem {
            file: path.into(),
            position: Some(position),
            at,
            message,
            remedy,
        })
        .collect()
}

#[cfg(test)]
mod tests;
