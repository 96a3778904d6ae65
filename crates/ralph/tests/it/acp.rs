//! Agents with the Agent Client Protocol through the built binary: a scripted peer on the `PATH`
//! is the other side of the conversation.

use std::fs;

use ralph_testkit::effort;
use ralph_testkit::sealed::{Sealed, merge_into};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{repository, run, sealed};

/// Makes `peer` play these calls, and selects it in the settings.
fn peer(sealed: &Sealed, calls: &Value, further: &Value) {
    let scenario = sealed.root().join("peer.json");
    let text = json!({ "dialect": "acp", "calls": calls });
    fs::write(&scenario, text.to_string()).expect("written");
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let scenario = scenario.display();
    sealed.write_program("peer", &format!("#!/bin/sh\nexec {ralph} __sim {scenario}\n"));
    let mut settings = json!({
        "agent": { "command": "peer", "kind": "acp" },
        "retries": { "backoff": "10ms" },
        "preventSleep": false,
    });
    merge_into(&mut settings, further);
    sealed.write_file(".ralph/settings.json", &settings.to_string());
}

/// A peer that does one thing in its first call and completes the work in later ones.
fn first(actions: Value) -> Value {
    json!([{ "when": { "call": 1 }, "do": actions }, { "do": [{ "claim": "DONE" }] }])
}

#[test]
fn a_whole_loop_with_plan_tools_and_cost() {
    let sealed = sealed();
    let calls = json!([
        { "when": { "call": 1, "promptContains": "base" }, "do": [
            { "todo": [{ "text": "Look around", "state": "active" }] },
            { "text": "Looking. <response>DONE</response>" },
            { "run": { "command": "pwd", "show": "tool" } },
            { "usage": { "input": 10, "output": 5, "cost": 0.25 } },
            { "delta": ["More ", "to do."] }
        ] },
        { "do": [{ "usage": { "cost": 0.25 } }, { "delta": ["<response>DO", "NE</response>"] }] }
    ]);
    peer(&sealed, &calls, &json!({}));
    let end = run(&sealed, &[]).expect_code(0);
    let project = sealed.project_dir().display().to_string();
    for text in ["⏺ Bash(pwd)", "$0.50", "More to do.", "Look around", &project] {
        assert!(end.stderr.contains(text), "no {text:?} in\n{}", end.stderr);
    }
    assert_eq!(sealed.find_events("iteration_started").len(), 2);
    assert_eq!(sealed.find_events("replied")[0]["reply"]["usage"]["input"], 10);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn permission_requests_follow_the_settings() {
    for (skip, shown) in [(true, "done"), (false, "permission refused: rm -r x")] {
        let sealed = sealed();
        let calls = json!([{ "do": [{ "permission": "rm -r x" }, { "claim": "DONE" }] }]);
        let agent = json!({ "command": "peer", "kind": "acp", "skipPermissions": skip });
        peer(&sealed, &calls, &json!({ "agent": agent }));
        run(&sealed, &[]).expect_code(0).expect_stderr("rm -r x").expect_stderr(shown);
        let reply = &sealed.find_events("replied")[0]["reply"];
        assert_eq!((&reply["tools"], &reply["tool_errors"]), (&json!(1), &json!(u8::from(!skip))));
    }
}

#[test]
fn a_usage_limit_with_its_reset_is_waited_for() {
    let sealed = sealed();
    let calls = first(json!([
        { "rateLimit": { "status": "rejected", "resets": { "in": 2 } } },
        { "result": { "error": { "class": "rateLimited", "words": "You've hit your limit" } } }
    ]));
    peer(&sealed, &calls, &json!({ "maximumIterations": 1, "retries": { "max": 0 } }));
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.find_events("waiting").len(), 1);
}

#[test]
fn login_hint_lists_the_peers_logins() {
    let sealed = sealed();
    let error = json!({ "class": "notLoggedIn", "words": "Authentication required" });
    peer(&sealed, &json!([{ "do": [{ "result": { "error": error } }] }]), &json!({}));
    run(&sealed, &[])
        .expect_code(4)
        .expect_stderr("Authentication required")
        .expect_stderr("log in with `peer` first: Log in to the simulation");
    assert_eq!(sealed.find_events("asked").len(), 1);
}

#[test]
fn peer_that_never_reads_stdin_does_not_hang_ralph() {
    let sealed = sealed();
    let question = json!({
        "id": 0, "method": "session/request_permission",
        "params": { "options": [{ "optionId": "a".repeat(200), "kind": "allow_once" }] }
    });
    // More messages than the pipe and the queue hold, and each needs an answer.
    let flood = format!("{question}\n").repeat(effort::choose_count(40_000, 20_000));
    let calls = first(json!([{ "garbage": { "text": flood } }, { "exit": 0 }]));
    peer(&sealed, &calls, &json!({}));
    run(&sealed, &[]).expect_code(0).expect_stderr("it does not read its input");
    assert_eq!(sealed.find_events("asked").len(), 2);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn peer_that_exits_during_its_turn_is_retried() {
    for actions in [
        json!([{ "text": "<response>DONE</response>" }, { "exit": 0 }]),
        json!([{ "text": "<response>DONE</response>" }, { "exit": 3 }]),
        json!([{ "text": "<response>DONE</response>" }, { "die": "KILL" }]),
        json!([{ "claim": "DONE" }, { "result": { "error": { "class": "crashed", "words": "x" } } }]),
    ] {
        let sealed = sealed();
        peer(&sealed, &first(actions.clone()), &json!({ "maximumIterations": 1 }));
        run(&sealed, &[]).expect_code(0);
        assert_eq!(sealed.find_events("asked").len(), 2, "{actions}");
    }
}

#[test]
fn peer_that_lingers_after_its_answer_is_ended() {
    let sealed = sealed();
    let calls =
        json!([{ "do": ["ignoreTerm", { "claim": "DONE" }, { "result": "success" }, "hang"] }]);
    // The hard limit cuts the grace period after the answer short, but keeps the answer.
    let timeouts = json!({ "implement": { "soft": "1s", "hard": "1s" } });
    peer(&sealed, &calls, &json!({ "timeouts": timeouts }));
    run(&sealed, &[]).expect_code(0);
    let end = &sealed.find_events("replied")[0]["reply"]["end"]["ending"];
    assert_eq!(end, &json!({ "how": "lingered", "force": "killed" }));
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn silent_peer_hits_the_idle_limit() {
    let sealed = sealed();
    let calls = first(json!([{ "text": "Hm." }, { "chatter": { "seconds": 0.05 } }]));
    peer(&sealed, &calls, &json!({ "timeouts": { "idle": "300ms" } }));
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.find_events("iteration_started").len(), 2);
}

#[test]
fn recorded_answer_is_reused_after_a_crash() {
    let sealed = repository();
    let calls = json!([{ "do": [
        { "permission": "ls" },
        { "claim": "DONE" },
        { "result": "success" },
        { "garbage": { "text": "late words\n" } },
        "hang"
    ] }]);
    peer(&sealed, &calls, &json!({}));
    let mut running = sealed.start_ralph(&["run", "-p", "base"]);
    running.wait_for("late words");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 1);
    assert_eq!(sealed.find_events("replied")[0]["reply"]["signal"], "DONE");
}

#[test]
fn interrupted_turn_is_repeated() {
    let sealed = sealed();
    let calls = first(json!([{ "text": "Working." }, { "touch": "begun" }, "hang"]));
    peer(&sealed, &calls, &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    running.stop_at_once().expect_code(130);
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
}

#[test]
fn command_without_the_protocol_gets_a_hint() {
    let sealed = sealed();
    peer(&sealed, &json!([]), &json!({ "retries": { "max": 0 } }));
    sealed.write_program("peer", "#!/bin/sh\necho 'Usage: peer [--acp]'; exit 2\n");
    run(&sealed, &["--model", "x"])
        .expect_code(4)
        .expect_stderr("`peer` did not answer in the Agent Client Protocol")
        .expect_stderr("the model has no effect on an agent of kind `acp`");
}
