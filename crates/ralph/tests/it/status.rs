//! `ralph status` with a plan that the agent maintains: progress, next item, last commits.

use std::fs;

use expect_test::{Expect, expect};
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::{always, done, repository, run, sealed};

const PLAN: &str = ".ralph/implementation_plan.md";

const ITEMS: &str = "# Plan\n\n- [x] Read the header\n- [ ] Read the body (specs/body.md)\n\n\
                     ```md\n- [ ] an example\n```\n1. [ ] Tell where a mistake is\n";

fn status(sealed: &Sealed) -> String {
    sealed.run_ralph(&["status"]).expect_code(0).stdout
}

fn facts(sealed: &Sealed) -> Value {
    let text = sealed.run_ralph(&["status", "--json"]).expect_code(0).stdout;
    serde_json::from_str(&text).expect("JSON")
}

/// Compares the status, with commit ids normalized.
#[track_caller]
fn check(sealed: &Sealed, expect: &Expect) {
    let mut shown = status(sealed);
    for id in sealed.run_git(&["log", "--format=%H"]).lines() {
        shown = shown.replace(&id[..9], "COMMIT");
    }
    expect.assert_eq(&shown);
}

/// Returns a repository whose first commit is new.
fn new_repository() -> Sealed {
    let sealed = repository();
    sealed.run_git(&["commit", "--quiet", "--amend", "--no-edit", "--reset-author"]);
    sealed
}

#[test]
fn a_plan_is_shown_before_the_first_run() {
    let sealed = new_repository();
    assert_eq!(status(&sealed), "No run yet in this directory.\n");
    assert_eq!(
        facts(&sealed),
        json!({ "run": null, "plan": null, "lastCommits": null, "proposals": 0 })
    );
    sealed.write_file(PLAN, ITEMS);
    sealed.commit_all("Plan \u{1b}[31mthe\u{1b}[0m parser\n\nIn short.");
    check(
        &sealed,
        &expect![[r"
            No run yet in this directory.

            Plan       1 of 3 items done (.ralph/implementation_plan.md)
              [ ] Read the body (specs/body.md)
              [ ] Tell where a mistake is

            Last commits
              COMMIT  just now  Plan the parser
              COMMIT  just now  Begin
        "]],
    );
    let facts = facts(&sealed);
    assert_eq!(facts["run"], Value::Null);
    assert_eq!(
        facts["plan"],
        json!({
            "file": PLAN,
            "open": 2,
            "done": 1,
            "next": ["Read the body (specs/body.md)", "Tell where a mistake is"],
            "problem": null,
            "person": 0,
            "needsPerson": [],
        })
    );
    let head = sealed.run_git(&["rev-parse", "--short=9", "HEAD"]);
    let at: i64 = sealed.run_git(&["log", "-1", "--format=%ct"]).trim().parse().expect("a number");
    let commit = json!({ "commit": head.trim(), "at": at * 1000, "subject": "Plan the parser" });
    assert_eq!(facts["lastCommits"][0], commit);
}

#[test]
fn plan_is_shown_with_the_last_run() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0);
    assert!(!status(&sealed).contains("Plan"));
    sealed.write_file(PLAN, ITEMS);
    let shown = status(&sealed);
    assert!(shown.starts_with("Run        "), "{shown}");
    assert!(shown.contains("\n\nPlan       1 of 3 items done ("), "{shown}");
    assert!(shown.ends_with("  [ ] Tell where a mistake is\n"), "no repository: {shown}");
    let facts = facts(&sealed);
    assert_eq!((&facts["plan"]["open"], &facts["lastCommits"]), (&json!(2), &json!([])));
    assert_eq!(facts["outcome"]["end"], json!("complete"), "{facts}");
}

#[test]
fn a_run_that_makes_a_plan_shows_it() {
    let sealed = new_repository();
    let actions = json!([
        { "write": { "path": PLAN, "text": ITEMS } },
        { "run": { "command": "git add -A && git commit -qm 'Plan the parser'" } },
        { "claim": "COMPLETE" },
    ]);
    sealed.write_script(&always(actions), &json!({}));
    sealed.write_file("specs/parser.md", "# The parser\n\nIt reads headers and bodies.\n");
    sealed.commit_all("Specify the parser");
    sealed.run_ralph(&["plan"]).expect_code(0);
    let shown = status(&sealed);
    assert!(shown.contains("\n\nPlan       1 of 3 items done ("), "{shown}");
    assert!(shown.contains("  just now  Plan the parser\n"), "{shown}");
    assert!(shown.contains("  just now  Specify the parser\n"), "{shown}");
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("## Completed: yes\n\n1 of 3 items of the plan done.\n"), "{report}");
    fs::remove_file(sealed.project_dir().join(PLAN)).expect("removed");
    let shown = status(&sealed);
    assert!(shown.contains("\n\nPlan       none yet: `ralph plan` makes it\n"), "{shown}");
}

#[test]
fn the_settings_say_whether_a_plan_is_expected() {
    let sealed = sealed();
    sealed.write_file(".ralph/settings.json", r#"{ "workflow": "specs" }"#);
    let missing = "No run yet in this directory.\n\nPlan       none yet: `ralph plan` makes it\n";
    assert_eq!(status(&sealed), missing);
    assert_eq!(facts(&sealed)["plan"], Value::Null);
    sealed.write_file(PLAN, ITEMS);
    assert!(status(&sealed).contains("Plan       1 of 3"));
    sealed.write_file(".ralph/settings.json", r#"{ "workflow": "tasks" }"#);
    assert_eq!(status(&sealed), "No run yet in this directory.\n");
}

#[test]
fn plan_changes_are_reported() {
    let sealed = sealed();
    let place = sealed.project_dir().join(PLAN);
    let plan = || {
        let shown = status(&sealed);
        let (_, plan) = shown.split_once("\n\n").expect("a plan");
        plan.to_owned()
    };
    sealed.write_file(PLAN, " \n");
    assert_eq!(plan(), format!("Plan       {PLAN} is empty: `ralph plan` creates it again\n"));
    sealed.write_file(PLAN, "All is done, believe me.");
    assert_eq!(plan(), format!("Plan       no check boxes in {PLAN}\n"));
    fs::write(&place, b"- [ ] gr\xfc\xdfe\n- [x] b\n").expect("written");
    assert_eq!(
        plan(),
        format!("Plan       1 of 2 items done ({PLAN})\n  [ ] gr\u{fffd}\u{fffd}e\n")
    );
    fs::write(&place, "- [ ] item\n".repeat(600_000)).expect("written");
    let shown = plan();
    assert!(shown.contains(&format!("({PLAN}, its beginning)\n")), "{shown}");
    assert_eq!(shown.lines().count(), 12, "{shown}");
    fs::remove_file(&place).expect("removed");
    fs::create_dir(&place).expect("made");
    assert_eq!(plan(), format!("Plan       {PLAN} cannot be read: it is a directory\n"));
    assert_eq!(facts(&sealed)["plan"]["problem"], json!("it is a directory"));
}

#[test]
fn at_most_five_commits_are_shown_and_none_of_a_fresh_repository() {
    let sealed = sealed();
    sealed.run_git(&["init", "-q"]);
    sealed.write_file(PLAN, "- [x] all\n");
    assert!(!status(&sealed).contains("Last commits"));
    for number in 1..=7 {
        let message = format!("commit {number}");
        sealed.run_git(&["commit", "-q", "--allow-empty", "-m", &message]);
    }
    let shown = status(&sealed);
    let (_, commits) = shown.split_once("Last commits\n").expect("commits");
    assert_eq!(commits.lines().count(), 5, "{shown}");
    assert!(commits.contains("commit 7") && !commits.contains("commit 2"), "{shown}");
}
