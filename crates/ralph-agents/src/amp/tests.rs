//! The rows of Amp in the tables of all agents, and what only it does: it waits for a login
//! forever, and reports usage for each message.

use expect_test::expect;
use ralph_model::agent::AgentKind;
use ralph_model::child::{Ending, Force};
use ralph_model::failure::FailureClass;

use crate::tests::recorded::{IDLE, exit, show};
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "error=1",
    answers: r"
        text TAG; end Not yet.                           | no
        text TAG; tool; end TAG                          | no
        end TAG                                          | yes
        halves <promise>COMPLE TE</promise>; end TAG     | yes
        user TAG; text No.; user TAG; end No.            | no
        user Go.; text TAG; user Really?; text No.; end No. | no
        # Text that a user message followed is not an answer, whether the prompt was repeated or not.
        user Go.; text TAG; user Really?; end TAG        | no
        text TAG; user Really?; end TAG                  | no
    ",
    failures: r#"
        # A result, then something that never ended.
        0 | Malformed | begin; text Fine.; end Fine.; text More.
        0 | Malformed | end Fine.; tool
        0 | Crashed   | {"type":"result","subtype":"success","is_error":true,"result":"Fine."}
        1 | TurnLimit | result error_max_turns x
        0 | -         | {"type":"result","subtype":"success","is_error":"no","result":"Fine.","usage":7,"error":[]}
        1 | BadCall   |       | @no-message
        1 | BadCall   |       | @unknown-flag
        1 | Crashed   |       | @server-404
    "#,
    ways: r"
        1 | fail %
        0 | fail %
    ",
    errors: r"
        NotLoggedIn       | Out of credits. Add credits to continue.
        NotLoggedIn       | API request failed: 401
        RateLimited+3600s | Rate limit reached, resets in 1h
        Overloaded        | Overloaded
        ContextExceeded   | The context window is full
        Crashed           | something new
    ",
    odd_lines: r#"
        {"type":"assistant","message":{"content":[{"type":"novelty"}]}} | progress
        {"type":"system","subtype":"novelty"}
    "#,
    calls: r"
        model=high ask deny=AWS_* | --settings-file a b
        model=high                | --mode low; --dangerously-allow-all; -x {prompt}
    ",
    ..AgentSuite::new(AgentKind::Amp, "0.0.1790142911", LINES)
};

/// How Amp prints the words of the tables.
const LINES: &str = r#"
    begin   -
    user    {"type":"user","message":{"content":[{"type":"text","text":"%"}]},"parent_tool_use_id":null}
    text    {"type":"assistant","message":{"content":[{"type":"text","text":"%"}]},"parent_tool_use_id":null}
    halves  {"type":"assistant","message":{"content":[{"type":"text","text":"%1"},{"type":"text","text":"%2"}]},"parent_tool_use_id":null}
    thought {"type":"assistant","message":{"content":[{"type":"thinking","thinking":"%"}]},"parent_tool_use_id":null}
    sub     {"type":"assistant","message":{"content":[{"type":"text","text":"%"}]},"parent_tool_use_id":"t"}
    tool    {"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"cmd":"ls"}}]}}
    output  {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"%"}]}}
    end     {"type":"result","subtype":"success","is_error":false,"result":"%"}
    fail    = result error_during_execution %
    result  {"type":"result","subtype":"%1","is_error":true,"error":"%2"}
    whole   = text %
    alone   = end %
"#;

#[test]
fn a_missing_key_ends_the_call() {
    // Amp would wait for a login forever: the call counts as ended, and as not logged in.
    let stdout = SUITE.file("no-api-key.stdout.txt");
    let lingered = Ending::Lingered { force: Force::Terminated };
    let (all, reply) = SUITE.read(&stdout, "", lingered);
    expect![[r#"
        no-api-key (ended after its last result)
          lines   F......
          event   notice "No API key found. Starting login flow..."
          event   result Failed("No API key found. Starting login flow...") None None
          event   unparsed "If your browser does not open automatically, visit:"
          event   unparsed "http://127.0.0.1:4010/auth/cli-login?authToken=…"
          event   unparsed "When prompted, paste your code here:"
          text    ""
          signal  None
          tools   0, 0 failed; 3 unparsed; session None; model None
          usage   0 in, 0 out, 0 read, 0 written; None
          failure NotLoggedIn: No API key found. Starting login flow...
          hint    Some("set AMP_API_KEY, or run `amp login`; without credit, add some")
    "#]]
    .assert_eq(&show("no-api-key", &all, &reply));
    SUITE.check(&stdout, "", IDLE, Some(FailureClass::NotLoggedIn));
}

#[test]
fn usage_is_summed_and_a_larger_total_wins() {
    let spent = |text: &str| {
        let line = SUITE.write_stream(&format!("text {text}"));
        line.replace("}]}", r#"}],"usage":{"input_tokens":100,"output_tokens":10}}"#)
    };
    let answer = SUITE.write_stream("end b");
    let total =
        |input: u64| answer.replace("\"b\"", &format!(r#""b","usage":{{"input_tokens":{input}}}"#));
    for (last, tokens) in [(answer.clone(), 220), (total(90), 220), (total(1_000), 1_000)] {
        let found = SUITE.read(&[spent("a"), spent("b"), last].join("\n"), "", exit(0)).1;
        assert_eq!((found.usage.tokens().0, found.unparsed), (tokens, 0));
    }
}
