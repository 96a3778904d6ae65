//! Recorded streams, calls, and streams that no agent should write.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use ralph_core::child::{Ending, Force, Limit, NotStarted};
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::reading::{AgentEvent, Reply};
use ralph_core::recipe::{AgentKind, AgentOutput, Permissions};
use ralph_core::units::{Timestamp, UsdMicros};

use crate::agents::call::tests::{context, request};
use crate::agents::recorded;
use crate::agents::{self, Heard, Privilege, Translator};

/// 2026-11-15T00:48:30Z, shortly after the streams were recorded.
const NOW: Timestamp = Timestamp(1_794_703_710_000);

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claude/2.1.325")
}

fn recorded(name: &str) -> String {
    let path = data().join(format!("{name}.ndjson"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn translator(output: AgentOutput) -> Translator {
    let mut request = request(AgentKind::Claude, &[], "Do the next task.");
    request.agent.output = output;
    agents::translator(&request, Path::new("/project"))
}

fn exit(code: i32) -> Ending {
    Ending::Exited { code }
}

/// Reads a whole stream as the port does.
fn read(output: AgentOutput, stream: &str, stderr: &str, ending: Ending) -> (Vec<Heard>, Reply) {
    let mut request = request(AgentKind::Claude, &[], "Do the next task.");
    request.agent.output = output;
    recorded::read(&request, stream, stderr, ending, NOW)
}

fn failure(stream: &str, stderr: &str, ending: Ending) -> Option<Failure> {
    read(AgentOutput::Events, stream, stderr, ending).1.failure
}

/// Every recorded stream with the exit code it came with.
const STREAMS: [(&str, i32); 30] = [
    ("api-error-401", 1),
    ("api-error-500", 1),
    ("api-error-529-fallback", 0),
    ("background-two-results", 0),
    ("compaction", 0),
    ("empty-result", 0),
    ("hooks-policy", 0),
    ("interrupted-sigint", 0),
    ("interrupted-sigint-streaming", 0),
    ("interrupted-sigterm", 143),
    ("max-budget", 1),
    ("max-output-tokens", 1),
    ("max-turns", 1),
    ("mcp-memory", 0),
    ("permission-denied", 0),
    ("rate-limit", 1),
    ("rate-limit-retry", 0),
    ("stream-drop-retry", 0),
    ("structured-output", 0),
    ("structured-output-missing", 0),
    ("structured-output-retries", 1),
    ("subagent", 0),
    ("text-complete", 0),
    ("text-complete-partial", 0),
    ("tool-error", 0),
    ("tools-tasks", 0),
    ("tools-todo", 0),
    ("usage-limit-5h", 1),
    ("usage-limit-weekly", 1),
    ("usage-warning", 0),
];

#[test]
fn every_recorded_stream_is_read() {
    let count = recorded::count(&data());
    assert_eq!(count, STREAMS.len());
    let mut shown = String::new();
    for (name, code) in STREAMS {
        let (all, reply) = read(AgentOutput::Events, &recorded(name), "", exit(code));
        let kinds: Vec<&str> =
            all.iter().flat_map(|heard| &heard.events).map(recorded::kind).collect();
        let weights = recorded::weights(&all);
        let _ = writeln!(shown, "{name} (exit {code})\n  lines   {weights}");
        let _ = writeln!(shown, "  events  {}", kinds.join(" "));
        let _ = writeln!(shown, "  text    {:?}\n  signal  {:?}", reply.text, reply.signal);
        let _ = writeln!(
            shown,
            "  tools   {}, {} failed; {} unparsed; {} tokens, {:?}; {:?}",
            reply.tools,
            reply.tool_errors,
            reply.unparsed,
            reply.usage.tokens().0,
            reply.usage.cost.map(|cost| cost.0),
            reply.model.as_deref().unwrap_or_default(),
        );
        if let Some(structured) = &reply.structured {
            let _ = writeln!(shown, "  answer  {structured}");
        }
        if let Some(failure) = &reply.failure {
            let _ = writeln!(shown, "  failure {:?}: {}", failure.class, failure.words);
            let _ = writeln!(shown, "  hint    {:?}", failure.hint);
        }
    }
    expect_file!["../../../tests/data/claude/2.1.325/readings.txt"].assert_eq(&shown);
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

#[track_caller]
fn check(stream: &str, stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    let found = failure(stream, stderr, ending);
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{stream}\n{found:?}");
}

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
        (api_error("null", "API Error: Connection error."), FailureClass::Overloaded),
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
        check(&stream, "", exit(1), Some(class));
    }
}

#[test]
fn a_success_needs_every_sign_of_it() {
    check(SUCCESS, "", exit(0), None);
    check(SUCCESS, "", Ending::Lingered { force: Force::Killed }, None);
    check(SUCCESS, "", exit(1), Some(FailureClass::Crashed));
    check(SUCCESS, "", Ending::Signalled { signal: 9 }, Some(FailureClass::Crashed));
    check(SAYS_NOTHING, "", exit(0), Some(FailureClass::Empty));
    check("", "", exit(0), Some(FailureClass::Malformed));
    check("Execution error", "", exit(0), Some(FailureClass::Malformed));
    check("", "boom", exit(1), Some(FailureClass::Crashed));
    // Versions without a terminal reason.
    let old =
        r#"{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Fine."}"#;
    check(old, "", exit(0), None);
    let flagged =
        r#"{"type":"result","subtype":"success","is_error":true,"num_turns":2,"result":"Fine."}"#;
    check(flagged, "", exit(0), Some(FailureClass::Crashed));
    // A hook refused the prompt; the CLI calls that a success.
    let refused = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":0,"result":"blocked by hook"}"#;
    check(refused, "", exit(0), Some(FailureClass::BadCall));
    // A success, then another turn that never ended.
    let more = format!("{SUCCESS}\n{}", r#"{"type":"system","subtype":"init"}"#);
    check(&more, "", exit(0), Some(FailureClass::Malformed));
    check(&format!("{more}\n{SUCCESS}"), "", exit(0), None);
}

#[test]
fn ralphs_own_doing_has_its_own_class() {
    let force = Force::Terminated;
    let hard = Ending::TimedOut { limit: Limit::Hard, force };
    let idle = Ending::TimedOut { limit: Limit::Idle, force };
    let program = "claude".to_owned();
    check("", "", hard.clone(), Some(FailureClass::HardTimeout));
    check("", "", idle.clone(), Some(FailureClass::IdleTimeout));
    check(SUCCESS, "", hard, None);
    let interrupted = Ending::Interrupted { force };
    check(
        &recorded("interrupted-sigint"),
        "",
        interrupted.clone(),
        Some(FailureClass::Interrupted),
    );
    check(SUCCESS, "", interrupted, Some(FailureClass::Interrupted));
    let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
    check("", "", missing, Some(FailureClass::NotInstalled));
    // Silence while the CLI repeats its requests is the server's, not the agent's.
    let retry = |status| {
        format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":4,"max_retries":10,"error_status":{status},"error":"x"}}"#
        )
    };
    check(&retry("529"), "", idle.clone(), Some(FailureClass::Overloaded));
    check(&retry("null"), "", idle.clone(), Some(FailureClass::Overloaded));
    check(&retry("429"), "", idle.clone(), Some(FailureClass::RateLimited { resets_at: None }));
    check(&retry("401"), "", idle.clone(), Some(FailureClass::NotLoggedIn));
    let recovered = format!("{}\n{}", retry("529"), r#"{"type":"stream_event"}"#);
    check(&recovered, "", idle, Some(FailureClass::IdleTimeout));
}

#[test]
fn a_bad_call_is_told_on_stderr() {
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
        let found = failure("", words, exit(1)).expect("exit 1 is no success");
        assert_eq!(found.class, class, "{words}");
        assert!(found.words.contains(words), "{found:?}");
    }
}

#[test]
fn an_answer_of_a_schema_is_the_agents_own_or_in_its_words() {
    let mut request = request(AgentKind::Claude, &[], "Do it.");
    request.schema = Some(serde_json::json!({ "type": "object" }));
    let read = |stream: &str, code| {
        let reply = recorded::read(&request, stream, "", exit(code), NOW).1;
        (reply.structured, reply.failure.map(|failure| failure.class))
    };
    let (own, failure) = read(&recorded("structured-output"), 0);
    assert!(own.is_some_and(|own| own.is_object()) && failure.is_none());
    // It ends well although it never gave the answer.
    assert_eq!(read(&recorded("structured-output-missing"), 0), (None, None));
    let (none, failure) = read(&recorded("structured-output-retries"), 1);
    assert_eq!((none, failure), (None, Some(FailureClass::Malformed)));
    let words = said("a", &text("So: {\\\"status\\\": \\\"done\\\"}"));
    let (found, _) = read(&format!("{words}\n{SUCCESS}"), 0);
    assert_eq!(found, Some(serde_json::json!({ "status": "done" })));
}

#[test]
fn words_of_a_limit_in_the_work_are_no_limit() {
    let talk = r#"{"type":"assistant","message":{"id":"m","model":"claude","content":[{"type":"text","text":"You've hit your usage limit · resets 3pm"}]}}"#;
    check(&format!("{talk}\n{SUCCESS}"), "", exit(0), None);
    check(talk, "", exit(1), Some(FailureClass::Crashed));
}

#[test]
fn plain_text_is_judged_by_its_words() {
    #[track_caller]
    fn check(stdout: &str, ending: Ending, expect: Option<FailureClass>) {
        let found = read(AgentOutput::Text, stdout, "", ending).1.failure;
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

fn said(id: &str, block: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"{id}","model":"claude","content":[{block}]}}}}"#
    )
}

fn text(words: &str) -> String {
    format!(r#"{{"type":"text","text":"{words}"}}"#)
}

#[test]
fn text_of_one_message_belongs_together() {
    let signal =
        |lines: &[String]| read(AgentOutput::Events, &lines.join("\n"), "", exit(0)).1.signal;
    let success = SUCCESS.to_owned();
    let halves =
        [said("a", &text("<promise>DO")), said("a", &text("NE</promise>")), success.clone()];
    assert_eq!(signal(&halves).as_deref(), Some("DONE"));
    let apart =
        [said("a", &text("<promise>DO")), said("b", &text("NE</promise>")), success.clone()];
    assert_eq!(signal(&apart), None);
    let replaced =
        [said("a", &text("<promise>DONE</promise>")), said("b", &text("Not yet.")), success];
    assert_eq!(signal(&replaced), None);
}

#[test]
fn an_answer_that_a_hook_refused_is_not_the_answer() {
    let stream = [said("a", &text("<promise>DONE</promise>")), SAYS_NOTHING.to_owned()].join("\n");
    let reply = read(AgentOutput::Events, &stream, "", exit(0)).1;
    assert_eq!((reply.signal, reply.failure), (None, None));
}

#[test]
fn todo_lists_come_whole() {
    let last = |name| {
        let (all, _) = read(AgentOutput::Events, &recorded(name), "", exit(0));
        let mut todos =
            all.into_iter().flat_map(|heard| heard.events).filter_map(|event| match event {
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
fn a_bad_line_costs_only_itself() {
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
    let reply = read(AgentOutput::Events, &stream.join("\n"), "", exit(0)).1;
    assert_eq!((reply.unparsed, reply.failure, reply.text.as_str()), (7, None, "Fine."));
    let glued = recorded("text-complete").replace('\n', "");
    let whole = read(AgentOutput::Events, &recorded("text-complete"), "", exit(0)).1;
    assert_eq!(read(AgentOutput::Events, &glued, "", exit(0)).1, whole);
    // A field of another type than ever before is left out, not the line.
    let odd = r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"Fine.","usage":7,"total_cost_usd":"free","num_turns":null,"errors":{},"modelUsage":[]}"#;
    check(odd, "", exit(0), None);
}

#[test]
fn a_format_of_the_users_is_read_as_what_it_is() {
    let reply = |flag: &str, stdout: &str| {
        let mut translator = agents::translator(
            &request(AgentKind::Claude, &[flag], "Do it."),
            Path::new("/project"),
        );
        let heard = translator.line(stdout);
        heard.events.iter().map(recorded::kind).collect::<Vec<&str>>().join(" ")
    };
    let json = std::fs::read_to_string(data().join("json-usage-limit.json")).expect("recorded");
    assert_eq!(reply("--output-format json", json.trim_end()), "usage result");
    assert_eq!(reply("--output-format=text", "Fine."), "text");
    let resets_at = Some(Timestamp(1_794_710_940_000));
    check(&json, "", exit(1), Some(FailureClass::RateLimited { resets_at }));
}

#[test]
fn a_line_of_many_megabytes_is_read() {
    let long = "x".repeat(16 << 20);
    let stream =
        format!("{}\n{SUCCESS}", said("a", &text(&format!("{long}<promise>DONE</promise>"))));
    let reply = read(AgentOutput::Events, &stream, "", exit(0)).1;
    assert_eq!(reply.signal.as_deref(), Some("DONE"));
    let tool = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":"{long}"}}]}}}}"#
    );
    let heard = translator(AgentOutput::Events).line(&tool);
    let size = serde_json::to_string(&heard.events).expect("events can be written").len();
    assert!(size < 20_000, "{size}");
    let broken = translator(AgentOutput::Events).line(&format!("{{\"type\":\"{long}"));
    assert!(matches!(&broken.events[..], [AgentEvent::Unparsed { line }] if line.len() < 5_000));
}

#[track_caller]
fn check_call(
    change: impl FnOnce(&mut ralph_core::ports::Request, &mut crate::agents::CallContext),
    expect: &Expect,
) {
    let mut request = request(AgentKind::Claude, &[], "Do it.");
    let mut context = context();
    change(&mut request, &mut context);
    let call = agents::call(&request, &context).expect("a small prompt fits");
    let mut shown = format!("{} {}\n", call.program, call.args.join(" "));
    let _ =
        writeln!(shown, "stdin {:?}, idle {:?}", String::from_utf8_lossy(&call.stdin), call.idle);
    let _ = writeln!(shown, "without {}", call.env_remove.join(" "));
    for (name, value) in call.env {
        let _ = writeln!(shown, "{name}={value}");
    }
    expect.assert_eq(&shown);
}

#[test]
fn the_usual_call() {
    check_call(
        |_, _| {},
        &expect![[r#"
            claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user --strict-mcp-config --mcp-config {"mcpServers":{}} --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --settings {"disableAllHooks":false} --plugin-dir /state/plugin --include-hook-events --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
            stdin "Do it.", idle Watch
            without CLAUDECODE CLAUDE_PID CLAUDE_PROJECT_DIR CLAUDE_ENV_FILE CLAUDE_PLUGIN_* CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION* CLAUDE_CODE_SSE_PORT CLAUDE_CODE_CHILD*
            CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
            CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
            DISABLE_AUTOUPDATER=1
            RALPH_ASK=1
            RALPH_EXE=/bin/ralph
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

#[test]
fn everything_that_can_be_asked_for() {
    check_call(
        |request, context| {
            request.agent.model = Some("opus".to_owned());
            request.agent.fallback_model = Some("sonnet".to_owned());
            request.agent.max_turns = Some(40);
            request.agent.env_deny = vec!["AWS_*".to_owned()];
            request.cost_left = Some(UsdMicros(1_250_000));
            context.privilege = Privilege::Root;
            context.mcp_config = Some(PathBuf::from("/state/mcp.json"));
        },
        &expect![[r#"
            claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user --strict-mcp-config --mcp-config /state/mcp.json --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --model opus --fallback-model sonnet --max-turns 40 --max-budget-usd 1.25 --settings {"disableAllHooks":false} --plugin-dir /state/plugin --include-hook-events --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
            stdin "Do it.", idle Watch
            without CLAUDECODE CLAUDE_PID CLAUDE_PROJECT_DIR CLAUDE_ENV_FILE CLAUDE_PLUGIN_* CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION* CLAUDE_CODE_SSE_PORT CLAUDE_CODE_CHILD* AWS_*
            CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
            CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
            DISABLE_AUTOUPDATER=1
            ENABLE_TOOL_SEARCH=false
            IS_SANDBOX=1
            RALPH_ASK=1
            RALPH_EXE=/bin/ralph
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
        &expect![[r#"
            claude -p --verbose --setting-sources user --strict-mcp-config --mcp-config {"mcpServers":{}} --max-budget-usd 0.000001 --settings {"disableAllHooks":false} --plugin-dir /state/plugin --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f --model haiku --output-format=json --permission-mode plan --tools Read
            stdin "Do it.", idle Watch
            without CLAUDECODE CLAUDE_PID CLAUDE_PROJECT_DIR CLAUDE_ENV_FILE CLAUDE_PLUGIN_* CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION* CLAUDE_CODE_SSE_PORT CLAUDE_CODE_CHILD*
            CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
            CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
            DISABLE_AUTOUPDATER=1
            RALPH_ASK=1
            RALPH_EXE=/bin/ralph
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

#[test]
fn plain_text_with_permissions() {
    check_call(
        |request, context| {
            request.agent.output = AgentOutput::Text;
            request.agent.permissions = Permissions::Ask;
            context.privilege = Privilege::Root;
        },
        &expect![[r#"
            claude -p --output-format text --setting-sources user --strict-mcp-config --mcp-config {"mcpServers":{}} --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --settings {"disableAllHooks":false} --plugin-dir /state/plugin --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
            stdin "Do it.", idle Off
            without CLAUDECODE CLAUDE_PID CLAUDE_PROJECT_DIR CLAUDE_ENV_FILE CLAUDE_PLUGIN_* CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION* CLAUDE_CODE_SSE_PORT CLAUDE_CODE_CHILD*
            CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
            CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
            DISABLE_AUTOUPDATER=1
            RALPH_ASK=1
            RALPH_EXE=/bin/ralph
            RALPH_ITERATION=3
            RALPH_ROLE=prompt
            RALPH_RUN_ID=20261114-231500-k3f9
        "#]],
    );
}

proptest! {
    #[test]
    fn no_line_makes_a_translator_panic(
        line in "\\PC{0,40}",
        kind in "(system|assistant|user|result|rate_limit_event|stream_event)",
        name in 0..STREAMS.len(),
        cut in 0usize..4_000,
        other in "[\\[\\]{}\":,0-9a-z\\\\]{0,20}",
    ) {
        let mut streams = vec![line.clone(), format!(r#"{{"type":"{kind}","message":{other}}}"#)];
        // A recorded line, cut and mended with something else.
        for recorded in recorded(STREAMS[name].0).lines() {
            let at = (0..=cut.min(recorded.len())).rev().find(|at| recorded.is_char_boundary(*at));
            let (head, tail) = recorded.split_at(at.unwrap_or(0));
            streams.push(format!("{head}{other}{tail}"));
            streams.push(format!("{head}{line}"));
        }
        for output in [AgentOutput::Events, AgentOutput::Text] {
            let _ = read(output, &streams.join("\n"), &line, exit(1));
        }
        let mut sim = agents::translator(&request(AgentKind::Sim, &[], ""), Path::new("/project"));
        let _ = sim.line(&line);
    }
}

#[test]
fn servers_that_did_not_come_up_are_told() {
    let mut translator = translator(AgentOutput::Events);
    let init = r#"{"type":"system","subtype":"init","session_id":"s","mcp_servers":[
        {"name":"memory","status":"connected"},{"name":"context7","status":"failed"},
        {"name":"slow","status":"pending"},{"name":"mail","status":"needs-auth"},{"name":"odd"}]}"#;
    translator.take_in(&init.replace('\n', ""));
    assert_eq!(translator.servers_down(), ["`context7` (failed)", "`mail` (needs-auth)"]);
}
