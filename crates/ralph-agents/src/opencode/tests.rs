//! The rows of `OpenCode` in the tables of all agents, and what only it does: colored errors, and
//! streams that are cut again and again.

use ralph_model::agent::AgentKind;
use ralph_model::failure::FailureClass;

use crate::tests::recorded::{IDLE, exit};
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-error-401=1 interrupted-sigint=s2 rate-limit-silent=s9 stream-drop-loop=s9",
    answers: r"
        begin; call; text TAG; finish tool-calls; begin; end | no
        begin; call; text TAG; finish tool-calls; begin; text Hm.; end | no
        begin; text TAG; finish unknown; begin; end      | no
        begin; text TAG; finish length; begin; end       | no
        begin; text TAG; api 500 x; end                  | no
        begin; text TAG; finish length                   | no
    ",
    failures: r"
        # A full context is compacted, and the turn continues.
        0    | -               | api 400 maximum context length; begin; text Fine.; end
        idle | ContextExceeded | api 400 maximum context length
        0    | TurnLimit       | begin; text Fine.; finish length
        0    | Crashed         | begin; text Fine.; finish content-filter
        idle | Overloaded      | begin; text Nearly.; finish unknown; begin; text Nearly.
        1    | BadCall         |       | ProviderModelNotFoundError: x
    ",
    ways: "1 | %",
    errors: r"
        NotLoggedIn     | api 401 Incorrect API key
        NotLoggedIn     | api 403 Forbidden
        NotLoggedIn     | body 429 insufficient_quota
        RateLimited     | api 429 Slow down
        RateLimited+60s | api 429 Try again in 60s
        BadCall         | api 404 no such model
        ContextExceeded | body 400 context_length_exceeded
        Overloaded      | api 500 boom
        Unreachable     | api null fetch failed
        Crashed         | api null odd
    ",
    messages: r"
        # Silence has a likely reason.
        idle | usage limit |
    ",
    odd_lines: r#"
        {"type":"news","sessionID":"s"}
        {"type":"text","part":{"te
    "#,
    calls: r"
        model=anthropic/claude ask text deny=SECRET_* | --agent build
        model=anthropic/claude                        | --model=x/y; --yolo
    ",
    ..AgentSuite::new(AgentKind::Opencode, "1.18.33", LINES)
};

/// How `OpenCode` and its forks print the words of the tables.
pub(crate) const LINES: &str = r#"
    begin   {"type":"step_start","sessionID":"s","part":{}}
    user    -
    text    {"type":"text","sessionID":"s","part":{"text":"%"}}
    piece   = text %
    thought -
    sub     -
    tool    = call; finish tool-calls; begin
    call    {"type":"tool_use","sessionID":"s","part":{"tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"ls"}}}}
    output  {"type":"tool_use","sessionID":"s","part":{"tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"%"},"output":"%"}}}
    finish  {"type":"step_finish","sessionID":"s","part":{"reason":"%"}}
    end     = finish stop
    fail    = api null %
    api     {"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"%2","statusCode":%1,"responseBody":""}}}
    body    {"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"Quota","statusCode":%1,"responseBody":"%2"}}}
    complaint = fail %
"#;

#[test]
fn colors_of_an_error_are_removed() {
    let no_message = "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mYou must provide a message or a command\n";
    let found = SUITE.check("", no_message, exit(1), Some(FailureClass::BadCall));
    let message = found.expect("exit 1").message;
    assert_eq!(message, "Error: You must provide a message or a command");
}

#[test]
fn what_follows_a_cut_stream_is_no_progress() {
    let words = "begin; text Nearly.; finish unknown; begin; text Nearly.";
    let (all, _) = SUITE.read(&SUITE.write_stream(words), "", IDLE);
    let weights: Vec<String> = all.iter().map(|parsed| format!("{:?}", parsed.activity)).collect();
    assert_eq!(weights, ["Progress", "Progress", "Idle", "Idle", "Idle", "Idle"]);
}
