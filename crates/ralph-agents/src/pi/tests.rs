//! The rows of pi in the tables of all agents, and what only it does: usage shows whether an
//! answer was finished.

use ralph_model::agent::AgentKind;
use ralph_model::failure::FailureClass;

use crate::LineActivity;
use crate::tests::recorded::{IDLE, exit};
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    answers: r"
        user TAG; begin; text Hm.; end Hm.               | no
        # The whole turn is repeated at its end, which replaces a lost line.
        end TAG                                          | yes
        begin; piece <promise>COMPLE; piece TE</promise>; text TAG; end TAG | yes
        begin; piece <promise>COMPLE; piece TE</promise>; result error | no
        begin; piece <promise>COMPLE; piece TE</promise>; message error TAG; begin; text; end | no
        begin; message toolUse TAG; tool; begin; text; end | no
        begin; message length TAG; result length TAG     | no
    ",
    failures: r#"
        0    | Empty       | end
        idle | Overloaded  | fail 529 overloaded; retry 529 overloaded
        0    | -           | fail 529 overloaded; retry 529 overloaded; begin; text Fine.; end Fine.
        0    | TurnLimit   | result length
        0    | Crashed     | result aborted
        0    | Malformed   | {"type":"agent_end","messages":[]}
        1    | BadCall     |       | Error: Unknown option: --frobnicate
        1    | NotLoggedIn |       | No API key found for x.
    "#,
    ways: "0 | fail %",
    errors: r"
        NotLoggedIn     | 401 Incorrect API key provided: fake.
        RateLimited     | 429 Slow down
        RateLimited+60s | 429 Try again in 60s
        ContextExceeded | 400 maximum context length is 1
        BadCall         | 404 no such model
        Overloaded      | 503 x
        Unreachable     | Connection error.
        Crashed         | odd
    ",
    calls: r"
        model=openrouter/some/model | --no-session
        model=some/model            | --provider fake
        session                     | --no-session
    ",
    ..AgentSuite::new(AgentKind::Pi, "0.73.1", LINES)
};

/// How pi prints the words of the tables.
const LINES: &str = r#"
    begin   {"type":"message_start","message":{"role":"assistant","content":[]}}
    user    {"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"%"}]}}
    text    = message stop %
    message {"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"%2"}],"stopReason":"%1"}}
    piece   {"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"%"}}
    thought -
    sub     -
    tool    {"type":"tool_execution_start","toolCallId":"c","toolName":"write","args":{"path":"a"}}
    output  {"type":"tool_execution_end","toolCallId":"c","toolName":"write","result":{"content":[{"type":"text","text":"%"}]},"isError":false}
    retry   {"type":"auto_retry_start","errorMessage":"%"}
    end     = result stop %
    result  {"type":"agent_end","messages":[{"role":"assistant","content":[{"type":"text","text":"%2"}],"stopReason":"%1"}]}
    fail    {"type":"agent_end","messages":[{"role":"assistant","content":[],"stopReason":"error","errorMessage":"%"}]}
    alone   = end %
"#;

/// Returns the lines of a stream, with an amount of tokens in every message.
fn stream(words: &str, tokens: u32) -> String {
    let usage = format!(
        r#""usage":{{"input":{tokens},"output":0,"cacheRead":0,"cacheWrite":0}},"stopReason""#
    );
    SUITE.write_stream(words).replace(r#""stopReason""#, &usage)
}

#[test]
fn unfinished_answer_is_reported_as_cut_off() {
    let answer = |tokens| stream("begin; text TAG; end TAG", tokens);
    // A provider that finishes a message without usage never sends any.
    let after_step =
        |tokens| format!("{}\n{}", stream("begin; message toolUse; tool", tokens), answer(0));
    for (lines, class) in [
        (answer(0), Some(FailureClass::Overloaded)),
        (answer(7), None),
        (after_step(0), None),
        (after_step(7), Some(FailureClass::Overloaded)),
    ] {
        let reply = SUITE.read(&lines, "", exit(0)).1;
        assert_eq!(reply.signal.is_some(), class.is_none(), "{lines}");
        assert_eq!(reply.failure.map(|failure| failure.class), class, "{lines}");
    }
}

#[test]
fn waiting_for_a_retry_is_no_progress() {
    let again = SUITE.write_stream("fail 529 overloaded; retry 529 overloaded");
    let (all, _) = SUITE.read(&again, "", IDLE);
    assert!(all.iter().all(|parsed| parsed.activity == LineActivity::Idle));
}
