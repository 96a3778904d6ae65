//! Retrying a failed task: from its failure branch, or afresh.

use serde_json::{Value, json};

use ralph_testkit::sealed::Sealed;

use super::{
    assert_clean, assert_statuses, build, failure_branches, handoff, made, project, settings, task,
};

/// A task that needs two lines, and an agent that adds one per attempt.
fn halfway() -> Sealed {
    fail_once(prepare_halfway())
}

fn prepare_halfway() -> Sealed {
    let calls: Value = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "line\n" } }, handoff("One line.")
    ] }]);
    let with = settings(json!({
        "guardrails": [{ "command": "test $(wc -l < a.txt) -ge 2" }],
        "tasks": { "maxAttempts": 1 }
    }));
    project(&[task("a", &[])], &calls, &with)
}

fn fail_once(sealed: Sealed) -> Sealed {
    let end = build(&sealed, &[]).expect_code(1);
    let reported = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!reported.contains("not committed"), "{}", end.stderr);
    assert_eq!(failure_branches(&sealed).len(), 1);
    assert_statuses(&sealed, &[("a", "failed")]);
    sealed
}

#[test]
fn failure_branch_work_can_be_continued() {
    let sealed = halfway();
    build(&sealed, &["--task", "a", "--from-shelf"]).expect_code(0);
    assert_eq!(sealed.read_file("a.txt"), "line\nline\n");
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(made(&sealed), ["ralph[1]: a — The a"]);
    let files = sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]);
    assert_eq!(files, "a.txt\nplan.json\n");
    let branches = failure_branches(&sealed);
    assert!(branches.len() == 1 && branches[0].starts_with("wip/archive/"), "{branches:?}");
    assert_clean(&sealed);
}

/// There git's configuration is read-only, and renaming a branch writes it.
#[test]
fn a_failed_task_is_tried_again_in_the_sandbox() {
    for words in [&["--from-shelf"][..], &["--fresh", "2"], &["2"]] {
        let sealed = fail_once(prepare_halfway().with_sandbox());
        build(&sealed, &[&["--task", "a"], words].concat()).expect_code(0);
        assert_eq!(sealed.read_file("a.txt"), "line\nline\n", "{words:?}");
        assert_statuses(&sealed, &[("a", "done")]);
        let branches = failure_branches(&sealed);
        assert!(branches.len() == 1 && branches[0].starts_with("wip/archive/"), "{branches:?}");
        assert_clean(&sealed);
    }
}

#[test]
fn uncommitted_work_after_an_iteration_limit_names_the_resume_command() {
    let sealed = prepare_halfway();
    sealed.write_file(".ralph/settings.local.json", r#"{"tasks": {"maxAttempts": 4}}"#);
    let end = build(&sealed, &["1"]).expect_code(1);
    assert!(sealed.project_dir().join("a.txt").exists(), "{}", end.stderr);
    let run = sealed.runs().pop().expect("a run");
    let run = run.file_name().and_then(|it| it.to_str()).expect("an id").to_owned();
    let refused = build(&sealed, &[]).expect_code(2);
    let reported = refused.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(reported.contains(&format!("`ralph resume {run} -m 2` continues")), "{reported}");
    sealed.run_ralph(&["resume", &run, "-m", "2"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
}

/// An earlier attempt left its files in the work tree; the failure branch has them in the end.
#[test]
fn files_of_a_failure_branch_are_no_changes_of_the_run() {
    let calls: Value = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "line\n" } }, handoff("One line.")
    ] }]);
    let with = settings(json!({
        "guardrails": [{ "command": "false" }], "baseline": "off", "tasks": { "maxAttempts": 2 }
    }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    let end = build(&sealed, &[]).expect_code(1);
    let reported = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!reported.contains("changed:"), "{}", end.stderr);
    assert!(!sealed.project_dir().join("a.txt").exists());
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(!report.contains("## Changed files"), "{report}");
    assert!(report.contains("wip/ralph-fail-"), "{report}");
}

#[test]
fn a_fresh_start_archives_the_former_work() {
    let sealed = halfway();
    build(&sealed, &["--task", "a", "--fresh"]).expect_code(1).expect_stderr("wip/archive/");
    let branches = failure_branches(&sealed);
    assert_eq!(branches.len(), 2, "{branches:?}");
    assert!(branches.iter().any(|branch| branch.starts_with("wip/archive/ralph-fail-a-")));
    assert!(!sealed.project_dir().join("a.txt").exists());
    let branch = branches.iter().find(|it| it.starts_with("wip/ralph-")).expect("a failure branch");
    assert_eq!(sealed.run_git(&["show", &format!("{branch}:a.txt")]), "line\n");
}

#[test]
fn without_a_terminal_a_task_starts_afresh() {
    let sealed = halfway();
    build(&sealed, &["--task", "a", "2"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_clean(&sealed);
}

/// A task whose check needs a file that only the user adds, and an agent that does its part
/// once. The first run gives the task up.
fn complete() -> Sealed {
    let once = "test -e a.txt || echo done > a.txt";
    let calls = json!([{ "do": [{ "run": { "command": once } }, handoff("Done.")] }]);
    let with = settings(json!({
        "guardrails": [{ "command": "test -e ready" }], "tasks": { "maxAttempts": 1 }
    }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(1);
    sealed
}

#[test]
fn complete_work_of_a_failure_branch_lands_without_further_changes() {
    for is_recorded in [true, false] {
        let sealed = complete();
        sealed.write_file("ready", "");
        sealed.commit_all("Ready");
        if !is_recorded {
            // Without the record of the first run, the work is all that is left of it.
            std::fs::remove_dir_all(sealed.state_dir()).expect("removed");
        }
        let end = build(&sealed, &["--task", "a", "--from-shelf"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        let prompt = sealed.prompts().pop().expect("a prompt");
        assert!(prompt.contains("Their changes are still in the work tree"), "{prompt}");
        let files = sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]);
        assert_eq!(files, "a.txt\nplan.json\n", "{}", end.stderr);
        assert_clean(&sealed);
    }
}

#[test]
fn work_that_conflicts_with_later_work_is_given_to_the_agent_with_markers() {
    let sealed = complete();
    sealed.write_file("a.txt", "later\n");
    sealed.write_file("ready", "");
    sealed.commit_all("Later");
    let calls = json!([
        { "when": { "promptContains": "Conflict markers" },
          "do": [{ "write": { "path": "a.txt", "text": "later\ndone\n" } }, handoff("Resolved.")] },
        { "do": [handoff("Done.")] }
    ]);
    let with = settings(json!({
        "guardrails": [{ "command": "test -e ready" }], "tasks": { "maxAttempts": 3 }
    }));
    sealed.write_script(&calls, &with);
    sealed.commit_all("Agent");
    let end = build(&sealed, &["--task", "a", "--from-shelf"]).expect_code(0);
    assert!(end.stderr.contains("conflicts with later work in a.txt"), "{}", end.stderr);
    let prompts = sealed.prompts();
    let first = &prompts[prompts.len() - 2];
    assert!(
        first.contains("These files have conflict markers") && first.contains("`a.txt`"),
        "{first}"
    );
    assert!(first.contains("merged with what has landed since"), "{first}");
    assert_eq!(sealed.run_git(&["show", "HEAD:a.txt"]), "later\ndone\n");
    assert_statuses(&sealed, &[("a", "done")]);
    assert_clean(&sealed);
}

#[test]
fn continued_work_that_fails_again_is_on_the_branch_that_the_end_names() {
    let sealed = complete();
    let end = build(&sealed, &["--task", "a", "--from-shelf"]).expect_code(1);
    assert_statuses(&sealed, &[("a", "failed")]);
    let branches = failure_branches(&sealed);
    let branch = branches.iter().find(|it| it.starts_with("wip/ralph-")).expect("a failure branch");
    assert_eq!(sealed.run_git(&["show", &format!("{branch}:a.txt")]), "done\n");
    assert!(end.stderr.contains(branch.as_str()), "{}", end.stderr);
    assert!(!sealed.project_dir().join("a.txt").exists(), "the tree is where the task began");
}

/// Fails a task in a project that pushes, and returns the project and its remote.
fn fail_with_push(has_remote: bool) -> (Sealed, std::path::PathBuf) {
    let calls: Value = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "line\n" } }, handoff("One line.")
    ] }]);
    let with = settings(json!({
        "guardrails": [{ "command": "false" }],
        "tasks": { "maxAttempts": 1 },
        "baseline": "off",
        "scm": { "command": "git", "tasks": ["commit", "push -q origin HEAD"] },
    }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    let remote = sealed.root().join("remote.git");
    let path = remote.to_string_lossy().into_owned();
    sealed.run_git(&["init", "--bare", "--quiet", &path]);
    if has_remote {
        sealed.run_git(&["remote", "add", "origin", &path]);
    }
    sealed.trust_project(&[]);
    (sealed, remote)
}

#[test]
fn failure_branches_are_pushed_where_work_is_pushed() {
    let (sealed, remote) = fail_with_push(true);
    build(&sealed, &[]).expect_code(1);
    let branches = failure_branches(&sealed);
    let remote = remote.to_string_lossy();
    let pushed = sealed.run_git(&["--git-dir", &remote, "branch", "--format=%(refname:short)"]);
    assert_eq!(pushed.trim(), branches[0], "{pushed}");
}

#[test]
fn a_failure_branch_that_cannot_be_pushed_is_a_warning() {
    let (sealed, _) = fail_with_push(false);
    let end = build(&sealed, &[]).expect_code(1);
    assert!(end.stderr.contains("⚠ `git push origin wip/ralph-fail-a-"), "{}", end.stderr);
    assert_eq!(failure_branches(&sealed).len(), 1);
    assert_statuses(&sealed, &[("a", "failed")]);
}

#[test]
fn the_report_on_a_branch_names_the_files_of_an_agent_that_was_ended() {
    let calls = json!([{ "do": [
        { "write": { "path": "a.txt", "text": "half\n" } }, { "run": { "command": "sleep 60" } }
    ] }]);
    let with = settings(json!({
        "timeouts": { "implement": { "soft": "1s", "hard": "2s" } }, "tasks": { "maxAttempts": 1 }
    }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(1);
    let branch = failure_branches(&sealed).pop().expect("a branch");
    let report = sealed.run_git(&["show", &format!("{branch}:ralph-failure.md")]);
    assert!(report.contains("files_modified:\n  - a.txt\n"), "{report}");
    let message = sealed.run_git(&["log", "-1", "--format=%B", &branch]);
    assert!(message.contains("ralph-failure.md has the last attempts"), "{message}");
}
