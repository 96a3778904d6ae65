//! Measurements for benchmarks: alternating timings, medians and percentiles, the peak memory of
//! a process.
//!
//! Compared functions alternate, so that other load on the machine affects both. Not here: what
//! is measured, and which figures are acceptable.

use std::fs;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Sorted timings of repeated measurements.
#[derive(Debug, Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Returns the median.
    pub fn median(&self) -> Duration {
        self.find_permille(500)
    }

    /// Returns the time that this many of a thousand are below.
    pub fn find_permille(&self, part: usize) -> Duration {
        self.0[(self.0.len() * part / 1000).min(self.0.len() - 1)]
    }

    /// Returns the number of samples.
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

/// Runs a function and returns how long it took.
pub fn measure_time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = work();
    (begun.elapsed(), result)
}

/// Runs several functions alternately for a number of rounds, and returns how long each of them
/// took.
///
/// A warm-up round before the first is not counted.
pub fn measure_alternating<const THINGS: usize>(
    rounds: usize,
    mut things: [&mut dyn FnMut(); THINGS],
) -> [Times; THINGS] {
    let mut times = [const { Vec::new() }; THINGS];
    for round in 0..=rounds {
        for (thing, times) in things.iter_mut().zip(&mut times) {
            let (took, ()) = measure_time(thing);
            if round > 0 {
                times.push(took);
            }
        }
    }
    times.map(Times::from)
}

/// Runs one function for a number of rounds, and returns how long it took.
pub fn measure_repeated(rounds: usize, mut thing: impl FnMut()) -> Times {
    let [times] = measure_alternating(rounds, [&mut thing]);
    times
}

/// Returns the ratio of two durations.
pub fn calculate_ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

/// Returns a time in milliseconds.
pub fn to_milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Runs a command that must succeed, and returns how long it took.
#[track_caller]
pub fn time_command(command: &mut Command) -> Duration {
    let (took, status) = measure_time(|| command.status().expect("it starts"));
    assert!(status.success(), "{command:?}: {status}");
    took
}

/// Returns the peak memory in KiB of a running process, if the system reports it.
pub fn read_peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Waits for a child, and returns how it ended and its peak memory in KiB.
pub fn wait_with_peak_memory(mut child: Child, every: Duration) -> (ExitStatus, u64) {
    let mut peak = 0;
    loop {
        // The kernel keeps the peak, so only the last moment can be missed.
        peak = peak.max(read_peak_memory(child.id()).unwrap_or(0));
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
    fn percentiles_are_measured_times() {
        let times = Times::from((1..=200).rev().map(Duration::from_millis).collect::<Vec<_>>());
        let found = [0, 500, 950, 990, 1000].map(|part| times.find_permille(part).as_millis());
        assert_eq!(found, [1, 101, 191, 199, 200]);
        assert_eq!((times.median().as_millis(), times.find_permille(0).as_millis()), (101, 1));
    }

    #[test]
    fn the_warm_up_round_is_not_counted() {
        let (mut one, mut other) = (0, 0);
        let [times, others] = measure_alternating(3, [&mut || one += 1, &mut || other += 1]);
        assert_eq!((one, other, times.len(), others.len()), (4, 4, 3, 3));
    }

    #[test]
    fn memory_is_reported_while_a_process_runs() {
        assert!(read_peak_memory(std::process::id()).is_some_and(|peak| peak > 1000));
        let child = Command::new("/bin/true").spawn().expect("it starts");
        assert!(wait_with_peak_memory(child, Duration::from_millis(1)).0.success());
    }
}
