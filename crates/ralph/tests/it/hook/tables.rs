//! The tables of commands through the built binary, modes and overrides, and the guard self-test.

use std::fs;
use std::path::Path;

use ralph_model::guard_policy::{GuardMode, GuardPolicy};
use ralph_testkit::effort;
use serde_json::{Value, json};

use super::{SESSION, Session};

/// Returns the lines of a table.
fn table(name: &str) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph-guard/tests/data");
    let text = fs::read_to_string(directory.join(name)).expect("a table");
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, command)| command.replace('\u{23CE}', "\n"))
        .collect()
}

/// Returns a session in a project for the tables.
fn session() -> Session {
    let mut session = Session::new().with("HOME", Some("/home/dev"));
    session.active.project = Some("/home/dev/proj".into());
    session.active.tasks_file = None;
    session
}

/// Returns the hook's answer to a command.
fn answer(session: &Session, command: &str) -> Value {
    let input = json!({
        "session_id": SESSION, "cwd": "/home/dev/proj", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": { "command": command },
    });
    let (stdout, stderr) = session.raw("pre-tool-use", input.to_string().as_bytes());
    assert_eq!(stderr, "");
    if stdout.is_empty() { Value::Null } else { serde_json::from_str(&stdout).expect("JSON") }
}

fn is_denied(answer: &Value) -> bool {
    answer["hookSpecificOutput"]["permissionDecision"] == "deny"
}

#[test]
fn commands_are_judged_as_the_tables_say() {
    let session = session();
    session.publish();
    let mut wrong = Vec::new();
    for (name, expect) in [("deny.txt", true), ("allow.txt", false)] {
        let commands = table(name);
        assert_eq!(commands.len(), 52);
        for command in commands.into_iter().step_by(effort::choose_count(1, 8)) {
            let answer = answer(&session, &command);
            if is_denied(&answer) != expect {
                wrong.push(format!("{name}: {command}: {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn run_settings_apply() {
    let mut session = session();
    for (mode, allow, deny, command, expect) in [
        (GuardMode::Deny, "", "", "git clean -fd", "deny"),
        (GuardMode::Deny, "git.clean", "", "git clean -fd", ""),
        (GuardMode::Warn, "", "", "git clean -fd", "warn"),
        (GuardMode::Off, "", "", "git clean -fd", ""),
        (GuardMode::Off, "", "git clean", "git clean -fd", "deny"),
        (GuardMode::Off, "rm", "", "rm -rf .ralph", "deny"),
    ] {
        let list =
            |entry: &str| [entry.to_owned()].into_iter().filter(|it| !it.is_empty()).collect();
        session.active.guard = GuardPolicy { mode, allow: list(allow), deny: list(deny) };
        session.publish();
        let answer = answer(&session, command);
        let found = match (&answer, is_denied(&answer)) {
            (_, true) => "deny",
            (Value::Null, false) => "",
            (_, false) => {
                assert!(answer["systemMessage"].to_string().contains("git.clean"), "{answer}");
                "warn"
            }
        };
        assert_eq!(found, expect, "{mode:?} {allow:?} {deny:?} {command}");
    }
}

#[test]
fn huge_and_odd_commands_are_answered_in_time() {
    let session = session();
    session.publish();
    for command in ["(".repeat(500_000), "$(".repeat(250_000), "a;".repeat(250_000)] {
        let begun = std::time::Instant::now();
        assert!(is_denied(&answer(&session, &command)));
        assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
    }
}
