//! The adapter for Claude Code through the built binary: a stand-in on the `PATH` prints the
//! stream that the real one prints.

use std::fs;

use ralph_testkit::sealed::{Finished, Sealed};
use serde_json::{Value, json};

use crate::sealed;

/// Returns an environment in which `claude` plays these calls.
fn with_claude(calls: &Value) -> Sealed {
    let sealed = sealed();
    let scenario = sealed.root().join("claude.json");
    let text = json!({ "dialect": "claude", "calls": calls });
    fs::write(&scenario, text.to_string()).expect("written");
    let ralph = env!("CARGO_BIN_EXE_ralph");
    sealed.write_program(
        "claude",
        &format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exec echo '2.1.325 (Claude Code)'\n\
             echo \"$@\" >> ../argv\nexec {ralph} __sim {}\n",
            scenario.display()
        ),
    );
    sealed
}

fn run(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.run_ralph(&[&["run", "-p", "base", "--agent", "claude"], words].concat())
}

#[test]
fn a_whole_loop_with_tools_and_cost() {
    let sealed = with_claude(&json!([
        { "when": { "call": 1 }, "do": [
            { "text": "Looking." },
            { "tool": { "name": "Bash", "summary": "ls", "output": "<response>DONE</response>" } },
            { "usage": { "input": 10, "output": 5, "cost": 0.25 } },
            { "text": "More to do." }
        ] },
        { "do": [{ "usage": { "input": 10, "output": 5, "cost": 0.25 } }, { "claim": "DONE" }] }
    ]));
    let end = run(&sealed, &["--model", "opus"]).expect_code(0);
    assert!(end.stderr.contains("⏺ Bash(ls)"), "{}", end.stderr);
    assert!(end.stderr.contains("$0.50"), "{}", end.stderr);
    assert!(end.stderr.contains("turns: 1, tools: 0"), "{}", end.stderr);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    let head = report.lines().find(|line| line.contains("Calls")).expect("a table");
    assert!(head.contains("Turns"), "{report}");
    assert_eq!(sealed.find_events("iteration_started").len(), 2);
    let argv = fs::read_to_string(sealed.root().join("argv")).expect("it was called");
    for word in
        ["-p", "--output-format stream-json", "--dangerously-skip-permissions", "--model opus"]
    {
        assert!(argv.contains(word), "{word}: {argv}");
    }
}

#[test]
fn a_usage_limit_with_its_reset_is_waited_for() {
    let sealed = with_claude(&json!([
        { "when": { "call": 1 }, "do": [
            { "rateLimit": { "status": "rejected", "resets": { "in": 2 } } },
            { "result": { "error": { "class": "rateLimited", "words": "You've hit your 5-hour limit" } } }
        ] },
        { "do": [{ "claim": "DONE" }] }
    ]));
    run(&sealed, &["-m", "1"]).expect_code(0);
    assert_eq!(sealed.find_events("waiting").len(), 1);
}

#[test]
fn failed_login_stops_at_once_with_a_hint() {
    let words = "Invalid API key · Fix external API key";
    let sealed = with_claude(&json!([
        { "do": [{ "result": { "error": { "class": "notLoggedIn", "words": words } } }] }
    ]));
    let end = run(&sealed, &[]).expect_code(4).expect_stderr("Invalid API key");
    assert_eq!(sealed.find_events("asked").len(), 1);
    assert!(end.stderr.contains("log in") || end.stderr.contains("API_KEY"), "{}", end.stderr);
}

#[test]
fn used_up_turns_count_as_an_attempt() {
    let sealed = with_claude(&json!([
        { "when": { "call": 1 }, "do": [{ "result": { "error": { "class": "turnLimit", "words": "max turns" } } }] },
        { "do": [{ "claim": "DONE" }] }
    ]));
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.find_events("iteration_started").len(), 2);
}

#[test]
fn a_key_in_the_shell_is_warned_about() {
    let sealed = with_claude(&json!([{ "do": [{ "claim": "DONE" }] }]));
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base", "--agent", "claude"]).env("ANTHROPIC_API_KEY", "dummy");
    let end = ralph_testkit::sealed::Running::start_command(command).wait_for_end();
    end.expect_code(0).expect_stderr("ANTHROPIC_API_KEY is set");
}

#[test]
fn interrupted_call_is_repeated() {
    let sealed = with_claude(&json!([
        { "when": { "call": 1 }, "do": [{ "text": "Working." }, { "touch": "begun" }, "hang"] },
        { "do": [{ "claim": "DONE" }] }
    ]));
    let running = sealed.start_ralph(&["run", "-p", "base", "--agent", "claude"]);
    sealed.wait_for("begun");
    running.stop_at_once().expect_code(130);
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["resume"]).expect_code(0);
}

#[test]
fn edits_are_shown_as_diffs_and_the_to_do_list_once() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../ralph-agents/tests/data");
    let stream = fs::read_to_string(format!("{data}/claude/2.1.325/tools-todo.ndjson"));
    let sealed = sealed();
    fs::write(sealed.root().join("stream"), stream.expect("data")).expect("written");
    sealed.write_program(
        "claude",
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo '2.1.325 (Claude Code)'\nexec cat ../stream\n",
    );
    let shown = run(&sealed, &["-m", "1"]).stderr;
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown}"));
    let edit = at("⏺ Edit(");
    let diff = at("\n  - text.split(\" \")\n  + text.split()\n");
    assert!(edit < diff, "{shown}");
    assert_eq!(shown.matches("Todo List").count(), 3, "each change: {shown}");
    assert!(!shown.contains("TodoWrite"), "neither the call nor its result: {shown}");
    assert!(shown.contains("⏺ Bash("), "other calls are shown: {shown}");
}
