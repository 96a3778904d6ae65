//! The clock, and what the user wants from a run while it works.

use ralph_model::control::{ControlRequestId, InboxEntry};
use ralph_model::units::{Millis, Timestamp};

/// Reads the clock and the user's control requests.
pub trait Clock {
    /// Reads the time and whether the user wants to stop.
    fn read_moment(&mut self) -> Moment;

    /// Waits until a moment of the wall clock, or until the user stops the run or sends a
    /// control request. Calls `tick` about once a second with the time left.
    fn wait_until(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis));

    /// Returns the control requests that the run is not done with, oldest first.
    fn read_control_requests(&mut self) -> Vec<InboxEntry>;

    /// Removes a control request that is in the journal.
    fn remove_control_request(&mut self, id: &ControlRequestId);
}

/// The time, and whether the user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub now: Timestamp,
    /// Total running time of the run, without waits and pauses.
    pub ran: Millis,
    pub stop: StopRequest,
}

/// Whether the user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRequest {
    Continue,
    /// After the current operation.
    Stop,
    /// At once: what is running is being ended.
    StopNow,
}
