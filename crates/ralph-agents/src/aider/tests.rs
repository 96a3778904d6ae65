//! What only Aider does: errors among the text, usage in a line after the answer.

use crate::tests::conformance::AIDER;
use crate::tests::recorded::exit;

#[test]
fn an_error_that_a_retry_follows_is_no_failure() {
    for error in [
        "litellm.AuthenticationError: Incorrect; text API key provided: x",
        "litellm.RateLimitError: OpenAIException - Rate limit reached",
        "litellm.ContextWindowExceededError: too long",
        "litellm.BadThing: odd",
    ] {
        let stream = AIDER.write_stream(&format!("begin; text {error}; wait; text Fine.; end"));
        AIDER.check(&stream, "", exit(0), None);
    }
}

#[test]
fn usage_is_read_from_the_line_after_the_answer() {
    let stream = AIDER.write_stream("begin; text Fine.; end; edit");
    let reply = AIDER.read(&stream, "", exit(0)).1;
    assert_eq!((reply.usage.input.0, reply.usage.output.0), (1_200, 7));
    assert_eq!(reply.usage.cost.map(|cost| cost.0), Some(2_000));
    assert_eq!(reply.failure, None);
}
