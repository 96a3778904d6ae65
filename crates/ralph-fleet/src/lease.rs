//! The lease of a node on a job: how often it is renewed, and when it has ended.

use std::time::{Duration, Instant};

/// How often a lease is renewed at most. Cancellation arrives with the answer, so a canceled job
/// ends within five seconds.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3);

/// Without a renewal for this long, the server gives the job to another node.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// A lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobLease {
    timeout: Duration,
    /// When the last renewal that the server answered was sent.
    renewed: Instant,
}

/// Why a node stops a job before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The run does not want it any more.
    Canceled,
    /// The server has given it to another node, or ended it.
    Superseded,
    /// The server did not answer for a whole timeout, and so may have given it away.
    Unreachable,
    /// The node was asked to leave.
    Leaving,
}

impl JobLease {
    /// Returns a lease that begins now.
    pub(crate) fn new(timeout: Option<Duration>, now: Instant) -> Self {
        Self { timeout: timeout.unwrap_or(DEFAULT_TIMEOUT), renewed: now }
    }

    /// Returns the pause between two renewals: several fit into a timeout.
    pub(crate) fn interval(&self) -> Duration {
        LONGEST_INTERVAL.min(self.timeout / 5)
    }

    /// Returns when the lease ends without another renewal.
    pub(crate) fn end(&self) -> Instant {
        self.renewed + self.timeout
    }

    /// Notes a renewal that was sent at a time and answered.
    pub(crate) fn update_to(&mut self, sent: Instant) {
        self.renewed = self.renewed.max(sent);
    }

    /// Returns whether the lease has ended.
    pub(crate) fn has_ended(&self, now: Instant) -> bool {
        now >= self.end()
    }
}

impl StopReason {
    /// Returns a description for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Superseded => "canceled, or given to another node",
            Self::Unreachable => "the server did not answer",
            Self::Leaving => "this node leaves",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_a_timeout_after_the_last_answered_renewal() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut lease = JobLease::new(Some(Duration::from_secs(10)), start);
        assert_eq!(lease.interval(), Duration::from_secs(2));
        assert!(!lease.has_ended(at(9)));
        assert!(lease.has_ended(at(10)));
        lease.update_to(at(4));
        // An answer to an earlier renewal that comes late does not shorten it.
        lease.update_to(at(2));
        assert!(!lease.has_ended(at(13)));
        assert!(lease.has_ended(at(14)));
        assert_eq!(JobLease::new(None, start).interval(), LONGEST_INTERVAL);
    }
}
