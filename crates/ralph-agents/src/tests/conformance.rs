//! What all adapters do alike: one row for each agent, one test for each behavior.
//!
//! Adding an agent here takes a directory of recorded streams and a row. Not here: what only one
//! agent does; its folder tests that.

use std::path::Path;

use expect_test::{expect, expect_file};
use proptest::prelude::*;
use ralph_model::agent::{AgentKind, AgentOrigin, AgentOutput, Permissions};
use ralph_model::child::{Ending, NotStarted};
use ralph_model::failure::FailureClass;

use super::recorded::{NOW, Recorded, exit, show_call, signal};
use crate::ADAPTERS;
use crate::call::tests::context;
use crate::test_support::{build_request, read_stream};

/// The agents with recorded streams.
const RECORDED: [Recorded; 10] =
    [CLAUDE, CODEX, GEMINI, OPENCODE, COPILOT, QWEN, CLINE, AMP, PI, AIDER];

pub(crate) const CLAUDE: Recorded = Recorded {
    kind: AgentKind::Claude,
    version: "2.1.325",
    endings: &[
        ("api-error-401", exit(1)),
        ("api-error-500", exit(1)),
        ("interrupted-sigterm", exit(143)),
        ("max-budget", exit(1)),
        ("max-output-tokens", exit(1)),
        ("max-turns", exit(1)),
        ("rate-limit", exit(1)),
        ("structured-output-retries", exit(1)),
        ("usage-limit-5h", exit(1)),
        ("usage-limit-weekly", exit(1)),
    ],
};

pub(crate) const CODEX: Recorded = Recorded {
    kind: AgentKind::Codex,
    version: "0.166.0",
    endings: &[
        ("api-error-401", exit(1)),
        ("context-window", exit(1)),
        ("interrupted-sigint", exit(1)),
        ("interrupted-sigterm", signal(15)),
        ("max-output-tokens", exit(1)),
        ("network-wait", signal(9)),
        ("overloaded", exit(1)),
        ("quota", exit(1)),
        ("rate-limit-429", exit(1)),
        ("rate-limit-stream", exit(1)),
        ("stream-drop", exit(1)),
        ("usage-limit", exit(1)),
        ("usage-limit-other-day", exit(1)),
    ],
};

pub(crate) const GEMINI: Recorded = Recorded {
    kind: AgentKind::Gemini,
    version: "0.61.0",
    endings: &[("api-key-invalid", exit(144)), ("max-turns", exit(53)), ("quota-daily", exit(173))],
};

pub(crate) const OPENCODE: Recorded = Recorded {
    kind: AgentKind::Opencode,
    version: "1.18.33",
    endings: &[
        ("api-error-401", exit(1)),
        ("interrupted-sigint", signal(2)),
        ("rate-limit-silent", signal(9)),
        ("stream-drop-loop", signal(9)),
    ],
};

pub(crate) const COPILOT: Recorded = Recorded {
    kind: AgentKind::Copilot,
    version: "1.0.102",
    endings: &[
        ("api-error-401", exit(1)),
        ("interrupted-sigterm", signal(15)),
        ("stream-drop", exit(1)),
    ],
};

pub(crate) const QWEN: Recorded =
    Recorded { kind: AgentKind::Qwen, version: "0.24.4", endings: &[("api-error-401", exit(1))] };

pub(crate) const CLINE: Recorded = Recorded {
    kind: AgentKind::Cline,
    version: "3.0.65",
    endings: &[
        ("api-error-401", exit(1)),
        ("max-tokens", exit(1)),
        ("stream-drop", exit(1)),
        ("timeout", exit(143)),
    ],
};

pub(crate) const AMP: Recorded =
    Recorded { kind: AgentKind::Amp, version: "0.0.1790142911", endings: &[("error", exit(1))] };

pub(crate) const PI: Recorded = Recorded { kind: AgentKind::Pi, version: "0.73.1", endings: &[] };

pub(crate) const AIDER: Recorded =
    Recorded { kind: AgentKind::Aider, version: "0.86.2", endings: &[] };

#[test]
fn every_recorded_stream_is_read() {
    for agent in RECORDED {
        expect_file![agent.directory().join("readings.txt")].assert_eq(&agent.readings());
    }
}

#[test]
fn every_product_has_recorded_streams() {
    for adapter in crate::list_products() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        assert!(data.join(adapter.kind.name()).is_dir(), "{:?}", adapter.kind);
    }
}

#[test]
fn a_program_that_is_not_installed_has_a_hint() {
    let kinds = ADAPTERS.iter().map(|adapter| adapter.kind);
    for kind in kinds.filter(|kind| kind.origin() != AgentOrigin::BuiltIn) {
        let program = kind.name().to_owned();
        let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
        let request = build_request(kind, &[], "Do it.");
        let failure = read_stream(&request, "", "", missing, NOW).1.failure.expect("a failure");
        assert_eq!(failure.class, FailureClass::NotInstalled, "{kind:?}");
        let hint = crate::find_install_hint(kind, kind.name());
        assert_eq!(failure.hint.as_deref(), Some(hint.as_str()), "{kind:?}");
    }
}

#[test]
fn calls_by_permission() {
    let mut shown = String::new();
    for adapter in ADAPTERS {
        for permissions in [Permissions::Skip, Permissions::Ask] {
            let mut request = build_request(adapter.kind, &[], "Do it.");
            request.agent.permissions = permissions;
            shown.push_str(&show_call(&request, &context()));
        }
    }
    expect![[r#"
        claude -p --output-format stream-json --verbose --dangerously-skip-permissions --setting-sources user,project,local --strict-mcp-config --mcp-config {"mcpServers":{}} --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --settings {"disableAllHooks":false,"env":{"RALPH_EXE":"/bin/ralph","RALPH_RUN_ID":"20261114-231500-k3f9","RALPH_ACTIVE":"/state/active.json"}} --plugin-dir /state/plugin --include-hook-events --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
        stdin "Do it.", idle Watch
        without ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_PLUGIN_*", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION*", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_CHILD*"]
        CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
        CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
        DISABLE_AUTOUPDATER=1
        RALPH_EXE=/bin/ralph
        claude -p --output-format stream-json --verbose --setting-sources user,project,local --strict-mcp-config --mcp-config {"mcpServers":{}} --disallowedTools ScheduleWakeup,Monitor,CronCreate,CronDelete,CronList,RemoteTrigger --settings {"disableAllHooks":false,"env":{"RALPH_EXE":"/bin/ralph","RALPH_RUN_ID":"20261114-231500-k3f9","RALPH_ACTIVE":"/state/active.json"}} --plugin-dir /state/plugin --include-hook-events --session-id b119d32a-907a-8f48-bf46-d9d9a635c32f
        stdin "Do it.", idle Watch
        without ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE", "CLAUDE_PLUGIN_*", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION*", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_CHILD*"]
        CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
        CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
        DISABLE_AUTOUPDATER=1
        RALPH_EXE=/bin/ralph
        codex exec --json -s workspace-write -c features.unbounded_connection_retries=false -
        stdin "Do it.", idle Watch
        codex exec --json -c features.unbounded_connection_retries=false -
        stdin "Do it.", idle Watch
        gemini -o stream-json --yolo --skip-trust
        stdin "Do it.", idle Watch
        gemini -o stream-json
        stdin "Do it.", idle Watch
        opencode run --format json --auto
        stdin "Do it.", idle Watch
        OPENCODE_DISABLE_AUTOUPDATE=1
        opencode run --format json
        stdin "Do it.", idle Watch
        OPENCODE_DISABLE_AUTOUPDATE=1
        copilot --allow-all-tools --output-format json
        stdin "Do it.", idle Watch
        copilot --output-format json
        stdin "Do it.", idle Watch
        qwen -o stream-json --yolo
        stdin "Do it.", idle Watch
        QWEN_CODE_SUPPRESS_YOLO_WARNING=1
        qwen -o stream-json
        stdin "Do it.", idle Watch
        QWEN_CODE_SUPPRESS_YOLO_WARNING=1
        cline --json "Do it."
        stdin "", idle Watch
        cline --json --auto-approve false "Do it."
        stdin "", idle Watch
        amp --stream-json --dangerously-allow-all -x
        stdin "Do it.", idle Watch
        amp --stream-json -x
        stdin "Do it.", idle Watch
        pi -p --mode json
        stdin "Do it.", idle Watch
        pi -p --mode json
        stdin "Do it.", idle Watch
        aider --yes-always --no-auto-commits --no-check-update --no-analytics --no-pretty --no-stream --no-show-release-notes --no-show-model-warnings --no-detect-urls --no-suggest-shell-commands --chat-history-file /dev/null --input-history-file /dev/null --message-file /state/prompt.md
        stdin "", idle Off
        aider --no-auto-commits --no-check-update --no-analytics --no-pretty --no-stream --no-show-release-notes --no-show-model-warnings --no-detect-urls --no-suggest-shell-commands --chat-history-file /dev/null --input-history-file /dev/null --message-file /state/prompt.md
        stdin "", idle Off
        acp
        stdin "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{\"fs\":{\"readTextFile\":false,\"writeTextFile\":false},\"terminal\":false},\"clientInfo\":{\"name\":\"ralph\",\"version\":\"0.1.0\"}}}\n", idle Watch
        acp
        stdin "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{\"fs\":{\"readTextFile\":false,\"writeTextFile\":false},\"terminal\":false},\"clientInfo\":{\"name\":\"ralph\",\"version\":\"0.1.0\"}}}\n", idle Watch
        text
        stdin "Do it.", idle Off
        text
        stdin "Do it.", idle Off
        custom
        stdin "Do it.", idle Watch
        custom
        stdin "Do it.", idle Watch
        /bin/ralph __sim sim
        stdin "Do it.", idle Watch
        /bin/ralph __sim sim
        stdin "Do it.", idle Watch
    "#]].assert_eq(&shown);
}

proptest! {
    // 256 for each agent, as many as proptest has by default.
    #![proptest_config(ProptestConfig::with_cases(2_560))]

    #[test]
    fn no_stream_makes_a_translator_panic(
        agent in 0..RECORDED.len(),
        stream in 0usize..100,
        cut in 0usize..4_000,
        ending in prop::sample::select(vec![exit(0), exit(1), exit(2), signal(9)]),
        other in "(\\PC{0,40}|[\\[\\]{}\":,0-9a-z\\\\]{0,20})",
    ) {
        let agent = RECORDED[agent];
        let lines = agent.mutilated(stream, cut, &other);
        let mut plain = agent.request();
        plain.agent.output = AgentOutput::Text;
        let _ = read_stream(&plain, &lines, &other, ending.clone(), NOW);
        let _ = agent.read(&lines, &other, ending);
        let _ = read_stream(&build_request(AgentKind::Sim, &[], ""), &other, "", exit(1), NOW);
    }
}
