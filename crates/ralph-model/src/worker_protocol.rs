//! The lines between a run, the program that runs its workers, and each worker: one JSON object
//! per line.
//!
//! A worker understands the same requests as the program that started it, for its one job. Not
//! here: how lines are sent.

use serde::{Deserialize, Serialize};

use crate::control::ControlRequest;
use crate::ids::WorkerId;
use crate::worker::{Job, WorkerEvent};

/// The version of the protocol. Another one is refused.
pub const PROTOCOL: u32 = 1;

/// The most bytes of a line.
pub const LONGEST_LINE: u64 = 4 * 1024 * 1024;

/// A request to a worker host, or to a worker. Without [`HostRequest::Bye`], the end of the input
/// means that the run is gone: everything stops at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRequest {
    /// The first line.
    Hello { protocol: u32, version: String },
    /// Starts or continues a job.
    Start { job: Box<Job> },
    /// Passes a control request to a worker.
    Send { worker: WorkerId, request: ControlRequest },
    /// Ends a worker. Its clone keeps the work.
    Cancel { worker: WorkerId },
    /// The run needs no workers any more.
    Bye,
}

/// A line of a worker host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostReport {
    /// The first line.
    Hello {
        protocol: u32,
        version: String,
        /// Whether it passes control requests to workers.
        #[serde(default = "is_default_send")]
        send: bool,
    },
    /// A report of a worker.
    Event(WorkerEvent),
}

fn is_default_send() -> bool {
    true
}

impl HostRequest {
    /// Returns the request as a line.
    pub fn to_line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self).map(|line| line + "\n")
    }
}

impl HostReport {
    /// Returns the report as a line.
    pub fn to_line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self).map(|line| line + "\n")
    }
}
