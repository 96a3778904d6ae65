//! `ralph build --jobs` when something fails: killed workers and hosts, stops, commits of the
//! user, a setup command, a budget, an agent that changes git's own files.

use std::fs;
use std::path::PathBuf;

use ralph_testkit::sealed::{Running, Sealed, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::parallel::{landed, project_with_meeting};
use super::{assert_clean, assert_statuses, build, handoff, project, settings, task, worker};
use crate::sandbox::backends;
use crate::users_refs::{all_backends, ralph_in};

/// An agent that notes its call, and hangs until there is a file `go`.
fn hangs_until_allowed(place: &str) -> Value {
    let command = format!(
        "echo $RALPH_TASK >> {place}/calls; touch {place}/began-$RALPH_TASK; \
         while [ ! -e {place}/go ]; do sleep 0.05; done; echo $RALPH_TASK > $RALPH_TASK.txt"
    );
    json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }])
}

/// Starts a run whose agents wait, with two tasks at once.
fn start_two(further: Value) -> (Sealed, String, Running) {
    let tasks = [task("a", &[]), task("b", &[])];
    let (sealed, place) = project_with_meeting(&tasks, hangs_until_allowed, further);
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    wait_until("both agents work", || has_begun(&place, "a") && has_begun(&place, "b"));
    (sealed, place, run)
}

fn has_begun(place: &str, task: &str) -> bool {
    fs::exists(format!("{place}/began-{task}")).unwrap_or(false)
}

fn allow(place: &str) {
    fs::write(format!("{place}/go"), "").expect("written");
}

fn calls(place: &str) -> usize {
    fs::read_to_string(format!("{place}/calls")).unwrap_or_default().lines().count()
}

/// The processes that hold clones.
pub(super) fn workers(sealed: &Sealed) -> Vec<i32> {
    let listed = sealed.run_ralph(&["clones", "--json"]).expect_code(0);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let slots = listed["clones"].as_array().cloned().unwrap_or_default();
    let pids = slots.iter().filter_map(|slot| slot["heldBy"].as_i64());
    pids.filter_map(|pid| i32::try_from(pid).ok()).collect()
}

fn kill(pid: i32) {
    assert!(pid > 1);
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("it is there");
}

/// The parent of a process.
fn parent_of(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    rest.split_whitespace().nth(1).and_then(|it| it.parse().ok()).expect("a parent")
}

#[test]
fn a_killed_worker_continues_in_its_clone() {
    let (sealed, place, run) = start_two(json!({}));
    let pid = *workers(&sealed).first().expect("a worker");
    kill(pid);
    wait_until("it is called again", || calls(&place) == 3);
    allow(&place);
    run.wait_for_end().expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_eq!(sealed.find_events("worker_lost").len(), 1);
    assert_eq!(calls(&place), 3);
    assert_clean(&sealed);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn a_killed_host_is_started_again_with_its_jobs() {
    let (sealed, place, run) = start_two(json!({}));
    let pid = *workers(&sealed).first().expect("a worker");
    kill(parent_of(pid));
    wait_until("both are called again", || calls(&place) == 4);
    allow(&place);
    run.wait_for_end().expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_clean(&sealed);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn damaged_and_removed_clones_are_made_again() {
    let (sealed, place, run) = start_two(json!({}));
    let listed = sealed.run_ralph(&["clones", "--json"]).expect_code(0);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let slots = listed["clones"].as_array().expect("clones").iter();
    let slots = slots.map(|it| PathBuf::from(it["directory"].as_str().expect("a path")));
    let name = sealed.project_dir();
    let name = name.file_name().expect("a name");
    let clones: Vec<PathBuf> = slots.map(|slot| slot.join(name)).collect();
    run.send_signal(Signal::KILL);
    run.wait_for_end();
    wait_until("no process is left", || sealed.survivors().is_empty());
    fs::write(clones[0].join("unsaved.txt"), "unsaved\n").expect("written");
    fs::remove_file(clones[0].join(".git/HEAD")).expect("removed");
    fs::remove_dir_all(&clones[1]).expect("removed");
    allow(&place);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept"]);
    let has_it = |name: &str| sealed.run_git(&["ls-tree", "--name-only", name]).contains("unsaved");
    assert!(kept.lines().any(has_it), "{kept}");
    assert_clean(&sealed);
}

#[test]
fn what_the_user_edits_meanwhile_lands_with_a_warning_and_is_not_lost() {
    let (sealed, place, run) = start_two(json!({}));
    sealed.write_file("shared.txt", "mine\n");
    allow(&place);
    run.wait_for_end().expect_code(0).expect_stderr("`shared.txt` had changes");
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_eq!(sealed.run_git(&["show", "HEAD:shared.txt"]), "mine\n");
    assert_clean(&sealed);
}

/// A conflict with what the user edits and does not commit is no reason to pay for another round.
#[test]
fn an_edit_of_the_user_in_the_way_holds_the_work_until_it_is_committed() {
    let tasks = [task("a", &[]), task("b", &[])];
    let calls = |place: &str| {
        let command = format!(
            "echo $RALPH_TASK >> {place}/calls; touch {place}/began-$RALPH_TASK; \
             while [ ! -e {place}/go-$RALPH_TASK ]; do sleep 0.05; done; \
             if [ $RALPH_TASK = a ]; then grep -v '^[<=>]' shared.txt > all; \
             echo a >> all; mv all shared.txt; else echo b > b.txt; fi"
        );
        json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }])
    };
    let (sealed, place) = project_with_meeting(&tasks, calls, json!({}));
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    wait_until("both agents work", || has_begun(&place, "a") && has_begun(&place, "b"));
    sealed.write_file("shared.txt", "mine\n");
    fs::write(format!("{place}/go-a"), "").expect("written");
    wait_until("a is held", || !sealed.find_events("candidate_merged").is_empty());
    // Its work must not land: it would take the edit along.
    fs::write(format!("{place}/go-b"), "").expect("written");
    let ended = run.wait_for_end().expect_code(5);
    ended.expect_stderr("the work on a waits to land").expect_stderr("shared.txt");
    assert_eq!(sealed.read_file("shared.txt"), "mine\n");
    assert_eq!(calls_of(&place), ["a", "b"]);
    // As long as the edit is there, a resume pays for nothing either.
    sealed.run_ralph(&["resume"]).expect_code(2).expect_stderr("uncommitted changes");
    assert_eq!(calls_of(&place), ["a", "b"]);
    sealed.run_git(&["checkout", "--", "shared.txt"]);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_eq!(calls_of(&place), ["a", "b"]);
    assert_eq!(sealed.read_file("shared.txt"), "start\na\n");
    assert_clean(&sealed);
}

fn calls_of(place: &str) -> Vec<String> {
    let calls = fs::read_to_string(format!("{place}/calls")).unwrap_or_default();
    let mut calls: Vec<String> = calls.lines().map(str::to_owned).collect();
    calls.sort();
    calls
}

#[test]
fn a_slot_whose_setup_fails_is_left_alone_while_another_works() {
    let tasks = [task("a", &[]), task("b", &[])];
    let (sealed, place) = project_with_meeting(&tasks, hangs_until_allowed, json!({}));
    // The first clone that is set up fails, once.
    let setup = format!("mkdir {place}/first || exit 0; echo brokensetup; exit 7");
    let mut settings: Value =
        serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("JSON");
    settings["parallel"] = json!({ "setup": setup });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    sealed.commit_all("Set up");
    sealed.trust_project(&[]);
    let run = sealed.start_ralph(&["build", "--jobs", "2"]);
    wait_until("one has failed and one works", || {
        sealed.find_events("worker_ended").len() == 1 && calls(&place) == 1
    });
    allow(&place);
    run.wait_for_end().expect_code(0).expect_stderr("brokensetup");
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_eq!(calls(&place), 2);
    assert_clean(&sealed);
}

#[test]
fn a_stop_lets_agents_finish_and_resume_continues() {
    let (sealed, place, run) = start_two(json!({}));
    sealed.run_ralph(&["stop"]).expect_code(0);
    wait_until("workers got the request", || {
        workers(&sealed).len() == 2 && !sealed.find_events("wished").is_empty()
    });
    allow(&place);
    run.wait_for_end().expect_code(130);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_eq!(calls(&place), 2);
    assert_clean(&sealed);
}

#[test]
fn a_skipped_task_ends_its_worker_and_no_other() {
    let (sealed, place, run) = start_two(json!({}));
    sealed.run_ralph(&["skip", "b"]).expect_code(0);
    wait_until("one worker is left", || workers(&sealed).len() == 1);
    allow(&place);
    run.wait_for_end().expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "skipped")]);
    assert_eq!(landed(&sealed), ["a"]);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn a_commit_of_the_user_meanwhile_is_not_lost() {
    let (sealed, place, run) = start_two(json!({}));
    sealed.write_file("mine.txt", "mine\n");
    sealed.commit_all("Mine");
    allow(&place);
    let finished = run.wait_for_end();
    if finished.code != Some(0) {
        sealed.run_ralph(&["resume"]).expect_code(0);
    }
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_eq!(sealed.read_file("mine.txt"), "mine\n");
    assert!(sealed.subjects().iter().any(|subject| subject == "Mine"));
    assert_clean(&sealed);
}

#[test]
fn a_setup_command_prepares_each_clone_or_ends_the_run_before_an_agent_is_paid() {
    let tasks = [task("a", &[]), task("b", &[])];
    let command = "test -e ready && echo $RALPH_TASK > $RALPH_TASK.txt";
    let calls = json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }]);
    let further = json!({ "parallel": { "setup": "echo $RALPH_SLOT > ready" } });
    let sealed = project(&tasks, &calls, &settings(further));
    sealed.write_file(".gitignore", "ready\n");
    sealed.commit_all("Ignore");
    sealed.trust_project(&[]);
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);

    let further = json!({ "parallel": { "setup": "echo no such tool; exit 7" } });
    let sealed = project(&tasks, &worker(), &settings(further));
    sealed.trust_project(&[]);
    let finished = build(&sealed, &["--jobs", "2"]).expect_code(2);
    assert!(finished.stderr.contains("no such tool"), "{}", finished.stderr);
    assert_eq!(sealed.find_events("asked").len(), 0);
    assert_statuses(&sealed, &[("a", "in_progress"), ("b", "in_progress")]);
}

#[test]
fn an_agent_that_changes_gits_own_files_harms_only_its_own_attempt() {
    for backend in all_backends() {
        let tasks = [task("a", &[]), task("b", &[])];
        let tamper = "git config alias.status '!touch escaped'; echo b > b.txt";
        let calls = json!([
            { "when": { "task": "b", "iteration": 1 }, "do": [{ "run": { "command": tamper } }, handoff("Done.")] },
            worker()[0]
        ]);
        let sealed = project(&tasks, &calls, &settings(json!({})));
        ralph_in(&sealed, backend, &["build", "--jobs", "2"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
        let config = fs::read_to_string(sealed.project_dir().join(".git/config")).expect("read");
        assert!(!config.contains("alias"), "{config}");
    }
}

#[test]
fn git_finds_borrowed_objects_in_every_sandbox() {
    for backend in backends() {
        let tasks = [task("a", &[]), task("b", &[])];
        let command =
            "git log --stat > $RALPH_TASK.txt && git show HEAD:plan.json | grep -q project";
        let calls = json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }]);
        let gates = json!({ "gates": [{ "command": "git cat-file -p HEAD && git status" }] });
        let sealed = project(&tasks, &calls, &settings(gates)).with_sandbox();
        build(&sealed, &["--jobs", "2", &format!("--sandbox={backend}")]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
        assert!(sealed.read_file("a.txt").contains("Settings"), "{backend}");
        assert_clean(&sealed);
    }
}
