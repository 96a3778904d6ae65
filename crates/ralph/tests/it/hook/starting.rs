//! The beginning of a session.

use expect_test::expect;
use serde_json::Value;

use super::{Session, captured};

#[test]
fn session_start_describes_the_run_to_ralphs_agent() {
    let session = Session::new();
    session.publish();
    let words = expect![[r#"
        This session is part of a ralph run (20261114-231500-k3f9), iteration 3 of 15, in the role `implement`.
        Task: US-1 — The front page
        - Work on this one task only; never weaken a test or a gate.
        - In the task file set this task's reviewStatus from null to "needs_review"; never set passes, approve, or touch a reviewCount.
        - Commit everything before you stop."#]];
    for name in ["sessionstart.json", "sessionstart-after-compaction.json"] {
        let answer = session.hook("session-start", &captured(name));
        assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "SessionStart");
        let text = answer["hookSpecificOutput"]["additionalContext"].as_str().expect("text");
        words.assert_eq(text);
    }
}

#[test]
fn session_start_says_nothing_to_other_sessions() {
    let input = captured("sessionstart.json");
    let session = Session::new();
    session.publish();
    let session = session.with("RALPH_ACTIVE", None);
    assert_eq!(session.hook("session-start", &input), Value::Null);
}

#[test]
fn unreadable_run_is_reported_at_session_start() {
    let session = Session::new();
    for text in ["", "{\"version\":1,\"run\":\"2026", "[]"] {
        session.publish_text(text);
        for (event, name) in [("session-start", "sessionstart.json"), ("stop", "stop.json")] {
            let answer = session.hook(event, &captured(name));
            let message = answer["systemMessage"].as_str().expect("a message");
            assert!(message.contains("cannot read"), "{message}");
            assert_eq!(answer["decision"], Value::Null);
        }
        // The guard fails closed.
        let answer = session.hook("pre-tool-use", &captured("pretooluse.json"));
        assert!(answer.to_string().contains("unresolvable.state"), "{answer}");
    }
}
