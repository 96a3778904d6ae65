//! The task list: reading and writing its file, taking over edits, and putting work aside.

use super::{Engine, EngineError, Trouble};
use crate::asking::AskingEnd;
use crate::attempt::{self, Record};
use crate::choose;
use crate::claim::Claim;
use crate::edits::{self, Merged, Open};
use crate::event::{Checkpoint, Event, Landed};
use crate::ids::IterationNumber;
use crate::judge::Verdict;
use crate::ports::{ListOrder, Look, Moment, ShelveOrder, TasksFound, View};
use crate::recipe::TaskWork;
use crate::rules::Turn;
use crate::run::{RunState, Stands};
use crate::settle::{self, FailedAttempt};
use crate::shelf;
use crate::task::{TaskList, TaskStatus};

/// The file that explains a shelved branch.
pub(super) const DIAGNOSTICS: &str = "ralph-failure.md";

impl Engine<'_> {
    /// Reads the task list.
    pub(super) fn read_tasks(&mut self) -> Result<(), Trouble> {
        let Some(work) = self.work() else { return Ok(()) };
        let mut list = Box::new(self.ports.store.read_tasks(&work.file)?);
        let mut is_changed = false;
        for task in &mut list.tasks {
            if task.status == TaskStatus::Failed && work.retry.includes(&task.id) {
                (task.status, task.attempts, is_changed) = (TaskStatus::Pending, 0, true);
            }
        }
        self.record(Event::TasksRead { list, remarks: Vec::new() })?;
        if is_changed {
            self.write_tasks()?;
        }
        Ok(())
    }

    /// Makes the task file say what the list says. If that fails, the list is still in the
    /// journal, and the run goes on.
    pub(super) fn write_tasks(&mut self) -> Result<(), EngineError> {
        if let (Some(work), Some(board)) = (self.work(), &self.state.board) {
            let order = ListOrder { list: &board.list, changes: &[], touched: &board.touched };
            let written = self.ports.store.write_tasks(&work.file, &order);
            self.told(written)?;
        }
        self.record(Event::TasksWritten)
    }

    /// Makes the task file say what the list will say once this landing is done.
    pub(super) fn write_list(&mut self) -> Result<(), EngineError> {
        let settled = self.current(|current| choose::settled(&self.state, current)).flatten();
        if let (Some(work), Some(board), Some(settled)) = (self.work(), &self.state.board, settled)
        {
            let (list, changes) = (&board.list, &settled.changes[..]);
            let order = ListOrder { list, changes, touched: &board.touched };
            let written = self.ports.store.write_tasks(&work.file, &order);
            self.told(written)?;
            self.note_progress(&work, &settled)?;
        }
        self.record(Event::Landed { landed: Landed::ListWritten })
    }

    /// Looks whether somebody edited the task file, and takes over what may be taken over. Returns
    /// whether that was anything: a file that cannot be put right is no reason to look again.
    pub(super) fn tasks_were_edited(&mut self, look: Look) -> Result<bool, EngineError> {
        let (Some(work), Some(board)) = (self.work(), &self.state.board) else {
            return Ok(false);
        };
        let current = self.state.current.as_ref().and_then(|current| current.task.as_ref());
        let found = self.ports.store.look_at_tasks(&work.file, &board.list, look);
        self.look = Look::Outside;
        match found {
            TasksFound::Same => Ok(false),
            TasksFound::Edited(found) => {
                let merged = edits::merge(&board.list, &found, current);
                self.record_edits(merged)
            }
            TasksFound::Broken { message } => {
                let remark = format!("the task list was damaged and is written anew: {message}");
                self.record_list(board.list.clone(), vec![remark])
            }
        }
    }

    /// Returns whether the task file says what the list says, or what was committed of it already.
    pub(super) fn is_listed(&mut self) -> bool {
        let (Some(work), Some(board)) = (self.work(), &self.state.board) else { return false };
        match self.ports.store.look_at_tasks(&work.file, &board.list, Look::Content) {
            TasksFound::Same => true,
            // Who goes on after a death does not remember to have written it.
            TasksFound::Edited(found) => self.committed_ahead().as_ref() == Some(&*found),
            TasksFound::Broken { .. } => false,
        }
    }

    /// Returns the list as it was committed and is not yet known, as the iteration is not over: it is in
    /// the file by ralph's own hand.
    fn committed_ahead(&self) -> Option<TaskList> {
        let ahead = self.state.list_ahead().filter(|ahead| ahead.stands == Stands::Yes);
        ahead.map(|ahead| ahead.list)
    }

    /// Returns whether nobody but a person can have edited the task file: the run had ended, and left it
    /// right.
    pub(super) fn edits_are_a_persons(&self) -> bool {
        let RunState { outcome, left, .. } = &self.state;
        outcome.is_some() && left.as_ref().is_some_and(|left| left.is_listed)
    }

    /// Takes over what a person made of the task list while the run stood still.
    pub(super) fn take_over_edits(&mut self) -> Result<(), EngineError> {
        let (Some(work), Some(board)) = (self.work(), &self.state.board) else { return Ok(()) };
        let open = self.state.current.as_ref().and_then(|current| {
            let is_answered = matches!(current.work.end, Some(AskingEnd::Answered(_)));
            let open = if is_answered { Open::Answered } else { Open::ToAsk };
            current.task.as_ref().map(open)
        });
        // What an agent that keeps the list has done to it is known already, and lands later.
        if self.state.recipe.is_kept_by_agent() && matches!(open, Some(Open::Answered(_))) {
            return Ok(());
        }
        match self.ports.store.look_at_tasks(&work.file, &board.list, Look::Content) {
            TasksFound::Edited(mut found) => {
                let ahead = self.committed_ahead();
                if ahead.as_ref() == Some(&*found) {
                    return Ok(());
                }
                let current = self.state.current.as_ref().and_then(|it| it.task.as_ref());
                for theirs in found.tasks.iter_mut().filter(|it| Some(&it.id) == current) {
                    let settled = ahead.as_ref().and_then(|ahead| ahead.task(&theirs.id));
                    if let (Some(ours), true) =
                        (board.list.task(&theirs.id), settled == Some(theirs))
                    {
                        theirs.clone_from(ours);
                    }
                }
                let merged = edits::of_person(&board.list, &found, open);
                self.record_edits(merged).map(drop)
            }
            // What cannot be read is told with the next look.
            TasksFound::Same | TasksFound::Broken { .. } => Ok(()),
        }
    }

    /// Records the list that an edit comes to, and writes it. Returns whether it is another one.
    fn record_edits(
        &mut self,
        Merged { list, taken, put_back }: Merged,
    ) -> Result<bool, EngineError> {
        let taken = taken.iter().map(|it| format!("the task list was edited: {it}"));
        let back = put_back.iter();
        let back = back.map(|it| format!("the task list was edited, and this was put back: {it}"));
        self.record_list(list, taken.chain(back).collect())
    }

    fn record_list(&mut self, list: TaskList, remarks: Vec<String>) -> Result<bool, EngineError> {
        let has_changed = self.state.board.as_ref().is_none_or(|board| board.list != list);
        self.record(Event::TasksRead { list: Box::new(list), remarks })?;
        self.write_tasks()?;
        Ok(has_changed)
    }

    /// Reads what the agent made of the task list, and refuses what its role may not do. Done
    /// once: what ralph writes later is no claim.
    pub(super) fn hear_claim(&mut self) -> Result<(), EngineError> {
        let (Some(work), Some(board), Some(current)) =
            (self.work(), &self.state.board, &self.state.current)
        else {
            return Ok(());
        };
        if current.claim.is_some() {
            return Ok(());
        }
        let found = self.ports.store.look_at_tasks(&work.file, &board.list, Look::Content);
        let turn = Turn { role: current.role, task: current.task.clone(), review: work.review };
        self.look = Look::Outside;
        let claim = Claim::read(&board.list, found, &turn);
        self.record(Event::Claimed { claim })
    }

    /// Leaves the task file as the run knows it. What an agent did to it in an iteration that was
    /// cut short must not pass for a fact when the next run reads it, and neither must what a
    /// landing wrote into it that did not get as far as its commit.
    pub(super) fn leave_list_right(&mut self) -> Result<(), EngineError> {
        let is_kept_by_agent = self.state.recipe.is_kept_by_agent();
        let is_unheard = self.current(|current| {
            matches!(current.work.end, Some(AskingEnd::Answered(_))) && current.judgement.is_none()
        });
        if is_kept_by_agent && is_unheard == Some(true) {
            self.hear_claim()?;
        }
        let Some(work) = self.work() else { return Ok(()) };
        if let Some(ahead) = self.state.list_ahead()
            && self.ports.store.look_at_tasks(&work.file, &ahead.list, Look::Content)
                == TasksFound::Same
        {
            return match ahead.stands {
                Stands::Yes => Ok(()),
                Stands::No => self.put_list_back(),
            };
        }
        if !is_kept_by_agent {
            self.tasks_were_edited(Look::Content)?;
        } else if let Some(board) = &self.state.board {
            match self.ports.store.look_at_tasks(&work.file, &board.list, Look::Content) {
                TasksFound::Same => {}
                TasksFound::Edited(_) | TasksFound::Broken { .. } => self.put_list_back()?,
            }
        }
        if choose::is_file_behind(&self.state) { self.write_tasks() } else { Ok(()) }
    }

    /// Makes the task file say what the list says, whatever is in it.
    fn put_list_back(&mut self) -> Result<(), EngineError> {
        let Some(board) = &self.state.board else { return Ok(()) };
        let list = Box::new(board.list.clone());
        self.record(Event::TasksRead { list, remarks: Vec::new() })?;
        self.write_tasks()
    }

    /// Puts the work on a branch of its own, with an account of why it failed.
    pub(super) fn shelve(&mut self, moment: Moment) -> Result<(), Trouble> {
        let (Some(work), Some(task)) = (self.work(), self.task().cloned()) else { return Ok(()) };
        let started = self.current(|current| current.started).unwrap_or(moment.now);
        let skipped =
            self.current(|current| current.judgement.as_ref().map(|it| it.verdict.clone()));
        if let Some(Some(Verdict::Skipped { by })) = skipped {
            let order = self.shelving(self.mark(), &task, by.as_deref(), started);
            return self.put_on_shelf(&order);
        }
        let settled = self.current(|current| choose::settled(&self.state, current)).flatten();
        let Some(failed) = settled.and_then(|settled| settled.attempt) else { return Ok(()) };
        let limit = self
            .state
            .board
            .as_ref()
            .map_or(1, |board| settle::limit(&work, &board.list, &task.id));
        let mut log = self.log();
        let FailedAttempt { attempt, outputs, next, gives_up, .. } = failed;
        let message = format!(
            "{} failed: {}\n\nIterations: {}/{limit}\nLast gate: {}\nError hash: {}\n\nSee {DIAGNOSTICS} for the full history.",
            task.id,
            task.title.lines().next().unwrap_or_default(),
            log.failed + 1,
            attempt.gate,
            attempt.hash.0,
        );
        log.add(attempt, outputs, next);
        let record = attempt::record(Record { task: &task.id, limit, log: &log, at: moment.now });
        let why = gives_up.map(|why| why.words()).unwrap_or_default();
        let account =
            format!("# {} — {}\n\n{why}\n\n{}", task.id, task.title, record.unwrap_or_default());
        let order = ShelveOrder {
            mark: self.mark(),
            checkpoint: self.state.base.clone().unwrap_or(Checkpoint::None),
            branch: shelf::failure_branch(&task.id, &started.stamp()),
            message,
            files: vec![(DIAGNOSTICS.to_owned(), account)],
        };
        self.put_on_shelf(&order)
    }

    fn put_on_shelf(&mut self, order: &ShelveOrder) -> Result<(), Trouble> {
        let shelved = self.ports.vcs.shelve(order)?;
        let landed = Landed::Shelved { branch: shelved.branch, commit: shelved.commit };
        self.record(Event::Landed { landed })?;
        Ok(())
    }

    /// Writes down the record of the attempts at the task that is being worked on.
    pub(super) fn publish_attempts(&mut self, moment: Moment) -> Result<(), EngineError> {
        let (Some(work), Some(board)) = (self.work(), &self.state.board) else { return Ok(()) };
        let record = board.logs.iter().next_back().and_then(|(task, log)| {
            let limit = settle::limit(&work, &board.list, task);
            attempt::record(Record { task, limit, log, at: moment.now })
        });
        let published = self.ports.store.publish(&View::Attempts(record.as_deref()));
        self.told(published)
    }

    /// Writes the handoff of the iteration that just ended again, with what became of its work.
    pub(super) fn publish_outcome(
        &mut self,
        iteration: IterationNumber,
    ) -> Result<(), EngineError> {
        let Some(handoff) = self.state.handoffs.last() else { return Ok(()) };
        let published = self.ports.store.publish(&View::Handoff { iteration, handoff });
        self.told(published)
    }

    fn work(&self) -> Option<TaskWork> {
        self.state.recipe.task_work().cloned()
    }
}
