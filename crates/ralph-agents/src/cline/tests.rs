//! The rows of Cline in the tables of all agents, and what only it does: the prompt as an
//! argument, errors among warnings on stderr.

use ralph_model::agent::AgentKind;

use crate::call::tests::context;
use crate::test_support::build_request;
use crate::tests::recorded::exit;
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-error-401=1 max-tokens=1 stream-drop=1 timeout=143",
    answers: r"
        # A lost piece is replaced by the complete text.
        piece <promise>COMPLE; text TAG; end TAG    | yes
        piece <promise>COMPLE; end TAG              | yes
        text TAG; end Not yet.                      | no
        text TAG; tool; end TAG                     | no
        text TAG; tool; text TAG; end TAG           | yes
        text TAG; error cut off; silent             | no
        text TAG; error cut off; end TAG            | no
        piece TAG; error cut off; piece No.; silent | no
        text TAG; end TAG; abort                    | no
    ",
    failures: r#"
        idle | IdleTimeout | @timeout
        hard | HardTimeout | @timeout
        0    | Malformed   | end Fine.; step
        0    | Crashed     | result aborted Fine.
        0    | Crashed     | result novelty Fine.
        1    | NotLoggedIn | auth no
        1    | NotLoggedIn | auth no; fail no
        0    | -           | auth no; end Fine.
        0    | -           | {"type":"run_result","finishReason":"completed","text":"Fine.","usage":7,"aggregateUsage":"x","model":[]}
        1    | BadCall     |       | @one-word-prompt
        1    | BadCall     |       | @stdin-only
    "#,
    ways: "1 | fail %",
    errors: r"
        NotLoggedIn     | Incorrect API key provided
        NotLoggedIn     | 429 insufficient_quota
        RateLimited     | Too Many Requests
        RateLimited+20s | Rate limit reached. Please try again in 20s.
        ContextExceeded | maximum context length is 8192 tokens
        Overloaded      | 503 Service Unavailable
        BadCall         | The model `x` does not exist or you do not have access to it.
        Crashed         | something new
    ",
    odd_lines: r#"
        {"type":"agent_event","eve
        {"type":"agent_event","event":{"type":"novelty"}}
        {"type":"agent_event","event":7}
    "#,
    calls: r"
        # Cline treats a single word as a command.
        model=a ask prompt=continue
                                    | Read {prompt_file} and do it.
        model=a ask deny=AWS_*      | --json; -P openai; --model=b; --auto-approve true
    ",
    ..AgentSuite::new(AgentKind::Cline, "3.0.65", LINES)
};

/// How Cline prints the words of the tables.
const LINES: &str = r#"
    begin   -
    user    -
    text    {"type":"agent_event","event":{"type":"content_end","contentType":"text","text":"%"}}
    piece   {"type":"agent_event","event":{"type":"content_start","contentType":"text","text":"%"}}
    thought {"type":"agent_event","event":{"type":"content_start","contentType":"reasoning","reasoning":"%"}}
    sub     {"parentAgentId":"a","type":"agent_event","event":{"type":"content_end","contentType":"text","text":"%"}}
    tool    {"type":"agent_event","event":{"type":"content_start","contentType":"tool","toolName":"run_commands","toolCallId":"c","input":{"commands":["ls"]}}}
    output  {"type":"agent_event","event":{"type":"content_end","contentType":"tool","toolName":"run_commands","toolCallId":"c","output":"%"}}
    step    {"type":"agent_event","event":{"type":"iteration_start","iteration":2}}
    error   {"type":"agent_event","event":{"type":"error","error":{"message":"%"}}}
    auth    {"type":"agent_event","event":{"type":"error","error":{"message":"%"},"errorClass":"auth"}}
    abort   {"type":"run_aborted","message":"aborted"}
    end     = result completed %
    fail    = result error %
    result  {"type":"run_result","finishReason":"%1","text":"%2"}
    silent  {"type":"run_result","finishReason":"completed"}
    whole   = text %
    alone   = end %
"#;

#[test]
fn error_is_found_among_warnings() {
    let warned = "Warning: AI SDK Warning System: off\n      at iX (/x.js:26:469)\n";
    let error = format!("{warned}\n{{\"type\":\"error\",\"message\":\"No such thing.\"}}\n");
    for (stderr, message) in [(&*error, "exit code 1: No such thing."), (warned, "exit code 1")] {
        let failure = SUITE.read("", stderr, exit(1)).1.failure.expect("exit 1 is no success");
        assert_eq!(failure.message, message);
    }
}

#[test]
fn unsuitable_prompt_argument_goes_to_stdin() {
    let long = "long ".repeat(50_000);
    for (prompt, is_argument) in [
        ("Do it.", true),
        ("Do it.\n\n- a\n", true),
        ("continue", false),
        ("--- \ntitle: x", false),
        ("a \0", false),
        (&long, false),
    ] {
        let call = crate::build_call(&build_request(AgentKind::Cline, &[], prompt), &context())
            .expect("every prompt gets in");
        assert_eq!(call.stdin.is_empty(), is_argument);
        assert_eq!(call.args.last().is_some_and(|last| last == prompt), is_argument);
    }
}
