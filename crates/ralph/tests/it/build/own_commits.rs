//! A user who commits, or checks something else out, while a run is stopped with work that has not
//! landed: those changes are never attributed to the agent.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Sealed, merge_into, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{assert_clean, assert_statuses, commit_all, handoff, plan, settings, task};
use crate::repository;
use crate::sandbox::backends;

/// How the run was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Interrupted,
    Killed,
}

/// A run that was cut off when its agent had done half of its work.
pub(super) fn cut_off(sealed: Sealed, cut: Cut, tasks: &[&str], further: Value) -> Sealed {
    let work = "echo half > $RALPH_TASK.txt; test -e waits || { touch waits; sleep 60; }; echo whole > $RALPH_TASK.txt";
    let calls = json!([{ "do": [{ "run": { "command": work } }, handoff("Wrote it.")] }]);
    let mut all = settings(json!({ "baseline": "off" }));
    merge_into(&mut all, &further);
    sealed.write_script(&calls, &all);
    sealed.write_file(".gitignore", "/waits\n");
    let tasks: Vec<Value> = tasks.iter().map(|id| task(id, &[])).collect();
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&tasks)));
    commit_all(&sealed);
    let mut running = sealed.start_ralph(&["build"]);
    wait_until("the agent is at work", || sealed.project_dir().join("waits").exists());
    match cut {
        Cut::Interrupted => {
            running.send_signal(Signal::INT);
            running.wait_for("shutting down");
            running.send_signal(Signal::INT);
        }
        Cut::Killed => running.send_signal(Signal::KILL),
    }
    running.wait_for_end();
    wait_until("no process is left", || sealed.survivors().is_empty());
    assert_eq!(sealed.read_file("a.txt"), "half\n");
    an_hour_ago(&sealed);
    sealed
}

fn commit_own(sealed: &Sealed) {
    sealed.write_file("mine.txt", "mine\n");
    sealed.run_git(&["add", "mine.txt"]);
    sealed.run_git(&["commit", "-qm", "My own", "--", "mine.txt"]);
}

/// Makes the run an hour old.
fn an_hour_ago(sealed: &Sealed) {
    let run = sealed.runs().pop().expect("a run");
    let then = SystemTime::now() - Duration::from_secs(3600);
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    for entry in fs::read_dir(run).expect("a directory").flatten().filter(is_file) {
        File::open(entry.path()).expect("opened").set_modified(then).expect("set");
    }
}

/// Resume is refused twice, without an agent call and without a change.
#[track_caller]
fn assert_refused(sealed: &Sealed) -> Finished {
    let before =
        (sealed.run_git(&["log", "--format=%H %s"]), sealed.run_git(&["status", "--porcelain"]));
    let asked = sealed.prompts().len();
    sealed.run_ralph(&["resume"]).expect_code(2);
    let refused = sealed.run_ralph(&["resume"]).expect_code(2);
    let refused = refused.expect_stderr("was checked out, and now it is");
    assert_eq!(sealed.prompts().len(), asked, "no agent was called");
    let after =
        (sealed.run_git(&["log", "--format=%H %s"]), sealed.run_git(&["status", "--porcelain"]));
    assert_eq!(after, before);
    refused
}

/// Runs the command of the hint that begins like this.
fn follow(sealed: &Sealed, refused: &Finished, command: &str) {
    let words = refused.stderr.split('`').find(|it| it.starts_with(command));
    let words: Vec<&str> = words.expect("a remedy").split_whitespace().skip(1).collect();
    sealed.run_git(&words);
}

#[test]
fn user_commit_is_not_undone() {
    let scenes = [
        (Cut::Interrupted, false),
        (Cut::Killed, true),
        (Cut::Killed, false),
        (Cut::Interrupted, true),
    ];
    let has_walls = !backends().is_empty();
    let scenes = scenes.into_iter().take(effort::choose_count(4, 2));
    for (cut, walls) in scenes.filter(|(_, walls)| has_walls || !walls) {
        let sealed = if walls { repository().with_sandbox() } else { repository() };
        let sealed = cut_off(sealed, cut, &["a"], json!({}));
        commit_own(&sealed);
        let refused = assert_refused(&sealed);
        assert_eq!(sealed.subjects()[0], "My own", "{cut:?} {walls}");

        // It is part of the work: it goes through the gates, and is committed with it.
        follow(&sealed, &refused, "git reset --soft");
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.read_file("a.txt"), "whole\n");
        assert_eq!(sealed.subjects().len(), 3, "{:?}", sealed.subjects());
        assert_eq!(sealed.run_git(&["show", "HEAD:mine.txt"]), "mine\n");
        assert_clean(&sealed);
    }
}

/// A task whose first attempt fails in the gate and stays in the work tree.
fn fails_once(further: Value) -> Sealed {
    let sealed = repository();
    let work = "test ! -e a.txt || touch fixed; echo whole > a.txt";
    let calls = json!([{ "do": [{ "run": { "command": work } }, handoff("Wrote it.")] }]);
    let gate = json!([{ "name": "good", "command": "test -e fixed" }]);
    let mut all = settings(json!({ "baseline": "off", "gates": gate }));
    merge_into(&mut all, &further);
    sealed.write_script(&calls, &all);
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    commit_all(&sealed);
    sealed
}

#[test]
fn user_commit_after_the_end_of_a_run_with_unfinished_work_is_not_undone() {
    let sealed = fails_once(json!({}));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    commit_own(&sealed);
    let refused = assert_refused(&sealed);
    let preview = sealed.run_ralph(&["resume", "--dry-run", "-m", "2"]).expect_code(2);
    preview.expect_stderr("was checked out, and now it is");
    follow(&sealed, &refused, "git reset --soft");
    sealed.run_ralph(&["resume", "-m", "2"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.run_git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_clean(&sealed);
}

#[test]
fn user_commit_between_two_attempts_stays() {
    let sealed = fails_once(json!({ "delaySeconds": 3 }));
    let running = sealed.start_ralph(&["build"]);
    let has_failed = || !sealed.find_events("iteration_ended").is_empty();
    wait_until("the first attempt failed", has_failed);
    commit_own(&sealed);
    let end = running.wait_for_end().expect_code(0);
    let end = end.expect_stderr("you committed or switched the branch between two iterations");
    assert!(!end.stderr.contains("the history was restored"), "{}", end.stderr);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.subjects()[1], "My own", "{}", end.stderr);
    assert_eq!(sealed.run_git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_clean(&sealed);
}

#[test]
fn new_run_starts_from_the_users_commit() {
    for cut in [Cut::Interrupted, Cut::Killed] {
        let sealed = cut_off(repository(), cut, &["a"], json!({}));
        // It contains half of the work.
        sealed.commit_all("My own");
        assert_refused(&sealed);
        sealed.run_ralph(&["build", "--include-dirty"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.read_file("a.txt"), "whole\n");
        let subjects = sealed.subjects();
        assert_eq!((subjects.len(), subjects[1].as_str()), (4, "My own"), "{cut:?}: {subjects:?}");
        assert_clean(&sealed);
    }
}

#[test]
fn users_branch_switch_is_kept() {
    for cut in [Cut::Interrupted, Cut::Killed] {
        let sealed = cut_off(repository(), cut, &["a"], json!({}));
        sealed.run_git(&["switch", "-qc", "other"]);
        commit_own(&sealed);
        let refused = assert_refused(&sealed);
        assert_eq!(sealed.run_git(&["branch", "--show-current"]), "other\n", "{cut:?}");
        follow(&sealed, &refused, "git switch main");
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.run_git(&["log", "-1", "--format=%s", "other"]), "My own\n", "{cut:?}");
    }
}

#[test]
fn crash_recovery_remembers_the_author_of_a_commit() {
    let sealed = cut_off(repository(), Cut::Killed, &["a"], json!({}));
    commit_own(&sealed);
    // Records the end of the killed run.
    sealed.run_ralph(&["tasks", "set-status", "a", "pending"]).expect_code(0);
    assert!(!sealed.find_events("run_ended").is_empty());
    assert_refused(&sealed);
}

#[test]
fn commit_after_a_git_failure_is_the_users() {
    let sealed = repository();
    let work = "echo whole > $RALPH_TASK.txt";
    let calls = json!([{ "do": [{ "run": { "command": work } }, handoff("Wrote it.")] }]);
    sealed.write_script(&calls, &settings(json!({})));
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    // What agents and gates do to the objects is undone; a hook runs after that.
    let hook = "#!/bin/sh\ntest -e ../done || ! test -e a.txt || { touch ../done; mv .git/objects ../objects; }\n";
    let path = sealed.project_dir().join(".git/hooks/commit-msg");
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    fs::write(&path, hook).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("set");
    commit_all(&sealed);
    sealed.run_ralph(&["build"]).expect_code(5);
    let objects = sealed.project_dir().join(".git/objects");
    fs::remove_dir_all(&objects).ok();
    fs::rename(sealed.root().join("objects"), objects).expect("moved");
    an_hour_ago(&sealed);
    commit_own(&sealed);
    let refused = assert_refused(&sealed);
    follow(&sealed, &refused, "git reset --soft");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.run_git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_clean(&sealed);
}

#[test]
fn resume_is_refused_while_git_cannot_read_head() {
    let sealed = cut_off(repository(), Cut::Interrupted, &["a"], json!({}));
    let head = sealed.project_dir().join(".git/refs/heads/main");
    let commit = fs::read(&head).expect("readable");
    fs::write(&head, "0123456789012345678901234567890123456789\n").expect("written");
    let asked = sealed.prompts().len();
    sealed.run_ralph(&["resume"]).expect_code(5);
    assert_eq!(sealed.prompts().len(), asked, "no agent was called");
    fs::write(&head, commit).expect("written");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.subjects().len(), 3);
}

#[test]
fn where_ralph_commits_nothing_a_person_commits_at_will() {
    for cut in [Cut::Interrupted, Cut::Killed] {
        let sealed = cut_off(repository(), cut, &["a"], json!({ "commit": "none" }));
        commit_own(&sealed);
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.subjects()[0], "My own", "{cut:?}");
    }
}

#[test]
fn commit_near_the_kill_or_in_the_future_counts_as_the_agents() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let day = 24 * 3600;
    for when in [now.as_secs() - 3600, now.as_secs() + day] {
        let sealed = cut_off(repository(), Cut::Killed, &["a"], json!({}));
        sealed.write_file("sneaked.txt", "in\n");
        sealed.run_git(&["add", "sneaked.txt"]);
        let mut git = sealed.build_command("git");
        git.args(["commit", "-qm", "Sneaked in"])
            .env("GIT_COMMITTER_DATE", format!("@{when} +0000"));
        assert!(git.status().expect("git runs").success());
        let end = sealed.run_ralph(&["resume"]).expect_code(0);
        let reported: Vec<&str> = end.stderr.split_whitespace().collect();
        assert!(reported.join(" ").contains("the history was restored"), "{}", end.stderr);
        assert!(!sealed.subjects().contains(&"Sneaked in".to_owned()));
        assert_statuses(&sealed, &[("a", "done")]);
    }
}

/// A run that was killed while its work was being committed, and a user's commit so soon after it
/// that its author is unclear. Resume has been refused.
fn committed_behind_its_back() -> Sealed {
    let sealed = repository();
    let calls = json!([{ "do": [
        { "run": { "command": "echo whole >> $RALPH_TASK.txt" } }, handoff("Wrote it.")
    ] }]);
    sealed.write_script(&calls, &settings(json!({ "baseline": "off" })));
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    commit_all(&sealed);
    let hook = sealed.project_dir().join(".git/hooks/commit-msg");
    fs::create_dir_all(hook.parent().expect("there")).expect("made");
    // Before there is any work, hooks are only tested.
    let waits = "test -e a.txt || exit 0; test -e ../hooked || { touch ../hooked; sleep 60; }";
    fs::write(&hook, format!("#!/bin/sh\n{waits}\n")).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
    let running = sealed.start_ralph(&["build"]);
    wait_until("the work is being committed", || sealed.root().join("hooked").exists());
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    wait_until("no process is left", || sealed.survivors().is_empty());
    let _ = fs::remove_file(sealed.project_dir().join(".git/index.lock"));
    commit_own(&sealed);

    let refused = sealed.run_ralph(&["resume"]).expect_code(5);
    let reported: Vec<&str> = refused.stderr.split_whitespace().collect();
    assert!(reported.join(" ").contains("HEAD moved before the commit"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--include-dirty"), "{}", refused.stderr);
    assert_own_is_there(&sealed);
    sealed
}

fn assert_own_is_there(sealed: &Sealed) {
    assert_eq!(sealed.run_git(&["log", "-1", "--format=%s"]), "My own\n");
    assert_eq!(sealed.run_git(&["show", "HEAD:mine.txt"]), "mine\n");
}

#[test]
fn user_commit_between_survey_and_commit_is_kept() {
    let sealed = committed_behind_its_back();
    sealed.run_ralph(&["build", "--include-dirty"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.run_git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_eq!(sealed.run_git(&["show", "HEAD:a.txt"]), "whole\nwhole\n");
    assert!(sealed.subjects().contains(&"My own".to_owned()));
}

#[test]
fn run_blocked_by_a_user_commit_waits_for_the_users_decision() {
    let sealed = committed_behind_its_back();
    for _ in 0..2 {
        let refused = sealed.run_ralph(&["resume"]).expect_code(2);
        assert!(refused.stderr.contains("git reset --soft"), "{}", refused.stderr);
        assert_own_is_there(&sealed);
    }
    let asked = sealed.prompts().len();
    sealed.run_git(&["reset", "--quiet", "--soft", "HEAD^"]);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.prompts().len(), asked, "the work was paid for");
    assert_eq!(sealed.run_git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_eq!(sealed.run_git(&["show", "HEAD:a.txt"]), "whole\n");
    assert_clean(&sealed);
}
