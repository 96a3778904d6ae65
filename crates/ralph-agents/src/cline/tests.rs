//! Recorded streams, calls, and malformed streams.

use expect_test::expect;
use ralph_model::agent::{AgentKind, Permissions};
use ralph_model::agent_output::Reply;
use ralph_model::child::{Ending, Force, Limit, NotStarted};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::call::tests::context;
use crate::test_support::build_request;
use crate::tests::conformance::CLINE;
use crate::tests::recorded::exit;

/// 143 stands for the one that had to be ended.
fn reply(stream: &str, ending: Ending) -> Reply {
    CLINE.read(stream, "", ending).1
}

const SUCCESS: &str = r#"{"type":"run_result","finishReason":"completed","text":"Fine."}"#;

fn failed(words: &str) -> String {
    format!(r#"{{"type":"run_result","finishReason":"error","text":"{words}"}}"#)
}

fn agent_text(words: &str) -> String {
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
        CLINE.check(&failed(words), "", exit(1), Some(class));
    }
    let error = r#"{"type":"agent_event","event":{"type":"error","error":{"message":"no"},"errorClass":"auth"}}"#;
    CLINE.check(error, "", exit(1), Some(FailureClass::NotLoggedIn));
    CLINE.check(
        &format!("{error}\n{}", failed("no")),
        "",
        exit(1),
        Some(FailureClass::NotLoggedIn),
    );
    CLINE.check(&format!("{error}\n{SUCCESS}"), "", exit(0), None);
}

#[test]
fn success_needs_result_and_exit() {
    let force = Force::Terminated;
    CLINE.check(SUCCESS, "", exit(0), None);
    CLINE.check(SUCCESS, "", Ending::Lingered { force }, None);
    CLINE.check(SUCCESS, "", Ending::TimedOut { limit: Limit::Hard, force }, None);
    CLINE.check(SUCCESS, "", exit(1), Some(FailureClass::Crashed));
    CLINE.check(SUCCESS, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    CLINE.check(SUCCESS, "", Ending::Interrupted { force }, Some(FailureClass::Interrupted));
    CLINE.check("", "", exit(0), Some(FailureClass::Malformed));
    CLINE.check(&agent_text("Fine."), "", exit(0), Some(FailureClass::Malformed));
    CLINE.check("", "boom", exit(1), Some(FailureClass::Crashed));
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    CLINE.check(&CLINE.stream("timeout"), "", idle, Some(FailureClass::IdleTimeout));
    let hard = Ending::TimedOut { limit: Limit::Hard, force };
    CLINE.check(&CLINE.stream("timeout"), "", hard, Some(FailureClass::HardTimeout));
    let program = "cline".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    CLINE.check("", "", missing, Some(FailureClass::NotInstalled));
    let silent = r#"{"type":"run_result","finishReason":"completed","text":""}"#;
    CLINE.check(silent, "", exit(0), Some(FailureClass::Empty));
    let aborted = r#"{"type":"run_result","finishReason":"aborted","text":"Fine."}"#;
    CLINE.check(aborted, "", exit(0), Some(FailureClass::Crashed));
    let other = r#"{"type":"run_result","finishReason":"novelty","text":"Fine."}"#;
    CLINE.check(other, "", exit(0), Some(FailureClass::Crashed));
    // A result, then another iteration that never ended.
    let more = r#"{"type":"agent_event","event":{"type":"iteration_start","iteration":2}}"#;
    CLINE.check(&format!("{SUCCESS}\n{more}"), "", exit(0), Some(FailureClass::Malformed));
}

#[test]
fn usage_error_is_read_from_stderr() {
    for name in ["one-word-prompt", "stdin-only"] {
        let stderr = CLINE.file(&format!("{name}.stderr.txt"));
        CLINE.check("", &stderr, exit(1), Some(FailureClass::BadCall));
    }
    let stderr = "Warning: AI SDK Warning System: off\n      at iX (/x.js:26:469)\n\n{\"type\":\"error\",\"message\":\"No such thing.\"}\n";
    let failure = CLINE.read("", stderr, exit(1)).1.failure.expect("exit 1 is no success");
    assert_eq!(failure.message, "exit code 1: No such thing.");
    let warned = "Warning: AI SDK Warning System: off\n      at iX (/x.js:26:469)\n";
    let failure = CLINE.read("", warned, exit(1)).1.failure.expect("exit 1 is no success");
    assert_eq!(failure.message, "exit code 1");
}

#[test]
fn only_the_answer_of_a_completed_run_completes() {
    let tag = "<promise>DONE</promise>";
    let answer = |text: &str| {
        format!(r#"{{"type":"run_result","finishReason":"completed","text":"{text}"}}"#)
    };
    let signal = |lines: &[String]| reply(&lines.join("\n"), exit(0)).signal;
    let done = Some("DONE".to_owned());
    assert_eq!(signal(&[agent_text(tag), answer(tag)]), done);
    assert_eq!(signal(&[piece("<promise>DO"), piece("NE</promise>"), answer(tag)]), done);
    // A lost delta is replaced by the complete text.
    assert_eq!(signal(&[piece("<promise>DO"), agent_text(tag), answer(tag)]), done);
    assert_eq!(signal(&[piece("<promise>DO"), answer(tag)]), done);
    assert_eq!(signal(&[agent_text(tag), agent_text("Not yet."), answer("Not yet.")]), None);
    assert_eq!(signal(&[agent_text(tag), answer("Not yet.")]), None);
    assert_eq!(signal(&[agent_text(tag), TOOL.to_owned(), answer("")]), None);
    assert_eq!(signal(&[agent_text(tag), TOOL.to_owned(), answer(tag)]), None);
    assert_eq!(signal(&[agent_text(tag), TOOL.to_owned(), agent_text(tag), answer(tag)]), done);
    assert_eq!(signal(&[agent_text(tag), failed(tag)]), None);
    let error = r#"{"type":"agent_event","event":{"type":"error","error":{"message":"cut off"}}}"#;
    let silent = r#"{"type":"run_result","finishReason":"completed"}"#.to_owned();
    assert_eq!(signal(&[agent_text(tag), error.to_owned(), silent.clone()]), None);
    assert_eq!(signal(&[agent_text(tag), error.to_owned(), answer(tag)]), None);
    assert_eq!(signal(&[piece(tag), error.to_owned(), piece("No."), silent]), None);
    let aborted = r#"{"type":"run_aborted","message":"aborted"}"#.to_owned();
    assert_eq!(signal(&[agent_text(tag), answer(tag), aborted]), None);
    let reasoning = r#"{"type":"agent_event","event":{"type":"content_start","contentType":"reasoning","reasoning":"<promise>DONE</promise>"}}"#;
    assert_eq!(signal(&[reasoning.to_owned(), answer("Fine.")]), None);
    let other = agent_text(tag).replacen('{', r#"{"parentAgentId":"a","#, 1);
    assert_eq!(signal(&[other, answer("Fine.")]), None);
}

#[test]
fn malformed_line_does_not_affect_others() {
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
        let whole = CLINE.stream(name);
        assert_eq!(reply(&whole.replace('\n', ""), exit(0)), reply(&whole, exit(0)), "{name}");
    }
}

#[test]
fn default_call() {}

#[test]
fn user_flag_wins() {
    CLINE.check_call(
        |request, _| {
            request.agent.flags = ["--json", "-P openai", "--model=b", "--auto-approve true"]
                .map(str::to_owned)
                .into();
            request.agent.model = Some("a".to_owned());
            request.agent.permissions = Permissions::Ask;
            request.agent.env_deny = vec!["AWS_*".to_owned()];
        },
        expect![[r#"
            cline --json -P openai --model=b --auto-approve true "Do it."
            stdin "", idle Watch
            without ["AWS_*"]
        "#]],
    );
}

#[test]
fn call_with_model_and_permission_prompts() {
    CLINE.check_call(
        |request, _| {
            request.agent.model = Some("a".to_owned());
            request.agent.permissions = Permissions::Ask;
            // Cline treats a single word as a command.
            request.prompt = "continue".to_owned();
        },
        expect![[r#"
            cline --json --auto-approve false -m a "Do what the following text asks."
            stdin "continue", idle Watch
        "#]],
    );
}

#[test]
fn unsuitable_prompt_argument_goes_to_stdin() {
    let long = "long ".repeat(50_000);
    for (prompt, is_argument) in [
        ("Do it.", true),
        ("Do it.\n\n- a\n", true),
        ("continue", false),
        ("--- \ntitle: x", false),
        ("a \0", false),
        (&long, false),
    ] {
        let call = crate::build_call(&build_request(AgentKind::Cline, &[], prompt), &context())
            .expect("every prompt gets in");
        assert_eq!(call.stdin.is_empty(), is_argument);
        assert_eq!(call.args.last().is_some_and(|last| last == prompt), is_argument);
    }
    let own = build_request(AgentKind::Cline, &["Read {prompt_file} and do it."], "Do it.");
    let call = crate::build_call(&own, &context()).expect("the prompt is in a file");
    assert_eq!(call.args, ["--json", "Read /state/prompt.md and do it."]);
    assert_eq!(call.stdin, b"");
}
