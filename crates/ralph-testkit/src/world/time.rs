//! The clock and the UI of a small world: time that jumps, control requests that arrive at a set
//! time, and a UI that checks the fold.

use ralph_core::ports::{Activity, Clock, Moment, StopRequest, Ui};
use ralph_model::agent_output::AgentEvent;
use ralph_model::control::{ControlRequestId, InboxEntry};
use ralph_model::event::Recorded;
use ralph_model::run::RunState;
use ralph_model::units::{Millis, Timestamp};

use super::{ScriptedWorld, SharedWorld};

impl ScriptedWorld {
    fn is_stop_requested(&self) -> bool {
        self.stop_at.is_some_and(|at| self.now >= at)
    }

    fn arrived_requests(&self) -> Vec<InboxEntry> {
        let is_there = self.inbox.iter().filter(|asked| asked.at.0 <= self.now);
        is_there.cloned().map(InboxEntry::Request).collect()
    }

    /// Returns when the next event that ends a wait happens.
    fn next_interruption(&self) -> Option<i64> {
        let arrivals = self.inbox.iter().map(|asked| asked.at.0);
        arrivals.chain(self.stop_at).min().map(|at| at.max(self.now))
    }
}

impl Clock for SharedWorld {
    fn read_moment(&mut self) -> Moment {
        let world = self.0.borrow();
        Moment {
            now: Timestamp(world.now),
            ran: Millis(world.ran),
            stop: if world.is_stop_requested() { StopRequest::Stop } else { StopRequest::Continue },
        }
    }

    fn wait_until(&mut self, until: Timestamp, tick: &mut dyn FnMut(Millis)) {
        self.count_call();
        tick(Millis(1));
        let mut world = self.0.borrow_mut();
        let end = world.next_interruption().map_or(until.0, |at| at.min(until.0));
        assert!(end < i64::MAX, "this wait never ends");
        let left = u64::try_from(end - world.now).unwrap_or(0);
        world.waited += left;
        world.now = world.now.max(end);
    }

    fn read_control_requests(&mut self) -> Vec<InboxEntry> {
        let found = self.0.borrow().arrived_requests();
        if !found.is_empty() {
            self.count_call();
        }
        found
    }

    fn remove_control_request(&mut self, id: &ControlRequestId) {
        self.count_call();
        self.0.borrow_mut().inbox.retain(|asked| asked.id != *id);
        self.count_call();
    }
}

impl Ui for SharedWorld {
    fn show_event(&mut self, _recorded: &Recorded, state: &RunState) {
        let mut world = self.0.borrow_mut();
        assert_eq!(world.fold_journal(), state, "the fold of the journal is the state");
    }

    fn show_agent_event(&mut self, _event: &AgentEvent) {}

    fn show_activity(&mut self, _activity: &Activity<'_>) {}
}
