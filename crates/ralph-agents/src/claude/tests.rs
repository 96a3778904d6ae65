//! What only Claude Code does: plain text, other output formats, to-do lists, MCP servers.

use std::path::Path;

use ralph_core::answers::structured_output::Schema;
use ralph_model::agent::{AgentKind, AgentOutput};
use ralph_model::agent_output::AgentEvent;
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::Translator;
use crate::test_support::{build_request, read_stream};
use crate::tests::conformance::CLAUDE;
use crate::tests::recorded::{NOW, exit, show_event};

fn translator() -> Translator {
    crate::create_translator(&CLAUDE.request(), Path::new("/project"))
}

#[test]
fn structured_answer_is_a_field_and_not_in_the_text() {
    let mut request = build_request(AgentKind::Claude, &[], "Do it.");
    request.schema = Some(Schema::new(serde_json::json!({ "type": "object" })));
    let read = |stream: &str, code| {
        let reply = read_stream(&request, stream, "", exit(code), NOW).1;
        (reply.structured, reply.failure.map(|failure| failure.class))
    };
    let (own, failure) = read(&CLAUDE.stream("structured-output"), 0);
    assert!(own.is_some_and(|own| own.is_object()) && failure.is_none());
    // It succeeds although it never gave the structured answer.
    assert_eq!(read(&CLAUDE.stream("structured-output-missing"), 0), (None, None));
    let (none, failure) = read(&CLAUDE.stream("structured-output-retries"), 1);
    assert_eq!((none, failure), (None, Some(FailureClass::Malformed)));
    let words = r#"text So: {\"status\": \"done\"}; end Fine."#;
    assert_eq!(read(&CLAUDE.write_stream(words), 0), (None, None), "it may be a quotation");
}

#[test]
fn plain_text_is_judged_by_its_content() {
    let mut plain = CLAUDE.request();
    plain.agent.output = AgentOutput::Text;
    let limit = FailureClass::RateLimited { resets_at: Some(Timestamp(1_794_710_880_000)) };
    for (stdout, code, class) in [
        ("All done.\n<promise>DONE</promise>", 0, None),
        ("", 0, Some(FailureClass::Empty)),
        ("Execution error\n", 0, Some(FailureClass::Crashed)),
        ("Prompt is too long", 1, Some(FailureClass::ContextExceeded)),
        ("Error: Reached max turns (2)", 1, Some(FailureClass::TurnLimit)),
        ("Invalid API key · Fix external API key", 1, Some(FailureClass::NotLoggedIn)),
        ("You've hit your 5-hour limit · resets 2:48am (UTC)", 1, Some(limit)),
    ] {
        let found = read_stream(&plain, stdout, "", exit(code), NOW).1.failure;
        assert_eq!(found.map(|it| it.class), class, "{stdout}");
    }
}

#[test]
fn todo_lists_are_reported_complete() {
    for (name, last) in [
        ("tools-tasks", "todo Done Fix count(), Active Run the tests"),
        (
            "tools-todo",
            "todo Done Reproduce the failing test, Done Fix count(), Done Run the tests",
        ),
    ] {
        let (all, _) = CLAUDE.read(&CLAUDE.stream(name), "", exit(0));
        let events = all.iter().flat_map(|parsed| &parsed.events).map(show_event);
        let lists: Vec<String> = events.filter(|event| event.starts_with("todo ")).collect();
        assert_eq!(lists.last().map(String::as_str), Some(last), "{name}");
    }
}

#[test]
fn output_format_of_the_user_is_read() {
    let parsed = |flag: &str, stdout: &str| -> Vec<String> {
        let request = build_request(AgentKind::Claude, &[flag], "Do it.");
        let mut translator = crate::create_translator(&request, Path::new("/project"));
        let parsed = translator.parse_line(stdout);
        let words = parsed.events.iter().map(show_event);
        words.map(|it| it.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    let json = CLAUDE.file("json-usage-limit.json");
    assert_eq!(parsed("--output-format json", json.trim_end()), ["usage", "result"]);
    assert_eq!(parsed("--output-format=text", "Fine."), ["text"]);
    let resets_at = Some(Timestamp(1_794_710_940_000));
    CLAUDE.check(&json, "", exit(1), Some(FailureClass::RateLimited { resets_at }));
}

#[test]
fn an_unreadable_line_of_many_megabytes_is_cut() {
    let broken = translator().parse_line(&format!("{{\"type\":\"{}", "x".repeat(16 << 20)));
    assert!(matches!(&broken.events[..], [AgentEvent::Unparsed { line }] if line.len() < 5_000));
}

#[test]
fn failed_mcp_servers_are_reported() {
    let mut translator = translator();
    let init = r#"{"type":"system","subtype":"init","session_id":"s","mcp_servers":[
        {"name":"memory","status":"connected"},{"name":"context7","status":"failed"},
        {"name":"slow","status":"pending"},{"name":"mail","status":"needs-auth"},{"name":"odd"}]}"#;
    translator.push_line(&init.replace('\n', ""));
    assert_eq!(translator.servers_down(), ["`context7` (failed)", "`mail` (needs-auth)"]);
}
