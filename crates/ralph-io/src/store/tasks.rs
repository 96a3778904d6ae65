//! The task file as a run uses it, and the views of the work on tasks.
//!
//! The file belongs to the user and is in the work tree, where agents can write it: ralph keeps a
//! copy with the run, and restores a damaged or deleted file from there. Not here: the format of
//! task files.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use ralph_core::ports::{ListOrder, StoreError, TasksError};
use ralph_model::amendment::AmendmentRecord;
use ralph_model::ids::IterationNumber;
use ralph_model::task::{TaskChange, TaskList, TasksFound};
use ralph_model::text;
use ralph_model::units::Timestamp;
use rustix::fs::OFlags;

use super::files::{RunStore, open_for_appending};
use super::layout::RunDir;
use super::proposals;
use crate::formats::TaskFile;
use crate::{atomic_file, bounded_read};

/// How much of a file is read for a prompt, at most, before it is cut to size.
const LARGEST_READ: u64 = 1024 * 1024;

/// Where the content of the task file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskFileOrigin {
    /// ralph wrote what it knew.
    Ralph,
    /// Another program wrote it, and ralph knows nothing beyond it.
    Others,
    /// It was edited, and counts as edited until ralph has written it.
    Edited,
}

impl RunStore {
    pub(super) fn read_task_file(&mut self, path: &Path) -> Result<TaskList, TasksError> {
        let file = self.open_task_file(path)?;
        let list = file.list().clone();
        self.remember_task_file(file);
        Ok(list)
    }

    fn open_task_file(&self, path: &Path) -> Result<TaskFile, TasksError> {
        let place = self.layout.project().join(path);
        bounded_read::check_inside_project(self.layout.project(), path)
            .map_err(|error| TasksError { message: format!("{}: {error}", place.display()) })?;
        TaskFile::read(&place).map_err(|problems| TasksError {
            message: problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        })
    }

    /// Compares the file with the known list. A file with the bytes that ralph last read or wrote
    /// is not parsed again.
    pub(super) fn compare_task_file(&mut self, path: &Path, known: &TaskList) -> TasksFound {
        if self.origin != TaskFileOrigin::Edited && self.is_unchanged() {
            return TasksFound::Same;
        }
        let list = match self.open_task_file(path) {
            Ok(file) => {
                let list = file.list().clone();
                // A file with other terms than the run's must not be restored later.
                if list.list_terms() == known.list_terms() {
                    self.remember_task_file(file);
                }
                list
            }
            // A list with contradictions still shows what the user or the agent intended.
            Err(TasksError { message }) => {
                let project = self.layout.project();
                let is_here = bounded_read::check_inside_project(project, path).is_ok();
                let place = Some(project.join(path)).filter(|_| is_here);
                match place.and_then(|place| TaskFile::read_despite_faults(&place).0) {
                    Some(list) => list,
                    None => return TasksFound::Broken { message },
                }
            }
        };
        if list == *known {
            return TasksFound::Same;
        }
        self.origin = TaskFileOrigin::Edited;
        TasksFound::Edited(Box::new(list))
    }

    pub(super) fn write_task_file(
        &mut self,
        path: &Path,
        order: &ListOrder<'_>,
    ) -> Result<(), StoreError> {
        let refused = |error: &dyn std::error::Error| StoreError {
            message: match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        };
        let is_here = bounded_read::check_inside_project(self.layout.project(), path).is_ok();
        // Edits that an agent hides from this check are overwritten.
        if !is_here || !self.is_unchanged() {
            if self.open_task_file(path).is_err() {
                let place = self.layout.project().join(path);
                self.restore_task_file(&place).map_err(|error| refused(&error))?;
            }
            let reopened = |store: &Self| {
                store.open_task_file(path).map_err(|TasksError { message }| StoreError { message })
            };
            let mut file = reopened(self)?;
            if file.list().list_terms() != order.list.list_terms() {
                self.restore_task_file(&self.layout.project().join(path))
                    .map_err(|error| refused(&error))?;
                file = reopened(self)?;
            }
            (self.tasks, self.origin) = (Some(file), TaskFileOrigin::Others);
        }
        // If it cannot be written, it is read again the next time.
        let Some(file) = self.tasks.take() else { return Ok(()) };
        let (changes, is_kept) = match self.origin {
            TaskFileOrigin::Ralph => {
                let changes = order.changes_since(file.list());
                debug_assert_eq!(changes, order.all_changes(file.list()), "others differ too");
                let is_kept = changes.iter().all(is_in_journal);
                (changes, is_kept)
            }
            TaskFileOrigin::Others | TaskFileOrigin::Edited => {
                (order.all_changes(file.list()), false)
            }
        };
        let backup = self.layout.prepare_backup_path(path).map_err(|error| refused(&error))?;
        self.origin = TaskFileOrigin::Others;
        let file = file.change_on_disk(&changes, &backup).map_err(|error| refused(&error))?;
        // A copy that could not be saved is saved with the next change.
        if is_kept || self.save_copy(&file).is_ok() {
            self.origin = TaskFileOrigin::Ralph;
        }
        self.tasks = Some(file);
        Ok(())
    }

    /// Returns whether the file is what ralph last read or wrote.
    fn is_unchanged(&mut self) -> bool {
        self.tasks.as_mut().is_some_and(TaskFile::is_current)
    }

    fn restore_task_file(&self, place: &Path) -> io::Result<()> {
        let aside = self.prepare_view_path(&[], DAMAGED_FILE).ok();
        restore_from_copy(self.layout.project(), place, &self.files, aside.as_deref())
    }

    /// Remembers the file as it is now, also for a resume after a crash.
    fn remember_task_file(&mut self, file: TaskFile) {
        // Without this copy, only a file that is damaged later cannot be restored.
        let _ = self.save_copy(&file);
        (self.tasks, self.origin) = (Some(file), TaskFileOrigin::Others);
    }

    fn save_copy(&self, file: &TaskFile) -> io::Result<()> {
        atomic_file::replace_file(&self.files.tasks_path(), file.text().as_bytes())
    }

    pub(super) fn publish_attempts(&self, record: Option<&str>) -> Result<(), StoreError> {
        let path = self.prepare_view_path(&[], "state.md")?;
        let done = match record {
            Some(record) => atomic_file::replace_file(&path, record.as_bytes()),
            None => atomic_file::remove_if_exists(&path),
        };
        done.map_err(|error| StoreError {
            message: format!("cannot write `{}`: {error}", path.display()),
        })
    }

    pub(super) fn log_amendments(
        &self,
        iteration: IterationNumber,
        at: Timestamp,
        log: &[AmendmentRecord],
    ) -> Result<(), StoreError> {
        let path = self.prepare_view_path(&["logs"], "amendments.log")?;
        let mut lines = String::new();
        for amended in log {
            let fate = amended.describe_result();
            let (at, proposal, reason) = (at.to_utc(), &amended.proposal, &amended.reason);
            let line = format!("{at} iteration {iteration}: {proposal} ({reason}): {fate}");
            // One amendment per line, whatever text an agent puts into it.
            lines.push_str(&line.replace(['\n', '\r'], " "));
            lines.push('\n');
        }
        let written =
            open_for_appending(&path).map_err(|error| error.to_string()).and_then(|mut file| {
                file.write_all(lines.as_bytes()).map_err(|error| error.to_string())
            });
        written.map_err(|error| StoreError {
            message: format!("cannot write `{}`: {error}", path.display()),
        })?;
        match &self.tasks {
            Some(tasks) => {
                proposals::add_proposals(self.layout.state(), tasks.path(), iteration, log)
            }
            None => Ok(()),
        }
    }
}

/// Returns whether a change of a task is reapplied when the run's copy of the file is used: task
/// states are in the journal, and only the journal counts for them. So such changes, which every
/// iteration makes, need no new copy of a long list.
fn is_in_journal(change: &TaskChange) -> bool {
    match change {
        TaskChange::SetStatus { .. }
        | TaskChange::SetAttempts { .. }
        | TaskChange::SetReview { .. }
        | TaskChange::SetNotes { .. } => true,
        TaskChange::Add { .. }
        | TaskChange::Insert { .. }
        | TaskChange::Modify { .. }
        | TaskChange::Remove { .. } => false,
    }
}

/// Where a damaged task file is saved.
const DAMAGED_FILE: &str = "damaged-tasks.json";

/// How much of it is saved, at most.
const LARGEST_DAMAGED: u64 = 64 * 1024 * 1024;

/// Restores the last good copy of the file, except for task states. Saves the current content.
fn restore_from_copy(
    project: &Path,
    place: &Path,
    run: &RunDir,
    aside: Option<&Path>,
) -> io::Result<()> {
    let good = fs::read_to_string(run.tasks_path())?;
    // A link stays a link, unless it leads out of the project.
    if bounded_read::check_inside_project(project, place).is_err() && place.is_symlink() {
        fs::remove_file(place)?;
    }
    bounded_read::check_inside_project(project, place)?;
    let place = &place.canonicalize().unwrap_or_else(|_| place.to_owned());
    // An agent may have left anything there; opening a pipe would wait forever.
    let there = fs::symlink_metadata(place);
    match &there {
        Ok(there) if there.is_file() => {
            if let (Ok(bad), Some(aside)) = (bounded_read::read_file(place, LARGEST_DAMAGED), aside)
            {
                // Saving is optional; the run does not depend on it.
                let _ = atomic_file::replace_file(aside, &bad);
            }
        }
        Ok(there) if there.is_dir() => fs::remove_dir(place)?,
        Ok(_) => fs::remove_file(place)?,
        Err(_) => {}
    }
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory)?;
    }
    let permissions = match there {
        Ok(there) if there.is_file() => there.permissions(),
        Ok(_) | Err(_) => fs::Permissions::from_mode(0o644),
    };
    match aside.and_then(Path::parent) {
        Some(scratch) => {
            atomic_file::replace_via_scratch(scratch, place, good.as_bytes(), permissions)
        }
        None => atomic_file::replace_with(place, good.as_bytes(), permissions),
    }
}

/// Reads a file of the project as an excerpt, for a prompt. None if it does not exist, is no text
/// or is outside the project.
pub fn read_project_excerpt(project: &Path, path: &str, chars: usize) -> Option<String> {
    let project = project.canonicalize().ok()?;
    let real = project.join(path).canonicalize().ok()?;
    // A link may lead anywhere, and a prompt leaves the machine.
    if !real.starts_with(&project) {
        return None;
    }
    read_text(&real).map(|text| text::excerpt_text(&text, chars))
}

/// Reads the beginning of a regular text file. Does not wait for a pipe.
fn read_text(path: &Path) -> Option<String> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_READ).read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return None;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
