//! Lists that are completed, in both formats, and which tasks are chosen.

use serde_json::json;

use super::{assert_clean, assert_statuses, build, commit_all, list, made, project, settings};
use super::{task, worker};
use crate::repository;

#[test]
fn every_task_becomes_one_commit() {
    let tasks = [task("b", &["a"]), task("a", &[]), task("c", &["b"])];
    let sealed = project(&tasks, &worker(), &settings(json!({})));
    let end = build(&sealed, &[]).expect_code(0);
    assert_eq!(
        made(&sealed),
        ["ralph[1]: a — The a", "ralph[2]: b — The b", "ralph[3]: c — The c"]
    );
    let body = sealed.run_git(&["log", "-1", "--format=%(trailers:only)"]);
    let run = sealed.runs()[0].file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(body.trim_end(), format!("Ralph-Run: {run}\nRalph-Iteration: 3\nRalph-Task: c"));
    assert_statuses(&sealed, &[("b", "done"), ("a", "done"), ("c", "done")]);
    assert_clean(&sealed);
    for commit in ["HEAD", "HEAD~1", "HEAD~2"] {
        let files = sealed.run_git(&["show", "--name-only", "--format=", commit]);
        let files: Vec<&str> = files.lines().collect();
        assert!(files.len() == 2 && files.contains(&"plan.json"), "{commit}: {files:?}");
    }
    assert!(end.stderr.contains("complete"), "{}", end.stderr);
    build(&sealed, &[]).expect_code(0);
    assert_eq!(made(&sealed).len(), 3, "a list that is done is left alone");
    assert_clean(&sealed);
}

#[test]
fn story_list_keeps_its_format() {
    let sealed = repository();
    sealed.write_script(&worker(), &settings(json!({})));
    let text = "{\n\t\"project\": \"site\", \"house\": {\"style\": [1,  2]},\n\t\"userStories\": [\n\
        \t\t{ \"id\": \"US-1\", \"title\": \"Front page\", \"description\": \"As a visitor.\",\n\
        \t\t  \"acceptanceCriteria\": [\"It opens\"], \"priority\": 1.0, \"passes\": false,\n\
        \t\t  \"reviewStatus\": null, \"reviewCount\": 0, \"reviewFeedback\": \"\", \"notes\": \"\", \"points\": 1e2 }\n\
        \t]\n}";
    sealed.write_file("ralph/tasks.json", text);
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(0);
    let expect = text
        .replace("\"passes\": false", "\"passes\": true")
        .replace("\"notes\": \"\"", "\"notes\": \"Wrote it.\"")
        .replace("1e2 }", "1e2, \"status\": \"done\" }");
    assert_eq!(sealed.read_file("ralph/tasks.json"), expect);
    assert_eq!(sealed.run_git(&["show", "HEAD:ralph/tasks.json"]), expect);
    assert_eq!(made(&sealed), ["ralph[1]: US-1 — Front page"]);
    assert_clean(&sealed);
}

#[test]
fn unknown_fields_of_a_plan_stay() {
    let mut odd = task("a", &[]);
    odd["ticket"] = json!({ "url": "x", "n": [1, 2] });
    let sealed = project(&[odd.clone()], &worker(), &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    assert_eq!(list(&sealed)["tasks"][0]["ticket"], odd["ticket"]);
}

#[test]
fn the_order_decides_where_dependencies_do_not() {
    let ordered = |id: &str, order: u32| {
        let mut task = task(id, &[]);
        task["order"] = json!(order);
        task
    };
    let tasks = [ordered("late", 9), ordered("early", 1), ordered("middle", 5)];
    let sealed = project(&tasks, &worker(), &settings(json!({})));
    build(&sealed, &["2"]).expect_code(1).expect_stderr("ralph resume -m");
    assert_eq!(made(&sealed), ["ralph[1]: early — The early", "ralph[2]: middle — The middle"]);
    assert_statuses(&sealed, &[("late", "pending"), ("early", "done"), ("middle", "done")]);
    assert_clean(&sealed);
}

#[test]
fn single_task_can_be_selected() {
    let tasks = [task("a", &[]), task("b", &[]), task("c", &["a"])];
    let sealed = project(&tasks, &worker(), &settings(json!({})));
    build(&sealed, &["--task", "b"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "pending"), ("b", "done"), ("c", "pending")]);
    build(&sealed, &["--task", "c"]).expect_code(1).expect_stderr("c waits for a");
    assert_eq!(made(&sealed).len(), 1);
}

#[test]
fn another_file_can_be_named() {
    let sealed = project(&[task("wrong", &[])], &worker(), &settings(json!({})));
    let other = json!({ "project": "q", "tasks": [task("right", &[])] });
    sealed.write_file("lists/other.json", &format!("{other:#}"));
    commit_all(&sealed);
    build(&sealed, &["--plan", "lists/other.json"]).expect_code(0);
    assert!(sealed.read_file("lists/other.json").contains("\"done\""));
    assert_statuses(&sealed, &[("wrong", "pending")]);
    assert_clean(&sealed);
}

#[test]
fn a_project_within_a_repository_is_built_in() {
    let sealed = repository();
    sealed.write_script(&worker(), &settings(json!({})));
    sealed.write_file("sub/.ralph/settings.json", &sealed.read_file(".ralph/settings.json"));
    let plan = json!({ "project": "p", "tasks": [task("a", &[]), task("b", &[])] });
    sealed.write_file("sub/plan.json", &format!("{plan:#}"));
    commit_all(&sealed);
    build(&sealed, &["-C", "sub"]).expect_code(0);
    assert!(sealed.read_file("sub/plan.json").contains("\"done\""));
    assert_eq!(made(&sealed).len(), 2);
    assert_clean(&sealed);
}

#[test]
fn prompt_contains_the_task_and_earlier_work() {
    let sealed = project(&[task("a", &[]), task("b", &["a"])], &worker(), &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[0].contains("ID: a\nTitle: The a"), "{}", prompts[0]);
    assert!(prompts[0].contains("- [ ] a is there"), "{}", prompts[0]);
    assert!(prompts[1].contains("Wrote it."), "{}", prompts[1]);
}

#[test]
fn handoffs_are_kept_with_the_files_that_git_saw() {
    let lying = json!([{ "do": [
        { "write": { "path": "real.txt", "text": "x" } },
        { "delete": { "path": "README.md" } },
        { "handoff": {
            "task_completed": { "task_id": "other", "summary": "All good.", "fully_complete": true },
            "files_touched": [{ "path": "invented.rs", "action": "created" }]
        } }
    ] }]);
    let sealed = project(&[task("a", &[])], &lying, &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    let text = sealed.read_file(".ralph/handoffs/handoff-001.json");
    let handoff: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(handoff["task_completed"]["task_id"], "a");
    assert_eq!(
        handoff["files_touched"],
        json!([
            { "path": "README.md", "action": "deleted" },
            { "path": "real.txt", "action": "created" }
        ]),
        "{text}"
    );
}
