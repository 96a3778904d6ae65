//! Tests of what `KEY=VALUE` names mean.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::settings::schema::build_json_schema;
use crate::settings::schema_model::SettingShape;

fn read(text: &str) -> MappedFile {
    let names = SettingVariables::new(SettingShape::from_schema(&build_json_schema()));
    read_key_value(Path::new("ralph.conf"), text, &names)
}

#[track_caller]
fn check(text: &str, expected: &Value) {
    let mapped = read(text);
    assert_eq!(mapped.problems, Vec::new());
    assert_eq!(&mapped.document, expected);
}

#[test]
fn an_orchestrator_file_is_understood() {
    check(
        r#"
RALPH_MAX_ITERATIONS=50
RALPH_PLAN_FILE="plan.json"
RALPH_VALIDATION_STRATEGY="strict"  # strict | lenient | tests_only
RALPH_COMPACTION_INTERVAL=5          # Coding iterations between compactions
RALPH_COMPACTION_THRESHOLD_BYTES=32000  # ~8000 tokens
RALPH_COMPACTION_MAX_TURNS=10
RALPH_DEFAULT_MAX_TURNS=20
RALPH_MIN_DELAY_SECONDS=30           # Rate limit protection
RALPH_CONTEXT_BUDGET_TOKENS=8000
RALPH_MODEL=""                        # Empty = default model
RALPH_FALLBACK_MODEL="sonnet"
RALPH_SKIP_PERMISSIONS=true
RALPH_AUTO_COMMIT=true
RALPH_COMMIT_PREFIX="ralph"
RALPH_LOG_LEVEL="info"                # debug | info | warn | error
RALPH_LOG_FILE=".ralph/logs/ralph.log"
RALPH_VALIDATION_COMMANDS=(
    "bats tests/"
    "shellcheck .ralph/ralph.sh .ralph/lib/*.sh"
)
"#,
        &json!({
            "maximumIterations": 50,
            "tasks": {"file": "plan.json"},
            "validationStrategy": "strict",
            "memory": {"everyIterations": 5, "thresholdBytes": 32000, "maxTurns": 10},
            "maxTurns": 20,
            "delaySeconds": 30,
            "context": {"budgetTokens": 8000},
            "agent": {"fallbackModel": "sonnet", "skipPermissions": true},
            "commit": "ralph",
            "commitPrefix": "ralph",
            "log": {"level": "info"},
            "gates": [
                {"kind": "test", "hard": true, "command": "bats tests/"},
                {"kind": "test", "hard": true, "command": "shellcheck .ralph/ralph.sh .ralph/lib/*.sh"},
            ],
        }),
    );
}

#[test]
fn a_loop_file_is_understood() {
    check(
        r#"AGENT_TYPE=claude
AGENT_ARGS="-p --model 'my model'"
AGENT_OUTPUT_FORMAT=json
AGENT_RESPONSE_FILTER=
AGENT_DISPLAY_FILTER=
SPECS_DIR=docs/specs
MAX_RETRIES=7
PROJECT="My $ project"
"#,
        &json!({
            "agent": {
                "kind": "claude", "command": "claude", "flags": ["-p", "--model", "my model"],
            },
            "streamAgentOutput": true,
            "specsDir": "docs/specs",
            "retries": {"max": 7},
            "vars": {"PROJECT": "My $ project"},
        }),
    );
}

#[test]
fn empty_values_leave_the_defaults_in_force() {
    check("AGENT_TYPE=\nAGENT_CLI=''\nAGENT_ARGS=\nSPECS_DIR=\nMAX_RETRIES=\n", &json!({}));
    check("MINE=\n", &json!({"vars": {"MINE": ""}}));
}

#[test]
fn what_describes_the_agent_is_read_together() {
    check(
        r#"AGENT_TYPE=text
AGENT_CLI=my-agent
AGENT_OUTPUT_FORMAT=json
AGENT_RESPONSE_FILTER='select(.type == "assistant") | .text'
AGENT_DISPLAY_FILTER="jq -rj --unbuffered '.text // empty'"
"#,
        &json!({
            "agent": {
                "kind": "custom", "command": "my-agent",
                "responseFilter": "select(.type == \"assistant\") | .text",
                "displayFilter": ".text // empty",
            },
            "streamAgentOutput": true,
        }),
    );
    check(
        "AGENT_CLI=codex\nAGENT_ARGS=( -x \"a b\" )\n",
        &json!({"agent": {"command": "codex", "flags": ["-x", "a b"]}}),
    );
    // A name of the newer kind counts more than the program of a type.
    check(
        "AGENT_TYPE=claude\nRALPH_AGENT_COMMAND=mine\n",
        &json!({"agent": {"kind": "claude", "command": "mine"}}),
    );
}

#[test]
fn a_limit_as_a_whole_and_in_part_join() {
    check(
        "RALPH_TIMEOUTS_TEST=5m\nRALPH_TIMEOUTS_TEST_SOFT=2m\n",
        &json!({"timeouts": {"test": {"hard": "5m", "soft": "2m"}}}),
    );
}

#[test]
fn lists_go_where_lists_belong() {
    check("RALPH_PROTECT=( a 'b c' )", &json!({"protect": ["a", "b c"]}));
    check(
        "RALPH_VALIDATION_COMMANDS='make test'",
        &json!({"gates": [{"kind": "test", "hard": true, "command": "make test"}]}),
    );
}

#[test]
fn mistakes_and_surprises_name_their_line() {
    let mapped = read(
        "AGENT_OUTPUT_FORMAT=xml\nMINE=( a b )\nA=$(x)\nRALPH_MAX_ITERATION=3\nRALPH_LOG_FILE=x\n\
         AGENT_ARGS=\"'open\"\nRALPH_GUARDRAILS=make\nB=1\nB=2\n",
    );
    let problems: Vec<String> = mapped.problems.iter().map(ToString::to_string).collect();
    expect![[r#"
        ralph.conf:1:21: AGENT_OUTPUT_FORMAT: expected json or text, found "xml"
        ralph.conf:2:1: MINE: a template variable cannot be a list
        ralph.conf:3:3: `$(...)` would run a command; this file is read, never executed
        ralph.conf:6:12: AGENT_ARGS: a closing ' is missing in `'open`
        ralph.conf:7:18: `guardrails`: expected a list as JSON: expected value at line 1 column 1"#]]
    .assert_eq(&problems.join("\n"));
    expect![[r"
        ralph.conf:8: B is set again on line 9, which counts
        ralph.conf:4: RALPH_MAX_ITERATION is not a setting (did you mean RALPH_MAX_ITERATIONS?); it becomes a template variable
        ralph.conf:5: RALPH_LOG_FILE has no effect: the log is in .ralph/logs/ralph.log"]]
    .assert_eq(&mapped.warnings.join("\n"));
}

#[test]
fn no_text_makes_the_mapping_panic() {
    let names = SettingVariables::new(SettingShape::from_schema(&build_json_schema()));
    let line = "(RALPH_(MODEL|GATES|TIMEOUTS_TEST(_SOFT)?|VALIDATION_COMMANDS)|AGENT_(TYPE|CLI|ARGS)|X)=\\PC{0,12}";
    proptest!(|(lines in prop::collection::vec(line, 0..6))| {
        let _ = read_key_value(Path::new("ralph.conf"), &lines.join("\n"), &names);
    });
}
