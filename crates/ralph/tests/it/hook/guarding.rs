//! The guard in front of an agent's tools.

use ralph_model::task::ListOwner;
use serde_json::{Value, json};

use super::{Session, captured};

fn input(tool: &str, field: &str, value: &str) -> Value {
    let mut input = captured("pretooluse.json");
    input["tool_name"] = tool.into();
    input["tool_input"] = json!({ field: value });
    input
}

/// Returns the reason that a call is denied for.
#[track_caller]
fn denied(session: &Session, input: &Value) -> Option<String> {
    let answer = session.hook("pre-tool-use", input);
    let output = answer.get("hookSpecificOutput")?;
    assert_eq!(output["hookEventName"], "PreToolUse");
    assert_eq!(output["permissionDecision"], "deny");
    Some(output["permissionDecisionReason"].as_str().expect("a reason").to_owned())
}

#[test]
fn an_agent_does_not_write_ralphs_files() {
    let mut session = Session::new();
    session.active.keeper = Some(ListOwner::Ralph);
    session.publish();
    session.sealed.write_file(".ralph/settings.json", "{}");
    session.sealed.write_file("ralph/tasks.json", "{}");
    std::os::unix::fs::symlink(".ralph", session.sealed.project_dir().join("innocent"))
        .expect("a link");
    let state = session.file().display().to_string();
    for (path, expect) in [
        (".ralph/settings.json", Some("loop.settings")),
        ("src/../.ralph/settings.json", Some("loop.settings")),
        ("innocent/settings.json", Some("loop.settings")),
        (state.as_str(), Some("loop.state")),
        ("ci/gate.sh", Some("loop.protected-path")),
        ("ralph/tasks.json", Some("loop.task-file")),
        ("ralph/prd.md", Some("loop.requirements")),
        ("src/main.rs", None),
    ] {
        let absolute = session.sealed.project_dir().join(path).display().to_string();
        for (tool, field) in [
            ("Write", "file_path"),
            ("Edit", "file_path"),
            ("MultiEdit", "file_path"),
            ("NotebookEdit", "notebook_path"),
        ] {
            for given in [path, &absolute] {
                let reason = denied(&session, &input(tool, field, given));
                let is_right = match (expect, &reason) {
                    (Some(category), Some(reason)) => reason.contains(&format!("({category})")),
                    (None, None) => true,
                    (Some(_), None) | (None, Some(_)) => false,
                };
                assert!(is_right, "{tool} {given}: {reason:?}");
            }
        }
        let command = format!("echo x > {path}");
        let reason = denied(&session, &input("Bash", "command", &command));
        assert_eq!(reason.is_some(), expect.is_some(), "{command}");
    }
    assert!(denied(&session, &input("Bash", "command", "ralph stop")).is_some());
    assert_eq!(denied(&session, &captured("pretooluse.json")), None);
    // Where the session was recorded.
    let edit = captured("pretooluse-edit.json");
    assert!(denied(&session, &edit).expect("denied").contains("(path.outside)"));
    session.active.keeper = Some(ListOwner::Agent);
    session.publish();
    assert_eq!(denied(&session, &input("Edit", "file_path", "ralph/tasks.json")), None);
}

#[test]
fn subagent_is_guarded_too() {
    let session = Session::new();
    session.publish();
    let mut input = captured("pretooluse-in-subagent.json");
    input["tool_input"]["command"] = "rm -rf .ralph".into();
    assert!(denied(&session, &input).is_some());
}

#[test]
fn guard_applies_to_all_sessions_of_a_run_and_no_others() {
    let write = input("Write", "file_path", ".ralph/settings.json");
    let mut session = Session::new();
    session.publish();
    assert!(denied(&session, &write).is_some());
    // Another session of the run is guarded too: one that resumes another, or one that the agent
    // started itself.
    session.id = "0f0e0d0c-15f7-412d-bbe9-3da0bd9b52a6".into();
    assert!(denied(&session, &write).is_some());
    // A session in the same repository that does not belong to the run is not.
    let session = session.with("RALPH_ACTIVE", None);
    assert_eq!(denied(&session, &write), None);
    // Another run, and one that is over.
    let session = Session::new().with("RALPH_RUN_ID", Some("20261114-231500-0000"));
    session.publish();
    assert_eq!(denied(&session, &write), None);
    let mut session = Session::new();
    session.active.pid = i32::MAX.cast_unsigned();
    session.publish();
    assert_eq!(denied(&session, &write), None);
}
