//! The rows of Kilo Code in the tables of all agents.

use ralph_model::agent::AgentKind;

use crate::opencode::tests::LINES;
use crate::tests::suite::AgentSuite;

pub(crate) static SUITE: AgentSuite = AgentSuite {
    endings: "api-error-401=1 rate-limit=1 unreachable=1",
    answers: r"
        begin; text TAG; finish unknown; begin; end | no
        begin; text TAG; api 500 x; end             | no
        begin; text TAG; finish length              | no
    ",
    failures: r"
        0 | TurnLimit | begin; text Fine.; finish length
        1 | BadCall   |       | @no-input
    ",
    ways: "1 | %",
    errors: r"
        NotLoggedIn     | api 401 Incorrect API key
        RateLimited+60s | api 429 Try again in 60s
        ContextExceeded | body 400 context_length_exceeded
        Overloaded      | api 500 boom
    ",
    messages: "1 | kilo auth | api 401 Incorrect API key",
    calls: r"
        model=anthropic/claude ask text deny=SECRET_* | --agent build
        model=anthropic/claude                        | --model=x/y; --yolo
    ",
    ..AgentSuite::new(AgentKind::Kilo, "7.7.7", LINES)
};
