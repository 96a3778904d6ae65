//! Workers that do jobs at the same time. Sequential runs have none.

use ralph_model::control::ControlRequest;
use ralph_model::ids::WorkerId;
use ralph_model::units::{Millis, Timestamp};
use ralph_model::worker::{Job, WorkerEvent};

/// Runs jobs.
pub trait Workers {
    /// Starts a job, or continues it. The same id twice is one job.
    fn start_job(&mut self, job: &Job) -> Result<(), WorkersError>;

    /// Returns what workers reported. Waits for the first report, not past `until`, and at
    /// most about a quarter of a second: the user's requests are read in between.
    fn poll_events(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) -> Vec<WorkerEvent>;

    /// Passes a control request to a worker. Sent again, it does nothing.
    fn send_request(&mut self, worker: &WorkerId, request: &ControlRequest);

    /// Ends a worker. Its clone keeps the work.
    fn cancel_worker(&mut self, worker: &WorkerId);
}

/// A worker could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WorkersError {
    pub message: String,
}

/// Whether a worker's commits are in the repository of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchOutcome {
    Fetched,
    Missing { reason: String },
}

/// The workers of a run without any, and of one that only ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWorkers;

impl Workers for NoWorkers {
    fn start_job(&mut self, _: &Job) -> Result<(), WorkersError> {
        Err(WorkersError { message: "this run has no workers".to_owned() })
    }

    /// Reports that all are gone: a killed run is ended while its journal still has live
    /// workers, and waits until it has none.
    fn poll_events(&mut self, _: Timestamp, _: &mut dyn FnMut(Millis)) -> Vec<WorkerEvent> {
        vec![WorkerEvent::Lost { worker: None, reason: "the run is ending".to_owned() }]
    }

    fn send_request(&mut self, _: &WorkerId, _: &ControlRequest) {}

    fn cancel_worker(&mut self, _: &WorkerId) {}
}
