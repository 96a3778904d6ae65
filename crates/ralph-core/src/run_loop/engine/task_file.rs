//! The task list: reads and writes its file, takes over edits, and saves failed work.

use ralph_model::attempt::FailedAttempt;
use ralph_model::event::Event;
use ralph_model::ids::IterationNumber;
use ralph_model::judgement::Verdict;
use ralph_model::list_snapshot::EditContext;
use ralph_model::parallel_state::MergeOutcome;
use ralph_model::phase::Iteration;
use ralph_model::recipe::TaskWork;
use ralph_model::run::RunState;
use ralph_model::task::{TaskList, TasksFound};
use ralph_model::worktree::{Checkpoint, Landed};

use super::{Engine, EngineError, StepError};
use crate::landing::failure_branch;
use crate::ports::{FailedWorkLocation, FailureBranchOrder, ListOrder, Moment, View};
use crate::run_loop::choose;
use crate::run_loop::fold::{Durability, build_pending_list};
use crate::run_loop::landing_plan;
use crate::tasks::agent_list_edits::diff_task_file;
use crate::tasks::attempt::{self, AttemptRecord};
use crate::tasks::external_edits::{self, MergedList, OpenTask};

/// The file on a failure branch that explains the failure.
pub(super) const FAILURE_REPORT: &str = "ralph-failure.md";

impl Engine<'_> {
    /// Reads the task list.
    pub(super) fn read_tasks(&mut self) -> Result<(), StepError> {
        let Some(work) = self.task_work() else { return Ok(()) };
        let mut list = Box::new(self.ports.store.read_tasks(&work.file)?);
        let is_changed = work.retry.reset_failed(&mut list);
        self.record_event(Event::TasksRead { list, remarks: Vec::new() })?;
        if is_changed {
            self.write_tasks()?;
        }
        Ok(())
    }

    /// Writes the list to the task file, and records that.
    pub(super) fn write_tasks(&mut self) -> Result<(), EngineError> {
        self.write_task_file()?;
        self.record_event(Event::TasksWritten)
    }

    /// Writes the list to the task file. If that fails, the list is still in the journal,
    /// and the run continues.
    pub(super) fn write_task_file(&mut self) -> Result<(), EngineError> {
        if let (Some(work), Some(tasks)) = (self.task_work(), &self.state.tasks) {
            let order = ListOrder { list: &tasks.list, changes: &[], touched: &tasks.touched };
            let written = self.ports.store.write_tasks(&work.file, &order);
            self.warn_on_error(written)?;
        }
        Ok(())
    }

    /// Writes the list to the task file as it will be once this landing is done.
    pub(super) fn write_landing_list(&mut self) -> Result<(), EngineError> {
        let settled = self
            .map_current(|current| landing_plan::settle_current(&self.state, current))
            .flatten();
        if let (Some(work), Some(tasks), Some(settled)) =
            (self.task_work(), &self.state.tasks, settled)
        {
            let (list, changes) = (&tasks.list, &settled.changes[..]);
            let order = ListOrder { list, changes, touched: &tasks.touched };
            let written = self.ports.store.write_tasks(&work.file, &order);
            self.warn_on_error(written)?;
            self.update_progress_log(&work, &settled)?;
        }
        self.record_event(Event::Landed { landed: Landed::ListWritten })
    }

    /// Checks whether the task file was edited, and takes over the allowed edits. Returns
    /// whether the list changed: a file that cannot be repaired does not count.
    pub(super) fn merge_task_file_edits(&mut self) -> Result<bool, EngineError> {
        let (Some(work), Some(tasks)) = (self.task_work(), &self.state.tasks) else {
            return Ok(false);
        };
        let current = self.state.current.as_ref().and_then(|current| current.task.as_ref());
        let found = self.ports.store.check_task_file(&work.file, &tasks.list);
        match found {
            TasksFound::Same => Ok(false),
            TasksFound::Edited(found) => {
                let merged = match &self.state.parallel {
                    Some(parallel) => external_edits::merge_edits_during_jobs(
                        &tasks.list,
                        &found,
                        current,
                        parallel,
                    ),
                    None => external_edits::merge_edits(&tasks.list, &found, current),
                };
                self.record_merged_list(merged)
            }
            TasksFound::Broken { message } => {
                let remark = format!("the task file was damaged and is rewritten: {message}");
                self.record_list(tasks.list.clone(), vec![remark])
            }
        }
    }

    /// Returns whether the task file matches the list. True if there is none.
    pub(super) fn is_task_file_current(&mut self) -> bool {
        let (Some(work), Some(tasks)) = (self.task_work(), &self.state.tasks) else { return true };
        self.ports.store.check_task_file(&work.file, &tasks.list) == TasksFound::Same
    }

    /// Returns whether the task file matches the list, or the list as already committed.
    pub(super) fn is_task_file_in_sync(&mut self) -> bool {
        let (Some(work), Some(tasks)) = (self.task_work(), &self.state.tasks) else { return false };
        match self.ports.store.check_task_file(&work.file, &tasks.list) {
            TasksFound::Same => true,
            // After a crash ralph does not know that it wrote the file.
            TasksFound::Edited(found) => self.committed_list().as_ref() == Some(&*found),
            TasksFound::Broken { .. } => false,
        }
    }

    /// Returns the list as ralph committed it in the open iteration, before that
    /// iteration is recorded as over.
    fn committed_list(&self) -> Option<TaskList> {
        let ahead = build_pending_list(&self.state)
            .filter(|ahead| ahead.durability == Durability::Committed);
        ahead.map(|ahead| ahead.list)
    }

    /// Returns whether only the user can have edited the task file: the run had ended and
    /// left it in sync.
    pub(super) fn can_only_user_have_edited(&self) -> bool {
        let RunState { outcome, end_snapshot: left, .. } = &self.state;
        outcome.is_some() && left.as_ref().is_some_and(|left| left.task_file_in_sync)
    }

    /// Takes over the user's edits of the task list from while the run was stopped.
    pub(super) fn merge_user_edits(&mut self) -> Result<(), EngineError> {
        let (Some(work), Some(tasks)) = (self.task_work(), &self.state.tasks) else {
            return Ok(());
        };
        let open = self.state.current.as_ref().and_then(|current| {
            let open = if current.has_any_answer() { OpenTask::Answered } else { OpenTask::ToAsk };
            current.task.as_ref().map(open)
        });
        // Edits by an agent that owns the list are known already, and land later.
        if self.state.recipe.is_list_owned_by_agent() && matches!(open, Some(OpenTask::Answered(_)))
        {
            return Ok(());
        }
        match self.ports.store.check_task_file(&work.file, &tasks.list) {
            TasksFound::Edited(mut found) => {
                let ahead = self.committed_list();
                if ahead.as_ref() == Some(&*found) {
                    return Ok(());
                }
                let current = self.state.current.as_ref().and_then(|it| it.task.as_ref());
                for theirs in found.tasks.iter_mut().filter(|it| Some(&it.id) == current) {
                    let settled = ahead.as_ref().and_then(|ahead| ahead.find_task(&theirs.id));
                    if let (Some(ours), true) =
                        (tasks.list.find_task(&theirs.id), settled == Some(theirs))
                    {
                        theirs.clone_from(ours);
                    }
                }
                let merged = external_edits::merge_user_edits(&tasks.list, &found, open);
                self.record_merged_list(merged).map(drop)
            }
            // A broken file is reported by the next check.
            TasksFound::Same | TasksFound::Broken { .. } => Ok(()),
        }
    }

    /// Records and writes the merged list. Returns whether it differs.
    fn record_merged_list(
        &mut self,
        MergedList { list, taken, reverted: reverted_edits }: MergedList,
    ) -> Result<bool, EngineError> {
        let taken = taken.iter().map(|it| format!("the task list was edited: {it}"));
        let reverted = reverted_edits
            .iter()
            .map(|it| format!("the task list was edited, and this was reverted: {it}"));
        self.record_list(list, taken.chain(reverted).collect())
    }

    fn record_list(&mut self, list: TaskList, remarks: Vec<String>) -> Result<bool, EngineError> {
        let has_changed = self.state.tasks.as_ref().is_none_or(|tasks| tasks.list != list);
        self.record_event(Event::TasksRead { list: Box::new(list), remarks })?;
        self.write_tasks()?;
        Ok(has_changed)
    }

    /// Reads the agent's edits of the task list, and refuses those that its role may not
    /// make. Done once per iteration: what ralph writes later is not the agent's.
    pub(super) fn read_agent_list(&mut self) -> Result<(), EngineError> {
        let (Some(work), Some(tasks), Some(current)) =
            (self.task_work(), &self.state.tasks, &self.state.current)
        else {
            return Ok(());
        };
        if current.list_diff().is_some() {
            return Ok(());
        }
        let found = self.ports.store.check_task_file(&work.file, &tasks.list);
        let turn =
            EditContext { role: current.role, task: current.task.clone(), review: work.review };
        let diff = diff_task_file(&tasks.list, found, &turn);
        self.record_event(Event::AgentListRead { diff })
    }

    /// Restores the task file to the known list. Edits by an agent in an iteration that
    /// was cut short must not count as facts for the next run, and neither must the list
    /// of a landing that was not committed.
    pub(super) fn restore_task_file(&mut self) -> Result<(), EngineError> {
        let is_kept_by_agent = self.state.recipe.is_list_owned_by_agent();
        let is_unread =
            self.map_current(|current| current.is_answered() && current.judgement().is_none());
        if is_kept_by_agent && is_unread == Some(true) {
            self.read_agent_list()?;
        }
        let Some(work) = self.task_work() else { return Ok(()) };
        if let Some(ahead) = build_pending_list(&self.state)
            && self.ports.store.check_task_file(&work.file, &ahead.list) == TasksFound::Same
        {
            return match ahead.durability {
                Durability::Committed => Ok(()),
                Durability::Tentative => self.overwrite_task_file(),
            };
        }
        if !is_kept_by_agent {
            self.merge_task_file_edits()?;
        } else if let Some(tasks) = &self.state.tasks {
            match self.ports.store.check_task_file(&work.file, &tasks.list) {
                TasksFound::Same => {}
                TasksFound::Edited(_) | TasksFound::Broken { .. } => self.overwrite_task_file()?,
            }
        }
        // A landing whose list could not be written is not under way: the user may change files.
        let is_planned_again = |current: &Iteration| {
            let plan = current.landing().map(|landing| &landing.plan);
            plan.is_some_and(|plan| {
                !plan.is_committed() && plan.done.contains(&Landed::ListWritten)
            })
        };
        if self.map_current(is_planned_again) == Some(true) {
            return self.overwrite_task_file();
        }
        if choose::is_task_file_stale(&self.state) { self.write_tasks() } else { Ok(()) }
    }

    /// Overwrites the task file with the list, whatever it contains.
    fn overwrite_task_file(&mut self) -> Result<(), EngineError> {
        let Some(tasks) = &self.state.tasks else { return Ok(()) };
        let list = Box::new(tasks.list.clone());
        self.record_event(Event::TasksRead { list, remarks: Vec::new() })?;
        self.write_tasks()
    }

    /// Saves the work to a failure branch, with a report of why it failed.
    pub(super) fn save_failed_work(&mut self, moment: Moment) -> Result<(), StepError> {
        let (Some(work), Some(task)) = (self.task_work(), self.current_task().cloned()) else {
            return Ok(());
        };
        let started = self.map_current(|current| current.started).unwrap_or(moment.now);
        let skipped = self.map_current(|current| current.judgement().map(|it| it.verdict.clone()));
        if let Some(Some(Verdict::Skipped { by })) = skipped {
            let order = self.failure_branch_order(self.git_mark(), &task, by.as_deref(), started);
            return self.save_to_failure_branch(&order);
        }
        let settled = self
            .map_current(|current| landing_plan::settle_current(&self.state, current))
            .flatten();
        let Some(failed) = settled.and_then(|settled| settled.attempt) else { return Ok(()) };
        let limit =
            self.state.tasks.as_ref().map_or(1, |tasks| work.attempt_limit(&tasks.list, &task.id));
        let mut log = self.attempt_log();
        let FailedAttempt { mut attempt, outputs, next, gives_up, .. } = failed;
        let saved = self.locate_failed_work();
        // An agent that was ended left changes that were not observed.
        if let (true, FailedWorkLocation::InWorkTree, Some(base)) =
            (attempt.files.is_empty(), &saved, self.state.base.clone())
            && let Ok(Some(seen)) = self.ports.vcs.peek_changes_since(&base, &[])
        {
            attempt.files = seen.files.into_iter().map(|file| file.path).collect();
        }
        let message = format!(
            "{} failed: {}\n\nIterations: {}/{limit}\nLast gate: {}\nError hash: {}\n\n{FAILURE_REPORT} has the last attempts, and `ralph report {}` all of them.",
            task.id,
            task.title.lines().next().unwrap_or_default(),
            log.counted() + 1,
            attempt.gate,
            attempt.hash.0,
            self.state.run,
        );
        log.add_failure(attempt, outputs, next);
        let record = attempt::format_record(AttemptRecord {
            task: &task.id,
            limit,
            log: &log,
            at: moment.now,
        });
        let why = gives_up.map(|why| why.to_note()).unwrap_or_default();
        let report =
            format!("# {} — {}\n\n{why}\n\n{}", task.id, task.title, record.unwrap_or_default());
        let order = FailureBranchOrder {
            mark: self.git_mark(),
            work: saved,
            checkpoint: self.state.base.clone().unwrap_or(Checkpoint::None),
            branch: failure_branch::name_failure_branch(&task.id, &started.to_stamp()),
            message,
            files: vec![(FAILURE_REPORT.to_owned(), report)],
        };
        self.save_to_failure_branch(&order)
    }

    /// Returns where the failed work is: a candidate with a conflict never was in the work tree.
    fn locate_failed_work(&self) -> FailedWorkLocation {
        let checking = self.state.current.as_ref().and_then(Iteration::checking);
        let merged = checking.and_then(|checking| checking.merge.as_deref());
        let merged = merged.filter(|it| matches!(it.outcome, MergeOutcome::Conflict { .. }));
        let queue = self.state.parallel.iter().flat_map(|parallel| &parallel.queue);
        let candidate = merged.and_then(|it| queue.clone().find(|of| of.worker == it.worker));
        candidate.map_or(FailedWorkLocation::InWorkTree, |it| {
            FailedWorkLocation::Candidate(it.commit.clone())
        })
    }

    fn save_to_failure_branch(&mut self, order: &FailureBranchOrder) -> Result<(), StepError> {
        let saved = self.ports.vcs.save_to_failure_branch(order)?;
        let landed = Landed::SavedToFailureBranch { branch: saved.branch, commit: saved.commit };
        self.record_event(Event::Landed { landed })?;
        Ok(())
    }

    /// Publishes the record of the attempts at the current task.
    pub(super) fn publish_attempts(&mut self, moment: Moment) -> Result<(), EngineError> {
        let (Some(work), Some(tasks)) = (self.task_work(), &self.state.tasks) else {
            return Ok(());
        };
        let record = tasks.logs.iter().next_back().and_then(|(task, log)| {
            let limit = work.attempt_limit(&tasks.list, task);
            attempt::format_record(AttemptRecord { task, limit, log, at: moment.now })
        });
        let published = self.ports.store.publish_view(&View::Attempts(record.as_deref()));
        self.warn_on_error(published)
    }

    /// Publishes the handoff of the iteration that just ended again, with the outcome of
    /// its work.
    pub(super) fn publish_handoff_outcome(
        &mut self,
        iteration: IterationNumber,
    ) -> Result<(), EngineError> {
        let Some(handoff) = self.state.handoffs.last() else { return Ok(()) };
        let published = self.ports.store.publish_view(&View::Handoff { iteration, handoff });
        self.warn_on_error(published)
    }

    fn task_work(&self) -> Option<TaskWork> {
        self.state.recipe.task_work().cloned()
    }
}
