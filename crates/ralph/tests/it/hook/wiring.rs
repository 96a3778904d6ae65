//! A real run, with an agent that calls the hooks as Claude Code does.

use std::fs;

use serde_json::{Value, json};

use crate::repository;

/// An agent that keeps the hooks' answers and its own environment.
fn agent(ralph: &str) -> String {
    format!(
        r#"#!/bin/sh
session=$(sed 's/.*"session":"\([^"]*\)".*/\1/' "$RALPH_ACTIVE")
cp "$RALPH_ACTIVE" ../active.json
echo "$RALPH_CONTEXT_WINDOW" > ../window
echo '{{"session_id":"'$session'","source":"startup"}}' | {ralph} hook session-start > ../start.json
echo '{{"session_id":"'$session'","cwd":"'$PWD'","tool_name":"Bash","tool_input":{{"command":"rm -rf .ralph"}}}}' |
    {ralph} hook pre-tool-use > ../guard.json
echo '{{"session_id":"'$session'","stop_hook_active":false}}' | {ralph} hook stop > ../stop.json
echo done > work.txt
echo '<response>DONE</response>'
"#
    )
}

#[test]
fn the_agent_finds_the_run_and_the_gates_do_not() {
    let sealed = repository();
    sealed.write_program("worker", &agent(env!("CARGO_BIN_EXE_ralph")));
    let gate = "env > ../gate-env; test -z \"$RALPH_ACTIVE$RALPH_CONTEXT_WINDOW\"";
    let settings = json!({
        "agent": {"command": "worker"},
        "context": {"window": 123_456},
        "guardrails": [{"command": gate}],
        "preventSleep": false,
    });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    // Variables of an outer run are not passed on.
    command.args(["run", "-p", "base"]).env("RALPH_ACTIVE", "/outer/active.json");
    ralph_testkit::sealed::Running::start_command(command).wait_for_end().expect_code(0);
    let read = |name: &str| fs::read_to_string(sealed.root().join(name)).expect(name);
    let parsed = |name: &str| serde_json::from_str::<Value>(&read(name)).expect(name);
    let active = parsed("active.json");
    let project = sealed.project_dir().canonicalize().expect("there").display().to_string();
    assert_eq!(active["project"], project.as_str());
    for (key, expect) in [
        ("version", json!(1)),
        ("max_iterations", json!(10)),
        ("mode", json!("direct")),
        ("iteration", json!(1)),
        ("iterationMode", json!("prompt")),
        ("tasksFile", Value::Null),
        ("commit", json!("nobody")),
        ("preIterationSnapshot", Value::Null),
    ] {
        assert_eq!(active[key], expect, "{key}");
    }
    assert_eq!(read("window"), "123456\n");
    let start = parsed("start.json")["hookSpecificOutput"]["additionalContext"].to_string();
    assert!(start.contains("iteration 1 of 10"), "{start}");
    assert_eq!(parsed("guard.json")["hookSpecificOutput"]["permissionDecision"], "deny");
    assert_eq!(read("stop.json"), "", "nothing is wrong");
    let env = read("gate-env");
    assert!(env.contains("RALPH_RUN_ID=") && !env.contains("RALPH_ACTIVE"), "{env}");
    let left = fs::read_dir(sealed.state_dir()).expect("there").flatten();
    let stale = left.filter(|entry| entry.path().join("active.json").exists()).count();
    assert_eq!(stale, 0, "it is withdrawn at the end");
}
