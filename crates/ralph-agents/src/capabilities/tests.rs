//! Which options each agent gets, and which an older version does not.

use std::fmt::Write as _;

use expect_test::expect;
use ralph_core::answers::structured_output::Schema;
use ralph_model::agent::{AgentKind, AgentOrigin};
use ralph_model::capability::McpServers;
use ralph_model::units::UsdMicros;
use serde_json::json;

use super::*;
use crate::call::tests::full_context;
use crate::test_support::build_request;
use crate::{ADAPTERS, build_call, detect_capabilities, parse_mcp_servers};

#[test]
fn an_old_version_can_do_less() {
    let claude = |version| detect_capabilities(AgentKind::Claude, version);
    let old = claude(Some(Version::new(2, 0, 20)));
    assert_eq!((old.schema, old.cost_limit), (SchemaOutput::None, Support::No));
    assert_eq!(old.system_prompt, Support::No);
    assert_eq!(claude(Some(Version::new(2, 1, 22))).schema, SchemaOutput::Enforced);
    assert_eq!(claude(Some(Version::new(2, 1, 144))).plugin, Support::No);
    assert_eq!(claude(Some(Version::new(2, 1, 145))), claude(None));
    let qwen =
        |minor, patch| detect_capabilities(AgentKind::Qwen, Some(Version::new(0, minor, patch)));
    assert_eq!(qwen(15, 4).mcp, McpServers::None);
    assert_eq!(qwen(15, 5).mcp, McpServers::Added);
    assert_eq!(qwen(24, 4), detect_capabilities(AgentKind::Qwen, None));
    let codex = detect_capabilities(AgentKind::Codex, Some(Version::new(0, 40, 0)));
    assert_eq!(codex.schema, SchemaOutput::None);
}

/// Returns every kind but the scripted agent, which is part of ralph.
fn list_kinds() -> Vec<AgentKind> {
    let kinds = ADAPTERS.iter().map(|adapter| adapter.kind);
    kinds.filter(|kind| kind.origin() != AgentOrigin::BuiltIn).collect()
}

/// Requests all options at once and shows the call, except for the parts that all agents share.
fn everything(kind: AgentKind, version: Option<Version>) -> String {
    let mut request = build_request(kind, &[], "Do it.");
    request.agent.version = version;
    request.agent.capabilities = detect_capabilities(kind, version);
    request.agent.fallback_model = Some("small".to_owned());
    request.agent.max_turns = Some(7);
    request.cost_left = Some(UsdMicros::from_dollars(2.5));
    request.schema = Some(Schema::new(json!({ "type": "object" })));
    let mut context = full_context();
    if kind == AgentKind::Amp {
        // The other agents can take secrets without arguments.
        context.mcp_servers =
            parse_mcp_servers(r#"{"mcpServers": {"memory": {"command": "ralph"}}}"#)
                .expect("a server without secrets");
    }
    let call = build_call(&request, &context).expect("it can be called");
    let mut shown = format!("{} {}\n", call.program, call.args.join(" "));
    for (name, value) in call
        .env
        .iter()
        .filter(|(name, _)| !name.starts_with("RALPH_") || name.starts_with("RALPH_MCP_"))
    {
        let _ = writeln!(shown, "  {name}={value}");
    }
    shown
}

#[test]
fn supported_options_are_passed() {
    let shown: String = list_kinds().into_iter().map(|kind| everything(kind, None)).collect();
    expect![[r#"
        claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user,project,local --strict-mcp-config --mcp-config /state/mcp.json --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --fallback-model small --max-turns 7 --max-budget-usd 2.5 --append-system-prompt-file /state/system.md --json-schema {"type":"object"} --settings {"disableAllHooks":false,"env":{"RALPH_EXE":"/bin/ralph","RALPH_RUN_ID":"20261114-231500-k3f9","RALPH_ACTIVE":"/state/active.json"}} --plugin-dir /state/plugin --include-hook-events --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
          CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
          CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
          DISABLE_AUTOUPDATER=1
          ENABLE_TOOL_SEARCH=false
        codex exec --json -s workspace-write -c features.unbounded_connection_retries=false --output-schema /state/schema.json -c developer_instructions="Be brief.\nSay \"no\"." -c mcp_servers.memory.command="ralph" -c mcp_servers.memory.args=["mcp","memory"] -c mcp_servers.memory.env={"LEVEL"="1"} -c mcp_servers.memory.env_vars=["API_KEY"] -c mcp_servers.my_docs.url="https://example.invalid/mcp" -c mcp_servers.my_docs.env_http_headers={"Authorization"="RALPH_MCP_HEADER_1"} -
          API_KEY=k
          RALPH_MCP_HEADER_1=Bearer t
        gemini -o stream-json --yolo --skip-trust
        opencode run --format json --auto
          OPENCODE_CONFIG_CONTENT={"mcp":{"memory":{"type":"local","command":["ralph","mcp","memory"],"environment":{"API_KEY":"k","LEVEL":"1"},"enabled":true},"my docs":{"type":"remote","url":"https://example.invalid/mcp","headers":{"Authorization":"Bearer t"},"enabled":true}},"instructions":["/state/system.md"]}
          OPENCODE_DISABLE_AUTOUPDATE=1
        copilot --allow-all-tools --output-format json --additional-mcp-config @/state/mcp.json
        qwen -o stream-json --yolo --fallback-model small --max-session-turns 7 --mcp-config /state/mcp.json --append-system-prompt Be brief.
        Say "no". --json-schema @/state/schema.json
          QWEN_CODE_SUPPRESS_YOLO_WARNING=1
        cline --json Do it.
        amp --stream-json --dangerously-allow-all --mcp-config {"memory":{"command":"ralph","args":[],"env":{}}} -x
        pi -p --mode json --append-system-prompt Be brief.
        Say "no".
        aider --yes-always --no-auto-commits --no-check-update --no-analytics --no-pretty --no-stream --no-show-release-notes --no-show-model-warnings --no-detect-urls --no-suggest-shell-commands --chat-history-file /dev/null --input-history-file /dev/null --message-file /state/prompt.md
        acp 
        text 
        custom 
    "#]].assert_eq(&shown);
}

#[test]
fn no_secret_becomes_an_argument() {
    for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Qwen, AgentKind::Opencode] {
        let call =
            build_call(&build_request(kind, &[], "Do it."), &full_context()).expect("a call");
        let words = call.args.join(" ");
        assert!(!words.contains("Bearer") && !words.contains("\"k\""), "{words}");
    }
    let failure = build_call(&build_request(AgentKind::Amp, &[], "Do it."), &full_context())
        .expect_err("Amp has no other place");
    assert!(
        failure.message.contains("`API_KEY` of the MCP server `memory`"),
        "{}",
        failure.message
    );
}

#[test]
fn old_version_gets_only_supported_flags() {
    let shown: String = [
        (AgentKind::Claude, Version::new(2, 0, 20)),
        (AgentKind::Codex, Version::new(0, 40, 0)),
        (AgentKind::Qwen, Version::new(0, 12, 0)),
        (AgentKind::Gemini, Version::new(0, 40, 0)),
    ]
    .into_iter()
    .map(|(kind, version)| everything(kind, Some(version)))
    .collect();
    expect![[r#"
        claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user,project,local --strict-mcp-config --mcp-config /state/mcp.json --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --fallback-model small --max-turns 7
          CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
          CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
          DISABLE_AUTOUPDATER=1
          ENABLE_TOOL_SEARCH=false
        codex exec --json -s workspace-write -c features.unbounded_connection_retries=false -c developer_instructions="Be brief.\nSay \"no\"." -c mcp_servers.memory.command="ralph" -c mcp_servers.memory.args=["mcp","memory"] -c mcp_servers.memory.env={"LEVEL"="1"} -c mcp_servers.memory.env_vars=["API_KEY"] -c mcp_servers.my_docs.url="https://example.invalid/mcp" -c mcp_servers.my_docs.env_http_headers={"Authorization"="RALPH_MCP_HEADER_1"} -
          API_KEY=k
          RALPH_MCP_HEADER_1=Bearer t
        qwen -o stream-json --yolo --max-session-turns 7
          QWEN_CODE_SUPPRESS_YOLO_WARNING=1
        gemini -o stream-json --yolo
    "#]].assert_eq(&shown);
}

/// Returns a table of everything that agents can do.
fn table() -> String {
    let kinds = list_kinds();
    let columns: Vec<_> =
        kinds.iter().map(|kind| detect_capabilities(*kind, None).describe_all()).collect();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let mut shown = format!("| | {} |\n", names.join(" | "));
    let _ = writeln!(shown, "|---{}|", "|---".repeat(kinds.len()));
    for (row, (name, _)) in columns[0].iter().enumerate() {
        let cells: Vec<_> = columns.iter().map(|column| column[row].1).collect();
        let _ = writeln!(shown, "| {name} | {} |", cells.join(" | "));
    }
    shown
}

#[test]
fn documentation_contains_the_capability_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md");
    let text = std::fs::read_to_string(path).expect("the documentation is there");
    assert!(text.contains(&table()), "docs/agents.md should hold\n{}", table());
}
