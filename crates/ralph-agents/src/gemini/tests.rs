//! Recorded streams, calls, and malformed streams.

use expect_test::expect;
use ralph_model::agent::{AgentKind, Permissions};
use ralph_model::agent_output::Reply;
use ralph_model::child::{Ending, Force, Limit, NotStarted};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::call::tests::context;
use crate::test_support::build_request;
use crate::tests::conformance::GEMINI;
use crate::tests::recorded::{NOW, exit};

fn stderr_of(name: &str) -> String {
    GEMINI.file(&format!("{name}.stderr.txt"))
}

fn reply(stream: &str) -> Reply {
    GEMINI.read(stream, "", exit(0)).1
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
fn only_the_final_answer_of_a_success_counts() {
    let signal = |lines: &[&str]| reply(&lines.join("\n")).signal.is_some();
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
    // Complete messages are not appended to each other.
    let halves = [CLAIM.replace("COMPLETE</promise>", ""), CLAIM.replace("<promise>", "")];
    assert!(signal(&[&halves[0], &halves[1], SUCCESS]));
    let whole = halves.map(|half| half.replace(r#","delta":true"#, ""));
    assert!(!signal(&[&whole[0], &whole[1], SUCCESS]));
}

#[test]
fn success_needs_result_and_exit() {
    let answered = format!("{CLAIM}\n{SUCCESS}");
    let force = Force::Killed;
    GEMINI.check(&answered, "", exit(0), None);
    GEMINI.check(&answered, "", Ending::Lingered { force }, None);
    GEMINI.check(&answered, "", Ending::TimedOut { limit: Limit::Hard, force }, None);
    GEMINI.check(&answered, "", exit(1), Some(FailureClass::Crashed));
    GEMINI.check(&answered, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    GEMINI.check(&answered, "", Ending::Interrupted { force }, Some(FailureClass::Interrupted));
    GEMINI.check(SUCCESS, "", exit(0), Some(FailureClass::Empty));
    GEMINI.check(CLAIM, "", exit(0), Some(FailureClass::Malformed));
    GEMINI.check("", "", exit(0), Some(FailureClass::Malformed));
    GEMINI.check("", "boom", exit(1), Some(FailureClass::Crashed));
    GEMINI.check(&format!("{answered}\n{CLAIM}"), "", exit(0), Some(FailureClass::Malformed));
    let program = "gemini".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    let found = GEMINI.check("", "", missing, Some(FailureClass::NotInstalled)).expect("it failed");
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
        GEMINI.check(&failed("unknown", message), "", exit(code), class);
    }
    GEMINI.check(
        &failed("FatalTurnLimitedError", "x"),
        "",
        exit(53),
        Some(FailureClass::TurnLimit),
    );
    GEMINI.check(&format!("{CLAIM}\n{BROKE}"), "", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn stderr_only_errors_are_classified() {
    let untrusted = stderr_of("untrusted-folder");
    let found =
        GEMINI.check("", &untrusted, exit(55), Some(FailureClass::BadCall)).expect("it failed");
    assert!(found.message.starts_with("Gemini CLI is not running in a trusted"), "{found:?}");
    assert!(found.hint.expect("there is a way").contains("--skip-trust"));
    let no_input = stderr_of("no-input");
    let found =
        GEMINI.check("", &no_input, exit(42), Some(FailureClass::BadCall)).expect("it failed");
    assert!(found.message.starts_with("No input provided"), "{found:?}");
    GEMINI.check("", "Unknown argument: frobnicate", exit(1), Some(FailureClass::BadCall));
    GEMINI.check("", "", exit(41), Some(FailureClass::NotLoggedIn));
    GEMINI.check("", "", exit(54), Some(FailureClass::Crashed));
    // An earlier limit does not explain a later end.
    let retries = stderr_of("quota-minute-retry");
    GEMINI.check(CLAIM, &retries, exit(1), Some(FailureClass::Crashed));
    GEMINI.check(CLAIM, &retries, exit(0), Some(FailureClass::Malformed));
    GEMINI.check(CLAIM, "fetch failed", exit(0), Some(FailureClass::Malformed));
}

#[test]
fn silence_during_retries_is_a_server_failure() {
    let idle = Ending::TimedOut { limit: Limit::Idle, force: Force::Killed };
    let retries = stderr_of("quota-minute-retry");
    let begun = format!("{INIT}\n{PROMPT}");
    let limited = FailureClass::RateLimited { resets_at: None };
    let found = GEMINI.check(&begun, &retries, idle.clone(), Some(limited)).expect("it failed");
    assert!(found.message.starts_with("Attempt 2 failed"), "{found:?}");
    let server = "Attempt 3 failed with status 503. Retrying after 20000ms...";
    GEMINI.check(&begun, server, idle.clone(), Some(FailureClass::Overloaded));
    // Not caused by the server: a tool that hangs, an answer that stopped, text after the retry.
    GEMINI.check(
        &format!("{begun}\n{TOOL}"),
        &retries,
        idle.clone(),
        Some(FailureClass::IdleTimeout),
    );
    GEMINI.check(
        &format!("{begun}\n{CLAIM}"),
        &retries,
        idle.clone(),
        Some(FailureClass::IdleTimeout),
    );
    let more = format!("{retries}\nsomething else");
    GEMINI.check(&begun, &more, idle.clone(), Some(FailureClass::IdleTimeout));
    GEMINI.check("", "", idle, Some(FailureClass::IdleTimeout));
    let hard = Ending::TimedOut { limit: Limit::Hard, force: Force::Killed };
    GEMINI.check(&begun, &retries, hard, Some(FailureClass::HardTimeout));
}

#[test]
fn limit_patterns_in_the_work_are_ignored() {
    let talk = CLAIM.replace("<promise>COMPLETE</promise>", "Quota exceeded, retry in 3s.");
    GEMINI.check(&format!("{talk}\n{SUCCESS}"), "", exit(0), None);
    GEMINI.check(&talk, "", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn malformed_line_does_not_affect_others() {
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
    let found = reply(&stream);
    assert_eq!((found.unparsed, found.failure, found.signal.is_some()), (8, None, true));
    let whole = reply(&GEMINI.stream("tools-todo"));
    assert_eq!(reply(&GEMINI.stream("tools-todo").replace('\n', "")), whole);
    let noisy = GEMINI.stream("tools-todo").replace('\n', "\ngarbage ");
    let found = reply(&noisy);
    assert_eq!((found.text, found.signal, found.tools), (whole.text, whole.signal, whole.tools));
    // A field of an unexpected type is skipped, not the line.
    let odd = r#"{"type":"result","status":"success","stats":7,"error":[]}"#;
    GEMINI.check(&format!("{CLAIM}\n{odd}"), "", exit(0), None);
}

#[test]
fn default_call() {
    GEMINI.check_call(
        |request, _| request.agent.model = Some("gemini-2.5-pro".to_owned()),
        expect![[r#"
            gemini -o stream-json --yolo --skip-trust -m gemini-2.5-pro
            stdin "Do it.", idle Watch
        "#]],
    );
}

#[test]
fn user_flag_wins() {
    GEMINI.check_call(
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
        "#]],
    );
}

#[test]
fn user_permission_flags_win() {
    GEMINI.check_call(
        |request, _| {
            request.agent.permissions = Permissions::Ask;
            request.agent.flags = vec!["-p".to_owned(), "{prompt}".to_owned()];
        },
        expect![[r#"
            gemini -o stream-json -p "Do it."
            stdin "", idle Watch
        "#]],
    );
}

#[test]
fn unsupported_output_format_is_rejected() {
    for flags in [&["-o text"][..], &["--output-format=json"], &["-o", "json"]] {
        let request = build_request(AgentKind::Gemini, flags, "Do it.");
        let refused = crate::build_call(&request, &context()).expect_err("it is refused");
        assert_eq!(refused.class, FailureClass::BadCall, "{flags:?}");
    }
}
