//! The limits of one child from start to end: which limit runs, what follows from an event.
//!
//! A pure state machine: `(state, input, now) -> action`. `now` is running time since the start.
//!
//! Not here: processes, pipes, clocks. `supervise` calls it and performs its actions.

use std::time::Duration;

use ralph_model::child::{Ending, Force, Limit, SoftLimit};

use super::spawn::ProcessLimits;

/// What a piece of output says about the child's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputActivity {
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
pub(super) enum LimitInput {
    /// The child printed something.
    Output(OutputActivity),
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
pub(super) enum ChildAction {
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
const SUSPENDED_AFTER: Duration = Duration::from_secs(3);

/// How many drain limits a pipe gets that is held open and still written to: what the child itself
/// left in it is far less.
const DRAIN_ROUNDS: u32 = 4;

/// A killed process exits at once unless the kernel blocks it, as on a dead network disk.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// The state of one child.
#[derive(Debug)]
pub(super) struct LimitTracker {
    limits: ProcessLimits,
    phase: ChildPhase,
    open_pipes: u8,
    last_useful: Duration,
    final_output: Option<Duration>,
    soft_limit: SoftLimit,
    held_pipe: bool,
    ended: Option<(EndCause, Force)>,
    exited_at: Option<Duration>,
    printed: u64,
    exceeded: Option<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildPhase {
    Running,
    Terminating { since: Duration },
    Killed { since: Duration },
    Draining { since: Duration, quiet: Duration },
    Sweeping,
    Emptying { since: Duration, quiet: Duration },
}

/// Why ralph ended a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndCause {
    Limit(Limit),
    Lingered,
    Interrupted,
}

impl LimitTracker {
    /// Returns the state of a child that starts now, with both pipes open.
    pub(super) fn new(limits: ProcessLimits) -> Self {
        Self {
            limits,
            phase: ChildPhase::Running,
            open_pipes: 2,
            last_useful: Duration::ZERO,
            final_output: None,
            soft_limit: SoftLimit::Kept,
            held_pipe: false,
            ended: None,
            exited_at: None,
            printed: 0,
            exceeded: None,
        }
    }

    /// Counts output bytes, before the output is classified.
    pub(super) fn count_bytes(&mut self, bytes: usize) {
        self.printed = self.printed.saturating_add(bytes as u64);
    }

    /// Notes that a limit was exceeded that is watched elsewhere.
    pub(super) fn note_exceeded(&mut self, limit: Limit) {
        self.exceeded.get_or_insert(limit);
    }

    /// Processes an event, checks every timer, and returns what to do.
    ///
    /// The timers are checked on every input, or a child that prints all the time would never time
    /// out.
    pub(super) fn process_input(&mut self, input: LimitInput, now: Duration) -> ChildAction {
        match input {
            LimitInput::Output(output) => self.note_output(output, now),
            LimitInput::Eof => self.open_pipes = self.open_pipes.saturating_sub(1),
            LimitInput::Exited => {
                self.pass_soft_limit(now);
                self.exited_at = Some(now);
                self.phase = ChildPhase::Draining { since: now, quiet: now };
            }
            LimitInput::Interrupted => {
                if self.phase == ChildPhase::Running {
                    return self.start_terminating(EndCause::Interrupted, now);
                }
            }
            LimitInput::Swept => {
                self.phase = ChildPhase::Emptying { since: now, quiet: now };
            }
            LimitInput::Quiet => {}
        }
        self.check_timers(now)
    }

    /// Returns how long to wait for the next event.
    pub(super) fn compute_patience(&self, now: Duration) -> Duration {
        let next = match self.phase {
            ChildPhase::Running => {
                let soft = match self.soft_limit {
                    SoftLimit::Kept => self.limits.soft,
                    SoftLimit::Passed => None,
                };
                [soft, self.next_deadline().map(|(at, _)| at)].into_iter().flatten().min()
            }
            ChildPhase::Terminating { since } => Some(since.saturating_add(self.limits.grace)),
            ChildPhase::Killed { since } => Some(since + KILL_PATIENCE),
            ChildPhase::Draining { since, quiet } | ChildPhase::Emptying { since, quiet } => {
                Some(self.compute_drain_end(since, quiet))
            }
            ChildPhase::Sweeping => Some(now),
        };
        next.map_or(TICK, |at| at.saturating_sub(now).min(TICK))
    }

    /// Returns how it ended. `by_itself` is the exit status from the system.
    pub(super) fn to_ending(&self, by_itself: Ending) -> Ending {
        match self.ended {
            Some((EndCause::Limit(limit), force)) => Ending::TimedOut { limit, force },
            Some((EndCause::Lingered, force)) => Ending::Lingered { force },
            Some((EndCause::Interrupted, force)) => Ending::Interrupted { force },
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
    pub(super) fn compute_running_time(&self, now: Duration) -> Duration {
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

    fn note_output(&mut self, output: OutputActivity, now: Duration) {
        match output {
            OutputActivity::Useful => {
                self.last_useful = now;
                self.final_output = None;
            }
            OutputActivity::Noise => {}
            OutputActivity::Final => self.final_output = Some(now),
        }
        match &mut self.phase {
            ChildPhase::Draining { quiet, .. } | ChildPhase::Emptying { quiet, .. } => *quiet = now,
            ChildPhase::Running
            | ChildPhase::Terminating { .. }
            | ChildPhase::Killed { .. }
            | ChildPhase::Sweeping => {}
        }
    }

    fn check_timers(&mut self, now: Duration) -> ChildAction {
        match self.phase {
            ChildPhase::Running => {
                self.pass_soft_limit(now);
                match self.next_deadline() {
                    Some((at, cause)) if now >= at => self.start_terminating(cause, now),
                    Some(_) | None => ChildAction::Listen,
                }
            }
            ChildPhase::Terminating { since } if now >= since.saturating_add(self.limits.grace) => {
                self.ended = self.ended.map(|(cause, _)| (cause, Force::Killed));
                self.phase = ChildPhase::Killed { since: now };
                ChildAction::Kill
            }
            ChildPhase::Killed { since } if now >= since + KILL_PATIENCE => self.start_sweeping(),
            ChildPhase::Draining { since, quiet } => {
                self.check_pipes(since, quiet, now, Self::start_sweeping)
            }
            ChildPhase::Emptying { since, quiet } => {
                self.check_pipes(since, quiet, now, |_| ChildAction::Done)
            }
            ChildPhase::Terminating { .. } | ChildPhase::Killed { .. } | ChildPhase::Sweeping => {
                ChildAction::Listen
            }
        }
    }

    fn check_pipes(
        &mut self,
        since: Duration,
        quiet: Duration,
        now: Duration,
        then: fn(&mut Self) -> ChildAction,
    ) -> ChildAction {
        if self.open_pipes == 0 {
            return then(self);
        }
        // A child that cannot be killed keeps its own pipes; that is not a held pipe.
        if now >= self.compute_drain_end(since, quiet) {
            self.held_pipe |= self.has_exited();
            return then(self);
        }
        ChildAction::Listen
    }

    /// Returns when the child is to be ended if nothing changes, and why.
    fn next_deadline(&self) -> Option<(Duration, EndCause)> {
        if self.limits.output.is_some_and(|most| self.printed > most) {
            return Some((Duration::ZERO, EndCause::Limit(Limit::Output)));
        }
        if let Some(limit) = self.exceeded {
            return Some((Duration::ZERO, EndCause::Limit(limit)));
        }
        let hard = self.limits.hard;
        if let (Some(printed), Some(linger)) = (self.final_output, self.limits.linger) {
            // The result is complete: reaching the hard limit first does not invalidate it.
            let at = printed.saturating_add(linger);
            let at = hard.map_or(at, |hard| hard.min(at));
            return Some((at, EndCause::Lingered));
        }
        let idle = self.limits.idle.map(|idle| self.last_useful.saturating_add(idle));
        match (hard, idle) {
            (Some(hard), Some(idle)) if idle < hard => Some((idle, EndCause::Limit(Limit::Idle))),
            (Some(hard), Some(_) | None) => Some((hard, EndCause::Limit(Limit::Hard))),
            (None, Some(idle)) => Some((idle, EndCause::Limit(Limit::Idle))),
            (None, None) => None,
        }
    }

    /// Returns when an open pipe counts as held by another process.
    fn compute_drain_end(&self, since: Duration, quiet: Duration) -> Duration {
        let drain = self.limits.drain;
        let at_most = since.saturating_add(drain.saturating_mul(DRAIN_ROUNDS));
        quiet.saturating_add(drain).min(at_most)
    }

    fn pass_soft_limit(&mut self, now: Duration) {
        if self.exited_at.is_none() && self.limits.soft.is_some_and(|soft| now >= soft) {
            self.soft_limit = SoftLimit::Passed;
        }
    }

    fn start_terminating(&mut self, cause: EndCause, now: Duration) -> ChildAction {
        self.ended = Some((cause, Force::Terminated));
        self.phase = ChildPhase::Terminating { since: now };
        ChildAction::Terminate
    }

    fn start_sweeping(&mut self) -> ChildAction {
        self.phase = ChildPhase::Sweeping;
        ChildAction::Sweep
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
    pub(super) fn from_reading(reading: Duration) -> Self {
        Self { last: reading, total: Duration::ZERO }
    }

    /// Takes the next reading and returns the running time so far.
    pub(super) fn advance(&mut self, reading: Duration) -> Duration {
        let gap = reading.saturating_sub(self.last);
        self.last = reading;
        self.total += if gap > SUSPENDED_AFTER { TICK } else { gap };
        self.total
    }
}

#[cfg(test)]
mod tests;
