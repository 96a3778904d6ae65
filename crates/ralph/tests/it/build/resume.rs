//! A run over a list that is killed in the middle has the same result.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::json;

use ralph_testkit::sealed::wait_until;

use super::{
    assert_clean, assert_statuses, build, commit_all, handoff, made, plan, project, settings, task,
    worker,
};
use crate::repository;

#[test]
fn a_kill_between_two_attempts_leaves_the_work_to_the_next() {
    let calls = json!([{ "do": [
        { "run": { "command": "echo \"$RALPH_ITERATION\" > a.txt" } },
        handoff("Wrote it.")
    ] }]);
    let settings = json!({
        "review": { "enabled": false }, "delaySeconds": 2, "baseline": "off",
        "guardrails": [{ "command": "grep -q 2 a.txt" }]
    });
    let sealed = project(&[task("a", &[])], &calls, &settings);
    let running = sealed.start_ralph(&["build"]);
    wait_until("the first attempt is over", || !sealed.find_events("waiting").is_empty());
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(sealed.read_file("a.txt"), "1\n");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.read_file("a.txt"), "2\n");
}

#[test]
fn a_run_that_ends_before_its_commit_leaves_no_task_done() {
    for (next, asked) in [(&["resume"][..], 1), (&["build", "--include-dirty"], 2)] {
        let sealed = project(&[task("a", &[])], &worker(), &settings(json!({})));
        // Before there is any work, hooks are only tested.
        let hook = sealed.project_dir().join(".git/hooks/commit-msg");
        fs::create_dir_all(hook.parent().expect("there")).expect("made");
        fs::write(&hook, "#!/bin/sh\ntest ! -e a.txt || { echo 'not now'; exit 1; }\n")
            .expect("written");
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
        build(&sealed, &[]).expect_code(5).expect_stderr("not now");
        assert_statuses(&sealed, &[("a", "in_progress")]);
        assert_eq!(made(&sealed), [""; 0]);
        // No file was edited.
        assert!(!format!("{:?}", sealed.find_events("tasks_read")).contains("edited"));
        fs::remove_file(hook).expect("removed");
        sealed.run_ralph(next).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(made(&sealed).len(), 1);
        assert_clean(&sealed);
        assert_eq!(sealed.prompts().len(), asked, "{next:?}");
    }
}

/// A git that kills its parent once, after a command, when a document reports something as done.
pub(super) fn deadly_git(document: &str) -> String {
    format!(
        r#"#!/bin/sh
PATH=${{PATH#*:}}
git "$@"
code=$?
if test -e ../die && {document} | grep -q '"done"'; then
    rm ../die
    kill -KILL "$PPID"
    exit 1
fi
exit $code
"#
    )
}

#[test]
fn kill_around_the_commit_leaves_a_consistent_state() {
    let [resume, build_again] = [&["resume"][..], &["build", "--include-dirty"]];
    let (before, after) = ("cat plan.json", "git show HEAD:plan.json");
    for (moment, next, landed, asked_by_last) in [
        (before, resume, 0, 1),
        (before, build_again, 0, 2),
        (after, resume, 1, 1),
        (after, build_again, 1, 0),
    ] {
        let sealed = project(&[task("a", &[])], &worker(), &settings(json!({})));
        // Then ralph leaves the branch to git.
        sealed.run_git(&["config", "core.sharedRepository", "false"]);
        sealed.write_program("git", &deadly_git(moment));
        fs::write(sealed.root().join("die"), "").expect("written");
        let died = build(&sealed, &[]);
        assert_eq!(died.code, None, "{}", died.stderr);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(made(&sealed).len(), landed, "{moment}");
        let went_on = sealed.run_ralph(next).expect_code(0);
        // ralph wrote it, not an agent without permission.
        for word in ["reverted", "restored"] {
            assert!(!went_on.stderr.contains(word), "{}", went_on.stderr);
        }
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(made(&sealed).len(), 1, "{moment}, {next:?}");
        assert_clean(&sealed);
        assert_eq!(sealed.prompts().len(), asked_by_last, "{moment}, {next:?}");
    }
}

#[test]
fn changes_while_stopped_pass_the_gates_too() {
    let calls = json!([{ "do": [
        { "run": { "command": "echo \"good of $RALPH_ITERATION\" > a.txt" } },
        handoff("Wrote it.")
    ] }]);
    for edit in [None, Some("bad by hand\n")] {
        let sealed = project(&[task("a", &[])], &calls, &json!({}));
        let root = sealed.root().to_owned();
        let outside = |name: &str| root.join(name).display().to_string();
        let (ran, waits, go) = (outside("ran"), outside("waits"), outside("go"));
        let first = format!("echo ran >> {ran}; grep -q good a.txt");
        let second = format!("touch {waits}; until test -e {go}; do sleep 0.1; done");
        let guardrails = json!([{ "command": first }, { "command": second }]);
        let further = json!({ "baseline": "off", "guardrails": guardrails });
        sealed.write_script(&calls, &settings(further));
        commit_all(&sealed);
        let running = sealed.start_ralph(&["build"]);
        wait_until("the second gate runs", || root.join("waits").exists());
        running.stop_at_once();
        if let Some(text) = edit {
            sealed.write_file("a.txt", text);
        }
        fs::write(root.join("go"), "").expect("written");
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        let runs = fs::read_to_string(root.join("ran")).expect("it ran").lines().count();
        let (expected, text) = match edit {
            // Gates that passed on the same tree are not run again.
            None => (1, "good of 1\n"),
            // By the user, and once more after the agent has fixed it.
            Some(_) => (3, "good of 2\n"),
        };
        assert_eq!((runs, sealed.read_file("a.txt").as_str()), (expected, text), "{edit:?}");
        let reported = format!("{:?}", sealed.find_events("warned"));
        assert_eq!(
            reported.contains("so all gates run again: a.txt"),
            edit.is_some(),
            "{reported}"
        );
        let history = sealed.run_git(&["log", "-p", "--", "a.txt"]);
        assert!(!history.contains("by hand"), "{history}");
    }
}

/// Which role works when the user acts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum AtWork {
    Agent,
    Gate,
}

#[test]
fn protected_changes_after_the_end_are_reported_before_an_agent_call() {
    for at_work in [AtWork::Agent, AtWork::Gate] {
        let sealed = repository();
        let root = sealed.root().to_owned();
        let outside = |name: &str| root.join(name).display().to_string();
        let waits = format!(
            "touch {}; until test -e {}; do sleep 0.1; done",
            outside("waits"),
            outside("go")
        );
        let (agent, gate) = match at_work {
            AtWork::Agent => (waits.as_str(), "true"),
            AtWork::Gate => ("true", waits.as_str()),
        };
        let calls = json!([{ "do": [
            { "run": { "command": format!("{agent}; echo done > a.txt") } },
            handoff("Wrote it.")
        ] }]);
        let gates = |limit: &str| {
            let gates = json!([{ "name": "slow", "command": gate, "hardTimeout": limit }]);
            settings(json!({ "baseline": "off", "gates": gates }))
        };
        sealed.write_script(&calls, &gates("10m"));
        sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
        commit_all(&sealed);
        let running = sealed.start_ralph(&["build"]);
        wait_until("an agent is at work", || root.join("waits").exists());
        running.stop_at_once();
        let (before, asked) = (sealed.read_file(".ralph/settings.json"), sealed.prompts().len());
        fs::write(root.join("go"), "").expect("written");

        // The usual case: fix the settings, and resume.
        sealed.write_script(&calls, &gates("20m"));
        let refused = sealed.run_ralph(&["resume"]).expect_code(2);
        let refused = refused.expect_stderr("changed since the run ended: .ralph/settings.json");
        assert_eq!(sealed.prompts().len(), asked, "{at_work:?}: no agent was called");
        assert!(sealed.read_file(".ralph/settings.json").contains("20m"), "it is as they left it");

        // The hint's command works.
        let words = refused.stderr.split('`').find(|it| it.starts_with("git restore"));
        let words: Vec<&str> = words.expect("a remedy").split_whitespace().skip(1).collect();
        sealed.run_git(&words);
        assert_eq!(sealed.read_file(".ralph/settings.json"), before);
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(sealed.read_file("a.txt"), "done\n");
        assert_clean(&sealed);
    }
}

#[test]
fn git_dir_tampering_before_the_end_is_reported_after_resume() {
    let sealed = repository();
    let root = sealed.root().to_owned();
    let waits = root.join("waits");
    let first = format!(
        "echo \"$RALPH_ITERATION\" > a.txt; test -e {0} && exit; git config core.hooksPath mine; touch {0}; sleep 60",
        waits.display()
    );
    let calls = json!([{ "do": [{ "run": { "command": first } }, handoff("Wrote it.")] }]);
    sealed.write_script(&calls, &settings(json!({ "baseline": "off" })));
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    commit_all(&sealed);
    let running = sealed.start_ralph(&["build"]);
    wait_until("the agent has changed it", || waits.exists());
    running.stop_at_once();
    assert!(!sealed.read_file(".git/config").contains("mine"), "it was restored");
    sealed.run_ralph(&["resume"]).expect_code(0);
    let prompts = sealed.prompts();
    let reported = prompts.last().expect("a prompt");
    assert!(reported.contains("These files belong to git itself"), "{reported}");
    assert!(reported.contains(".git/config"), "{reported}");
    assert_statuses(&sealed, &[("a", "done")]);
}

#[test]
fn new_protected_files_are_reported_too() {
    let sealed = repository();
    let command = "echo 1 > a.txt; test -e waits || { touch waits; sleep 60; }";
    let calls = json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }]);
    sealed.write_script(&calls, &settings(json!({ "baseline": "off", "protect": ["tests/**"] })));
    sealed.write_file(".gitignore", "/waits\n");
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[])])));
    commit_all(&sealed);
    let running = sealed.start_ralph(&["build"]);
    sealed.wait_for("waits");
    running.stop_at_once();
    sealed.write_file("tests/new.txt", "by hand\n");
    let asked = sealed.prompts().len();
    let refused = sealed.run_ralph(&["resume"]).expect_code(2);
    refused.expect_stderr("changed since the run ended: tests/new.txt");
    assert_eq!(sealed.prompts().len(), asked, "no agent was called");
    assert_eq!(sealed.read_file("tests/new.txt"), "by hand\n");
    // The hint is to move the new file away.
    fs::remove_dir_all(sealed.project_dir().join("tests")).expect("removed");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_clean(&sealed);
}

#[test]
fn run_stopped_after_its_commit_remembers_it() {
    let sealed = repository();
    let calls = json!([{ "do": [{ "run": { "command": "echo 1 > $RALPH_TASK.txt" } }, handoff("Wrote it.")] }]);
    sealed.write_script(&calls, &settings(json!({ "baseline": "off" })));
    sealed.write_file(".gitignore", "/waits\n");
    sealed.write_file("plan.json", &format!("{:#}\n", plan(&[task("a", &[]), task("b", &[])])));
    commit_all(&sealed);
    let hook = sealed.project_dir().join(".git/hooks/post-commit");
    fs::write(&hook, "#!/bin/sh\ntest -e waits || { touch waits; sleep 60; }\n").expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
    let running = sealed.start_ralph(&["build"]);
    wait_until("the hook is at work", || sealed.project_dir().join("waits").exists());
    running.stop_at_once();
    assert_statuses(&sealed, &[("a", "done"), ("b", "pending")]);
    let first = sealed.run_git(&["rev-parse", "HEAD"]);
    let ran = sealed.run_ralph(&["resume"]).expect_code(0);
    assert!(!ran.stderr.contains("reverted"), "{}", ran.stderr);
    assert_eq!(sealed.run_git(&["rev-parse", "HEAD~1"]), first);
    assert_eq!(made(&sealed), ["ralph[1]: a — The a", "ralph[2]: b — The b"]);
    assert_eq!(sealed.run_git(&["for-each-ref", "refs/ralph/kept"]), "");
    assert_clean(&sealed);
}
