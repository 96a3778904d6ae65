//! Recorded streams, calls, and malformed streams.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::path::Path;

use expect_test::expect;
use ralph_core::answers::structured_output::Schema;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, AgentOutput, Permissions};
use ralph_model::agent_output::AgentEvent;
use ralph_model::child::{Ending, Force, Limit, NotStarted};
use ralph_model::failure::FailureClass;
use ralph_model::units::Timestamp;

use crate::ParsedLine;
use crate::call::tests::context;
use crate::test_support::{self, build_request};
use crate::tests::conformance::CODEX;
use crate::tests::recorded::{NOW, exit, signal};

fn failed(message: &str) -> String {
    format!(r#"{{"type":"turn.failed","error":{{"message":"{message}"}}}}"#)
}

fn error(message: &str) -> String {
    format!(r#"{{"type":"error","message":"{message}"}}"#)
}

fn agent_message(text: &str) -> String {
    format!(
        r#"{{"type":"item.completed","item":{{"id":"i","type":"agent_message","text":"{text}"}}}}"#
    )
}

const COMPLETED: &str = r#"{"type":"turn.completed","usage":{"input_tokens":1}}"#;

fn success() -> String {
    format!("{}\n{COMPLETED}", agent_message("Fine."))
}

#[test]
fn each_kind_of_failed_turn_has_its_class() {
    let limit =
        |millis: Option<i64>| FailureClass::RateLimited { resets_at: millis.map(Timestamp) };
    for (message, class) in [
        ("unexpected status 403 Forbidden: no, url: x", FailureClass::NotLoggedIn),
        ("unexpected status 404 Not Found: the model x, url: x", FailureClass::BadCall),
        ("unexpected status 500 Internal Server Error: x", FailureClass::Overloaded),
        ("exceeded retry limit, last status: 503 Service Unavailable", FailureClass::Overloaded),
        ("unexpected status 413 Payload Too Large: x", FailureClass::ContextExceeded),
        (
            "Invalid schema for response_format 'codex_output_schema': In context=(), x",
            FailureClass::SchemaRefused,
        ),
        (
            r#"unexpected status 400 Bad Request: {\"error\": {\"code\": \"invalid_json_schema\"}}"#,
            FailureClass::SchemaRefused,
        ),
        ("unexpected status 400 Bad Request: odd", FailureClass::Crashed),
        ("We’re currently experiencing high demand, sorry", FailureClass::Overloaded),
        ("Connection failed: error sending request", FailureClass::Unreachable),
        ("Your workspace is out of credits.", FailureClass::NotLoggedIn),
        ("You hit your spend cap set by the owner.", FailureClass::NotLoggedIn),
        ("To use Codex with your ChatGPT plan, upgrade to Plus: x", FailureClass::NotLoggedIn),
        ("You've hit your usage limit. Try again later.", limit(None)),
        (
            "You've hit your usage limit for x. Switch to another model now, or try again at 5:20 AM.",
            limit(Some(1_794_720_000_000)),
        ),
        ("something new", FailureClass::Crashed),
    ] {
        CODEX.check(&failed(message), "", exit(1), Some(class.clone()));
        // The exit code adds nothing.
        CODEX.check(&failed(message), "", exit(0), Some(class.clone()));
        // The reason may be only in the line before.
        let stream = format!("{}\n{}", error(message), r#"{"type":"turn.failed"}"#);
        CODEX.check(&stream, "", exit(1), Some(class));
    }
}

#[test]
fn success_needs_result_and_exit() {
    let success = success();
    CODEX.check(&success, "", exit(0), None);
    CODEX.check(&success, "", Ending::Lingered { force: Force::Killed }, None);
    CODEX.check(&success, "", exit(1), Some(FailureClass::Crashed));
    CODEX.check(&success, "", signal(9), Some(FailureClass::Crashed));
    CODEX.check(COMPLETED, "", exit(0), Some(FailureClass::Empty));
    CODEX.check(&agent_message("Fine."), "", exit(0), Some(FailureClass::Malformed));
    CODEX.check("", "", exit(0), Some(FailureClass::Malformed));
    CODEX.check("", "boom", exit(101), Some(FailureClass::Crashed));
    // Events after the end of a turn belong to another one.
    CODEX.check(
        &format!("{success}\n{}", agent_message("More.")),
        "",
        exit(0),
        Some(FailureClass::Malformed),
    );
    let again = format!("{success}\n{}", r#"{"type":"turn.started"}"#);
    CODEX.check(&again, "", exit(0), Some(FailureClass::Malformed));
    // An error after the answer does not withdraw it.
    let reply = CODEX.read(&format!("{success}\n{}", error("late")), "", exit(0)).1;
    assert_eq!((reply.text.as_str(), reply.failure), ("Fine.", None));
}

#[test]
fn endings_by_ralph_have_their_own_class() {
    let force = Force::Terminated;
    let hard = Ending::TimedOut { limit: Limit::Hard, force };
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    let interrupted = Ending::Interrupted { force };
    CODEX.check("", "", hard.clone(), Some(FailureClass::HardTimeout));
    CODEX.check("", "", idle.clone(), Some(FailureClass::IdleTimeout));
    CODEX.check(&success(), "", hard, None);
    CODEX.check(&success(), "", interrupted.clone(), Some(FailureClass::Interrupted));
    CODEX.check(
        &CODEX.stream("interrupted-sigint"),
        "",
        interrupted,
        Some(FailureClass::Interrupted),
    );
    let reason = NotStarted::NotFound { program: "codex".to_owned() };
    CODEX.check("", "", Ending::NotStarted { reason }, Some(FailureClass::NotInstalled));
    // Silence during a reconnect is not caused by the agent.
    let waiting = CODEX.stream("network-wait");
    CODEX.check(&waiting, "", idle.clone(), Some(FailureClass::Overloaded));
    CODEX.check(
        &format!("{waiting}\n{}", agent_message("Back.")),
        "",
        idle,
        Some(FailureClass::IdleTimeout),
    );
}

#[test]
fn usage_error_is_read_from_stderr() {
    for (stderr, code, class, hint) in [
        (&*CODEX.file("full-auto-removed.stderr.txt"), 2, FailureClass::BadCall, "workspace-write"),
        (
            &*CODEX.file("not-a-git-repo.stderr.txt"),
            1,
            FailureClass::BadCall,
            "skip-git-repo-check",
        ),
        ("error: unexpected argument '--x' found", 2, FailureClass::BadCall, "does not take `--x`"),
        ("No prompt provided via stdin.", 1, FailureClass::BadCall, ""),
        ("", 2, FailureClass::BadCall, ""),
        ("thread 'main' panicked", 101, FailureClass::Crashed, ""),
    ] {
        let found = CODEX.read("", stderr, exit(code)).1.failure.expect("it is no success");
        assert_eq!(found.class, class, "{stderr}");
        assert!(!found.message.is_empty(), "{stderr}");
        assert!(found.hint.unwrap_or_default().contains(hint), "{stderr}");
    }
}

#[test]
fn only_the_final_answer_of_a_completed_turn_counts() {
    let tag = agent_message("<promise>DONE</promise>");
    let tool = r#"{"type":"item.completed","item":{"id":"t","type":"command_execution","command":"x","exit_code":0,"status":"completed"}}"#;
    let todo = r#"{"type":"item.updated","item":{"id":"l","type":"todo_list","items":[]}}"#;
    let reasoning = r#"{"type":"item.completed","item":{"id":"r","type":"reasoning","text":"<promise>DONE</promise>"}}"#;
    let notice =
        r#"{"type":"item.completed","item":{"id":"e","type":"error","message":"deprecated"}}"#;
    let later = agent_message("Not yet.");
    let cut = error("Reconnecting... 1/5 (stream disconnected)");
    for (lines, expect) in [
        (vec![&*tag], Some("DONE")),
        (vec![&*tag, notice], Some("DONE")),
        (vec![&*tag, reasoning], Some("DONE")),
        (vec![&*tag, &*later], None),
        (vec![&*tag, tool], None),
        (vec![&*tag, todo], None),
        (vec![&*tag, &*cut], None),
        (vec![&*tag, &*cut, &*later], None),
        (vec![&*tag, &*cut, &*tag], Some("DONE")),
        (vec![reasoning, &*later], None),
    ] {
        let stream = format!("{}\n{COMPLETED}", lines.join("\n"));
        assert_eq!(CODEX.read(&stream, "", exit(0)).1.signal.as_deref(), expect, "{stream}");
        let stream = format!("{}\n{}", lines.join("\n"), failed("x"));
        assert_eq!(CODEX.read(&stream, "", exit(1)).1.signal, None, "{stream}");
    }
}

#[test]
fn limit_patterns_in_the_work_are_ignored() {
    let talk = agent_message("You've hit your usage limit, try again at 3:00 PM.");
    CODEX.check(&format!("{talk}\n{COMPLETED}"), "", exit(0), None);
    CODEX.check(&talk, "", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn malformed_line_does_not_affect_others() {
    let odd = [
        "not json",
        "{\"type\":\"item.completed\",\"it",
        "[1,2]",
        "\u{fffd}\u{fffd}",
        r#"{"type":"novelty"}"#,
        r#"{"no":"type"}"#,
        r#"{"type":"item.completed","item":7}"#,
        r#"{"type":"item.completed","item":{"type":"novelty"}}"#,
        r#"{"type":"error"}"#,
    ];
    let lines = format!("{}\n{}", odd.join("\n"), success());
    let reply = CODEX.read(&lines, "", exit(0)).1;
    assert_eq!((reply.unparsed, reply.failure, reply.text.as_str()), (9, None, "Fine."));
    let whole = CODEX.read(&CODEX.stream("tools"), "", exit(0)).1;
    assert_eq!(CODEX.read(&CODEX.stream("tools").replace('\n', ""), "", exit(0)).1, whole);
    let reply =
        CODEX.read(&format!("WARN x {}", CODEX.stream("tools").replace('\n', "")), "", exit(0)).1;
    assert_eq!((reply.unparsed, reply.signal), (1, whole.signal));
    // A field of an unexpected type is skipped, not the line.
    let odd = r#"{"type":"item.completed","item":{"id":7,"type":"mcp_tool_call","server":1,"tool":[],"result":"x","error":0,"status":{}}}"#;
    let usage = r#"{"type":"turn.completed","usage":{"input_tokens":-1,"output_tokens":"x"}}"#;
    let reply = CODEX.read(&format!("{odd}\n{}\n{usage}", agent_message("Fine.")), "", exit(0)).1;
    assert_eq!((reply.unparsed, reply.tools, reply.failure), (0, 1, None));
}

#[test]
fn a_line_of_many_megabytes_is_read() {
    let long = "x".repeat(16 << 20);
    let lines =
        format!("{}\n{COMPLETED}", agent_message(&format!("{long}<promise>DONE</promise>")));
    assert_eq!(CODEX.read(&lines, "", exit(0)).1.signal.as_deref(), Some("DONE"));
    let long = "x".repeat(1 << 20);
    let tool = format!(
        r#"{{"type":"item.completed","item":{{"id":"t","type":"command_execution","command":"{long}","aggregated_output":"{long}","exit_code":0,"status":"completed"}}}}"#
    );
    for line in [tool, format!("{{\"type\":\"{long}"), error(&long), failed(&long)] {
        let parsed = CODEX.read(&line, "", exit(1)).0;
        let size: usize = parsed.iter().flat_map(|it| &it.events).map(size_of).sum();
        assert!(size < 30_000, "{size}");
    }
}

fn size_of(event: &AgentEvent) -> usize {
    serde_json::to_string(event).expect("events can be written").len()
}

#[test]
fn writable_roots_are_passed_to_codex() {
    let writable = |request: &mut AgentRequest| {
        request.agent.writable = vec!["/p/.git".into(), "/main/\".git".into()];
    };
    for (flags, is_there) in [
        (vec![], true),
        (vec!["-s", "workspace-write"], true),
        (vec!["-c", "sandbox_workspace_write.writable_roots=[]"], false),
    ] {
        let mut request = build_request(AgentKind::Codex, &flags, "Do it.");
        writable(&mut request);
        let call = crate::build_call(&request, &context()).expect("a small prompt fits");
        let expect = r#"sandbox_workspace_write.writable_roots=["/p/.git","/main/\".git"]"#;
        assert_eq!(call.args.contains(&expect.to_owned()), is_there, "{:?}", call.args);
    }
}

#[test]
fn default_call() {}

#[test]
fn call_with_all_options() {
    CODEX.check_call(
        |request, _| {
            request.agent.model = Some("gpt-5.5".to_owned());
            request.agent.env_deny = vec!["AWS_*".to_owned()];
            request.agent.env.insert("CODEX_HOME".to_owned(), "/state/codex".to_owned());
            request.agent.flags = vec!["--skip-git-repo-check".to_owned()];
        },
        expect![[r#"
            codex exec --json -s workspace-write -c features.unbounded_connection_retries=false -m gpt-5.5 --skip-git-repo-check -
            stdin "Do it.", idle Watch
            without ["AWS_*"]
            CODEX_HOME=/state/codex
        "#]],
    );
}

#[test]
fn text_mode_writes_an_answer_file() {
    CODEX.check_call(
        |request, _| request.agent.output = AgentOutput::Text,
        expect![[r#"
            codex exec -o /state/answer.md -s workspace-write -c features.unbounded_connection_retries=false -
            stdin "Do it.", idle Off
        "#]],
    );
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
    request.schema = Some(Schema::new(serde_json::json!({ "type": "object" })));
    let structured = |name| {
        test_support::read_stream(&request, &CODEX.stream(name), "", exit(0), NOW).1.structured
    };
    let expect = serde_json::json!({ "status": "done", "summary": "Everything is in place." });
    assert_eq!(structured("output-schema"), Some(expect));
    // Codex does not check what comes back.
    assert_eq!(structured("output-schema-ignored"), None);
}

#[test]
fn removed_flag_is_replaced() {
    let mut request = build_request(AgentKind::Codex, &["--full-auto"], "Do it.");
    let args = |request: &AgentRequest| {
        crate::build_call(request, &context()).expect("a small prompt fits").args.join(" ")
    };
    let rest = "-c features.unbounded_connection_retries=false";
    assert_eq!(args(&request), format!("exec --json {rest} -s workspace-write -"));
    request.agent.version = Some(ralph_model::version::Version::new(0, 125, 0));
    assert_eq!(args(&request), format!("exec --json {rest} --full-auto -"));
}

#[test]
fn codex_keeps_its_rules_without_skip_permissions() {
    CODEX.check_call(
        |request, _| request.agent.permissions = Permissions::Ask,
        expect![[r#"
            codex exec --json -c features.unbounded_connection_retries=false -
            stdin "Do it.", idle Watch
        "#]],
    );
}

#[test]
fn user_flag_wins() {
    #[track_caller]
    fn check(flags: &[&str], expect: &str) {
        let mut request = build_request(AgentKind::Codex, flags, "Do it.");
        request.agent.model = Some("m".to_owned());
        let call = crate::build_call(&request, &context()).expect("a small prompt fits");
        assert_eq!(call.args.join(" "), expect);
    }
    let retries = "-c features.unbounded_connection_retries";
    check(&["--yolo"], &format!("exec --json {retries}=false -m m --yolo -"));
    check(&["-s read-only"], &format!("exec --json {retries}=false -m m -s read-only -"));
    check(
        &["--sandbox=read-only", "--json", "--model", "n"],
        &format!("exec {retries}=false --sandbox=read-only --json --model n -"),
    );
    check(
        &["-c model=\"n\"", "-csandbox_mode=\"read-only\"", "--config=model_provider=\"x\""],
        &format!(
            "exec --json {retries}=false -c model=\"n\" -csandbox_mode=\"read-only\" --config=model_provider=\"x\" -"
        ),
    );
    check(
        &[&format!("{retries}=true")],
        &format!("exec --json -s workspace-write -m m {retries}=true -"),
    );
    check(&["-sread-only", "-mn"], &format!("exec --json {retries}=false -sread-only -mn -"));
    // It takes all following arguments as files.
    check(&["--yolo", "-i a.png"], &format!("exec --json {retries}=false -m m --yolo -i a.png"));
    // A prompt in an argument leaves nothing for stdin.
    check(&["{prompt}"], &format!("exec --json -s workspace-write {retries}=false -m m Do it."));
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
