//! A person who commits, or checks something else out, while a run stands still with work that has not
//! landed: nobody takes that for the agent's.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use ralph_testkit::sealed::{Finished, Sealed, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{assert_clean, assert_statuses, commit_all, handoff, plan, settings, task};
use crate::repository;
use crate::sandbox::backends;

/// How the run comes to stand still.
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
    if let (Some(all), Some(further)) = (all.as_object_mut(), further.as_object()) {
        all.extend(further.clone());
    }
    sealed.script(&calls, &all);
    sealed.write(".gitignore", "/waits\n");
    let tasks: Vec<Value> = tasks.iter().map(|id| task(id, &[])).collect();
    sealed.write("plan.json", &format!("{:#}\n", plan(&tasks)));
    commit_all(&sealed);
    let mut running = sealed.start(&["build"]);
    wait_until("the agent is at work", || sealed.project().join("waits").exists());
    match cut {
        Cut::Interrupted => {
            running.signal(Signal::INT);
            running.wait_for("shutting down");
            running.signal(Signal::INT);
        }
        Cut::Killed => running.signal(Signal::KILL),
    }
    running.wait();
    wait_until("nobody is left", || sealed.survivors().is_empty());
    assert_eq!(sealed.read("a.txt"), "half\n");
    an_hour_ago(&sealed);
    sealed
}

fn commit_own(sealed: &Sealed) {
    sealed.write("mine.txt", "mine\n");
    sealed.git(&["add", "mine.txt"]);
    sealed.git(&["commit", "-qm", "My own", "--", "mine.txt"]);
}

/// Makes it an hour since the run was last heard of.
fn an_hour_ago(sealed: &Sealed) {
    let run = sealed.runs().pop().expect("a run");
    let then = SystemTime::now() - Duration::from_secs(3600);
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    for entry in fs::read_dir(run).expect("a directory").flatten().filter(is_file) {
        File::open(entry.path()).expect("opened").set_modified(then).expect("set");
    }
}

/// Refuses to go on, twice, without a word to an agent and without a change.
#[track_caller]
fn assert_refused(sealed: &Sealed) -> Finished {
    let before = (sealed.git(&["log", "--format=%H %s"]), sealed.git(&["status", "--porcelain"]));
    let asked = sealed.prompts().len();
    sealed.ralph(&["resume"]).expect_code(2);
    let refused = sealed.ralph(&["resume"]).expect_code(2);
    let refused = refused.expect_stderr("was checked out, and now it is");
    assert_eq!(sealed.prompts().len(), asked, "nobody was asked");
    let after = (sealed.git(&["log", "--format=%H %s"]), sealed.git(&["status", "--porcelain"]));
    assert_eq!(after, before);
    refused
}

/// Does what the hint that begins like this says.
fn follow(sealed: &Sealed, refused: &Finished, command: &str) {
    let words = refused.stderr.split('`').find(|it| it.starts_with(command));
    let words: Vec<&str> = words.expect("a remedy").split_whitespace().skip(1).collect();
    sealed.git(&words);
}

#[test]
fn a_commit_of_a_person_is_not_taken_apart() {
    let scenes = [
        (Cut::Interrupted, false),
        (Cut::Killed, false),
        (Cut::Interrupted, true),
        (Cut::Killed, true),
    ];
    let has_walls = !backends().is_empty();
    for (cut, walls) in scenes.into_iter().filter(|(_, walls)| has_walls || !walls) {
        let sealed = if walls { repository().with_walls() } else { repository() };
        let sealed = cut_off(sealed, cut, &["a"], json!({}));
        commit_own(&sealed);
        let refused = assert_refused(&sealed);
        assert_eq!(sealed.subjects()[0], "My own", "{cut:?} {walls}");

        // As a part of the work it goes through the gates, and is committed with it.
        follow(&sealed, &refused, "git reset --soft");
        sealed.ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.read("a.txt"), "whole\n");
        assert_eq!(sealed.subjects().len(), 3, "{:?}", sealed.subjects());
        assert_eq!(sealed.git(&["show", "HEAD:mine.txt"]), "mine\n");
        assert_clean(&sealed);
    }
}

#[test]
fn a_new_run_begins_where_a_person_has_got_to() {
    for cut in [Cut::Interrupted, Cut::Killed] {
        let sealed = cut_off(repository(), cut, &["a"], json!({}));
        // Half of the work is in it.
        sealed.git(&["add", "-A"]);
        sealed.git(&["commit", "-qm", "My own"]);
        assert_refused(&sealed);
        sealed.ralph(&["build", "--include-dirty"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.read("a.txt"), "whole\n");
        let subjects = sealed.subjects();
        assert_eq!((subjects.len(), subjects[1].as_str()), (4, "My own"), "{cut:?}: {subjects:?}");
        assert_clean(&sealed);
    }
}

#[test]
fn a_person_who_is_on_another_branch_stays_there() {
    for cut in [Cut::Interrupted, Cut::Killed] {
        let sealed = cut_off(repository(), cut, &["a"], json!({}));
        sealed.git(&["switch", "-qc", "other"]);
        commit_own(&sealed);
        let refused = assert_refused(&sealed);
        assert_eq!(sealed.git(&["branch", "--show-current"]), "other\n", "{cut:?}");
        follow(&sealed, &refused, "git switch main");
        sealed.ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.git(&["log", "-1", "--format=%s", "other"]), "My own\n", "{cut:?}");
    }
}

#[test]
fn what_looks_after_a_dead_run_does_not_forget_whose_commit_it_was() {
    let sealed = cut_off(repository(), Cut::Killed, &["a"], json!({}));
    commit_own(&sealed);
    // Writes the end of the dead run down.
    sealed.ralph(&["tasks", "set-status", "a", "pending"]).expect_code(0);
    assert!(!sealed.events_of("run_ended").is_empty());
    assert_refused(&sealed);
}

#[test]
fn a_commit_is_a_persons_where_git_had_failed_to_the_end() {
    let sealed = repository();
    let work = "echo whole > $RALPH_TASK.txt";
    let calls = json!([{ "do": [{ "run": { "command": work } }, handoff("Wrote it.")] }]);
    let gate = "test -e ../done || { touch ../done; mv .git/objects ../objects; }";
    let further = json!({ "baseline": "off", "guardrails": [{ "command": gate }] });
    sealed.script(&calls, &settings(further));
    sealed.write("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    commit_all(&sealed);
    sealed.ralph(&["build"]).expect_code(5);
    let objects = sealed.project().join(".git/objects");
    fs::remove_dir_all(&objects).ok();
    fs::rename(sealed.root().join("objects"), objects).expect("moved");
    an_hour_ago(&sealed);
    commit_own(&sealed);
    let refused = assert_refused(&sealed);
    follow(&sealed, &refused, "git reset --soft");
    sealed.ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_clean(&sealed);
}

#[test]
fn a_run_does_not_go_on_while_git_cannot_tell_what_is_checked_out() {
    let sealed = cut_off(repository(), Cut::Interrupted, &["a"], json!({}));
    let head = sealed.project().join(".git/refs/heads/main");
    let commit = fs::read(&head).expect("readable");
    fs::write(&head, "0123456789012345678901234567890123456789\n").expect("written");
    let asked = sealed.prompts().len();
    sealed.ralph(&["resume"]).expect_code(5);
    assert_eq!(sealed.prompts().len(), asked, "nobody was asked");
    fs::write(&head, commit).expect("written");
    sealed.ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.subjects().len(), 3);
}

#[test]
fn where_ralph_commits_nothing_a_person_commits_at_will() {
    for cut in [Cut::Interrupted, Cut::Killed] {
        let sealed = cut_off(repository(), cut, &["a"], json!({ "commit": "none" }));
        commit_own(&sealed);
        sealed.ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.subjects()[0], "My own", "{cut:?}");
    }
}

#[test]
fn a_commit_at_the_time_of_the_death_or_of_the_future_is_the_agents() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let day = 24 * 3600;
    for when in [now.as_secs() - 3600, now.as_secs() + day] {
        let sealed = cut_off(repository(), Cut::Killed, &["a"], json!({}));
        sealed.write("sneaked.txt", "in\n");
        sealed.git(&["add", "sneaked.txt"]);
        let mut git = sealed.command("git");
        git.args(["commit", "-qm", "Sneaked in"])
            .env("GIT_COMMITTER_DATE", format!("@{when} +0000"));
        assert!(git.status().expect("git runs").success());
        let end = sealed.ralph(&["resume"]).expect_code(0);
        let told: Vec<&str> = end.stderr.split_whitespace().collect();
        assert!(told.join(" ").contains("the history was put back"), "{}", end.stderr);
        assert!(!sealed.subjects().contains(&"Sneaked in".to_owned()));
        assert_statuses(&sealed, &[("a", "done")]);
    }
}

/// A run that died while its work was being committed, and a commit of a person's so soon after it that
/// nobody can tell whose it is. Going on has been refused.
fn committed_behind_its_back() -> Sealed {
    let sealed = repository();
    let calls = json!([{ "do": [
        { "run": { "command": "echo whole >> $RALPH_TASK.txt" } }, handoff("Wrote it.")
    ] }]);
    sealed.script(&calls, &settings(json!({ "baseline": "off" })));
    sealed.write("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    commit_all(&sealed);
    let hook = sealed.project().join(".git/hooks/commit-msg");
    fs::create_dir_all(hook.parent().expect("there")).expect("made");
    // Before there is any work, hooks are only tried.
    let waits = "test -e a.txt || exit 0; test -e ../hooked || { touch ../hooked; sleep 60; }";
    fs::write(&hook, format!("#!/bin/sh\n{waits}\n")).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
    let running = sealed.start(&["build"]);
    wait_until("the work is being committed", || sealed.root().join("hooked").exists());
    running.signal(Signal::KILL);
    running.wait();
    wait_until("nobody is left", || sealed.survivors().is_empty());
    let _ = fs::remove_file(sealed.project().join(".git/index.lock"));
    commit_own(&sealed);

    let refused = sealed.ralph(&["resume"]).expect_code(5);
    let told: Vec<&str> = refused.stderr.split_whitespace().collect();
    assert!(told.join(" ").contains("when the work was looked at"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--include-dirty"), "{}", refused.stderr);
    assert_own_is_there(&sealed);
    sealed
}

fn assert_own_is_there(sealed: &Sealed) {
    assert_eq!(sealed.git(&["log", "-1", "--format=%s"]), "My own\n");
    assert_eq!(sealed.git(&["show", "HEAD:mine.txt"]), "mine\n");
}

#[test]
fn a_commit_between_the_look_at_the_work_and_its_commit_is_not_undone() {
    let sealed = committed_behind_its_back();
    sealed.ralph(&["build", "--include-dirty"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_eq!(sealed.git(&["show", "HEAD:a.txt"]), "whole\nwhole\n");
    assert!(sealed.subjects().contains(&"My own".to_owned()));
}

#[test]
fn a_run_whose_work_was_not_committed_for_a_persons_commit_waits_for_the_persons_word() {
    let sealed = committed_behind_its_back();
    for _ in 0..2 {
        let refused = sealed.ralph(&["resume"]).expect_code(2);
        assert!(refused.stderr.contains("git reset --soft"), "{}", refused.stderr);
        assert_own_is_there(&sealed);
    }
    let asked = sealed.prompts().len();
    sealed.git(&["reset", "--quiet", "--soft", "HEAD^"]);
    sealed.ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.prompts().len(), asked, "the work was paid for");
    assert_eq!(sealed.git(&["show", "HEAD:mine.txt"]), "mine\n");
    assert_eq!(sealed.git(&["show", "HEAD:a.txt"]), "whole\n");
    assert_clean(&sealed);
}
