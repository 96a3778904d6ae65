//! Measures reading the kept figures of a thousand runs, as `ralph stats` does.
//!
//! `cargo bench -p ralph --bench stats` prints the figure; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use ralph_core::reporting::stats::{
    GateRuns, ProjectStats, RunStats, STATS_VERSION, StatsFigures, StatsRow,
};
use ralph_io::store::{RunDir, stats_file};
use ralph_model::ids::{Role, RunId};
use ralph_model::units::{Millis, Timestamp, Tokens, UsdMicros};
use ralph_testkit::measure::{measure_repeated, to_milliseconds};

const RUNS: u32 = 1_000;

fn main() {
    let state = tempfile::tempdir().expect("a directory");
    for number in 0..RUNS {
        write_run(state.path(), number);
    }
    let took = measure_repeated(21, || {
        let runs = stats_file::list_run_dirs(state.path());
        let kept = runs.iter().filter_map(stats_file::read_stats);
        let sum = ProjectStats::from_runs(kept);
        assert_eq!(sum.runs, RUNS);
        black_box(sum);
    });
    println!(
        "{:8.3} ms  the figures of {RUNS} runs (limit: 100 ms)",
        to_milliseconds(took.median())
    );
}

/// Writes a run with three roles and four gates.
fn write_run(state: &Path, number: u32) {
    let directory = state.join("runs").join(format!("20261114-231500-{number:04}"));
    fs::create_dir_all(&directory).expect("a directory");
    let files = RunDir::from_path(directory);
    fs::write(files.journal_path(), "{}\n").expect("written");
    let gates = ["lint", "tests", "types", "style"].map(str::to_owned);
    let figures = StatsFigures {
        calls: 30,
        attempts: 12,
        landed: 9,
        rejections: 2,
        gate_failures: gates.iter().map(|gate| (gate.clone(), 2)).collect(),
        ran: Millis(900_000),
        tokens: Tokens(1_000_000),
        cost: Some(UsdMicros(2_000_000)),
    };
    let row = |role| StatsRow {
        agent: "claude".to_owned(),
        model: "opus".to_owned(),
        role,
        figures: figures.clone(),
    };
    let counted: BTreeMap<_, _> = gates
        .into_iter()
        .map(|gate| (gate, GateRuns { runs: 12, failed: 2, ..GateRuns::default() }))
        .collect();
    let counted_run = RunStats {
        version: STATS_VERSION,
        run: RunId(number.to_string()),
        started: Timestamp(i64::from(number)),
        is_complete: true,
        rows: [Role::Implement, Role::Review, Role::Fix].map(row).to_vec(),
        gates: counted,
        waits: 1,
        waited: Millis(60_000),
    };
    stats_file::keep_stats(&files, &counted_run);
}
