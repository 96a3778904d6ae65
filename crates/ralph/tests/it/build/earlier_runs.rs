//! Attempts of earlier runs on the same list: counted, shown in prompts, and kept for a retry.

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use super::{assert_statuses, build, failure_branches, handoff, list, project, settings, task};

/// Refs that keep rolled back work. Only the record of earlier attempts names them.
const KEPT: &str = "refs/ralph/kept/";

/// A task that always fails at its gate, and an agent that adds a line per attempt.
fn failing(attempts: u32) -> Sealed {
    let calls = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "wrong\n" } }, handoff("Guessed once more.")
    ] }]);
    let gate = json!([{ "name": "tests", "kind": "test", "command": "! grep -n wrong a.txt" }]);
    let with = json!({
        "gates": gate, "tasks": { "maxAttempts": attempts }, "onFailure": "rollback"
    });
    project(&[task("a", &[])], &calls, &settings(with))
}

fn retry_count(sealed: &Sealed) -> Value {
    list(sealed)["tasks"][0]["retry_count"].clone()
}

#[track_caller]
fn last_prompt(sealed: &Sealed) -> String {
    sealed.prompts().last().expect("a prompt").clone()
}

#[test]
fn a_new_run_continues_to_count_attempts() {
    let sealed = failing(3);
    for attempt in 1..=2 {
        let end = build(&sealed, &["1"]).expect_code(1);
        assert_eq!(retry_count(&sealed), attempt, "{}", end.stderr);
    }
    let prompt = last_prompt(&sealed);
    assert!(prompt.contains(KEPT), "where the changes are: {prompt}");
    assert!(prompt.contains("Attempt 1: the check"), "the attempt of the run before: {prompt}");
    let end = build(&sealed, &["1"]).expect_code(1);
    assert!(end.stderr.contains("(attempt 3 of 3)"), "{}", end.stderr);
    assert!(end.stderr.contains("Task a failed: none of 3 attempts passed"), "{}", end.stderr);
    assert_statuses(&sealed, &[("a", "failed")]);
}

#[test]
fn the_same_failure_is_stuck_across_runs() {
    let sealed = failing(9);
    for _ in 0..3 {
        build(&sealed, &["1"]).expect_code(1);
    }
    let end = build(&sealed, &["1"]).expect_code(1);
    assert!(end.stderr.contains("The same failure again"), "{}", end.stderr);
}

#[test]
fn a_retry_resets_the_count_and_keeps_the_record() {
    let sealed = failing(2);
    build(&sealed, &[]).expect_code(1);
    assert_statuses(&sealed, &[("a", "failed")]);
    let branch = failure_branches(&sealed).pop().expect("a failure branch");
    let end = build(&sealed, &["--retry-failed"]).expect_code(1);
    assert_eq!(sealed.prompts().len(), 2, "two attempts again: {}", end.stderr);
    let prompt = &sealed.prompts()[0];
    assert!(prompt.contains(&branch), "where the changes are: {prompt}");
    assert!(!end.stderr.contains("attempt 3"), "{}", end.stderr);
    assert_eq!(retry_count(&sealed), 2);
}

#[test]
fn a_failure_branch_brings_the_record_of_its_attempts() {
    let sealed = failing(1);
    build(&sealed, &[]).expect_code(1);
    build(&sealed, &["--task", "a", "--from-shelf", "1"]).expect_code(1);
    let prompt = last_prompt(&sealed);
    assert!(prompt.contains("Their changes are still in the work tree"), "{prompt}");
    // Without the branch, the prompt names where it was moved to.
    let sealed = failing(1);
    build(&sealed, &[]).expect_code(1);
    build(&sealed, &["--task", "a", "--fresh", "1"]).expect_code(1);
    let prompt = last_prompt(&sealed);
    assert!(prompt.contains("Their changes are on the branch `wip/archive/"), "{prompt}");
}

#[test]
fn the_user_resets_the_count_in_the_task_file() {
    let sealed = failing(2);
    build(&sealed, &["1"]).expect_code(1);
    let mut plan = list(&sealed);
    plan["tasks"][0]["retry_count"] = json!(0);
    sealed.write_file("plan.json", &format!("{plan:#}\n"));
    build(&sealed, &["1"]).expect_code(1);
    assert!(last_prompt(&sealed).contains(KEPT));
    assert_eq!(retry_count(&sealed), 1);
    let statuses = list(&sealed)["tasks"][0]["status"].clone();
    assert_ne!(statuses, "failed", "one of two attempts counts");
}

#[test]
fn another_task_under_the_same_id_starts_afresh() {
    let sealed = failing(3);
    build(&sealed, &["1"]).expect_code(1);
    let mut plan = list(&sealed);
    plan["tasks"][0]["title"] = json!("Another");
    sealed.write_file("plan.json", &format!("{plan:#}\n"));
    build(&sealed, &["1"]).expect_code(1);
    assert!(!last_prompt(&sealed).contains(KEPT));
}

#[test]
fn a_start_with_nothing_to_do_does_not_hide_the_run_before_it() {
    let calls = json!([{ "do": [
        { "write": { "path": "a.txt", "text": "x\n" } }, handoff("Did it.")
    ] }]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    let work = sealed.runs().pop().expect("a run");
    let work = work.file_name().expect("a name").to_string_lossy().into_owned();
    build(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.runs().len(), 2);
    for command in ["status", "report"] {
        let shown = sealed.run_ralph(&[command]).expect_code(0).stdout;
        assert!(shown.contains(&work), "{shown}");
    }
    let shown = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("came later and had nothing to do"), "{shown}");
    let log = sealed.run_ralph(&["log"]).expect_code(0).stdout;
    assert!(log.contains("Task a: done"), "{log}");
}
