//! What becomes of an agent's own statements: work that it calls incomplete, a fix that disputes
//! a review, and what landed work leaves open.

use serde_json::{Value, json};

use super::{assert_statuses, build, handoff, list, made, project, settings, task, writes};

/// A handoff that says that the task is not complete.
fn incomplete() -> Value {
    json!({ "handoff": {
        "task_completed": { "summary": "Half of it.", "fully_complete": false },
        "unfinished_business": [
            { "item": "the second half", "reason": "no time", "priority": "high" }
        ]
    } })
}

/// A call that writes a file and ends with a handoff.
fn ends_with(handoff: &Value, repeat: Value) -> Value {
    let write = json!({ "run": { "command": "echo \"$RALPH_ITERATION\" >> a.txt" } });
    let mut call = json!({ "do": [write, handoff] });
    if !repeat.is_null() {
        call["repeat"] = repeat;
    }
    call
}

#[test]
fn work_that_its_agent_calls_incomplete_is_a_failed_attempt() {
    let calls = json!([ends_with(&incomplete(), json!(1)), writes("a.txt")]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    let end = build(&sealed, &[]).expect_code(0);
    let reason = "the agent says it is not complete: the second half (no time)";
    let line = "Task a: attempt failed, the agent says it is not complete: the second half";
    assert!(end.stderr.contains(line), "{}", end.stderr);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 2);
    assert!(prompts[1].contains(reason), "{}", prompts[1]);
    assert_eq!(made(&sealed), ["ralph[2]: a — The a"]);
    assert_statuses(&sealed, &[("a", "done")]);
}

#[test]
fn a_task_that_is_never_complete_is_given_up() {
    let calls = json!([ends_with(&incomplete(), Value::Null)]);
    let with = settings(json!({ "tasks": { "maxAttempts": 2 } }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    let end = build(&sealed, &[]).expect_code(1);
    assert!(end.stderr.contains("Task a failed: none of 2 attempts passed"), "{}", end.stderr);
    assert_statuses(&sealed, &[("a", "failed")]);
    assert!(made(&sealed).is_empty(), "{:?}", made(&sealed));
}

#[test]
fn prose_is_not_a_statement_that_work_is_left() {
    let write = json!({ "write": { "path": "a.txt", "text": "1" } });
    let calls = json!([{ "do": [write, { "text": "Wrote it; docs are left." }] }]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
}

/// An agent whose first review wants changes, and whose fixes change nothing.
fn disputed(fix: &Value, reviews: &[Value]) -> Value {
    let mut calls: Vec<Value> = reviews
        .iter()
        .map(|review| json!({ "when": { "role": "review" }, "repeat": 1, "do": [review] }))
        .collect();
    calls.push(json!({ "when": { "role": "fix" }, "do": [fix] }));
    calls.push(writes("a.txt"));
    Value::Array(calls)
}

fn wants(feedback: &str) -> Value {
    json!({ "verdict": { "verdict": "changes_requested", "feedback": feedback, "criteria": [] } })
}

fn approves() -> Value {
    json!({ "verdict": { "verdict": "approved", "feedback": "", "criteria": [] } })
}

#[test]
fn a_fix_that_disputes_the_review_goes_to_the_next_review() {
    let fix = handoff("Line 1 ends with a newline already. `od -c a.txt` shows it.");
    let calls = disputed(&fix, &[wants("Add a newline."), approves()]);
    let sealed = project(&[task("a", &[])], &calls, &json!({}));
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 4, "implement, review, fix, review");
    let author = "## What the author says\nNothing was changed. The author says about the points of the earlier review: \
        Line 1 ends with a newline already. `od -c a.txt` shows it.\n";
    assert!(prompts[3].contains(author), "{}", prompts[3]);
    assert!(prompts[3].contains("Add a newline."), "{}", prompts[3]);
    assert!(prompts[3].contains("+++ b/a.txt"), "the whole change is shown: {}", prompts[3]);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(list(&sealed)["tasks"][0]["review_count"], 2);
}

#[test]
fn a_dispute_is_bounded_by_the_reviews() {
    let reviews: Vec<Value> = (0..9).map(|_| wants("Add a newline.")).collect();
    let calls = disputed(&handoff("It is there."), &reviews);
    let sealed = project(&[task("a", &[])], &calls, &json!({}));
    let end = build(&sealed, &["--review-cap", "3"]).expect_code(1);
    assert!(end.stderr.contains("approved at the cap"), "{}", end.stderr);
    assert_eq!(sealed.prompts().len(), 6, "three reviews");
}

#[test]
fn a_fix_that_changes_nothing_and_answers_in_prose_is_a_failed_attempt() {
    let calls = disputed(&json!({ "text": "Fine as it is." }), &[wants("Add a newline.")]);
    let with = json!({ "tasks": { "maxAttempts": 2 } });
    let sealed = project(&[task("a", &[])], &calls, &with);
    let end = build(&sealed, &[]).expect_code(1);
    assert!(end.stderr.contains("attempt failed, nothing was changed"), "{}", end.stderr);
    assert_statuses(&sealed, &[("a", "failed")]);
}

#[test]
fn what_landed_work_leaves_open_is_reported() {
    let leaves = json!({ "handoff": {
        "task_completed": { "summary": "Did a.", "fully_complete": true },
        "unfinished_business": [{ "item": "the manual", "reason": "not asked", "priority": "low" }],
        "bugs_encountered": [
            { "description": "the clock drifts", "resolution": "", "resolved": false },
            { "description": "a typo", "resolution": "fixed", "resolved": true }
        ],
        "recommendations": ["use a cache"]
    } });
    // The first attempt fails at the gate, so what it says does not count.
    let lost = json!({ "handoff": {
        "task_completed": { "summary": "Did a.", "fully_complete": true },
        "recommendations": ["rewrite it all"]
    } });
    let wrong = json!({ "repeat": 1, "do": [
        { "write": { "path": "a.txt", "text": "wrong" } }, lost
    ] });
    let calls =
        json!([wrong, { "do": [{ "write": { "path": "a.txt", "text": "right" } }, leaves] }]);
    let gate = json!([{ "name": "tests", "kind": "test", "command": "! grep wrong a.txt" }]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({ "gates": gate })));
    let end = build(&sealed, &[]).expect_code(0);
    let status = sealed.run_ralph(&["status"]).stdout;
    let report = sealed.run_ralph(&["report"]).stdout;
    let html = sealed.run_ralph(&["report", "--html", "-"]).stdout;
    let json = sealed.run_ralph(&["report", "--json"]).stdout;
    for (name, text) in
        [("screen", &end.stderr), ("status", &status), ("report", &report), ("html", &html)]
    {
        assert!(text.to_lowercase().contains("left open"), "{name}: {text}");
        // A recommendation is no open work.
        let (open, advice) = text.split_once("ecommendations").expect("two parts");
        assert!(!open.contains("use a cache") && advice.contains("use a cache"), "{name}: {text}");
        for entry in ["the manual", "the clock drifts", "use a cache"] {
            assert!(text.contains(entry), "{name} lacks {entry}: {text}");
        }
        for entry in ["a typo", "rewrite it all"] {
            assert!(!text.contains(entry), "{name} has {entry}: {text}");
        }
    }
    let facts: Value = serde_json::from_str(&json).expect("JSON");
    let left = &facts["leftOpen"][0]["left"];
    assert_eq!(left["unfinished"], json!(["the manual (low): not asked"]), "{json}");
    assert_eq!(left["bugs"], json!(["the clock drifts"]));
    assert_eq!(left["recommendations"], json!(["use a cache"]));
}

#[test]
fn tasks_that_agents_add_are_counted_apart() {
    let adds = json!({ "handoff": {
        "task_completed": { "summary": "Did a.", "fully_complete": true },
        "plan_amendments": [{ "action": "add", "reason": "needed", "task": {
            "id": "n", "title": "New", "description": "Make n.", "acceptance_criteria": ["n"]
        } }]
    } });
    let calls = json!([
        { "when": { "task": "a" }, "do": [{ "write": { "path": "a.txt", "text": "1" } }, adds] },
        writes("$RALPH_TASK.txt")
    ]);
    let sealed = project(&[task("a", &[]), task("b", &[])], &calls, &settings(json!({})));
    let end = build(&sealed, &[]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("n", "done")]);
    assert!(end.stderr.contains("tasks: 2 of 2 done, 1 added\n"), "{}", end.stderr);
    let status = sealed.run_ralph(&["status"]).stdout;
    assert!(status.contains("Tasks      2 of 2 done, 1 added\n"), "{status}");
    let report = sealed.run_ralph(&["report"]).stdout;
    assert!(report.contains("## Completed: 2/2 tasks\n\n1 added.\n"), "{report}");
    let json: Value =
        serde_json::from_str(&sealed.run_ralph(&["report", "--json"]).stdout).expect("JSON");
    let progress = &json["progress"];
    assert_eq!(
        (&progress["done"], &progress["total"], &progress["added"]),
        (&json!(2), &json!(2), &json!(1))
    );
}
