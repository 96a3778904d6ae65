//! Control requests: reads them, pauses the run, and skips a task.
//!
//! A request is recorded before it is removed from the inbox, so a crash loses none. It
//! is recognized by its id, so none is applied twice. Not here: when a request takes
//! effect, which `choose` decides.

use ralph_model::control::{ControlRequest, InboxEntry, Pause, SkipRequest, SubmittedRequest};
use ralph_model::event::Event;
use ralph_model::ids::IterationNumber;
use ralph_model::recipe::Work;
use ralph_model::run::IterationMark;
use ralph_model::task::Task;
use ralph_model::units::Timestamp;
use ralph_model::worktree::Checkpoint;

use super::{Engine, EngineError, StepError, ViewKind};
use crate::landing::failure_branch;
use crate::ports::{Activity, FailedWorkLocation, FailureBranchOrder};
use crate::run_loop::choose::Leftover;
use crate::run_loop::control;

/// Reason for refusing a request that arrived before the run was resumed.
const SUPERSEDED: &str = "the run ended and was resumed since";

impl Engine<'_> {
    /// Records the control requests that arrived since the last poll.
    pub(super) fn poll_control_requests(&mut self) -> Result<(), EngineError> {
        self.record_control_requests(|_| None)
    }

    /// Records requests that arrived before the run was resumed. Pause, resume and stop
    /// are refused, because resuming overrides them.
    pub(super) fn poll_old_control_requests(&mut self) -> Result<(), EngineError> {
        self.record_control_requests(|request| match request {
            ControlRequest::Pause
            | ControlRequest::Resume
            | ControlRequest::Stop
            | ControlRequest::StopNow => Some(SUPERSEDED.to_owned()),
            ControlRequest::Skip { .. }
            | ControlRequest::Note { .. }
            | ControlRequest::TaskNote { .. }
            | ControlRequest::Hold { .. } => None,
        })
    }

    fn record_control_requests(
        &mut self,
        refuse: impl Fn(&ControlRequest) -> Option<String>,
    ) -> Result<(), EngineError> {
        for found in self.ports.clock.read_control_requests() {
            let asked = match found {
                InboxEntry::Request(asked) => asked,
                InboxEntry::Invalid { name, why } => {
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
            if !self.state.control.has_recorded(&id) {
                let refused = refuse(&asked.request)
                    .or_else(|| control::find_refusal(&self.state, &asked.request));
                let is_accepted = refused.is_none();
                let request = asked.request.clone();
                self.record_event(Event::ControlRequested { asked, refused })?;
                if is_accepted {
                    self.forward_request(&request);
                }
            }
            self.ports.clock.remove_control_request(&id);
        }
        Ok(())
    }

    /// Passes a request on to the workers of a parallel run. Which task is skipped, `choose`
    /// decides.
    fn forward_request(&mut self, request: &ControlRequest) {
        match request {
            ControlRequest::Pause
            | ControlRequest::Resume
            | ControlRequest::Stop
            | ControlRequest::StopNow
            | ControlRequest::Note { .. }
            | ControlRequest::Hold { .. } => self.send_to_workers(request),
            ControlRequest::TaskNote { task, text } => {
                let parallel = self.state.parallel.as_ref();
                if let Some(worker) = parallel.and_then(|it| it.find_worker_of(task)) {
                    let note = ControlRequest::Note { text: text.clone() };
                    self.ports.workers.send_request(worker, &note);
                }
            }
            ControlRequest::Skip { .. } => {}
        }
    }

    /// The tasks are known only after the list was read.
    fn is_too_early(&self, asked: &SubmittedRequest) -> bool {
        match (&asked.request, &self.state.recipe.work, &self.state.tasks) {
            (ControlRequest::Skip { .. }, Work::Tasks(_), None) => true,
            (_, _, _) => false,
        }
    }

    /// Waits until a control request resumes or stops the run.
    pub(super) fn wait_while_paused(&mut self) -> Result<(), StepError> {
        let since = match self.state.control.pause {
            Pause::Since { at } => at,
            Pause::No | Pause::Asked { .. } => {
                self.record_event(Event::Paused)?;
                self.publish_view(ViewKind::State)?;
                self.ports.clock.read_moment().now
            }
        };
        let ui = &mut *self.ports.ui;
        self.ports.clock.wait_until(Timestamp(i64::MAX), &mut |_| {
            ui.show_activity(&Activity::Paused { since });
        });
        Ok(())
    }

    /// Skips a task, after saving the work of its attempts to a failure branch.
    pub(super) fn skip_task(&mut self, skip: SkipRequest, left: Leftover) -> Result<(), StepError> {
        let SkipRequest { task, at, by } = skip;
        let known_task =
            self.state.tasks.as_ref().and_then(|tasks| tasks.list.find_task(&task)).cloned();
        let saved = match (left, known_task) {
            (Leftover::Present, Some(known_task)) => {
                let iteration = IterationNumber(self.state.iterations);
                let mark = IterationMark {
                    run: self.state.run.clone(),
                    iteration,
                    task: Some(task.clone()),
                };
                let order = self.failure_branch_order(mark, &known_task, by.as_deref(), at);
                Some(self.ports.vcs.save_to_failure_branch(&order)?)
            }
            (Leftover::Present | Leftover::Absent, _) => None,
        };
        let (branch, commit) = saved.map(|it| (it.branch, it.commit)).unzip();
        self.record_event(Event::TaskSkipped { task, by, branch, commit })?;
        Ok(())
    }

    /// Returns the order to save the work on a skipped task to a failure branch.
    pub(super) fn failure_branch_order(
        &self,
        mark: IterationMark,
        task: &Task,
        by: Option<&str>,
        at: Timestamp,
    ) -> FailureBranchOrder {
        let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
        let title = task.title.lines().next().unwrap_or_default();
        FailureBranchOrder {
            mark,
            work: FailedWorkLocation::InWorkTree,
            checkpoint: self.state.base.clone().unwrap_or(Checkpoint::None),
            branch: failure_branch::name_failure_branch(&task.id, &at.to_stamp()),
            message: format!("{} skipped: {title}\n\nSkipped{by} while it was worked on.", task.id),
            files: Vec::new(),
        }
    }
}
