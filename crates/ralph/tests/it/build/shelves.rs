//! Trying a failed task again: from its shelf, or afresh.

use serde_json::{Value, json};

use ralph_testkit::sealed::Sealed;

use super::{
    assert_clean, assert_statuses, build, handoff, made, project, settings, shelves, task,
};

/// A task that needs two lines, and an agent that adds one in an attempt.
fn halfway() -> Sealed {
    let calls: Value = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "line\n" } }, handoff("One line.")
    ] }]);
    let with = settings(json!({
        "guardrails": [{ "command": "test $(wc -l < a.txt) -ge 2" }],
        "tasks": { "maxAttempts": 1 }
    }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(1);
    assert_eq!(shelves(&sealed).len(), 1);
    assert_statuses(&sealed, &[("a", "failed")]);
    sealed
}

#[test]
fn shelved_work_can_be_gone_on_with() {
    let sealed = halfway();
    build(&sealed, &["--task", "a", "--from-shelf"]).expect_code(0);
    assert_eq!(sealed.read("a.txt"), "line\nline\n");
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(made(&sealed), ["ralph[1]: a — The a"]);
    let files = sealed.git(&["show", "--name-only", "--format=", "HEAD"]);
    assert_eq!(files, "a.txt\nplan.json\n");
    let shelves = shelves(&sealed);
    assert!(shelves.len() == 1 && shelves[0].starts_with("wip/archive/"), "{shelves:?}");
    assert_clean(&sealed);
}

#[test]
fn a_fresh_start_archives_the_former_work() {
    let sealed = halfway();
    build(&sealed, &["--task", "a", "--fresh"]).expect_code(1).expect_stderr("wip/archive/");
    let shelves = shelves(&sealed);
    assert_eq!(shelves.len(), 2, "{shelves:?}");
    assert!(shelves.iter().any(|branch| branch.starts_with("wip/archive/ralph-fail-a-")));
    assert!(!sealed.project().join("a.txt").exists());
    let shelf = shelves.iter().find(|branch| branch.starts_with("wip/ralph-")).expect("a shelf");
    assert_eq!(sealed.git(&["show", &format!("{shelf}:a.txt")]), "line\n");
}

#[test]
fn without_anybody_to_ask_a_task_begins_afresh() {
    let sealed = halfway();
    build(&sealed, &["--task", "a", "2"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_clean(&sealed);
}
