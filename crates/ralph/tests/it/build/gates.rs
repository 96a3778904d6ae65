//! What checks the work: gates of the list, agents as gates, protected paths, the baseline.

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use super::{assert_clean, assert_statuses, build, commit_all, handoff, made, plan, project};
use super::{settings, task, worker, writes};
use crate::repository;

/// Writes a list of one task.
fn write_list(sealed: &Sealed) {
    sealed.write_file("plan.json", &plan(&[task("a", &[])]).to_string());
}

#[test]
fn verify_commands_of_the_list_are_gates() {
    let sealed = repository();
    let calls = json!([
        { "when": { "promptLacks": "failed with exit code" }, "do": [
            { "touch": "wrong" }, handoff("Guessed.")
        ] },
        { "do": [{ "touch": "right" }, handoff("Read the message.")] }
    ]);
    sealed.write_script(&calls, &settings(json!({})));
    let plan = json!({
        "project": "p", "verify_commands": ["test -f right"], "tasks": [task("a", &[])]
    });
    sealed.write_file("plan.json", &plan.to_string());
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(0);
    assert!(sealed.prompts()[0].contains("## Broken before\n"), "{}", sealed.prompts()[0]);
    assert!(sealed.prompts()[0].contains("`test -f right`"));
    let reported = "Guardrail \"test -f right\" failed with exit code 1.";
    assert!(sealed.prompts()[1].contains(reported), "{}", sealed.prompts()[1]);
    assert_eq!(made(&sealed), ["ralph[2]: a — The a"]);
}

#[test]
fn a_baseline_that_is_required_stops_a_broken_project() {
    let with = settings(json!({
        "guardrails": [{ "command": "echo all is red; false" }], "baseline": "require"
    }));
    let sealed = project(&[task("a", &[])], &worker(), &with);
    build(&sealed, &[]).expect_code(1).expect_stderr("all is red");
    assert_eq!(sealed.prompts().len(), 0, "no agent is called");
    assert_statuses(&sealed, &[("a", "pending")]);
    assert_clean(&sealed);
}

/// Settings with agents as gates, whose scenario sees `RALPH_ROLE` as `review`.
fn judged() -> Value {
    settings(json!({ "gates": [
        { "name": "spec", "kind": "spec", "agent": {} },
        { "name": "quality", "kind": "quality", "agent": {} }
    ] }))
}

#[test]
fn the_spec_gate_is_hard_and_the_quality_gate_soft() {
    let refuses = |feedback: &str| json!({ "verdict": "changes_requested", "feedback": feedback, "criteria": [] });
    let calls = json!([
        { "when": { "role": "review", "promptContains": "needless complexity" }, "do": [
            { "write": { "path": "meddled", "text": "x" } },
            { "run": { "command": "sleep 1" } },
            { "verdict": refuses("Names are unclear.") }
        ] },
        { "when": { "role": "review", "iteration": 1 }, "do": [
            { "verdict": refuses("No reset flow in a.txt:1.") }
        ] },
        { "when": { "role": "review" }, "do": [
            { "verdict": { "verdict": "approved", "feedback": "", "criteria": [] } }
        ] },
        writes("a.txt")
    ]);
    let sealed = project(&[task("a", &[])], &calls, &judged());
    let end = build(&sealed, &[]).expect_code(0).expect_stderr("changed files, which was undone");
    for line in end.stderr.lines().filter(|line| line.contains("Gate spec: passed")) {
        assert!(!line.contains("exit code"), "{line}");
    }
    let quality = end.stderr.lines().find(|line| line.contains("Gate quality: failed"));
    assert!(!quality.expect("a line").contains("(0."), "{quality:?}");
    let prompts = sealed.prompts();
    // Attempt, spec; attempt, spec, quality.
    assert_eq!(prompts.len(), 5);
    assert!(prompts[1].contains("+++ b/a.txt"), "{}", prompts[1]);
    assert!(prompts[2].contains("No reset flow in a.txt:1."), "{}", prompts[2]);
    assert_eq!(made(&sealed), ["ralph[2]: a — The a"]);
    assert!(!sealed.project_dir().join("meddled").exists());
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("- quality (1x): Names are unclear."), "{report}");
    assert_clean(&sealed);
}

#[test]
fn work_that_changes_protected_paths_is_refused_and_the_next_attempt_starts_without_the_change() {
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [
            { "write": { "path": "tests/check.sh", "text": "exit 0\n" } },
            { "write": { "path": "tests/new.sh", "text": "exit 0\n" } },
            { "write": { "path": "a.txt", "text": "x\n" } },
            handoff("Eased it.")
        ] },
        { "do": [{ "write": { "path": "b.txt", "text": "x\n" } }, handoff("Did it.")] }
    ]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({ "protect": ["tests/**"] })));
    sealed.write_file("tests/check.sh", "exit 1\n");
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 2);
    let named = "They have been restored; do the task without touching them:\n- tests/check.sh\n- tests/new.sh\n";
    assert!(prompts[1].contains(named), "{}", prompts[1]);
    assert_eq!(sealed.read_file("tests/check.sh"), "exit 1\n");
    assert!(!sealed.project_dir().join("tests/new.sh").exists());
    assert_eq!(sealed.read_file("a.txt"), "x\n", "the rest of the work stays");
    assert_eq!(made(&sealed), ["Settings", "ralph[2]: a — The a"]);
    let warnings = json!(sealed.find_events("warned")).to_string();
    let (_, kept) = warnings.split_once("restored; kept on ").expect("a warning");
    let (kept, _) = kept.split_once('"').expect("the end of the text");
    assert_eq!(sealed.run_git(&["show", &format!("{kept}:tests/check.sh")]), "exit 0\n");
}

#[test]
fn a_reviewer_of_refused_work_sees_the_restored_files_and_leaves_them() {
    let calls = json!([
        { "when": { "role": "review" }, "do": [
            { "run": { "command": "test -f tests/check.sh" } },
            { "verdict": { "verdict": "approved", "feedback": "", "criteria": [] } }
        ] },
        { "when": { "iteration": 1 }, "do": [
            { "run": { "command": "rm tests/check.sh" } }, handoff("Removed it.")
        ] },
        writes("a.txt")
    ]);
    let with = json!({
        "protect": ["tests/**"],
        "gates": [{ "name": "spec", "kind": "spec", "agent": {}, "always": true }]
    });
    let sealed = project(&[task("a", &[])], &calls, &settings(with));
    sealed.write_file("tests/check.sh", "exit 1\n");
    commit_all(&sealed);
    let end = build(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.prompts().len(), 4, "two attempts, each with the reviewer");
    assert!(!end.stderr.contains("which was undone"), "{}", end.stderr);
    assert_eq!(sealed.read_file("tests/check.sh"), "exit 1\n");
    assert_eq!(made(&sealed), ["Settings", "ralph[2]: a — The a"]);
}

#[test]
fn task_that_names_a_protected_path_may_change_it() {
    let mut speaks = task("a", &[]);
    speaks["description"] = json!("Rewrite tests/check.sh.");
    let calls = json!([{ "do": [
        { "write": { "path": "tests/check.sh", "text": "exit 0\n" } }, handoff("Rewrote it.")
    ] }]);
    let sealed = project(&[speaks], &calls, &settings(json!({ "protect": ["tests/**"] })));
    build(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.prompts().len(), 1);
}

/// A task whose attempts take a while, with a gate and limits for the whole task.
fn slow_task(gate: &str, limits: Value) -> Sealed {
    let calls = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "x\n" } }, { "sleep": 0.02 }, handoff("Tried.")
    ] }]);
    let with = json!({ "guardrails": [{ "command": gate }], "timeouts": { "global": limits } });
    project(&[task("a", &[])], &calls, &settings(with))
}

#[test]
fn long_task_is_warned_about_once() {
    let limits = json!({ "soft": "1ms", "hard": "1h" });
    let sealed = slow_task("test $(wc -l < a.txt) -ge 3", limits);
    build(&sealed, &[]).expect_code(0);
    let warned = sealed.find_events("warned");
    let is_warning = |event: &&Value| event["text"].to_string().contains("task a has taken longer");
    assert_eq!(warned.iter().filter(is_warning).count(), 1, "{warned:?}");
}

#[test]
fn task_beyond_its_time_limit_is_abandoned() {
    let sealed = slow_task("false", json!({ "soft": "1ms", "hard": "2ms" }));
    build(&sealed, &[]).expect_code(1);
    assert_eq!(sealed.prompts().len(), 1);
    assert_statuses(&sealed, &[("a", "failed")]);
}

#[test]
fn the_reason_of_a_failed_npm_script_is_a_line_of_the_script() {
    let npm = "printf '\n> project@1.0.0 test\n> node run.js\n\nboom: it broke\nnpm ERR! Test failed.\n'; exit 3";
    let calls = json!([{ "do": [
        { "append": { "path": "a.txt", "text": "x\n" } }, handoff("Tried.")
    ] }]);
    let gate = json!([{ "name": "tests", "kind": "test", "command": npm }]);
    let with = json!({ "gates": gate, "tasks": { "maxAttempts": 1 } });
    let sealed = project(&[task("a", &[])], &calls, &settings(with));
    let end = build(&sealed, &[]).expect_code(1);
    let (before, summary) = end.stderr.split_once("Run ended").expect("a summary");
    assert!(summary.contains("tests: boom: it broke\n"), "{}", end.stderr);
    assert!(before.contains("⎿  boom: it broke\n"), "{}", end.stderr);
}

/// An agent reinstalls dependencies: ignored links and files are replaced.
#[test]
fn gate_may_run_installed_packages() {
    use std::os::unix::fs::symlink;
    let mut tried = vec!["none"];
    tried.extend(crate::sandbox::backends().into_iter().filter(|it| *it == "native"));
    for backend in tried {
        for install in [
            "true",
            "ln -sfn /bin/bash .venv/bin/python; printf '#!/bin/sh\\n:\\n' > node_modules/.bin/jest",
        ] {
            let sealed = repository();
            let work = format!("{install}; echo x > a.txt");
            let calls = json!([{ "do": [{ "run": { "command": work } }, handoff("Did it.")] }]);
            let commands = [".venv/bin/python -c 'test -f a.txt'", "node_modules/.bin/jest"];
            let gates = commands.map(|command| json!({ "command": command }));
            sealed.write_script(&calls, &settings(json!({ "guardrails": gates })));
            write_list(&sealed);
            sealed.write_file(".gitignore", ".venv\nnode_modules\n");
            sealed.write_file("node_modules/jest/jest.sh", "#!/bin/sh\ntest -f a.txt\n");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            let jest = sealed.project_dir().join("node_modules/jest/jest.sh");
            std::fs::set_permissions(jest, mode).expect("a mode");
            for (target, link) in
                [("/bin/sh", ".venv/bin/python"), ("../jest/jest.sh", "node_modules/.bin/jest")]
            {
                let link = sealed.project_dir().join(link);
                std::fs::create_dir_all(link.parent().expect("a directory")).expect("made");
                symlink(target, link).expect("a link");
            }
            commit_all(&sealed);
            let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
            command.args(["build"]).env("RALPH_SANDBOX_BACKEND", backend);
            ralph_testkit::sealed::Running::start_command(command).wait_for_end().expect_code(0);
            assert_eq!(made(&sealed), ["ralph[1]: a — The a"], "{backend}: {install}");
        }
    }
}

/// Links at protected paths do not count against an agent that did not change them.
#[test]
fn existing_links_are_not_refused() {
    use std::os::unix::fs::symlink;
    let sealed = repository();
    sealed.write_script(
        &worker(),
        &settings(json!({ "guardrails": [{ "command": "local/check" }] })),
    );
    write_list(&sealed);
    sealed.write_file(".gitignore", "/local/\n");
    std::fs::create_dir(sealed.project_dir().join("local")).expect("made");
    symlink("/bin/true", sealed.project_dir().join("local/check")).expect("a link");
    std::fs::create_dir(sealed.project_dir().join("hooks")).expect("made");
    sealed.write_file("hooks/readme", "hooks of the team\n");
    std::fs::remove_dir_all(sealed.project_dir().join(".git/hooks")).expect("gone");
    symlink("../hooks", sealed.project_dir().join(".git/hooks")).expect("a link");
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(0);
    assert!(sealed.project_dir().join(".git/hooks").is_symlink());
    assert_eq!(made(&sealed), ["ralph[1]: a — The a"]);
}

/// A test file that is an argument of a test runner may be changed, unlike a script.
#[test]
fn test_file_of_a_runner_is_not_a_protected_script() {
    let sealed = repository();
    sealed.write_program("node", "#!/bin/sh\ntest \"$1\" = --test && grep -q new \"$2\"\n");
    let calls = json!([{ "do": [
        { "append": { "path": "a.test.js", "text": "new\n" } }, handoff("Added a test.")
    ] }]);
    let with = settings(json!({ "guardrails": [{ "command": "node --test a.test.js" }] }));
    sealed.write_script(&calls, &with);
    write_list(&sealed);
    sealed.write_file("a.test.js", "old\n");
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(0);
    assert_eq!(made(&sealed), ["ralph[1]: a — The a"]);
}

/// A script that the settings remove from `protect` may be changed.
#[test]
fn the_settings_lift_the_protection_of_a_script() {
    let calls = json!([{ "do": [
        { "write": { "path": "ci/check.sh", "text": "exit 0\n" } }, handoff("Rewrote it.")
    ] }]);
    let with = |protect: Value| {
        let settings = json!({
            "guardrails": [{ "command": "sh ci/check.sh" }], "protect": protect,
            "tasks": { "maxAttempts": 1 }
        });
        let sealed = repository();
        sealed.write_script(&calls, &super::settings(settings));
        write_list(&sealed);
        sealed.write_file("ci/check.sh", "exit 1\n");
        commit_all(&sealed);
        sealed
    };
    let sealed = with(json!([]));
    let remedy = "`\"protect\": [\"!ci/check.sh\"]` in the settings";
    let end = build(&sealed, &[]).expect_code(1);
    let output_text = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = sealed.find_events("refused")[0]["refusal"]["output"].to_string();
    assert!(shown.replace("\\\"", "\"").contains(remedy), "{shown}\n{output_text}");
    let sealed = with(json!(["!ci/check.sh"]));
    build(&sealed, &[]).expect_code(0);
    assert_eq!(made(&sealed), ["ralph[1]: a — The a"]);
}

/// List changes of an agent do not lift a protection.
#[test]
fn an_amendment_that_names_a_protected_path_lifts_nothing() {
    let add = json!([{ "action": "add", "task": {
        "id": "n", "title": "Rewrite tests/check.sh", "description": "Rewrite tests/check.sh.",
        "acceptance_criteria": ["it is rewritten"]
    }, "reason": "found it" }]);
    let calls = json!([
        { "when": { "task": "a" }, "do": [
            { "touch": "a.txt" },
            { "handoff": {
                "task_completed": { "summary": "Did a.", "fully_complete": true },
                "plan_amendments": add
            } }
        ] },
        { "do": [
            { "write": { "path": "tests/check.sh", "text": "exit 0\n" } }, handoff("Rewrote it.")
        ] }
    ]);
    let with = settings(json!({ "protect": ["tests/**"], "tasks": { "maxAttempts": 1 } }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    sealed.write_file("tests/check.sh", "exit 1\n");
    commit_all(&sealed);
    build(&sealed, &[]).expect_code(1);
    assert_statuses(&sealed, &[("a", "done"), ("n", "failed")]);
    assert_eq!(made(&sealed), ["Settings", "ralph[1]: a — The a"]);
}

#[test]
fn soft_limits_are_reported_when_they_pass() {
    // Agent and gate wait until the warning is in the journal.
    let wait = |text: &str| format!("until grep -rqs '{text}' ..; do sleep 0.1; done");
    let calls = json!([{ "do": [
        { "run": { "command": wait("the agent passed its soft[ ]limit of 1") } },
        { "write": { "path": "a.txt", "text": "1" } },
        super::handoff("Wrote it.")
    ] }]);
    let gate = json!({
        "name": "slow", "kind": "test", "command": wait("gate slow passed its soft[ ]limit of 1"),
        "softTimeout": "1s", "hardTimeout": "60s"
    });
    let with = settings(json!({
        "gates": [gate], "baseline": "off",
        "timeouts": { "implement": { "soft": "1s", "hard": "60s" } }
    }));
    let sealed = project(&[task("a", &[])], &calls, &with);
    let end = build(&sealed, &[]).expect_code(0);
    for line in ["the agent passed its soft limit of 1", "gate slow passed its soft limit of 1"] {
        assert_eq!(end.stderr.matches(line).count(), 1, "{line}: {}", end.stderr);
    }
    let kinds: Vec<String> = sealed
        .events()
        .iter()
        .filter(|event| event["type"] != "warned" || event["text"].to_string().contains("soft"))
        .map(|event| event["type"].as_str().unwrap_or_default().to_owned())
        .collect();
    let place = |kind: &str| kinds.iter().position(|it| it == kind).expect("it happened");
    assert_eq!(kinds[place("asked") + 1], "warned", "{kinds:?}");
    assert_eq!(kinds[place("gate_checked") - 1], "warned", "{kinds:?}");
}

#[test]
fn all_gates_run_with_the_setting() {
    for (all, expect) in [(false, 1), (true, 3)] {
        let sealed = crate::repository();
        let mut settings = json!({ "guardrails": [
            { "command": "echo one; false" },
            { "command": "echo two; false" },
            { "command": "echo three; false" },
        ] });
        settings["runAllGates"] = json!(all);
        sealed.write_script(&json!([{ "do": [{ "claim": "DONE" }] }]), &settings);
        crate::run(&sealed, &["-m", "1"]).expect_code(1);
        assert_eq!(sealed.find_events("gate_checked").len(), expect);
    }
}

#[test]
fn a_strategy_that_has_no_effect_is_warned_about() {
    let warning = "`validationStrategy` has no effect here";
    let lint = json!({ "validationStrategy": "lenient",
        "gates": [{ "kind": "lint", "command": "false" }] });
    let plain = json!({ "validationStrategy": "lenient", "guardrails": [{ "command": "true" }] });
    let named = json!({ "validationStrategy": "tests_only", "gates": [{ "command": "true" }] });
    // A gate without a kind is no test.
    for (settings, expect) in [(plain, true), (named, false), (lint, false)] {
        let sealed = crate::repository();
        sealed.write_script(&json!([{ "do": [{ "claim": "DONE" }] }]), &settings);
        let end = crate::run(&sealed, &["-m", "1"]).expect_code(0);
        assert_eq!(end.stderr.contains(warning), expect, "{}", end.stderr);
    }
}
