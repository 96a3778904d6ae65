//! Every row of the table of failures, through real processes.

use ralph_testkit::effort;
use serde_json::{Value, json};

use crate::{always, first_then, run, sealed};

/// An agent that fails the first `times` calls and then completes.
fn failing(times: u32, actions: &Value) -> Value {
    let mut calls: Vec<Value> =
        (1..=times).map(|call| json!({ "when": { "call": call }, "do": actions })).collect();
    calls.push(json!({ "do": [{ "claim": "DONE" }] }));
    Value::Array(calls)
}

#[test]
fn crashes_garbage_and_silence_are_repeated() {
    for (name, actions) in [
        ("exit code", json!([{ "exit": 1 }])),
        ("signal", json!([{ "die": "SEGV" }])),
        ("no result", json!([{ "text": "half" }, "noResult"])),
        ("garbage", json!([{ "garbage": { "text": "\u{1}\u{2}<html>\n" } }, { "exit": 0 }])),
        ("silence", json!([{ "result": "success" }])),
        (
            "overloaded",
            json!([{ "result": { "error": { "class": "overloaded", "words": "529" } } }]),
        ),
    ] {
        let sealed = sealed();
        sealed.write_script(&failing(3, &actions), &json!({ "maximumIterations": 1 }));
        let end = run(&sealed, &[]);
        assert_eq!(end.code, Some(0), "{name}:\n{}", end.stderr);
        assert_eq!(sealed.find_events("asked").len(), 4, "{name}");
        assert_eq!(sealed.find_events("iteration_started").len(), 1, "{name}");
        let sealed = crate::sealed();
        sealed
            .write_script(&always(actions), &json!({ "retries": { "max": 1, "backoff": "1ms" } }));
        let end = run(&sealed, &[]);
        assert_eq!(end.code, Some(4), "{name}:\n{}", end.stderr);
        assert_eq!(sealed.find_events("asked").len(), 2, "{name}");
        assert_eq!(sealed.survivors(), [""; 0], "{name}");
    }
}

#[test]
fn a_hang_is_ended_with_its_whole_tree_and_counts_as_an_attempt() {
    for (name, actions, timeouts) in [
        (
            "hard",
            json!(["ignoreTerm", { "chatter": { "seconds": 0.05 } }]),
            json!({ "implement": { "soft": "100ms", "hard": "400ms" } }),
        ),
        (
            "idle",
            json!([{ "grandchild": { "kind": "ownSession", "pidFile": "../pid" } }, "hang"]),
            json!({ "idle": "300ms" }),
        ),
        (
            "useless chatter",
            json!([{ "chatter": { "seconds": 0.05 } }]),
            json!({ "idle": "300ms" }),
        ),
    ] {
        let sealed = sealed();
        let calls = first_then(actions, json!([{ "claim": "DONE" }]));
        sealed.write_script(&calls, &json!({ "timeouts": timeouts }));
        let end = run(&sealed, &[]);
        assert_eq!(end.code, Some(0), "{name}:\n{}", end.stderr);
        assert_eq!(sealed.find_events("iteration_started").len(), 2, "{name}");
        assert!(sealed.prompts()[1].contains("was ended before it finished"), "{name}");
        assert_eq!(sealed.survivors(), [""; 0], "{name}");
    }
}

#[test]
fn leftover_processes_are_ended_and_reported() {
    for kind in ["plain", "ownSession", "holdStdout", "detached"] {
        let sealed = sealed();
        let actions =
            json!([{ "grandchild": { "kind": kind, "pidFile": "../pid" } }, { "claim": "DONE" }]);
        sealed.write_script(&always(actions), &json!({}));
        let end = run(&sealed, &[]);
        assert_eq!(end.code, Some(0), "{kind}:\n{}", end.stderr);
        assert!(end.stderr.contains("left behind"), "{kind}:\n{}", end.stderr);
        let pid = std::fs::read_to_string(sealed.root().join("pid")).expect("a pid");
        let is_there = std::path::Path::new("/proc").join(pid.trim()).exists();
        assert!(!is_there, "{kind}: {pid} is still there");
        assert_eq!(sealed.survivors(), [""; 0], "{kind}");
    }
}

#[test]
fn a_usage_limit_is_waited_for_and_counts_nothing() {
    let sealed = sealed();
    let actions = json!([
        { "rateLimit": { "status": "rejected", "resets": { "in": 2 } } },
        { "result": { "error": { "class": "rateLimited", "words": "You've hit your limit" } } }
    ]);
    let settings = json!({ "maximumIterations": 1, "retries": { "max": 0 } });
    sealed.write_script(&failing(1, &actions), &settings);
    let end = run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 2);
    assert_eq!(sealed.find_events("waiting").len(), 1);
    assert!(end.stderr.to_lowercase().contains("usage limit"), "{}", end.stderr);
}

#[test]
fn limit_beyond_the_longest_wait_stops_with_a_hint() {
    let sealed = sealed();
    let actions = json!([
        { "rateLimit": { "status": "rejected", "resets": { "in": 90000 } } },
        { "result": { "error": { "class": "rateLimited", "words": "You've hit your limit" } } }
    ]);
    sealed.write_script(&always(actions.clone()), &json!({}));
    run(&sealed, &[]).expect_code(1).expect_stderr("ralph resume");
    sealed.write_script(&always(actions), &json!({ "rateLimit": { "wait": false } }));
    run(&sealed, &[]).expect_code(1);
    assert_eq!(sealed.find_events("waiting").len(), 0);
}

#[test]
fn failures_that_a_retry_cannot_fix_stop_at_once() {
    for (class, words) in [("notLoggedIn", "Invalid API key"), ("badCall", "unknown option")] {
        let sealed = sealed();
        let actions = json!([{ "result": { "error": { "class": class, "words": words } } }]);
        sealed.write_script(&always(actions), &json!({}));
        run(&sealed, &[]).expect_code(4).expect_stderr(words);
        assert_eq!(sealed.find_events("asked").len(), 1, "{class}");
    }
}

#[test]
fn full_context_window_is_retried_once() {
    let sealed = sealed();
    let actions =
        json!([{ "result": { "error": { "class": "contextExceeded", "words": "too long" } } }]);
    sealed.write_script(&failing(2, &actions), &json!({}));
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.find_events("iteration_started").len(), 2);
}

#[test]
fn budgets_end_the_run() {
    let working = || always(json!([{ "usage": { "input": 600, "cost": 0.3 } }, { "text": "Hm." }]));
    let sealed = sealed();
    sealed.write_script(&working(), &json!({}));
    run(&sealed, &["--max-cost", "0.5"]).expect_code(1).expect_stderr("cost budget used up");
    assert_eq!(sealed.find_events("iteration_started").len(), 2);
    run(&sealed, &["--max-tokens", "1000"]).expect_code(1).expect_stderr("token budget used up");
    run(&sealed, &["--max-cost", "0.5", "--allow-incomplete"]).expect_code(0);
    sealed.write_script(&always(json!(["hang"])), &json!({}));
    run(&sealed, &["--max-time", "500ms"]).expect_code(1).expect_stderr("time budget used up");
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn gates_that_die_hang_or_do_not_exist_fail() {
    for (command, code) in [
        ("kill -SEGV $$", 139),
        ("./no-such-program", 127),
        ("sleep 600", 124),
        ("setsid sleep 600 & exit 7", 7),
    ] {
        let sealed = sealed();
        let calls = first_then(json!([{ "claim": "DONE" }]), json!([{ "text": "Hm." }]));
        let gate = json!({ "command": command, "hardTimeout": "500ms", "softTimeout": "100ms" });
        sealed.write_script(&calls, &json!({ "gates": [gate], "maximumIterations": 2 }));
        run(&sealed, &[]).expect_code(1);
        let expect = format!("failed with exit code {code}.");
        assert!(sealed.prompts()[1].contains(&expect), "{}", sealed.prompts()[1]);
        assert_eq!(sealed.survivors(), [""; 0], "{command}");
    }
}

#[test]
fn a_flood_is_survived() {
    // A line is longer than the limit of a line.
    for (shape, quick) in [("events", 4_000_000), ("line", 18_000_000)] {
        let sealed = sealed();
        let bytes = effort::choose_count(40_000_000, quick);
        let actions = json!([{ "flood": { "bytes": bytes, "shape": shape } }, { "claim": "DONE" }]);
        sealed.write_script(&always(actions), &json!({ "streamAgentOutput": true }));
        run(&sealed, &["--quiet"]).expect_code(0);
    }
}
