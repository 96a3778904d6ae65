//! Malformed input, and unusual environments.

use serde_json::{Value, json};

use super::{SESSION, Session, captured};

const EVENTS: [&str; 5] =
    ["session-start", "pre-tool-use", "post-tool-use", "post-tool-batch", "stop"];

#[test]
fn unreadable_input_is_answered_only_by_the_guard() {
    let session = Session::new();
    session.publish();
    let inputs = [
        "",
        "{",
        "{\"session_id\": 7}",
        " ",
        "null",
        "[]",
        "7",
        "\"text\"",
        "{}",
        "{\"session_id\": null}",
        "\u{0}\u{1}",
        "{\"session_id\":\"x\",\"session_id\":\"y\"}",
    ];
    for event in EVENTS {
        let count = if event == "pre-tool-use" { inputs.len() } else { 3 };
        for input in &inputs[..count] {
            let (stdout, stderr) = session.raw(event, input.as_bytes());
            assert_eq!(stderr, "", "{event} {input:?}");
            // Only the guard reacts to unreadable input.
            let is_denied = stdout.contains("unresolvable.input");
            assert_eq!(is_denied, event == "pre-tool-use", "{event} {input:?}: {stdout}");
            assert_eq!(stdout.is_empty(), !is_denied, "{event} {input:?}: {stdout}");
        }
        let (stdout, _) = session.raw(event, &[0xff, 0xfe, b'{', b'}']);
        assert_eq!(stdout.is_empty(), event != "pre-tool-use", "{event}");
    }
}

#[test]
fn unexpected_field_types_are_ignored() {
    let session = Session::new();
    session.publish();
    for tool_input in [json!(null), json!(7), json!([]), json!({"file_path": 7, "command": []})] {
        for tool in ["Write", "Bash", "SomethingNew"] {
            let mut input = captured("pretooluse.json");
            (input["tool_name"], input["tool_input"]) = (tool.into(), tool_input.clone());
            input["something_new"] = json!({"deep": [1, 2, 3]});
            assert_eq!(session.hook("pre-tool-use", &input), Value::Null, "{tool} {tool_input}");
        }
    }
}

#[test]
fn ten_megabytes_are_read_and_judged() {
    let session = Session::new();
    session.publish();
    let mut input = captured("pretooluse-edit.json");
    input["tool_input"]["new_string"] = "x".repeat(10_000_000).into();
    input["tool_input"]["file_path"] = "wordcount.py".into();
    assert_eq!(session.hook("pre-tool-use", &input), Value::Null);
    input["tool_input"]["file_path"] = ".ralph/settings.json".into();
    let answer = session.hook("pre-tool-use", &input);
    assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "deny");
    // Deep nesting is rejected by the parser, not by a stack overflow.
    let deep = format!(
        "{{\"session_id\":\"{SESSION}\",\"tool_input\":{}{}}}",
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    for event in EVENTS {
        session.raw(event, deep.as_bytes());
    }
}

#[test]
fn unknown_event_is_reported_and_allowed() {
    let session = Session::new();
    let (stdout, stderr) = session.raw("pre-compact", b"{}");
    assert_eq!(stdout, "");
    assert_eq!(stderr, "ralph hook: there is no event `pre-compact`\n");
}

#[test]
fn directory_without_ralph_is_ignored() {
    let session = Session::in_environment(crate::sealed())
        .with("RALPH_ACTIVE", None)
        .with("RALPH_RUN_ID", None);
    for (event, name) in [
        ("session-start", "sessionstart.json"),
        ("pre-tool-use", "pretooluse.json"),
        ("post-tool-use", "posttooluse.json"),
        ("post-tool-batch", "posttoolbatch.json"),
        ("stop", "stop.json"),
        ("stop", "stop-active.json"),
    ] {
        assert_eq!(session.hook(event, &captured(name)), Value::Null, "{event}");
    }
    let left = std::fs::read_dir(session.sealed.project_dir()).expect("there").count();
    assert_eq!(left, 0, "nothing was written");
}

#[test]
fn help_is_given_to_people() {
    let end = crate::sealed().run_ralph(&["hook", "--help"]).expect_code(0);
    assert!(end.stdout.contains("post-tool-batch"), "{}", end.stdout);
    crate::sealed().run_ralph(&["hook"]).expect_code(2);
}
