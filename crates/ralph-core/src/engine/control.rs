//! Control requests: reads them, pauses the run, and skips a task.
//!
//! A request is recorded before it is removed from the inbox, so a crash loses none. It
//! is recognized by its id, so none is applied twice. Not here: when a request takes
//! effect, which `choose` decides.

use super::{Engine, EngineError, Trouble, ViewKind};
use crate::choose::LeftWork;
use crate::control::{self, Asked, Found, Pause, SkipAsked, Wish};
use crate::event::{Checkpoint, Event};
use crate::ids::IterationNumber;
use crate::ports::{Activity, Mark, ShelveOrder};
use crate::recipe::Work;
use crate::shelf;
use crate::task::Task;
use crate::units::Timestamp;

/// Reason for refusing a request that arrived before the run was resumed.
const TOO_LATE: &str = "the run ended and was resumed since";

impl Engine<'_> {
    /// Records the control requests that arrived since the last poll.
    pub(super) fn hear_wishes(&mut self) -> Result<(), EngineError> {
        self.hear(|_| None)
    }

    /// Records requests that arrived before the run was resumed. Pause, resume and stop
    /// are refused, because resuming overrides them.
    pub(super) fn hear_old_wishes(&mut self) -> Result<(), EngineError> {
        self.hear(|request| match request {
            Wish::Pause | Wish::GoOn | Wish::Stop => Some(TOO_LATE.to_owned()),
            Wish::Skip { .. } | Wish::Note { .. } => None,
        })
    }

    fn hear(&mut self, refuse: impl Fn(&Wish) -> Option<String>) -> Result<(), EngineError> {
        for found in self.ports.clock.wishes() {
            let asked = match found {
                Found::Wish(asked) => asked,
                Found::Junk { name, why } => {
                    self.warn(format!(
                        "`{name}` in the run's inbox is not a valid control request: {why}"
                    ))?;
                    continue;
                }
            };
            if self.is_too_early(&asked) {
                continue;
            }
            let id = asked.id.clone();
            if !self.state.control.has_heard(&id) {
                let refused =
                    refuse(&asked.wish).or_else(|| control::refusal(&self.state, &asked.wish));
                self.record(Event::Wished { asked, refused })?;
            }
            self.ports.clock.done_with(&id);
        }
        Ok(())
    }

    /// The tasks are known only after the list was read.
    fn is_too_early(&self, asked: &Asked) -> bool {
        match (&asked.wish, &self.state.recipe.work, &self.state.board) {
            (Wish::Skip { .. }, Work::Tasks(_), None) => true,
            (_, _, _) => false,
        }
    }

    /// Waits until a control request resumes or stops the run.
    pub(super) fn rest(&mut self) -> Result<(), Trouble> {
        let since = match self.state.control.pause {
            Pause::Since { at } => at,
            Pause::No | Pause::Asked { .. } => {
                self.record(Event::Paused)?;
                self.publish(ViewKind::State)?;
                self.ports.clock.moment().now
            }
        };
        let ui = &mut *self.ports.ui;
        self.ports.clock.wait(Timestamp(i64::MAX), &mut |_| ui.doing(&Activity::Paused { since }));
        Ok(())
    }

    /// Skips a task, after saving the work of its attempts to a failure branch.
    pub(super) fn skip(&mut self, skip: SkipAsked, left: LeftWork) -> Result<(), Trouble> {
        let SkipAsked { task, at, by } = skip;
        let known_task =
            self.state.board.as_ref().and_then(|tasks| tasks.list.task(&task)).cloned();
        let saved = match (left, known_task) {
            (LeftWork::Some, Some(known_task)) => {
                let iteration = IterationNumber(self.state.iterations);
                let mark =
                    Mark { run: self.state.run.clone(), iteration, task: Some(task.clone()) };
                let order = self.shelving(mark, &known_task, by.as_deref(), at);
                Some(self.ports.vcs.shelve(&order)?)
            }
            (LeftWork::Some | LeftWork::None, _) => None,
        };
        let (branch, commit) = saved.map(|it| (it.branch, it.commit)).unzip();
        self.record(Event::TaskSkipped { task, by, branch, commit })?;
        Ok(())
    }

    /// Returns the order to save the work on a skipped task to a failure branch.
    pub(super) fn shelving(
        &self,
        mark: Mark,
        task: &Task,
        by: Option<&str>,
        at: Timestamp,
    ) -> ShelveOrder {
        let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
        let title = task.title.lines().next().unwrap_or_default();
        ShelveOrder {
            mark,
            checkpoint: self.state.base.clone().unwrap_or(Checkpoint::None),
            branch: shelf::failure_branch(&task.id, &at.stamp()),
            message: format!("{} skipped: {title}\n\nSkipped{by} while it was worked on.", task.id),
            files: Vec::new(),
        }
    }
}
