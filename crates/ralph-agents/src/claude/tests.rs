//! Recorded streams, calls, and malformed streams.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::path::{Path, PathBuf};

use expect_test::expect;
use ralph_core::answers::structured_output::Schema;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, AgentOutput, Permissions};
use ralph_model::agent_output::{AgentEvent, Reply};
use ralph_model::child::{Ending, Force, Limit, NotStarted};
use ralph_model::failure::FailureClass;
use ralph_model::units::{Timestamp, UsdMicros};

use crate::test_support::{self, build_request};
use crate::tests::conformance::CLAUDE;
use crate::tests::recorded::{NOW, exit, show_event};
use crate::{Privilege, Translator};

fn translator() -> Translator {
    crate::create_translator(&CLAUDE.request(), Path::new("/project"))
}

/// Returns a request for plain text.
fn plain() -> AgentRequest {
    let mut request = CLAUDE.request();
    request.agent.output = AgentOutput::Text;
    request
}

fn reply(stream: &str) -> Reply {
    CLAUDE.read(stream, "", exit(0)).1
}

fn result_line(fields: &str) -> String {
    format!(r#"{{{fields},"num_turns":1,"type":"result"}}"#)
}

fn api_error(status: &str, text: &str) -> String {
    result_line(&format!(
        r#""subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":{status},"result":"{text}""#
    ))
}

const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":1,"result":"Fine."}"#;

const SAYS_NOTHING: &str = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":1,"result":""}"#;

#[test]
fn each_kind_of_result_has_its_class() {
    let limit = |millis| FailureClass::RateLimited { resets_at: Some(Timestamp(millis)) };
    let turn = |reason: &str| {
        result_line(&format!(r#""subtype":"x","is_error":true,"terminal_reason":"{reason}""#))
    };
    for (stream, class) in [
        (api_error("401", "Invalid API key"), FailureClass::NotLoggedIn),
        (api_error("403", "Forbidden"), FailureClass::NotLoggedIn),
        (api_error("400", "Credit balance is too low"), FailureClass::NotLoggedIn),
        (api_error("null", "Not logged in · Please run /login"), FailureClass::NotLoggedIn),
        (api_error("404", "There's an issue with the selected model (x)."), FailureClass::BadCall),
        (api_error("413", "Request too large"), FailureClass::ContextExceeded),
        (api_error("400", "prompt is too long: 1 > 0"), FailureClass::ContextExceeded),
        (turn("prompt_too_long"), FailureClass::ContextExceeded),
        (turn("blocking_limit"), FailureClass::ContextExceeded),
        (turn("max_turns"), FailureClass::TurnLimit),
        (turn("budget_exhausted"), FailureClass::TurnLimit),
        (turn("hook_stopped"), FailureClass::TurnLimit),
        (turn("structured_output_retry_exhausted"), FailureClass::Malformed),
        (turn("aborted_tools"), FailureClass::Crashed),
        (turn("something_new"), FailureClass::Crashed),
        (api_error("500", "API Error: 500"), FailureClass::Overloaded),
        (api_error("529", "Overloaded"), FailureClass::Overloaded),
        (api_error("null", "API Error: Connection error."), FailureClass::Unreachable),
        (
            api_error("429", "API Error: Request rejected (429)"),
            FailureClass::RateLimited { resets_at: None },
        ),
        (
            api_error("429", "You've hit your 5-hour limit · resets 2:48am (UTC)"),
            limit(1_794_710_880_000),
        ),
        (api_error("null", "Claude AI usage limit reached|1794710902"), limit(1_794_710_902_000)),
    ] {
        CLAUDE.check(&stream, "", exit(1), Some(class));
    }
}

#[test]
fn success_needs_result_and_exit() {
    CLAUDE.check(SUCCESS, "", exit(0), None);
    CLAUDE.check(SUCCESS, "", Ending::Lingered { force: Force::Killed }, None);
    CLAUDE.check(SUCCESS, "", exit(1), Some(FailureClass::Crashed));
    CLAUDE.check(SUCCESS, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    CLAUDE.check(SAYS_NOTHING, "", exit(0), Some(FailureClass::Empty));
    CLAUDE.check("", "", exit(0), Some(FailureClass::Malformed));
    CLAUDE.check("Execution error", "", exit(0), Some(FailureClass::Malformed));
    CLAUDE.check("", "boom", exit(1), Some(FailureClass::Crashed));
    // Versions without a terminal reason.
    let old =
        r#"{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Fine."}"#;
    CLAUDE.check(old, "", exit(0), None);
    let flagged =
        r#"{"type":"result","subtype":"success","is_error":true,"num_turns":2,"result":"Fine."}"#;
    CLAUDE.check(flagged, "", exit(0), Some(FailureClass::Crashed));
    // A hook refused the prompt; the CLI reports that as a success.
    let refused = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":0,"result":"blocked by hook"}"#;
    CLAUDE.check(refused, "", exit(0), Some(FailureClass::BadCall));
    // A success, then another turn that never ended.
    let more = format!("{SUCCESS}\n{}", r#"{"type":"system","subtype":"init"}"#);
    CLAUDE.check(&more, "", exit(0), Some(FailureClass::Malformed));
    CLAUDE.check(&format!("{more}\n{SUCCESS}"), "", exit(0), None);
}

#[test]
fn endings_by_ralph_have_their_own_class() {
    let force = Force::Terminated;
    let hard = Ending::TimedOut { limit: Limit::Hard, force };
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    let program = "claude".to_owned();
    CLAUDE.check("", "", hard.clone(), Some(FailureClass::HardTimeout));
    CLAUDE.check("", "", idle.clone(), Some(FailureClass::IdleTimeout));
    CLAUDE.check(SUCCESS, "", hard, None);
    let interrupted = Ending::Interrupted { force };
    CLAUDE.check(
        &CLAUDE.stream("interrupted-sigint"),
        "",
        interrupted.clone(),
        Some(FailureClass::Interrupted),
    );
    CLAUDE.check(SUCCESS, "", interrupted, Some(FailureClass::Interrupted));
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    CLAUDE.check("", "", missing, Some(FailureClass::NotInstalled));
    // Silence while the CLI retries requests is caused by the server, not the agent.
    let retry = |status| {
        format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":4,"max_retries":10,"error_status":{status},"error":"x"}}"#
        )
    };
    CLAUDE.check(&retry("529"), "", idle.clone(), Some(FailureClass::Overloaded));
    CLAUDE.check(&retry("null"), "", idle.clone(), Some(FailureClass::Overloaded));
    CLAUDE.check(
        &retry("429"),
        "",
        idle.clone(),
        Some(FailureClass::RateLimited { resets_at: None }),
    );
    CLAUDE.check(&retry("401"), "", idle.clone(), Some(FailureClass::NotLoggedIn));
    let recovered = format!("{}\n{}", retry("529"), r#"{"type":"stream_event"}"#);
    CLAUDE.check(&recovered, "", idle, Some(FailureClass::IdleTimeout));
}

#[test]
fn usage_error_is_read_from_stderr() {
    for (words, class) in [
        ("error: unknown option '--frobnicate'", FailureClass::BadCall),
        (
            "--dangerously-skip-permissions cannot be used with root/sudo privileges",
            FailureClass::BadCall,
        ),
        ("Error: --json-schema is not valid JSON", FailureClass::BadCall),
        ("Error: Session ID x is already in use.", FailureClass::BadCall),
        ("Invalid API key · Please run /login", FailureClass::NotLoggedIn),
        ("TypeError: undefined is not a function", FailureClass::Crashed),
    ] {
        let found = CLAUDE.read("", words, exit(1)).1.failure.expect("exit 1 is no success");
        assert_eq!(found.class, class, "{words}");
        assert!(found.message.contains(words), "{found:?}");
    }
}

#[test]
fn structured_answer_is_a_field_or_in_the_text() {
    let mut request = build_request(AgentKind::Claude, &[], "Do it.");
    request.schema = Some(Schema::new(serde_json::json!({ "type": "object" })));
    let read = |stream: &str, code| {
        let reply = test_support::read_stream(&request, stream, "", exit(code), NOW).1;
        (reply.structured, reply.failure.map(|failure| failure.class))
    };
    let (own, failure) = read(&CLAUDE.stream("structured-output"), 0);
    assert!(own.is_some_and(|own| own.is_object()) && failure.is_none());
    // It succeeds although it never gave the structured answer.
    assert_eq!(read(&CLAUDE.stream("structured-output-missing"), 0), (None, None));
    let (none, failure) = read(&CLAUDE.stream("structured-output-retries"), 1);
    assert_eq!((none, failure), (None, Some(FailureClass::Malformed)));
    let words = assistant_line("a", &text("So: {\\\"status\\\": \\\"done\\\"}"));
    let (found, _) = read(&format!("{words}\n{SUCCESS}"), 0);
    assert_eq!(found, Some(serde_json::json!({ "status": "done" })));
}

#[test]
fn limit_patterns_in_the_work_are_ignored() {
    let talk = r#"{"type":"assistant","message":{"id":"m","model":"claude","content":[{"type":"text","text":"You've hit your usage limit · resets 3pm"}]}}"#;
    CLAUDE.check(&format!("{talk}\n{SUCCESS}"), "", exit(0), None);
    CLAUDE.check(talk, "", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn plain_text_is_judged_by_its_content() {
    #[track_caller]
    fn check(stdout: &str, ending: Ending, expect: Option<FailureClass>) {
        let found = test_support::read_stream(&plain(), stdout, "", ending, NOW).1.failure;
        assert_eq!(found.map(|it| it.class), expect, "{stdout}");
    }
    check("All done.\n<promise>DONE</promise>", exit(0), None);
    check("", exit(0), Some(FailureClass::Empty));
    check("Execution error\n", exit(0), Some(FailureClass::Crashed));
    check("Prompt is too long", exit(1), Some(FailureClass::ContextExceeded));
    check("Error: Reached max turns (2)", exit(1), Some(FailureClass::TurnLimit));
    check("Invalid API key · Fix external API key", exit(1), Some(FailureClass::NotLoggedIn));
    check(
        "You've hit your 5-hour limit · resets 2:48am (UTC)",
        exit(1),
        Some(FailureClass::RateLimited { resets_at: Some(Timestamp(1_794_710_880_000)) }),
    );
}

fn assistant_line(id: &str, block: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"{id}","model":"claude","content":[{block}]}}}}"#
    )
}

fn text(words: &str) -> String {
    format!(r#"{{"type":"text","text":"{words}"}}"#)
}

#[test]
fn text_of_one_message_belongs_together() {
    let signal = |lines: &[String]| reply(&lines.join("\n")).signal;
    let success = SUCCESS.to_owned();
    let halves = [
        assistant_line("a", &text("<promise>DO")),
        assistant_line("a", &text("NE</promise>")),
        success.clone(),
    ];
    assert_eq!(signal(&halves).as_deref(), Some("DONE"));
    let apart = [
        assistant_line("a", &text("<promise>DO")),
        assistant_line("b", &text("NE</promise>")),
        success.clone(),
    ];
    assert_eq!(signal(&apart), None);
    let replaced = [
        assistant_line("a", &text("<promise>DONE</promise>")),
        assistant_line("b", &text("Not yet.")),
        success,
    ];
    assert_eq!(signal(&replaced), None);
}

#[test]
fn refused_answer_is_withdrawn() {
    let stream =
        [assistant_line("a", &text("<promise>DONE</promise>")), SAYS_NOTHING.to_owned()].join("\n");
    let reply = reply(&stream);
    assert_eq!((reply.signal, reply.failure), (None, None));
}

#[test]
fn todo_lists_are_reported_complete() {
    let last = |name| {
        let (all, _) = CLAUDE.read(&CLAUDE.stream(name), "", exit(0));
        let mut todos =
            all.into_iter().flat_map(|parsed| parsed.events).filter_map(|event| match event {
                AgentEvent::Todo { items } => Some(items),
                AgentEvent::Session { .. }
                | AgentEvent::Text { .. }
                | AgentEvent::Reasoning { .. }
                | AgentEvent::ToolStarted { .. }
                | AgentEvent::ToolEnded { .. }
                | AgentEvent::FileChanged { .. }
                | AgentEvent::Usage { .. }
                | AgentEvent::RateLimit { .. }
                | AgentEvent::Notice { .. }
                | AgentEvent::Result { .. }
                | AgentEvent::Unparsed { .. } => None,
            });
        let lines: Vec<String> = todos
            .next_back()
            .expect("there is a list")
            .iter()
            .map(|item| format!("{:?} {}", item.state, item.text))
            .collect();
        lines.join("\n")
    };
    assert_eq!(last("tools-tasks"), "Done Fix count()\nActive Run the tests");
    assert_eq!(
        last("tools-todo"),
        "Done Reproduce the failing test\nDone Fix count()\nDone Run the tests"
    );
}

#[test]
fn malformed_line_does_not_affect_others() {
    let odd = [
        "not json",
        "{\"type\":\"assistant\",\"mess",
        "[1,2]",
        "\u{fffd}\u{fffd}",
        r#"{"type":"novelty"}"#,
        r#"{"no":"type"}"#,
        r#"{"type":"assistant","message":7}"#,
    ];
    let stream = [&odd[..], &[SUCCESS, r#"{"type":"system","subtype":"novelty"}"#, ""]].concat();
    let found = reply(&stream.join("\n"));
    assert_eq!((found.unparsed, found.failure, found.text.as_str()), (7, None, "Fine."));
    let glued = CLAUDE.stream("text-complete").replace('\n', "");
    let whole = reply(&CLAUDE.stream("text-complete"));
    assert_eq!(reply(&glued), whole);
    // A field of an unexpected type is skipped, not the line.
    let odd = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"Fine.","usage":7,"total_cost_usd":"free","num_turns":null,"errors":{},"modelUsage":[]}"#;
    CLAUDE.check(odd, "", exit(0), None);
}

#[test]
fn output_format_of_the_user_is_read() {
    let parsed = |flag: &str, stdout: &str| -> Vec<String> {
        let mut translator = crate::create_translator(
            &build_request(AgentKind::Claude, &[flag], "Do it."),
            Path::new("/project"),
        );
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
fn a_line_of_many_megabytes_is_read() {
    let long = "x".repeat(16 << 20);
    let stream = format!(
        "{}\n{SUCCESS}",
        assistant_line("a", &text(&format!("{long}<promise>DONE</promise>")))
    );
    let reply = reply(&stream);
    assert_eq!(reply.signal.as_deref(), Some("DONE"));
    let tool = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":"{long}"}}]}}}}"#
    );
    let parsed = translator().parse_line(&tool);
    let size = serde_json::to_string(&parsed.events).expect("events can be written").len();
    assert!(size < 20_000, "{size}");
    let broken = translator().parse_line(&format!("{{\"type\":\"{long}"));
    assert!(matches!(&broken.events[..], [AgentEvent::Unparsed { line }] if line.len() < 5_000));
}

#[test]
fn default_call() {}

#[test]
fn call_with_all_options() {
    CLAUDE.check_call(
        |request, context| {
            request.agent.model = Some("opus".to_owned());
            request.agent.fallback_model = Some("sonnet".to_owned());
            request.agent.max_turns = Some(40);
            request.agent.env_deny = vec!["AWS_*".to_owned()];
            request.cost_left = Some(UsdMicros(1_250_000));
            context.privilege = Privilege::Root;
            context.mcp_config = Some(PathBuf::from("/state/mcp.json"));
        },
        expect![[r#"
            claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user,project,local --strict-mcp-config --mcp-config /state/mcp.json --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --model opus --fallback-model sonnet --max-turns 40 --max-budget-usd 1.25 --settings {"disableAllHooks":false,"env":{"RALPH_EXE":"/bin/ralph","RALPH_RUN_ID":"20261114-231500-k3f9","RALPH_ACTIVE":"/state/active.json"}} --plugin-dir /state/plugin --include-hook-events --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
            stdin "Do it.", idle Watch
            without ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_PLUGIN_*", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION*", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_CHILD*", "AWS_*"]
            CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
            CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
            DISABLE_AUTOUPDATER=1
            ENABLE_TOOL_SEARCH=false
            IS_SANDBOX=1
            RALPH_EXE=/bin/ralph
        "#]],
    );
}

#[test]
fn user_flag_wins() {
    CLAUDE.check_call(
        |request, _| {
            request.agent.flags = [
                "--model haiku",
                "--output-format=json",
                "--permission-mode",
                "plan",
                "--tools Read",
            ]
            .map(str::to_owned)
            .to_vec();
            request.agent.model = Some("opus".to_owned());
            request.agent.max_turns = Some(0);
            request.cost_left = Some(UsdMicros(0));
        },
        expect![[r#"
            claude -p --verbose --setting-sources user,project,local --strict-mcp-config --mcp-config {"mcpServers":{}} --max-budget-usd 0.000001 --settings {"disableAllHooks":false,"env":{"RALPH_EXE":"/bin/ralph","RALPH_RUN_ID":"20261114-231500-k3f9","RALPH_ACTIVE":"/state/active.json"}} --plugin-dir /state/plugin --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f --model haiku --output-format=json --permission-mode plan --tools Read
            stdin "Do it.", idle Watch
            without ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_PLUGIN_*", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION*", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_CHILD*"]
            CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
            CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
            DISABLE_AUTOUPDATER=1
            RALPH_EXE=/bin/ralph
        "#]],
    );
}

#[test]
fn plain_text_with_permissions() {
    CLAUDE.check_call(
        |request, context| {
            request.agent.output = AgentOutput::Text;
            request.agent.permissions = Permissions::Ask;
            context.privilege = Privilege::Root;
        },
        expect![[r#"
            claude -p --output-format text --setting-sources user,project,local --strict-mcp-config --mcp-config {"mcpServers":{}} --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --settings {"disableAllHooks":false,"env":{"RALPH_EXE":"/bin/ralph","RALPH_RUN_ID":"20261114-231500-k3f9","RALPH_ACTIVE":"/state/active.json"}} --plugin-dir /state/plugin --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
            stdin "Do it.", idle Off
            without ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_PLUGIN_*", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION*", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_CHILD*"]
            CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
            CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
            DISABLE_AUTOUPDATER=1
            RALPH_EXE=/bin/ralph
        "#]],
    );
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
