//! Recorded streams, calls, and streams that Gemini CLI should not write.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use ralph_core::child::{Ending, Force, Limit, NotStarted};
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::reading::{AgentEvent, Reply};
use ralph_core::recipe::{AgentKind, Permissions};
use ralph_core::units::Timestamp;

use crate::agents::call::tests::{context, request};
use crate::agents::recorded;
use crate::agents::{self, CallContext, Heard};

/// 2026-11-15T01:28:30Z, shortly after the streams were recorded.
const NOW: Timestamp = Timestamp(1_794_706_110_000);

/// Reads a whole stream as the port does.
pub(in crate::agents) fn read(
    kind: AgentKind,
    stream: &str,
    stderr: &str,
    ending: Ending,
) -> (Vec<Heard>, Reply) {
    recorded::read(&request(kind, &[], "Do it."), stream, stderr, ending, NOW)
}

/// Shows what recorded streams bring, each with its exit code.
pub(in crate::agents) fn readings(kind: AgentKind, data: &Path, streams: &[(&str, i32)]) -> String {
    let count = recorded::count(data);
    assert_eq!(count, streams.len());
    let mut shown = String::new();
    for &(name, code) in streams {
        let (all, reply) = read(kind, &recorded_in(data, name), "", exit(code));
        let weights = recorded::weights(&all);
        let _ = writeln!(shown, "{name} (exit {code})\n  lines   {weights}");
        for event in all.iter().flat_map(|heard| &heard.events) {
            let _ = writeln!(shown, "  event   {}", show(event));
        }
        let _ = writeln!(shown, "  text    {:?}\n  signal  {:?}", reply.text, reply.signal);
        let _ = writeln!(
            shown,
            "  tools   {}, {} failed; {} unparsed",
            reply.tools, reply.tool_errors, reply.unparsed
        );
        if let Some(failure) = &reply.failure {
            let _ = writeln!(shown, "  failure {:?}: {}", failure.class, failure.words);
            let _ = writeln!(shown, "  hint    {:?}", failure.hint);
        }
    }
    shown
}

fn show(event: &AgentEvent) -> String {
    match event {
        AgentEvent::Session { id, model, version } => {
            format!("session {} {model:?} {version:?}", id.as_ref().map_or(0, String::len))
        }
        AgentEvent::Text { text, speaker, form } => format!("{form:?} of {speaker:?} {text:?}"),
        AgentEvent::Reasoning { text } => format!("reasoning {text:?}"),
        AgentEvent::ToolStarted { id: _, name, summary, speaker } => {
            format!("{speaker:?} calls {name} {summary:?}")
        }
        AgentEvent::ToolEnded { id: _, outcome, output } => format!("{outcome:?} {output:?}"),
        AgentEvent::Todo { items } => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{:?} {}", item.state, item.text)).collect();
            format!("todo {}", items.join(", "))
        }
        AgentEvent::FileChanged { path } => format!("changed {path}"),
        AgentEvent::Usage { usage, scope } => format!(
            "{scope:?} {} in, {} out, {} cached",
            usage.input.0, usage.output.0, usage.cache_read.0
        ),
        AgentEvent::RateLimit { status, resets_at } => format!("limit {status:?} {resets_at:?}"),
        AgentEvent::Notice { text } => format!("notice {text:?}"),
        AgentEvent::Result { status, text, structured: _ } => format!("result {status:?} {text:?}"),
        AgentEvent::Unparsed { line } => format!("unparsed {line:?}"),
    }
}

/// Shows a call.
pub(in crate::agents) fn shown_call(
    kind: AgentKind,
    change: impl FnOnce(&mut Request, &mut CallContext),
) -> String {
    let mut request = request(kind, &[], "Do it.");
    let mut context = context();
    change(&mut request, &mut context);
    let call = agents::call(&request, &context).expect("a small prompt fits");
    let mut shown = format!("{} {}\n", call.program, call.args.join(" "));
    let stdin = String::from_utf8_lossy(&call.stdin);
    let _ = writeln!(shown, "stdin {stdin:?}, idle {:?}", call.idle);
    let _ = writeln!(shown, "without {:?}", call.env_remove);
    for (name, value) in call.env {
        let _ = writeln!(shown, "{name}={value}");
    }
    shown
}

pub(in crate::agents) fn exit(code: i32) -> Ending {
    Ending::Exited { code }
}

pub(in crate::agents) fn recorded_in(data: &Path, name: &str) -> String {
    let path = data.join(format!("{name}.ndjson"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A recorded line, cut and mended with something else.
pub(in crate::agents) fn mutated(stream: &str, cut: usize, other: &str) -> String {
    let mut lines = Vec::new();
    for line in stream.lines() {
        let at = (0..=cut.min(line.len())).rev().find(|at| line.is_char_boundary(*at));
        let (head, tail) = line.split_at(at.unwrap_or(0));
        lines.extend([format!("{head}{other}{tail}"), format!("{head}{other}"), tail.to_owned()]);
    }
    lines.join("\n")
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/gemini/0.61.0")
}

fn recorded(name: &str) -> String {
    recorded_in(&data(), name)
}

fn stderr_of(name: &str) -> String {
    std::fs::read_to_string(data().join(format!("{name}.stderr.txt"))).expect("it is recorded")
}

fn reply(stream: &str, stderr: &str, ending: Ending) -> Reply {
    read(AgentKind::Gemini, stream, stderr, ending).1
}

#[track_caller]
fn check(
    stream: &str,
    stderr: &str,
    ending: Ending,
    expect: Option<FailureClass>,
) -> Option<Failure> {
    let found = reply(stream, stderr, ending).failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{stream}\n{found:?}");
    found
}

/// Every recorded stream with the exit code it came with.
const STREAMS: [(&str, i32); 14] = [
    ("api-key-invalid", 144),
    ("echo-only", 0),
    ("empty-response", 0),
    ("interrupted-sigint-pid", 0),
    ("interrupted-sigterm-group", 0),
    ("max-tokens", 0),
    ("max-turns", 53),
    ("quota-daily", 173),
    ("quota-minute-retry", 0),
    ("stop-hook-blocked-once", 0),
    ("stream-drop", 0),
    ("text-complete", 0),
    ("tools-todo", 0),
    ("without-yolo", 0),
];

#[test]
fn every_recorded_stream_is_read() {
    let shown = readings(AgentKind::Gemini, &data(), &STREAMS);
    expect_file!["../../../tests/data/gemini/0.61.0/readings.txt"].assert_eq(&shown);
}

const PROMPT: &str =
    r#"{"type":"message","role":"user","content":"Print <promise>COMPLETE</promise>."}"#;
const INIT: &str = r#"{"type":"init","session_id":"s","model":"m"}"#;
const CLAIM: &str =
    r#"{"type":"message","role":"assistant","content":"<promise>COMPLETE</promise>","delta":true}"#;
const TOOL: &str = r#"{"type":"tool_use","tool_name":"read_file","tool_id":"t","parameters":{}}"#;
const BLOCKED: &str =
    r#"{"type":"error","severity":"warning","message":"Agent execution blocked: no."}"#;
const WARNING: &str = r#"{"type":"error","severity":"warning","message":"Something is slow."}"#;
const BROKE: &str = r#"{"type":"error","severity":"error","message":"It broke."}"#;
const SUCCESS: &str = r#"{"type":"result","status":"success","stats":{"total_tokens":1}}"#;

fn failed(kind: &str, message: &str) -> String {
    let message = serde_json::to_string(message).expect("text can be written");
    format!(
        r#"{{"type":"result","status":"error","error":{{"type":"{kind}","message":{message}}}}}"#
    )
}

#[test]
fn only_the_last_words_of_a_success_count() {
    let signal = |lines: &[&str]| reply(&lines.join("\n"), "", exit(0)).signal.is_some();
    assert!(signal(&[INIT, PROMPT, CLAIM, SUCCESS]));
    assert!(signal(&[INIT, PROMPT, CLAIM, WARNING, SUCCESS]));
    assert!(!signal(&[INIT, PROMPT, SUCCESS]));
    assert!(!signal(&[INIT, PROMPT, CLAIM]));
    assert!(!signal(&[INIT, PROMPT, CLAIM, TOOL, SUCCESS]));
    assert!(!signal(&[INIT, PROMPT, CLAIM, BLOCKED, SUCCESS]));
    assert!(!signal(&[INIT, PROMPT, CLAIM, BROKE, SUCCESS]));
    assert!(!signal(&[INIT, CLAIM, PROMPT, SUCCESS]));
    let failed = failed("unknown", "no");
    assert!(!signal(&[INIT, PROMPT, CLAIM, &failed]));
    assert!(!signal(&[INIT, PROMPT, CLAIM, &failed, SUCCESS]));
    // Whole messages do not go on from each other.
    let halves = [CLAIM.replace("COMPLETE</promise>", ""), CLAIM.replace("<promise>", "")];
    assert!(signal(&[&halves[0], &halves[1], SUCCESS]));
    let whole = halves.map(|half| half.replace(r#","delta":true"#, ""));
    assert!(!signal(&[&whole[0], &whole[1], SUCCESS]));
}

#[test]
fn a_success_needs_every_sign_of_it() {
    let said = format!("{CLAIM}\n{SUCCESS}");
    let force = Force::Killed;
    check(&said, "", exit(0), None);
    check(&said, "", Ending::Lingered { force }, None);
    check(&said, "", Ending::TimedOut { limit: Limit::Hard, force }, None);
    check(&said, "", exit(1), Some(FailureClass::Crashed));
    check(&said, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    check(&said, "", Ending::Interrupted { force }, Some(FailureClass::Interrupted));
    check(SUCCESS, "", exit(0), Some(FailureClass::Empty));
    check(CLAIM, "", exit(0), Some(FailureClass::Malformed));
    check("", "", exit(0), Some(FailureClass::Malformed));
    check("", "boom", exit(1), Some(FailureClass::Crashed));
    check(&format!("{said}\n{CLAIM}"), "", exit(0), Some(FailureClass::Malformed));
    let program = "gemini".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    let found = check("", "", missing, Some(FailureClass::NotInstalled)).expect("it failed");
    assert!(found.hint.expect("there is a way").contains("@google/gemini-cli"));
}

#[test]
fn each_kind_of_failure_has_its_class() {
    let limit = |resets_at| Some(FailureClass::RateLimited { resets_at });
    for (message, code, class) in [
        ("[API Error: You have exhausted your daily quota on this model.]", 173, limit(None)),
        ("[API Error: Please retry in 30s.]", 173, limit(Some(Timestamp(NOW.0 + 30_000)))),
        ("[API Error: odd]", 244, Some(FailureClass::Overloaded)),
        ("[API Error: odd]", 247, Some(FailureClass::Overloaded)),
        ("[API Error: odd]", 145, Some(FailureClass::NotLoggedIn)),
        ("[API Error: odd]", 148, Some(FailureClass::BadCall)),
        ("[API Error: odd]", 144, Some(FailureClass::Crashed)),
        ("[API Error: odd]", 255, Some(FailureClass::Crashed)),
        (
            r#"[API Error: {"error":{"code":503,"message":"odd"}}]"#,
            1,
            Some(FailureClass::Overloaded),
        ),
        (
            "The input token count (9) exceeds the maximum number of tokens allowed (1).",
            144,
            Some(FailureClass::ContextExceeded),
        ),
    ] {
        check(&failed("unknown", message), "", exit(code), class);
    }
    check(&failed("FatalTurnLimitedError", "x"), "", exit(53), Some(FailureClass::TurnLimit));
    check(&format!("{CLAIM}\n{BROKE}"), "", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn what_stands_on_stderr_only_is_judged_as_well() {
    let untrusted = stderr_of("untrusted-folder");
    let found = check("", &untrusted, exit(55), Some(FailureClass::BadCall)).expect("it failed");
    assert!(found.words.starts_with("Gemini CLI is not running in a trusted"), "{found:?}");
    assert!(found.hint.expect("there is a way").contains("--skip-trust"));
    let no_input = stderr_of("no-input");
    let found = check("", &no_input, exit(42), Some(FailureClass::BadCall)).expect("it failed");
    assert!(found.words.starts_with("No input provided"), "{found:?}");
    check("", "Unknown argument: frobnicate", exit(1), Some(FailureClass::BadCall));
    check("", "", exit(41), Some(FailureClass::NotLoggedIn));
    check("", "", exit(54), Some(FailureClass::Crashed));
    // A limit that was overcome explains no later end.
    let retries = stderr_of("quota-minute-retry");
    check(CLAIM, &retries, exit(1), Some(FailureClass::Crashed));
    check(CLAIM, &retries, exit(0), Some(FailureClass::Malformed));
    check(CLAIM, "fetch failed", exit(0), Some(FailureClass::Malformed));
}

#[test]
fn silence_while_requests_are_repeated_is_the_servers() {
    let idle = Ending::TimedOut { limit: Limit::Idle, force: Force::Killed };
    let retries = stderr_of("quota-minute-retry");
    let begun = format!("{INIT}\n{PROMPT}");
    let limited = FailureClass::RateLimited { resets_at: None };
    let found = check(&begun, &retries, idle.clone(), Some(limited)).expect("it failed");
    assert!(found.words.starts_with("Attempt 2 failed"), "{found:?}");
    let server = "Attempt 3 failed with status 503. Retrying after 20000ms...";
    check(&begun, server, idle.clone(), Some(FailureClass::Overloaded));
    // Not the server's: a tool that hangs, an answer that stopped, words behind the retry.
    check(&format!("{begun}\n{TOOL}"), &retries, idle.clone(), Some(FailureClass::IdleTimeout));
    check(&format!("{begun}\n{CLAIM}"), &retries, idle.clone(), Some(FailureClass::IdleTimeout));
    let more = format!("{retries}\nsomething else");
    check(&begun, &more, idle.clone(), Some(FailureClass::IdleTimeout));
    check("", "", idle, Some(FailureClass::IdleTimeout));
    let hard = Ending::TimedOut { limit: Limit::Hard, force: Force::Killed };
    check(&begun, &retries, hard, Some(FailureClass::HardTimeout));
}

#[test]
fn words_of_a_limit_in_the_work_are_no_limit() {
    let talk = CLAIM.replace("<promise>COMPLETE</promise>", "Quota exceeded, retry in 3s.");
    check(&format!("{talk}\n{SUCCESS}"), "", exit(0), None);
    check(&talk, "", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn a_bad_line_costs_only_itself() {
    let odd = [
        "not json",
        r#"{"type":"message","role":"assi"#,
        "[1,2]",
        "\u{fffd}\u{fffd}",
        r#"{"type":"novelty"}"#,
        r#"{"no":"type"}"#,
        r#"{"type":"message","role":"narrator","content":"x"}"#,
        r#"{"type":"message","role":7}"#,
    ];
    let stream = [&odd[..], &[CLAIM, SUCCESS, ""]].concat().join("\n");
    let found = reply(&stream, "", exit(0));
    assert_eq!((found.unparsed, found.failure, found.signal.is_some()), (8, None, true));
    let whole = reply(&recorded("tools-todo"), "", exit(0));
    assert_eq!(reply(&recorded("tools-todo").replace('\n', ""), "", exit(0)), whole);
    let noisy = recorded("tools-todo").replace('\n', "\ngarbage ");
    let found = reply(&noisy, "", exit(0));
    assert_eq!((found.text, found.signal, found.tools), (whole.text, whole.signal, whole.tools));
    // A field of another type than ever before is left out, not the line.
    let odd = r#"{"type":"result","status":"success","stats":7,"error":[]}"#;
    check(&format!("{CLAIM}\n{odd}"), "", exit(0), None);
}

#[track_caller]
fn check_call(change: impl FnOnce(&mut Request, &mut CallContext), expect: Expect) {
    expect.assert_eq(&shown_call(AgentKind::Gemini, change));
}

#[test]
fn the_usual_call() {
    check_call(
        |request, _| request.agent.model = Some("gemini-2.5-pro".to_owned()),
        expect![[r#"
        gemini -o stream-json --yolo --skip-trust -m gemini-2.5-pro
        stdin "Do it.", idle Watch
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
        |request, _| {
            request.agent.flags =
                ["--model=x", "--approval-mode plan", "-o stream-json"].map(str::to_owned).to_vec();
            request.agent.model = Some("gemini-2.5-pro".to_owned());
            request.agent.env_deny = vec!["AWS_*".to_owned()];
        },
        expect![[r#"
            gemini --skip-trust --model=x --approval-mode plan -o stream-json
            stdin "Do it.", idle Watch
            without ["AWS_*"]
            RALPH_ASK=1
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

#[test]
fn permissions_of_the_users_own() {
    check_call(
        |request, _| {
            request.agent.permissions = Permissions::Ask;
            request.agent.flags = vec!["-p".to_owned(), "{prompt}".to_owned()];
        },
        expect![[r#"
            gemini -o stream-json -p Do it.
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
fn an_output_that_cannot_be_judged_is_refused() {
    for flags in [&["-o text"][..], &["--output-format=json"], &["-o", "json"]] {
        let request = request(AgentKind::Gemini, flags, "Do it.");
        let refused = agents::call(&request, &context()).expect_err("it is refused");
        assert_eq!(refused.class, FailureClass::BadCall, "{flags:?}");
    }
}

proptest! {
    #[test]
    fn no_line_makes_the_translator_panic(
        line in "\\PC{0,40}",
        kind in "(init|message|tool_use|tool_result|error|result)",
        name in 0..STREAMS.len(),
        cut in 0usize..600,
        other in "[\\[\\]{}\":,0-9a-z\\\\]{0,20}",
    ) {
        let odd = format!("{line}\n{{\"type\":\"{kind}\",\"message\":{other}}}");
        let stream = format!("{odd}\n{}", mutated(&recorded(STREAMS[name].0), cut, &other));
        let _ = reply(&stream, &line, exit(1));
    }
}
