//! Attempts that fail: what is recorded of them, the feedback for the next one, stuck tasks, and
//! abandoned tasks.

use serde_json::{Value, json};

use super::{
    assert_clean, assert_statuses, build, handoff, list, made, project, settings, statuses,
};
use super::{failure_branches, task, worker, writes};

/// An agent that does one task wrong until its prompt contains a text.
fn wrong_until(id: &str, words: &str) -> Value {
    json!([
        { "when": { "task": id, "promptLacks": words }, "do": [
            { "append": { "path": format!("{id}.txt"), "text": "wrong\n" } },
            handoff("Guessed.")
        ] },
        writes("$RALPH_TASK.txt")
    ])
}

/// A gate that rejects what `wrong_until` writes.
fn no_wrong() -> Value {
    json!([{ "name": "tests", "kind": "test", "command": "! grep -n wrong *.txt" }])
}

#[test]
fn failed_gate_is_recorded_and_fed_back() {
    let calls = wrong_until("a", "Guardrail");
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({ "gates": no_wrong() })));
    // The record is read while the second attempt is checked.
    let spying = json!([{ "name": "tests", "kind": "test", "command":
        "cp .ralph/state.md ../seen.md 2>/dev/null; ! grep -n wrong *.txt" }]);
    sealed.write_script(&calls, &settings(json!({ "gates": spying })));
    sealed.run_git(&["commit", "-qam", "Gates"]);
    build(&sealed, &[]).expect_code(0);
    let record = std::fs::read_to_string(sealed.root().join("seen.md")).expect("a record");
    let keys: Vec<&str> = record
        .lines()
        .skip(1)
        .take_while(|line| *line != "---")
        .filter_map(|line| line.split_once(':').map(|(key, _)| key))
        .collect();
    assert_eq!(
        keys,
        [
            "task_id",
            "iteration",
            "max_iterations",
            "last_gate",
            "exit_code",
            "error_hash",
            "timestamp",
            "stuck_count",
            "strategy_shifts",
            "files_modified"
        ]
    );
    assert!(
        record.contains(
            "task_id: a\niteration: 1\nmax_iterations: 5\nlast_gate: tests\nexit_code: 1\n"
        ),
        "{record}"
    );
    assert!(record.contains("files_modified:\n  - a.txt\n"), "{record}");
    assert!(record.contains("## Test Output (verbatim)\n```\n1:wrong\n```\n"), "{record}");
    assert!(record.contains("## Attempt History\n"), "{record}");
    assert!(!sealed.project_dir().join(".ralph/state.md").exists(), "success removes the record");
    let prompt = &sealed.prompts()[1];
    assert!(prompt.contains("failed with exit code 1."), "{prompt}");
    assert!(prompt.contains("1:wrong"), "{prompt}");
    assert_eq!(list(&sealed)["tasks"][0]["retry_count"], 1);
    assert_eq!(made(&sealed), ["Gates", "ralph[2]: a — The a"]);
    assert_clean(&sealed);
}

#[test]
fn failing_task_moves_to_a_failure_branch_and_the_next_continues() {
    let mut tasks = [task("a", &[]), task("b", &["a"]), task("c", &[])];
    tasks[0]["notes"] = json!("Use bcrypt.");
    let sealed = project(
        &tasks,
        &wrong_until("a", "no such words"),
        &settings(json!({ "gates": no_wrong(), "tasks": { "maxAttempts": 2 } })),
    );
    let end = build(&sealed, &[]).expect_code(1);
    assert!(end.stderr.contains("task a failed; b waits for a"), "{}", end.stderr);
    assert_statuses(&sealed, &[("a", "failed"), ("b", "pending"), ("c", "done")]);
    assert_eq!(made(&sealed), ["ralph[3]: c — The c"]);
    assert!(!sealed.project_dir().join("a.txt").exists(), "the tree went back");
    let branches = failure_branches(&sealed);
    let [branch] = &branches[..] else { panic!("{branches:?}") };
    assert!(branch.starts_with("wip/ralph-fail-a-"), "{branch}");
    assert_eq!(sealed.run_git(&["show", &format!("{branch}:a.txt")]), "wrong\nwrong\n");
    let account = sealed.run_git(&["show", &format!("{branch}:ralph-failure.md")]);
    assert!(account.contains("failed: none of 2 attempts passed"), "{account}");
    assert!(account.contains("1:wrong\n2:wrong"), "{account}");
    let message = sealed.run_git(&["log", "-1", "--format=%B", branch]);
    assert!(message.contains("Iterations: 2/2\nLast gate: tests\nError hash: "), "{message}");
    let notes = list(&sealed)["tasks"][0]["notes"].as_str().unwrap_or_default().to_owned();
    assert!(notes.starts_with("Use bcrypt.\n") && notes.contains(branch.as_str()), "{notes}");
    // The passing tests are those of the commit.
    assert!(!sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]).contains("a.txt"));
}

#[test]
fn failed_task_does_not_stop_the_next_run() {
    let sealed = project(
        &[task("a", &[])],
        &wrong_until("a", "no such words"),
        &settings(json!({ "gates": no_wrong(), "tasks": { "maxAttempts": 1 } })),
    );
    build(&sealed, &[]).expect_code(1);
    // The status is in the work tree's list, which is no reason to refuse.
    let end = build(&sealed, &[]).expect_code(1).expect_stderr("task a failed");
    end.expect_stderr("ralph build --retry-failed");
    let branches = ["branch", "--list", "--format=%(refname:short)", "wip/*"];
    let failed = sealed.run_git(&branches);
    assert!(failed.starts_with("wip/ralph-fail-a-"), "{failed}");
    sealed.write_script(&worker(), &settings(json!({ "gates": no_wrong() })));
    sealed.run_git(&["commit", "-qm", "Better", "--", ".ralph/settings.json"]);
    build(&sealed, &["--retry-failed"]).expect_code(0);
    assert_eq!(sealed.run_git(&branches), failed.replace("wip/", "wip/archive/"));
    assert_statuses(&sealed, &[("a", "done")]);
    assert_clean(&sealed);
}

#[test]
fn a_number_with_a_task_is_its_attempts() {
    let sealed = project(
        &[task("a", &[])],
        &wrong_until("a", "no such words"),
        &settings(json!({ "gates": no_wrong() })),
    );
    build(&sealed, &["--task", "a", "3"]).expect_code(1).expect_stderr("task a failed");
    assert_eq!(sealed.prompts().len(), 3);
}

#[test]
fn failed_work_can_be_rolled_back_after_every_attempt() {
    let sealed = project(
        &[task("a", &[]), task("b", &[])],
        &wrong_until("a", "no such words"),
        &settings(json!({
            "gates": no_wrong(), "tasks": { "maxAttempts": 2 }, "onFailure": "rollback"
        })),
    );
    build(&sealed, &[]).expect_code(1);
    let branch = &failure_branches(&sealed)[0];
    assert_eq!(sealed.run_git(&["show", &format!("{branch}:a.txt")]), "wrong\n");
    let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept"]);
    assert!(kept.lines().count() >= 1, "{kept}");
    assert_statuses(&sealed, &[("a", "failed"), ("b", "done")]);
}

#[test]
fn the_same_failure_asks_for_another_approach_and_another_agent() {
    let calls = json!([
        { "when": { "promptContains": "## The same failure 3 times" }, "do": [
            { "write": { "path": "a.txt", "text": "never asked\n" } }, handoff("Again.")
        ] },
        { "do": [{ "append": { "path": "a.txt", "text": "wrong\n" } }, handoff("Guessed.")] }
    ]);
    let gates = json!([{ "name": "tests", "kind": "test", "command": "echo expected right; grep -q right a.txt" }]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    let stronger = sealed.root().join("stronger.json");
    let strong = json!({ "calls": [{ "do": [
        { "write": { "path": "a.txt", "text": "right\n" } }, handoff("Thought.")
    ] }] });
    std::fs::write(&stronger, strong.to_string()).expect("written");
    let with = json!({ "gates": gates, "agents": { "escalate": { "flags": [stronger] } } });
    sealed.write_script(&calls, &settings(with));
    sealed.run_git(&["commit", "-qam", "Stronger"]);
    let end = build(&sealed, &[]).expect_code(0);
    let named = "Agent for a task that is stuck: sim (";
    assert_eq!(end.stderr.matches(named).count(), 1, "{}", end.stderr);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 4);
    let shifted: Vec<bool> =
        prompts.iter().map(|it| it.contains("## The same failure 3 times")).collect();
    assert_eq!(shifted, [false, false, false, true]);
    let stuck = &prompts[3];
    for text in [
        "write down its cause in one sentence",
        "Attempts 1 to 3: the check `tests` failed. Its author wrote: Guessed. (`a.txt`)\n",
    ] {
        assert!(stuck.contains(text), "{text}: {stuck}");
    }
    // The failure is quoted once, and the right goal is not forbidden.
    assert_eq!(stuck.matches("expected right\n").count(), 1, "{stuck}");
    assert!(!stuck.contains("Do NOT") && !stuck.contains("error_hash"), "{stuck}");
    assert_eq!(sealed.read_file("a.txt"), "right\n");
}

#[test]
fn stuck_for_good_gives_up_before_the_attempts_are_used() {
    let sealed = project(
        &[task("a", &[])],
        &json!([{ "do": [{ "append": { "path": "a.txt", "text": "x\n" } }, handoff("Tried.")] }]),
        &settings(
            json!({ "guardrails": [{ "command": "echo always the same; false" }], "tasks": { "maxAttempts": 20 } }),
        ),
    );
    build(&sealed, &["9"]).expect_code(1);
    assert_eq!(sealed.prompts().len(), 5);
    let notes = list(&sealed)["tasks"][0]["notes"].to_string();
    assert!(notes.contains("stuck, the same failure 5 times"), "{notes}");
}

#[test]
fn missing_file_error_adds_the_named_files_to_the_prompt() {
    let calls = json!([
        { "when": { "promptContains": "### names.txt" }, "do": [
            { "write": { "path": "a.txt", "text": "right\n" } }, handoff("Looked it up.")
        ] },
        { "do": [{ "append": { "path": "a.txt", "text": "wrong\n" } }, handoff("Guessed.")] }
    ]);
    let command =
        "grep -q right a.txt || { echo \"names.txt:1: NameError: x is not defined\"; exit 1; }";
    let sealed = project(
        &[task("a", &[])],
        &calls,
        &settings(json!({
            "guardrails": [{ "command": command }], "memory": { "enabled": false }
        })),
    );
    sealed.write_file("names.txt", "the name is right\n");
    sealed.run_git(&["add", "names.txt"]);
    sealed.run_git(&["commit", "-qm", "Names"]);
    build(&sealed, &["9"]).expect_code(0);
    let prompts = sealed.prompts();
    // Three identical failures, one strategy shift, and then the file, within five attempts.
    assert_eq!(prompts.len(), 5);
    assert!(prompts[4].contains("### names.txt\n```\nthe name is right\n"), "{}", prompts[4]);
    assert!(!prompts[3].contains("the name is right"), "{}", prompts[3]);
}

#[test]
fn an_attempt_that_changes_nothing_has_failed() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [handoff("It was there already.")] },
        writes("a.txt")
    ]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    assert!(sealed.prompts()[1].contains("changed nothing in the work tree"));
    assert_eq!(made(&sealed), ["ralph[2]: a — The a"]);
}

#[test]
fn blocked_status_counts_the_second_time() {
    let calls = json!([
        { "when": { "task": "a" }, "do": [{ "handoff": {
            "task_completed": { "summary": "Cannot.", "fully_complete": false },
            "blocked": { "needs": "an API key", "why": "it is missing" }
        } }] },
        writes("$RALPH_TASK.txt")
    ]);
    let sealed = project(&[task("a", &[]), task("b", &[])], &calls, &settings(json!({})));
    build(&sealed, &[]).expect_code(1);
    assert_statuses(&sealed, &[("a", "failed"), ("b", "done")]);
    assert_eq!(sealed.prompts().len(), 3);
    assert!(sealed.prompts()[1].contains("it needs an API key (it is missing)"));
    let notes = list(&sealed)["tasks"][0]["notes"].to_string();
    assert!(notes.contains("blocked: needs an API key (it is missing)"), "{notes}");
}

#[test]
fn a_commit_hook_that_refuses_is_feedback() {
    let calls = json!([
        { "when": { "promptContains": "no ticket" }, "do": [
            { "write": { "path": "ticket", "text": "T-1\n" } }, handoff("Found it.")
        ] },
        writes("a.txt")
    ]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    let hook = "#!/bin/sh\ngit show :ticket >/dev/null 2>&1 || { echo no ticket; exit 1; }\n";
    sealed.write_program("hook", hook);
    std::fs::copy(
        sealed.bin_dir().join("hook"),
        sealed.project_dir().join(".git/hooks/pre-commit"),
    )
    .expect("copied");
    build(&sealed, &[]).expect_code(0);
    assert_eq!(made(&sealed), ["ralph[2]: a — The a"]);
    assert!(sealed.prompts()[1].contains("no ticket"));
    assert_clean(&sealed);
    assert_statuses(&sealed, &[("a", "done")]);
}

/// A handoff that reports its work complete and leaves a constraint.
fn claims(summary: &str, constraint: &str) -> Value {
    json!({ "handoff": {
        "task_completed": { "summary": summary, "fully_complete": true },
        "constraints_discovered": [{ "constraint": constraint, "impact": "all of it" }]
    } })
}

#[test]
fn the_handoff_of_an_abandoned_task_does_not_reach_later_tasks() {
    let calls = json!([
        { "when": { "task": "a" }, "do": [
            { "write": { "path": "wrong", "text": "" } }, claims("Tokens are in cookies.", "Cookies only")
        ] },
        { "when": { "role": "compact" }, "do": [{ "structured": {
            "project_summary": "p", "completed_work": [], "active_constraints": [],
            "architectural_decisions": [], "file_knowledge": []
        } }] },
        { "do": [{ "run": { "command": "touch $RALPH_TASK.txt" } }, handoff("Wrote b.")] }
    ]);
    let with = settings(json!({
        "guardrails": [{ "command": "test ! -e wrong" }],
        "tasks": { "maxAttempts": 2 }, "memory": { "everyIterations": 2 }
    }));
    let sealed = project(&[task("a", &[]), task("b", &[]), task("c", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(1);
    assert_statuses(&sealed, &[("a", "failed"), ("b", "done"), ("c", "done")]);
    let asked = |text: &str| -> Vec<String> {
        sealed.prompts().into_iter().filter(|prompt| prompt.contains(text)).collect()
    };
    // The next attempt at the same task gets it in its prompt, without what failed work claims.
    let again = &asked("ID: a\n")[1];
    let line = "Attempt 1: the check `test ! -e wrong` failed. Its author wrote: Tokens are in cookies. (`wrong`)\n";
    assert!(again.contains(line) && !again.contains("Cookies only"), "{again}");
    assert!(again.contains("Their changes are still in the work tree"), "{again}");
    for id in ["b", "c"] {
        for prompt in asked(&format!("ID: {id}\n")) {
            assert!(!prompt.contains("Cookies only"), "{prompt}");
            assert!(!prompt.contains("Tokens are in cookies"), "{prompt}");
        }
    }
    let later = &asked("ID: c\n")[0];
    assert!(later.contains("[b] Wrote b. Passed the checks, committed. 1 file."), "{later}");
    let compacting = &asked("Handoffs since then")[0];
    assert!(compacting.contains("this work was NOT accepted (see `outcome`)"), "{compacting}");
    let stored = sealed.read_file(".ralph/handoffs/handoff-001.json");
    assert!(stored.contains("\"is\": \"failed\""), "{stored}");
}

#[test]
fn after_a_rollback_the_prompt_says_where_the_work_is() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "write": { "path": "wrong", "text": "" } }, claims("Wrote it.", "Cookies only")
        ] },
        { "do": [{ "run": { "command": "touch $RALPH_TASK.txt" } }, handoff("Wrote it well.")] }
    ]);
    let with = settings(json!({
        "guardrails": [{ "command": "test ! -e wrong" }], "onFailure": "rollback"
    }));
    let sealed = project(&[task("a", &[]), task("b", &[])], &calls, &with);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept/"]);
    let kept = kept.lines().next().expect("a kept ref");
    for text in [
        "The changes of the last attempt were rolled back: the work tree is as it was before it.",
        &format!("`git diff HEAD {kept}` shows them"),
        "Attempt 1: the check `test ! -e wrong` failed. Its author wrote: Wrote it. (`wrong`)\n",
    ] {
        assert!(prompts[1].contains(text), "{text}: {}", prompts[1]);
    }
    assert!(!prompts[1].contains("still in the work tree"), "{}", prompts[1]);
    assert!(!prompts[2].contains("Cookies only"), "{}", prompts[2]);
    assert!(prompts[2].contains("[a] Wrote it well. Passed the checks"), "{}", prompts[2]);
}

#[test]
fn the_time_limit_of_a_run_costs_no_attempt() {
    let command = "[ -e ../began ] || { touch ../began; sleep 60; }; echo x > $RALPH_TASK.txt";
    let calls = json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }]);
    let with = settings(json!({ "tasks": { "maxAttempts": 1 } }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    build(&sealed, &["--max-time", "2s"]).expect_code(1).expect_stderr("time budget used up");
    assert_eq!(statuses(&sealed), [("a".to_owned(), "in_progress".to_owned())]);
    assert_eq!(failure_branches(&sealed), [""; 0]);
    sealed.run_ralph(&["resume", "--max-time", "10m"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done")]);
    assert!(!sealed.prompts()[1].contains("Attempt 1"), "{}", sealed.prompts()[1]);
}
