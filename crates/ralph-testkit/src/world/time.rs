//! The clock and the UI of a small world: time that jumps, control requests that arrive at a set
//! time, and a UI that checks the fold.

use ralph_core::control::{Found, WishId};
use ralph_core::event::Recorded;
use ralph_core::ports::{Activity, Clock, Moment, StopWish, Ui};
use ralph_core::reading::AgentEvent;
use ralph_core::run::RunState;
use ralph_core::units::{Millis, Timestamp};

use super::{Shared, World};

impl World {
    fn wants_stop(&self) -> bool {
        self.stop_at.is_some_and(|at| self.now >= at)
    }

    fn wishes(&self) -> Vec<Found> {
        let is_there = self.inbox.iter().filter(|asked| asked.at.0 <= self.now);
        is_there.cloned().map(Found::Wish).collect()
    }

    /// Returns when the next event that ends a wait happens.
    fn next_interruption(&self) -> Option<i64> {
        let arrivals = self.inbox.iter().map(|asked| asked.at.0);
        arrivals.chain(self.stop_at).min().map(|at| at.max(self.now))
    }
}

impl Clock for Shared {
    fn moment(&mut self) -> Moment {
        let world = self.0.borrow();
        Moment {
            now: Timestamp(world.now),
            ran: Millis(world.ran),
            stop: if world.wants_stop() { StopWish::Stop } else { StopWish::GoOn },
        }
    }

    fn wait(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) {
        self.step();
        tick(Millis(1));
        let mut world = self.0.borrow_mut();
        let end = world.next_interruption().map_or(until.0, |at| at.min(until.0));
        assert!(end < i64::MAX, "this wait never ends");
        let left = u64::try_from(end - world.now).unwrap_or(0);
        world.waited += left;
        world.now = world.now.max(end);
    }

    fn wishes(&mut self) -> Vec<Found> {
        let found = self.0.borrow().wishes();
        if !found.is_empty() {
            self.step();
        }
        found
    }

    fn done_with(&mut self, id: &WishId) {
        self.step();
        self.0.borrow_mut().inbox.retain(|asked| asked.id != *id);
        self.step();
    }
}

impl Ui for Shared {
    fn tell(&mut self, _recorded: &Recorded, state: &RunState) {
        let folded = RunState::fold(&self.0.borrow().journal).expect("a journal of ours folds");
        assert_eq!(&folded, state, "the fold of the journal is the state");
    }

    fn hear(&mut self, _event: &AgentEvent) {}

    fn doing(&mut self, _activity: &Activity<'_>) {}
}
