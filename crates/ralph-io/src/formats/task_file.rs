//! A task file on disk: read whole, changed in memory, replaced whole with a backup elsewhere.
//!
//! Not here: how its text is understood (`task_reader`) and changed (`task_editor`).

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ralph_core::tasks::validation::{find_begun_tasks, find_skill_problems};
use ralph_model::ids::TaskId;
use ralph_model::task::{ChangeError, TaskChange, TaskList};
use rustix::fs::OFlags;
use serde_json::Value;
use thiserror::Error;

use super::dialect::{ListDialect, TaskFileField};
use super::json_text::{self, Position};
use super::problem::FileProblem;
use super::task_editor::TaskDocument;
use super::task_reader::{self, FoundProblem};
use crate::atomic_file;

/// Ten thousand tasks with a page of text each; no person writes a larger file.
const LARGEST: u64 = 64 << 20;

/// A task file as it was read, with the changes made since.
#[derive(Debug)]
pub struct TaskFile {
    path: PathBuf,
    document: TaskDocument,
    /// The content on disk, if changes are not written yet.
    before: Option<String>,
    /// The file's metadata when it was read or written.
    stamp: Option<FileStamp>,
}

/// Metadata that shows changes from outside. The change time cannot be set back, but it is as
/// coarse as the file system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn from_metadata(file: &Metadata) -> Self {
        Self {
            file: (file.dev(), file.ino()),
            size: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// Why a task file was not written. The file on disk is unchanged.
#[derive(Debug, Error)]
pub enum WriteError {
    /// A change cannot be applied to the list.
    #[error(transparent)]
    InvalidChange(#[from] ChangeError),
    /// Another program changed it in the meantime.
    #[error("`{}` was changed by another program in the meantime", .0.display())]
    Changed(PathBuf),
    /// Writing failed.
    #[error("cannot write `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl TaskFile {
    /// Reads a file. Fails with all problems of the file.
    pub fn read(path: &Path) -> Result<Self, Vec<FileProblem>> {
        let (text, signs) = read_text(path)?;
        Ok(Self { stamp: Some(signs), ..Self::from_text(path, text)? })
    }

    /// Parses a text as the content of a file.
    pub fn from_text(path: &Path, text: String) -> Result<Self, Vec<FileProblem>> {
        let root = find_document(path, &text)?;
        let (list, places) = task_reader::parse_list(&text, &root)
            .map_err(|found| locate_problems(path, &text, found))?;
        let document = TaskDocument { text, list, places, edits: 0 };
        Ok(Self { path: path.into(), document, before: None, stamp: None })
    }

    /// Reads the list of a file despite faults in it, such as a task that is both done and under
    /// review; none if a field cannot be read. Returns all problems too.
    pub fn read_despite_faults(path: &Path) -> (Option<TaskList>, Vec<FileProblem>) {
        let read = || {
            let (text, _) = read_text(path)?;
            let root = find_document(path, &text)?;
            let (read, found) = task_reader::parse_despite_faults(&text, &root);
            Ok((read.map(|(list, _)| list), locate_problems(path, &text, found)))
        };
        read().unwrap_or_else(|problems| (None, problems))
    }

    /// Returns the path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the dialect.
    pub fn dialect(&self) -> ListDialect {
        self.document.places.dialect
    }

    /// Returns the task list.
    pub fn list(&self) -> &TaskList {
        &self.document.list
    }

    /// Returns the text, changes included.
    pub fn text(&self) -> &str {
        &self.document.text
    }

    /// Returns the text of a list with one task and those that it depends on, as they are now.
    pub fn cut_to_task(&self, task: &TaskId) -> String {
        let TaskDocument { text, list, places, .. } = &self.document;
        let Ok(mut root) = serde_json::from_str::<Value>(&text[places.root.clone()]) else {
            return text.clone();
        };
        let needed = list.find_task(task).map(|it| it.depends_on.as_slice()).unwrap_or_default();
        let is_it = |value: &Value, id: &TaskId| match value.get("id") {
            Some(Value::String(text)) => *text == id.0,
            Some(Value::Number(number)) => number.to_string() == id.0,
            Some(_) | None => false,
        };
        if let Some(Value::Array(tasks)) = root.get_mut(places.dialect.tasks_key()) {
            tasks.retain(|it| is_it(it, task) || needed.iter().any(|id| is_it(it, id)));
            for other in tasks.iter_mut().filter(|it| !is_it(it, task)) {
                // What those depend on is not in the list.
                let fields = other.as_object_mut();
                fields.map(|it| ["depends_on", "dependsOn"].map(|name| it.remove(name)));
            }
        }
        format!("{root:#}\n")
    }

    /// Applies all changes, or none. The file on disk stays as it is until [`Self::write`].
    pub fn apply_changes(&mut self, changes: &[TaskChange]) -> Result<(), ChangeError> {
        let before = self.before.take().unwrap_or_else(|| self.document.text.clone());
        let done = self.document.apply_changes(changes);
        self.before = Some(before).filter(|before| *before != self.document.text);
        done
    }

    /// Fails if the tasks are not valid after changes.
    pub fn check_list(&self) -> Result<(), Vec<FileProblem>> {
        Self::from_text(&self.path, self.document.text.clone()).map(|_| ())
    }

    /// Fails unless the list is a fresh plan: it has tasks, and none has been started.
    pub fn check_untouched(&self) -> Result<(), Vec<FileProblem>> {
        // Everyone who gets the project reads the plan, and a link leads out of it.
        if fs::symlink_metadata(&self.path).is_ok_and(|there| there.is_symlink()) {
            return Err(vec![build_file_problem(
                &self.path,
                None,
                "is a link",
                "write a file in its place",
            )]);
        }
        let TaskDocument { text, list, places, edits: _ } = &self.document;
        let problems = if list.tasks.is_empty() {
            vec![FoundProblem {
                offset: places.list.start,
                at: self.dialect().tasks_key().to_owned(),
                message: "holds no task".to_owned(),
                remedy: Some("add at least one".to_owned()),
            }]
        } else {
            task_reader::locate_task_problems(text, places, &find_begun_tasks(list))
        };
        if problems.is_empty() { Ok(()) } else { Err(locate_problems(&self.path, text, problems)) }
    }

    /// Fails if the list lacks one of these commands, which check every task.
    pub fn check_keeps_commands(&self, commands: &[String]) -> Result<(), Vec<FileProblem>> {
        let TaskDocument { text, list, places, edits: _ } = &self.document;
        let missing = commands.iter().filter(|it| !list.verify_commands.contains(it));
        let problems: Vec<FoundProblem> = missing
            .map(|command| FoundProblem {
                offset: places.list.start,
                at: self.dialect().key_for(TaskFileField::VerifyCommands).to_owned(),
                message: format!("lacks `{command}`, which the user chose"),
                remedy: Some("add it again".to_owned()),
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(locate_problems(&self.path, text, problems)) }
    }

    /// Fails if open tasks name missing skills; `has` returns whether the project has a skill.
    pub fn check_skills(&self, has: impl FnMut(&str) -> bool) -> Result<(), Vec<FileProblem>> {
        let TaskDocument { text, list, places, edits: _ } = &self.document;
        let problems =
            task_reader::locate_task_problems(text, places, &find_skill_problems(list, has));
        if problems.is_empty() { Ok(()) } else { Err(locate_problems(&self.path, text, problems)) }
    }

    /// Returns whether the file on disk still has the content that was last read or written. That
    /// costs a fraction of parsing it.
    pub fn is_current(&mut self) -> bool {
        let expect = self.before.as_ref().unwrap_or(&self.document.text);
        let Ok((file, signs)) = open_file(&self.path) else { return false };
        let is_same = has_content(file, expect.as_bytes());
        if is_same {
            self.stamp = Some(signs);
        }
        is_same
    }

    /// Returns whether the file on disk has the same metadata as when it was last read or written.
    /// The cost does not depend on the file's size. This detects the changes of a person, but not a
    /// change that is hidden on purpose.
    pub fn looks_current(&self) -> bool {
        open_file(&self.path).is_ok_and(|(_, signs)| self.stamp == Some(signs))
    }

    /// Replaces the file, if there are changes. Its old content is kept as `backup`.
    ///
    /// A link stays a link: its target is replaced.
    pub fn write(&mut self, backup: &Path) -> Result<(), WriteError> {
        if self.before.is_none() {
            return Ok(());
        }
        if !self.is_current() {
            return Err(WriteError::Changed(self.path.clone()));
        }
        self.replace_file(backup)
    }

    /// Applies changes and replaces the file, if its metadata is unchanged. The old content is kept
    /// as `backup`; the new file is first written to the directory of `backup`.
    pub fn change_on_disk(
        mut self,
        changes: &[TaskChange],
        backup: &Path,
    ) -> Result<Self, WriteError> {
        let edits = self.document.edits;
        self.document.apply_changes(changes)?;
        if self.document.edits == edits {
            return Ok(self);
        }
        if !self.looks_current() {
            return Err(WriteError::Changed(self.path));
        }
        self.replace_file(backup)?;
        Ok(self)
    }

    fn replace_file(&mut self, backup: &Path) -> Result<(), WriteError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| WriteError::Io { path, source }
        };
        let real = self.path.canonicalize().map_err(failed(&self.path))?;
        let permissions = fs::metadata(&real).map_err(failed(&real))?.permissions();
        let scratch = backup.parent().unwrap_or(Path::new("."));
        // The old file itself becomes the backup, if both are on one file system.
        let kept = atomic_file::link_in_place(&real, backup).or_else(|_| {
            let old = fs::read(&real)?;
            atomic_file::replace_via_scratch(scratch, backup, &old, permissions.clone())
                .map(|()| None)
        });
        let spare = kept.map_err(failed(backup))?;
        let text = self.document.text.as_bytes();
        match spare {
            Some(spare) => atomic_file::replace_with_spare(spare, &real, text, permissions),
            None => atomic_file::replace_via_scratch(scratch, &real, text, permissions),
        }
        .map_err(failed(&real))?;
        self.before = None;
        self.stamp = open_file(&self.path).ok().map(|(_, signs)| signs);
        Ok(())
    }
}

fn read_text(path: &Path) -> Result<(String, FileStamp), Vec<FileProblem>> {
    let (bytes, signs) = read_bytes(path)
        .map_err(|(message, remedy)| vec![build_file_problem(path, None, message, remedy)])?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        let position = json_text::find_positions(&text, [text.len()]).first().copied();
        vec![build_file_problem(path, position, "is not UTF-8", "save it as UTF-8")]
    })?;
    Ok((text, signs))
}

/// Returns the range of the document in a JSON text.
fn find_document(path: &Path, text: &str) -> Result<Range<usize>, Vec<FileProblem>> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    if text[start..].trim().is_empty() {
        return Err(vec![build_file_problem(
            path,
            None,
            "is empty",
            "write `{\"tasks\": []}` for no tasks",
        )]);
    }
    json_text::find_root(text, start).map_err(|error| {
        vec![FileProblem {
            file: path.into(),
            position: Some(error.position),
            at: String::new(),
            message: format!("not valid JSON: {}", error.message),
            remedy: error.hint.map(Into::into),
        }]
    })
}

/// Returns why a file cannot be read, and what to do.
fn explain_io_error(error: &io::Error) -> (String, &'static str) {
    if error.kind() == io::ErrorKind::NotFound {
        ("there is no such file".to_owned(), "is the name right?")
    } else {
        (format!("cannot be read: {error}"), "check its permissions")
    }
}

/// Opens a regular file and reads its metadata. Does not wait for a pipe.
fn open_file(path: &Path) -> Result<(File, FileStamp), (String, &'static str)> {
    let cannot = |error: io::Error| explain_io_error(&error);
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    if !about.is_file() {
        return Err(("is not a file".into(), "name the task file itself"));
    }
    Ok((file, FileStamp::from_metadata(&about)))
}

/// Returns whether a file has exactly these bytes. Reads it in pieces, because a large list is
/// compared in every iteration.
fn has_content(mut file: File, mut expect: &[u8]) -> bool {
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

/// Reads a regular file, up to `LARGEST`.
fn read_bytes(path: &Path) -> Result<(Vec<u8>, FileStamp), (String, &'static str)> {
    let mut bytes = Vec::new();
    let (file, signs) = open_file(path)?;
    let mut bounded = File::take(file, LARGEST + 1);
    bounded.read_to_end(&mut bytes).map_err(|error| explain_io_error(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err((format!("is larger than {} MiB", LARGEST >> 20), "split the list"));
    }
    Ok((bytes, signs))
}

fn build_file_problem(
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

/// Adds lines and columns to problems, which must be sorted by offset.
fn locate_problems(path: &Path, text: &str, found: Vec<FoundProblem>) -> Vec<FileProblem> {
    let positions = json_text::find_positions(text, found.iter().map(|found| found.offset));
    let with_position = found.into_iter().zip(positions);
    with_position
        .map(|(FoundProblem { at, message, remedy, .. }, position)| FileProblem {
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
