//! A run over a list that is killed in the middle comes to the same end.

use rustix::process::Signal;
use serde_json::json;

use ralph_testkit::sealed::wait_until;

use super::{assert_statuses, handoff, project, task};

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
