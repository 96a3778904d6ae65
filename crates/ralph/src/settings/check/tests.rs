//! Tests of `check`.

use expect_test::{Expect, expect};
use ralph_model::agent::AgentKind;
use serde_json::json;

use super::*;
use crate::settings::schema::build_json_schema;

#[track_caller]
fn assert_findings(document: &Value, expected: &Expect) {
    let shape = SettingShape::from_schema(&build_json_schema());
    let shown: Vec<String> = check_document(document, &JsonPath::default(), &shape, &shape)
        .into_iter()
        .map(|finding| {
            let hint = finding.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            match finding.fault {
                SettingFault::UnknownKey => format!("{}: unknown{hint}", finding.path),
                SettingFault::Type(message) => format!("{}: type: {message}{hint}", finding.path),
                SettingFault::Value(message) => format!("{}: {message}{hint}", finding.path),
            }
        })
        .collect();
    expected.assert_eq(&shorten_kinds(&shown.join("\n")));
}

/// Replaces the list of all kinds of agents.
pub(crate) fn shorten_kinds(shown: &str) -> String {
    let names: Vec<String> =
        AgentKind::ALL.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
    let (last, others) = names.split_last().expect("agents");
    shown.replace(&format!("{} or {last}", others.join(", ")), "KINDS")
}

#[test]
fn unknown_keys_name_the_one_that_was_meant() {
    assert_findings(
        &json!({
            "maximumIteration": 1, "maxIterations": 1, "model": "opus", "cap": 3, "zzz": 1,
            "agent": {"modle": "x", "skip_permissions": true},
            "agents": {"reviewer": {}},
            "gates": [{"comand": "x"}],
            "vars": {"anything": "goes"},
            "$schema": "x",
        }),
        &expect![[r"
            maximumIteration: unknown (did you mean `maximumIterations`?)
            maxIterations: unknown (did you mean `maximumIterations`?)
            model: unknown (did you mean `agent.model`?)
            cap: unknown (did you mean `review.cap`?)
            zzz: unknown
            agent.modle: unknown (did you mean `agent.model`?)
            agent.skip_permissions: unknown (did you mean `agent.skipPermissions`?)
            agents.reviewer: unknown (did you mean `agents.review`?)
            gates[0].comand: unknown (did you mean `gates[0].command`?)"]],
    );
}

#[test]
fn wrong_types_say_what_was_expected() {
    assert_findings(
        &json!({
            "maximumIterations": "ten", "streamAgentOutput": 1, "agent": "claude", "protect": "src",
            "guardrails": [{"command": 3}, "make"], "timeouts": {"idle": true, "test": []},
            "timeoutMultiplier": "2", "delaySeconds": 1.5, "notify": null, "commitPrefix": null,
            "agent.env": 1, "vars": {"TOKEN": 3}, "sandbox": {"limits": {"memory": {}}},
            "ui": {"emoji": 3},
        }),
        &expect![[r#"
            maximumIterations: type: expected a whole number of at least 1, found "ten"
            streamAgentOutput: type: expected true or false, found 1
            agent: type: expected an object, found "claude"
            protect: type: expected a list of strings, found "src"
            guardrails[0].command: type: expected a string, found 3
            guardrails[1]: type: expected an object, found "make"
            timeouts.idle: type: expected a duration such as "12m" or a number of seconds, found true
            timeouts.test: type: expected a duration such as "12m" or a number of seconds, or an object, found a list
            timeoutMultiplier: type: expected a number from 0.01 to 1000, found "2"
            delaySeconds: type: expected a whole number from 0 to 86400, found 1.5
            notify: type: expected an object, found null
            commitPrefix: type: expected a string, found null
            ["agent.env"]: unknown (write it as an object inside an object)
            vars.TOKEN: type: expected a string, found a number
            sandbox.limits.memory: type: expected a size such as "8G" or a number of bytes, found an object
            ui.emoji: type: expected "auto", "always" or "never", or true or false, found 3"#]],
    );
}

#[test]
fn wrong_values_say_what_is_allowed() {
    assert_findings(
        &json!({
            "maximumIterations": 0, "review": {"cap": -1}, "timeoutMultiplier": 0, "maxTurns": 5_000_000_000_u64,
            "budget": {"maxCostUsd": 0, "maxTokens": 0}, "log": {"level": "warning"}, "commit": "me",
            "guardrails": [{"command": "", "failAction": "apend"}, {"failAction": "prepend"}],
            "timeouts": {"idle": "ten minutes", "test": {"hard": "5x"}}, "sandbox": {"limits": {"tmp": "2X"}},
            "agent": {"kind": "Claude"},
        }),
        &expect![[r#"
            maximumIterations: expected a whole number of at least 1, found 0
            review.cap: expected a whole number of at least 1, found -1
            timeoutMultiplier: expected a number from 0.01 to 1000, found 0
            maxTurns: expected at most 4294967295, found 5000000000
            budget.maxCostUsd: expected a number above 0, found 0
            budget.maxTokens: expected a whole number of at least 1, found 0
            log.level: expected "warn", "debug", "info" or "error", found "warning" (did you mean "warn"?)
            commit: expected "ralph", "agent" or "none", found "me"
            guardrails[0].command: must not be empty
            guardrails[0].failAction: expected "APPEND", "PREPEND" or "REPLACE", found "apend" (did you mean "APPEND"?)
            guardrails[1]: `command` is missing
            timeouts.idle: `ten minutes` is not a duration; write for example "90s", "12m" or "1h30m"
            timeouts.test.hard: `5x` is not a duration; write for example "90s", "12m" or "1h30m"
            sandbox.limits.tmp: `2X` is not a size; write for example "64M" or "8G"
            agent.kind: expected KINDS, found "Claude" (did you mean "claude"?)"#]],
    );
}
