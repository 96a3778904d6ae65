//! Recorded conversations, the replies they need, and misbehaving agents.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::path::{Path, PathBuf};

use expect_test::{expect, expect_file};
use proptest::prelude::*;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, Permissions};
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::child::{Ending, Force, Limit, NotStarted};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;
use serde_json::{Value, json};

use crate::call::tests::context;
use crate::test_support::{build_request, read_stream};
use crate::tests::recorded::{NOW, exit, list_streams, mutilated, show, show_call};
use crate::{
    LineActivity, ParsedLine, StdinReply, StdinState, Translator, build_call, create_translator,
};

/// The recorded conversations.
const RECORDED: [&str; 13] = [
    "cline-auth-required",
    "codex",
    "codex-cancel",
    "codex-usage-limit",
    "copilot",
    "gemini",
    "gemini-cancel",
    "gemini-permissions",
    "gemini-quota",
    "opencode",
    "opencode-401",
    "opencode-cancel",
    "qwen",
];

const PROMPT: &str = "Do the task. End with <promise>COMPLETE</promise>.";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/acp/1")
}

/// A recorded conversation: the messages of each side, and how the agent's process ended.
struct Recording {
    ours: Vec<Value>,
    theirs: Vec<String>,
    ending: Ending,
}

fn recording(name: &str) -> Recording {
    let path = directory().join(format!("{name}.ndjson"));
    let text = std::fs::read_to_string(&path).expect("a recorded conversation");
    let mut recording = Recording { ours: Vec::new(), theirs: Vec::new(), ending: exit(0) };
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a recorded message");
        match line["dir"].as_str() {
            Some("->") => recording.ours.push(line["msg"].clone()),
            Some("<-") => recording.theirs.push(line["msg"].to_string()),
            _ if line["msg"] == "exit status: 0" => {}
            _ => recording.ending = Ending::Lingered { force: Force::Terminated },
        }
    }
    recording
}

fn request_with(permissions: Permissions) -> AgentRequest {
    let mut request = build_request(AgentKind::Acp, &["--acp"], PROMPT);
    request.agent.permissions = permissions;
    request
}

fn parsed(lines: &[&str], stderr: &str, ending: Ending) -> (Vec<ParsedLine>, Reply) {
    read_stream(&request_with(Permissions::Skip), &lines.join("\n"), stderr, ending, NOW)
}

fn messages(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    assert!(bytes.is_empty() || text.ends_with('\n'), "whole lines are sent: {text}");
    text.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
}

fn translator_for(permissions: Permissions) -> Translator {
    create_translator(&request_with(permissions), Path::new("/tmp/demo"))
}

/// Reads lines and returns all replies.
fn collect_replies(translator: &mut Translator, lines: &[&str]) -> (Vec<Value>, StdinState) {
    let mut answer = StdinReply::default();
    for line in lines {
        answer.append_reply(translator.push_line(line).reply);
    }
    (messages(&answer.bytes), answer.stdin)
}

#[test]
fn every_recorded_conversation_is_read() {
    assert_eq!(
        list_streams(&directory()).len(),
        RECORDED.len(),
        "every conversation is in the table"
    );
    let mut shown = String::new();
    for name in RECORDED {
        let recording = recording(name);
        let lines: Vec<&str> = recording.theirs.iter().map(String::as_str).collect();
        let (all, reply) = parsed(&lines, "", recording.ending);
        shown.push_str(&show(name, &all, &reply));
    }
    expect_file!["../../tests/data/acp/1/readings.txt"].assert_eq(&shown);
}

/// The client of the recordings sent the same messages, except for its name and for cancellations.
#[test]
fn recorded_conversations_get_the_same_replies() {
    for name in RECORDED {
        let recording = recording(name);
        let mut expect = recording.ours;
        expect.retain(|message| message["method"] != "session/cancel");
        expect[0]["params"]["clientInfo"] =
            json!({"name": "ralph", "version": env!("CARGO_PKG_VERSION")});
        let greeting =
            build_call(&request_with(Permissions::Skip), &context()).expect("a call").stdin;
        let mut found = messages(&greeting);
        let lines: Vec<&str> = recording.theirs.iter().map(String::as_str).collect();
        let (answers, input) = collect_replies(&mut translator_for(Permissions::Skip), &lines);
        found.extend(answers);
        for message in expect.iter_mut().chain(&mut found) {
            if let Some(error) = message.get_mut("error") {
                error["message"] = Value::Null;
            }
        }
        assert_eq!(found, expect, "{name}");
        assert_eq!(input, StdinState::Closed, "{name}");
    }
}

const GREETED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#;
const OPENED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#;

fn update(kind: &str, rest: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"{kind}"{rest}}}}}}}"#
    )
}

fn words(text: &str) -> String {
    update("agent_message_chunk", &format!(r#","content":{{"type":"text","text":"{text}"}}"#))
}

fn tool(id: &str, status: &str) -> String {
    update("tool_call", &format!(r#","toolCallId":"{id}","title":"ls","status":"{status}""#))
}

fn ended(reason: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"stopReason":"{reason}"}}}}"#)
}

fn refused(id: u8, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

#[track_caller]
fn check_signal(turn: &[&str], expect: Option<&str>) {
    let reply = parsed(&[&[GREETED, OPENED], turn].concat(), "", exit(0)).1;
    assert_eq!(reply.signal.as_deref(), expect, "{turn:?}");
}

#[test]
fn only_the_final_answer_of_a_successful_turn_counts() {
    let (done, end) = (words("<promise>DONE</promise>"), ended("end_turn"));
    let (begun, over) = (tool("c", "in_progress"), tool("c", "completed"));
    let user = update(
        "user_message_chunk",
        r#","content":{"type":"text","text":"<promise>DONE</promise>"}"#,
    );
    let thought = update(
        "agent_thought_chunk",
        r#","content":{"type":"text","text":"<promise>DONE</promise>"}"#,
    );
    let other =
        update("agent_message_chunk", r#","messageId":"2","content":{"type":"text","text":"Hm."}"#);
    let vague = update("tool_call", r#","toolCallId":"v","status":"pending","rawInput":{}"#);
    check_signal(&[&done, &end], Some("DONE"));
    check_signal(&[&words("<promise>DO"), &words("NE</promise>"), &end], Some("DONE"));
    check_signal(&[&begun, &over, &done, &end], Some("DONE"));
    check_signal(&[&done, &begun, &over, &end], None);
    check_signal(&[&done, &vague, &end], None);
    check_signal(&[&begun, &words("<promise>DO"), &over, &words("NE</promise>"), &end], None);
    check_signal(&[&done, &other, &end], None);
    check_signal(&[&user, &words("Hm."), &end], None);
    check_signal(&[&thought, &words("Hm."), &end], None);
    check_signal(&[&done, &ended("max_tokens")], None);
    check_signal(&[&done, &ended("cancelled")], None);
    check_signal(&[&done, &refused(3, r#"{"code":-32603,"message":"x"}"#)], None);
    check_signal(&[&done], None);
    check_signal(&[&words("Hm."), &end, &done], None);
    check_signal(&[&done, &end, &begun, &words("Hm.")], Some("DONE"));
    check_signal(&[&done, &end, &vague, &other], Some("DONE"));
}

#[track_caller]
fn check(lines: &[&str], stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    let found = parsed(lines, stderr, ending).1.failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{lines:?}\n{found:?}");
}

#[test]
fn prompt_reply_decides_before_the_exit() {
    let fine = words("Fine.");
    let idle = Ending::TimedOut { limit: Limit::Idle, force: Force::Killed };
    let lingered = Ending::Lingered { force: Force::Killed };
    for ending in [exit(0), exit(1), Ending::Signalled { signal: 15 }, lingered, idle.clone()] {
        check(&[GREETED, OPENED, &fine, &ended("end_turn")], "", ending, None);
    }
    check(&[GREETED, OPENED, &ended("end_turn")], "", exit(0), Some(FailureClass::Empty));
    check(&[GREETED, OPENED, &fine], "", exit(0), Some(FailureClass::Malformed));
    check(&[GREETED, OPENED, &fine], "oh no", exit(3), Some(FailureClass::Crashed));
    check(&[GREETED, OPENED, &fine], "", idle, Some(FailureClass::IdleTimeout));
    for (reason, class) in [
        ("max_tokens", FailureClass::TurnLimit),
        ("max_turn_requests", FailureClass::TurnLimit),
        ("refusal", FailureClass::TurnLimit),
        ("cancelled", FailureClass::Crashed),
        ("bored", FailureClass::Crashed),
    ] {
        check(&[GREETED, OPENED, &fine, &ended(reason)], "", exit(0), Some(class));
    }
    let odd = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
    check(&[GREETED, OPENED, &fine, odd], "", exit(0), Some(FailureClass::Malformed));
    let odd = r#"{"jsonrpc":"2.0","id":2,"result":null}"#;
    check(&[GREETED, odd], "", exit(0), Some(FailureClass::Malformed));
    let interrupted = Ending::Interrupted { force: Force::Terminated };
    check(&[GREETED], "", interrupted, Some(FailureClass::Interrupted));
}

#[test]
fn errors_are_classified() {
    let limit = |resets_at| FailureClass::RateLimited { resets_at };
    let soon = Timestamp(NOW.0 + 20_000);
    for (error, class) in [
        (r#"{"code":429,"message":"Too many requests, retry in 20s"}"#, limit(Some(soon))),
        (
            r#"{"code":-32603,"message":"Internal error","data":"rate limit, try again in 20 seconds"}"#,
            limit(Some(soon)),
        ),
        (
            r#"{"code":-32603,"message":"Internal error","data":{"message":"No.","codexErrorInfo":"usageLimitExceeded"}}"#,
            limit(None),
        ),
        (
            r#"{"code":-32603,"message":"x","data":{"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":503}}}}"#,
            FailureClass::Overloaded,
        ),
        (
            r#"{"code":-32603,"message":"x","data":{"codexErrorInfo":"contextWindowExceeded"}}"#,
            FailureClass::ContextExceeded,
        ),
        (r#"{"code":-32000,"message":"Authentication required"}"#, FailureClass::NotLoggedIn),
        (
            r#"{"code":-32603,"message":"Internal error: Incorrect API key provided"}"#,
            FailureClass::NotLoggedIn,
        ),
        (r#"{"code":-32603,"message":"Internal error: model not found"}"#, FailureClass::BadCall),
        (r#"{"code":500,"message":"x"}"#, FailureClass::Overloaded),
        (r#"{"code":-32603,"message":"Internal error"}"#, FailureClass::Crashed),
        ("{}", FailureClass::Crashed),
    ] {
        check(&[GREETED, OPENED, &refused(3, error)], "", exit(0), Some(class.clone()));
        check(&[GREETED, &refused(2, error)], "", exit(0), Some(class));
    }
    let newer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}"#;
    check(&[newer], "", exit(0), Some(FailureClass::BadCall));
}

#[test]
fn hints_name_command_logins_and_missing_flag() {
    let hint = |lines: &[&str], ending| {
        let failure = parsed(lines, "", ending).1.failure.expect("a failure");
        failure.hint.unwrap_or_default()
    };
    let program = "acp".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    assert_eq!(hint(&[], missing), "install `acp`, or set `agent.command`");
    let deaf = "`acp` did not answer in the Agent Client Protocol; `agent.flags` may lack the flag for it, such as `--acp`";
    assert_eq!(hint(&["Usage: acp [OPTIONS]"], exit(0)), deaf);
    assert_eq!(hint(&["Usage: acp [OPTIONS]"], exit(2)), deaf);
    assert_eq!(hint(&[GREETED], exit(1)), "");
    let ways = r#"{"jsonrpc":"2.0","id":1,"result":{"authMethods":[{"name":"Key","description":"Set A_KEY"},{"name":"Web"}]}}"#;
    let login = refused(2, r#"{"code":-32000,"message":"Authentication required"}"#);
    assert_eq!(hint(&[ways, &login], exit(0)), "log in with `acp` first: Key (Set A_KEY); Web");
    assert_eq!(hint(&[GREETED, &login], exit(0)), "log in with `acp`, or check its key");
}

fn permission(id: &str, kinds: &[&str]) -> String {
    let options: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"optionId": format!("id-{kind}"), "kind": kind, "name": "x"}))
        .collect();
    let call = json!({"toolCallId": "c", "title": "rm -r x", "status": "pending"});
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{}}}"#,
        json!({"sessionId": "s", "options": options, "toolCall": call})
    )
}

#[test]
fn permission_requests_follow_the_setting() {
    let all = ["reject_always", "allow_once", "reject_once", "allow_always"];
    for (permissions, kinds, chosen) in [
        (Permissions::Skip, &all[..], Some("id-allow_always")),
        (Permissions::Skip, &all[..3], Some("id-allow_once")),
        (Permissions::Skip, &all[..1], None),
        (Permissions::Skip, &[], None),
        (Permissions::Ask, &all[..], Some("id-reject_once")),
        (Permissions::Ask, &all[..2], Some("id-reject_always")),
        (Permissions::Ask, &all[3..], None),
    ] {
        let mut translator = translator_for(permissions);
        collect_replies(&mut translator, &[GREETED, OPENED]);
        let outcome = match chosen {
            Some(id) => json!({"outcome": "selected", "optionId": id}),
            None => json!({"outcome": "cancelled"}),
        };
        let expect = json!({"jsonrpc": "2.0", "id": "a", "result": {"outcome": outcome}});
        let found = collect_replies(&mut translator, &[&permission("\"a\"", kinds)]);
        assert_eq!(found, (vec![expect], StdinState::Open), "{permissions:?} {kinds:?}");
    }
}

#[test]
fn unsupported_methods_are_refused_with_one_notice() {
    let mut translator = translator_for(Permissions::Skip);
    let request_line = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"fs/read_text_file","params":{{}}}}"#)
    };
    let refusal = |id: Value| {
        json!({"jsonrpc": "2.0", "id": id,
            "error": {"code": -32601, "message": "ralph does not offer fs/read_text_file"}})
    };
    let first = translator.push_line(&request_line("0"));
    assert_eq!(messages(&first.reply.bytes), [refusal(json!(0))]);
    assert_eq!(first.parsed.events.len(), 1);
    let second = translator.push_line(&request_line("\"b\""));
    assert_eq!(messages(&second.reply.bytes), [refusal(json!("b"))]);
    assert_eq!(second.parsed, ParsedLine { events: Vec::new(), activity: LineActivity::Idle });
    let long = translator.push_line(&request_line(&format!("\"{}\"", "x".repeat(300))));
    assert_eq!(long.reply, StdinReply::default());
}

#[test]
fn only_the_expected_response_advances_the_conversation() {
    let mut translator = translator_for(Permissions::Skip);
    for line in [OPENED, &ended("end_turn"), r#"{"id":99,"result":{}}"#, r#"{"id":"1x"}"#] {
        let result = translator.push_line(line);
        assert!(matches!(&result.parsed.events[..], [AgentEvent::Unparsed { .. }]), "{line}");
        assert_eq!(result.reply, StdinReply::default(), "{line}");
    }
    let unknown = update("weather_update", "");
    for line in ["Loading...", "{\"jsonrpc\"", "{}", "[]", &unknown, "{\"method\":\"x\"}"] {
        let result = translator.push_line(line);
        assert!(matches!(&result.parsed.events[..], [AgentEvent::Unparsed { .. }]), "{line}");
        assert_eq!(result.parsed.activity, LineActivity::Idle, "{line}");
    }
    let private = translator.push_line(r#"{"jsonrpc":"2.0","method":"_x/status","params":{}}"#);
    assert_eq!(private.parsed.events, []);
    // Two messages on one line, and the `initialize` response after all that.
    let (found, _) = collect_replies(&mut translator, &[&format!("{GREETED}{OPENED}")]);
    assert_eq!(found.len(), 2);
}

#[test]
fn call_sends_initialize_and_keeps_the_flags() {
    let mut careful = build_request(AgentKind::Acp, &["--acp", "--model x"], PROMPT);
    careful.agent.command = "gemini".to_owned();
    careful.agent.env_deny = vec!["SECRET_*".to_owned()];
    let shown = show_call(&careful, &context());
    let shown = shown.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    expect![[r#"
        gemini --acp --model x
        stdin "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{\"fs\":{\"readTextFile\":false,\"writeTextFile\":false},\"terminal\":false},\"clientInfo\":{\"name\":\"ralph\",\"version\":\"VERSION\"}}}\n", idle Watch
        without ["SECRET_*"]
    "#]].assert_eq(&shown);
}

proptest! {
    #[test]
    fn translator_never_panics(
        name in 0..RECORDED.len(),
        cut in 0usize..2_000,
        other in "(\\PC{0,40}|[\\[\\]{}\":,0-9a-z\\\\]{0,20})",
    ) {
        let stream = mutilated(&recording(RECORDED[name]).theirs.join("\n"), cut, &other);
        let _ = parsed(&[&stream], &other, exit(1));
    }
}
