//! Reviews by a fresh agent: approval, requested changes, the cap, and reviewers that change
//! files.

use serde_json::{Value, json};

use super::{assert_clean, build, list, made, project, task, writes};

fn verdict(verdict: &str, feedback: &str) -> Value {
    json!({ "verdict": { "verdict": verdict, "feedback": feedback, "criteria": [] } })
}

/// An agent that works, and whose reviews request changes until the task has been reviewed this
/// many times.
fn reviewed(refusals: u32) -> Value {
    let mut calls: Vec<Value> = (0..refusals)
        .map(|number| {
            json!({ "when": { "role": "review" }, "repeat": 1, "do": [
                { "write": { "path": "a.txt", "text": "meddled" } },
                { "write": { "path": "meddled", "text": "meddled" } },
                verdict("changes_requested", &format!("Fix a.txt:{number}."))
            ] })
        })
        .collect();
    calls.push(json!({ "when": { "role": "review" }, "do": [verdict("approved", "")] }));
    calls.push(writes("$RALPH_TASK.txt"));
    Value::Array(calls)
}

#[test]
fn work_is_reviewed_fixed_and_approved() {
    let sealed = project(&[task("a", &[]), task("b", &["a"])], &reviewed(1), &json!({}));
    build(&sealed, &[]).expect_code(0);
    assert_eq!(
        made(&sealed),
        [
            "ralph[1]: a — The a",
            "ralph[2]: review: ask for changes in a — The a",
            "ralph[3]: a — The a (fix 1)",
            "ralph[4]: review: approve a — The a",
            "ralph[5]: b — The b",
            "ralph[6]: review: approve b — The b",
        ]
    );
    for review in ["HEAD", "HEAD~2", "HEAD~4"] {
        assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", review]), "plan.json\n");
    }
    assert!(!sealed.project_dir().join("meddled").exists());
    assert_eq!(sealed.read_file("a.txt"), "3\n");
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("+++ b/a.txt"), "{}", prompts[1]);
    assert!(!prompts[1].contains("b/plan.json"), "{}", prompts[1]);
    assert!(prompts[1].contains(" -- . ':!plan.json'`"), "{}", prompts[1]);
    assert!(prompts[2].contains("## What the review found"), "{}", prompts[2]);
    assert!(prompts[2].contains("Fix a.txt:0."), "{}", prompts[2]);
    assert!(prompts[3].contains("## What the last review wanted\nFix a.txt:0."), "{}", prompts[3]);
    let first = &list(&sealed)["tasks"][0];
    assert_eq!(
        (&first["status"], &first["review_status"], &first["review_count"]),
        (&json!("done"), &json!("approved"), &json!(2))
    );
    assert_clean(&sealed);
}

#[test]
fn last_review_approves_with_a_note() {
    let sealed = project(&[task("a", &[])], &reviewed(9), &json!({}));
    let end = build(&sealed, &["--review-cap", "2"]).expect_code(1);
    let first = &list(&sealed)["tasks"][0];
    assert_eq!(first["status"], "done");
    assert!(end.stderr.contains("Task a: approved at the cap: "), "{}", end.stderr);
    assert!(end.stderr.contains("in a; check it yourself"), "{}", end.stderr);
    // A new run on the finished list has nothing to do, and says nothing about it.
    build(&sealed, &[]).expect_code(0);
    assert_eq!(end.stderr.matches("the review wants changes").count(), 1, "{}", end.stderr);
    assert_eq!(made(&sealed)[3], "ralph[4]: review: approve at the cap a — The a");
    assert_eq!(first["review_feedback"], "[AUTO-APPROVED AT CAP] Fix a.txt:1.");
    assert_eq!(made(&sealed).len(), 4);
    assert_clean(&sealed);
}

#[test]
fn review_can_be_skipped() {
    let sealed = project(&[task("a", &[])], &reviewed(0), &json!({}));
    build(&sealed, &["--skip-review"]).expect_code(0);
    assert_eq!(made(&sealed), ["ralph[1]: a — The a"]);
    assert_eq!(list(&sealed)["tasks"][0].get("review_status"), None);
}

#[test]
fn stories_carry_their_review() {
    let sealed = crate::repository();
    sealed.write_script(&reviewed(1), &json!({}));
    let story = json!({ "project": "p", "userStories": [{
        "id": "US-1", "title": "Page", "description": "A page.", "acceptanceCriteria": ["Opens"],
        "priority": 1, "passes": false, "reviewStatus": null, "reviewCount": 0,
        "reviewFeedback": "", "notes": ""
    }] });
    sealed.write_file("ralph/tasks.json", &format!("{story:#}"));
    super::commit_all(&sealed);
    build(&sealed, &["2"]).expect_code(1);
    let read = || -> Value {
        let list: Value =
            serde_json::from_str(&sealed.read_file("ralph/tasks.json")).expect("JSON");
        list["userStories"][0].clone()
    };
    let story = read();
    assert_eq!(
        (&story["passes"], &story["reviewStatus"]),
        (&json!(false), &json!("changes_requested"))
    );
    assert_eq!(story["reviewFeedback"], "Fix a.txt:0.");
    sealed.run_ralph(&["resume", "-m", "9"]).expect_code(0);
    let story = read();
    assert_eq!((&story["passes"], &story["reviewStatus"]), (&json!(true), &json!("approved")));
    assert_eq!((&story["reviewCount"], &story["reviewFeedback"]), (&json!(2), &json!("")));
    assert_clean(&sealed);
}

#[test]
fn a_review_that_gives_no_verdict_approves_nothing() {
    let calls = json!([
        { "when": { "role": "review" }, "do": [{ "text": "Looks fine to me, approved!" }] },
        writes("a.txt")
    ]);
    let sealed = project(&[task("a", &[])], &calls, &json!({}));
    build(&sealed, &["6"]).expect_code(1);
    assert_ne!(list(&sealed)["tasks"][0]["status"], "done");
}

#[test]
fn reviews_that_do_not_converge_are_shown_as_such() {
    let sealed = project(&[task("a", &[])], &reviewed(9), &json!({}));
    let end = build(&sealed, &["--review-cap", "4"]).expect_code(1);
    let message = "the reviews of a do not converge: 3 reviews in a row ask for the same thing";
    assert!(end.stderr.contains(message), "{}", end.stderr);
    let status = sealed.run_ralph(&["status"]).stdout;
    assert!(status.contains("The reviews of a do not converge: 4 reviews"), "{status}");
    let report = sealed.run_ralph(&["report"]).stdout;
    assert!(report.contains("## Reviews that do not converge"), "{report}");
    let facts = sealed.run_ralph(&["status", "--json"]).stdout;
    let facts: Value = serde_json::from_str(&facts).expect("JSON");
    assert_eq!(facts["diverging"][0]["divergence"]["as"], "same_complaint");
}

#[test]
fn contradictory_review_is_reported() {
    let checks = |verdict: &str, first: bool, second: bool| {
        json!({ "verdict": { "verdict": verdict, "feedback": "", "criteria": [
            { "criterion": "It is there", "met": first, "evidence": "a.txt" },
            { "criterion": "It is short", "met": second, "evidence": "a.txt" }
        ] } })
    };
    let review =
        |action: Value| json!({ "when": { "role": "review" }, "repeat": 1, "do": [action] });
    let calls = json!([
        review(checks("changes_requested", true, false)),
        review(checks("changes_requested", false, true)),
        review(checks("approved", true, true)),
        writes("a.txt")
    ]);
    let mut two = task("a", &[]);
    two["acceptance_criteria"] = json!(["It is there", "It is short"]);
    let sealed = project(&[two], &calls, &json!({}));
    let end = build(&sealed, &[]).expect_code(0);
    let message =
        "the last review calls a criterion unmet that the previous one called met: It is there";
    let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(message), "{shown}");
}

#[test]
fn review_commits_only_gated_work() {
    let tasks = [task("a", &[]), task("b", &["a"])];
    let gate = json!({ "guardrails": [{ "command": "! grep -q wrong by-hand.txt README.md" }] });
    let sealed = project(&tasks, &reviewed(0), &gate);
    build(&sealed, &["-m", "1"]).expect_code(1);
    sealed.write_file("by-hand.txt", "mine\n");
    sealed.write_file("README.md", "# Mine\n");
    sealed.run_git(&["add", "README.md"]);
    sealed.run_ralph(&["resume", "-m", "2", "--include-dirty"]).expect_code(1);
    assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]), "plan.json\n");
    let left = sealed.run_git(&["status", "--porcelain", "--", ":!.ralph"]);
    let mut left: Vec<&str> = left.lines().map(|line| &line[3..]).collect();
    left.sort_unstable();
    assert_eq!(left, ["README.md", "by-hand.txt"]);

    // It is part of the next work, and its gates see it.
    sealed.run_ralph(&["resume", "-m", "4", "--include-dirty"]).expect_code(0);
    let next = sealed.run_git(&["show", "--name-only", "--format=", "HEAD~1"]);
    assert_eq!(next, "README.md\nb.txt\nby-hand.txt\nplan.json\n");
    assert_eq!(sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]), "plan.json\n");
    assert_clean(&sealed);
}
