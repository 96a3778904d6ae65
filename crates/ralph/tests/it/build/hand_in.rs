//! Handing in work if the agent owns the list: after edits that were reverted, and with more new
//! tasks than an iteration may add.

use serde_json::{Value, json};

use super::keeper::{APPROVE, DONE, IMPLEMENT};
use super::keeper::{assert_standing, does, once, project, standing, story};
use super::{assert_clean, build, failure_branches};

#[test]
fn work_of_an_earlier_attempt_is_handed_in_without_a_further_change() {
    let ticks = "echo 1 > a.txt; set_in US-1 passes true; set_in US-1 notes '\"Done\"'; \
        git add -A; git commit -qm 'feat: [US-1] - all done'";
    let hands_in = "set_in US-1 reviewStatus '\"needs_review\"'; git commit -qam 'feat: hand in'";
    let calls = json!([
        once(does("implement", ticks)),
        does("implement", hands_in),
        does("review", APPROVE),
    ]);
    let sealed = project(&["US-1"], &calls, json!({}));
    build(&sealed, &[]).expect_code(0);
    assert_standing(&sealed, &DONE);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 3, "two attempts and a review");
    for message in [
        "have been reverted already; leave these fields as they are now:\n- Story `US-1`: `passes` went from false to true",
        "do not redo it",
        "set `reviewStatus` to \"needs_review\" for `US-1`",
    ] {
        assert!(prompts[1].contains(message), "{message}: {}", prompts[1]);
    }
    assert!(!prompts[1].contains("Set it back"), "{}", prompts[1]);
    assert!(prompts[2].contains("a.txt"), "the reviewer sees all of the work: {}", prompts[2]);
    assert!(prompts[2].contains("not facts. Verify them.\nDid it.\n"), "{}", prompts[2]);
    assert!(!prompts[2].contains("Partial"), "{}", prompts[2]);
    let facts: Value =
        serde_json::from_str(&sealed.run_ralph(&["status", "--json"]).stdout).expect("JSON");
    assert_eq!(facts["totals"]["commits"], 4, "each commit counts once");
    assert_clean(&sealed);
}

#[test]
fn a_fix_that_disputes_the_review_is_handed_in_through_the_list() {
    let asks = "set_in US-1 reviewStatus '\"changes_requested\"'; set_in US-1 reviewCount 1; \
        set_in US-1 reviewFeedback '\"Fix the file\"'; git commit -qam 'review: changes'";
    let disputes = "set_in US-1 reviewStatus '\"needs_review\"'; \
        set_in US-1 reviewFeedback '\"\"'; git commit -qam 'fix: nothing to fix'";
    let mut fix = does("fix", disputes);
    fix["do"][1] = json!({ "text": "The file is right: `cat` shows the iteration." });
    let calls = json!([
        does("implement", IMPLEMENT),
        once(does("review", asks)),
        fix,
        does("review", APPROVE),
    ]);
    let sealed = project(&["US-1"], &calls, json!({}));
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 4, "implement, review, fix, review");
    let author = "Nothing was changed. The author says about the points of the earlier review: The file is right: `cat`";
    assert!(prompts[3].contains(author), "{}", prompts[3]);
}

#[test]
fn work_that_is_never_handed_in_is_moved_to_a_failure_branch_whole() {
    let ticks = "echo \"$RALPH_ITERATION\" > a.txt; set_in US-1 passes true; \
        git add -A; git commit -qm 'feat: [US-1] - all done'";
    let with = json!({ "tasks": { "keeper": "agent", "maxAttempts": 2 } });
    let sealed = project(&["US-1"], &json!([does("implement", ticks)]), with);
    build(&sealed, &[]).expect_code(1);
    assert!(!sealed.project_dir().join("a.txt").exists(), "nothing of it stays on the branch");
    let branch = failure_branches(&sealed).pop().expect("a failure branch");
    assert_eq!(sealed.run_git(&["show", &format!("{branch}:a.txt")]), "2\n");
}

#[test]
fn tasks_beyond_the_limit_are_shown_logged_and_kept_as_proposals() {
    let adds = "cp ../more.json ralph/tasks.json; ";
    let calls = json!([once(does("implement", &format!("{adds}{IMPLEMENT}")))]);
    let with = json!({ "tasks": { "keeper": "agent", "maxAmendments": 1 } });
    let sealed = project(&["US-1"], &calls, with);
    let mut more: Value =
        serde_json::from_str(&sealed.read_file("ralph/tasks.json")).expect("JSON");
    more["userStories"] = ["US-1", "N-1", "N-2", "N-3"].map(story).into();
    std::fs::write(sealed.root().join("more.json"), format!("{more:#}\n")).expect("written");
    let ran = build(&sealed, &["-m", "1"]).expect_code(1);
    let ids: Vec<String> = standing(&sealed).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(ran.stderr.contains("for you to decide: add N-"), "{}", ran.stderr);
    let log = sealed.read_file(".ralph/logs/amendments.log");
    assert_eq!(log.lines().count(), 3, "{log}");
    assert_eq!(log.matches("proposed as P-").count(), 2, "{log}");
    let proposals = sealed.run_ralph(&["tasks", "proposals"]).stdout;
    assert_eq!(proposals.matches("reason (iteration 1)").count(), 2, "{proposals}");
}

#[test]
fn tracked_runtime_files_do_not_block_a_hand_in() {
    let sealed = crate::repository();
    let commit = "echo x > a.txt; git add a.txt; git commit -qm A";
    sealed.write_script(
        &json!([{ "do": [{ "run": { "command": commit } }, { "claim": "DONE" }] }]),
        &json!({ "commit": "agent" }),
    );
    sealed.write_file(".ralph/logs/ralph.log", "an old log\n");
    sealed.run_git(&["add", "--force", ".ralph/logs/ralph.log"]);
    sealed.commit_all("Settings and a log");
    let end = crate::run(&sealed, &["-m", "1"]).expect_code(0);
    assert!(!end.stderr.contains("uncommitted"), "{}", end.stderr);
}
