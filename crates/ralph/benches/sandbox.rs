//! Measures a start in the sandbox: every agent, gate and git command starts in one.
//!
//! `/bin/true` alone, and in a sandbox of each backend that works here, in turns. The figures are those
//! of one sandboxed git command, from launch to end; the backend is chosen and tried before.
//! `cargo bench -p ralph --bench sandbox` prints them; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "sandbox/cells.rs"]
mod cells;

use std::time::Duration;

use ralph_io::sandbox::Launcher;
use ralph_model::sandbox::Backend;
use ralph_testkit::measure::{Times, measure_time, to_milliseconds};
use ralph_testkit::sealed::Sealed;

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// A short run has as many children.
const ROUNDS: usize = 300;

fn main() {
    let sealed = Sealed::with_repository(RALPH);
    let mut launchers = vec![("directly", Launcher::Direct)];
    for backend in [Backend::Native, Backend::Bwrap, Backend::Landlock] {
        match cells::launcher(&sealed, backend) {
            Ok(launcher) => launchers.push((backend.name(), launcher)),
            Err(why) => println!("{backend}: left out, {why}"),
        }
    }
    // The number of backends is known only here, so the turns are taken by hand.
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); launchers.len()];
    for _ in 0..ROUNDS {
        for ((_, launcher), times) in launchers.iter().zip(&mut times) {
            times.push(measure_time(|| cells::start(&sealed, launcher)).0);
        }
    }
    for ((name, _), times) in launchers.iter().zip(times) {
        let median = to_milliseconds(Times::from(times).median());
        println!("{name:<10} {median:>9.2} ms, median");
    }
}
