//! Streams written from Amp's documentation, its real errors, calls, and malformed streams.

use expect_test::expect;
use ralph_model::agent::{AgentOutput, Permissions};
use ralph_model::agent_output::Reply;
use ralph_model::child::{Ending, Force, Limit, NotStarted};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::tests::conformance::AMP;
use crate::tests::recorded::{exit, show};

fn reply(stream: &str, ending: Ending) -> Reply {
    AMP.read(stream, "", ending).1
}

fn answer(text: &str) -> String {
    format!(r#"{{"type":"result","subtype":"success","is_error":false,"result":"{text}"}}"#)
}

fn failed(words: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"error_during_execution","is_error":true,"error":"{words}"}}"#
    )
}

fn agent_line(words: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{words}"}}]}},"parent_tool_use_id":null}}"#
    )
}

fn user_line(words: &str) -> String {
    agent_line(words).replacen("assistant", "user", 1)
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
        AMP.check(&failed(words), "", exit(1), Some(class.clone()));
        AMP.check(&failed(words), "", exit(0), Some(class));
    }
    let turns = failed("x").replace("error_during_execution", "error_max_turns");
    AMP.check(&turns, "", exit(1), Some(FailureClass::TurnLimit));
}

#[test]
fn success_needs_result_and_exit() {
    let force = Force::Terminated;
    let success = answer("Fine.");
    AMP.check(&success, "", exit(0), None);
    AMP.check(&success, "", Ending::Lingered { force }, None);
    AMP.check(&success, "", exit(1), Some(FailureClass::Crashed));
    AMP.check(&success, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    AMP.check(&success, "", Ending::Interrupted { force }, Some(FailureClass::Interrupted));
    AMP.check(&answer(""), "", exit(0), Some(FailureClass::Empty));
    AMP.check(&success.replace("false", "true"), "", exit(0), Some(FailureClass::Crashed));
    AMP.check(&agent_line("Fine."), "", exit(0), Some(FailureClass::Malformed));
    AMP.check(&format!("{success}\n{TOOL}"), "", exit(0), Some(FailureClass::Malformed));
    AMP.check("", "", exit(0), Some(FailureClass::Malformed));
    AMP.check("", "boom", exit(1), Some(FailureClass::Crashed));
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    AMP.check(&agent_line("Fine."), "", idle, Some(FailureClass::IdleTimeout));
    let program = "amp".to_owned();
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    AMP.check("", "", missing, Some(FailureClass::NotInstalled));
}

#[test]
fn real_errors_are_classified() {
    for (name, class) in [
        ("no-message", FailureClass::BadCall),
        ("unknown-flag", FailureClass::BadCall),
        ("server-404", FailureClass::Crashed),
    ] {
        AMP.check("", &AMP.file(&format!("{name}.stderr.txt")), exit(1), Some(class));
    }
    // Amp would wait for a login forever: the call counts as ended, and as not logged in.
    let stdout = AMP.file("no-api-key.stdout.txt");
    let force = Force::Terminated;
    let (all, reply) = AMP.read(&stdout, "", Ending::Lingered { force });
    expect![[r#"
        no-api-key (ended after its last result)
          lines   F......
          event   notice "No API key found. Starting login flow..."
          event   result Failed("No API key found. Starting login flow...") None None
          event   unparsed "If your browser does not open automatically, visit:"
          event   unparsed "http://127.0.0.1:4010/auth/cli-login?authToken=…"
          event   unparsed "When prompted, paste your code here:"
          text    ""
          signal  None
          tools   0, 0 failed; 3 unparsed; session None; model None
          usage   0 in, 0 out, 0 read, 0 written; None
          failure NotLoggedIn: No API key found. Starting login flow...
          hint    Some("set AMP_API_KEY, or run `amp login`; without credit, add some")
    "#]]
    .assert_eq(&show("no-api-key", &all, &reply));
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    AMP.check(&stdout, "", idle, Some(FailureClass::NotLoggedIn));
}

#[test]
fn only_the_answer_of_a_successful_turn_completes() {
    let tag = "<promise>DONE</promise>";
    let signal = |lines: &[String]| reply(&lines.join("\n"), exit(0)).signal;
    let done = Some("DONE".to_owned());
    assert_eq!(signal(&[agent_line(tag), answer(tag)]), done);
    assert_eq!(signal(&[answer(tag)]), done);
    assert_eq!(signal(&[user_line(tag), answer("Fine.")]), None);
    assert_eq!(signal(&[user_line(tag), agent_line("No."), user_line(tag), answer("No.")]), None);
    assert_eq!(
        signal(&[
            user_line("Go."),
            agent_line(tag),
            user_line("Really?"),
            agent_line("No."),
            answer("No.")
        ]),
        None
    );
    // Text that a user message followed is not an answer, whether the prompt was repeated before
    // or not.
    assert_eq!(
        signal(&[user_line("Go."), agent_line(tag), user_line("Really?"), answer(tag)]),
        None
    );
    assert_eq!(signal(&[agent_line(tag), user_line("Really?"), answer(tag)]), None);
    assert_eq!(signal(&[agent_line(tag), agent_line("Not yet."), answer("Not yet.")]), None);
    assert_eq!(signal(&[agent_line(tag), answer("Not yet.")]), None);
    assert_eq!(signal(&[agent_line(tag), TOOL.to_owned(), answer("")]), None);
    assert_eq!(signal(&[agent_line(tag), TOOL.to_owned(), answer(tag)]), None);
    assert_eq!(signal(&[agent_line(tag), failed(tag)]), None);
    let subagent = agent_line(tag).replace("null", "\"t\"");
    assert_eq!(signal(&[subagent, answer("Fine.")]), None);
    let halves =
        agent_line("<promise>DO").replace("}]}", r#"},{"type":"text","text":"NE</promise>"}]}"#);
    assert_eq!(signal(&[halves, answer(tag)]), done);
}

#[test]
fn usage_is_summed_and_a_larger_total_wins() {
    let spent = |words: &str| {
        agent_line(words).replace("}]}", r#"}],"usage":{"input_tokens":100,"output_tokens":10}}"#)
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
fn malformed_line_does_not_affect_others() {
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
        let whole = AMP.stream(name);
        assert_eq!(reply(&whole.replace('\n', ""), exit(0)), reply(&whole, exit(0)), "{name}");
    }
}

#[test]
fn default_call() {
    AMP.check_call(
        |request, _| request.agent.output = AgentOutput::Text,
        expect![[r#"
            amp --stream-json --dangerously-allow-all -x
            stdin "Do it.", idle Watch
        "#]],
    );
}

#[test]
fn call_with_mode_and_permission_prompts() {
    AMP.check_call(
        |request, _| {
            request.agent.model = Some("high".to_owned());
            request.agent.permissions = Permissions::Ask;
            request.agent.flags = vec!["--settings-file a b".to_owned()];
            request.agent.env_deny = vec!["AWS_*".to_owned()];
        },
        expect![[r#"
            amp --stream-json -m high --settings-file "a b" -x
            stdin "Do it.", idle Watch
            without ["AWS_*"]
        "#]],
    );
}

#[test]
fn user_flag_wins() {
    AMP.check_call(
        |request, _| {
            request.agent.model = Some("high".to_owned());
            request.agent.flags =
                ["--mode low", "--dangerously-allow-all", "-x {prompt}"].map(str::to_owned).into();
        },
        expect![[r#"
            amp --stream-json --mode low --dangerously-allow-all -x "Do it."
            stdin "", idle Watch
        "#]],
    );
}
