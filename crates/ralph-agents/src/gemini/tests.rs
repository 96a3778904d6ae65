//! The rows of Gemini CLI in the tables of all agents, and what only it does: it refuses output
//! formats that do not tell how a call ended.

use ralph_model::agent::AgentKind;
use ralph_model::failure::FailureClass;

use crate::call::tests::context;
use crate::test_support::build_request;
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-key-invalid=144 max-turns=53 quota-daily=173",
    answers: r"
        begin; text TAG; fail no; end Fine.              | no
        begin; text TAG; warning Something is slow.; end | yes
        begin; text TAG; warning Agent execution blocked: no.; end | no
        begin; text TAG; error It broke.; end            | no
        begin; end                                       | no
        init; text TAG; user Print TAG.; end             | no
        whole <promise>COMPLE; whole TE</promise>; end   | no
    ",
    failures: r#"
        0    | Empty           | end
        # A result, then something that never ended.
        0    | Malformed       | begin; text Fine.; end Fine.; text More.
        173  | RateLimited     | fail [API Error: You have exhausted your daily quota on this model.]
        173  | RateLimited+30s | fail [API Error: Please retry in 30s.]
        244  | Overloaded      | fail [API Error: odd]
        247  | Overloaded      | fail [API Error: odd]
        145  | NotLoggedIn     | fail [API Error: odd]
        148  | BadCall         | fail [API Error: odd]
        144  | Crashed         | fail [API Error: odd]
        255  | Crashed         | fail [API Error: odd]
        1    | Overloaded      | fail [API Error: {\"error\":{\"code\":503,\"message\":\"odd\"}}]
        144  | ContextExceeded | fail The input token count (9) exceeds the maximum number of tokens allowed (1).
        53   | TurnLimit       | result FatalTurnLimitedError x
        1    | Crashed         | text Fine.; error It broke.
        0    | -               | text Fine.; {"type":"result","status":"success","stats":7,"error":[]}
        55   | BadCall         |       | @untrusted-folder
        42   | BadCall         |       | @no-input
        1    | BadCall         |       | Unknown argument: frobnicate
        41   | NotLoggedIn     |
        54   | Crashed         |
        # An earlier limit does not explain a later end.
        1    | Crashed         | text Fine.                                       | @quota-minute-retry
        0    | Malformed       | text Fine.                                       | @quota-minute-retry
        0    | Malformed       | text Fine.                                       | fetch failed
        idle | RateLimited     | begin                                            | @quota-minute-retry
        idle | Overloaded      | begin                                            | Attempt 3 failed with status 503. Retrying after 20000ms...
        # Not caused by the server: a tool that hangs, an answer that stopped, text after the retry.
        idle | IdleTimeout     | begin; tool                                      | @quota-minute-retry
        idle | IdleTimeout     | begin; text Fine.                                | @quota-minute-retry
        hard | HardTimeout     | begin                                            | @quota-minute-retry
        idle | IdleTimeout     | begin                                            | Attempt 3 failed with status 503. Retrying after 20000ms...\nsomething else
    "#,
    messages: r"
        55   | Gemini CLI is not running in a trusted |       | @untrusted-folder
        55   | --skip-trust                           |       | @untrusted-folder
        42   | No input provided                      |       | @no-input
        idle | Attempt 2 failed                       | begin | @quota-minute-retry
    ",
    odd_lines: r#"
        {"type":"message","role":"assi
        {"type":"message","role":"narrator","content":"x"}
        {"type":"message","role":7}
    "#,
    calls: r"
        full fallback=small turns=7 budget=2.5 schema version=0.40.0
        model=gemini-2.5-pro
        model=gemini-2.5-pro deny=AWS_*                  | --model=x; --approval-mode plan; -o stream-json
        ask                                              | -p; {prompt}
    ",
    ..AgentSuite::new(AgentKind::Gemini, "0.61.0", LINES)
};

/// How Gemini CLI prints the words of the tables.
const LINES: &str = r#"
    init    {"type":"init","session_id":"s","model":"m"}
    begin   = init; user Print TAG.
    user    {"type":"message","role":"user","content":"%"}
    text    {"type":"message","role":"assistant","content":"%","delta":true}
    piece   = text %
    whole   {"type":"message","role":"assistant","content":"%"}
    thought -
    sub     -
    tool    {"type":"tool_use","tool_name":"read_file","tool_id":"t","parameters":{}}
    output  {"type":"tool_result","tool_id":"t","status":"success","output":"%"}
    warning {"type":"error","severity":"warning","message":"%"}
    error   {"type":"error","severity":"error","message":"%"}
    end     {"type":"result","status":"success","stats":{"total_tokens":1}}
    fail    = result unknown %
    result  {"type":"result","status":"error","error":{"type":"%1","message":"%2"}}
    complaint = fail %
"#;

#[test]
fn unsupported_output_format_is_rejected() {
    for flags in [&["-o text"][..], &["--output-format=json"], &["-o", "json"]] {
        let request = build_request(AgentKind::Gemini, flags, "Do it.");
        let refused = crate::build_call(&request, &context()).expect_err("it is refused");
        assert_eq!(refused.class, FailureClass::BadCall, "{flags:?}");
    }
}
