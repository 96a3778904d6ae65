//! What a second terminal sees of a run whose agent is at work.

use std::fs;

use ralph_testkit::sealed::{Running, Sealed, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{repository, sealed};

/// Starts a run whose agent is in its first call until the file `continue` exists.
fn start_waiting_run(sealed: &Sealed) -> Running {
    let calls = json!([
        { "when": { "call": 1 }, "do": [
            { "touch": "begun" },
            { "waitFor": { "path": "continue", "seconds": 50.0 } },
            { "text": "Not yet." }
        ] },
        { "do": [{ "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    running
}

fn read_status(sealed: &Sealed) -> Value {
    let finished = sealed.run_ralph(&["status", "--json"]).expect_code(0);
    serde_json::from_str(&finished.stdout).expect("JSON")
}

fn read_running_time(sealed: &Sealed) -> u64 {
    read_status(sealed)["ranMs"].as_u64().expect("a number")
}

/// Returns the running time at the last event of the journal.
fn read_recorded_time(sealed: &Sealed) -> u64 {
    let journal = sealed.runs().pop().expect("a run").join("journal.jsonl");
    let text = fs::read_to_string(journal).expect("readable");
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    last["ran"].as_u64().expect("a number")
}

#[test]
fn status_counts_the_time_of_an_agent_at_work() {
    let sealed = sealed();
    let mut running = start_waiting_run(&sealed);
    let last = read_recorded_time(&sealed);
    wait_until("the time to pass", || read_running_time(&sealed) >= last + 1_500);
    assert_eq!(read_recorded_time(&sealed), last, "no event since");
    let shown = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    let ran = shown.lines().find_map(|line| line.strip_prefix("Ran        ")).expect("a line");
    assert!(!ran.starts_with("0."), "{shown}");
    // A pause is no running time.
    sealed.run_ralph(&["pause"]).expect_code(0);
    sealed.write_file("continue", "");
    running.wait_for("Paused; ");
    let paused = read_running_time(&sealed);
    assert_eq!(paused, read_recorded_time(&sealed));
    assert_eq!(read_running_time(&sealed), paused);
    running.send_signal(Signal::KILL);
    running.wait_for_end();
}

#[test]
fn status_of_a_killed_run_does_not_count_on() {
    let sealed = sealed();
    let running = start_waiting_run(&sealed);
    wait_until("the time to pass", || read_running_time(&sealed) >= 1_000);
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(read_running_time(&sealed), read_recorded_time(&sealed));
}

#[test]
fn status_and_page_show_the_current_action_of_the_agent() {
    let sealed = sealed();
    let secret = "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5";
    let calls = json!([{ "do": [
        { "usage": { "input": 1200, "output": 300, "cost": 0.25 } },
        { "text": format!("I run the parser tests with {secret}") },
        { "touch": "begun" },
        { "waitFor": { "path": "continue", "seconds": 50.0 } },
        { "claim": "DONE" }
    ] }]);
    sealed.write_script(
        &calls,
        &json!({ "guardrails": [{
        "command": "touch gate-begun; until [ -e gate-continue ]; do sleep 0.1; done"
    }] }),
    );
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    wait_until("the action", || {
        read_status(&sealed)["action"]["action"].as_str().is_some_and(|it| it.contains("parser"))
    });
    let action = &read_status(&sealed)["action"];
    assert_eq!((&action["tokens"], &action["cost"]), (&json!(1500), &json!(250_000)), "{action}");
    let shown = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    let now = shown.lines().find(|line| line.starts_with("Now        ")).expect("a line");
    assert!(now.contains("the parser tests") && now.contains("1.5K tokens, $0.25)"), "{shown}");
    assert!(!shown.contains(secret), "{shown}");
    let (_server, page) = crate::serve::load_first_page(&sealed);
    assert!(page.contains("Now: ") && page.contains("the parser tests"), "{page}");
    assert!(page.contains("What the agent prints") && !page.contains(secret), "{page}");
    sealed.write_file("continue", "");
    sealed.wait_for("gate-begun");
    let action = read_status(&sealed)["action"]["action"].clone();
    assert!(action.as_str().is_some_and(|it| it.starts_with("gate touch gate-begun")), "{action}");
    sealed.write_file("gate-continue", "");
    running.wait_for_end().expect_code(0);
    assert_eq!(read_status(&sealed)["action"], Value::Null);
    let run = sealed.runs().pop().expect("a run");
    assert!(!run.join("action.json").exists(), "it is removed at the end");
}

#[test]
fn the_header_names_the_sandbox_and_what_does_not_work_here() {
    let sealed = sealed();
    sealed.write_script(&crate::done(), &json!({}));
    let none = "\n  sandbox none\n";
    crate::run(&sealed, &[]).expect_code(0).expect_stderr(none);
    let sealed = repository().with_sandbox();
    sealed.write_script(&crate::done(), &json!({}));
    let end = crate::run(&sealed, &[]).expect_code(0);
    let used = read_status(&sealed)["sandbox"].as_str().expect("a backend").to_owned();
    let read_line = |text: &str| {
        let line = text.lines().find_map(|it| it.strip_prefix("  sandbox "));
        line.expect("a line").to_owned()
    };
    let line = read_line(&end.stderr);
    assert!(line.starts_with(&used) && !line.contains("sbx"), "not installed, not named: {line}");
    sealed.write_program("sbx", "#!/bin/sh\nexit 1\n");
    let line = read_line(&crate::run(&sealed, &[]).expect_code(0).stderr);
    assert!(line.starts_with(&used) && line.contains("(not usable here: sbx: "), "{line}");
}

#[test]
fn stop_now_ends_the_agent_and_the_run_can_be_resumed() {
    for sealed in [sealed(), repository().with_sandbox()] {
        let running = start_waiting_run(&sealed);
        sealed
            .run_ralph(&["stop"])
            .expect_code(0)
            .expect_stderr("`ralph stop --now` ends the step");
        let answer = "to end what is running and stop; `ralph resume` resumes it.";
        sealed.run_ralph(&["stop", "--now"]).expect_code(0).expect_stderr(answer);
        running.wait_for_end().expect_code(130).expect_stderr("Asked to stop now, ending what is");
        assert_eq!(sealed.survivors(), [""; 0]);
        assert_eq!(sealed.find_events("wished").len(), 2);
        let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
        assert!(!report.contains("repeated after a failure"), "{report}");
        sealed.run_ralph(&["stop", "--now"]).expect_code(1).expect_stderr("No run is active");
        fs::write(sealed.project_dir().join("continue"), "").expect("written");
        sealed.run_ralph(&["resume"]).expect_code(0);
    }
}
