//! The limits of one child from start to end: which limit runs, what follows from an event.
//!
//! A pure state machine: `(state, input, now) -> action`. `now` is running time since the start.
//!
//! Not here: processes, pipes, clocks. `supervise` calls it and performs its actions.

use std::time::Duration;

use ralph_core::child::{Ending, Force, Limit, SoftLimit};

use super::spawn::Limits;

/// What a piece of output says about the child's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The child makes progress: the idle limit starts again.
    Useful,
    /// Bytes that say nothing about progress.
    Noise,
    /// The final result of this turn: the child may stay for the linger period, then it is ended. A
    /// later `Useful` means that it continues after all.
    Final,
}

/// What happened to the child, or to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// The child printed something.
    Heard(Heard),
    /// All holders of one of its two pipes have closed it.
    Eof,
    /// The child itself has exited.
    Exited,
    /// The user stopped the run.
    Interrupted,
    /// What was left of its process tree was ended.
    Swept,
    /// Nothing; time has passed.
    Quiet,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait for the next event.
    Listen,
    /// Send TERM to its group.
    Terminate,
    /// Send KILL to its group.
    Kill,
    /// End what is left of its process tree, then report `Swept`.
    Sweep,
    /// Nothing is left to wait for.
    Done,
}

/// The longest wait for an event, so that a suspend of the whole machine can be noticed.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Between two events at most a tick passes; more than this means that ralph did not run either.
const STANDSTILL: Duration = Duration::from_secs(3);

/// How many drain limits a pipe gets that is held open and still written to: what the child itself
/// left in it is far less.
const DRAIN_ROUNDS: u32 = 4;

/// A killed process exits at once unless the kernel blocks it, as on a dead network disk.
const UNKILLABLE: Duration = Duration::from_secs(10);

/// The state of one child.
#[derive(Debug)]
pub(super) struct Course {
    limits: Limits,
    phase: Phase,
    open_pipes: u8,
    last_useful: Duration,
    final_word: Option<Duration>,
    soft_limit: SoftLimit,
    held_pipe: bool,
    ended: Option<(Cause, Force)>,
    exited_at: Option<Duration>,
    printed: u64,
    exceeded: Option<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Terminating { since: Duration },
    Killed { since: Duration },
    Draining { since: Duration, quiet: Duration },
    Sweeping,
    Emptying { since: Duration, quiet: Duration },
}

/// Why ralph ended a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Limit(Limit),
    Lingered,
    Interrupted,
}

impl Course {
    /// Returns the state of a child that starts now, with both pipes open.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Running,
            open_pipes: 2,
            last_useful: Duration::ZERO,
            final_word: None,
            soft_limit: SoftLimit::Kept,
            held_pipe: false,
            ended: None,
            exited_at: None,
            printed: 0,
            exceeded: None,
        }
    }

    /// Counts output bytes, before the output is classified.
    pub(super) fn count(&mut self, bytes: usize) {
        self.printed = self.printed.saturating_add(bytes as u64);
    }

    /// Notes that a limit was exceeded that is watched elsewhere.
    pub(super) fn exceed(&mut self, limit: Limit) {
        self.exceeded.get_or_insert(limit);
    }

    /// Processes an event, checks every timer, and returns what to do.
    ///
    /// The timers are checked on every input, or a child that prints all the time would never time
    /// out.
    pub(super) fn step(&mut self, input: Input, now: Duration) -> Action {
        match input {
            Input::Heard(output) => self.hear(output, now),
            Input::Eof => self.open_pipes = self.open_pipes.saturating_sub(1),
            Input::Exited => {
                self.pass_soft_limit(now);
                self.exited_at = Some(now);
                self.phase = Phase::Draining { since: now, quiet: now };
            }
            Input::Interrupted => {
                if self.phase == Phase::Running {
                    return self.terminate(Cause::Interrupted, now);
                }
            }
            Input::Swept => {
                self.phase = Phase::Emptying { since: now, quiet: now };
            }
            Input::Quiet => {}
        }
        self.look_at_timers(now)
    }

    /// Returns how long to wait for the next event.
    pub(super) fn patience(&self, now: Duration) -> Duration {
        let next = match self.phase {
            Phase::Running => {
                let soft = match self.soft_limit {
                    SoftLimit::Kept => self.limits.soft,
                    SoftLimit::Passed => None,
                };
                [soft, self.deadline().map(|(at, _)| at)].into_iter().flatten().min()
            }
            Phase::Terminating { since } => Some(since.saturating_add(self.limits.grace)),
            Phase::Killed { since } => Some(since + UNKILLABLE),
            Phase::Draining { since, quiet } | Phase::Emptying { since, quiet } => {
                Some(self.drained_at(since, quiet))
            }
            Phase::Sweeping => Some(now),
        };
        next.map_or(TICK, |at| at.saturating_sub(now).min(TICK))
    }

    /// Returns how it ended. `by_itself` is the exit status from the system.
    pub(super) fn ending(&self, by_itself: Ending) -> Ending {
        match self.ended {
            Some((Cause::Limit(limit), force)) => Ending::TimedOut { limit, force },
            Some((Cause::Lingered, force)) => Ending::Lingered { force },
            Some((Cause::Interrupted, force)) => Ending::Interrupted { force },
            None => by_itself,
        }
    }

    /// Returns whether the child itself has exited; one that the kernel blocks may not have.
    pub(super) fn has_exited(&self) -> bool {
        self.exited_at.is_some()
    }

    /// Returns whether ralph ended it.
    pub(super) fn was_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns how long the child ran, until its exit.
    pub(super) fn ran(&self, now: Duration) -> Duration {
        self.exited_at.unwrap_or(now)
    }

    /// Returns whether it ran past its soft limit.
    pub(super) fn soft_limit(&self) -> SoftLimit {
        self.soft_limit
    }

    /// Returns whether something held a pipe open past the drain limit.
    pub(super) fn held_pipe(&self) -> bool {
        self.held_pipe
    }

    fn hear(&mut self, output: Heard, now: Duration) {
        match output {
            Heard::Useful => {
                self.last_useful = now;
                self.final_word = None;
            }
            Heard::Noise => {}
            Heard::Final => self.final_word = Some(now),
        }
        match &mut self.phase {
            Phase::Draining { quiet, .. } | Phase::Emptying { quiet, .. } => *quiet = now,
            Phase::Running | Phase::Terminating { .. } | Phase::Killed { .. } | Phase::Sweeping => {
            }
        }
    }

    fn look_at_timers(&mut self, now: Duration) -> Action {
        match self.phase {
            Phase::Running => {
                self.pass_soft_limit(now);
                match self.deadline() {
                    Some((at, cause)) if now >= at => self.terminate(cause, now),
                    Some(_) | None => Action::Listen,
                }
            }
            Phase::Terminating { since } if now >= since.saturating_add(self.limits.grace) => {
                self.ended = self.ended.map(|(cause, _)| (cause, Force::Killed));
                self.phase = Phase::Killed { since: now };
                Action::Kill
            }
            Phase::Killed { since } if now >= since + UNKILLABLE => self.sweep(),
            Phase::Draining { since, quiet } => self.look_at_pipes(since, quiet, now, Self::sweep),
            Phase::Emptying { since, quiet } => {
                self.look_at_pipes(since, quiet, now, |_| Action::Done)
            }
            Phase::Terminating { .. } | Phase::Killed { .. } | Phase::Sweeping => Action::Listen,
        }
    }

    fn look_at_pipes(
        &mut self,
        since: Duration,
        quiet: Duration,
        now: Duration,
        then: fn(&mut Self) -> Action,
    ) -> Action {
        if self.open_pipes == 0 {
            return then(self);
        }
        // A child that cannot be killed keeps its own pipes; that is not a held pipe.
        if now >= self.drained_at(since, quiet) {
            self.held_pipe |= self.has_exited();
            return then(self);
        }
        Action::Listen
    }

    /// Returns when the child is to be ended if nothing changes, and why.
    fn deadline(&self) -> Option<(Duration, Cause)> {
        if self.limits.output.is_some_and(|most| self.printed > most) {
            return Some((Duration::ZERO, Cause::Limit(Limit::Output)));
        }
        if let Some(limit) = self.exceeded {
            return Some((Duration::ZERO, Cause::Limit(limit)));
        }
        let hard = self.limits.hard;
        if let (Some(printed), Some(linger)) = (self.final_word, self.limits.linger) {
            // The result is complete: reaching the hard limit first does not invalidate it.
            let at = printed.saturating_add(linger);
            let at = hard.map_or(at, |hard| hard.min(at));
            return Some((at, Cause::Lingered));
        }
        let idle = self.limits.idle.map(|idle| self.last_useful.saturating_add(idle));
        match (hard, idle) {
            (Some(hard), Some(idle)) if idle < hard => Some((idle, Cause::Limit(Limit::Idle))),
            (Some(hard), Some(_) | None) => Some((hard, Cause::Limit(Limit::Hard))),
            (None, Some(idle)) => Some((idle, Cause::Limit(Limit::Idle))),
            (None, None) => None,
        }
    }

    /// Returns when an open pipe counts as held by another process.
    fn drained_at(&self, since: Duration, quiet: Duration) -> Duration {
        let drain = self.limits.drain;
        let at_most = since.saturating_add(drain.saturating_mul(DRAIN_ROUNDS));
        quiet.saturating_add(drain).min(at_most)
    }

    fn pass_soft_limit(&mut self, now: Duration) {
        if self.exited_at.is_none() && self.limits.soft.is_some_and(|soft| now >= soft) {
            self.soft_limit = SoftLimit::Passed;
        }
    }

    fn terminate(&mut self, cause: Cause, now: Duration) -> Action {
        self.ended = Some((cause, Force::Terminated));
        self.phase = Phase::Terminating { since: now };
        Action::Terminate
    }

    fn sweep(&mut self) -> Action {
        self.phase = Phase::Sweeping;
        Action::Sweep
    }
}

/// Running time: the time during which this process runs.
///
/// A suspended machine or a stopped ralph leaves a gap between two readings; a gap longer than the
/// longest wait counts as one tick.
#[derive(Debug)]
pub(super) struct RunningTime {
    last: Duration,
    total: Duration,
}

impl RunningTime {
    /// Starts at zero, with the first reading of a clock.
    pub(super) fn from(reading: Duration) -> Self {
        Self { last: reading, total: Duration::ZERO }
    }

    /// Takes the next reading and returns the running time so far.
    pub(super) fn advance(&mut self, reading: Duration) -> Duration {
        let gap = reading.saturating_sub(self.last);
        self.last = reading;
        self.total += if gap > STANDSTILL { TICK } else { gap };
        self.total
    }
}

#[cfg(test)]
mod tests;
