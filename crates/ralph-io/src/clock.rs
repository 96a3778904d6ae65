//! The clock port: the time of day, running time, and the user's wish to stop.
//!
//! The only place that reads the clock. Not here: limits of single children, which the
//! supervisor keeps.

use std::time::{Duration, SystemTime};

use ralph_core::ports::{Clock, Moment, StopWish};
use ralph_core::units::{Millis, Timestamp};

use crate::process::{Stage, Watch};

/// Returns the time of day.
pub fn now() -> Timestamp {
    let millis = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    };
    Timestamp(millis)
}

/// The clock of a run.
#[derive(Debug)]
pub struct RunClock {
    watch: Watch,
    /// How long the run had been running before this process took it up.
    before: Millis,
    /// Time this process has spent waiting.
    waited: Duration,
}

impl RunClock {
    /// Returns a clock that goes on from `before`.
    pub fn new(watch: Watch, before: Millis) -> Self {
        Self { watch, before, waited: Duration::ZERO }
    }
}

impl Clock for RunClock {
    fn moment(&mut self) -> Moment {
        let running = self.watch.running().saturating_sub(self.waited);
        Moment {
            now: now(),
            ran: self.before.plus(running.into()),
            stop: match self.watch.stage() {
                Stage::Running => StopWish::GoOn,
                Stage::Finish | Stage::End | Stage::Leave => StopWish::Stop,
            },
        }
    }

    /// Follows the time of day, which goes on while the machine sleeps: a limit that resets at
    /// three is over at three.
    fn wait(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) {
        let begun = self.watch.running();
        self.watch.wait_until(&mut || {
            let left = until.since(now());
            tick(left);
            (left > Millis::ZERO).then(|| left.into())
        });
        self.waited += self.watch.running().saturating_sub(begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_no_running_time() {
        let mut clock = RunClock::new(Watch::detached(), Millis(1_000));
        let mut told = Vec::new();
        clock.wait(now().plus(Millis(60)), &mut |left| told.push(left));
        assert_eq!(told.last(), Some(&Millis::ZERO));
        let ran = clock.moment().ran;
        assert!((1_000..1_055).contains(&ran.0), "{ran:?}");
    }

    #[test]
    fn a_moment_in_the_past_is_not_waited_for() {
        let mut clock = RunClock::new(Watch::detached(), Millis::ZERO);
        let mut ticks = 0;
        clock.wait(Timestamp(0), &mut |_| ticks += 1);
        assert_eq!(ticks, 1);
    }
}
