//! The rows of Claude Code in the tables of all agents, and what only it does: plain text, other
//! output formats, to-do lists, MCP servers.

use std::path::Path;

use ralph_core::answers::structured_output::Schema;
use ralph_model::agent::{AgentKind, AgentOutput};
use ralph_model::agent_output::AgentEvent;
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::Translator;
use crate::test_support::{build_request, read_stream};
use crate::tests::recorded::{NOW, exit, show_event};
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-error-401=1 api-error-500=1 interrupted-sigterm=143 max-budget=1 \
        max-output-tokens=1 max-turns=1 rate-limit=1 structured-output-retries=1 \
        usage-limit-5h=1 usage-limit-weekly=1",
    answers: r"
        piece <promise>COMPLE; piece TE</promise>; end Hm. | yes
        text TAG; end Hm.                                | yes
        # A hook refused the answer.
        text TAG; end                                    | no
    ",
    failures: r#"
        interrupted | Interrupted     | @interrupted-sigint
        0           | Malformed       | end Fine.; init
        0           | -               | end Fine.; init; end Fine.
        0           | Malformed       | {Execution error
        # Versions without a terminal reason.
        0           | -               | {"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Fine."}
        0           | Crashed         | {"type":"result","subtype":"success","is_error":true,"num_turns":2,"result":"Fine."}
        # A hook refused the prompt; the CLI reports that as a success.
        0           | BadCall         | {"type":"result","subtype":"success","is_error":false,"num_turns":0,"result":"blocked by hook"}
        # Here a hook refused the answer.
        0           | -               | text TAG; end
        1           | ContextExceeded | stop prompt_too_long
        1           | ContextExceeded | stop blocking_limit
        1           | TurnLimit       | stop max_turns
        1           | TurnLimit       | stop budget_exhausted
        1           | TurnLimit       | stop hook_stopped
        1           | Malformed       | stop structured_output_retry_exhausted
        1           | Crashed         | stop aborted_tools
        1           | Crashed         | stop something_new
        # Silence while requests are retried is caused by the server, not the agent.
        idle        | Overloaded      | retry 529
        idle        | Overloaded      | retry null
        idle        | RateLimited     | retry 429
        idle        | NotLoggedIn     | retry 401
        idle        | IdleTimeout     | retry 529; {"type":"stream_event"}
        # A field of an unexpected type is skipped, not the line.
        0           | -               | {"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"Fine.","usage":7,"total_cost_usd":"free","num_turns":null,"errors":{},"modelUsage":[]}
        # What only stderr reports.
        1           | BadCall         |       | --dangerously-skip-permissions cannot be used with root/sudo privileges
        1           | BadCall         |       | Error: --json-schema is not valid JSON
        1           | BadCall         |       | Error: Session ID x is already in use.
        1           | NotLoggedIn     |       | Invalid API key · Please run /login
    "#,
    ways: "1 | api %",
    errors: r"
        NotLoggedIn       | 401 Invalid API key
        NotLoggedIn       | 403 Forbidden
        NotLoggedIn       | 400 Credit balance is too low
        NotLoggedIn       | null Not logged in · Please run /login
        BadCall           | 404 There's an issue with the selected model (x).
        ContextExceeded   | 413 Request too large
        ContextExceeded   | 400 prompt is too long: 1 > 0
        Overloaded        | 500 API Error: 500
        Overloaded        | 529 Overloaded
        Unreachable       | null API Error: Connection error.
        RateLimited       | 429 API Error: Request rejected (429)
        RateLimited+7170s | 429 You've hit your 5-hour limit · resets 2:48am (UTC)
        RateLimited+7192s | null Claude AI usage limit reached|1794710902
    ",
    odd_lines: r#"{"type":"system","subtype":"novelty"} | skipped"#,
    calls: r"
        full fallback=small turns=7 budget=2.5 schema version=2.0.20
        model=opus fallback=sonnet turns=40 deny=AWS_* budget=1.25 root mcp
        ask text root
        # The user's flags win.
        model=opus turns=0 budget=0                      | --model haiku; --output-format=json; --permission-mode; plan; --tools Read
    ",
    ..AgentSuite::new(AgentKind::Claude, "2.1.325", LINES)
};

/// How Claude Code prints the words of the tables.
const LINES: &str = r##"
    begin   -
    user    {"type":"user","message":{"content":[{"type":"text","text":"%"}]}}
    text    {"type":"assistant","message":{"id":"#","model":"claude","content":[{"type":"text","text":"%"}]}}
    piece   {"type":"assistant","message":{"id":"p","model":"claude","content":[{"type":"text","text":"%"}]}}
    thought {"type":"assistant","message":{"id":"#","content":[{"type":"thinking","thinking":"%"}]}}
    sub     {"type":"assistant","parent_tool_use_id":"t","message":{"id":"#","content":[{"type":"text","text":"%"}]}}
    tool    {"type":"assistant","message":{"id":"#","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}
    output  {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"%"}]}}
    end     {"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":1,"result":"%"}
    fail    = api null %
    api     {"subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":%1,"result":"%2","num_turns":1,"type":"result"}
    stop    {"subtype":"x","is_error":true,"terminal_reason":"%","num_turns":1,"type":"result"}
    retry   {"type":"system","subtype":"api_retry","attempt":4,"max_retries":10,"error_status":%,"error":"x"}
    init    {"type":"system","subtype":"init"}
    whole   = text %
    alone   = end %
"##;

fn translator() -> Translator {
    crate::create_translator(&SUITE.request(), Path::new("/project"))
}

#[test]
fn structured_answer_is_a_field_and_not_in_the_text() {
    let mut request = build_request(AgentKind::Claude, &[], "Do it.");
    request.schema = Some(Schema::new(serde_json::json!({ "type": "object" })));
    let read = |stream: &str, code| {
        let reply = read_stream(&request, stream, "", exit(code), NOW).1;
        (reply.structured, reply.failure.map(|failure| failure.class))
    };
    let (own, failure) = read(&SUITE.stream("structured-output"), 0);
    assert!(own.is_some_and(|own| own.is_object()) && failure.is_none());
    // It succeeds although it never gave the structured answer.
    assert_eq!(read(&SUITE.stream("structured-output-missing"), 0), (None, None));
    let (none, failure) = read(&SUITE.stream("structured-output-retries"), 1);
    assert_eq!((none, failure), (None, Some(FailureClass::Malformed)));
    let words = r#"text So: {\"status\": \"done\"}; end Fine."#;
    assert_eq!(read(&SUITE.write_stream(words), 0), (None, None), "it may be a quotation");
}

#[test]
fn plain_text_is_judged_by_its_content() {
    let mut plain = SUITE.request();
    plain.agent.output = AgentOutput::Text;
    let limit = FailureClass::RateLimited { resets_at: Some(Timestamp(1_794_710_880_000)) };
    for (stdout, code, class) in [
        ("All done.\n<promise>DONE</promise>", 0, None),
        ("", 0, Some(FailureClass::Empty)),
        ("Execution error\n", 0, Some(FailureClass::Crashed)),
        ("Prompt is too long", 1, Some(FailureClass::ContextExceeded)),
        ("Error: Reached max turns (2)", 1, Some(FailureClass::TurnLimit)),
        ("Invalid API key · Fix external API key", 1, Some(FailureClass::NotLoggedIn)),
        ("You've hit your 5-hour limit · resets 2:48am (UTC)", 1, Some(limit)),
    ] {
        let found = read_stream(&plain, stdout, "", exit(code), NOW).1.failure;
        assert_eq!(found.map(|it| it.class), class, "{stdout}");
    }
}

#[test]
fn todo_lists_are_reported_complete() {
    for (name, last) in [
        ("tools-tasks", "todo Done Fix count(), Active Run the tests"),
        (
            "tools-todo",
            "todo Done Reproduce the failing test, Done Fix count(), Done Run the tests",
        ),
    ] {
        let (all, _) = SUITE.read(&SUITE.stream(name), "", exit(0));
        let events = all.iter().flat_map(|parsed| &parsed.events).map(show_event);
        let lists: Vec<String> = events.filter(|event| event.starts_with("todo ")).collect();
        assert_eq!(lists.last().map(String::as_str), Some(last), "{name}");
    }
}

#[test]
fn output_format_of_the_user_is_read() {
    let parsed = |flag: &str, stdout: &str| -> Vec<String> {
        let request = build_request(AgentKind::Claude, &[flag], "Do it.");
        let mut translator = crate::create_translator(&request, Path::new("/project"));
        let parsed = translator.parse_line(stdout);
        let words = parsed.events.iter().map(show_event);
        words.map(|it| it.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    let json = SUITE.file("json-usage-limit.json");
    assert_eq!(parsed("--output-format json", json.trim_end()), ["usage", "result"]);
    assert_eq!(parsed("--output-format=text", "Fine."), ["text"]);
    let resets_at = Some(Timestamp(1_794_710_940_000));
    SUITE.check(&json, "", exit(1), Some(FailureClass::RateLimited { resets_at }));
}

#[test]
fn a_line_of_many_megabytes_is_read() {
    SUITE.check_long_line(16 << 20);
}

#[test]
fn an_unreadable_line_of_many_megabytes_is_cut() {
    let broken = translator().parse_line(&format!("{{\"type\":\"{}", "x".repeat(16 << 20)));
    assert!(matches!(&broken.events[..], [AgentEvent::Unparsed { line }] if line.len() < 5_000));
}

#[test]
fn failed_mcp_servers_are_reported() {
    let mut translator = translator();
    let init = r#"{"type":"system","subtype":"init","session_id":"s","mcp_servers":[
        {"name":"memory","status":"connected"},{"name":"context7","status":"failed"},
        {"name":"slow","status":"pending"},{"name":"mail","status":"needs-auth"},{"name":"odd"}]}"#;
    translator.push_line(&init.replace('\n', ""));
    assert_eq!(translator.servers_down(), ["`context7` (failed)", "`mail` (needs-auth)"]);
}
