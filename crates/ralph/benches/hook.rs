//! Measures hooks, which run before and after every tool call, so they must cost next to nothing.
//!
//! `ralph hook post-tool-use` is compared with `/bin/true`, in turns, with transcripts of 1, 10 and
//! 100 MB, whose last answer is near the end as in a real one, and without a transcript. The guard
//! (`ralph hook pre-tool-use`) is given every line of its tables within a run.
//! `cargo bench -p ralph --bench hook` prints the figures; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "hook/inputs.rs"]
mod inputs;

use std::path::Path;
use std::process::Command;

use ralph_testkit::measure::{
    Times, calculate_ratio, measure_alternating, measure_time, to_milliseconds,
};
use ralph_testkit::sealed::Sealed;

use inputs::give;

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// How often the guard is given each line.
const TIMES: usize = 3;

/// As many as a long session has tool calls.
const ROUNDS: usize = 300;

fn main() {
    let sealed = Sealed::new(RALPH);
    let bare = inputs::input(&sealed, Path::new("/nowhere"));
    let [small, middle, large] = [1, 10, 100]
        .map(|megabytes| inputs::input(&sealed, &inputs::transcript(&sealed, megabytes)));
    let hook =
        |input: &Path| give(sealed.build_command(RALPH).args(["hook", "post-tool-use"]), input);
    let [nothing, rest @ ..] = measure_alternating(
        ROUNDS,
        [
            &mut || give(&mut Command::new("/bin/true"), &bare),
            &mut || give(sealed.build_command(RALPH).arg("--version"), &bare),
            &mut || hook(&bare),
            &mut || hook(&small),
            &mut || hook(&middle),
            &mut || hook(&large),
        ],
    )
    .map(|times| times.median());
    println!("{:<32} {:>8.2} ms", "/bin/true", to_milliseconds(nothing));
    let names = [
        "ralph --version",
        "hook, no transcript",
        "hook, 1 MB transcript",
        "hook, 10 MB transcript",
        "hook, 100 MB transcript",
    ];
    for (what, time) in names.into_iter().zip(rest) {
        println!(
            "{what:<32} {:>8.2} ms, ratio {:.2}",
            to_milliseconds(time),
            calculate_ratio(time, nothing)
        );
    }
    guard(&sealed);
}

/// Times the guard over its tables, in turns with a process that does nothing.
fn guard(sealed: &Sealed) {
    let active = inputs::active(sealed);
    let (mut guarded, mut nothing) = (Vec::new(), Vec::new());
    for call in inputs::calls(sealed) {
        for _ in 0..TIMES {
            nothing.push(measure_time(|| give(&mut Command::new("/bin/true"), &call)).0);
            let mut hook = sealed.build_command(RALPH);
            hook.args(["hook", "pre-tool-use"]).env("RALPH_ACTIVE", &active);
            hook.env("RALPH_RUN_ID", "bench");
            guarded.push(measure_time(|| give(&mut hook, &call)).0);
        }
    }
    println!("{:<32} {:>8} {:>8} {:>8} {:>8}", "the guard", "median", "p95", "p99", "max");
    for (what, times) in [("/bin/true", nothing), ("hook pre-tool-use", guarded)] {
        let times = Times::from(times);
        let figures = [500, 950, 990, 1000]
            .map(|part| format!("{:>8.2}", to_milliseconds(times.find_permille(part))))
            .join(" ");
        println!("{what:<32} {figures} ms, {} calls", times.len());
    }
}
