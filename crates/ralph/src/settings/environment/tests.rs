//! Tests of `environment`.

use std::collections::BTreeSet;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::settings::schema::build_json_schema;

fn names() -> SettingVariables {
    SettingVariables::new(SettingShape::from_schema(&build_json_schema()))
}

#[test]
fn every_setting_has_a_name_of_its_own() {
    fn leaves(shape: &SettingShape, path: &JsonPath, found: &mut Vec<JsonPath>) {
        if let SettingShape::Object { entries, .. } = shape {
            for (key, entry) in entries {
                leaves(entry, &path.join_key(key), found);
            }
        } else {
            found.push(path.clone());
        }
    }
    let names = names();
    let mut paths = Vec::new();
    leaves(names.root_shape(), &JsonPath::default(), &mut paths);
    paths.retain(|path| path.to_string() != "$schema");
    let distinct: BTreeSet<String> = paths.iter().map(build_variable_name).collect();
    assert_eq!(distinct.len(), paths.len());
    for path in paths {
        assert_eq!(names.find_path(&build_variable_name(&path)), Some(path));
    }
}

#[test]
fn older_names_stand_for_settings_and_hide_none() {
    let names = names();
    for (alias, path) in ALIASES {
        assert!(names.find_shape(&JsonPath::parse(path)).is_some(), "{path}");
        assert!(!names.names().exact.contains_key(alias), "{alias}");
    }
}

#[test]
fn variables_set_what_their_name_says() {
    let cases = [
        ("RALPH_MAXIMUM_ITERATIONS", "7", "maximumIterations", json!(7)),
        ("RALPH_MAX_ITERATIONS", " 7 ", "maximumIterations", json!(7)),
        ("RALPH_AGENT_SKIP_PERMISSIONS", "No", "agent.skipPermissions", json!(false)),
        ("RALPH_SKIP_PERMISSIONS", "1", "agent.skipPermissions", json!(true)),
        ("RALPH_AGENTS_REVIEW_MODEL", "opus", "agents.review.model", json!("opus")),
        ("RALPH_LOG_LEVEL", "WARN", "log.level", json!("warn")),
        ("RALPH_PROTECT", "a, b,,c", "protect", json!(["a", "b", "c"])),
        ("RALPH_PROTECT", "[\"a,b\"]", "protect", json!(["a,b"])),
        ("RALPH_PROTECT", "", "protect", json!([])),
        ("RALPH_NOTIFY_ON", "Finish,stuck", "notify.on", json!(["finish", "stuck"])),
        ("RALPH_TIMEOUTS_TEST", "5m", "timeouts.test", json!("5m")),
        ("RALPH_TIMEOUTS_TEST_SOFT", "90", "timeouts.test.soft", json!("90")),
        ("RALPH_TIMEOUT_MULTIPLIER", "0.5", "timeoutMultiplier", json!(0.5)),
        ("RALPH_BUDGET_MAX_COST_USD", "5", "budget.maxCostUsd", json!(5.0)),
        ("RALPH_UI_EMOJI", "false", "ui.emoji", json!(false)),
        ("RALPH_UI_EMOJI", "Auto", "ui.emoji", json!("auto")),
        ("RALPH_STATE_DIR", "/s", "stateDir", json!("/s")),
        ("RALPH_VARS_NAME", "x", "vars.NAME", json!("x")),
        ("RALPH_AGENT_ENV_DENY", "A,B", "agent.envDeny", json!(["A", "B"])),
        ("RALPH_AGENT_ENV_CI", "1", "agent.env.CI", json!("1")),
        ("RALPH_AUTO_COMMIT", "true", "commit", json!("ralph")),
        ("RALPH_AUTO_COMMIT", "false", "commit", json!("none")),
        ("RALPH_GUARDRAILS", "[{\"command\": \"x\"}]", "guardrails", json!([{"command": "x"}])),
        (
            "RALPH_VALIDATION_COMMANDS",
            "make a, b",
            "gates",
            json!([{"kind": "test", "hard": true, "command": "make a, b"}]),
        ),
        // What does not fit stays text for the checker to complain about.
        ("RALPH_MAX_TURNS", "ten", "maxTurns", json!("ten")),
    ];
    let names = names();
    for (name, text, path, value) in cases {
        let expected = Ok(VariableMeaning::Set(JsonPath::parse(path), value));
        assert_eq!(names.read_variable(name, text), expected, "{name}={text}");
    }
}

#[test]
fn empty_and_foreign_variables_set_nothing() {
    let cases = [
        ("RALPH_MODEL", ""),
        ("RALPH_FALLBACK_MODEL", ""),
        ("RALPH_RUN_ID", "x"),
        ("PATH", "/bin"),
    ];
    for (name, text) in cases {
        assert_eq!(names().read_variable(name, text), Ok(VariableMeaning::Nothing), "{name}");
    }
}

#[test]
fn variables_without_effect_are_warned_about() {
    let shown: Vec<String> = ["RALPH_LOG_FILE", "RALPH_MAX_ITERATION", "RALPH_XYZZY"]
        .map(|name| match names().read_variable(name, "x") {
            Ok(VariableMeaning::Warning(message)) => message,
            other => format!("{other:?}"),
        })
        .to_vec();
    expect![[r"
        RALPH_LOG_FILE has no effect: the log is in .ralph/logs/ralph.log
        RALPH_MAX_ITERATION is not a setting (did you mean RALPH_MAX_ITERATIONS?)
        RALPH_XYZZY is not a setting"]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn values_that_cannot_be_read_say_why() {
    let cases =
        [("RALPH_GUARDRAILS", "make"), ("RALPH_PROTECT", "[1,"), ("RALPH_AUTO_COMMIT", "maybe")];
    let shown: Vec<String> = cases
        .iter()
        .map(|(name, text)| match names().read_variable(name, text) {
            Err(unreadable) => format!("{}: {}", unreadable.path, unreadable.message),
            other => format!("{other:?}"),
        })
        .collect();
    expect![[r#"
        guardrails: expected a list as JSON: expected value at line 1 column 1
        protect: expected a list as JSON: EOF while parsing a value at line 1 column 3
        commit: expected true or false, found "maybe""#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn no_value_makes_reading_panic() {
    let names = names();
    proptest!(|(text in "\\PC*|[\\[\\]{}\",0-9a-z.-]*")| {
        for name in names.names().exact.keys() {
            let _ = names.read_variable(name, &text);
        }
    });
}
