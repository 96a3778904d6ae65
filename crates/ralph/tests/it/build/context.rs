//! What is added to a prompt: levels, skills, budgets, and `ralph context`.

use serde_json::{Value, json};

use ralph_testkit::sealed::Sealed;

use super::{build, commit_all, project, settings, task};
use crate::without_token;

/// An agent that works and writes a long handoff.
fn teller() -> Value {
    json!([{ "do": [
        { "run": { "command": "echo x > $RALPH_TASK.txt" } },
        { "handoff": {
            "task_completed": { "summary": "Wrote $RALPH_TASK. And more.", "fully_complete": true },
            "architectural_notes": ["One file per task"],
            "constraints_discovered": [{ "constraint": "No network", "impact": "Cache it" }]
        } }
    ] }])
}

fn with_skills(id: &str, skills: &[&str]) -> Value {
    let mut task = task(id, &[]);
    task["skills"] = json!(skills);
    task
}

fn looked_at(sealed: &Sealed, words: &[&str]) -> Value {
    let words = [&["context", "--json"], words].concat();
    let end = sealed.run_ralph(&words).expect_code(0);
    serde_json::from_str(&end.stdout).expect("JSON")
}

fn names(facts: &Value) -> Vec<&str> {
    let sections = facts["sections"].as_array().expect("sections");
    sections.iter().filter_map(|section| section["name"].as_str()).collect()
}

#[test]
fn skills_use_the_room_that_is_left() {
    let sealed = project(&[with_skills("a", &["one", "two"])], &teller(), &settings(json!({})));
    for name in ["one", "two"] {
        let rules = (0..180).map(|nth| format!("- Rule {nth} of {name}.\n"));
        let rules = rules.collect::<Vec<_>>().concat();
        sealed.write_file(&format!(".ralph/skills/{name}.md"), &rules);
    }
    let whole = looked_at(&sealed, &[]);
    assert!(!whole.to_string().contains("skill: two"), "{whole}");
    sealed.write_script(&teller(), &settings(json!({ "context": { "budgetTokens": 2000 } })));
    let cut = looked_at(&sealed, &[]);
    assert!(cut.to_string().contains("skill: two"), "{cut}");
}

#[test]
fn the_last_iterations_join_at_their_level() {
    let tasks: Vec<Value> = ["a", "b", "c", "d", "e", "f"].map(|id| task(id, &[])).to_vec();
    let further = settings(json!({ "memory": { "enabled": false } }));
    let sealed = project(&tasks, &teller(), &further);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    let (_, part) = prompts[5]
        .split_once("## The last accepted work, as its author described it\n")
        .expect("a level");
    let (part, _) = part.split_once("## How to work\n").expect("its end");
    expect_test::expect![[r"
        [e] Wrote $RALPH_TASK. Passed the checks, committed. 1 file.

        Decisions:
        - One file per task

        Constraints:
        - No network: Cache it

        ## Accepted work before that
        [d] Wrote $RALPH_TASK. Passed the checks, committed. 1 file.
        [c] Wrote $RALPH_TASK. Passed the checks, committed. 1 file.
        [b] Wrote $RALPH_TASK. Passed the checks, committed. 1 file.

    "]]
    .assert_eq(part);
    // Each file names its run.
    let handoff: Value =
        serde_json::from_str(&sealed.read_file(".ralph/handoffs/handoff-001.json")).expect("JSON");
    let run = handoff["run"].as_str().expect("the run");
    assert!(sealed.runs()[0].ends_with(run), "{handoff}");
    // The journal records the size of each section.
    let log = sealed.run_ralph(&["log", "--json"]).expect_code(0).stdout;
    let asked: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|it| it["event"]["type"] == "asked")
        .collect();
    let budget = asked[5]["event"]["budget"].as_array().expect("a budget");
    assert!(budget.iter().any(|it| it["name"] == "earlier"), "{budget:?}");
    let verbose = sealed.run_ralph(&["log", "--verbose"]).expect_code(0).stdout;
    assert!(verbose.contains("[ralph] section    tokens      of"), "{verbose}");
}

#[test]
fn context_shows_the_first_prompt_and_changes_nothing() {
    let sealed = project(&[task("a", &[]), task("b", &["a"])], &teller(), &settings(json!({})));
    let before = sealed.run_git(&["status", "--porcelain", "--ignored"]);
    let end = sealed.run_ralph(&["context"]).expect_code(0);
    assert!(end.stdout.contains("\n\n## Current task\nID: a\nTitle: The a\n"), "{}", end.stdout);
    assert!(
        end.stdout.contains("---\nIteration 1: implement a, in a first run\n"),
        "{}",
        end.stdout
    );
    assert!(end.stdout.contains("section    tokens      of\n"), "{}", end.stdout);
    let facts = looked_at(&sealed, &["--task", "b"]);
    assert_eq!(facts["task"], "b");
    assert_eq!(facts["run"], Value::Null);
    assert_eq!(names(&facts), ["task", "output"]);
    assert_eq!(sealed.run_git(&["status", "--porcelain", "--ignored"]), before);
    // It is exactly the prompt of a run.
    let facts = looked_at(&sealed, &[]);
    build(&sealed, &["1"]).expect_code(1);
    let shown = facts["prompt"].as_str().expect("a prompt");
    assert_eq!(without_token(shown), without_token(&sealed.prompts()[0]));
    sealed.run_ralph(&["context", "--task", "c"]).expect_code(2).expect_stderr("no task `c`");
}

#[test]
fn context_continues_from_the_last_run() {
    let sealed = project(&[task("a", &[]), task("b", &[])], &teller(), &settings(json!({})));
    build(&sealed, &["1"]).expect_code(1);
    let facts = looked_at(&sealed, &[]);
    assert_eq!((&facts["iteration"], &facts["task"]), (&json!(2), &json!("b")));
    assert!(facts["run"].is_string(), "{facts}");
    assert!(facts["prompt"].as_str().is_some_and(|it| it.contains("- No network: Cache it")));
    sealed.run_ralph(&["resume", "-m", "2"]).expect_code(0);
    let shown = facts["prompt"].as_str().expect("a prompt");
    assert_eq!(without_token(shown), without_token(&sealed.prompts()[1]));
    // Nothing is left to do, and the run cannot continue.
    let end = sealed.run_ralph(&["context"]).expect_code(0);
    assert_eq!(end.stdout, "There is nothing to do: complete\n");
    assert_eq!(looked_at(&sealed, &[]), json!({ "run": null, "nothingToDo": "complete" }));
}

#[test]
fn prompt_budget_is_applied_and_reported() {
    let tasks = [with_skills("a", &["testing", "debugging", "own"])];
    let small = settings(json!({ "context": { "budgetTokens": 1180 } }));
    let sealed = project(&tasks, &teller(), &small);
    sealed.write_file(".ralph/skills/own.md", &"Always whisper.\n".repeat(200));
    commit_all(&sealed);
    let shown = build(&sealed, &["--dry-run"]).expect_code(0).stdout;
    assert!(shown.contains("(omitted for space: skill: debugging; skill: own)"), "{shown}");
    assert!(shown.contains("dropped: skill: debugging"), "{shown}");
    sealed.write_file(".ralph/settings.local.json", r#"{"context": {"budgetTokens": 9000}}"#);
    let shown = build(&sealed, &["--dry-run"]).expect_code(0).stdout;
    assert!(shown.contains("## Skill: own\n  | Always whisper."), "{shown}");
    assert!(!shown.contains("left out"), "{shown}");
}

#[test]
fn warning_about_a_prompt_is_not_repeated_after_resume() {
    let tasks = ["a", "b"].map(|id| with_skills(id, &["own"]));
    let sealed = project(&tasks, &teller(), &settings(json!({})));
    sealed.write_file(".ralph/skills/own.md", " ");
    commit_all(&sealed);
    build(&sealed, &["1"]).expect_code(1);
    sealed.run_ralph(&["resume", "-m", "2"]).expect_code(0);
    let is_about_skill = |event: &&Value| {
        event["text"].as_str().is_some_and(|text| text.contains("`.ralph/skills/own.md` cannot be"))
    };
    assert_eq!(sealed.find_events("warned").iter().filter(is_about_skill).count(), 1);
}

#[test]
fn unknown_skill_is_a_warning_in_a_run_and_an_error_in_the_list() {
    let sealed =
        project(&[with_skills("a", &["testing", "gone"])], &teller(), &settings(json!({})));
    let end = sealed.run_ralph(&["tasks", "validate"]).expect_code(2);
    let reported = "tasks[0].skills[1]: task `a` names an unknown skill `gone`";
    assert!(end.stderr.contains(reported), "{}", end.stderr);
    sealed.run_ralph(&["context"]).expect_code(0).expect_stderr("unknown skill `gone`");
    build(&sealed, &[]).expect_code(0).expect_stderr("task a: unknown skill `gone`");
    assert!(sealed.prompts()[0].contains("## Skill: testing\n- Test behavior"));
    // A project skill replaces ralph's own.
    sealed.write_file(".ralph/skills/testing.md", "Test as we do.\n");
    sealed.write_file(".ralph/skills/gone.md", "Found.\n");
    sealed.write_file(
        "plan.json",
        &format!("{:#}\n", super::plan(&[with_skills("b", &["testing", "gone"])])),
    );
    sealed.run_ralph(&["tasks", "validate"]).expect_code(0);
    let facts = looked_at(&sealed, &[]);
    let prompt = facts["prompt"].as_str().expect("a prompt");
    assert!(
        prompt.contains("## Skill: testing\nTest as we do.\n\n## Skill: gone\nFound.\n"),
        "{prompt}"
    );
}
