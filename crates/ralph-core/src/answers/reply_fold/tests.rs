//! Folds of complete agent outputs.

use proptest::prelude::*;
use ralph_model::child::Ending;
use ralph_model::failure::FailureClass;
use ralph_model::units::{Tokens, UsdMicros};

use super::*;
use crate::answers::structured_output::Schema;

fn text(text: &str, speaker: Speaker, form: TextForm) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned(), speaker, form }
}

fn message(words: &str) -> AgentEvent {
    text(words, Speaker::Agent, TextForm::Message)
}

fn delta(words: &str) -> AgentEvent {
    text(words, Speaker::Agent, TextForm::Delta)
}

fn tool(speaker: Speaker) -> AgentEvent {
    let (id, name, summary) = ("1".to_owned(), "Bash".to_owned(), String::new());
    AgentEvent::ToolStarted { id, name, summary, speaker }
}

fn success(text: Option<&str>) -> AgentEvent {
    let text = text.map(str::to_owned);
    AgentEvent::Result { status: ResultStatus::Success, text, structured: None }
}

fn usage(input: u64, cost: Option<u64>, scope: UsageScope) -> AgentEvent {
    let usage = Usage { input: Tokens(input), cost: cost.map(UsdMicros), ..Usage::default() };
    AgentEvent::Usage { usage, scope }
}

fn end() -> ChildEnd {
    ChildEnd::from_ending(Ending::Exited { code: 0 })
}

fn read(events: &[AgentEvent]) -> ReplyFold {
    let mut reading = ReplyFold::default();
    for event in events {
        reading.apply_event(event);
    }
    reading
}

fn reply(events: &[AgentEvent], failure: Option<Failure>) -> Reply {
    let end = end();
    read(events).into_reply(end, failure)
}

#[track_caller]
fn check(events: &[AgentEvent], words: &str, signal: Option<&str>) {
    let reply = reply(events, None);
    assert_eq!((reply.text.as_str(), reply.signal.as_deref()), (words, signal));
}

const TAG: &str = "<response>DONE</response>";

#[test]
fn only_the_agents_own_final_answer_counts() {
    check(&[], "", None);
    check(&[message(TAG)], TAG, Some("DONE"));
    check(&[message(TAG), message("Not yet.")], "Not yet.", None);
    check(&[message(TAG), tool(Speaker::Agent)], "", None);
    check(&[message(TAG), tool(Speaker::Subagent)], TAG, Some("DONE"));
    check(&[text(TAG, Speaker::Subagent, TextForm::Message)], "", None);
    check(&[AgentEvent::Reasoning { text: TAG.to_owned() }], "", None);
    check(&[AgentEvent::Notice { text: TAG.to_owned() }], "", None);
    check(&[AgentEvent::Unparsed { line: TAG.to_owned() }], "", None);
    let output = TAG.to_owned();
    let ended = AgentEvent::ToolEnded { id: "1".to_owned(), outcome: ToolOutcome::Ok, output };
    check(&[ended], "", None);
}

#[test]
fn a_tag_may_come_in_pieces() {
    check(
        &[message("a <resp"), delta("onse>DO"), delta("NE</response>")],
        &format!("a {TAG}"),
        Some("DONE"),
    );
    let subagent = text("x", Speaker::Subagent, TextForm::Message);
    check(&[message("<response>DO"), subagent, delta("NE</response>")], TAG, Some("DONE"));
}

#[test]
fn the_text_of_a_result_counts_if_there_is_no_other() {
    check(&[success(Some(TAG))], TAG, Some("DONE"));
    check(&[message("Words."), success(Some(TAG))], "Words.", None);
    check(&[message("  "), success(Some(TAG))], TAG, Some("DONE"));
}

#[test]
fn a_failure_signals_nothing() {
    let failed = Failure::new(FailureClass::Crashed, "x");
    let reply = reply(&[message(TAG), success(None)], Some(failed));
    assert_eq!((reply.signal, reply.text.as_str()), (None, TAG));
}

#[test]
fn the_last_result_counts() {
    let failed = AgentEvent::Result {
        status: ResultStatus::Failed("no".to_owned()),
        text: None,
        structured: Some(serde_json::json!(1)),
    };
    let reading = read(&[failed.clone(), success(Some("Fine."))]);
    assert_eq!(reading.result(), Some(&ResultStatus::Success));
    assert_eq!((reading.structured(), reading.text().as_str()), (None, "Fine."));
    assert_eq!(
        read(&[success(None), failed]).result(),
        Some(&ResultStatus::Failed("no".to_owned()))
    );
}

#[test]
fn no_text_and_no_answer_is_silence() {
    assert!(read(&[]).is_silent());
    assert!(read(&[message(" \n"), success(Some(" "))]).is_silent());
    assert!(!read(&[message("x")]).is_silent());
    assert!(!read(&[success(Some("x"))]).is_silent());
    let structured = Some(serde_json::json!({}));
    let status = ResultStatus::Success;
    assert!(!read(&[AgentEvent::Result { status, text: None, structured }]).is_silent());
}

#[test]
fn totals_replace_and_steps_add() {
    let sum = |events: &[AgentEvent]| {
        let usage = read(events).usage();
        (usage.input.0, usage.cost.map(|cost| cost.0))
    };
    assert_eq!(
        sum(&[usage(3, None, UsageScope::Step), usage(4, Some(2), UsageScope::Step)]),
        (7, Some(2))
    );
    assert_eq!(
        sum(&[usage(3, Some(9), UsageScope::Total), usage(4, Some(9), UsageScope::Total)]),
        (4, Some(9))
    );
}

#[test]
fn earlier_values_are_kept_unless_replaced() {
    let session = |id: Option<&str>, model: Option<&str>| AgentEvent::Session {
        id: id.map(str::to_owned),
        model: model.map(str::to_owned),
        version: None,
    };
    let reply = reply(&[session(Some("s"), Some("big")), session(None, Some("small"))], None);
    assert_eq!((reply.session.as_deref(), reply.model.as_deref()), (Some("s"), Some("small")));
}

#[test]
fn counts_are_kept() {
    let outcome = ToolOutcome::Error;
    let ended = AgentEvent::ToolEnded { id: "1".to_owned(), outcome, output: String::new() };
    let unparsed = AgentEvent::Unparsed { line: String::new() };
    let reply = reply(&[tool(Speaker::Agent), tool(Speaker::Subagent), ended, unparsed], None);
    assert_eq!((reply.tools, reply.tool_errors, reply.unparsed), (2, 1, 1));
}

#[test]
fn endless_text_is_bounded_and_still_searched() {
    let mut events = vec![message("begin ")];
    events.extend((0..100).map(|_| delta(&"x".repeat(1_000))));
    events.push(delta(TAG));
    events.extend((0..100).map(|_| delta(&"y".repeat(1_000))));
    let reply = reply(&events, None);
    assert_eq!(reply.signal.as_deref(), Some("DONE"));
    assert!(reply.text.chars().count() < REPLY_TEXT_CHARS + 100, "{}", reply.text.len());
    assert!(reply.text.starts_with("begin ") && reply.text.ends_with('y'));
}

proptest! {
    #[test]
    fn an_event_survives_its_own_format(words in "\\PC{0,20}", number in any::<i64>()) {
        let events = [
            message(&words),
            success(Some(&words)),
            AgentEvent::Result {
                status: ResultStatus::Failed(words.clone()),
                text: None,
                structured: Some(serde_json::json!({"a": [words.clone()]})),
            },
            AgentEvent::RateLimit {
                status: RateLimitStatus::Rejected,
                resets_at: Some(Timestamp(number)),
            },
        ];
        for event in events {
            let line = serde_json::to_string(&event).expect("an event can be written");
            prop_assert_eq!(serde_json::from_str::<AgentEvent>(&line).expect("and read"), event);
        }
    }
}

#[test]
fn a_structured_answer_is_looked_for_only_where_one_is_wanted() {
    let plain = serde_json::json!({ "type": "object", "properties": {} });
    let schema = Schema::new(plain.clone()).with_token("k7");
    let answer = serde_json::json!({ "token": "k7", "done": true });
    let spoken = message("So:\n```json\n{\"token\": \"k7\", \"done\": true}\n```");
    let reply = |wanted: Option<&serde_json::Value>, events: &[AgentEvent]| {
        let mut reading = ReplyFold::with_schema(wanted);
        for event in events {
            reading.apply_event(event);
        }
        reading.into_reply(end(), None)
    };
    assert_eq!(
        reply(Some(&schema), &[spoken.clone(), success(None)]).structured,
        Some(answer.clone())
    );
    assert_eq!(reply(None, &[spoken.clone(), success(None)]).structured, None);
    // An agent that got no token reports its answer separately.
    assert_eq!(reply(Some(&plain), &[spoken.clone(), success(None)]).structured, None);
    let own = AgentEvent::Result {
        status: ResultStatus::Success,
        text: None,
        structured: Some(serde_json::json!({ "own": 1 })),
    };
    let found = reply(Some(&schema), &[spoken.clone(), own]).structured;
    assert_eq!(found, Some(serde_json::json!({ "own": 1 })), "the agent's own counts");
    // Text before a tool call, and text of a failed call, contains no answer.
    assert_eq!(reply(Some(&schema), &[spoken.clone(), tool(Speaker::Agent)]).structured, None);
    let mut reading = ReplyFold::with_schema(Some(&schema));
    reading.apply_event(&spoken);
    let failure = Failure::new(FailureClass::Crashed, "no");
    assert_eq!(reading.into_reply(end(), Some(failure)).structured, None);
}

#[test]
fn a_long_structured_answer_is_complete_and_its_text_is_cut() {
    let schema = Schema::new(serde_json::json!({ "properties": {} })).with_token("k7");
    let notes = "x".repeat(3 * REPLY_TEXT_CHARS);
    let answer = serde_json::json!({ "token": "k7", "notes": notes });
    let mut reading = ReplyFold::with_schema(Some(&schema));
    reading.apply_event(&message(&answer.to_string()));
    let reply = reading.into_reply(end(), None);
    assert_eq!(reply.structured, Some(answer));
    assert!(reply.text.chars().count() < 2 * REPLY_TEXT_CHARS);
}
