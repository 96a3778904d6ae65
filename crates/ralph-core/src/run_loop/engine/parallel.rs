//! Starts jobs of a parallel run, and records what workers report.

use ralph_model::agent::AgentKind;
use ralph_model::control::ControlRequest;
use ralph_model::event::Event;
use ralph_model::failure::RateLimitAction;
use ralph_model::ids::{IterationNumber, WorkerId};
use ralph_model::memory::{Compacted, Memory};
use ralph_model::outcome::Outcome;
use ralph_model::units::Timestamp;
use ralph_model::worker::{JobAssignment, JobResult, WorkerEvent, WorkerLimitKind};

use super::{Engine, EngineError, StepError};
use crate::ports::{Activity, FetchOutcome, Moment, StopRequest, View};
use crate::run_loop::choose;
use crate::tasks::job;

impl Engine<'_> {
    /// Starts a job, or starts it again. It is recorded first: a start may be repeated.
    pub(super) fn start_job(&mut self, mut assignment: JobAssignment) -> Result<(), StepError> {
        if self.merge_task_file_edits()? {
            return Ok(());
        }
        if assignment.base.is_none() {
            let message = "there is no commit to start from".to_owned();
            let missing = StepError::Outcome(Outcome::GitFailed { message });
            assignment.base = Some(self.ports.vcs.read_head()?.head.ok_or(missing)?);
        }
        let worker = assignment.worker.clone();
        self.record_event(Event::JobAssigned { assignment: Box::new(assignment) })?;
        // The worker gets a copy of the list, with the status of its task.
        if choose::is_task_file_stale(&self.state) {
            self.write_tasks()?;
        }
        let running = self.state.parallel.as_ref().and_then(|it| it.running.get(&worker));
        let Some(job) = running.and_then(|it| job::build_job(&self.state, it)) else {
            return Ok(());
        };
        if let Err(error) = self.ports.workers.start_job(&job) {
            // The host is gone, and all of its workers with it.
            let reason = error.message;
            self.record_event(Event::WorkerLost {
                worker: None,
                reason: reason.clone(),
                has_ended: false,
            })?;
            let worker = Some(worker);
            self.record_event(Event::WorkerLost { worker, reason, has_ended: false })?;
        }
        Ok(())
    }

    /// Waits for workers, and records what they report.
    pub(super) fn poll_workers(
        &mut self,
        until: Timestamp,
        moment: Moment,
    ) -> Result<(), StepError> {
        match moment.stop {
            StopRequest::StopNow => self.send_to_workers(&ControlRequest::StopNow),
            StopRequest::Stop => self.send_to_workers(&ControlRequest::Stop),
            StopRequest::Continue if self.state.control.stop.is_some() => {
                self.send_to_workers(&ControlRequest::Stop);
            }
            StopRequest::Continue => {}
        }
        let (ui, state) = (&mut *self.ports.ui, &self.state);
        let mut tick = |_| ui.show_activity(&Activity::Workers(state));
        for event in self.ports.workers.poll_events(until, &mut tick) {
            self.record_worker_event(event)?;
        }
        if !choose::is_task_file_stale(&self.state) {
            self.merge_task_file_edits()?;
        }
        Ok(())
    }

    /// Passes a control request of the user to all live workers.
    pub(super) fn send_to_workers(&mut self, request: &ControlRequest) {
        let running = self.state.parallel.iter().flat_map(|it| &it.running);
        for (worker, _) in running.filter(|(_, it)| it.is_live) {
            self.ports.workers.send_request(worker, request);
        }
    }

    /// Asks the other live workers not to call an agent whose limit one of them met: all of them
    /// would be refused.
    fn send_hold(&mut self, limited: &WorkerId, agent: AgentKind) {
        let Some(parallel) = &self.state.parallel else { return };
        let Some(until) = parallel.holds.get(&agent).copied() else { return };
        let running = parallel.running.iter();
        for (worker, _) in running.filter(|(worker, it)| it.is_live && *worker != limited) {
            self.ports.workers.send_request(worker, &ControlRequest::Hold { agent, until });
        }
    }

    /// Publishes the memory that a worker compacted.
    fn publish_compacted_memory(&mut self, memory: Memory) -> Result<(), EngineError> {
        let compacted = Compacted { memory, resolved: Vec::new(), left_out: Vec::new() };
        let iteration = IterationNumber(self.state.iterations);
        let view = View::Memory { run: &self.state.run, iteration, compacted: &compacted };
        let published = self.ports.store.publish_view(&view);
        self.warn_on_error(published)
    }

    /// Ends a worker whose task the user skips or removes.
    pub(super) fn cancel_worker(&mut self, worker: WorkerId) -> Result<(), EngineError> {
        self.ports.workers.cancel_worker(&worker);
        self.record_event(Event::WorkerCanceled { worker })
    }

    /// Records what a worker reports. Reports of workers that have ended are ignored.
    fn record_worker_event(&mut self, event: WorkerEvent) -> Result<(), StepError> {
        let recorded = match event {
            WorkerEvent::Warning { text } => Event::Warned { text },
            WorkerEvent::Lost { worker: None, reason } => {
                Event::WorkerLost { worker: None, reason, has_ended: false }
            }
            WorkerEvent::Started { worker, .. }
            | WorkerEvent::Progressed { worker, .. }
            | WorkerEvent::Limited { worker, .. }
            | WorkerEvent::Ended { worker, .. }
            | WorkerEvent::Lost { worker: Some(worker), .. }
                if !self.is_live(&worker) =>
            {
                return Ok(());
            }
            WorkerEvent::Started { worker, place, origin } => {
                Event::WorkerStarted { worker, place, origin }
            }
            WorkerEvent::Progressed { worker, usage, iterations, ran, doing } => {
                Event::WorkerProgressed { worker, usage, iterations, ran, doing }
            }
            WorkerEvent::Limited { worker, agent, until, kind } => {
                Event::WorkerLimited { worker, agent, until, kind }
            }
            WorkerEvent::Ended { worker, result } => self.fetch_result(worker, result)?,
            WorkerEvent::Lost { worker, reason } => {
                Event::WorkerLost { worker, reason, has_ended: false }
            }
        };
        self.record_event(recorded.clone())?;
        if let Event::WorkerLimited { worker, agent, kind, .. } = &recorded {
            // Where a run does not wait for limits, an overload must not end the workers.
            let must_wait = self.state.recipe.rate_limit.wait == RateLimitAction::Wait;
            if must_wait || *kind == WorkerLimitKind::UsageLimit {
                self.send_hold(worker, *agent);
            }
        }
        if let Event::WorkerEnded { result, .. } = recorded
            && let Some(memory) = result.memory
        {
            self.publish_compacted_memory(*memory)?;
        }
        Ok(())
    }

    /// Fetches what a worker made. Only then has it ended.
    fn fetch_result(
        &mut self,
        worker: WorkerId,
        result: Box<JobResult>,
    ) -> Result<Event, StepError> {
        Ok(match self.ports.vcs.fetch_result(&self.state.run, &worker, &result)? {
            FetchOutcome::Fetched => Event::WorkerEnded { worker, result },
            FetchOutcome::Missing { reason } => {
                // What it used counts all the same.
                let JobResult { usage, iterations, ran, .. } = *result;
                let (who, doing) = (worker.clone(), String::new());
                self.record_event(Event::WorkerProgressed {
                    worker: who,
                    usage,
                    iterations,
                    ran,
                    doing,
                })?;
                let reason = format!("its work cannot be fetched: {reason}");
                Event::WorkerLost { worker: Some(worker), reason, has_ended: true }
            }
        })
    }

    fn is_live(&self, worker: &WorkerId) -> bool {
        let running = self.state.parallel.as_ref().and_then(|it| it.running.get(worker));
        running.is_some_and(|it| it.is_live)
    }
}
