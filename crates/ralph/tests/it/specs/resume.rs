//! Runs that are interrupted or killed, with agents that were about to lose the plan: it is
//! restored, and the run continues as if nothing had happened.

use ralph_testkit::sealed::Sealed;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{PLAN, check_items, commit, complete, expect_warning, planned, prompt, says};

const TWO: &str = "# Plan\n\n- [ ] Greet\n- [ ] Part\n";

/// Loses the plan and hangs; completes in the next call.
fn losing(command: &str) -> Value {
    json!([
        { "when": { "call": 1 }, "do": [
            { "run": { "command": format!("plan={PLAN}; {command}") } },
            { "touch": "../begun" },
            "hang",
        ] },
        { "do": [check_items(), commit("Do it"), complete()] },
    ])
}

/// Ways to lose a plan.
const LOSSES: [&str; 3] = ["rm $plan", ": > $plan", "rm $plan && mkdir $plan && touch $plan/x"];

#[track_caller]
fn expect_done(sealed: &Sealed, what: &str) {
    assert_eq!(sealed.read_file(PLAN), TWO.replace("[ ]", "[x]"), "{what}");
    assert_eq!(sealed.subjects(), ["Do it", "Specify", "Begin"], "{what}");
    assert_eq!(sealed.survivors(), [""; 0], "{what}");
}

#[test]
fn a_plan_that_was_lost_just_before_a_kill_is_back_before_the_agent_is() {
    for command in LOSSES {
        let sealed = planned(&losing(command), &json!({}));
        let running = sealed.start_ralph(&["build"]);
        sealed.wait_for("../begun");
        running.send_signal(Signal::KILL);
        running.wait_for_end();
        assert_eq!(sealed.survivors(), [""; 0], "{command}");
        let end = sealed.run_ralph(&["resume"]);
        assert_eq!(end.code, Some(0), "{command}:\n{}", end.stderr);
        expect_done(&sealed, command);
        expect_warning(&sealed, "it was restored");
        assert_eq!(sealed.runs().len(), 1, "{command}");
    }
}

#[test]
fn a_new_run_after_a_kill_finds_the_plan_as_well() {
    for (command, mode) in [("rm $plan", "build"), (": > $plan", "build"), ("rm $plan", "plan")] {
        let sealed = planned(&losing(command), &json!({}));
        let running = sealed.start_ralph(&["build"]);
        sealed.wait_for("../begun");
        running.send_signal(Signal::KILL);
        running.wait_for_end();
        assert_eq!(sealed.survivors(), [""; 0], "{command}");
        let end = sealed.run_ralph(&[mode, "2"]);
        assert_eq!(end.code, Some(0), "{command} {mode}:\n{}", end.stderr);
        expect_warning(&sealed, "it was restored");
        expect_done(&sealed, command);
    }
}

#[test]
fn a_dry_run_after_a_kill_still_changes_nothing() {
    let sealed = planned(&losing("rm $plan"), &json!({}));
    let running = sealed.start_ralph(&["build"]);
    sealed.wait_for("../begun");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(sealed.survivors(), [""; 0]);
    sealed.run_ralph(&["build", "--dry-run"]);
    assert!(!sealed.project_dir().join(PLAN).exists());
    sealed.run_ralph(&["resume"]).expect_code(0);
}

#[test]
fn an_interrupted_run_leaves_the_plan_as_it_was() {
    for mode in ["build", "plan"] {
        for command in LOSSES {
            let sealed = planned(&losing(command), &json!({}));
            let running = sealed.start_ralph(&[mode]);
            sealed.wait_for("../begun");
            let end = running.stop_at_once().expect_code(130);
            assert_eq!(sealed.read_file(PLAN), TWO, "{mode} {command}:\n{}", end.stderr);
            assert!(end.stderr.contains("it was restored"), "{mode} {command}");
            sealed.run_ralph(&["resume"]).expect_code(0);
            expect_done(&sealed, command);
        }
    }
}

#[test]
fn questioned_signal_counts_after_resume() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [complete()] },
        { "when": { "call": 2 }, "do": [{ "touch": "../begun" }, "hang"] },
        { "do": [complete()] },
    ]);
    for signals in [&[Signal::KILL][..], &[Signal::INT, Signal::INT]] {
        let sealed = planned(&calls, &json!({}));
        let mut running = sealed.start_ralph(&["build"]);
        sealed.wait_for("../begun");
        for (place, signal) in signals.iter().enumerate() {
            if place > 0 {
                running.wait_for("shutting down");
            }
            running.send_signal(*signal);
        }
        running.wait_for_end();
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_eq!(sealed.find_events("iteration_started").len(), 2);
        let prompt_text = prompt(&sealed, 3);
        assert!(prompt_text.contains("2 items are open"), "{prompt_text}");
    }
}

#[test]
fn uncommitted_work_of_an_interrupted_run_can_be_resumed() {
    let calls = json!([
        { "when": { "call": 1 }, "do": [
            check_items(),
            { "write": { "path": "half.txt", "text": "half\n" } },
            { "touch": "../begun" },
            "hang",
        ] },
        { "do": [commit("Do it"), complete()] },
    ]);
    let sealed = planned(&calls, &json!({}));
    let running = sealed.start_ralph(&["build"]);
    sealed.wait_for("../begun");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(sealed.survivors(), [""; 0]);
    // A new run must not build on them; the same one may.
    sealed.run_ralph(&["build"]).expect_code(2).expect_stderr("half.txt");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert!(sealed.run_git(&["ls-files"]).contains("half.txt"));
}

#[test]
fn more_iterations_can_be_had_later() {
    let calls = json!([
        { "when": { "iteration": 3 }, "do": [check_items(), commit("Do it"), complete()] },
        { "do": [says("Hm.")] },
    ]);
    let sealed = planned(&calls, &json!({}));
    sealed.run_ralph(&["build", "2"]).expect_code(1).expect_stderr("ralph resume -m");
    sealed.run_ralph(&["resume", "-m", "4"]).expect_code(0);
    assert_eq!(sealed.runs().len(), 1);
    expect_done(&sealed, "later");
}
