//! Clocks that are changed during a run, by a library between ralph and the time of day. The clock
//! that limits use stays as it is, as on a real machine.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_testkit::sealed::{Running, Sealed};
use serde_json::{Value, json};

use super::leave_out;
use crate::sealed;

const DAY: i64 = 24 * 3600;

fn library() -> Option<PathBuf> {
    let places = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|it| it.path());
    let places = places.chain(["/usr/lib".into(), "/usr/local/lib".into()]);
    let mut files = places.map(|it: PathBuf| it.join("faketime/libfaketimeMT.so.1"));
    let found = files.find(|path| path.exists());
    if found.is_none() {
        leave_out("clocks that are set", "libfaketime is not installed");
    }
    found
}

/// Sets the clock of an environment this many seconds apart from the real one.
fn set(sealed: &Sealed, seconds: i64) {
    let file = sealed.root().join("clock");
    let next = sealed.root().join("clock.next");
    fs::write(&next, format!("{seconds:+}\n")).expect("written");
    fs::rename(next, file).expect("renamed");
}

fn start(sealed: &Sealed, library: &Path) -> Running {
    set(sealed, 0);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command
        .args(["run", "-p", "base", "--max-time", "10m"])
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", sealed.root().join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    Running::start_command(command)
}

fn begins_and_waits() -> Value {
    json!([{ "touch": "begun" }, { "waitFor": { "path": "continue" } }, { "claim": "DONE" }])
}

#[test]
fn a_clock_that_is_set_ends_neither_a_call_nor_a_gate() {
    let Some(library) = library() else { return };
    let limits = json!({ "implement": { "soft": "20s", "hard": "30s" }, "idle": "30s" });
    for seconds in [DAY, -DAY, 400 * DAY] {
        let sealed = sealed();
        sealed.write_script(&json!([{ "do": begins_and_waits() }]), &json!({ "timeouts": limits }));
        let running = start(&sealed, &library);
        sealed.wait_for("begun");
        set(&sealed, seconds);
        sealed.write_file("continue", "");
        running.wait_for_end().expect_code(0);
        assert_eq!(sealed.find_events("asked").len(), 1, "{seconds}");
        let sealed = crate::sealed();
        let gate = "touch begun; while ! test -f continue; do sleep 0.01; done";
        let gate = json!({ "command": gate, "softTimeout": "20s", "hardTimeout": "30s" });
        sealed.write_script(&json!([{ "do": [{ "claim": "DONE" }] }]), &json!({ "gates": [gate] }));
        let running = start(&sealed, &library);
        sealed.wait_for("begun");
        set(&sealed, seconds);
        sealed.write_file("continue", "");
        running.wait_for_end().expect_code(0);
        assert_eq!(sealed.find_events("gate_checked").len(), 1, "{seconds}");
        // Later events are later in the journal, whatever the clock showed.
        let journal = fs::read_to_string(sealed.runs()[0].join("journal.jsonl")).expect("it");
        let times: Vec<i64> = journal
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["at"].as_i64())
            .collect();
        assert!(times.is_sorted(), "{seconds}: {times:?}");
    }
}

/// An agent that is refused once, by a limit that resets in this many seconds.
fn refused(sealed: &Sealed, seconds: i64) {
    let refused = json!([
        { "rateLimit": { "status": "rejected", "resets": { "in": seconds } } },
        { "result": { "error": { "class": "rateLimited", "words": "limit" } } }
    ]);
    let calls = json!([{ "when": { "ask": 1 }, "do": refused }, { "do": [{ "claim": "DONE" }] }]);
    sealed.write_script(&calls, &json!({}));
}

#[test]
fn wait_for_a_time_of_day_follows_the_clock() {
    let Some(library) = library() else { return };
    let sealed = sealed();
    refused(&sealed, 3_000);
    let mut running = start(&sealed, &library);
    running.wait_for("waiting until");
    set(&sealed, 3_100);
    running.wait_for_end().expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 2);
}

#[test]
fn clock_set_back_does_not_extend_a_wait() {
    let Some(library) = library() else { return };
    let sealed = sealed();
    refused(&sealed, 1);
    let mut running = start(&sealed, &library);
    running.wait_for("waiting until");
    set(&sealed, -DAY);
    running.wait_for_end().expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 2);
}
