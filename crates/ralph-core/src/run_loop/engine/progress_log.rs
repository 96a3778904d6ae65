//! The progress log next to the task file: writes the entry of an iteration.

use ralph_model::recipe::{PROGRESS, TaskWork};
use ralph_model::task::ListOwner;

use super::{Engine, EngineError};
use crate::asking::request::SKIPPED;
use crate::ports::ProjectText;
use crate::run_loop::settle::Settled;
use crate::tasks::progress;

impl Engine<'_> {
    /// Adds the entry of a landing iteration to the progress log, if there is a log.
    /// Removes it again if the landing was refused.
    pub(super) fn update_progress_log(
        &mut self,
        work: &TaskWork,
        settled: &Settled,
    ) -> Result<(), EngineError> {
        let Some((current, task)) = self.state.current.as_ref().zip(self.current_task()) else {
            return Ok(());
        };
        let (ListOwner::Ralph, Some(entry)) =
            (work.keeper, progress::format_entry(&self.state.run, task, current))
        else {
            return Ok(());
        };
        let (number, handoff) = (current.number, current.judgement());
        let handoff = handoff.and_then(|judgement| judgement.handoff.clone());
        let wanted = ProjectText::Companion { tasks: work.file.clone(), name: PROGRESS };
        let log = match self.ports.store.read_text(&wanted) {
            Ok(Some(log)) => log,
            Ok(None) => return Ok(()),
            Err(error) => return self.warn_once(format!("{}; {SKIPPED}", error.message)),
        };
        let updated = match (&settled.attempt, handoff) {
            (Some(_), _) => progress::remove_entry(&log, &entry),
            (None, handoff) => {
                let log = handoff.map_or(log.clone(), |it| progress::with_patterns(&log, &it));
                progress::with_entry(&log, &self.state.run, number, &entry)
            }
        };
        if updated != log {
            let written = self.ports.store.write_companion_file(&work.file, PROGRESS, &updated);
            self.warn_on_error(written)?;
        }
        Ok(())
    }
}
