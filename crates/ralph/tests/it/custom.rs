//! Agents without an adapter, read with filters, through the built binary.

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::{run, sealed};

/// An agent that echoes its prompt and shows a tool in its first call, and completes in the
/// second.
const TALKER: &str = r#"#!/bin/sh
read -r prompt
echo "$@" >> ../argv
echo "{\"session\": \"s-$$\", \"kind\": \"user\", \"text\": \"$prompt <response>DONE</response>\"}"
echo "warming up"
if [ ! -e called ]; then
    touch called
    echo '{"kind": "tool", "name": "ls", "out": "<response>DONE</response>"}'
    echo '{"kind": "say", "blocks": [{"text": "Looking at"}, {"image": 1}, {"text": "it."}]}'
else
    echo '{"kind": "piece", "text": "<response>DO"}'
    echo '{"kind": "piece", "text": "NE</response>"}'
fi
echo '{"kind": "end", "spent": {"in": 100, "out": 7, "usd": 0.25}}'
"#;

fn filters() -> Value {
    json!({
        "command": "talker",
        "flags": ["--json"],
        "kind": "custom",
        "responseFilter": "select(.kind == \"say\") | .blocks[]?.text // empty",
        "deltaFilter": "select(.kind == \"piece\") | .text",
        "sessionFilter": ".session // empty",
        "usageFilters": { "input": ".spent.in", "output": ".spent.out", "cost": ".spent.usd" },
    })
}

fn talker(sealed: &Sealed, agent: &Value) {
    sealed.write_program("talker", TALKER);
    let settings = json!({ "agent": agent, "retries": { "max": 0 }, "preventSleep": false });
    sealed.write_file(".ralph/settings.json", &format!("{settings:#}"));
}

#[test]
fn a_whole_loop_counts_what_the_filters_select() {
    let sealed = sealed();
    talker(&sealed, &filters());
    let end = run(&sealed, &[]).expect_code(0);
    for text in ["Looking at\nit.", "<response>DONE</response>", "$0.50", "warming up"] {
        assert!(end.stderr.contains(text), "no {text:?} in\n{}", end.stderr);
    }
    assert!(!end.stderr.contains("\"tool\""), "{}", end.stderr);
    let replies = sealed.find_events("replied");
    assert_eq!(replies.len(), 2);
    let reply = &replies[0]["reply"];
    assert_eq!((&reply["text"], &reply["signal"]), (&json!("Looking at\nit."), &Value::Null));
    assert_eq!((&reply["usage"]["input"], &reply["unparsed"]), (&json!(100), &json!(1)));
    assert!(reply["session"].as_str().is_some_and(|id| id.starts_with("s-")), "{reply}");
    let argv = std::fs::read_to_string(sealed.root().join("argv")).expect("it was called");
    assert_eq!(argv, "--json\n--json\n");
}

#[test]
fn display_filter_selects_what_is_shown() {
    let sealed = sealed();
    let mut agent = filters();
    agent["displayFilter"] = json!(
        "if .kind == \"tool\" then \"[\\(.name)]\" elif .kind == \"piece\" then \"...\" else empty end"
    );
    talker(&sealed, &agent);
    let end = run(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains("[ls]\n") && end.stderr.contains("...\n"), "{}", end.stderr);
    assert!(!end.stderr.contains("Looking at"), "{}", end.stderr);
    assert_eq!(sealed.find_events("replied")[0]["reply"]["text"], "Looking at\nit.");
}

#[test]
fn a_file_of_assignments_and_the_environment_set_filters_too() {
    let sealed = sealed();
    talker(&sealed, &json!({}));
    sealed.write_file(
        "loop.conf",
        "AGENT_CLI=\"talker --json\"\nAGENT_OUTPUT_FORMAT=json\n\
         AGENT_RESPONSE_FILTER='select(.kind == \"say\") | .blocks[]?.text // empty'\n\
         RALPH_AGENT_DELTA_FILTER='select(.kind == \"piece\") | .text'\n",
    );
    run(&sealed, &["--config", "loop.conf"]).expect_code(0);
    assert_eq!(sealed.find_events("replied")[0]["reply"]["text"], "Looking at\nit.");
    assert_eq!(sealed.find_events("run_started")[0]["recipe"]["agent"]["kind"], "custom");

    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base", "--agent", "talker"]);
    command.env("RALPH_AGENT_KIND", "custom").env("RALPH_AGENT_DELTA_FILTER", ".text // empty");
    let end = ralph_testkit::sealed::Running::start_command(command).wait_for_end();
    end.expect_code(0).expect_stderr("agent custom (talker)");
}

#[test]
fn invalid_filter_is_reported_with_position_before_the_run() {
    let sealed = sealed();
    sealed.write_program("talker", TALKER);
    sealed.write_file(
        ".ralph/settings.json",
        "{\n  \"agent\": {\n    \"command\": \"talker\",\n    \"kind\": \"custom\",\n    \"responseFilter\": \".a | select(.b\",\n    \"usageFilters\": { \"cost\": \".cost | gamma\" }\n  }\n}\n",
    );
    run(&sealed, &[])
        .expect_code(2)
        .expect_stderr(
            ".ralph/settings.json:5:23: `agent.responseFilter`: at character 15: expected closing parenthesis, found the end",
        )
        .expect_stderr(
            ".ralph/settings.json:6:31: `agent.usageFilters.cost`: at character 9: there is no filter `gamma`",
        );
    sealed.write_file("loop.conf", "AGENT_CLI=talker\n\nAGENT_RESPONSE_FILTER='.a |'\n");
    run(&sealed, &["--config", "loop.conf"]).expect_code(2).expect_stderr("loop.conf:3:");
    talker(&sealed, &json!({ "command": "talker", "kind": "custom" }));
    run(&sealed, &[]).expect_code(2).expect_stderr("needs a filter that selects its answer");
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn unused_filters_are_warned_about() {
    let sealed = sealed();
    sealed.write_program("talker", "#!/bin/sh\necho '<response>DONE</response>'\n");
    let agent = json!({ "command": "talker", "kind": "text", "displayFilter": ".x" });
    let settings = json!({ "agent": agent, "preventSleep": false });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    run(&sealed, &[])
        .expect_code(0)
        .expect_stderr("`agent.displayFilter` has no effect on an agent of kind `text`");
}

#[test]
fn unselected_output_is_not_an_answer() {
    let sealed = sealed();
    let mut agent = filters();
    agent["responseFilter"] = json!(".answer // empty");
    agent["deltaFilter"] = Value::Null;
    talker(&sealed, &agent);
    run(&sealed, &[]).expect_code(4).expect_stderr("its filters selected no answer");
}

#[test]
fn the_settings_in_the_documentation_are_accepted() {
    let page = include_str!("../../../../docs/custom-agents.md");
    let examples: Vec<&str> =
        page.split("```json\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let sealed = sealed();
        sealed.write_file(".ralph/settings.json", example);
        // Its agent is not on this machine.
        let preview = run(&sealed, &["--dry-run"]).expect_code(4);
        assert!(preview.stdout.contains("\nIteration 1 (prompt) asks\n"), "{}", preview.stdout);
    }
}
