//! The loop itself: prompts, gates, feedback, completion, files and output.

use std::fs;
use std::path::Path;

use ralph_testkit::sealed::Sealed;
use serde_json::json;

use crate::{always, done, first_then, repository, run, sealed};

/// Commits everything, so that only the agent changes the tree.
fn commit_all(sealed: &Sealed) {
    sealed.commit_all("Settings");
}

#[test]
fn completion_signal_with_passing_gates_completes_the_work() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({ "guardrails": [{ "command": "true" }] }));
    let end = run(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains("Run ended: complete"), "{}", end.stderr);
    assert_eq!(sealed.find_events("iteration_started").len(), 1);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn feedback_joins_the_next_prompt_by_its_action() {
    for (action, expect) in
        [("APPEND", "base\n\n"), ("PREPEND", "Guardrail"), ("REPLACE", "Guardrail")]
    {
        let sealed = sealed();
        let calls = first_then(
            json!([{ "claim": "DONE" }]),
            json!([{ "write": { "path": "ok", "text": "" } }, { "claim": "DONE" }]),
        );
        let gate = json!({
            "command": "echo boom; test -f ok", "failAction": action, "hint": "Make ok."
        });
        sealed.write_script(&calls, &json!({ "guardrails": [gate] }));
        run(&sealed, &[]).expect_code(0);
        let prompts = sealed.prompts();
        let message = "Guardrail \"echo boom; test -f ok\" failed with exit code 1.\n\
                       Hint: Make ok.\n\
                       Output file: .ralph/guardrail_1_echo_boom_test_f_ok.log\n\
                       Output (truncated):\nboom";
        assert!(prompts[0].starts_with("base\n\nThese checks run after you"), "{}", prompts[0]);
        assert!(prompts[1].starts_with(expect), "{action}: {}", prompts[1]);
        assert!(prompts[1].contains(message), "{action}: {}", prompts[1]);
        let has_base_below = prompts[1].contains("\n\nbase\n\n");
        assert_eq!(has_base_below, action == "PREPEND", "{action}: {}", prompts[1]);
        assert_eq!(prompts[1].contains("base"), action != "REPLACE", "{action}: {}", prompts[1]);
        assert_eq!(sealed.read_file(".ralph/guardrail_1_echo_boom_test_f_ok.log"), "boom\n");
    }
}

#[test]
fn output_is_cut_for_the_prompt_and_whole_in_the_log() {
    let sealed = sealed();
    let calls = first_then(
        json!([{ "claim": "DONE" }]),
        json!([{ "write": { "path": "ok", "text": "" } }, { "claim": "DONE" }]),
    );
    let gate = json!({ "command": "printf 'äöüß%s' 1234567890; test -f ok" });
    sealed.write_script(&calls, &json!({ "guardrails": [gate], "outputTruncateChars": 6 }));
    run(&sealed, &[]).expect_code(0);
    assert!(sealed.prompts()[1].ends_with("Output (truncated):\näöüß12... [truncated]"));
    let log = fs::read_dir(sealed.project_dir().join(".ralph"))
        .expect("a directory")
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("guardrail_1_"))
        .expect("a log");
    assert_eq!(fs::read_to_string(log.path()).expect("readable"), "äöüß1234567890");
}

#[test]
fn signal_counts_only_in_the_final_answer() {
    for (name, actions) in [
        ("prose", json!([{ "text": "I am DONE, response DONE." }])),
        (
            "tool output",
            json!([{ "tool": { "name": "Read", "summary": "x", "output": "<response>DONE</response>" } }, { "text": "I read it." }]),
        ),
        ("not done", json!([{ "claim": "NOT DONE" }])),
        (
            "first tag decides",
            json!([{ "text": "<response>no</response> <response>DONE</response>" }]),
        ),
        ("reasoning", json!([{ "reasoning": "<response>DONE</response>" }, { "text": "Hm." }])),
        ("subagent", json!([{ "subagentText": "<response>DONE</response>" }, { "text": "Hm." }])),
        (
            "before a tool",
            json!([{ "claim": "DONE" }, { "tool": { "name": "Bash", "summary": "ls", "output": "" } }, { "text": "More to do." }]),
        ),
        ("stderr", json!([{ "stderr": "<response>DONE</response>" }, { "text": "Hm." }])),
    ] {
        let sealed = sealed();
        sealed.write_script(&always(actions), &json!({ "maximumIterations": 1 }));
        let end = run(&sealed, &[]).expect_code(1);
        assert!(end.stderr.contains("not complete after 1 iteration"), "{name}: {}", end.stderr);
    }
}

#[test]
fn the_signal_is_read_in_any_case_and_both_tags() {
    for text in ["<Response> done </RESPONSE>", "All good.\n<promise>Done</promise>"] {
        let sealed = sealed();
        sealed.write_script(&always(json!([{ "text": text }])), &json!({}));
        run(&sealed, &["-m", "1"]).expect_code(0);
    }
    let sealed = sealed();
    sealed.write_script(
        &always(json!([{ "delta": ["<resp", "onse>SHIP", " IT</respo", "nse>"] }])),
        &json!({}),
    );
    run(&sealed, &["-m", "1", "-c", "ship it"]).expect_code(0);
}

#[test]
fn an_echoed_prompt_completes_nothing() {
    let sealed = sealed();
    sealed.write_program("parrot", "#!/bin/sh\ncat\necho working\n");
    sealed.write_program("honest", "#!/bin/sh\ncat\necho '<response>DONE</response>'\n");
    let prompt = "Do it. Then say <response>DONE</response>.";
    sealed.run_ralph(&["run", "-p", prompt, "--agent", "parrot", "-m", "1"]).expect_code(1);
    sealed.run_ralph(&["run", "-p", prompt, "--agent", "honest", "-m", "1"]).expect_code(0);
}

#[test]
fn a_text_agent_gets_the_prompt_where_its_flags_want_it() {
    let sealed = sealed();
    sealed.write_program(
        "writer",
        "#!/bin/sh\necho \"arg: $2\" | head -1; cat\necho '<response>DONE</response>'\n",
    );
    sealed.write_file(
        ".ralph/settings.json",
        &json!({ "agent": { "command": "writer", "flags": ["--message", "{prompt}"] } })
            .to_string(),
    );
    let end = run(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains("arg: base"), "{}", end.stderr);
}

#[test]
fn prompt_file_is_read_each_time_and_its_loss_ends_the_run() {
    let sealed = sealed();
    sealed.write_file("PROMPT.md", "one");
    let calls = json!([
        { "when": { "call": 1 }, "do": [{ "write": { "path": "PROMPT.md", "text": "two" } }, { "text": "Hm." }] },
        { "do": [{ "delete": { "path": "PROMPT.md" } }, { "text": "Hm." }] }
    ]);
    sealed.write_script(&calls, &json!({}));
    let end = sealed.run_ralph(&["run", "-f", "PROMPT.md"]).expect_code(2);
    assert!(end.stderr.contains("PROMPT.md"), "{}", end.stderr);
    let first_lines = |sealed: &Sealed| -> Vec<String> {
        let prompts = sealed.prompts();
        prompts.iter().filter_map(|prompt| prompt.lines().next()).map(str::to_owned).collect()
    };
    assert_eq!(first_lines(&sealed), ["one", "two"]);
    sealed.write_file("PROMPT.md", "three");
    sealed.run_ralph(&["resume", "-m", "3"]);
    assert_eq!(first_lines(&sealed).last().map(String::as_str), Some("three"));
}

#[test]
fn prompt_without_a_tag_explains_how_to_finish() {
    let sealed = sealed();
    let calls = json!([{ "do": [{ "text": "All is done. <response>DONE</response>" }] }]);
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": "true" }] }));
    let note = "Fix the tests.\n\nThese checks run after you, and all must pass:\n- `true`\n\nWhen everything is done and the checks pass, end your final answer with <response>DONE</response>.";
    let dry = sealed.run_ralph(&["run", "-p", "Fix the tests.", "--dry-run"]).expect_code(0).stdout;
    assert!(dry.contains("end your final answer with <response>DONE</response>"), "{dry}");
    sealed.run_ralph(&["run", "-p", "Fix the tests."]).expect_code(0);
    assert!(sealed.prompts()[0].starts_with(note), "{:?}", sealed.prompts());
    sealed.write_script(&calls, &json!({ "finishNote": false }));
    sealed.run_ralph(&["run", "-p", "Fix the tests."]).expect_code(0);
    assert_eq!(sealed.prompts().last().map(String::as_str), Some("Fix the tests."));
    let own = "Fix it, then answer <promise>DONE</promise>.";
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": "true" }] }));
    sealed.run_ralph(&["run", "-p", own]).expect_code(0);
    let expect = format!("{own}\n\nThese checks run after you, and all must pass:\n- `true`");
    assert_eq!(sealed.prompts().last(), Some(&expect), "only the checks are added");
}

#[test]
fn iterations_that_change_nothing_end_the_run() {
    for settings in [json!({ "guardrails": [{ "command": "true" }] }), json!({})] {
        let sealed = repository();
        let calls = json!([{ "do": [{ "text": "All tests pass, nothing to do." }] }]);
        sealed.write_script(&calls, &settings);
        commit_all(&sealed);
        let end = sealed.run_ralph(&["run", "-p", "Fix the tests.", "-m", "9"]).expect_code(1);
        let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = "not complete: the last 3 iterations passed the checks and changed nothing, and none completed the work with <response>DONE</response>";
        assert!(shown.contains(words), "{}", end.stderr);
        let warning = "two iterations in a row changed nothing; the run ends after 3 of them";
        let (before, after) = shown.split_once(warning).expect("a warning when it happens");
        assert!(!before.contains("Iteration 4/9") && after.contains("Run ended"), "{}", end.stderr);
        let warned = sealed.find_events("warned");
        assert_eq!(warned.iter().filter(|it| it["text"] == warning).count(), 1, "{warned:?}");
        let prompts = sealed.prompts();
        assert!((3..=4).contains(&prompts.len()), "{}", prompts.len());
        let last = prompts.last().expect("a prompt");
        assert!(last.contains("All checks passed after the last iteration, and it changed nothing. If nothing is left to do, answer <response>DONE</response>."), "{last}");
        assert!(!prompts[0].contains("changed nothing"), "{}", prompts[0]);
    }
}

#[test]
fn iterations_that_fail_for_the_same_reason_end_the_run() {
    let refused = json!([{ "write": { "path": "locked.txt", "text": "x" } }, { "claim": "DONE" }]);
    let idle = json!([{ "claim": "DONE" }]);
    let protect = json!({ "protect": ["locked.txt"] });
    let gate = json!({ "gates": [{ "name": "tests", "kind": "test", "command": "false" }] });
    for (actions, settings, reason) in
        [(refused, protect, "protected paths"), (idle, gate, "tests")]
    {
        let sealed = repository();
        sealed.write_script(&always(actions), &settings);
        commit_all(&sealed);
        let end = sealed.run_ralph(&["run", "-p", "Do it.", "-m", "9"]).expect_code(1);
        let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let warning = format!(
            "two iterations in a row failed for the same reason ({reason}); the run ends after 3 of them"
        );
        assert_eq!(shown.matches(&warning).count(), 1, "{}", end.stderr);
        let outcome = format!(
            "not complete: stuck, the last 3 iterations failed for the same reason ({reason})"
        );
        assert!(shown.contains(&outcome), "{}", end.stderr);
        // What the first iteration changed is known only if the tree before it was recorded.
        let first = sealed.find_events("iteration_started").len();
        assert!((3..=4).contains(&first), "{reason}: {first}");
        sealed.run_ralph(&["resume"]).expect_code(1);
        assert_eq!(sealed.find_events("iteration_started").len(), first + 3, "{reason}");
    }
}

#[test]
fn a_gate_may_fail_alike_while_the_agent_makes_changes() {
    let sealed = repository();
    let calls = json!([
        { "when": { "call": 5 }, "do": [{ "write": { "path": "ok", "text": "" } }, { "claim": "DONE" }] },
        { "do": [{ "run": { "command": "echo x >> log" } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": "test -f ok" }] }));
    commit_all(&sealed);
    sealed.run_ralph(&["run", "-p", "Do it.", "-m", "9"]).expect_code(0);
    assert_eq!(sealed.find_events("iteration_started").len(), 5);
}

#[test]
fn an_agent_that_reads_that_nothing_changed_finishes() {
    let sealed = repository();
    let reported = json!({ "promptContains": "it changed nothing" });
    let calls = json!([
        { "when": reported, "do": [{ "text": "<response>DONE</response>" }] },
        { "do": [{ "write": { "path": "a.txt", "text": "a" } }, { "text": "Wrote it." }] }
    ]);
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": "true" }] }));
    commit_all(&sealed);
    sealed.run_ralph(&["run", "-p", "Fix the tests.", "-m", "9"]).expect_code(0);
    assert_eq!(sealed.prompts().len(), 3);
}

#[test]
fn iteration_count_is_the_first_line() {
    let sealed = sealed();
    let settings = json!({ "includeIterationCountInPrompt": true, "maximumIterations": 2 });
    sealed.write_script(&always(json!([{ "text": "Hm." }])), &settings);
    run(&sealed, &[]).expect_code(1);
    let prompts = sealed.prompts();
    assert!(prompts[0].starts_with("Iteration 1 of 2, 1 remaining.\n\nbase\n"), "{prompts:?}");
    assert!(prompts[1].starts_with("Iteration 2 of 2, 0 remaining.\n\nbase\n"), "{prompts:?}");
}

#[test]
fn soft_gates_warn_and_hard_gates_stop_later_ones() {
    let sealed = sealed();
    let gates = json!([
        { "name": "style", "kind": "lint", "command": "exit 3", "hard": false },
        { "name": "tests", "kind": "test", "command": "exit 1" },
        { "name": "never", "command": "touch never" },
        { "name": "always", "command": "touch always", "always": true }
    ]);
    sealed.write_script(&done(), &json!({ "gates": gates, "maximumIterations": 1 }));
    run(&sealed, &[]).expect_code(1);
    assert!(!sealed.project_dir().join("never").exists());
    assert!(sealed.project_dir().join("always").exists());
    let results: serde_json::Value =
        serde_json::from_str(&sealed.read_file(".ralph/logs/validation/iter-1.json"))
            .expect("JSON");
    assert_eq!(results["results"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_same_tree_is_not_checked_twice() {
    let sealed = repository();
    let calls = first_then(json!([{ "text": "Hm." }]), json!([{ "claim": "DONE" }]));
    let gates = json!([{ "command": "echo x >> ../count" }, { "command": "echo y >> ../count", "cache": false }]);
    sealed.write_script(&calls, &json!({ "gates": gates }));
    run(&sealed, &[]).expect_code(0);
    let count = fs::read_to_string(sealed.root().join("count")).expect("the gates ran");
    assert_eq!(count, "x\ny\ny\n");
}

#[test]
fn agent_output_can_be_hidden() {
    let sealed = repository();
    sealed.write_script(
        &always(json!([{ "text": "secret thoughts" }, { "claim": "DONE" }])),
        &json!({}),
    );
    let shown = run(&sealed, &[]).expect_code(0);
    assert!(shown.stderr.contains("secret thoughts"), "{}", shown.stderr);
    let hidden = run(&sealed, &["--no-stream-agent-output"]).expect_code(0);
    assert!(!hidden.stderr.contains("secret thoughts"), "{}", hidden.stderr);
    let quiet = run(&sealed, &["--quiet"]).expect_code(0);
    let lines: Vec<&str> = quiet.stderr.lines().collect();
    assert!(lines[0].contains("there is no sandbox"), "{}", quiet.stderr);
    assert_eq!(lines.len(), 2, "{}", quiet.stderr);
    assert_eq!(shown.stdout, "", "stdout is for data");
}

#[test]
fn verbose_explains_decisions() {
    let sealed = sealed();
    let settings = json!({
        "guardrails": [{ "command": "true" }],
        "agent": { "command": "sim", "flags": [sealed.root().join("scenario.json")], "env": { "MY_TOKEN": "hunter2" } }
    });
    sealed.write_script(&done(), &settings);
    sealed.trust_project(&[]);
    let end = run(&sealed, &["--verbose"]).expect_code(0);
    for line in ["[ralph] Loading settings from", "[ralph] Agent command:", "base"] {
        assert!(end.stderr.contains(line), "{line}:\n{}", end.stderr);
    }
    assert!(!end.stderr.contains("hunter2"), "{}", end.stderr);
}

#[test]
fn a_dry_run_shows_everything_and_changes_nothing() {
    let sealed = repository();
    let settings = json!({
        "guardrails": [{ "command": "make test" }],
        "scm": { "command": "git", "tasks": ["commit", "push"] }
    });
    sealed.write_script(&done(), &settings);
    sealed.commit_all("settings");
    let end = run(&sealed, &["--dry-run"]).expect_code(0);
    for text in ["| base", "__sim", "make test", "git commit", "git push"] {
        assert!(end.stdout.contains(text), "{text}:\n{}", end.stdout);
    }
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    assert!(!Path::new(&sealed.state_dir()).exists());
}

#[test]
fn status_shows_the_current_state() {
    let sealed = sealed();
    sealed.run_ralph(&["status"]).expect_code(0);
    sealed.write_script(
        &always(json!([{ "usage": { "input": 10, "cost": 0.5 } }, { "text": "Hm." }])),
        &json!({ "maximumIterations": 1 }),
    );
    run(&sealed, &[]).expect_code(1);
    let end = sealed.run_ralph(&["status", "--json"]).expect_code(0);
    let facts: serde_json::Value = serde_json::from_str(&end.stdout).expect("JSON");
    assert_eq!(facts["iteration"], 1);
    assert_eq!(facts["totals"]["usage"]["cost"], 500_000);
    assert_eq!(facts["resumable"], true);
}

#[test]
fn log_prints_events_in_three_formats() {
    let sealed = sealed();
    sealed.run_ralph(&["log"]).expect_code(2).expect_stderr("no run");
    sealed.write_script(&done(), &json!({ "guardrails": [{ "command": "true" }] }));
    run(&sealed, &[]).expect_code(0);
    let people = sealed.run_ralph(&["log"]).expect_code(0);
    for text in ["Iteration 1/10", "Gate true: passed", "Run ended: complete"] {
        assert!(people.stdout.contains(text), "{text}:\n{}", people.stdout);
    }
    let events = sealed.run_ralph(&["log", "--json", "--follow"]).expect_code(0);
    assert_eq!(events.stdout.lines().count(), sealed.events().len());
    let raw = sealed.run_ralph(&["log", "--raw"]).expect_code(0);
    assert!(raw.stdout.contains("<response>DONE</response>"), "{}", raw.stdout);
    sealed.run_ralph(&["log", "nonsense"]).expect_code(2).expect_stderr("nonsense");
}

#[test]
fn a_guardrail_can_run_after_another_one_failed() {
    let sealed = repository();
    let command = |name: &str| format!("touch ../{name}; false");
    let guardrails = json!([
        { "command": command("first") },
        { "command": command("second") },
        { "command": command("third"), "always": true },
    ]);
    sealed.write_script(&done(), &json!({ "guardrails": guardrails, "maximumIterations": 1 }));
    run(&sealed, &[]).expect_code(1);
    let has_run = |name: &str| sealed.root().join(name).exists();
    assert_eq!(["first", "second", "third"].map(has_run), [true, false, true]);
}

#[test]
fn the_call_for_a_commit_message_names_the_changed_files() {
    // Without protected paths the run records no tree, only the commit.
    let sealed = repository();
    let calls = json!([
        { "when": { "role": "message" }, "do": [{ "text": "<response>Add a</response>" }] },
        { "do": [
            { "write": { "path": "a.txt", "text": "x\n" } },
            { "text": "<response>DONE</response>" }
        ] }
    ]);
    sealed.write_script(&calls, &json!({ "scm": { "command": "git", "tasks": ["commit"] } }));
    sealed.write_file(".gitignore", "/.ralph/\n");
    commit_all(&sealed);
    sealed.run_ralph(&["run", "-p", "Write a.txt."]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("The changed files:\na.txt | +1 -0\n"), "{}", prompts[1]);
}

#[test]
fn restored_files_are_not_among_the_changed_ones() {
    let sealed = repository();
    let actions = json!([
        { "write": { "path": "locked.txt", "text": "x" } },
        { "write": { "path": "work.txt", "text": "x" } },
        { "text": "Hm." }
    ]);
    sealed.write_script(&always(actions), &json!({ "protect": ["locked.txt"] }));
    commit_all(&sealed);
    let end = sealed.run_ralph(&["run", "-p", "Do it.", "-m", "1"]).expect_code(1);
    assert!(end.stderr.contains("changed: 1 file: work.txt,"), "{}", end.stderr);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("## Changed files: 1\n"), "{report}");
}
