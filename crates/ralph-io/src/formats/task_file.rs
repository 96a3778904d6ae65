//! A task file on disk: read whole, changed in memory, replaced whole with a backup beside it.
//!
//! Not here: how its text is understood (`task_reader`) and changed (`task_editor`).

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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
    /// What the file holds on disk, where changes were made that are not written.
    before: Option<String>,
    /// What it looked like when it was read or written.
    signs: Option<Signs>,
}

/// What tells a changed file from outside. The time of the last change cannot be set back, but it
/// is as coarse as the file system likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signs {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Signs {
    fn of(file: &Metadata) -> Self {
        Self {
            file: (file.dev(), file.ino()),
            size: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// Why a task file was not written. What was on disk is there still.
#[derive(Debug, Error)]
pub enum WriteError {
    /// A change does not fit the list.
    #[error(transparent)]
    Unfit(#[from] ChangeError),
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
        let (text, signs) = read_text(path)?;
        Ok(Self { signs: Some(signs), ..Self::from_text(path, text)? })
    }

    /// Reads a text as if it were that of a file.
    pub fn from_text(path: &Path, text: String) -> Result<Self, Vec<FileProblem>> {
        let root = root_of(path, &text)?;
        let (list, places) =
            task_reader::read(&text, &root).map_err(|found| located(path, &text, found))?;
        let document = Document { text, list, places, edits: 0 };
        Ok(Self { path: path.into(), document, before: None, signs: None })
    }

    /// Reads the list of a file in spite of faults in it, such as a task that is done and yet
    /// under review; none where a field cannot be read. Tells everything that is wrong.
    pub fn read_in_spite(path: &Path) -> (Option<TaskList>, Vec<FileProblem>) {
        let read = || {
            let (text, _) = read_text(path)?;
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
        let before = self.before.take().unwrap_or_else(|| self.document.text.clone());
        let done = self.document.apply(changes);
        self.before = Some(before).filter(|before| *before != self.document.text);
        done
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
        let Document { text, list, places, edits: _ } = &self.document;
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
        let Document { text, list, places, edits: _ } = &self.document;
        let problems = task_reader::find(text, places, &list.skill_problems(has));
        if problems.is_empty() { Ok(()) } else { Err(located(&self.path, text, problems)) }
    }

    /// Returns whether the file on disk still holds what was read or written last. That costs a
    /// fraction of reading it anew.
    pub fn is_current(&mut self) -> bool {
        let expect = self.before.as_ref().unwrap_or(&self.document.text);
        let Ok((file, signs)) = open(&self.path) else { return false };
        let is_same = holds(file, expect.as_bytes());
        if is_same {
            self.signs = Some(signs);
        }
        is_same
    }

    /// Returns whether the file on disk looks as it did when it was read or written last. That
    /// costs the same for a list of any length. What a person does to a file is seen; who wants to
    /// may be able to hide something.
    pub fn looks_current(&self) -> bool {
        open(&self.path).is_ok_and(|(_, signs)| self.signs == Some(signs))
    }

    /// Replaces the file, if there are changes. What it held is kept beside it as `.bak`.
    ///
    /// A link stays a link: what it leads to is replaced.
    pub fn write(&mut self) -> Result<(), WriteError> {
        if self.before.is_none() {
            return Ok(());
        }
        if !self.is_current() {
            return Err(WriteError::Changed(self.path.clone()));
        }
        self.replace(&backup_of(&self.path.canonicalize().unwrap_or_else(|_| self.path.clone())))
    }

    /// Makes changes and replaces the file, if it looks as it did. What it held is kept as
    /// `backup`, in whose directory the new one is written first.
    pub fn change_on_disk(
        mut self,
        changes: &[TaskChange],
        backup: &Path,
    ) -> Result<Self, WriteError> {
        let edits = self.document.edits;
        self.document.apply(changes)?;
        if self.document.edits == edits {
            return Ok(self);
        }
        if !self.looks_current() {
            return Err(WriteError::Changed(self.path));
        }
        self.replace(backup)?;
        Ok(self)
    }

    fn replace(&mut self, backup: &Path) -> Result<(), WriteError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| WriteError::Io { path, source }
        };
        let real = self.path.canonicalize().map_err(failed(&self.path))?;
        let permissions = fs::metadata(&real).map_err(failed(&real))?.permissions();
        let scratch = backup.parent().unwrap_or(Path::new("."));
        // What is replaced becomes the backup itself, where both places are on one disk.
        let kept = atomic::link_in_place(&real, backup).or_else(|_| {
            let old = fs::read(&real)?;
            atomic::replace_by_way_of(scratch, backup, &old, permissions.clone()).map(|()| None)
        });
        let spare = kept.map_err(failed(backup))?;
        let text = self.document.text.as_bytes();
        match spare {
            Some(spare) => atomic::replace_with_spare(spare, &real, text, permissions),
            None => atomic::replace_by_way_of(scratch, &real, text, permissions),
        }
        .map_err(failed(&real))?;
        self.before = None;
        self.signs = open(&self.path).ok().map(|(_, signs)| signs);
        Ok(())
    }
}

fn read_text(path: &Path) -> Result<(String, Signs), Vec<FileProblem>> {
    let (bytes, signs) =
        read_bytes(path).map_err(|(message, remedy)| vec![whole(path, None, message, remedy)])?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        let position = json_text::positions(&text, [text.len()]).first().copied();
        vec![whole(path, position, "is not UTF-8", "save it as UTF-8")]
    })?;
    Ok((text, signs))
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

/// Opens an ordinary file, and looks at it. A pipe is not waited for.
fn open(path: &Path) -> Result<(File, Signs), (String, &'static str)> {
    let cannot = |error: io::Error| cannot(&error);
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    if !about.is_file() {
        return Err(("is not a file".into(), "name the task file itself"));
    }
    Ok((file, Signs::of(&about)))
}

/// Returns whether a file holds exactly these bytes. It is read piece by piece: a large list is
/// looked at in every iteration.
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
fn read_bytes(path: &Path) -> Result<(Vec<u8>, Signs), (String, &'static str)> {
    let mut bytes = Vec::new();
    let (file, signs) = open(path)?;
    let mut bounded = File::take(file, LARGEST + 1);
    bounded.read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err((format!("is larger than {} MiB", LARGEST >> 20), "split the list"));
    }
    Ok((bytes, signs))
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
