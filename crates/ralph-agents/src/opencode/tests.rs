//! What only `OpenCode` does: colored errors, and streams that are cut again and again.

use ralph_model::failure::FailureClass;

use crate::tests::conformance::OPENCODE;
use crate::tests::recorded::{IDLE, exit};

#[test]
fn colors_of_an_error_are_removed() {
    let no_message = "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mYou must provide a message or a command\n";
    let found = OPENCODE.check("", no_message, exit(1), Some(FailureClass::BadCall));
    let message = found.expect("exit 1").message;
    assert_eq!(message, "Error: You must provide a message or a command");
}

#[test]
fn what_follows_a_cut_stream_is_no_progress() {
    let words = "begin; text Nearly.; finish unknown; begin; text Nearly.";
    let (all, _) = OPENCODE.read(&OPENCODE.write_stream(words), "", IDLE);
    let weights: Vec<String> = all.iter().map(|parsed| format!("{:?}", parsed.activity)).collect();
    assert_eq!(weights, ["Progress", "Progress", "Idle", "Idle", "Idle", "Idle"]);
}
