//! Measuring for benchmarks: times in turns, medians and percentiles, the peak memory of a process.
//!
//! What is compared takes turns, so that whatever else the machine does meets both. Not here: what
//! is measured, and what a figure is held against.

use std::fs;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// The times of one thing that was measured again and again, in order.
#[derive(Debug, Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Returns the time that half of the others are below.
    pub fn median(&self) -> Duration {
        self.permille(500)
    }

    /// Returns the shortest time.
    pub fn best(&self) -> Duration {
        self.permille(0)
    }

    /// Returns the time that this many of a thousand are below.
    pub fn permille(&self, part: usize) -> Duration {
        self.0[(self.0.len() * part / 1000).min(self.0.len() - 1)]
    }

    /// Returns how many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<Duration>> for Times {
    fn from(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "something was measured");
        times.sort_unstable();
        Self(times)
    }
}

/// Does something, and returns how long that took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = work();
    (begun.elapsed(), result)
}

/// Does several things in turns, a number of rounds, and returns how long each of them took.
///
/// A round before the first is not counted: it reads what is not in memory yet.
pub fn in_turns<const THINGS: usize>(
    rounds: usize,
    mut things: [&mut dyn FnMut(); THINGS],
) -> [Times; THINGS] {
    let mut times = [const { Vec::new() }; THINGS];
    for round in 0..=rounds {
        for (thing, times) in things.iter_mut().zip(&mut times) {
            let (took, ()) = timed(thing);
            if round > 0 {
                times.push(took);
            }
        }
    }
    times.map(Times::from)
}

/// Does one thing a number of rounds, and returns how long it took.
pub fn again_and_again(rounds: usize, mut thing: impl FnMut()) -> Times {
    let [times] = in_turns(rounds, [&mut thing]);
    times
}

/// Returns how many times as long the first took.
pub fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

/// Returns a time in milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Runs a command that must succeed, and returns how long it took from start to end.
#[track_caller]
pub fn run(command: &mut Command) -> Duration {
    let (took, status) = timed(|| command.status().expect("it starts"));
    assert!(status.success(), "{command:?}: {status}");
    took
}

/// Returns the most memory in KiB that a living process ever held, as far as the system tells.
pub fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Waits for a child, and returns how it ended and the most memory in KiB that it held.
pub fn watched(mut child: Child, every: Duration) -> (ExitStatus, u64) {
    let mut peak = 0;
    loop {
        // The peak outlives what made it, so that only the last moment can be missed.
        peak = peak.max(peak_memory(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return (status, peak);
        }
        thread::sleep(every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = Times::from((1..=200).rev().map(Duration::from_millis).collect::<Vec<_>>());
        let told = [0, 500, 950, 990, 1000].map(|part| times.permille(part).as_millis());
        assert_eq!(told, [1, 101, 191, 199, 200]);
        assert_eq!((times.median().as_millis(), times.best().as_millis()), (101, 1));
    }

    #[test]
    fn a_round_that_warms_up_is_not_counted() {
        let (mut one, mut other) = (0, 0);
        let [times, others] = in_turns(3, [&mut || one += 1, &mut || other += 1]);
        assert_eq!((one, other, times.len(), others.len()), (4, 4, 3, 3));
    }

    #[test]
    fn the_memory_of_a_process_is_told_while_it_lives() {
        assert!(peak_memory(std::process::id()).is_some_and(|peak| peak > 1000));
        let child = Command::new("/bin/true").spawn().expect("it starts");
        assert!(watched(child, Duration::from_millis(1)).0.success());
    }
}
