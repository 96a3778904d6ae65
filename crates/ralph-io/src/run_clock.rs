//! The clock port: the time of day, running time, and the user's control requests.
//!
//! Not here: reading the system clock (`clock`), time limits of child processes (the
//! supervisor), and how control requests arrive (`control`).

use std::time::Duration;

use ralph_core::ports::{Clock, Moment, StopRequest};
use ralph_model::control::{ControlRequestId, InboxEntry};
use ralph_model::units::{Millis, Timestamp};

use crate::clock::now;
use crate::control::Inbox;
use crate::process::{StopStage, Watch};

/// How often a wait polls for control requests: unnoticeable for the user, and costs one `stat`.
const REQUEST_POLL: Duration = Duration::from_millis(200);

/// How often a wait reports the time that is left.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// The clock of a run.
#[derive(Debug)]
pub struct RunClock {
    watch: Watch,
    /// Running time of the run before this process resumed it.
    before: Millis,
    /// Time this process has spent waiting.
    waited: Duration,
    inbox: Option<Inbox>,
    /// Requests found in the inbox while waiting.
    found: Vec<InboxEntry>,
    steady: SteadyTime,
    /// Whether the run has to end, whatever the user does.
    is_stopped: bool,
}

/// A time of day that never goes back: setting the system clock back makes no wait longer.
#[derive(Debug, Default)]
struct SteadyTime {
    /// The last reading, and the running time at that moment.
    last: Option<(Timestamp, Duration)>,
}

impl SteadyTime {
    /// Returns the time of day, or the last reading plus the elapsed time if that is later.
    fn advance_to(&mut self, wall: Timestamp, running: Duration) -> Timestamp {
        let at_least = |(at, then): (Timestamp, Duration)| {
            at.saturating_add(Millis::from(running.saturating_sub(then)))
        };
        let now = self.last.map_or(wall, |last| wall.max(at_least(last)));
        // Otherwise rounding losses would add up.
        if self.last.is_none_or(|last| now > at_least(last)) {
            self.last = Some((now, running));
        }
        now
    }
}

impl RunClock {
    /// Returns a clock whose running time continues from `before`.
    pub fn new(watch: Watch, before: Millis) -> Self {
        let steady = SteadyTime::default();
        let (waited, inbox, found, is_stopped) = (Duration::ZERO, None, Vec::new(), false);
        Self { watch, before, waited, inbox, found, steady, is_stopped }
    }

    /// Asks the run to stop from the beginning, so that it only ends.
    #[must_use]
    pub fn with_stop_request(self) -> Self {
        Self { is_stopped: true, ..self }
    }

    /// Adds the inbox that control requests arrive through.
    #[must_use]
    pub fn with_inbox(self, inbox: Inbox) -> Self {
        Self { inbox: Some(inbox), ..self }
    }

    fn poll_requests(&mut self) {
        if let (Some(inbox), []) = (&mut self.inbox, self.found.as_slice()) {
            self.found = inbox.poll();
        }
    }
}

impl Clock for RunClock {
    fn read_moment(&mut self) -> Moment {
        let running = self.watch.running();
        Moment {
            now: self.steady.advance_to(now(), running),
            ran: self.before.saturating_add(running.saturating_sub(self.waited).into()),
            stop: match self.watch.stage() {
                StopStage::Running if !self.is_stopped => StopRequest::Continue,
                StopStage::Running | StopStage::Finish => StopRequest::Stop,
                StopStage::End | StopStage::Leave => StopRequest::StopNow,
            },
        }
    }

    /// Waits by the time of day, which continues while the machine sleeps: a limit that resets at
    /// three is over at three.
    fn wait_until(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) {
        let watch = self.watch.clone();
        let begun = watch.running();
        let mut reported: Option<Duration> = None;
        watch.wait_until(&mut || {
            let running = watch.running();
            let left = until.elapsed_since(self.steady.advance_to(now(), running));
            // A tick may come early by one poll interval; a countdown must not skip a second.
            let is_due = |reported: Duration| {
                running.saturating_sub(reported) + REQUEST_POLL / 2 >= TICK_INTERVAL
            };
            if left == Millis::ZERO || reported.is_none_or(is_due) {
                reported = Some(running);
                tick(left);
            }
            self.poll_requests();
            let keeps_waiting = left > Millis::ZERO && self.found.is_empty();
            keeps_waiting.then(|| Duration::from(left).min(REQUEST_POLL))
        });
        self.waited += self.watch.running().saturating_sub(begun);
    }

    fn read_control_requests(&mut self) -> Vec<InboxEntry> {
        self.poll_requests();
        std::mem::take(&mut self.found)
    }

    fn remove_control_request(&mut self, id: &ControlRequestId) {
        if let Some(inbox) = &mut self.inbox {
            inbox.remove_request(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use ralph_model::control::ControlRequest;

    use super::*;
    use crate::control::send_as;

    #[test]
    fn a_wait_is_no_running_time() {
        let mut clock = RunClock::new(Watch::new_detached(), Millis(1_000));
        let mut ticks = Vec::new();
        clock.wait_until(now().saturating_add(Millis(60)), &mut |left| ticks.push(left));
        assert_eq!(ticks.last(), Some(&Millis::ZERO));
        let ran = clock.read_moment().ran;
        assert!((1_000..1_055).contains(&ran.0), "{ran:?}");
    }

    #[test]
    fn a_control_request_ends_a_wait_and_stays_until_it_is_done_with() {
        let run = tempfile::tempdir().expect("a directory");
        let mut clock =
            RunClock::new(Watch::new_detached(), Millis::ZERO).with_inbox(Inbox::new(run.path()));
        assert_eq!(clock.read_control_requests(), []);
        let id = send_as(run.path(), &ControlRequest::Resume, None).expect("sent");
        clock.wait_until(Timestamp(i64::MAX), &mut |_| {});
        let found = clock.read_control_requests();
        let [InboxEntry::Request(asked)] = found.as_slice() else {
            panic!("one request: {found:?}")
        };
        assert_eq!(asked.id, id);
        clock.remove_control_request(&id);
        assert_eq!(clock.read_control_requests(), []);
    }

    #[test]
    fn the_time_of_day_follows_the_clock_forward_and_never_back() {
        let mut steady = SteadyTime::default();
        let readings = [
            // The system clock, the running time, and the expected reading.
            (1_000, 0, 1_000),
            (1_500, 500, 1_500),
            // The machine slept, or the clock was set.
            (90_000, 600, 90_000),
            // It was set back: time continues from where it was.
            (2_000, 1_600, 91_000),
            (2_400, 2_000, 91_400),
            (91_400, 2_000, 91_400),
            (95_000, 2_100, 95_000),
        ];
        for (wall, running, expect) in readings {
            let now = steady.advance_to(Timestamp(wall), Duration::from_millis(running));
            assert_eq!(now, Timestamp(expect), "{wall} after {running}");
        }
    }

    #[test]
    fn a_moment_in_the_past_is_not_waited_for() {
        let mut clock = RunClock::new(Watch::new_detached(), Millis::ZERO);
        let mut ticks = 0;
        clock.wait_until(Timestamp(0), &mut |_| ticks += 1);
        assert_eq!(ticks, 1);
    }
}
