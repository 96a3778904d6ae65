//! Streams after Amp's description, its real errors, calls, and streams it should not write.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use ralph_core::child::{Ending, Force, Limit, NotStarted};
use ralph_core::failure::FailureClass;
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Reply};
use ralph_core::recipe::{AgentKind, AgentOutput, Permissions};
use ralph_core::units::Timestamp;

use crate::agents;
use crate::agents::call::tests::{context, request};
use crate::agents::recorded::{Recorded, exit, show, show_call};

const AMP: Recorded = Recorded { kind: AgentKind::Amp, version: "0.0.1790142911" };

const STREAMS: [(&str, i32); 6] = [
    ("echo-only", 0),
    ("error", 1),
    ("subagent", 0),
    ("text-complete", 0),
    ("thinking", 0),
    ("tools-todo", 0),
];

fn recorded(name: &str) -> String {
    AMP.file(&format!("{name}.ndjson"))
}

fn reply(stream: &str, ending: Ending) -> Reply {
    AMP.read(stream, "", ending).1
}

#[test]
fn every_stream_is_read() {
    assert_eq!(AMP.count(), STREAMS.len());
    let mut shown = String::new();
    for (name, code) in STREAMS {
        let (all, reply) = AMP.read(&recorded(name), "", exit(code));
        shown.push_str(&show(name, &all, &reply));
    }
    expect_file!["../../../tests/data/amp/0.0.1790142911/readings.txt"].assert_eq(&shown);
}

#[test]
fn tools_have_ids_summaries_files_and_todos() {
    let (all, _) = AMP.read(&recorded("tools-todo"), "", exit(0));
    let mut shown = String::new();
    for event in all.into_iter().flat_map(|heard| heard.events) {
        if let AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { .. }
        | AgentEvent::Todo { .. }
        | AgentEvent::FileChanged { .. } = event
        {
            shown.push_str(&serde_json::to_string(&event).expect("events can be written"));
            shown.push('\n');
        }
    }
    expect![[r##"
        {"type":"tool_started","id":"toolu_01","name":"todo_write","summary":"2 items","speaker":"agent"}
        {"type":"tool_ended","id":"toolu_01","outcome":"ok","output":"Todos updated"}
        {"type":"todo","items":[{"text":"Read the README","state":"active"},{"text":"Add greeting.txt","state":"pending"}]}
        {"type":"tool_started","id":"toolu_02","name":"Bash","summary":"cat README.md","speaker":"agent"}
        {"type":"tool_ended","id":"toolu_02","outcome":"ok","output":"{\"output\":\"# demo\\n\",\"exitCode\":0}"}
        {"type":"tool_started","id":"toolu_03","name":"Bash","summary":"ls /nonexistent; exit 3","speaker":"agent"}
        {"type":"tool_ended","id":"toolu_03","outcome":"error","output":"{\"output\":\"ls: cannot access '/nonexistent': No such file or directory\\n\",\"exitCode\":3}"}
        {"type":"tool_started","id":"toolu_04","name":"create_file","summary":"/tmp/demo/greeting.txt","speaker":"agent"}
        {"type":"tool_started","id":"toolu_05","name":"todo_write","summary":"2 items","speaker":"agent"}
        {"type":"tool_ended","id":"toolu_04","outcome":"ok","output":"Successfully created file /tmp/demo/greeting.txt"}
        {"type":"file_changed","path":"/tmp/demo/greeting.txt"}
        {"type":"tool_ended","id":"toolu_05","outcome":"ok","output":"Todos updated"}
        {"type":"todo","items":[{"text":"Read the README","state":"done"},{"text":"Add greeting.txt","state":"done"}]}
    "##]].assert_eq(&shown);
}

#[track_caller]
fn check(stream: &str, stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    let found = AMP.read(stream, stderr, ending).1.failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{stream}\n{found:?}");
}

fn answer(text: &str) -> String {
    format!(r#"{{"type":"result","subtype":"success","is_error":false,"result":"{text}"}}"#)
}

fn failed(words: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"error_during_execution","is_error":true,"error":"{words}"}}"#
    )
}

fn said(words: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{words}"}}]}},"parent_tool_use_id":null}}"#
    )
}

fn asked(words: &str) -> String {
    said(words).replacen("assistant", "user", 1)
}

const TOOL: &str = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"cmd":"ls"}}]}}"#;

#[test]
fn each_kind_of_error_has_its_class() {
    for (words, class) in [
        ("Out of credits. Add credits to continue.", FailureClass::NotLoggedIn),
        ("API request failed: 401", FailureClass::NotLoggedIn),
        (
            "Rate limit reached, resets in 1h",
            FailureClass::RateLimited { resets_at: Some(Timestamp(1_794_707_310_000)) },
        ),
        ("Overloaded", FailureClass::Overloaded),
        ("The context window is full", FailureClass::ContextExceeded),
        ("something new", FailureClass::Crashed),
    ] {
        check(&failed(words), "", exit(1), Some(class.clone()));
        check(&failed(words), "", exit(0), Some(class));
    }
    let turns = failed("x").replace("error_during_execution", "error_max_turns");
    check(&turns, "", exit(1), Some(FailureClass::TurnLimit));
}

#[test]
fn a_success_needs_every_sign_of_it() {
    let force = Force::Terminated;
    let success = answer("Fine.");
    check(&success, "", exit(0), None);
    check(&success, "", Ending::Lingered { force }, None);
    check(&success, "", exit(1), Some(FailureClass::Crashed));
    check(&success, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    check(&success, "", Ending::Interrupted { force }, Some(FailureClass::Interrupted));
    check(&answer(""), "", exit(0), Some(FailureClass::Empty));
    check(&success.replace("false", "true"), "", exit(0), Some(FailureClass::Crashed));
    check(&said("Fine."), "", exit(0), Some(FailureClass::Malformed));
    check(&format!("{success}\n{TOOL}"), "", exit(0), Some(FailureClass::Malformed));
    check("", "", exit(0), Some(FailureClass::Malformed));
    check("", "boom", exit(1), Some(FailureClass::Crashed));
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    check(&said("Fine."), "", idle, Some(FailureClass::IdleTimeout));
    let program = "amp".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    check("", "", missing, Some(FailureClass::NotInstalled));
}

#[test]
fn real_errors_are_known() {
    for (name, class) in [
        ("no-message", FailureClass::BadCall),
        ("unknown-flag", FailureClass::BadCall),
        ("server-404", FailureClass::Crashed),
    ] {
        check("", &AMP.file(&format!("{name}.stderr.txt")), exit(1), Some(class));
    }
    // It would wait for a login for ever: it counts as ended, and as not logged in.
    let stdout = AMP.file("no-api-key.stdout.txt");
    let force = Force::Terminated;
    let (all, reply) = AMP.read(&stdout, "", Ending::Lingered { force });
    expect![[r#"
        no-api-key (ended after its last result)
          lines   F......
          events  notice result unparsed unparsed unparsed
          text    ""
          signal  None
          tools   0, 0 failed; 3 unparsed; session None; model None
          usage   0 in, 0 out, 0 read, 0 written; None
          failure NotLoggedIn: No API key found. Starting login flow...
          hint    Some("set AMP_API_KEY, or run `amp login`; without credit, add some")
    "#]]
    .assert_eq(&show("no-api-key", &all, &reply));
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    check(&stdout, "", idle, Some(FailureClass::NotLoggedIn));
}

#[test]
fn only_the_answer_of_a_successful_turn_completes() {
    let tag = "<promise>DONE</promise>";
    let signal = |lines: &[String]| reply(&lines.join("\n"), exit(0)).signal;
    let done = Some("DONE".to_owned());
    assert_eq!(signal(&[said(tag), answer(tag)]), done);
    assert_eq!(signal(&[answer(tag)]), done);
    assert_eq!(signal(&[asked(tag), answer("Fine.")]), None);
    assert_eq!(signal(&[asked(tag), said("No."), asked(tag), answer("No.")]), None);
    assert_eq!(
        signal(&[asked("Go."), said(tag), asked("Really?"), said("No."), answer("No.")]),
        None
    );
    // What somebody replied to is no answer, whether the prompt was repeated before or not.
    assert_eq!(signal(&[asked("Go."), said(tag), asked("Really?"), answer(tag)]), None);
    assert_eq!(signal(&[said(tag), asked("Really?"), answer(tag)]), None);
    assert_eq!(signal(&[said(tag), said("Not yet."), answer("Not yet.")]), None);
    assert_eq!(signal(&[said(tag), answer("Not yet.")]), None);
    assert_eq!(signal(&[said(tag), TOOL.to_owned(), answer("")]), None);
    assert_eq!(signal(&[said(tag), TOOL.to_owned(), answer(tag)]), None);
    assert_eq!(signal(&[said(tag), failed(tag)]), None);
    let subagent = said(tag).replace("null", "\"t\"");
    assert_eq!(signal(&[subagent, answer("Fine.")]), None);
    let halves = said("<promise>DO").replace("}]}", r#"},{"type":"text","text":"NE</promise>"}]}"#);
    assert_eq!(signal(&[halves, answer(tag)]), done);
}

#[test]
fn use_is_added_up_and_a_greater_total_wins() {
    let spent = |words: &str| {
        said(words).replace("}]}", r#"}],"usage":{"input_tokens":100,"output_tokens":10}}"#)
    };
    let total = |input: u64| {
        answer("b").replace("\"b\"", &format!(r#""b","usage":{{"input_tokens":{input}}}"#))
    };
    for (last, tokens) in [(answer("b"), 220), (total(90), 220), (total(1_000), 1_000)] {
        let found = reply(&[spent("a"), spent("b"), last].join("\n"), exit(0));
        assert_eq!((found.usage.tokens().0, found.unparsed), (tokens, 0));
    }
}

#[test]
fn a_bad_line_costs_only_itself() {
    let odd = [
        "not json",
        r#"{"type":"assistant","mess"#,
        "[1,2]",
        r#"{"type":"novelty"}"#,
        r#"{"type":"system","subtype":"novelty"}"#,
        r#"{"type":"assistant","message":7}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"novelty"}]}}"#,
        r#"{"no":"type"}"#,
    ];
    let odd_result = r#"{"type":"result","subtype":"success","is_error":"no","result":"Fine.","usage":7,"error":[]}"#;
    let stream = [&odd[..], &[odd_result, ""]].concat().join("\n");
    let found = reply(&stream, exit(0));
    assert_eq!((found.unparsed, found.failure, found.text.as_str()), (8, None, "Fine."));
    for name in ["text-complete", "tools-todo"] {
        let whole = recorded(name);
        assert_eq!(reply(&whole.replace('\n', ""), exit(0)), reply(&whole, exit(0)), "{name}");
    }
}

#[track_caller]
fn check_call(change: impl FnOnce(&mut Request), expect: Expect) {
    let mut request = request(AgentKind::Amp, &[], "Do the next task.");
    change(&mut request);
    let call = agents::call(&request, &context()).expect("a small prompt fits");
    expect.assert_eq(&show_call(call));
}

#[test]
fn the_usual_call() {
    check_call(
        |request| request.agent.output = AgentOutput::Text,
        expect![[r#"
        amp ["--stream-json", "--dangerously-allow-all", "-x"]
        stdin "Do the next task.", idle Watch
        without []
        RALPH_ASK=1
        RALPH_ITERATION=3
        RALPH_ROLE=prompt
        RALPH_RUN_ID=20261114-231500-k3f9
    "#]],
    );
}

#[test]
fn a_call_with_a_mode_that_asks_first() {
    check_call(
        |request| {
            request.agent.model = Some("high".to_owned());
            request.agent.permissions = Permissions::Ask;
            request.agent.flags = vec!["--settings-file a b".to_owned()];
            request.agent.env_deny = vec!["AWS_*".to_owned()];
        },
        expect![[r#"
            amp ["--stream-json", "-m", "high", "--settings-file", "a b", "-x"]
            stdin "Do the next task.", idle Watch
            without ["AWS_*"]
            RALPH_ASK=1
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

#[test]
fn a_flag_of_the_users_wins() {
    check_call(
        |request| {
            request.agent.model = Some("high".to_owned());
            request.agent.flags =
                ["--mode low", "--dangerously-allow-all", "-x {prompt}"].map(str::to_owned).into();
        },
        expect![[r#"
            amp ["--stream-json", "--mode", "low", "--dangerously-allow-all", "-x", "Do the next task."]
            stdin "", idle Watch
            without []
            RALPH_ASK=1
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(
        name in 0..STREAMS.len(),
        cut in 0usize..1_000,
        other in "(\\PC{0,20}|[\\[\\]{}\":,0-9a-z\\\\]{0,20})",
    ) {
        AMP.mutilate(&recorded(STREAMS[name].0), cut, &other);
    }
}
