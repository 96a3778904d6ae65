//! The task list: reads and writes its file, takes over edits, and saves failed work.

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

/// The file on a failure branch that explains the failure.
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

    /// Writes the list to the task file. If that fails, the list is still in the journal,
    /// and the run continues.
    pub(super) fn write_tasks(&mut self) -> Result<(), EngineError> {
        if let (Some(work), Some(tasks)) = (self.work(), &self.state.board) {
            let order = ListOrder { list: &tasks.list, changes: &[], touched: &tasks.touched };
            let written = self.ports.store.write_tasks(&work.file, &order);
            self.told(written)?;
        }
        self.record(Event::TasksWritten)
    }

    /// Writes the list to the task file as it will be once this landing is done.
    pub(super) fn write_list(&mut self) -> Result<(), EngineError> {
        let settled = self.current(|current| choose::settled(&self.state, current)).flatten();
        if let (Some(work), Some(tasks), Some(settled)) = (self.work(), &self.state.board, settled)
        {
            let (list, changes) = (&tasks.list, &settled.changes[..]);
            let order = ListOrder { list, changes, touched: &tasks.touched };
            let written = self.ports.store.write_tasks(&work.file, &order);
            self.told(written)?;
            self.note_progress(&work, &settled)?;
        }
        self.record(Event::Landed { landed: Landed::ListWritten })
    }

    /// Checks whether the task file was edited, and takes over the allowed edits. Returns
    /// whether the list changed: a file that cannot be repaired does not count.
    pub(super) fn tasks_were_edited(&mut self, look: Look) -> Result<bool, EngineError> {
        let (Some(work), Some(tasks)) = (self.work(), &self.state.board) else {
            return Ok(false);
        };
        let current = self.state.current.as_ref().and_then(|current| current.task.as_ref());
        let found = self.ports.store.look_at_tasks(&work.file, &tasks.list, look);
        self.look = Look::Outside;
        match found {
            TasksFound::Same => Ok(false),
            TasksFound::Edited(found) => {
                let merged = edits::merge(&tasks.list, &found, current);
                self.record_edits(merged)
            }
            TasksFound::Broken { message } => {
                let remark = format!("the task file was damaged and is rewritten: {message}");
                self.record_list(tasks.list.clone(), vec![remark])
            }
        }
    }

    /// Returns whether the task file matches the list, or the list as already committed.
    pub(super) fn is_listed(&mut self) -> bool {
        let (Some(work), Some(tasks)) = (self.work(), &self.state.board) else { return false };
        match self.ports.store.look_at_tasks(&work.file, &tasks.list, Look::Content) {
            TasksFound::Same => true,
            // After a crash ralph does not know that it wrote the file.
            TasksFound::Edited(found) => self.committed_ahead().as_ref() == Some(&*found),
            TasksFound::Broken { .. } => false,
        }
    }

    /// Returns the list as ralph committed it in the open iteration, before that
    /// iteration is recorded as over.
    fn committed_ahead(&self) -> Option<TaskList> {
        let ahead = self.state.list_ahead().filter(|ahead| ahead.stands == Stands::Yes);
        ahead.map(|ahead| ahead.list)
    }

    /// Returns whether only the user can have edited the task file: the run had ended and
    /// left it in sync.
    pub(super) fn edits_are_a_persons(&self) -> bool {
        let RunState { outcome, left, .. } = &self.state;
        outcome.is_some() && left.as_ref().is_some_and(|left| left.is_listed)
    }

    /// Takes over the user's edits of the task list from while the run was stopped.
    pub(super) fn take_over_edits(&mut self) -> Result<(), EngineError> {
        let (Some(work), Some(tasks)) = (self.work(), &self.state.board) else { return Ok(()) };
        let open = self.state.current.as_ref().and_then(|current| {
            let is_answered = matches!(current.work.end, Some(AskingEnd::Answered(_)));
            let open = if is_answered { Open::Answered } else { Open::ToAsk };
            current.task.as_ref().map(open)
        });
        // Edits by an agent that owns the list are known already, and land later.
        if self.state.recipe.is_kept_by_agent() && matches!(open, Some(Open::Answered(_))) {
            return Ok(());
        }
        match self.ports.store.look_at_tasks(&work.file, &tasks.list, Look::Content) {
            TasksFound::Edited(mut found) => {
                let ahead = self.committed_ahead();
                if ahead.as_ref() == Some(&*found) {
                    return Ok(());
                }
                let current = self.state.current.as_ref().and_then(|it| it.task.as_ref());
                for theirs in found.tasks.iter_mut().filter(|it| Some(&it.id) == current) {
                    let settled = ahead.as_ref().and_then(|ahead| ahead.task(&theirs.id));
                    if let (Some(ours), true) =
                        (tasks.list.task(&theirs.id), settled == Some(theirs))
                    {
                        theirs.clone_from(ours);
                    }
                }
                let merged = edits::of_person(&tasks.list, &found, open);
                self.record_edits(merged).map(drop)
            }
            // A broken file is reported by the next check.
            TasksFound::Same | TasksFound::Broken { .. } => Ok(()),
        }
    }

    /// Records and writes the merged list. Returns whether it differs.
    fn record_edits(
        &mut self,
        Merged { list, taken, put_back: reverted_edits }: Merged,
    ) -> Result<bool, EngineError> {
        let taken = taken.iter().map(|it| format!("the task list was edited: {it}"));
        let reverted = reverted_edits
            .iter()
            .map(|it| format!("the task list was edited, and this was reverted: {it}"));
        self.record_list(list, taken.chain(reverted).collect())
    }

    fn record_list(&mut self, list: TaskList, remarks: Vec<String>) -> Result<bool, EngineError> {
        let has_changed = self.state.board.as_ref().is_none_or(|tasks| tasks.list != list);
        self.record(Event::TasksRead { list: Box::new(list), remarks })?;
        self.write_tasks()?;
        Ok(has_changed)
    }

    /// Reads the agent's edits of the task list, and refuses those that its role may not
    /// make. Done once per iteration: what ralph writes later is not the agent's.
    pub(super) fn hear_claim(&mut self) -> Result<(), EngineError> {
        let (Some(work), Some(tasks), Some(current)) =
            (self.work(), &self.state.board, &self.state.current)
        else {
            return Ok(());
        };
        if current.claim.is_some() {
            return Ok(());
        }
        let found = self.ports.store.look_at_tasks(&work.file, &tasks.list, Look::Content);
        let turn = Turn { role: current.role, task: current.task.clone(), review: work.review };
        self.look = Look::Outside;
        let diff = Claim::read(&tasks.list, found, &turn);
        self.record(Event::Claimed { claim: diff })
    }

    /// Restores the task file to the known list. Edits by an agent in an iteration that
    /// was cut short must not count as facts for the next run, and neither must the list
    /// of a landing that was not committed.
    pub(super) fn leave_list_right(&mut self) -> Result<(), EngineError> {
        let is_kept_by_agent = self.state.recipe.is_kept_by_agent();
        let is_unread = self.current(|current| {
            matches!(current.work.end, Some(AskingEnd::Answered(_))) && current.judgement.is_none()
        });
        if is_kept_by_agent && is_unread == Some(true) {
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
        } else if let Some(tasks) = &self.state.board {
            match self.ports.store.look_at_tasks(&work.file, &tasks.list, Look::Content) {
                TasksFound::Same => {}
                TasksFound::Edited(_) | TasksFound::Broken { .. } => self.put_list_back()?,
            }
        }
        if choose::is_file_behind(&self.state) { self.write_tasks() } else { Ok(()) }
    }

    /// Overwrites the task file with the list, whatever it contains.
    fn put_list_back(&mut self) -> Result<(), EngineError> {
        let Some(tasks) = &self.state.board else { return Ok(()) };
        let list = Box::new(tasks.list.clone());
        self.record(Event::TasksRead { list, remarks: Vec::new() })?;
        self.write_tasks()
    }

    /// Saves the work to a failure branch, with a report of why it failed.
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
            .map_or(1, |tasks| settle::limit(&work, &tasks.list, &task.id));
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
        let report =
            format!("# {} — {}\n\n{why}\n\n{}", task.id, task.title, record.unwrap_or_default());
        let order = ShelveOrder {
            mark: self.mark(),
            checkpoint: self.state.base.clone().unwrap_or(Checkpoint::None),
            branch: shelf::failure_branch(&task.id, &started.stamp()),
            message,
            files: vec![(DIAGNOSTICS.to_owned(), report)],
        };
        self.put_on_shelf(&order)
    }

    fn put_on_shelf(&mut self, order: &ShelveOrder) -> Result<(), Trouble> {
        let saved = self.ports.vcs.shelve(order)?;
        let landed = Landed::Shelved { branch: saved.branch, commit: saved.commit };
        self.record(Event::Landed { landed })?;
        Ok(())
    }

    /// Publishes the record of the attempts at the current task.
    pub(super) fn publish_attempts(&mut self, moment: Moment) -> Result<(), EngineError> {
        let (Some(work), Some(tasks)) = (self.work(), &self.state.board) else { return Ok(()) };
        let record = tasks.logs.iter().next_back().and_then(|(task, log)| {
            let limit = settle::limit(&work, &tasks.list, task);
            attempt::record(Record { task, limit, log, at: moment.now })
        });
        let published = self.ports.store.publish(&View::Attempts(record.as_deref()));
        self.told(published)
    }

    /// Publishes the handoff of the iteration that just ended again, with the outcome of
    /// its work.
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
