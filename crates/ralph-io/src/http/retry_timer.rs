//! Pauses of a sending thread that end at a deadline.
//!
//! Not here: how long they are.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::PauseEnd;

/// The deadline for pauses; none until [`Self::set_deadline`] is called.
#[derive(Debug, Default)]
pub(crate) struct RetryTimer {
    deadline: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl RetryTimer {
    /// Sets the deadline.
    pub(crate) fn set_deadline(&self, deadline: Instant) {
        *self.lock_deadline() = Some(deadline);
        self.changed.notify_all();
    }

    /// Pauses, unless the pause would end after the deadline.
    pub(crate) fn pause(&self, span: Duration) -> PauseEnd {
        let until = Instant::now() + span;
        let mut deadline = self.lock_deadline();
        loop {
            if deadline.is_some_and(|deadline| until > deadline) {
                return PauseEnd::OutOfTime;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return PauseEnd::Elapsed;
            }
            let woken = self.changed.wait_timeout(deadline, left);
            deadline = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock_deadline(&self) -> MutexGuard<'_, Option<Instant>> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
