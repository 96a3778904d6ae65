//! What people ask of a run: hearing it, pausing, and leaving out a task.
//!
//! A wish is recorded before it is removed from where it lay, so a crash loses none, and it is
//! known again by its id, so none is heard twice. Not here: when a wish is heeded, which `choose`
//! decides.

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

/// What is said of a wish that was for a run which is over.
const TOO_LATE: &str = "the run ended before, and was resumed since";

impl Engine<'_> {
    /// Records what was asked since the last look.
    pub(super) fn hear_wishes(&mut self) -> Result<(), EngineError> {
        self.hear(|_| None)
    }

    /// Records what was asked before the run was resumed. Whoever resumes it wants it to go on.
    pub(super) fn hear_old_wishes(&mut self) -> Result<(), EngineError> {
        self.hear(|wish| match wish {
            Wish::Pause | Wish::GoOn | Wish::Stop => Some(TOO_LATE.to_owned()),
            Wish::Skip { .. } | Wish::Note { .. } => None,
        })
    }

    fn hear(&mut self, objection: impl Fn(&Wish) -> Option<String>) -> Result<(), EngineError> {
        for found in self.ports.clock.wishes() {
            let asked = match found {
                Found::Wish(asked) => asked,
                Found::Junk { name, why } => {
                    self.warn(format!("`{name}` in the run's inbox is no wish: {why}"))?;
                    continue;
                }
            };
            if self.is_too_early(&asked) {
                continue;
            }
            let id = asked.id.clone();
            if !self.state.control.has_heard(&id) {
                let refused =
                    objection(&asked.wish).or_else(|| control::refusal(&self.state, &asked.wish));
                self.record(Event::Wished { asked, refused })?;
            }
            self.ports.clock.done_with(&id);
        }
        Ok(())
    }

    /// Which tasks there are is known once the list was read.
    fn is_too_early(&self, asked: &Asked) -> bool {
        match (&asked.wish, &self.state.recipe.work, &self.state.board) {
            (Wish::Skip { .. }, Work::Tasks(_), None) => true,
            (_, _, _) => false,
        }
    }

    /// Waits until somebody says to go on, to stop, or something else.
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

    /// Leaves a task out, after putting aside what attempts at it left.
    pub(super) fn skip(&mut self, skip: SkipAsked, left: LeftWork) -> Result<(), Trouble> {
        let SkipAsked { task, at, by } = skip;
        let known = self.state.board.as_ref().and_then(|board| board.list.task(&task)).cloned();
        let shelved = match (left, known) {
            (LeftWork::Some, Some(known)) => {
                let iteration = IterationNumber(self.state.iterations);
                let mark =
                    Mark { run: self.state.run.clone(), iteration, task: Some(task.clone()) };
                let order = self.shelving(mark, &known, by.as_deref(), at);
                Some(self.ports.vcs.shelve(&order)?)
            }
            (LeftWork::Some | LeftWork::None, _) => None,
        };
        let (branch, commit) = shelved.map(|it| (it.branch, it.commit)).unzip();
        self.record(Event::TaskSkipped { task, by, branch, commit })?;
        Ok(())
    }

    /// Returns the order to put aside the work on a task that a person left out.
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
