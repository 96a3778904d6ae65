//! A user who edits the task list while a run is stopped: after a clean end only the user can have
//! done it, and it counts.

use ralph_testkit::sealed::{Sealed, wait_until};
use serde_json::{Value, json};

use super::own_commits::{Cut, cut_off};
use super::resume::deadly_git;
use super::{assert_statuses, build, commit_all, handoff, list, plan, settings, task};
use crate::repository;

const BETTER: &str = "Make a, and make it better.";

/// Edits the list by hand.
fn edit(sealed: &Sealed, change: impl FnOnce(&mut Vec<Value>)) {
    let mut list = list(sealed);
    change(list["tasks"].as_array_mut().expect("tasks"));
    sealed.write_file("plan.json", &format!("{list:#}\n"));
}

fn description(sealed: &Sealed) -> Value {
    list(sealed)["tasks"][0]["description"].clone()
}

#[test]
fn repeated_call_uses_the_edited_task() {
    for keeper in ["ralph", "agent"] {
        let further = json!({ "tasks": { "keeper": keeper }, "review": { "enabled": false } });
        let sealed = cut_off(repository(), Cut::Interrupted, &["a", "b"], further);
        edit(&sealed, |tasks| tasks[0]["description"] = json!(BETTER));
        let ran = sealed.run_ralph(&["resume", "-m", "2"]);
        let prompts = sealed.prompts();
        assert!(!prompts[0].contains(BETTER));
        assert!(prompts[1].contains(BETTER), "{keeper}: {}", prompts[1]);
        assert_eq!(description(&sealed), json!(BETTER), "{keeper}");
        let output_text: Vec<&str> = ran.stderr.split_whitespace().collect();
        assert!(
            output_text.join(" ").contains("the text of task `a` was changed"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("reverted"), "{}", ran.stderr);
    }
}

#[test]
fn edits_after_a_kill_are_refused() {
    let sealed = cut_off(repository(), Cut::Killed, &["a", "b"], json!({}));
    edit(&sealed, |tasks| tasks[0]["description"] = json!(BETTER));
    sealed.run_ralph(&["resume"]).expect_code(0).expect_stderr("this was reverted");
    assert!(!sealed.prompts()[1].contains(BETTER));
    assert_eq!(description(&sealed), json!("Make a."));
}

#[test]
fn edits_after_the_answer_do_not_count_as_done() {
    let sealed = repository();
    let calls = json!([{ "do": [{ "run": { "command": "echo 1 > $RALPH_TASK.txt" } }, handoff("Wrote it.")] }]);
    let gate = "test -e waits || { touch waits; sleep 60; }";
    sealed.write_script(
        &calls,
        &settings(json!({ "baseline": "off", "guardrails": [{ "command": gate }] })),
    );
    sealed.write_file(".gitignore", "/waits\n");
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[]), task("b", &[])])));
    commit_all(&sealed);
    let running = sealed.start_ralph(&["build"]);
    wait_until("the gate is at work", || sealed.project_dir().join("waits").exists());
    running.stop_at_once();
    edit(&sealed, |tasks| {
        tasks[0]["description"] = json!(BETTER);
        tasks[1]["description"] = json!("Make b another way.");
    });
    let ran = sealed.run_ralph(&["resume"]).expect_code(0);
    let output_text: Vec<&str> = ran.stderr.split_whitespace().collect();
    let output_text = output_text.join(" ");
    assert!(
        output_text.contains("this was reverted: the text of task `a` was changed"),
        "{output_text}"
    );
    assert!(
        output_text.contains("the task list was edited: the text of task `b` was changed"),
        "{output_text}"
    );
    assert_eq!(description(&sealed), json!("Make a."));
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    let prompts = sealed.prompts();
    assert!(prompts.last().expect("b").contains("another way"), "{prompts:?}");
}

#[test]
fn user_may_set_task_status() {
    let sealed = cut_off(repository(), Cut::Interrupted, &["a", "b"], json!({}));
    sealed.run_ralph(&["tasks", "set-status", "b", "skipped"]).expect_code(0);
    let ran = sealed.run_ralph(&["resume"]).expect_code(0);
    assert!(ran.stderr.contains("task `b` is skipped now"), "{}", ran.stderr);
    assert_statuses(&sealed, &[("a", "done"), ("b", "skipped")]);
    assert_eq!(sealed.prompts().len(), 2, "both for a");
}

#[test]
fn a_task_that_failed_is_tried_again_if_a_person_says_so() {
    let sealed = repository();
    let calls = json!([{ "do": [{ "run": { "command": "echo \"$RALPH_ITERATION\" > a.txt" } }, handoff("Wrote it.")] }]);
    let further = json!({
        "baseline": "off", "tasks": { "maxAttempts": 2 },
        "guardrails": [{ "command": "test -e ../fixed" }]
    });
    sealed.write_script(&calls, &settings(further));
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(1);
    assert_statuses(&sealed, &[("a", "failed")]);
    std::fs::write(sealed.root().join("fixed"), "").expect("written");
    sealed.run_ralph(&["tasks", "set-status", "a", "pending"]).expect_code(0);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
}

#[test]
fn ralphs_own_list_writes_are_not_edits() {
    edit_behind_a_commit(|sealed| {
        build(sealed, &["--task", "a"]).expect_code(5);
    });
}

#[test]
fn ralphs_own_list_writes_before_a_kill_are_not_edits() {
    edit_behind_a_commit(|sealed| {
        sealed.write_program("git", &deadly_git("cat plan.json"));
        std::fs::write(sealed.root().join("die"), "").expect("written");
        let died = build(sealed, &["--task", "a"]);
        assert_eq!(died.code, None, "{}", died.stderr);
        sealed.run_ralph(&["resume"]).expect_code(5);
    });
}

/// A user edits the list after a run has committed it and could not push.
fn edit_behind_a_commit(run: impl FnOnce(&Sealed)) {
    let message =
        json!({ "when": { "role": "message" }, "do": [{ "text": "<response>Make a</response>" }] });
    let work = json!({ "do": [{ "run": { "command": "echo 1 > a.txt" } }, handoff("Wrote it.")] });
    let scm = json!({ "scm": { "command": "git", "tasks": ["commit", "push -q there main"] } });
    let tasks = ["a", "b", "c"].map(|id| task(id, &[]));
    let sealed = repository();
    sealed.write_script(&json!([message, work]), &settings(scm));
    sealed.trust_project(&[]);
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&tasks)));
    commit_all(&sealed);
    run(&sealed);
    assert_statuses(&sealed, &[("a", "done"), ("b", "pending"), ("c", "pending")]);
    let there = sealed.root().join("there");
    sealed.run_git(&["init", "-q", "--bare", there.to_str().expect("text")]);
    sealed.run_git(&["remote", "add", "there", there.to_str().expect("text")]);
    edit(&sealed, |tasks| {
        tasks[1]["description"] = json!("Make b another way.");
        tasks[2]["status"] = json!("skipped");
    });
    let ran = sealed.run_ralph(&["resume"]).expect_code(0);
    let output_text: Vec<&str> = ran.stderr.split_whitespace().collect();
    let output_text = output_text.join(" ");
    assert!(
        output_text.contains("the task list was edited: the text of task `b` was changed"),
        "{output_text}"
    );
    assert!(!output_text.contains("reverted"), "{output_text}");
    assert_statuses(&sealed, &[("a", "done"), ("b", "pending"), ("c", "skipped")]);
    assert_eq!(list(&sealed)["tasks"][1]["description"], "Make b another way.");
    assert_eq!(
        sealed.run_git(&["rev-parse", "there/main"]),
        sealed.run_git(&["rev-parse", "main"])
    );
}
