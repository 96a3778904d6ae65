//! What only pi does: usage shows whether an answer was finished.

use ralph_model::failure::FailureClass;

use crate::LineActivity;
use crate::tests::conformance::PI;
use crate::tests::recorded::{IDLE, exit};

/// Returns the lines of a stream, with an amount of tokens in every message.
fn stream(words: &str, tokens: u32) -> String {
    let usage = format!(
        r#""usage":{{"input":{tokens},"output":0,"cacheRead":0,"cacheWrite":0}},"stopReason""#
    );
    PI.write_stream(words).replace(r#""stopReason""#, &usage)
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
        let reply = PI.read(&lines, "", exit(0)).1;
        assert_eq!(reply.signal.is_some(), class.is_none(), "{lines}");
        assert_eq!(reply.failure.map(|failure| failure.class), class, "{lines}");
    }
}

#[test]
fn waiting_for_a_retry_is_no_progress() {
    let again = PI.write_stream("fail 529 overloaded; retry 529 overloaded");
    let (all, _) = PI.read(&again, "", IDLE);
    assert!(all.iter().all(|parsed| parsed.activity == LineActivity::Idle));
}
