//! The facts that prompts of task lists contain: what failed, the other work, the change, and what
//! earlier agents recommend.

use serde_json::{Value, json};

use super::{build, handoff, list, project, settings, task, worker, writes};

/// An agent that approves every review.
fn approves() -> Value {
    json!({ "when": { "role": "review" }, "do": [{ "verdict": {
        "verdict": "approved", "feedback": "",
        "criteria": [{ "criterion": "a is there", "met": true, "evidence": "a.txt:1" }]
    } }] })
}

#[track_caller]
fn assert_all_in(prompt: &str, texts: &[&str]) {
    for text in texts {
        assert!(prompt.contains(text), "{text}: {prompt}");
    }
}

#[test]
fn what_failed_follows_the_task_and_is_said_once() {
    let command = "echo 'FAILED tests/t.py::test_x - boom'; echo boom; grep -q right a.txt";
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "write": { "path": "a.txt", "text": "wrong\n" } }, handoff("Guessed it.")
        ] },
        { "do": [{ "write": { "path": "a.txt", "text": "right\n" } }, handoff("Did it.")] }
    ]);
    let with = settings(json!({ "gates": [{ "kind": "test", "command": command }] }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(!prompts[0].contains("## What failed") && !prompts[0].contains("## Earlier attempts"));
    let (_, after) = prompts[1].split_once("- [ ] a is there\n\n").expect("the task");
    assert!(after.starts_with("## What failed\nGuardrail \"echo"), "{after}");
    let [failing, output, attempts, broken] = [
        "Failing tests:\n- tests/t.py::test_x\n",
        "Output (truncated):\n",
        "## Earlier attempts\nAttempt 1: the check `",
        "Fixing them is part of this task:\n- `",
    ]
    .map(|text| after.find(text).unwrap_or_else(|| panic!("{text}: {after}")));
    assert!(failing < output && output < attempts && attempts < broken, "{after}");
    assert_all_in(after, &["failed (1 test). Its author wrote: Guessed it. (`a.txt`)\n"]);
    assert_eq!(after.matches("\nboom").count(), 1, "{after}");
    for raw in ["error_hash", "timestamp", "stuck_count", "broken before the run"] {
        assert!(!after.contains(raw), "{raw}: {after}");
    }
}

#[test]
fn other_tasks_commits_and_notes_are_in_every_prompt_of_a_task() {
    let mut first = task("a", &[]);
    first["notes"] = json!("Use one file.");
    let calls = json!([approves(), writes("$RALPH_TASK.txt")]);
    let with = json!({ "guardrails": [{ "command": "true" }] });
    let sealed = project(&[first, task("b", &["a"])], &calls, &with);
    build(&sealed, &["2"]).expect_code(1);
    let prompts = sealed.prompts();
    let own = "- a The a (this one)\n- b The b (later)\nLast commits, newest first:\n- ";
    assert_all_in(
        &prompts[0],
        &["\n\nNotes on this task (what agents wrote here is not checked):\nUse one file.\n", own],
    );
    assert_all_in(
        &prompts[0],
        &["no person answers questions", "in the foreground", "as its user"],
    );
    // The reviewer gets the planner's notes as well, and they are kept.
    let (notes, author) = ("is not checked):\nUse one file.\n\n", "Verify them.\nWrote it.\n");
    assert_all_in(&prompts[1], &[notes, author, "- ralph[1]: a — The a\n", "all passed"]);
    assert_eq!(list(&sealed)["tasks"][0]["notes"], json!("Use one file.\nWrote it."));
    // A preview shows the same.
    let shown = build(&sealed, &["--dry-run"]).expect_code(0).stdout;
    assert_all_in(&shown, &["Last commits, newest first:", "a The a (done)"]);
}

#[test]
fn a_review_gets_the_small_files_of_a_large_change() {
    let table = "i=0; while [ $i -lt 9000 ]; do echo \"row $i\"; i=$((i+1)); done > aaa.csv";
    let calls = json!([
        approves(),
        { "do": [
            { "run": { "command": format!("{table}; cp aaa.csv Cargo.lock") } },
            { "write": { "path": "lib/core.py", "text": "def x(): pass\n" } },
            { "write": { "path": "Makefile", "text": "test:\n\t-true\n" } },
            handoff("Did it.")
        ] }
    ]);
    let sealed = project(&[task("a", &[])], &calls, &json!({}));
    build(&sealed, &[]).expect_code(0);
    let review = &sealed.prompts()[1];
    let (before, _) = review.split_once("## Current task").expect("a task");
    assert_all_in(before, &["This change touches files that define the checks: `Makefile`."]);
    assert_all_in(
        review,
        &["\nCargo.lock | +9000 -0\n", "\nlib/core.py | +1 -0\n", "\n+def x(): pass\n"],
    );
    let (code, lock) = (review.find("+def x()"), review.find("diff --git a/Cargo.lock"));
    assert!(code < lock && lock.is_some(), "{review}");
    assert!(review.chars().count() < 20_000, "{}", review.chars().count());
    assert_eq!(review.matches("more characters of this file]").count(), 2, "{review}");
}

#[test]
fn advice_reaches_the_next_task_and_claims_of_failed_work_do_not() {
    let says = |summary: &str, constraint: &str, advice: &str| {
        json!({ "handoff": {
            "task_completed": { "summary": summary, "fully_complete": true },
            "constraints_discovered": [{ "constraint": constraint, "impact": "x" }],
            "bugs_encountered": [{ "description": "Bug of it", "resolution": "", "resolved": false }],
            "recommendations": [advice]
        } })
    };
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "write": { "path": "wrong", "text": "" } }, says("Guessed.", "Redis only", "Ask first")
        ] },
        { "do": [
            { "run": { "command": "rm -f wrong; echo > $RALPH_TASK.txt" } },
            says("Did it.", "Old git", "Use a cache")
        ] }
    ]);
    let with = settings(json!({ "guardrails": [{ "command": "test ! -e wrong" }] }));
    let sealed = project(&[task("a", &[]), task("b", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert_all_in(&prompts[1], &["also wrote (not checked):\n- Advice: Ask first\n"]);
    assert!(!prompts[1].contains("Redis only") && !prompts[1].contains("Bug of it"));
    assert_all_in(&prompts[2], &["Constraints:\n- Old git: x\n", "Advice:\n- Use a cache\n"]);
    assert!(!prompts[2].contains("Redis only") && !prompts[2].contains("Ask first"));
}

#[test]
fn a_blocked_attempt_is_asked_to_look_again() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [{ "handoff": {
            "task_completed": { "summary": "Cannot.", "fully_complete": false },
            "blocked": { "needs": "a color", "why": "none is named" }
        } }] },
        writes("a.txt")
    ]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    let again = &sealed.prompts()[1];
    assert_all_in(again, &["is the answer in the requirements, the code or the history?"]);
    assert!(!again.contains("work around") && !again.contains("way around"), "{again}");
}

#[test]
fn a_commit_message_is_asked_for_with_the_change() {
    let further = json!({ "scm": { "command": "git", "tasks": ["commit"] } });
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "text": "<response>Add a</response>" }] },
        worker()[0]
    ]);
    let sealed = project(&[task("a", &[])], &calls, &settings(further));
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    let asked = prompts.iter().find(|it| it.starts_with("Provide a short imperative commit message for the changes. Output only the message, no explanation.\n"));
    let asked = asked.expect("a question for the message");
    assert_all_in(
        asked,
        &["Do not edit files", "The task was: The a\n", "\na.txt | +1 -0\n1 file, +1 -0"],
    );
    assert!(asked.chars().count() < 1_000, "{asked}");
}

#[test]
fn a_task_names_what_it_depends_on_and_what_was_decided_there() {
    let decides = |note: &str| {
        json!({ "handoff": {
            "task_completed": { "summary": "Did it.", "fully_complete": true },
            "architectural_notes": [note]
        } })
    };
    let write = json!({ "run": { "command": "echo > $RALPH_TASK.txt" } });
    let calls = json!([
        { "repeat": 1, "do": [write, decides("Dates are in UTC")] },
        { "do": [write, decides("Another thing")] }
    ]);
    let tasks = [task("a", &[]), task("b", &[]), task("c", &["a"])];
    let sealed = project(&tasks, &calls, &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    let depends = "\n\nDepends on:\n- a The a (done)\n  - decided: Dates are in UTC\n";
    assert!(prompts[2].contains(depends), "{}", prompts[2]);
    assert!(!prompts[1].contains("Depends on"), "{}", prompts[1]);
}

#[test]
fn a_check_that_ran_no_test_before_the_run_is_explained_until_it_passes() {
    let command = "test -e a.txt && echo '1 passed in 0.1s' || echo 'running 0 tests'";
    let calls = json!([
        { "when": { "role": "review" }, "repeat": 1, "do": [{ "verdict": {
            "verdict": "changes_requested", "feedback": "a.txt:1 is empty.", "criteria": []
        } }] },
        { "when": { "role": "review" }, "do": [{ "verdict": { "verdict": "approved",
            "feedback": "",
            "criteria": [{ "criterion": "a is there", "met": true, "evidence": "a.txt" }]
        } }] },
        { "do": [{ "append": { "path": "a.txt", "text": "x\n" } }, handoff("Did it.")] }
    ]);
    let with = json!({ "gates": [{ "kind": "test", "command": command }] });
    let sealed = project(&[task("a", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    let reason = "no test ran: `running 0 tests`, which does not count as passed";
    assert!(prompts[0].contains(reason), "{}", prompts[0]);
    for prompt in &prompts[1..] {
        assert!(!prompt.contains("Broken before"), "{prompt}");
    }
}
