//! How urgently the user wants a run to stop, and running time.
//!
//! Not here: catching signals (`signals`) and ending children (`supervise`).

use std::fmt;
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::limits::{RunningTime, TICK};
use super::pipes::ChildEvent;
use super::registry::{self, OrphanPolicy};
use super::signals;

/// A handle on ralph's own signals, for all code that waits.
#[derive(Debug, Clone)]
pub struct Watch {
    shared: Arc<WatchShared>,
}

/// How urgently the user wants ralph to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopStage {
    Running,
    /// Let the current operation finish, then stop.
    Finish,
    /// End the children, record, stop.
    End,
    /// Exit at once. Only the callback of [`Watch::install`] sees this.
    Leave,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    Elapsed,
    /// The user wants ralph to stop.
    Interrupted,
}

#[derive(Debug)]
struct WatchShared {
    started: Instant,
    state: Mutex<WatchState>,
    changed: Condvar,
    halt_callback: OnceLock<HaltCallback>,
}

/// Called before ralph is stopped and after it continues.
struct HaltCallback(Box<dyn Fn(Halt) + Send + Sync>);

impl fmt::Debug for HaltCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

/// A stop of ralph by its terminal, such as Ctrl-Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// ralph is about to be stopped.
    Begins,
    /// ralph continues.
    Ends {
        /// For how long; none if another process stopped ralph, or it was not stopped.
        paused_for: Option<Duration>,
    },
}

#[derive(Debug)]
struct WatchState {
    stage: StopStage,
    paused_at: Option<Instant>,
    paused_for: Duration,
    listeners: Vec<WatchListener>,
}

#[derive(Debug)]
struct WatchListener {
    id: u64,
    events: SyncSender<ChildEvent>,
}

impl Watch {
    /// Takes over ralph's signals and the orphans of its children. Must be called once, early, by
    /// the main program.
    ///
    /// INT, TERM and HUP advance the stage: `Finish`, `End`, `Leave`. At `Leave` every child is
    /// killed and the process exits with 130. `on_stage` is called for each, on a thread of its
    /// own; at `Leave` ralph waits for it briefly. TSTP stops the children and ralph, and the clock
    /// of every limit with them, until CONT. A HUP that was ignored at the start stays ignored.
    pub fn install(on_stage: impl Fn(StopStage) + Send + 'static) -> io::Result<Self> {
        registry::lock_registry().adopt_orphans(OrphanPolicy::Adopt)?;
        let watch = Self::new_detached();
        signals::start_threads(watch.clone(), on_stage)?;
        Ok(watch)
    }

    /// Returns a watch without signals, for tests and for short commands.
    pub fn new_detached() -> Self {
        let state = WatchState {
            stage: StopStage::Running,
            paused_at: None,
            paused_for: Duration::ZERO,
            listeners: Vec::new(),
        };
        Self {
            shared: Arc::new(WatchShared {
                started: Instant::now(),
                state: Mutex::new(state),
                changed: Condvar::new(),
                halt_callback: OnceLock::new(),
            }),
        }
    }

    /// Returns how urgently the user wants ralph to stop.
    pub fn stage(&self) -> StopStage {
        self.lock_state().stage
    }

    /// Ends the children and stops, as a second signal does.
    pub fn end_now(&self) {
        if self.stage() < StopStage::End {
            self.set_stage(StopStage::End);
        }
    }

    /// Waits for a span of running time; calls `tick` at least once a second with the remaining
    /// time.
    pub fn wait(&self, span: Duration, tick: &mut dyn FnMut(Duration)) -> WaitEnd {
        let mut running = RunningTime::from_reading(self.clock());
        self.wait_until(&mut || {
            let left = span.saturating_sub(running.advance(self.clock()));
            tick(left);
            (!left.is_zero()).then_some(left)
        })
    }

    /// Waits until `remaining` returns none. It is called at least once a second, so that it can
    /// follow the time of day, which continues while the machine sleeps.
    ///
    /// The wait ends at once when the user wants ralph to stop, or already did.
    pub fn wait_until(&self, remaining: &mut dyn FnMut() -> Option<Duration>) -> WaitEnd {
        loop {
            let Some(left) = remaining() else {
                return WaitEnd::Elapsed;
            };
            let state = self.lock_state();
            if state.stage > StopStage::Running {
                return WaitEnd::Interrupted;
            }
            drop(self.shared.changed.wait_timeout(state, left.min(TICK)));
        }
    }

    /// Sets a callback for stops of ralph by its terminal, called before the stop and after it;
    /// only the first call of this has an effect. The callback must be short: the stop waits for
    /// it.
    pub fn set_halt_callback(&self, callback: impl Fn(Halt) + Send + Sync + 'static) {
        let _ = self.shared.halt_callback.set(HaltCallback(Box::new(callback)));
    }

    /// Calls the callback for stops.
    pub(super) fn notify_halt(&self, halt: Halt) {
        if let Some(HaltCallback(callback)) = self.shared.halt_callback.get() {
            callback(halt);
        }
    }

    /// Returns how long this process has been running, without pauses.
    pub fn running(&self) -> Duration {
        self.clock()
    }

    /// Returns the time since the start without pauses.
    pub(super) fn clock(&self) -> Duration {
        let state = self.lock_state();
        let now = state.paused_at.unwrap_or_else(Instant::now);
        now.saturating_duration_since(self.shared.started).saturating_sub(state.paused_for)
    }

    /// Wakes `events` at every change of the stage, until the result is dropped.
    pub(super) fn add_listener(&self, events: SyncSender<ChildEvent>) -> ListenerGuard {
        let mut state = self.lock_state();
        let id = state.listeners.last().map_or(0, |last| last.id + 1);
        state.listeners.push(WatchListener { id, events });
        ListenerGuard { watch: self.clone(), id }
    }

    /// Sets the stage and wakes all waiting code.
    pub(super) fn set_stage(&self, stage: StopStage) {
        let mut shared = self.lock_state();
        shared.stage = stage;
        for listener in &shared.listeners {
            // A listener whose channel is full checks the stage anyway.
            let _ = listener.events.try_send(ChildEvent::Wake);
        }
        drop(shared);
        self.shared.changed.notify_all();
    }

    /// Stops the clock; returns whether it was running.
    pub(super) fn pause_clock(&self) -> bool {
        let mut state = self.lock_state();
        let was_running = state.paused_at.is_none();
        state.paused_at.get_or_insert_with(Instant::now);
        was_running
    }

    /// Lets the clock run again; returns how long it was paused, if it was.
    pub(super) fn resume_clock(&self) -> Option<Duration> {
        let mut state = self.lock_state();
        let paused = state.paused_at.take()?.elapsed();
        state.paused_for += paused;
        Some(paused)
    }

    fn lock_state(&self) -> MutexGuard<'_, WatchState> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a channel at every change of the stage, until dropped.
#[derive(Debug)]
pub(super) struct ListenerGuard {
    watch: Watch,
    id: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let mut state = self.watch.lock_state();
        state.listeners.retain(|listener| listener.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_reports_the_remaining_time_and_ends_when_it_has_passed() {
        let mut ticks = Vec::new();
        let woken =
            Watch::new_detached().wait(Duration::from_millis(20), &mut |left| ticks.push(left));
        assert_eq!(woken, WaitEnd::Elapsed);
        assert_eq!(ticks.last(), Some(&Duration::ZERO));
        assert!(ticks.is_sorted_by(|earlier, later| earlier > later), "{ticks:?}");
    }

    #[test]
    fn a_stage_ends_a_wait_at_once() {
        let watch = Watch::new_detached();
        let hour = Duration::from_secs(3600);
        let waiter = watch.clone();
        let waiting = std::thread::spawn(move || waiter.wait(hour, &mut |_| {}));
        watch.set_stage(StopStage::Finish);
        assert_eq!(waiting.join().expect("no panic"), WaitEnd::Interrupted);
        assert_eq!(watch.wait(hour, &mut |_| {}), WaitEnd::Interrupted);
    }

    #[test]
    fn the_clock_stops_while_paused() {
        let watch = Watch::new_detached();
        assert!(watch.pause_clock());
        let before = watch.clock();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(watch.clock(), before);
        assert!(!watch.pause_clock());
        assert!(watch.resume_clock() >= Some(Duration::from_millis(5)));
        assert_eq!(watch.resume_clock(), None);
        assert!(watch.clock() >= before);
    }
}
