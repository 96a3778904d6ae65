//! What only Aider does: errors among the text, an exit code that says nothing.

use ralph_model::failure::FailureClass;

use crate::tests::conformance::AIDER;
use crate::tests::recorded::exit;

const HEAD: &str = "Aider v0.86.2\nRepo-map: using 1024 tokens, auto refresh\n\n";
const TOKENS: &str = "\nTokens: 1.2k sent, 7 received. Cost: $0.0020 message, $0.01 session.\n";

#[test]
fn an_error_among_the_text_is_a_failure_although_it_exits_with_0() {
    let limited = FailureClass::RateLimited { resets_at: None };
    for (error, class) in [
        ("litellm.AuthenticationError: Incorrect \nAPI key provided: x", FailureClass::NotLoggedIn),
        ("litellm.RateLimitError: OpenAIException - Rate limit reached", limited),
        ("litellm.ContextWindowExceededError: too long", FailureClass::ContextExceeded),
        ("litellm.BadThing: odd", FailureClass::Crashed),
    ] {
        AIDER.check(&format!("{HEAD}{error}\nmore\n"), "", exit(0), Some(class));
        // It tried again, and the answer came.
        AIDER.check(
            &format!("{HEAD}{error}\nRetrying in 0.2 seconds...\nFine.\n{TOKENS}"),
            "",
            exit(0),
            None,
        );
    }
    AIDER.check(HEAD, "", exit(0), Some(FailureClass::Malformed));
    AIDER.check(
        "",
        "aider: error: unrecognized arguments: --x",
        exit(2),
        Some(FailureClass::BadCall),
    );
}

#[test]
fn usage_is_read_from_the_line_after_the_answer() {
    let reply = AIDER.read(&format!("{HEAD}Fine.\n{TOKENS}Applied edit to a.txt\n"), "", exit(0)).1;
    assert_eq!((reply.usage.input.0, reply.usage.output.0), (1_200, 7));
    assert_eq!(reply.usage.cost.map(|cost| cost.0), Some(2_000));
    assert_eq!(reply.failure, None);
}
