//! The rows of Copilot CLI in the tables of all agents.

use ralph_model::agent::AgentKind;

use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-error-401=1 interrupted-sigterm=s15 stream-drop=1",
    answers: r"
        begin; piece <promise>COMPLE; piece TE</promise>; text TAG; end | yes
        # The complete message wins over different pieces.
        begin; piece <promise>COMPLE; piece TE</promise>; text; end | no
        user TAG; begin; piece Hm.; end                  | no
        user TAG; begin; text TAG; user TAG; begin; text; end | no
        begin; text TAG; tool; begin; text; end          | no
        begin; piece <promise>COMPLE; piece TE</promise>; retry 500; text; end | no
        begin; text TAG; exit 1                          | no
        begin; piece TAG; abort; end                     | no
        begin; tool; sub TAG; piece Hm.; end             | no
    ",
    failures: r#"
        0           | Malformed   | begin; text Fine.; end; begin
        idle        | RateLimited | begin; retry 429
        idle        | IdleTimeout | begin; retry 429; piece x
        0           | Crashed     | begin; text Fine.; exit 1
        0           | Malformed   | begin; text Fine.; {"type":"result"}
        0           | Empty       | begin; text; end
        # A turn that recovers from an error.
        0           | -           | begin; api 500 x; begin; text Fine.; end
        # An aborted turn is never a success. One that begins after it counts again.
        idle        | IdleTimeout | begin; piece TAG; abort; end
        0           | Malformed   | begin; piece TAG; abort; end
        interrupted | Interrupted | begin; piece TAG; abort; end
        0           | -           | begin; piece TAG; abort; begin; text Fine.; end
        # What only stderr reports.
        1           | NotLoggedIn |       | Error: No authentication information found.
    "#,
    ways: r"
        # A contradicting exit code changes nothing.
        1 | begin; api %; exit 1
        0 | begin; api %; exit 0
    ",
    errors: r"
        NotLoggedIn       | 401 Authentication failed
        NotLoggedIn       | 402 No quota
        RateLimited       | 429 Slow down
        RateLimited+3600s | null You've hit your rate limit. Try again in 1 hour
        ContextExceeded   | 400 maximum context length is 1
        Overloaded        | 503 x
        Crashed           | null odd
    ",
    odd_lines: r#"
        {"type":"session.news","data":{}}
        {"type":"session.more_news","data":{},"ephemeral":true} | skipped
    "#,
    calls: r"
        model=gpt ask env=COPILOT_OFFLINE:true | --allow-tool write
        model=gpt                              | --yolo; --model=own
    ",
    ..AgentSuite::new(AgentKind::Copilot, "1.0.102", LINES)
};

/// How Copilot CLI prints the words of the tables.
const LINES: &str = r#"
    begin   {"type":"assistant.turn_start","data":{"turnId":"0"}}
    user    {"type":"user.message","data":{"content":"%"}}
    text    {"type":"assistant.message","data":{"content":"%","toolRequests":[]}}
    piece   {"type":"assistant.message_delta","data":{"deltaContent":"%"}}
    thought -
    sub     {"type":"assistant.message","data":{"content":"%","parentToolCallId":"c"}}
    tool    {"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{}}}
    output  {"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"%"}}}
    abort   {"type":"abort","data":{"reason":"user_initiated"}}
    retry   {"type":"model.call_failure","data":{"statusCode":%,"errorMessage":"x"}}
    end     = exit 0
    exit    {"type":"result","sessionId":"s","exitCode":%,"usage":{}}
    fail    = api null %; exit 1
    api     {"type":"session.error","data":{"errorType":"query","message":"%2","statusCode":%1}}
"#;
