//! What checks the work: gates of the list, agents as gates, protected paths, the baseline.

use serde_json::{Value, json};

use super::{assert_clean, assert_statuses, build, commit_all, handoff, made, project, settings};
use super::{task, worker, writes};
use crate::repository;

#[test]
fn verify_commands_of_the_list_are_gates() {
    let sealed = repository();
    let calls = json!([
        { "when": { "promptLacks": "failed with exit code" }, "do": [
            { "touch": "wrong" }, handoff("Guessed.")
        ] },
        { "do": [{ "touch": "right" }, handoff("Read the message.")] }
    ]);
    sealed.script(&calls, &settings(json!({})));
    let plan = json!({
        "project": "p", "verify_commands": ["test -f right"], "tasks": [task("a", &[])]
    });
    sealed.write("plan.json", &plan.to_string());
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(0);
    assert!(sealed.prompts()[0].contains("## Broken before\n"), "{}", sealed.prompts()[0]);
    assert!(sealed.prompts()[0].contains("`test -f right`"));
    let told = "Guardrail \"test -f right\" failed with exit code 1.";
    assert!(sealed.prompts()[1].contains(told), "{}", sealed.prompts()[1]);
    assert_eq!(made(&sealed), ["ralph[2]: a — The a"]);
}

#[test]
fn a_baseline_that_is_required_stops_a_broken_project() {
    let with = settings(json!({
        "guardrails": [{ "command": "echo all is red; false" }], "baseline": "require"
    }));
    let sealed = project(&[task("a", &[])], &worker(), &with);
    build(&sealed, &[]).expect_code(1).expect_stderr("all is red");
    assert_eq!(sealed.prompts().len(), 0, "nobody is paid");
    assert_statuses(&sealed, &[("a", "pending")]);
    assert_clean(&sealed);
}

#[test]
fn a_test_run_without_tests_does_not_pass() {
    let with = settings(json!({
        "gates": [{ "kind": "test", "command": "echo 'running 0 tests'" }],
        "tasks": { "maxAttempts": 1 }
    }));
    let sealed = project(&[task("a", &[])], &worker(), &with);
    build(&sealed, &[]).expect_code(1).expect_stderr("no test ran");
    assert_statuses(&sealed, &[("a", "failed")]);
}

/// Settings with agents as gates, whose scenario sees `RALPH_ROLE` as `review`.
fn judged() -> Value {
    settings(json!({ "gates": [
        { "name": "spec", "kind": "spec", "agent": {} },
        { "name": "quality", "kind": "quality", "agent": {} }
    ] }))
}

#[test]
fn the_spec_gate_is_hard_and_the_quality_gate_soft() {
    let refuses = |feedback: &str| json!({ "verdict": "changes_requested", "feedback": feedback, "criteria": [] });
    let calls = json!([
        { "when": { "role": "review", "promptContains": "needless complexity" }, "do": [
            { "write": { "path": "meddled", "text": "x" } },
            { "verdict": refuses("Names are unclear.") }
        ] },
        { "when": { "role": "review", "iteration": 1 }, "do": [
            { "verdict": refuses("No reset flow in a.txt:1.") }
        ] },
        { "when": { "role": "review" }, "do": [
            { "verdict": { "verdict": "approved", "feedback": "", "criteria": [] } }
        ] },
        writes("a.txt")
    ]);
    let sealed = project(&[task("a", &[])], &calls, &judged());
    build(&sealed, &[]).expect_code(0).expect_stderr("changed files, which was undone");
    let prompts = sealed.prompts();
    // Attempt, spec; attempt, spec, quality.
    assert_eq!(prompts.len(), 5);
    assert!(prompts[1].contains("+++ b/a.txt"), "{}", prompts[1]);
    assert!(prompts[2].contains("No reset flow in a.txt:1."), "{}", prompts[2]);
    assert_eq!(made(&sealed), ["ralph[2]: a — The a"]);
    assert!(!sealed.project().join("meddled").exists());
    assert_clean(&sealed);
}

#[test]
fn protected_paths_are_refused_also_when_they_were_changed_before() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "write": { "path": "tests/check.sh", "text": "exit 0\n" } }, handoff("Eased it.")
        ] },
        { "when": { "iteration": 2 }, "do": [
            { "write": { "path": "a.txt", "text": "x\n" } }, handoff("Did it.")
        ] },
        { "do": [
            { "write": { "path": "tests/check.sh", "text": "exit 1\n" } }, handoff("Put it back.")
        ] }
    ]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({ "protect": ["tests/**"] })));
    sealed.write("tests/check.sh", "exit 1\n");
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 3);
    for prompt in &prompts[1..] {
        assert!(prompt.contains("- tests/check.sh"), "{prompt}");
    }
    assert_eq!(sealed.read("tests/check.sh"), "exit 1\n");
    assert_eq!(made(&sealed), ["Settings", "ralph[3]: a — The a"]);
}

#[test]
fn the_settings_are_always_protected() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "run": { "command": "cp .ralph/settings.json ../old && echo '{}' > .ralph/settings.json" } },
            handoff("Eased it.")
        ] },
        { "do": [
            { "run": { "command": "cp ../old .ralph/settings.json; echo > a.txt" } }, handoff("Did it.")
        ] }
    ]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    let before = sealed.read(".ralph/settings.json");
    build(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.prompts().len(), 2);
    assert_eq!(sealed.read(".ralph/settings.json"), before);
}

#[test]
fn a_task_that_speaks_of_a_protected_path_may_change_it() {
    let mut speaks = task("a", &[]);
    speaks["description"] = json!("Rewrite tests/check.sh.");
    let calls = json!([{ "do": [
        { "write": { "path": "tests/check.sh", "text": "exit 0\n" } }, handoff("Rewrote it.")
    ] }]);
    let sealed = project(&[speaks], &calls, &settings(json!({ "protect": ["tests/**"] })));
    build(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.prompts().len(), 1);
}

#[test]
fn a_task_that_takes_long_is_warned_of_once() {
    let calls = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "x\n" } }, { "sleep": 0.02 }, handoff("Tried.")
    ] }]);
    let sealed = project(
        &[task("a", &[])],
        &calls,
        &settings(json!({
            "guardrails": [{ "command": "test $(wc -l < a.txt) -ge 3" }],
            "timeouts": { "global": { "soft": "1ms", "hard": "1h" } }
        })),
    );
    build(&sealed, &[]).expect_code(0);
    let warned = sealed.events_of("warned");
    let said = |event: &&Value| event["text"].to_string().contains("task a has taken longer");
    assert_eq!(warned.iter().filter(said).count(), 1, "{warned:?}");
}

#[test]
fn a_task_that_takes_too_long_is_given_up() {
    let calls = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "x\n" } }, { "sleep": 0.02 }, handoff("Tried.")
    ] }]);
    let sealed = project(
        &[task("a", &[])],
        &calls,
        &settings(json!({
            "guardrails": [{ "command": "false" }],
            "timeouts": { "global": { "soft": "1ms", "hard": "2ms" } }
        })),
    );
    build(&sealed, &[]).expect_code(1);
    assert_eq!(sealed.prompts().len(), 1);
    assert_statuses(&sealed, &[("a", "failed")]);
}
