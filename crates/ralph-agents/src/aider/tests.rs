//! The rows of Aider in the tables of all agents, and what only it does: errors among the text,
//! usage in a line after the answer.

use ralph_model::agent::AgentKind;

use crate::tests::recorded::exit;
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    failures: r"
        2 | BadCall   |       | aider: error: unrecognized arguments: --x
        0 | Malformed | begin
    ",
    ways: "0 | begin; text %; text more",
    errors: r"
        NotLoggedIn     | litellm.AuthenticationError: Incorrect; text API key provided: x
        RateLimited     | litellm.RateLimitError: OpenAIException - Rate limit reached
        ContextExceeded | litellm.ContextWindowExceededError: too long
        Crashed         | litellm.BadThing: odd
    ",
    ..AgentSuite::new(AgentKind::Aider, "0.86.2", LINES)
};

/// How Aider prints the words of the tables.
const LINES: &str = r"
    begin   = head; map
    head    Aider v0.86.2
    map     Repo-map: using 1024 tokens, auto refresh
    user    -
    text    %
    thought -
    sub     -
    wait    Retrying in 0.2 seconds...
    edit    Applied edit to a.txt
    end     Tokens: 1.2k sent, 7 received. Cost: $0.0020 message, $0.01 session.
    fail    %
";

#[test]
fn an_error_that_a_retry_follows_is_no_failure() {
    for error in [
        "litellm.AuthenticationError: Incorrect; text API key provided: x",
        "litellm.RateLimitError: OpenAIException - Rate limit reached",
        "litellm.ContextWindowExceededError: too long",
        "litellm.BadThing: odd",
    ] {
        let stream = SUITE.write_stream(&format!("begin; text {error}; wait; text Fine.; end"));
        SUITE.check(&stream, "", exit(0), None);
    }
}

#[test]
fn usage_is_read_from_the_line_after_the_answer() {
    let stream = SUITE.write_stream("begin; text Fine.; end; edit");
    let reply = SUITE.read(&stream, "", exit(0)).1;
    assert_eq!((reply.usage.input.0, reply.usage.output.0), (1_200, 7));
    assert_eq!(reply.usage.cost.map(|cost| cost.0), Some(2_000));
    assert_eq!(reply.failure, None);
}
