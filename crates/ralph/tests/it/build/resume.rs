//! A run over a list that is killed in the middle comes to the same end.

use rustix::process::Signal;
use serde_json::json;

use ralph_testkit::sealed::wait_until;

use super::{assert_clean, assert_statuses, build, handoff, made, project, settings, task, worker};

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
    let running = sealed.start(&["build"]);
    wait_until("the first attempt is over", || !sealed.events_of("waiting").is_empty());
    running.signal(Signal::KILL);
    running.wait();
    assert_eq!(sealed.read("a.txt"), "1\n");
    sealed.ralph(&["resume"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert_eq!(sealed.read("a.txt"), "2\n");
}

#[test]
fn a_run_that_ends_before_its_commit_leaves_no_task_done() {
    for (next, asked) in [(&["resume"][..], 1), (&["build", "--include-dirty"], 2)] {
        let sealed = project(&[task("a", &[])], &worker(), &settings(json!({})));
        let lock = ".git/refs/heads/main.lock";
        sealed.write(lock, "");
        build(&sealed, &[]).expect_code(5).expect_stderr("main.lock");
        assert_statuses(&sealed, &[("a", "in_progress")]);
        assert_eq!(made(&sealed), [""; 0]);
        // Nobody edited anything.
        assert!(!format!("{:?}", sealed.events_of("tasks_read")).contains("edited"));
        std::fs::remove_file(sealed.project().join(lock)).expect("removed");
        sealed.ralph(next).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        assert_eq!(made(&sealed).len(), 1);
        assert_clean(&sealed);
        assert_eq!(sealed.prompts().len(), asked, "{next:?}");
    }
}

#[test]
fn what_was_changed_while_a_run_stood_still_passes_the_gates_too() {
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
        sealed.script(&calls, &settings(further));
        super::commit_all(&sealed);
        let mut running = sealed.start(&["build"]);
        wait_until("the second gate runs", || root.join("waits").exists());
        running.signal(Signal::INT);
        running.wait_for("shutting down");
        running.signal(Signal::INT);
        running.wait();
        if let Some(text) = edit {
            sealed.write("a.txt", text);
        }
        std::fs::write(root.join("go"), "").expect("written");
        sealed.ralph(&["resume"]).expect_code(0);
        assert_statuses(&sealed, &[("a", "done")]);
        let runs = std::fs::read_to_string(root.join("ran")).expect("it ran").lines().count();
        let (expected, text) = match edit {
            // What passed on the same tree has passed.
            None => (1, "good of 1\n"),
            // By hand, and once more after the agent has mended it.
            Some(_) => (3, "good of 2\n"),
        };
        assert_eq!((runs, sealed.read("a.txt").as_str()), (expected, text), "{edit:?}");
        let told = format!("{:?}", sealed.events_of("warned"));
        assert_eq!(told.contains("so the gates begin anew: a.txt"), edit.is_some(), "{told}");
        let history = sealed.git(&["log", "-p", "--", "a.txt"]);
        assert!(!history.contains("by hand"), "{history}");
    }
}
