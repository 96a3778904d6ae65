//! Recorded streams, calls, and streams that Cline should not write.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use ralph_core::child::{Ending, Force, Limit, NotStarted};
use ralph_core::failure::FailureClass;
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Reply};
use ralph_core::recipe::{AgentKind, Permissions};
use ralph_core::units::Timestamp;

use crate::agents;
use crate::agents::call::tests::{context, request};
use crate::agents::recorded::{Recorded, exit, show, show_call};

const CLINE: Recorded = Recorded { kind: AgentKind::Cline, version: "3.0.65" };

/// Every recorded stream with the exit code it came with; 143 stands for the one that had to be
/// ended.
const STREAMS: [(&str, i32); 8] = [
    ("api-error-401", 1),
    ("interrupted-sigint", 0),
    ("interrupted-sigterm", 0),
    ("max-tokens", 1),
    ("stream-drop", 1),
    ("text-complete", 0),
    ("timeout", 143),
    ("tools", 0),
];

fn recorded(name: &str) -> String {
    CLINE.file(&format!("{name}.ndjson"))
}

fn reply(stream: &str, ending: Ending) -> Reply {
    CLINE.read(stream, "", ending).1
}

#[test]
fn every_recorded_stream_is_read() {
    assert_eq!(CLINE.count(), STREAMS.len());
    let mut shown = String::new();
    for (name, code) in STREAMS {
        let (all, reply) = CLINE.read(&recorded(name), "", exit(code));
        shown.push_str(&show(name, &all, &reply));
    }
    expect_file!["../../../tests/data/cline/3.0.65/readings.txt"].assert_eq(&shown);
}

#[test]
fn tools_have_ids_summaries_and_files() {
    let (all, _) = CLINE.read(&recorded("tools"), "", exit(0));
    let mut shown = String::new();
    for event in all.into_iter().flat_map(|heard| heard.events) {
        if let AgentEvent::ToolStarted { .. }
        | AgentEvent::ToolEnded { .. }
        | AgentEvent::FileChanged { .. } = event
        {
            shown.push_str(&serde_json::to_string(&event).expect("events can be written"));
            shown.push('\n');
        }
    }
    expect![[r##"
        {"type":"tool_started","id":"call_a0f526872aea4d07b4a46834","name":"read_files","summary":"/tmp/demo/README.md","speaker":"agent"}
        {"type":"tool_ended","id":"call_a0f526872aea4d07b4a46834","outcome":"ok","output":"1 | # demo"}
        {"type":"tool_started","id":"call_d970e1642f654bd182320c21","name":"run_commands","summary":"cat README.md && echo second line >&2","speaker":"agent"}
        {"type":"tool_ended","id":"call_d970e1642f654bd182320c21","outcome":"ok","output":"# demo\n\n[stderr]\nsecond line\n"}
        {"type":"tool_started","id":"call_aa9980a12f314aa1b47e8a5e","name":"run_commands","summary":"ls /nonexistent; exit 3","speaker":"agent"}
        {"type":"tool_ended","id":"call_aa9980a12f314aa1b47e8a5e","outcome":"error","output":"[Command exited with code 3]\n\n[stderr]\nls: cannot access '/nonexistent': No such file or directory\n\nCommand exited with code 3"}
        {"type":"tool_started","id":"call_0ea89618340e442f9b8421ea","name":"editor","summary":"/tmp/demo/greeting.txt","speaker":"agent"}
        {"type":"tool_ended","id":"call_0ea89618340e442f9b8421ea","outcome":"ok","output":"File created successfully at: /tmp/demo/greeting.txt"}
        {"type":"file_changed","path":"/tmp/demo/greeting.txt"}
        {"type":"tool_started","id":"call_cf64ed188dad484fb56a3a67","name":"editor","summary":"/tmp/demo/README.md","speaker":"agent"}
        {"type":"tool_ended","id":"call_cf64ed188dad484fb56a3a67","outcome":"error","output":"Editor operation failed: No replacement performed: text not found in /tmp/demo/README.md."}
    "##]].assert_eq(&shown);
}

#[track_caller]
fn check(stream: &str, stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    let found = CLINE.read(stream, stderr, ending).1.failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{stream}\n{found:?}");
}

const SUCCESS: &str = r#"{"type":"run_result","finishReason":"completed","text":"Fine."}"#;

fn failed(words: &str) -> String {
    format!(r#"{{"type":"run_result","finishReason":"error","text":"{words}"}}"#)
}

fn said(words: &str) -> String {
    format!(
        r#"{{"type":"agent_event","event":{{"type":"content_end","contentType":"text","text":"{words}"}}}}"#
    )
}

fn piece(words: &str) -> String {
    format!(
        r#"{{"type":"agent_event","event":{{"type":"content_start","contentType":"text","text":"{words}"}}}}"#
    )
}

const TOOL: &str = r#"{"type":"agent_event","event":{"type":"content_start","contentType":"tool","toolName":"run_commands","toolCallId":"c","input":{"commands":["ls"]}}}"#;

#[test]
fn each_kind_of_error_has_its_class() {
    for (words, class) in [
        ("Incorrect API key provided", FailureClass::NotLoggedIn),
        ("429 insufficient_quota", FailureClass::NotLoggedIn),
        ("Too Many Requests", FailureClass::RateLimited { resets_at: None }),
        (
            "Rate limit reached. Please try again in 20s.",
            FailureClass::RateLimited { resets_at: Some(Timestamp(1_794_703_730_000)) },
        ),
        ("maximum context length is 8192 tokens", FailureClass::ContextExceeded),
        ("503 Service Unavailable", FailureClass::Overloaded),
        ("The model `x` does not exist or you do not have access to it.", FailureClass::BadCall),
        ("something new", FailureClass::Crashed),
    ] {
        check(&failed(words), "", exit(1), Some(class));
    }
    let error = r#"{"type":"agent_event","event":{"type":"error","error":{"message":"no"},"errorClass":"auth"}}"#;
    check(error, "", exit(1), Some(FailureClass::NotLoggedIn));
    check(&format!("{error}\n{}", failed("no")), "", exit(1), Some(FailureClass::NotLoggedIn));
    check(&format!("{error}\n{SUCCESS}"), "", exit(0), None);
}

#[test]
fn a_success_needs_every_sign_of_it() {
    let force = Force::Terminated;
    check(SUCCESS, "", exit(0), None);
    check(SUCCESS, "", Ending::Lingered { force }, None);
    check(SUCCESS, "", Ending::TimedOut { limit: Limit::Hard, force }, None);
    check(SUCCESS, "", exit(1), Some(FailureClass::Crashed));
    check(SUCCESS, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    check(SUCCESS, "", Ending::Interrupted { force }, Some(FailureClass::Interrupted));
    check("", "", exit(0), Some(FailureClass::Malformed));
    check(&said("Fine."), "", exit(0), Some(FailureClass::Malformed));
    check("", "boom", exit(1), Some(FailureClass::Crashed));
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    check(&recorded("timeout"), "", idle, Some(FailureClass::IdleTimeout));
    let hard = Ending::TimedOut { limit: Limit::Hard, force };
    check(&recorded("timeout"), "", hard, Some(FailureClass::HardTimeout));
    let program = "cline".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    check("", "", missing, Some(FailureClass::NotInstalled));
    let silent = r#"{"type":"run_result","finishReason":"completed","text":""}"#;
    check(silent, "", exit(0), Some(FailureClass::Empty));
    let aborted = r#"{"type":"run_result","finishReason":"aborted","text":"Fine."}"#;
    check(aborted, "", exit(0), Some(FailureClass::Crashed));
    let other = r#"{"type":"run_result","finishReason":"novelty","text":"Fine."}"#;
    check(other, "", exit(0), Some(FailureClass::Crashed));
    // A result, then another iteration that never ended.
    let more = r#"{"type":"agent_event","event":{"type":"iteration_start","iteration":2}}"#;
    check(&format!("{SUCCESS}\n{more}"), "", exit(0), Some(FailureClass::Malformed));
}

#[test]
fn a_bad_call_is_told_on_stderr() {
    for name in ["one-word-prompt", "stdin-only"] {
        let stderr = CLINE.file(&format!("{name}.stderr.txt"));
        check("", &stderr, exit(1), Some(FailureClass::BadCall));
    }
    let stderr = "Warning: AI SDK Warning System: off\n      at iX (/x.js:26:469)\n\n{\"type\":\"error\",\"message\":\"No such thing.\"}\n";
    let failure = CLINE.read("", stderr, exit(1)).1.failure.expect("exit 1 is no success");
    assert_eq!(failure.words, "exit code 1: No such thing.");
    let warned = "Warning: AI SDK Warning System: off\n      at iX (/x.js:26:469)\n";
    let failure = CLINE.read("", warned, exit(1)).1.failure.expect("exit 1 is no success");
    assert_eq!(failure.words, "exit code 1");
}

#[test]
fn only_the_answer_of_a_completed_run_completes() {
    let tag = "<promise>DONE</promise>";
    let answer = |text: &str| {
        format!(r#"{{"type":"run_result","finishReason":"completed","text":"{text}"}}"#)
    };
    let signal = |lines: &[String]| reply(&lines.join("\n"), exit(0)).signal;
    let done = Some("DONE".to_owned());
    assert_eq!(signal(&[said(tag), answer(tag)]), done);
    assert_eq!(signal(&[piece("<promise>DO"), piece("NE</promise>"), answer(tag)]), done);
    // A piece that was lost is made up for by the whole.
    assert_eq!(signal(&[piece("<promise>DO"), said(tag), answer(tag)]), done);
    assert_eq!(signal(&[piece("<promise>DO"), answer(tag)]), done);
    assert_eq!(signal(&[said(tag), said("Not yet."), answer("Not yet.")]), None);
    assert_eq!(signal(&[said(tag), answer("Not yet.")]), None);
    assert_eq!(signal(&[said(tag), TOOL.to_owned(), answer("")]), None);
    assert_eq!(signal(&[said(tag), TOOL.to_owned(), answer(tag)]), None);
    assert_eq!(signal(&[said(tag), TOOL.to_owned(), said(tag), answer(tag)]), done);
    assert_eq!(signal(&[said(tag), failed(tag)]), None);
    let error = r#"{"type":"agent_event","event":{"type":"error","error":{"message":"cut off"}}}"#;
    let silent = r#"{"type":"run_result","finishReason":"completed"}"#.to_owned();
    assert_eq!(signal(&[said(tag), error.to_owned(), silent.clone()]), None);
    assert_eq!(signal(&[said(tag), error.to_owned(), answer(tag)]), None);
    assert_eq!(signal(&[piece(tag), error.to_owned(), piece("No."), silent]), None);
    let aborted = r#"{"type":"run_aborted","message":"aborted"}"#.to_owned();
    assert_eq!(signal(&[said(tag), answer(tag), aborted]), None);
    let reasoning = r#"{"type":"agent_event","event":{"type":"content_start","contentType":"reasoning","reasoning":"<promise>DONE</promise>"}}"#;
    assert_eq!(signal(&[reasoning.to_owned(), answer("Fine.")]), None);
    let other = said(tag).replacen('{', r#"{"parentAgentId":"a","#, 1);
    assert_eq!(signal(&[other, answer("Fine.")]), None);
}

#[test]
fn a_bad_line_costs_only_itself() {
    let odd = [
        "not json",
        r#"{"type":"agent_event","eve"#,
        "[1,2]",
        r#"{"type":"novelty"}"#,
        r#"{"type":"agent_event","event":{"type":"novelty"}}"#,
        r#"{"type":"agent_event","event":7}"#,
        r#"{"no":"type"}"#,
    ];
    let odd_result = r#"{"type":"run_result","finishReason":"completed","text":"Fine.","usage":7,"aggregateUsage":"x","model":[]}"#;
    let stream = [&odd[..], &[odd_result, ""]].concat().join("\n");
    let found = reply(&stream, exit(0));
    assert_eq!((found.unparsed, found.failure, found.text.as_str()), (7, None, "Fine."));
    for name in ["text-complete", "tools"] {
        let whole = recorded(name);
        assert_eq!(reply(&whole.replace('\n', ""), exit(0)), reply(&whole, exit(0)), "{name}");
    }
}

#[track_caller]
fn check_call(change: impl FnOnce(&mut Request), expect: Expect) {
    let mut request = request(AgentKind::Cline, &[], "Do the next task.");
    change(&mut request);
    let call = agents::call(&request, &context()).expect("every prompt gets in");
    expect.assert_eq(&show_call(call));
}

#[test]
fn the_usual_call() {
    check_call(
        |_| {},
        expect![[r#"
        cline ["--json", "Do the next task."]
        stdin "", idle Watch
        without []
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
            request.agent.flags = ["--json", "-P openai", "--model=b", "--auto-approve true"]
                .map(str::to_owned)
                .into();
            request.agent.model = Some("a".to_owned());
            request.agent.permissions = Permissions::Ask;
            request.agent.env_deny = vec!["AWS_*".to_owned()];
        },
        expect![[r#"
            cline ["--json", "-P", "openai", "--model=b", "--auto-approve", "true", "Do the next task."]
            stdin "", idle Watch
            without ["AWS_*"]
            RALPH_ASK=1
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

#[test]
fn a_call_with_a_model_that_asks_first() {
    check_call(
        |request| {
            request.agent.model = Some("a".to_owned());
            request.agent.permissions = Permissions::Ask;
            // Cline takes a single word for a command.
            request.prompt = "continue".to_owned();
        },
        expect![[r#"
            cline ["--json", "--auto-approve", "false", "-m", "a", "Do what the following text asks."]
            stdin "continue", idle Watch
            without []
            RALPH_ASK=1
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

#[test]
fn a_prompt_that_is_no_argument_goes_in_on_stdin() {
    let long = "long ".repeat(50_000);
    for (prompt, is_argument) in [
        ("Do it.", true),
        ("Do it.\n\n- a\n", true),
        ("continue", false),
        ("--- \ntitle: x", false),
        ("a \0", false),
        (&long, false),
    ] {
        let call = agents::call(&request(AgentKind::Cline, &[], prompt), &context())
            .expect("every prompt gets in");
        assert_eq!(call.stdin.is_empty(), is_argument);
        assert_eq!(call.args.last().is_some_and(|last| last == prompt), is_argument);
    }
    let own = request(AgentKind::Cline, &["Read {prompt_file} and do it."], "Do it.");
    let call = agents::call(&own, &context()).expect("the prompt is in a file");
    assert_eq!(call.args, ["--json", "Read /state/prompt.md and do it."]);
    assert_eq!(call.stdin, b"");
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(
        name in 0..STREAMS.len(),
        cut in 0usize..800,
        other in "(\\PC{0,20}|[\\[\\]{}\":,0-9a-z\\\\]{0,20})",
    ) {
        CLINE.mutilate(&recorded(STREAMS[name].0), cut, &other);
    }
}
