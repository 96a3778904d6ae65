//! The rows of the Agent Client Protocol in the tables of all agents, recorded conversations, the
//! replies they need, and misbehaving agents.

use std::path::{Path, PathBuf};

use expect_test::expect_file;
use proptest::prelude::*;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, Permissions};
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::child::{Ending, Force, NotStarted};
use serde_json::{Value, json};

use crate::call::tests::context;
use crate::test_support::{build_request, read_stream};
use crate::tests::recorded::{NOW, exit, list_streams, mutilated, show};
use crate::tests::suite::AgentSuite;
use crate::{
    LineActivity, ParsedLine, StdinReply, StdinState, Translator, build_call, create_translator,
};

pub(crate) static SUITE: AgentSuite = AgentSuite {
    answers: r"
        begin; tool; over; text TAG; end                 | yes
        begin; text TAG; tool; over; end                 | no
        begin; text TAG; vague; end                      | no
        begin; tool; text <promise>COMPLE; over; text TE</promise>; end | no
        begin; text TAG; other Hm.; end                  | no
        begin; text TAG; stop max_tokens                 | no
        begin; text TAG; stop cancelled                  | no
        begin; text Hm.; end; text TAG                   | no
        begin; text TAG; end; tool; text Hm.             | yes
        begin; text TAG; end; vague; other Hm.           | yes
    ",
    failures: r#"
        # Here the result decides before the exit.
        1           | -           | begin; text Fine.; end
        s15         | -           | begin; text Fine.; end
        idle        | -           | begin; text Fine.; end
        0           | TurnLimit   | begin; text Fine.; stop max_tokens
        0           | TurnLimit   | begin; text Fine.; stop max_turn_requests
        0           | TurnLimit   | begin; text Fine.; stop refusal
        0           | Crashed     | begin; text Fine.; stop cancelled
        0           | Crashed     | begin; text Fine.; stop bored
        0           | Malformed   | begin; text Fine.; {"jsonrpc":"2.0","id":3,"result":{}}
        0           | Malformed   | greeted; {"jsonrpc":"2.0","id":2,"result":null}
        0           | BadCall     | {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}
        interrupted | Interrupted | greeted
    "#,
    ways: r"
        0 | begin; error %
        0 | greeted; closed %
    ",
    errors: r#"
        RateLimited+20s | {"code":429,"message":"Too many requests, retry in 20s"}
        RateLimited+20s | {"code":-32603,"message":"Internal error","data":"rate limit, try again in 20 seconds"}
        RateLimited     | {"code":-32603,"message":"Internal error","data":{"message":"No.","codexErrorInfo":"usageLimitExceeded"}}
        Overloaded      | {"code":-32603,"message":"x","data":{"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":503}}}}
        ContextExceeded | {"code":-32603,"message":"x","data":{"codexErrorInfo":"contextWindowExceeded"}}
        NotLoggedIn     | {"code":-32000,"message":"Authentication required"}
        NotLoggedIn     | {"code":-32603,"message":"Internal error: Incorrect API key provided"}
        BadCall         | {"code":-32603,"message":"Internal error: model not found"}
        Overloaded      | {"code":500,"message":"x"}
        Crashed         | {"code":-32603,"message":"Internal error"}
        Crashed         | {}
    "#,
    odd_lines: r#"
        {"jsonrpc":"2.0","method":"_x/status","params":{}} | skipped
        {"jsonrpc"
        {}
        []
        {"method":"x"}
        {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"weather_update"}}}
    "#,
    calls: "command=gemini deny=SECRET_* | --acp; --model x",
    ..AgentSuite::new(AgentKind::Acp, "1", LINES)
};

/// How an agent of the Agent Client Protocol prints the words of the tables.
const LINES: &str = r#"
    begin   = greeted; opened
    greeted {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}
    opened  {"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}
    user    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"%"}}}}
    text    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%"}}}}
    piece   = text %
    other   {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"2","content":{"type":"text","text":"%"}}}}
    thought {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"%"}}}}
    sub     -
    tool    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","status":"in_progress"}}}
    over    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","status":"completed"}}}
    vague   {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"v","status":"pending","rawInput":{}}}}
    output  {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[{"type":"content","content":{"type":"text","text":"%"}}]}}}
    end     = stop end_turn
    stop    {"jsonrpc":"2.0","id":3,"result":{"stopReason":"%"}}
    fail    = error {"code":-32603,"message":"%"}
    error   {"jsonrpc":"2.0","id":3,"error":%}
    closed  {"jsonrpc":"2.0","id":2,"error":%}
    complaint = fail %
"#;

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

fn refused(id: u8, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
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
    for line in [OPENED, &SUITE.write_stream("end"), r#"{"id":99,"result":{}}"#, r#"{"id":"1x"}"#] {
        let result = translator.push_line(line);
        assert!(matches!(&result.parsed.events[..], [AgentEvent::Unparsed { .. }]), "{line}");
        assert_eq!(result.reply, StdinReply::default(), "{line}");
    }
    // Two messages on one line, and the `initialize` response after all that.
    let (found, _) = collect_replies(&mut translator, &[&format!("{GREETED}{OPENED}")]);
    assert_eq!(found.len(), 2);
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
