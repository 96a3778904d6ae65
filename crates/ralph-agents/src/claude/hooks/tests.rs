//! When hooks are passed to Claude, and what is read about them in a stream.

use std::path::Path;

use ralph_model::agent::AgentKind;
use ralph_model::ids::AskNumber;
use ralph_model::version::Version;

use crate::call::tests::context;
use crate::test_support::build_request;
use crate::{LineActivity, Translator, create_translator};

const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":1,"result":"Fine."}"#;

fn listening() -> Translator {
    create_translator(&build_request(AgentKind::Claude, &[], "Do it."), Path::new("/project"))
}

/// A line in which a hook answers.
fn hook(event: &str, stdout: &str, exit_code: i32) -> String {
    serde_json::json!({
        "type": "system", "subtype": "hook_response", "hook_event": event,
        "stdout": stdout, "stderr": "sh: no such thing", "exit_code": exit_code,
    })
    .to_string()
}

#[test]
fn missing_hooks_are_reported() {
    let init = r#"{"type":"system","subtype":"init","plugins":[{"name":"ralph","path":"/x"}]}"#;
    let ours = hook("SessionStart", "run 20261114-231500-k3f9", 0);
    let users = hook("SessionStart", "good morning", 0);
    let failed = hook("SessionStart", "", 127);
    let unloaded = r#"{"type":"system","subtype":"init","plugins":[{"name":"other"}]}"#;
    let broken = r#"{"type":"system","subtype":"init","plugins":[],"plugin_errors":[{"plugin":"ralph","message":"bad hooks.json"}]}"#;
    let unanswered =
        "none answered at the start of the session; are they switched off (`disableAllHooks`)?";
    for (lines, expect) in [
        (vec![], None),
        (vec![ours.as_str(), init, SUCCESS], None),
        (vec![&users, &ours, init], None),
        // The session never began: another failure is reported.
        (vec![SUCCESS], None),
        (vec![init, SUCCESS], Some(unanswered)),
        (vec![&users, init], Some(unanswered)),
        (vec![r#"{"type":"system","subtype":"init"}"#], Some(unanswered)),
        (vec![&failed, init], Some("exit code 127 of a hook: sh: no such thing")),
        (vec![unloaded], Some("it has not loaded the plugin")),
        (vec![broken], Some("it cannot load the plugin: bad hooks.json")),
    ] {
        let mut translator = listening();
        for line in &lines {
            translator.parse_line(line);
        }
        assert_eq!(translator.missing_hooks(), expect, "{lines:#?}");
    }
}

#[test]
fn hook_lines_are_not_shown() {
    for line in [
        hook("PreToolUse", r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#, 0),
        hook("Stop", r#"{"decision":"block","reason":"US-1 is not approved"}"#, 0),
        hook("PostToolBatch", "not JSON", 1),
        r#"{"type":"system","subtype":"hook_response"}"#.to_owned(),
        r#"{"type":"system","subtype":"notification","key":"stop-hook-error","text":"x"}"#
            .to_owned(),
    ] {
        let parsed = listening().parse_line(&line);
        assert_eq!((parsed.events, parsed.activity), (Vec::new(), LineActivity::Idle), "{line}");
    }
    // The message to the agent is also shown to the user.
    let feedback = r#"{"type":"user","message":{"content":[{"type":"text","text":"Stop hook feedback:\nUS-1 is not approved"}]}}"#;
    let shown = format!("{:?}", listening().parse_line(feedback).events);
    assert!(shown.contains("Stop hook feedback: US-1 is not approved"), "{shown}");
}

#[test]
fn plugin_is_added_to_the_users_plugins() {
    let given = |flags: &[&str], version: Option<Version>| {
        let mut request = build_request(AgentKind::Claude, flags, "Do it.");
        request.agent.capabilities = crate::detect_capabilities(AgentKind::Claude, version);
        let call = crate::build_call(&request, &context()).expect("a small prompt fits");
        let words: Vec<&str> = call.args.iter().map(String::as_str).collect();
        let plugins = words.windows(2).filter(|pair| pair[0] == "--plugin-dir");
        let shows = words.iter().filter(|word| **word == "--include-hook-events").count();
        (plugins.map(|pair| pair[1].to_owned()).collect::<Vec<_>>().join(" "), shows)
    };
    for (flags, version, plugins, shows) in [
        (&[][..], None, "/state/plugin", 1),
        (&["--plugin-dir /mine"], None, "/state/plugin /mine", 1),
        (&["--include-hook-events"], None, "/state/plugin", 1),
        (&["--output-format json"], None, "/state/plugin", 0),
        (&["--bare"], None, "", 0),
        (&["--safe-mode"], None, "", 0),
        (&[], Some(Version::new(2, 1, 144)), "", 0),
        (&[], Some(Version::new(2, 1, 145)), "/state/plugin", 1),
    ] {
        assert_eq!(given(flags, version), (plugins.to_owned(), shows), "{flags:?} {version:?}");
    }
}

#[test]
fn each_call_has_its_own_session_id_unless_set_by_user() {
    let session = |flags: &[&str], ask| {
        let mut request = build_request(AgentKind::Claude, flags, "Do it.");
        request.ask = AskNumber(ask);
        let call = crate::build_call(&request, &context()).expect("a small prompt fits");
        let words: Vec<String> = call.args;
        let named = words.windows(2).find(|pair| pair[0] == "--session-id");
        named.map(|pair| pair[1].clone())
    };
    let first = session(&[], 1).expect("a session");
    assert_eq!(first.len(), 36, "{first}");
    assert_eq!(session(&[], 1), Some(first.clone()));
    assert_ne!(session(&[], 2), Some(first));
    assert_eq!(session(&["--session-id mine"], 1).as_deref(), Some("mine"));
    for other in ["--resume x", "-r x", "--continue", "-c", "--from-pr=7", "--bare"] {
        assert_eq!(session(&[other], 1), None, "{other}");
    }
}
