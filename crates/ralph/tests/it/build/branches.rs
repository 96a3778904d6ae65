//! The branch that a task list names, and runs that did not finish.

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::repository;
use crate::typing::Typist;

fn handoff() -> Value {
    json!({ "handoff": { "task_completed": { "summary": "Done.", "fully_complete": true } } })
}

/// A project with a list of one task for the branch `feature/y`.
fn project(settings: &Value) -> Sealed {
    let sealed = repository();
    let work = json!({ "run": { "command": "echo done > work.txt" } });
    let mut all = json!({ "review": { "enabled": false } });
    ralph_testkit::sealed::merge_into(&mut all, settings);
    sealed.write_script(&json!([{ "do": [work, handoff()] }]), &all);
    let task = json!({ "id": "a", "title": "A", "description": "Make a.", "status": "pending",
        "acceptance_criteria": ["a"], "depends_on": [] });
    let list = json!({ "project": "p", "branch": "feature/y", "tasks": [task] });
    sealed.write_file("plan.json", &list.to_string());
    sealed.commit_all("Settings");
    sealed
}

fn current(sealed: &Sealed) -> String {
    sealed.run_git(&["branch", "--show-current"]).trim().to_owned()
}

#[test]
fn another_branch_than_that_of_the_list_is_warned_about() {
    let sealed = project(&json!({}));
    let before = current(&sealed);
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    let output = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let warning =
        format!("the task list is for the branch `feature/y`, and `{before}` is checked out");
    assert!(output.contains(&warning), "{output}");
    assert_eq!(current(&sealed), before);
    let sealed = project(&json!({ "tasks": { "branch": "ignore" } }));
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    assert!(!end.stderr.contains("feature/y"), "{}", end.stderr);
    // An empty name is none.
    let sealed = project(&json!({}));
    sealed.write_file("plan.json", &sealed.read_file("plan.json").replace("feature/y", ""));
    sealed.commit_all("No branch");
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    assert!(!end.stderr.contains("is for the branch"), "{}", end.stderr);
}

#[test]
fn the_flag_and_the_setting_switch_to_the_branch_of_the_list() {
    for (settings, words, expect) in [
        (json!({}), &["build", "--branch"][..], "feature/y"),
        (json!({}), &["build", "--branch=other"], "other"),
        (json!({ "tasks": { "branch": "use" } }), &["build"], "feature/y"),
    ] {
        let sealed = project(&settings);
        let before = current(&sealed);
        let commit = sealed.run_git(&["rev-parse", "HEAD"]);
        sealed.run_ralph(words).expect_code(0).expect_stderr(&format!("branch {expect}"));
        assert_eq!(current(&sealed), expect, "{words:?}");
        assert_eq!(sealed.run_git(&["rev-parse", &before]), commit, "the old branch stays");
        assert_ne!(sealed.run_git(&["rev-parse", "HEAD"]), commit, "the work is on the new one");
    }
    // An existing branch has its own list.
    let sealed = project(&json!({}));
    sealed.run_git(&["switch", "--quiet", "--create", "feature/y"]);
    let list = sealed.read_file("plan.json").replace("\"a\"", "\"b\"");
    sealed.write_file("plan.json", &list);
    sealed.commit_all("Another list");
    sealed.run_git(&["switch", "--quiet", "-"]);
    let end = sealed.run_ralph(&["build", "--branch"]).expect_code(0);
    assert!(sealed.read_file("plan.json").contains("\"b\""), "{}", end.stderr);
    assert!(sealed.find_events("iteration_started")[0].to_string().contains("\"b\""));
}

#[test]
fn a_branch_that_cannot_be_used_ends_the_command() {
    let sealed = project(&json!({}));
    let before = current(&sealed);
    for (name, text) in [("--branch=-x", "is no name for a branch"), ("--branch=a..b", "`git")] {
        sealed.run_ralph(&["build", name]).expect_code(5).expect_stderr(text);
    }
    assert_eq!(current(&sealed), before);
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn uncommitted_changes_are_refused_before_the_branch_is_switched() {
    let sealed = project(&json!({}));
    let before = current(&sealed);
    sealed.write_file("mine.txt", "an edit");
    let end = sealed.run_ralph(&["build", "--branch"]).expect_code(2);
    assert!(end.stderr.contains("There are uncommitted changes"), "{}", end.stderr);
    assert!(!end.stderr.contains("Switched"), "{}", end.stderr);
    assert_eq!(current(&sealed), before);
    assert_eq!(sealed.run_git(&["branch", "--list", "feature/*"]), "");
    sealed.run_ralph(&["build", "--branch", "--set-aside"]).expect_code(0);
    assert_eq!(
        (current(&sealed), sealed.read_file("mine.txt")),
        ("feature/y".into(), "an edit".into())
    );
}

#[test]
fn an_unfinished_run_is_named_at_the_next_start() {
    let sealed = project(&json!({ "tasks": { "branch": "ignore" }, "retries": { "max": 0 } }));
    let calls = json!([
        { "do": [{ "run": { "command": "echo half > half.txt" } }, { "exit": 1 }] },
    ]);
    sealed.write_script(
        &calls,
        &json!({ "review": { "enabled": false }, "tasks": { "branch": "ignore" },
            "retries": { "max": 0 } }),
    );
    sealed.run_ralph(&["build"]).expect_code(4);
    let run = sealed.runs().pop().expect("a run");
    let run = run.file_name().expect("a name").to_string_lossy().into_owned();
    let end = sealed.run_ralph(&["build"]).expect_code(2);
    assert!(end.stderr.contains(&format!("`ralph resume {run}` continues")), "{}", end.stderr);
    let end = sealed.run_ralph(&["build", "--include-dirty"]);
    let output = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains(&format!("the last run {run} did not finish")), "{output}");
    assert!(output.contains("`ralph resume` continues it"), "{output}");
}

#[test]
fn on_a_terminal_the_user_decides_about_the_branch() {
    for (answer, expect) in [("y", "feature/y"), ("n", "main"), ("", "main")] {
        let sealed = project(&json!({}));
        let mut typist = Typist::start(&sealed, &["build"], 200);
        typist.answer("main is checked out. Switch to feature/y? [y/N] ", answer);
        let end = typist.end();
        assert_eq!(end.code, Some(0), "{}", end.seen);
        assert_eq!(current(&sealed), expect, "{answer:?}: {}", end.seen);
        let seen = end.seen.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_warned = seen.contains("commits go there; --branch switches");
        assert_eq!(is_warned, expect == "main", "{answer:?}: {}", end.seen);
        assert!(sealed.subjects().len() > 2, "the work is committed there");
    }
}

#[test]
fn on_a_terminal_the_user_decides_whether_to_resume() {
    for (answer, runs) in [("y", 1), ("n", 2)] {
        let sealed = project(&json!({ "tasks": { "branch": "ignore" }, "retries": { "max": 0 } }));
        let work = json!({ "run": { "command": "echo done > work.txt" } });
        let calls = json!([
            { "when": { "call": 1 }, "do": [{ "exit": 1 }] },
            { "do": [work, handoff()] },
        ]);
        let settings = json!({ "review": { "enabled": false }, "tasks": { "branch": "ignore" },
            "retries": { "max": 0 } });
        sealed.write_script(&calls, &settings);
        sealed.run_ralph(&["build"]).expect_code(4);
        let mut typist = Typist::start(&sealed, &["build"], 200);
        typist.answer("Resume it instead of starting a new one? [y/N] ", answer);
        let end = typist.end();
        assert_eq!(end.code, Some(0), "{answer}: {}", end.seen);
        assert_eq!(sealed.runs().len(), runs, "{answer}: {}", end.seen);
        assert_eq!(sealed.read_file("work.txt"), "done\n");
    }
}
