//! The rows of Codex in the tables of all agents, and what only it does: an answer file in text
//! mode, and structured answers that it does not check.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::path::Path;

use ralph_core::answers::structured_output::Schema;
use ralph_model::agent::{AgentKind, AgentOutput};
use ralph_model::child::{Ending, Force, Limit};
use ralph_model::failure::FailureClass;

use crate::ParsedLine;
use crate::call::tests::context;
use crate::test_support::{self, build_request};
use crate::tests::recorded::{NOW, exit, signal};
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-error-401=1 context-window=1 interrupted-sigint=1 interrupted-sigterm=s15 \
        max-output-tokens=1 network-wait=s9 overloaded=1 quota=1 rate-limit-429=1 \
        rate-limit-stream=1 stream-drop=1 usage-limit=1 usage-limit-other-day=1",
    answers: r"
        text TAG; notice deprecated; end  | yes
        text TAG; thought TAG; end        | yes
        text TAG; todo; end               | no
        text TAG; cut; end                | no
        text TAG; cut; text Not yet.; end | no
        text TAG; cut; text TAG; end      | yes
    ",
    failures: r#"
        interrupted | Interrupted | @interrupted-sigint
        # A result, then something that never ended.
        0           | Malformed   | begin; text Fine.; end Fine.; text More.
        0           | Malformed   | text Fine.; end; {"type":"turn.started"}
        idle        | Unreachable | @network-wait
        idle        | IdleTimeout | @network-wait; text Back.
        0           | -           | text Fine.; {"type":"turn.completed","usage":{"input_tokens":-1,"output_tokens":"x"}}
        2           | BadCall     |       | @full-auto-removed
        1           | BadCall     |       | @not-a-git-repo
        2           | BadCall     |       | error: unexpected argument '--x' found
        1           | BadCall     |       | No prompt provided via stdin.
        2           | BadCall     |
        101         | Crashed     |       | thread 'main' panicked
    "#,
    ways: r#"
        # The exit code adds nothing, and the reason may be only in the line before.
        1 | fail %
        0 | fail %
        1 | error %; {"type":"turn.failed"}
    "#,
    errors: r#"
        NotLoggedIn        | unexpected status 403 Forbidden: no, url: x
        BadCall            | unexpected status 404 Not Found: the model x, url: x
        Overloaded         | unexpected status 500 Internal Server Error: x
        Overloaded         | exceeded retry limit, last status: 503 Service Unavailable
        ContextExceeded    | unexpected status 413 Payload Too Large: x
        SchemaRefused      | Invalid schema for response_format 'codex_output_schema': In context=(), x
        SchemaRefused      | unexpected status 400 Bad Request: {\"error\": {\"code\": \"invalid_json_schema\"}}
        Crashed            | unexpected status 400 Bad Request: odd
        Overloaded         | We’re currently experiencing high demand, sorry
        Unreachable        | Connection failed: error sending request
        Unreachable        | stream disconnected before completion: error sending request
        NotLoggedIn        | Your workspace is out of credits.
        NotLoggedIn        | You hit your spend cap set by the owner.
        NotLoggedIn        | To use Codex with your ChatGPT plan, upgrade to Plus: x
        RateLimited        | You've hit your usage limit. Try again later.
        RateLimited+16290s | You've hit your usage limit for x. Switch to another model now, or try again at 5:20 AM.
        Crashed            | something new
    "#,
    messages: r"
        2 | workspace-write     |  | @full-auto-removed
        1 | skip-git-repo-check |  | @not-a-git-repo
        2 | does not take `--x` |  | error: unexpected argument '--x' found
        2 | exit code 2         |
    ",
    odd_lines: r#"
        {"type":"item.completed","it
        {"type":"item.completed","item":7}
        {"type":"item.completed","item":{"type":"novelty"}}
        {"type":"error"}
    "#,
    calls: r#"
        full fallback=small turns=7 budget=2.5 schema version=0.40.0
        model=gpt-5.5 deny=AWS_* env=CODEX_HOME:/state/codex | --skip-git-repo-check
        model=m                                          | --yolo
        model=m                                          | -s read-only
        model=m                                          | --sandbox=read-only; --json; --model; n
        model=m                                          | -c model="n"; -csandbox_mode="read-only"; --config=model_provider="x"
        model=m                                          | -c features.unbounded_connection_retries=true
        model=m                                          | -sread-only; -mn
        # Codex takes all following arguments as files. A prompt in an argument leaves nothing for stdin.
        model=m                                          | --yolo; -i a.png
        model=m                                          | {prompt}
        # A flag that newer versions have no more.
                                                         | --full-auto
        version=0.125.0                                  | --full-auto
        writable
        writable                                         | -s; workspace-write
        writable                                         | -c; sandbox_workspace_write.writable_roots=[]
    "#,
    ..AgentSuite::new(AgentKind::Codex, "0.166.0", LINES)
};

/// How Codex prints the words of the tables.
const LINES: &str = r#"
    begin   -
    user    -
    text    {"type":"item.completed","item":{"id":"i","type":"agent_message","text":"%"}}
    thought {"type":"item.completed","item":{"id":"r","type":"reasoning","text":"%"}}
    sub     -
    tool    {"type":"item.completed","item":{"id":"t","type":"command_execution","command":"x","exit_code":0,"status":"completed"}}
    output  {"type":"item.completed","item":{"id":"t","type":"command_execution","command":"%","aggregated_output":"%","exit_code":0,"status":"completed"}}
    todo    {"type":"item.updated","item":{"id":"l","type":"todo_list","items":[]}}
    notice  {"type":"item.completed","item":{"id":"e","type":"error","message":"%"}}
    error   {"type":"error","message":"%"}
    cut     = error Reconnecting... 1/5 (stream disconnected)
    end     {"type":"turn.completed","usage":{"input_tokens":1}}
    fail    {"type":"turn.failed","error":{"message":"%"}}
    whole   = text %
    complaint = error %; fail %
"#;

#[test]
fn an_error_after_the_answer_does_not_withdraw_it() {
    let reply = SUITE.read(&SUITE.write_stream("text Fine.; end; error late"), "", exit(0)).1;
    assert_eq!((reply.text.as_str(), reply.failure), ("Fine.", None));
}

#[test]
fn a_field_of_an_unexpected_type_is_skipped() {
    let odd = r#"{"type":"item.completed","item":{"id":7,"type":"mcp_tool_call","server":1,"tool":[],"result":"x","error":0,"status":{}}}"#;
    let lines = SUITE.write_stream(&format!("{odd}; text Fine.; end"));
    let reply = SUITE.read(&lines, "", exit(0)).1;
    assert_eq!((reply.unparsed, reply.tools, reply.failure), (0, 1, None));
}

#[test]
fn output_flags_of_the_user_replace_the_answer_file() {
    for flag in ["--json", "-o x"] {
        let mut request = build_request(AgentKind::Codex, &[flag], "Do it.");
        request.agent.output = AgentOutput::Text;
        assert_eq!(crate::select_answer_file(&request, &context()), None, "{flag}");
    }
}

#[test]
fn text_mode_without_file_has_no_answer() {
    #[track_caller]
    fn check(answer: Option<&str>, stderr: &str, ending: Ending, expect: Option<FailureClass>) {
        let mut request = build_request(AgentKind::Codex, &[], "Do it.");
        request.agent.output = AgentOutput::Text;
        let mut translator = crate::create_translator(&request, Path::new("/project"));
        let mut reading = ralph_core::answers::reply_fold::ReplyFold::default();
        // Stdout repeats the answer, and does not count.
        let stdout = "All done.\n<promise>COMPLETE</promise>";
        let mut parsed: Vec<ParsedLine> =
            stdout.lines().map(|line| translator.parse_line(line)).collect();
        parsed.extend(answer.map(|text| translator.push_answer_file(text.to_owned())));
        parsed
            .iter()
            .flat_map(|parsed| &parsed.events)
            .for_each(|event| reading.apply_event(event));
        let end = ralph_model::child::ChildEnd {
            ending,
            ran: ralph_model::units::Millis::ZERO,
            soft_limit: ralph_model::child::SoftLimit::Kept,
            leftovers: ralph_model::child::Leftovers::default(),
        };
        let evidence = crate::Evidence {
            reading: &reading,
            end: &end,
            stderr_tail: stderr,
            stdout_tail: stdout,
            now: NOW,
            zone: &jiff::tz::TimeZone::UTC,
        };
        let failure = crate::judge_call(&translator, &request.agent, &evidence);
        assert_eq!(failure.as_ref().map(|it| it.class.clone()), expect, "{stderr}");
        let signal = reading.into_reply(end, failure).signal;
        assert_eq!(signal.is_some(), answer.is_some() && expect.is_none());
    }
    let done = Some("All done.\n<promise>COMPLETE</promise>\n");
    check(done, "work\ntokens used\n1,640", exit(0), None);
    check(Some("\n"), "", exit(0), Some(FailureClass::Empty));
    check(done, "", exit(1), Some(FailureClass::Crashed));
    check(None, "work on error 429 pages", exit(0), Some(FailureClass::Malformed));
    check(None, "codex\nI read about a usage limit.", exit(1), Some(FailureClass::Crashed));
    let limit = "ERROR: You\u{2019}ve hit your usage limit. Try again later.";
    check(None, limit, exit(1), Some(FailureClass::RateLimited { resets_at: None }));
    check(
        None,
        "ERROR: unexpected status 401 Unauthorized: no, url: x",
        exit(1),
        Some(FailureClass::NotLoggedIn),
    );
    check(None, &SUITE.file("full-auto-removed.stderr.txt"), exit(2), Some(FailureClass::BadCall));
    check(None, &SUITE.file("not-a-git-repo.stderr.txt"), exit(1), Some(FailureClass::BadCall));
    check(None, "", signal(9), Some(FailureClass::Crashed));
    let hard = Ending::TimedOut { limit: Limit::Hard, force: Force::Killed };
    check(None, "", hard.clone(), Some(FailureClass::HardTimeout));
    check(done, "", hard, None);
}

#[test]
fn structured_answer_is_read_from_the_last_message() {
    let mut request = build_request(AgentKind::Codex, &[], "Do it.");
    let schema = Schema::new(serde_json::json!({ "type": "object", "properties": {} }));
    request.schema = Some(schema.with_token("k7"));
    let structured = |name| {
        let stream =
            SUITE.stream(name).replace(r#"{\"status\""#, r#"{\"token\":\"k7\",\"status\""#);
        test_support::read_stream(&request, &stream, "", exit(0), NOW).1.structured
    };
    let expect = serde_json::json!({
        "token": "k7", "status": "done", "summary": "Everything is in place.",
    });
    assert_eq!(structured("output-schema"), Some(expect));
    // Codex does not check what comes back.
    assert_eq!(structured("output-schema-ignored"), None);
}

#[test]
fn a_line_of_many_megabytes_is_read() {
    SUITE.check_long_line(16 << 20);
}

#[test]
fn a_prompt_too_long_for_an_argument_is_a_bad_call() {
    let long = "x".repeat(300_000);
    let in_argument = build_request(AgentKind::Codex, &["{prompt}"], &long);
    let failure = crate::build_call(&in_argument, &context()).expect_err("it does not fit");
    assert_eq!(failure.class, FailureClass::BadCall);
    let on_stdin = crate::build_call(&build_request(AgentKind::Codex, &[], &long), &context());
    assert_eq!(on_stdin.expect("stdin takes it").stdin.len(), long.len());
}
