//! The rows of Qwen Code in the tables of all agents, and what only it does: a structured answer
//! in its result.

use ralph_model::agent::AgentKind;

use crate::tests::recorded::exit;
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-error-401=1",
    answers: r"
        piece <promise>COMPLE; piece TE</promise>; end Hm. | yes
        text TAG; end Hm.                                | yes
        text TAG; tool; end Hm.                          | no
        output TAG; end Hm.                              | no
        # A hook refused the answer.
        text TAG; end                                    | no
        begin; text TAG; fail no; end Fine.              | no
    ",
    failures: r#"
        # A result, then something that never ended.
        0  | Malformed   | begin; text Fine.; end Fine.; text More.
        1  | Crashed     | {"type":"result","subtype":"success","is_error":true,"result":"Fine."}
        53 | TurnLimit   |
        1  | RateLimited | fail [API Error: 429 Slow down.]
        1  | Overloaded  | result x [API Error: 500 Odd.]
        1  | BadCall     | result x [API Error: 404 Odd.]
        1  | Crashed     | result x [API Error: 400 Odd.]
        53 | TurnLimit   | result error_max_turns x
        1  | BadCall     |       | Unknown argument: frobnicate
    "#,
    calls: r"
        full fallback=small turns=7 budget=2.5 schema version=0.12.0
        model=qwen3 fallback=qwen2 turns=40 mcp          | --auth-type openai; -y
    ",
    ..AgentSuite::new(AgentKind::Qwen, "0.24.4", LINES)
};

/// How Qwen Code prints the words of the tables.
const LINES: &str = r##"
    begin   -
    user    {"type":"user","message":{"id":"m","content":[{"type":"text","text":"%"}]}}
    text    {"type":"assistant","parent_tool_use_id":null,"message":{"id":"#","content":[{"type":"text","text":"%"}]}}
    piece   {"type":"assistant","parent_tool_use_id":null,"message":{"id":"p","content":[{"type":"text","text":"%"}]}}
    thought {"type":"assistant","parent_tool_use_id":null,"message":{"id":"#","content":[{"type":"thinking","thinking":"%"}]}}
    sub     {"type":"assistant","parent_tool_use_id":"t","message":{"id":"#","content":[{"type":"text","text":"%"}]}}
    tool    {"type":"assistant","parent_tool_use_id":null,"message":{"id":"#","content":[{"type":"tool_use","id":"t","name":"edit","input":{}}]}}
    output  {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"%"}]}}
    end     {"type":"result","subtype":"success","is_error":false,"result":"%"}
    fail    = result error_during_execution %
    result  {"type":"result","subtype":"%1","is_error":true,"error":{"message":"%2"}}
    whole   = text %
    alone   = end %
    complaint = fail %
"##;

#[test]
fn structured_answer_is_read_from_the_result() {
    let line = r#"{"type":"result","subtype":"success","is_error":false,"result":"{\"a\":\"<promise>COMPLETE</promise>\"}","structured_result":{"a":1}}"#;
    let found = SUITE.read(line, "", exit(0)).1;
    assert_eq!((found.structured, found.signal), (Some(serde_json::json!({ "a": 1 })), None));
    assert_eq!(found.failure, None);
}
