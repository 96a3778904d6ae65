//! Measures ralph itself: start-up, the gap between two iterations, memory under a flood.
//!
//! Every figure has a baseline measured in the same run, because absolute times say
//! more about the machine than about ralph. `cargo bench` prints them all; nothing is asserted.
//! The agent is this very program, started again, so that nothing but ralph is measured.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "loop/flood.rs"]
mod flood;
#[path = "loop/gaps.rs"]
mod gaps;

use std::process::{Command, Stdio};
use std::time::Duration;

use ralph_testkit::measure::{Times, calculate_ratio, measure_alternating, time_command};

use gaps::{Landing, Place, Walls};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("agent") => return gaps::agent(),
        Some("print-flood") => return flood::flood(words[2].parse().expect("a number of bytes")),
        Some(_) | None => {}
    }
    start_up();
    first_agent();
    gap("nothing committed", &Place::with_files(Landing::Nothing, Walls::None, 0));
    gap("each iteration committed", &Place::with_files(Landing::Commit, Walls::None, 0));
    if gaps::has_native_sandbox() {
        let place = Place::with_files(Landing::Commit, Walls::Native, 0);
        gap("each iteration committed, in the sandbox", &place);
    }
    long_history();
    memory();
}

fn start_up() {
    let mut nothing = || {
        time_command(Command::new("/bin/true").stdout(Stdio::null()));
    };
    let mut version = || {
        time_command(Command::new(RALPH).arg("--version").stdout(Stdio::null()));
    };
    let [nothing, ralph] =
        measure_alternating(200, [&mut nothing, &mut version]).map(|times| times.median());
    println!(
        "start-up: `ralph --version` {ralph:.2?}, `/bin/true` {nothing:.2?}, ratio {:.2}",
        calculate_ratio(ralph, nothing)
    );
}

/// The time from the start of ralph to that of its first agent, against a direct start.
fn first_agent() {
    let place = Place::with_files(Landing::Commit, Walls::None, 0);
    let times: Vec<_> =
        (0..20).map(|_| (place.time_to_first_agent(), place.time_to_direct_agent())).collect();
    let (ours, direct): (Vec<_>, Vec<_>) = times.into_iter().unzip();
    let [ours, direct] = [ours, direct].map(|times| Times::from(times).median());
    println!("first agent: {ours:.2?}, a direct start of it {direct:.2?}");
}

/// The time from one agent's end to the next one's start, against a start of the agent and what a
/// user would type to commit. Both take turns, ten iterations each.
fn gap(what: &str, place: &Place) {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        ours.extend(place.ralph(10).gaps);
        bare.extend(place.bare(10));
    }
    let [ours, bare] = [ours, bare].map(|times| Times::from(times).median());
    println!(
        "gap, {what}: ralph {ours:.2?}, by hand {bare:.2?}, ratio {:.2}",
        calculate_ratio(ours, bare)
    );
}

/// Whether an iteration costs the same after a long history.
fn long_history() {
    let gaps::Ran { gaps, peak } =
        Place::with_files(Landing::Nothing, Walls::None, 0).ralph(10_000);
    let of = |gaps: &[Duration]| Times::from(gaps.to_vec()).median();
    let (early, late) = (of(&gaps[..1_000]), of(&gaps[gaps.len() - 1_000..]));
    println!(
        "gap, last 1 000 of 10 000 iterations: {late:.2?}, first 1 000: {early:.2?}, ratio {:.2}; \
         memory {peak} KiB at most",
        calculate_ratio(late, early)
    );
}

/// The most memory that ralph holds while an agent prints a gibibyte.
fn memory() {
    for mebibytes in [16, 1024] {
        let (peak, took) = flood::peak_while_flooded(mebibytes << 20);
        println!(
            "memory: {peak} KiB at most while the agent prints {mebibytes} MiB (in {took:.1?})"
        );
    }
}
