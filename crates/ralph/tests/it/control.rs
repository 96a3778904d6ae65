//! Controlling an active run: pause, resume, stop, skip, notes, and how they are shown.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use ralph_testkit::sealed::{Running, Sealed, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{repository, sealed};

/// An agent that reports its start, works until it is released, and completes in its second call.
fn two_calls() -> Value {
    json!([
        { "when": { "call": 1 }, "do": [
            { "touch": "begun" },
            { "waitFor": { "path": "continue", "seconds": 50.0 } },
            { "text": "Not yet." }
        ] },
        { "do": [{ "claim": "DONE" }] }
    ])
}

/// Starts a run whose agent is in its first call.
fn under_way(sealed: &Sealed) -> Running {
    sealed.write_script(&two_calls(), &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    running
}

fn inbox(sealed: &Sealed) -> PathBuf {
    sealed.runs().pop().expect("a run").join("inbox")
}

fn status(sealed: &Sealed) -> Value {
    let finished = sealed.run_ralph(&["status", "--json"]).expect_code(0);
    serde_json::from_str(&finished.stdout).expect("JSON")
}

fn count(sealed: &Sealed, kind: &str) -> usize {
    sealed.find_events(kind).len()
}

#[test]
fn run_pauses_for_edits_and_resumes() {
    let sealed = sealed();
    sealed.write_file("prompt.md", "old words");
    sealed.write_script(&two_calls(), &json!({}));
    let running = sealed.start_ralph(&["run", "-f", "prompt.md"]);
    sealed.wait_for("begun");
    sealed.run_ralph(&["pause"]).expect_code(0).expect_stderr("to pause after the current step");
    sealed.run_ralph(&["pause"]).expect_code(0).expect_stderr("was asked to pause before");
    let shown = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("pause asked at "), "{shown}");
    assert!(shown.contains(", after the current step"), "{shown}");
    sealed.write_file("continue", "");
    let paused = sealed.run_ralph(&["pause", "--wait", "--json"]).expect_code(0).stdout;
    assert!(paused.contains(r#""state":"done""#), "{paused}");
    let shown = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("paused since "), "{shown}");
    assert!(status(&sealed)["control"]["pausedSince"].is_i64());
    assert!(sealed.read_file(".ralph/state.json").contains(r#""status": "paused""#));
    sealed.write_file("prompt.md", "new words");
    sealed.run_ralph(&["go"]).expect_code(0).expect_stderr("resumes");
    running.wait_for_end().expect_code(0).expect_stderr("Paused; `ralph resume` resumes");
    let prompts = sealed.prompts();
    let starts: Vec<&str> = prompts.iter().filter_map(|prompt| prompt.lines().next()).collect();
    assert_eq!(starts, ["old words", "new words"]);
    assert_eq!(count(&sealed, "paused"), 1);
    let log = sealed.run_ralph(&["log"]).expect_code(0).stdout;
    assert!(log.contains("asked to pause") && log.contains("asked to resume"), "{log}");
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("## Control requests"), "{report}");
}

#[test]
fn paused_run_reacts_to_resume_stop_and_signals() {
    for way in ["resume", "stop", "signal"] {
        let sealed = sealed();
        let mut running = under_way(&sealed);
        sealed.run_ralph(&["pause"]).expect_code(0);
        sealed.write_file("continue", "");
        running.wait_for("Paused; ");
        let code = match way {
            "resume" => {
                sealed.run_ralph(&["resume"]).expect_code(0).expect_stderr("resumes");
                0
            }
            "stop" => {
                sealed.run_ralph(&["stop", "--wait"]).expect_code(0).expect_stderr("has ended");
                130
            }
            _ => {
                running.send_signal(Signal::INT);
                130
            }
        };
        running.wait_for_end().expect_code(code);
        if code == 130 {
            sealed.run_ralph(&["resume"]).expect_code(0);
        }
        assert_eq!(count(&sealed, "asked"), 2, "{way}");
    }
}

#[test]
fn a_stop_lets_the_agent_finish_and_the_run_can_be_resumed() {
    let sealed = sealed();
    let running = under_way(&sealed);
    sealed.run_ralph(&["stop"]).expect_code(0).expect_stderr("to stop after the current step");
    sealed.write_file("continue", "");
    running.wait_for_end().expect_code(130).expect_stderr("ralph resume");
    assert_eq!(count(&sealed, "replied"), 1, "the answer is kept");
    sealed.run_ralph(&["go"]).expect_code(1).expect_stderr("`ralph resume` resumes run ");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn note_is_in_exactly_one_prompt_with_its_author() {
    let sealed = sealed();
    let running = under_way(&sealed);
    let mut note = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    note.args(["note", "-"]).env("USER", "ann").stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = note.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"Use tabs,\nnot spaces.\n").expect("written");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    sealed.run_ralph(&["note", "And", "be", "brief."]).expect_code(0);
    let shown = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("by ann, for the next prompt: Use tabs, not spaces."), "{shown}");
    sealed.write_file("continue", "");
    running.wait_for_end().expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[0].starts_with("base\n\nWhen everything is done"), "{}", prompts[0]);
    assert!(prompts[1].starts_with("base\n\n"), "{}", prompts[1]);
    assert!(
        prompts[1].ends_with("\n\n# A note from ann\n\nUse tabs,\nnot spaces.\n\n# A note from the person who watches this run\n\nAnd be brief."),
        "{}",
        prompts[1]
    );
    assert_eq!(prompts.len(), 2);
    assert!(fs::read_dir(inbox(&sealed)).expect("an inbox").next().is_none());
}

#[test]
fn a_note_that_no_agent_read_is_named_at_the_end() {
    let sealed = sealed();
    let calls = json!([{ "do": [
        { "touch": "../begun" },
        { "waitFor": { "path": "continue", "seconds": 50.0 } },
        { "claim": "DONE" }
    ] }]);
    sealed.write_script(&calls, &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("../begun");
    sealed.run_ralph(&["note", "Use tabs."]).expect_code(0);
    sealed.run_ralph(&["pause"]).expect_code(0);
    sealed.write_file("continue", "");
    let end = running.wait_for_end().expect_code(0).expect_stderr("no agent read this note");
    assert!(end.stderr.contains("\n  ralph run 'Use tabs.'  "), "{}", end.stderr);
    let shown = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("a note that no agent read: Use tabs."), "{shown}");
    assert!(!shown.contains("asked at"), "{shown}");
    let shown = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(shown.contains("note that no agent read: Use tabs."), "{shown}");
    assert!(shown.contains("ralph run 'Use tabs.'  # do what the unread note asks for"), "{shown}");
    sealed.run_ralph(&["run", "Use tabs."]).expect_code(0);
    assert!(sealed.prompts()[0].starts_with("Use tabs."), "{:?}", sealed.prompts());
}

#[test]
fn control_requests_survive_a_kill_and_apply_once() {
    let sealed = sealed();
    let running = under_way(&sealed);
    for request in [&["note", "Remember me."][..], &["stop"], &["pause"]] {
        sealed.run_ralph(request).expect_code(0);
    }
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    sealed.write_file("continue", "");
    sealed.run_ralph(&["resume"]).expect_code(0);
    let void = |event: &&Value| event["refused"] == "the run ended and was resumed since";
    assert_eq!(sealed.find_events("wished").iter().filter(void).count(), 2);
    let reported = sealed.prompts().iter().filter(|it| it.contains("Remember me.")).count();
    assert_eq!((reported, count(&sealed, "wished")), (1, 3));
}

/// Starts a run over three tasks whose agent is at work on the first.
fn tasks_under_way(sealed: &Sealed) -> Running {
    let task = |id: &str| json!({ "id": id, "title": format!("The {id}"), "description": "Do it.", "status": "pending", "acceptance_criteria": ["It is there."] });
    let calls = json!([
        { "when": { "task": "US-1" }, "do": [
            { "write": { "path": "half.txt", "text": "half" } },
            { "touch": "../begun" },
            { "waitFor": { "path": "../continue", "seconds": 50.0 } },
            { "handoff": { "task_completed": { "summary": "Half.", "fully_complete": false } } }
        ] },
        { "do": [
            { "write": { "path": "whole.txt", "text": "whole" } },
            { "handoff": { "task_completed": { "summary": "Whole.", "fully_complete": true } } }
        ] }
    ]);
    sealed.write_script(&calls, &json!({ "review": { "enabled": false } }));
    let tasks = json!({ "project": "p", "tasks": [task("US-1"), task("US-2"), task("US-3")] });
    sealed.write_file("plan.json", &format!("{tasks:#}\n"));
    sealed.commit_all("Plan");
    let running = sealed.start_ralph(&["build", "--plan", "plan.json"]);
    sealed.wait_for("../begun");
    running
}

#[test]
fn a_task_that_is_being_worked_on_is_skipped_and_its_work_is_kept() {
    let sealed = repository();
    let running = tasks_under_way(&sealed);
    sealed.run_ralph(&["skip", "US-9"]).expect_code(2).expect_stderr("did you mean `US-");
    sealed.run_ralph(&["skip", "US-1"]).expect_code(0);
    sealed.run_ralph(&["skip", " US-3 "]).expect_code(0);
    sealed.run_ralph(&["skip", "US-1"]).expect_code(1).expect_stderr("that was requested before");
    let asked = &status(&sealed)["control"]["skipsAsked"];
    assert_eq!(asked.as_array().map(Vec::len), Some(2), "{asked}");
    sealed.write_file("../continue", "");
    running.wait_for_end().expect_code(0).expect_stderr("Task skipped on request");
    let list: Value = serde_json::from_str(&sealed.read_file("plan.json")).expect("JSON");
    let found: Vec<&Value> =
        list["tasks"].as_array().expect("tasks").iter().map(|task| &task["status"]).collect();
    assert_eq!(found, ["skipped", "done", "skipped"]);
    assert!(!sealed.project_dir().join("half.txt").exists());
    let branches = sealed.run_git(&["branch", "--list", "wip/*", "--format=%(refname:short)"]);
    let branch = branches.trim();
    assert!(branch.starts_with("wip/ralph-fail-US-1-"), "{branches}");
    assert_eq!(sealed.run_git(&["show", &format!("{branch}:half.txt")]), "half");
    let log = sealed.run_ralph(&["log", "--task", "US-3"]).expect_code(0).stdout;
    assert!(log.contains("Task US-3 is skipped") && !log.contains("US-1"), "{log}");
    for (words, expect) in [
        (&["--task", "US-33"][..], "There is no task `US-33`"),
        (&["--task", "US-33"], "did you mean `US-3`?"),
        (&["--task", ""], "--task is empty"),
        (&["--json", "--task", "other"], "There is no task `other`"),
        (&["--iteration", "77"], "There is no iteration 77: the run has "),
        (&["--raw", "--iteration", "77"], "There is no iteration 77: the run has "),
        (&["--iteration", "0"], "There is no iteration 0: the run has "),
    ] {
        let end = sealed.run_ralph(&[&["log"], words].concat()).expect_code(2);
        assert!(end.stderr.contains(expect), "{words:?}: {}", end.stderr);
    }
}

#[test]
fn control_requests_without_an_active_run_are_refused() {
    let sealed = sealed();
    for words in [
        &["pause"][..],
        &["go"],
        &["stop", "--wait"],
        &["skip", "a"],
        &["note", "x"],
        &["note", "-"],
    ] {
        sealed
            .run_ralph(words)
            .expect_code(1)
            .expect_stderr("No run is active in this directory")
            .expect_stderr("`ralph run` or `ralph build` starts one");
    }
    sealed.run_ralph(&["note"]).expect_code(2);
    sealed.write_script(&crate::done(), &json!({}));
    crate::run(&sealed, &[]).expect_code(0);
    sealed.run_ralph(&["status", "--watch"]).expect_code(0);
    sealed.run_ralph(&["go"]).expect_code(1);
}

#[test]
fn bad_input_and_a_full_inbox_are_handled() {
    let sealed = sealed();
    let running = under_way(&sealed);
    sealed.run_ralph(&["go"]).expect_code(1).expect_stderr("the run is not paused");
    sealed.run_ralph(&["skip", "a"]).expect_code(1).expect_stderr("has no task list");
    let words: Vec<String> = vec!["y".repeat(100_000); 10];
    let long: Vec<&str> = ["note"].into_iter().chain(words.iter().map(String::as_str)).collect();
    sealed.run_ralph(&long).expect_code(2).expect_stderr("1000009 characters, and 4000 fit");
    sealed.run_ralph(&["note", " "]).expect_code(2).expect_stderr("The note is empty");
    let words = ["note", "--task", "US-1", "Use tabs."];
    sealed.run_ralph(&words).expect_code(2).expect_stderr("without --task reaches its next prompt");
    // Two users at once.
    let both: Vec<_> =
        ["one", "two"].map(|text| sealed.start_ralph(&["note", text])).into_iter().collect();
    for sent in both {
        sent.wait_for_end().expect_code(0);
    }
    let inbox = inbox(&sealed);
    for number in 0..300 {
        fs::write(inbox.join(format!("junk-{number}")), "junk").expect("written");
    }
    std::os::unix::fs::symlink("/etc/passwd", inbox.join("000000000000001-00000001.json"))
        .expect("linked");
    sealed.write_file("continue", "");
    let finished = running.wait_for_end().expect_code(0);
    assert!(finished.stderr.contains("in the run's inbox is not a valid"), "{}", finished.stderr);
    let second = sealed.prompts().pop().expect("a prompt");
    assert!(second.contains("\n\none") && second.contains("\n\ntwo"), "{second}");
}

#[test]
fn a_followed_log_shows_what_the_running_agent_does() {
    let sealed = sealed();
    let tool = json!({ "tool": { "name": "Bash", "summary": "make check", "output": "fine" } });
    let calls = json!([{ "do": [
        tool, { "touch": "begun" }, { "waitFor": { "path": "continue", "seconds": 50.0 } },
        { "claim": "DONE" }
    ] }]);
    sealed.write_script(&calls, &json!({}));
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("begun");
    let seen = sealed.root().join("seen");
    let mut log = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    log.args(["log", "--follow"]).stdout(File::create(&seen).expect("a file"));
    let mut log = log.spawn().expect("it starts");
    let read = || fs::read_to_string(&seen).expect("a file");
    wait_until("the tool call in the log", || read().contains("make check"));
    sealed.write_file("continue", "");
    running.wait_for_end().expect_code(0);
    log.wait().expect("it ends with the run");
    assert!(read().contains("Run ended: complete"), "{}", read());
    assert_eq!(read().matches("make check").count(), 1, "{}", read());
    let later = sealed.run_ralph(&["log"]).expect_code(0).stdout;
    assert!(!later.contains("make check"), "{later}");
}

#[test]
fn a_log_is_followed_across_a_pause_an_end_and_a_resume() {
    let sealed = sealed();
    let mut running = under_way(&sealed);
    let seen = sealed.root().join("seen");
    let mut log = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    log.args(["log", "--follow", "--forever"]).stdout(File::create(&seen).expect("a file"));
    let mut log = log.spawn().expect("it starts");
    sealed.run_ralph(&["pause"]).expect_code(0);
    sealed.write_file("continue", "");
    running.wait_for("Paused; ");
    sealed.run_ralph(&["stop"]).expect_code(0);
    running.wait_for_end().expect_code(130);
    sealed.run_ralph(&["resume"]).expect_code(0);
    let read = || fs::read_to_string(&seen).expect("a file");
    wait_until("the end in the log", || read().contains("Run ended: complete"));
    log.kill().expect("it follows for ever");
    log.wait().expect("it ends");
    let seen = read();
    for words in ["Paused; ", "Run ended: interrupted", "resumes run", "Run ended: complete"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    let second = sealed.run_ralph(&["log", "--iteration", "2"]).expect_code(0).stdout;
    assert!(second.contains("Iteration 2/10") && !second.contains("Iteration 1/10"), "{second}");
    let late = sealed.run_ralph(&["log", "--since", "1h"]).expect_code(0).stdout;
    assert!(late.contains("Iteration 1/10"), "{late}");
    sealed.run_ralph(&["log", "--since", "soon"]).expect_code(2).expect_stderr("is not a time");
}
