//! How runs of the three commands end: the exit code, the output, and the session log.

use std::fs;

use ralph_testkit::sealed::Sealed;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{PLAN, check_items, commit, commit_all, complete, plan, planned, says};
use crate::{always, sealed};

/// The three commands.
const COMMANDS: [&[&str]; 3] = [&["plan"], &["build"], &["prompt", "ask.md"]];

/// Returns a project in which all three commands can start.
fn scene(calls: &Value, further: &Value) -> Sealed {
    let sealed = planned(calls, further);
    sealed.write_file("ask.md", "Do it, then say ${SIGNAL}.\n");
    commit_all(&sealed, "Ask");
    sealed
}

/// Does all of the work at once.
fn all_done() -> Value {
    json!([check_items(), commit("Do it"), complete()])
}

/// Runs a command to its end, and checks that the session log agrees.
#[track_caller]
fn check(sealed: &Sealed, words: &[&str], more: &[&str], code: i32, message: &str) {
    let end = sealed.run_ralph(&[words, more].concat());
    assert_eq!(end.code, Some(code), "{words:?} {more:?}:\n{}", end.stderr);
    assert!(end.stderr.contains(message), "{words:?} {more:?}: no {message:?} in\n{}", end.stderr);
    let log = last_session(sealed);
    assert!(log.contains(&format!("\nMode: {}\n", words[0])), "{words:?}:\n{log}");
    assert!(log.contains(&format!("\nExit Code: {code}\n")), "{words:?}:\n{log}");
    assert_eq!(sealed.survivors(), [""; 0], "{words:?}");
}

fn last_session(sealed: &Sealed) -> String {
    let logs =
        fs::read_dir(sealed.project_dir().join(".ralph/logs")).into_iter().flatten().flatten();
    let mut sessions: Vec<_> = logs
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/session-"))
        .collect();
    sessions.sort();
    sessions.pop().map(|path| fs::read_to_string(path).expect("readable")).unwrap_or_default()
}

#[test]
fn complete_work_ends_with_0() {
    // Without a number, 50 iterations or those of the settings are allowed.
    for (words, settings, most) in [
        (COMMANDS[0], json!({}), 50),
        (COMMANDS[1], json!({}), 50),
        (COMMANDS[2], json!({ "maximumIterations": 7 }), 7),
    ] {
        let sealed = scene(&always(all_done()), &settings);
        check(&sealed, words, &[], 0, "Run ended: complete");
        let recipe = &sealed.find_events("run_started")[0]["recipe"];
        assert_eq!(recipe["limits"]["iterations"], most, "{words:?}");
    }
}

#[test]
fn a_complete_plan_names_the_next_command_and_what_a_person_has_to_do() {
    let text = "- [ ] Greet\n- [x] Part\n- [?] Sign: needs the key\n";
    let sealed = scene(&always(json!([plan(text), commit("Plan"), complete()])), &json!({}));
    let end = sealed.run_ralph(&["plan"]).expect_code(0);
    assert!(
        end.stderr.contains("Plan: 1 of 3 items done, 1 item needs a person"),
        "{}",
        end.stderr
    );
    assert!(end.stderr.contains("1 item needs a person: Sign: needs the key"), "{}", end.stderr);
    assert!(end.stderr.contains("ralph build "), "{}", end.stderr);
}

#[test]
fn iterations_that_change_nothing_end_the_run() {
    // An agent that does nothing, and one that always leaves the same file uncommitted.
    let idle = COMMANDS.map(|words| (words, json!([says("Hm.")])));
    let leaving = json!([{ "write": { "path": "a", "text": "" } }, complete()]);
    for (words, steps) in idle.into_iter().chain([(COMMANDS[1], leaving)]) {
        let sealed = scene(&always(steps), &json!({}));
        check(&sealed, words, &[], 1, "not complete: the last 3 iterations");
        let calls = sealed.prompts().len();
        assert!((3..=5).contains(&calls), "{words:?}: {calls} calls");
    }
    // A plan that git ignores is work, too.
    let item = json!({ "append": { "path": PLAN, "text": "- [ ] more\n" } });
    let sealed = scene(&always(json!([item, says("Hm.")])), &json!({}));
    sealed.write_file(".gitignore", ".ralph/\n");
    sealed.run_git(&["rm", "-rq", "--cached", ".ralph"]);
    commit_all(&sealed, "Ignore");
    check(&sealed, &["plan"], &["5"], 1, "not complete after 5 iterations");
}

#[test]
fn iterations_that_are_used_up_end_with_1_or_as_the_user_wants() {
    for words in COMMANDS {
        let working = || always(json!([says("Hm.")]));
        check(&scene(&working(), &json!({})), words, &["2"], 1, "not complete after 2 iterations");
        let sealed = scene(&working(), &json!({}));
        check(&sealed, words, &["-m", "1", "--allow-incomplete"], 0, "not complete after 1");
        sealed.run_ralph(&[words, &["2", "-m", "3"]].concat()).expect_code(2);
        sealed.run_ralph(&[words, &["0"]].concat()).expect_code(2);
        let recipe = &sealed.find_events("run_started")[0]["recipe"];
        assert_eq!(recipe["completion_response"], "COMPLETE", "{words:?}");
    }
}

#[test]
fn budgets_end_with_1() {
    let [cost, tokens, time] = COMMANDS;
    let working = always(json!([{ "usage": { "input": 600, "cost": 0.3 } }, says("Hm.")]));
    for (words, flags, message) in [
        (cost, ["--max-cost", "0.5"], "cost budget used up"),
        (tokens, ["--max-tokens", "1000"], "token budget used up"),
    ] {
        let sealed = scene(&working, &json!({}));
        check(&sealed, words, &flags, 1, message);
        assert_eq!(sealed.find_events("iteration_started").len(), 2, "{words:?}");
    }
    let sealed = scene(&always(json!(["hang"])), &json!({}));
    check(&sealed, time, &["--max-time", "500ms"], 1, "time budget used up");
}

#[test]
fn failing_agent_is_retried_then_ends_the_run() {
    for (words, most) in COMMANDS.into_iter().zip(1..=3) {
        let mut calls: Vec<Value> = (1..=most)
            .map(|call| json!({ "when": { "call": call }, "do": [{ "exit": 1 }] }))
            .collect();
        calls.push(json!({ "do": all_done() }));
        let retries = json!({ "retries": { "max": most, "backoff": "1ms" } });
        let sealed = scene(&Value::Array(calls), &retries);
        check(&sealed, words, &["1"], 0, "Run ended: complete");
        assert_eq!(sealed.find_events("iteration_started").len(), 1, "{words:?}");
        // The same prompt each time.
        let mut prompts = sealed.prompts();
        assert_eq!(prompts.len(), most + 1, "{words:?}");
        prompts.dedup();
        assert_eq!(prompts.len(), 1, "{words:?}");
        assert!(last_session(&sealed).contains(&format!("\nRetries: {most}\n")));
        let sealed = scene(&always(json!([{ "exit": 1 }])), &retries);
        check(&sealed, words, &["2"], 4, "the agent failed (crashed");
        assert_eq!(sealed.find_events("asked").len(), most + 1, "{words:?}");
        assert!(last_session(&sealed).contains(&format!("\nRetries: {most}\n")));
    }
}

#[test]
fn an_agent_that_cannot_run_ends_with_4() {
    for words in COMMANDS {
        let sealed = scene(&always(all_done()), &json!({}));
        let end = sealed.run_ralph(&[words, &["--agent", "no-such-agent"]].concat());
        end.expect_code(4).expect_stderr("no-such-agent");
        assert_eq!(sealed.runs().len(), 0);
        let refused = json!([{ "result": { "error": { "class": "notLoggedIn", "words": "Invalid API key" } } }]);
        check(&scene(&always(refused), &json!({})), words, &[], 4, "Invalid API key");
    }
}

#[test]
fn plan_and_build_need_a_repository() {
    for mode in ["plan", "build"] {
        let sealed = sealed();
        sealed.write_script(&always(all_done()), &json!({ "workflow": "specs" }));
        sealed.write_file("specs/one.md", "# One\n");
        sealed.write_file(PLAN, "- [ ] One\n");
        sealed.run_ralph(&[mode]).expect_code(5).expect_stderr("git init");
        assert_eq!(sealed.runs().len(), 0, "{mode}");
        assert_eq!(sealed.read_file(PLAN), "- [ ] One\n", "{mode}");
    }
}

#[test]
fn a_git_that_fails_in_the_middle_ends_with_5() {
    for words in COMMANDS {
        // ralph would restore changes of an agent to the repository: here git itself fails.
        let broken = json!([{ "touch": "../broken" }, complete()]);
        let sealed = scene(&always(broken), &json!({}));
        let marker = sealed.root().join("broken");
        let usual = "PATH=/usr/local/bin:/usr/bin:/bin";
        let fails = format!("test -e {} && exit 128", marker.display());
        sealed.write_program("git", &format!("#!/bin/sh\n{fails}\n{usual} exec git \"$@\"\n"));
        check(&sealed, words, &["2"], 5, "git failed");
        assert!(sealed.read_file(PLAN).contains("Greet"), "{words:?}");
        fs::remove_file(marker).expect("removed");
        let end = sealed.run_ralph(&["status"]).expect_code(0);
        assert!(end.stdout.contains("git failed"), "{words:?}: {}", end.stdout);
    }
}

#[test]
fn a_merge_under_way_is_not_built_upon() {
    for words in COMMANDS {
        let sealed = scene(&always(all_done()), &json!({}));
        sealed.run_git(&["checkout", "--quiet", "-b", "side"]);
        sealed.write_file("README.md", "side\n");
        commit_all(&sealed, "Side");
        sealed.run_git(&["checkout", "--quiet", "main"]);
        sealed.write_file("README.md", "main\n");
        commit_all(&sealed, "Main");
        let merge = sealed.build_command("git").args(["merge", "--quiet", "side"]).output();
        assert!(!merge.expect("git runs").status.success());
        let end = sealed.run_ralph(words);
        // A prompt may be about the merge.
        let code = if words[0] == "prompt" { 0 } else { 5 };
        assert_eq!(end.code, Some(code), "{words:?}:\n{}", end.stderr);
        assert_eq!(sealed.runs().is_empty(), code == 5, "{words:?}");
    }
}

#[test]
fn a_second_run_in_the_same_place_ends_with_3() {
    let patient = json!([
        { "touch": "../begun" },
        { "waitFor": { "path": "../continue", "seconds": 50.0 } },
        complete(),
    ]);
    let sealed = scene(&always(patient), &json!({}));
    let running = sealed.start_ralph(&["prompt", "ask.md"]);
    sealed.wait_for("../begun");
    for words in COMMANDS {
        sealed.run_ralph(words).expect_code(3).expect_stderr("Another run is active");
    }
    sealed.write_file("../continue", "");
    running.wait_for_end().expect_code(0);
}

#[test]
fn interrupt_ends_with_130_and_the_run_can_resume() {
    for words in COMMANDS {
        let calls = json!([
            { "when": { "call": 1 }, "do": [
                { "touch": "../begun" },
                { "waitFor": { "path": "../continue", "seconds": 50.0 } },
                check_items(), commit("Do it"), complete(),
            ] },
            { "do": [complete()] },
        ]);
        let sealed = scene(&calls, &json!({}));
        let mut running = sealed.start_ralph(words);
        sealed.wait_for("../begun");
        running.send_signal(Signal::INT);
        running.wait_for("Received signal, shutting down...");
        sealed.write_file("../continue", "");
        running.wait_for_end().expect_code(130).expect_stderr("ralph resume");
        assert!(last_session(&sealed).contains("\nExit Code: 130\n"), "{words:?}");
        sealed.run_ralph(&["resume"]).expect_code(0);
        assert_eq!(sealed.find_events("asked").len(), 1, "{words:?}: it was not asked again");
        assert_eq!(sealed.survivors(), [""; 0], "{words:?}");
    }
}

#[test]
fn deleted_plan_is_reported_by_the_next_run() {
    let sealed =
        scene(&always(json!([plan("- [ ] x\n"), commit("Plan"), says("Hm.")])), &json!({}));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    sealed.run_git(&["rm", "--quiet", PLAN]);
    commit_all(&sealed, "Think again");
    sealed
        .run_ralph(&["build", "1"])
        .expect_code(2)
        .expect_stderr("Implementation plan not found. Run 'ralph plan' first.");
}
