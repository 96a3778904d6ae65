//! The file with the current action of an active run, for `status` and `serve`.
//!
//! It is replaced while an agent or a gate is at work and removed between steps. A stale one of a
//! run that was killed means nothing: readers check the lock first. Not here: what an action is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ralph_core::ports::{Activity, Ui};
use ralph_core::reporting::current_action::{ActionTracker, CurrentAction};
use ralph_model::agent_output::AgentEvent;
use ralph_model::event::Recorded;
use ralph_model::run::RunState;

use super::RunDir;
use super::layout::write_json_unsynced;
use crate::mask::Masker;
use crate::{atomic_file, bounded_read, clock};

/// An agent may act a hundred times in a second; a person reads once.
const WRITE_INTERVAL: Duration = Duration::from_millis(400);

/// An action is one line.
const LARGEST: u64 = 64 * 1024;

/// A view that keeps the current action in a file.
#[derive(Debug)]
pub struct ActionFile {
    path: PathBuf,
    masker: Masker,
    tracker: ActionTracker,
    written: Option<(Instant, CurrentAction)>,
}

impl ActionFile {
    /// Returns the view for a run.
    pub fn new(files: &RunDir, masker: Masker) -> Self {
        let (tracker, written) = (ActionTracker::default(), None);
        Self { path: build_path(files.path()), masker, tracker, written }
    }

    /// Writes the action if it has changed. A file that cannot be written is no reason to stop.
    fn write_action(&mut self) {
        let Some(current) = self.tracker.current() else {
            let _ = atomic_file::remove_if_exists(&self.path);
            self.written = None;
            return;
        };
        if self.written.as_ref().is_some_and(|(_, written)| written == current) {
            return;
        }
        let action = self.masker.mask_text(&current.action).into_owned();
        let _ = write_json_unsynced(&self.path, &CurrentAction { action, ..current.clone() });
        self.written = Some((Instant::now(), current.clone()));
    }
}

impl Ui for ActionFile {
    fn show_event(&mut self, recorded: &Recorded, state: &RunState) {
        let had_action = self.tracker.current().is_some();
        self.tracker.apply_event(recorded, state);
        if had_action || self.tracker.current().is_some() {
            self.write_action();
        }
    }

    fn show_agent_event(&mut self, event: &AgentEvent) {
        self.tracker.apply_agent_event(event);
        // The event of each second writes what came too early.
        if self.written.as_ref().is_none_or(|(at, _)| at.elapsed() >= WRITE_INTERVAL) {
            self.write_action();
        }
    }

    fn show_activity(&mut self, activity: &Activity<'_>) {
        if let Activity::Gate(_) = activity {
            self.tracker.apply_activity(activity, clock::now());
            self.write_action();
        }
    }
}

impl Drop for ActionFile {
    fn drop(&mut self) {
        let _ = atomic_file::remove_if_exists(&self.path);
    }
}

/// Returns the current action of a run that is active.
pub fn read_action(run_directory: &Path) -> Option<CurrentAction> {
    let bytes: io::Result<_> = bounded_read::read_file(&build_path(run_directory), LARGEST);
    serde_json::from_slice(&bytes.ok()?).ok()
}

fn build_path(run_directory: &Path) -> PathBuf {
    run_directory.join("action.json")
}
