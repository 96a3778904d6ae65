//! What only Codex does: an answer file in text mode, and structured answers that it does not check.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::path::Path;

use ralph_core::answers::structured_output::Schema;
use ralph_model::agent::{AgentKind, AgentOutput};
use ralph_model::child::{Ending, Force, Limit};
use ralph_model::failure::FailureClass;

use crate::ParsedLine;
use crate::call::tests::context;
use crate::test_support::{self, build_request};
use crate::tests::conformance::CODEX;
use crate::tests::recorded::{NOW, exit, signal};

#[test]
fn an_error_after_the_answer_does_not_withdraw_it() {
    let reply = CODEX.read(&CODEX.write_stream("text Fine.; end; error late"), "", exit(0)).1;
    assert_eq!((reply.text.as_str(), reply.failure), ("Fine.", None));
}

#[test]
fn a_field_of_an_unexpected_type_is_skipped() {
    let odd = r#"{"type":"item.completed","item":{"id":7,"type":"mcp_tool_call","server":1,"tool":[],"result":"x","error":0,"status":{}}}"#;
    let lines = CODEX.write_stream(&format!("{odd}; text Fine.; end"));
    let reply = CODEX.read(&lines, "", exit(0)).1;
    assert_eq!((reply.unparsed, reply.tools, reply.failure), (0, 1, None));
}

#[test]
fn output_flags_of_the_user_replace_the_answer_file() {
    for flag in ["--json", "-o x"] {
        let mut request = build_request(AgentKind::Codex, &[flag], "Do it.");
        request.agent.output = AgentOutput::Text;
        assert_eq!(crate::select_answer_file(&request, &context()), None, "{flag}");
    }
}

#[test]
fn text_mode_without_file_has_no_answer() {
    #[track_caller]
    fn check(answer: Option<&str>, stderr: &str, ending: Ending, expect: Option<FailureClass>) {
        let mut request = build_request(AgentKind::Codex, &[], "Do it.");
        request.agent.output = AgentOutput::Text;
        let mut translator = crate::create_translator(&request, Path::new("/project"));
        let mut reading = ralph_core::answers::reply_fold::ReplyFold::default();
        // Stdout repeats the answer, and does not count.
        let stdout = "All done.\n<promise>COMPLETE</promise>";
        let mut parsed: Vec<ParsedLine> =
            stdout.lines().map(|line| translator.parse_line(line)).collect();
        parsed.extend(answer.map(|text| translator.push_answer_file(text.to_owned())));
        parsed
            .iter()
            .flat_map(|parsed| &parsed.events)
            .for_each(|event| reading.apply_event(event));
        let end = ralph_model::child::ChildEnd {
            ending,
            ran: ralph_model::units::Millis::ZERO,
            soft_limit: ralph_model::child::SoftLimit::Kept,
            leftovers: ralph_model::child::Leftovers::default(),
        };
        let evidence = crate::Evidence {
            reading: &reading,
            end: &end,
            stderr_tail: stderr,
            stdout_tail: stdout,
            now: NOW,
            zone: &jiff::tz::TimeZone::UTC,
        };
        let failure = crate::judge_call(&translator, &request.agent, &evidence);
        assert_eq!(failure.as_ref().map(|it| it.class.clone()), expect, "{stderr}");
        let signal = reading.into_reply(end, failure).signal;
        assert_eq!(signal.is_some(), answer.is_some() && expect.is_none());
    }
    let done = Some("All done.\n<promise>COMPLETE</promise>\n");
    check(done, "work\ntokens used\n1,640", exit(0), None);
    check(Some("\n"), "", exit(0), Some(FailureClass::Empty));
    check(done, "", exit(1), Some(FailureClass::Crashed));
    check(None, "work on error 429 pages", exit(0), Some(FailureClass::Malformed));
    check(None, "codex\nI read about a usage limit.", exit(1), Some(FailureClass::Crashed));
    let limit = "ERROR: You\u{2019}ve hit your usage limit. Try again later.";
    check(None, limit, exit(1), Some(FailureClass::RateLimited { resets_at: None }));
    check(
        None,
        "ERROR: unexpected status 401 Unauthorized: no, url: x",
        exit(1),
        Some(FailureClass::NotLoggedIn),
    );
    check(None, &CODEX.file("full-auto-removed.stderr.txt"), exit(2), Some(FailureClass::BadCall));
    check(None, &CODEX.file("not-a-git-repo.stderr.txt"), exit(1), Some(FailureClass::BadCall));
    check(None, "", signal(9), Some(FailureClass::Crashed));
    let hard = Ending::TimedOut { limit: Limit::Hard, force: Force::Killed };
    check(None, "", hard.clone(), Some(FailureClass::HardTimeout));
    check(done, "", hard, None);
}

#[test]
fn structured_answer_is_read_from_the_last_message() {
    let mut request = build_request(AgentKind::Codex, &[], "Do it.");
    let schema = Schema::new(serde_json::json!({ "type": "object", "properties": {} }));
    request.schema = Some(schema.with_token("k7"));
    let structured = |name| {
        let stream =
            CODEX.stream(name).replace(r#"{\"status\""#, r#"{\"token\":\"k7\",\"status\""#);
        test_support::read_stream(&request, &stream, "", exit(0), NOW).1.structured
    };
    let expect = serde_json::json!({
        "token": "k7", "status": "done", "summary": "Everything is in place.",
    });
    assert_eq!(structured("output-schema"), Some(expect));
    // Codex does not check what comes back.
    assert_eq!(structured("output-schema-ignored"), None);
}

#[test]
fn a_prompt_too_long_for_an_argument_is_a_bad_call() {
    let long = "x".repeat(300_000);
    let in_argument = build_request(AgentKind::Codex, &["{prompt}"], &long);
    let failure = crate::build_call(&in_argument, &context()).expect_err("it does not fit");
    assert_eq!(failure.class, FailureClass::BadCall);
    let on_stdin = crate::build_call(&build_request(AgentKind::Codex, &[], &long), &context());
    assert_eq!(on_stdin.expect("stdin takes it").stdin.len(), long.len());
}
