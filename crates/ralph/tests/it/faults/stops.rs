//! Stops: Ctrl-Z of ralph, and a suspended machine. Limits count running time; waits for a time of
//! day do not.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use ralph_testkit::sealed::{Running, Sealed, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::sealed;

/// How long a child may run here, and how much longer it is stopped.
const LIMIT: &str = "6s";
const LONGER: Duration = Duration::from_millis(7_200);

/// Whether a process is stopped.
fn is_stopped(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
}

/// Stops ralph like Ctrl-Z, for longer than its child may run; the child writes its pid.
fn stop_and_continue(sealed: &Sealed, running: &mut Running) {
    sealed.wait_for("../pid");
    let pid = fs::read_to_string(sealed.root().join("pid")).expect("a pid");
    running.send_signal(Signal::TSTP);
    wait_until("ralph is stopped", || is_stopped(&running.id().to_string()));
    // Its signal has been sent by then, and no other process sends one.
    wait_until("what it started is stopped with it", || is_stopped(&pid));
    thread::sleep(LONGER);
    running.send_signal(Signal::CONT);
    running.wait_for("Resuming after a stop of ");
    wait_until("the child continues", || !is_stopped(&pid));
    sealed.write_file("continue", "");
}

#[test]
fn a_stop_during_a_call_counts_against_no_limit() {
    let sealed = sealed();
    let actions = json!([
        { "run": { "command": "echo $PPID > ../pid.new; mv ../pid.new ../pid" } },
        { "waitFor": { "path": "continue" } },
        { "claim": "DONE" }
    ]);
    let limits = json!({ "implement": { "soft": "1s", "hard": LIMIT }, "idle": LIMIT });
    let budget = json!({ "maxTime": "7s" });
    sealed.write_script(
        &json!([{ "do": actions }]),
        &json!({ "timeouts": limits, "budget": budget }),
    );
    let mut running = sealed.start_ralph(&["run", "-p", "base"]);
    stop_and_continue(&sealed, &mut running);
    running.wait_for_end().expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 1);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn a_stop_during_a_gate_counts_against_no_limit() {
    let sealed = sealed();
    // A shell that waits for its child to begin cannot be stopped, so this one starts none.
    let command =
        "echo $$ > ../pid.new; mv ../pid.new ../pid; while ! test -f continue; do :; done";
    let gate = json!({ "command": command, "softTimeout": "1s", "hardTimeout": LIMIT });
    sealed.write_script(&json!([{ "do": [{ "claim": "DONE" }] }]), &json!({ "gates": [gate] }));
    let mut running = sealed.start_ralph(&["run", "-p", "base"]);
    stop_and_continue(&sealed, &mut running);
    running.wait_for_end().expect_code(0);
    assert_eq!(sealed.find_events("gate_checked").len(), 1);
    assert_eq!(sealed.survivors(), [""; 0]);
}

/// An agent that is refused once, by a limit that resets in five seconds.
fn refused() -> Value {
    json!([
        { "when": { "ask": 1 }, "do": [
            { "rateLimit": { "status": "rejected", "resets": { "in": 5 } } },
            { "result": { "error": { "class": "rateLimited", "words": "limit" } } }
        ] },
        { "do": [{ "claim": "DONE" }] }
    ])
}

#[test]
fn stopped_wait_ends_at_its_time_of_day() {
    for (stop, is_said) in [(Signal::TSTP, true), (Signal::STOP, false)] {
        let sealed = sealed();
        sealed.write_script(&refused(), &json!({}));
        let mut running = sealed.start_ralph(&["run", "-p", "base"]);
        running.wait_for("waiting until");
        running.send_signal(stop);
        wait_until("ralph is stopped", || is_stopped(&running.id().to_string()));
        // The limit resets within five seconds, plus one second of margin.
        thread::sleep(Duration::from_millis(6_200));
        running.send_signal(Signal::CONT);
        let resumed_at = Instant::now();
        let end = running.wait_for_end().expect_code(0);
        assert!(resumed_at.elapsed() < Duration::from_secs(4), "it had waited long enough");
        assert_eq!(end.stderr.contains("Resuming after a stop of "), is_said, "{}", end.stderr);
    }
}

/// All processes of an environment, stopped as by a machine that goes to sleep.
fn everything(sealed: &Sealed) -> Vec<Pid> {
    let runs = sealed.runs();
    let id = runs.last().and_then(|run| run.file_name()).expect("a run").to_string_lossy();
    let root = sealed.root().to_string_lossy();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = pid.filter(|pid| *pid > 1).and_then(Pid::from_raw) else { continue };
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let text = [read("cmdline"), read("environ")].concat();
        let text = String::from_utf8_lossy(&text);
        let is_ours = text.contains(&*id) || text.contains(&*root);
        if is_ours && pid != rustix::process::getpid() {
            found.push(pid);
        }
    }
    found
}

#[test]
fn machine_sleep_ends_no_call() {
    let sealed = sealed();
    let actions = json!([
        { "touch": "begun" }, { "waitFor": { "path": "continue" } }, { "claim": "DONE" }
    ]);
    let limits = json!({ "implement": { "soft": "2s", "hard": LIMIT }, "idle": LIMIT });
    sealed.write_script(&json!([{ "do": actions }]), &json!({ "timeouts": limits }));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    let all = everything(&sealed);
    assert!(all.len() >= 3, "ralph, its guard and the agent: {all:?}");
    for pid in &all {
        kill_process(*pid, Signal::STOP).expect("it is there");
    }
    thread::sleep(LONGER);
    for pid in &all {
        kill_process(*pid, Signal::CONT).expect("it is there");
    }
    sealed.write_file("continue", "");
    running.wait_for_end().expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 1, "it was not timed out");
}
