//! What only Qwen Code does: a structured answer in its result.

use crate::tests::conformance::QWEN;
use crate::tests::recorded::exit;

#[test]
fn structured_answer_is_read_from_the_result() {
    let line = r#"{"type":"result","subtype":"success","is_error":false,"result":"{\"a\":\"<promise>COMPLETE</promise>\"}","structured_result":{"a":1}}"#;
    let found = QWEN.read(line, "", exit(0)).1;
    assert_eq!((found.structured, found.signal), (Some(serde_json::json!({ "a": 1 })), None));
    assert_eq!(found.failure, None);
}
