//! A run over a list that is killed in the middle comes to the same end.

use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;

use ralph_testkit::sealed::{Sealed, wait_until};

use super::{assert_statuses, build, handoff, project, shelves, task};

/// Three tasks with reviews, of which one fails and is shelved.
fn work() -> Sealed {
    let calls = json!([
        { "when": { "role": "review" }, "do": [
            { "sleep": 0.01 },
            { "verdict": { "verdict": "approved", "feedback": "", "criteria": [] } }
        ] },
        { "do": [
            { "sleep": 0.01 },
            { "run": { "command": "echo \"$RALPH_ITERATION\" > $RALPH_TASK.txt" } },
            { "sleep": 0.01 },
            handoff("Wrote it.")
        ] }
    ]);
    let settings = json!({
        "guardrails": [{ "command": "test ! -f b.txt" }], "tasks": { "maxAttempts": 2 }
    });
    project(&[task("a", &[]), task("b", &[]), task("c", &[])], &calls, &settings)
}

/// What a run comes to; the time in the name of a branch is left out.
fn essence(sealed: &Sealed) -> (Vec<String>, String, String, Vec<String>) {
    let unstamped = |text: &str| {
        let mut parts = text.split("wip/ralph-fail-b-");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, rest| format!("{text}wip/ralph-fail-b-{}", &rest[15..]))
    };
    let files = sealed.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    (
        sealed.subjects(),
        format!("{files}{}", sealed.git(&["status", "--porcelain"])),
        unstamped(&sealed.read("plan.json")),
        shelves(sealed).iter().map(|branch| unstamped(branch)).collect(),
    )
}

/// Kills ralph at moments spread over the run; what differs between them is chance.
#[test]
fn a_kill_at_any_moment_changes_neither_commits_nor_list() {
    const MOMENTS: u32 = 12;
    let undisturbed = work();
    let begun = Instant::now();
    build(&undisturbed, &[]).expect_code(1);
    let whole = begun.elapsed();
    let expect = essence(&undisturbed);
    assert_statuses(&undisturbed, &[("a", "done"), ("b", "failed"), ("c", "done")]);
    for moment in 0..MOMENTS {
        let sealed = work();
        let running = sealed.start(&["build"]);
        thread::sleep(whole * moment / MOMENTS);
        running.signal(Signal::KILL);
        running.wait();
        assert_eq!(sealed.survivors(), [""; 0], "killed at {moment}/{MOMENTS}");
        if sealed.events_of("run_started").is_empty() {
            build(&sealed, &[]).expect_code(1);
        } else if sealed.events_of("run_ended").is_empty() {
            sealed.ralph(&["resume"]).expect_code(1);
        }
        assert_eq!(essence(&sealed), expect, "killed at {moment}/{MOMENTS}");
    }
}

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
