//! Signals, double starts, and what a stopped run leaves: nothing but its state.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{always, first_then, repository, sealed};

/// An agent that reports its start, and then works until a file appears.
fn patient() -> Value {
    json!([{ "touch": "begun" }, { "waitFor": { "path": "continue", "seconds": 50.0 } }, { "claim": "DONE" }])
}

/// An agent that ignores signals, with a grandchild that hides.
fn stubborn() -> Value {
    json!([
        "ignoreTerm",
        { "grandchild": { "kind": "ownSession", "pidFile": "../pid" } },
        { "touch": "begun" },
        "hang"
    ])
}

#[test]
fn the_first_signal_lets_the_agent_finish() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let sealed = sealed();
        sealed.write_script(
            &always(patient()),
            &json!({ "guardrails": [{ "command": "touch gate-ran" }] }),
        );
        let mut running = sealed.start_ralph(&["run", "-p", "base"]);
        sealed.wait_for("begun");
        running.send_signal(signal);
        running.wait_for("Received signal, shutting down...");
        running.wait_for("Ctrl-C again ends it now");
        sealed.write_file("continue", "");
        running.wait_for_end().expect_code(130).expect_stderr("ralph resume");
        assert_eq!(sealed.find_events("replied").len(), 1, "the answer is kept");
        assert_eq!(sealed.survivors(), [""; 0]);
        assert!(!sealed.project_dir().join("gate-ran").exists());
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_eq!(sealed.find_events("asked").len(), 1, "it was not asked again");
        assert!(sealed.project_dir().join("gate-ran").exists());
    }
}

#[test]
fn the_second_signal_ends_the_tree() {
    let sealed = sealed();
    sealed.write_script(&first_then(stubborn(), json!([{ "claim": "DONE" }])), &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    running.stop_at_once().expect_code(130);
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
}

#[test]
fn changes_of_a_call_that_was_ended_are_reported() {
    let sealed = repository();
    let calls = first_then(stubborn(), json!([{ "claim": "DONE" }]));
    // With rules about paths, the checkpoint has the whole tree.
    sealed.write_script(&calls, &json!({ "commit": "ralph", "protect": ["rules.md"] }));
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.commit_all("Settings");
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    let changed = "changed: uncommitted changes of the last agent call";
    running.stop_at_once().expect_code(130).expect_stderr(changed);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("uncommitted changes of the last agent call"), "{report}");
}

#[test]
fn the_third_signal_leaves_at_once() {
    let sealed = sealed();
    sealed.write_script(&first_then(stubborn(), json!([{ "claim": "DONE" }])), &json!({}));
    let mut running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    running.send_signal(Signal::TERM);
    running.wait_for("shutting down");
    running.send_signal(Signal::TERM);
    running.wait_for("second signal");
    running.send_signal(Signal::TERM);
    running.wait_for_end().expect_code(130);
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
}

#[test]
fn a_gate_that_is_interrupted_is_run_again() {
    let sealed = sealed();
    let gate = json!({ "command": "touch begun; test -f continue || sleep 50" });
    sealed.write_script(&always(json!([{ "claim": "DONE" }])), &json!({ "guardrails": [gate] }));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    running.stop_at_once().expect_code(130);
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.write_file("continue", "");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 1);
}

#[test]
fn a_wait_is_over_at_the_first_signal() {
    let sealed = sealed();
    let limited = json!([
        { "rateLimit": { "status": "rejected", "resets": { "in": 3000 } } },
        { "result": { "error": { "class": "rateLimited", "words": "limit" } } }
    ]);
    sealed.write_script(&always(limited), &json!({}));
    let mut running = sealed.start_ralph(&["run", "-p", "base"]);
    running.wait_for("waiting until");
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(status.contains("usage limit of sim, waiting until"), "{status}");
    running.send_signal(Signal::INT);
    running.wait_for_end().expect_code(130);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn a_second_start_in_the_same_work_tree_is_refused() {
    let sealed = crate::repository();
    sealed.write_file("sub/file", "");
    sealed.write_script(&always(patient()), &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    let expect = format!("Another run is active (pid {}, since ", running.id());
    for words in [
        ["run", "-p", "other"].as_slice(),
        &["resume"],
        &["run", "-p", "x", "-C", "sub", "--agent", "true"],
    ] {
        sealed.run_ralph(words).expect_code(3).expect_stderr(&expect);
    }
    let status = sealed.run_ralph(&["status"]).expect_code(0);
    assert!(status.stdout.contains("active"), "{}", status.stdout);
    sealed.write_file("continue", "");
    running.wait_for_end().expect_code(0);
}

#[test]
fn a_closed_terminal_does_not_lose_the_run() {
    let sealed = sealed();
    sealed.write_script(&always(json!([{ "text": "x\n" }, { "claim": "DONE" }])), &json!({}));
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let mut command = sealed.build_command("sh");
    command.args(["-c", &format!("{ralph} run -p base 2>&1 >/dev/null | head -c 1; exit 0")]);
    ralph_testkit::sealed::Running::start_command(command).wait_for_end();
    assert_eq!(sealed.find_events("run_ended")[0]["outcome"]["end"], "complete");
}
