//! Resuming after a crash at a chosen moment, and which runs can be resumed. Random moments are in
//! `kills`.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use ralph_testkit::sealed::{Sealed, wait_until};

use crate::{always, done, repository, run, sealed};

/// Three iterations of work, each committed, each adding a line of its own.
fn work(sealed: &Sealed) {
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "sleep": 0.01 }, { "text": "Add a line" }] },
        { "when": { "iteration": 1 }, "do": [{ "sleep": 0.02 }, { "write": { "path": "1", "text": "" } }, { "sleep": 0.02 }, { "text": "One." }] },
        { "when": { "iteration": 2 }, "do": [{ "sleep": 0.02 }, { "write": { "path": "2", "text": "" } }, { "sleep": 0.02 }, { "text": "Two." }] },
        { "do": [{ "sleep": 0.02 }, { "write": { "path": "3", "text": "" } }, { "sleep": 0.02 }, { "claim": "DONE" }] }
    ]);
    let settings = json!({
        "guardrails": [{ "command": "sleep 0.02; test -f 1" }],
        "scm": { "command": "git", "tasks": ["commit"] }
    });
    sealed.write_script(&calls, &settings);
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.commit_all("Settings");
}

#[test]
fn locks_of_a_killed_git_are_moved_away() {
    for next in [&["resume"][..], &["run", "-p", "base", "--include-dirty"]] {
        let sealed = repository();
        work(&sealed);
        let running = sealed.start_ralph(&["run", "-p", "base"]);
        wait_until("the first commit is due", || {
            sealed.events().iter().any(|event| event["role"] == "message")
        });
        running.send_signal(Signal::KILL);
        running.wait_for_end();
        assert_eq!(sealed.survivors(), [""; 0]);
        for lock in ["HEAD.lock", "index.lock", "refs/heads/main.lock"] {
            fs::write(sealed.project_dir().join(".git").join(lock), "").expect("written");
        }
        sealed.run_ralph(next).expect_code(0).expect_stderr("git was killed with the run");
        assert_eq!(sealed.subjects().len(), 5, "{next:?}");
    }
}

/// A git that kills its parent once, when the agent's configuration is gone again.
const DEADLY_GIT: &str = r#"#!/bin/sh
PATH=${PATH#*:}
if test -e ../die && ! grep -q mine .git/config; then
    rm ../die
    kill -KILL "$PPID"
    exit 1
fi
exec git "$@"
"#;

#[test]
fn restored_files_before_a_kill_are_reported_on_resume() {
    let sealed = repository();
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "write": { "path": "one.txt", "text": "1\n" } },
            { "run": { "command": "git config core.hooksPath mine; touch ../die" } },
            { "text": "One." }
        ] },
        { "do": [{ "write": { "path": "two.txt", "text": "2\n" } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &json!({ "commit": "ralph" }));
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.commit_all("Settings");
    sealed.write_program("git", DEADLY_GIT);
    let died = run(&sealed, &[]);
    assert_eq!(died.code, None, "{}", died.stderr);
    assert!(!sealed.read_file(".git/config").contains("mine"), "it died after it had put it back");
    assert_eq!(sealed.find_events("observed").len(), 0, "it died before it could say so");
    sealed.run_ralph(&["resume"]).expect_code(0);
    let prompts = sealed.prompts();
    let reported = prompts.last().expect("a prompt");
    assert!(reported.contains("These files belong to git itself"), "{reported}");
    assert!(reported.contains(".git/config"), "{reported}");
    assert_eq!(sealed.survivors(), [""; 0]);
}

/// A command that changes git's own files and does not return, once.
const CHANGE_AND_WAIT: &str =
    "test -e waits || { git config core.hooksPath mine; touch waits; sleep 60; }";

#[test]
fn git_files_changed_before_a_kill_in_a_later_iteration_are_restored() {
    let sealed = repository();
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "write": { "path": "one.txt", "text": "1\n" } }, { "text": "One." }
        ] },
        { "when": { "iteration": 2 }, "do": [
            { "write": { "path": "two.txt", "text": "2\n" } },
            { "run": { "command": CHANGE_AND_WAIT } },
            { "text": "Two." }
        ] },
        { "do": [{ "text": "Three." }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &json!({ "commit": "ralph" }));
    sealed.write_file(".gitignore", "/.ralph/\n/waits\n");
    sealed.commit_all("Settings");
    let config = sealed.read_file(".git/config");
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("waits");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    sealed.run_ralph(&["resume"]).expect_code(0).expect_stderr(".git/config");
    assert_eq!(sealed.read_file(".git/config"), config);
    let prompts = sealed.prompts();
    let reported = prompts.last().expect("a prompt");
    assert!(reported.contains("These files belong to git itself"), "{reported}");
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn git_files_changed_by_a_gate_before_a_kill_are_restored_and_the_work_lands() {
    let sealed = repository();
    let calls =
        json!([{ "do": [{ "write": { "path": "a.txt", "text": "1\n" } }, { "claim": "DONE" }] }]);
    let gate = json!({ "command": CHANGE_AND_WAIT });
    let with = json!({ "commit": "ralph", "baseline": "off", "guardrails": [gate] });
    sealed.write_script(&calls, &with);
    sealed.write_file(".gitignore", "/.ralph/\n/waits\n");
    sealed.commit_all("Settings");
    let config = sealed.read_file(".git/config");
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("waits");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    sealed.run_ralph(&["resume"]).expect_code(0).expect_stderr("were restored: .git/config");
    assert_eq!(sealed.read_file(".git/config"), config);
    assert_eq!(sealed.find_events("iteration_ended").len(), 1, "the work is not refused");
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn received_answer_is_not_requested_again() {
    let sealed = sealed();
    // The agent has given its result and lingers; ralph is killed before it can record the answer.
    let actions = json!([
        { "append": { "path": "calls", "text": "call\n" } },
        { "claim": "DONE" }, { "result": "success" }, { "touch": "begun" }, { "sleep": 8.0 }
    ]);
    sealed.write_script(&always(actions), &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    // The result is in the pipe; ralph reads it soon.
    let run = sealed.runs().pop().expect("a run");
    let stream = run.join("agent-1.ndjson.zst");
    let has_result = || {
        fs::read(&stream).is_ok_and(|bytes| {
            let mut text = Vec::new();
            let mut decoder = zstd::stream::read::Decoder::new(bytes.as_slice()).expect("zstd");
            let _ = std::io::copy(&mut decoder, &mut text);
            String::from_utf8_lossy(&text).contains("\"result\"")
        })
    };
    wait_until("the result is in the raw stream", has_result);
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.read_file("calls"), "call\n");
}

#[test]
fn a_run_can_be_resumed_with_more_iterations() {
    let sealed = sealed();
    let calls = json!([
        { "when": { "iteration": 3 }, "do": [{ "claim": "DONE" }] },
        { "do": [{ "text": "Hm." }] }
    ]);
    sealed.write_script(&calls, &json!({}));
    run(&sealed, &["-m", "2"]).expect_code(1).expect_stderr("ralph resume -m");
    sealed.run_ralph(&["resume"]).expect_code(1);
    sealed.run_ralph(&["resume", "-m", "4"]).expect_code(0);
    assert_eq!(sealed.runs().len(), 1);
    sealed.run_ralph(&["resume"]).expect_code(2).expect_stderr("is complete");
}

#[test]
fn the_recipe_of_a_run_is_fixed_when_it_begins() {
    let sealed = sealed();
    let loosen = json!([
        { "run": { "command": "sed -i s/false/true/ .ralph/settings.json" } },
        { "claim": "DONE" }
    ]);
    sealed.write_script(
        &always(loosen),
        &json!({ "guardrails": [{ "command": "false" }], "maximumIterations": 2 }),
    );
    run(&sealed, &[]).expect_code(1);
    assert!(sealed.read_file(".ralph/settings.json").contains("\"true\""));
    sealed.run_ralph(&["resume", "-m", "3"]).expect_code(1);
}

#[test]
fn torn_journal_resumes_and_a_damaged_one_is_reported() {
    let sealed = sealed();
    sealed.write_script(&always(json!([{ "text": "Hm." }])), &json!({ "maximumIterations": 1 }));
    run(&sealed, &[]).expect_code(1);
    let journal = sealed.runs()[0].join("journal.jsonl");
    let whole = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, format!("{whole}{{\"seq\":99,\"at")).expect("written");
    sealed.run_ralph(&["resume"]).expect_code(1);
    let mut lines: Vec<&str> = whole.lines().collect();
    lines[2] = "{ damaged";
    fs::write(&journal, lines.join("\n") + "\n").expect("written");
    sealed.run_ralph(&["resume"]).expect_code(2).expect_stderr("Line 3");
}

#[test]
fn views_that_were_damaged_are_written_again() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({}));
    sealed.write_file(".ralph/state.json", "{ damaged");
    run(&sealed, &[]).expect_code(0);
    let state: Value = serde_json::from_str(&sealed.read_file(".ralph/state.json")).expect("JSON");
    assert_eq!(state["current_iteration"], 1);
}

#[test]
fn run_resumes_in_its_own_directory() {
    let sealed = repository();
    sealed.write_script(&always(json!([{ "text": "Hm." }])), &json!({ "maximumIterations": 1 }));
    sealed.write_file("sub/file", "");
    run(&sealed, &[]).expect_code(1);
    sealed.run_ralph(&["resume", "-C", "sub"]).expect_code(2).expect_stderr("belongs to");
}

#[test]
fn runs_of_a_moved_directory_are_listed() {
    let sealed = sealed();
    sealed.write_script(&always(json!([{ "text": "Hm." }])), &json!({ "maximumIterations": 1 }));
    run(&sealed, &[]).expect_code(1);
    let end = sealed.run_ralph(&["resume", "--list"]).expect_code(0);
    assert!(end.stdout.contains("not complete after 1 iteration"), "{}", end.stdout);
    fs::rename(sealed.project_dir(), sealed.root().join("elsewhere")).expect("moved");
    fs::create_dir(sealed.project_dir()).expect("a directory");
    fs::remove_dir(sealed.project_dir()).expect("removed");
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.current_dir(sealed.root().join("elsewhere")).args(["resume", "--list"]);
    let end = ralph_testkit::sealed::Running::start_command(command).wait_for_end().expect_code(0);
    assert!(end.stdout.contains("was moved"), "{}", end.stdout);
}
