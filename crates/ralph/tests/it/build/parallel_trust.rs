//! `ralph build --jobs` and agents that cannot be trusted: what they leave in clones, and what of it
//! reaches the run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use super::{assert_statuses, build, handoff, project, settings, task};
use crate::sandbox::backends;

/// Two tasks, the second in the clone of the first, whose agent runs a command.
fn start_two(command: &str, further: Value) -> Sealed {
    let tasks = [task("a", &[]), task("b", &["a"])];
    let command = format!("{command}\necho $RALPH_TASK > $RALPH_TASK.txt");
    let calls = json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }]);
    project(&tasks, &calls, &settings(further))
}

#[test]
fn a_filter_of_the_user_runs_no_file_of_an_agent() {
    for backend in backends().into_iter().chain(["none"]) {
        // With a `PYTHONPATH` or `-m`, many real filters run whatever lies in the current directory.
        let plant = "printf 'touch \"%s\"\\n' \"$PWD/../ran\" > module; \
            echo '* filter=x' > .gitattributes; touch a.txt";
        let sealed = start_two(plant, json!({})).with_sandbox();
        sealed.run_git(&["config", "filter.x.clean", "sh -c '. ./module; cat'"]);
        sealed.run_git(&["config", "filter.x.smudge", "sh -c '. ./module; cat'"]);
        let jobs = ["--jobs", "2", &format!("--sandbox={backend}")];
        build(&sealed, &jobs).expect_code(0);
        assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
        let clones = sealed.state_dir().join("clones");
        let slots = fs::read_dir(clones).expect("clones").flatten();
        let slots = slots.flat_map(|it| fs::read_dir(it.path()).into_iter().flatten().flatten());
        // Without a sandbox git runs filters for the worker as it would for the user.
        let ran = slots.filter(|slot| slot.path().join("ran").exists()).count();
        assert!(ran == 0 || backend == "none", "{backend}");
    }
}

#[test]
fn paths_of_the_sandbox_mean_the_clone() {
    for backend in backends() {
        let look = "cat .env > seen.txt 2> /dev/null; true";
        let sealed = start_two(look, json!({})).with_sandbox();
        sealed.write_file(".env", "of the user\n");
        sealed.write_file(".gitignore", "/.ralph/*\n!/.ralph/settings.json\n.env\n");
        sealed.write_file(".worktreeinclude", ".env\n");
        let hidden = sealed.project_dir().join(".env");
        let mut all: Value =
            serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("settings");
        all["sandbox"] = json!({ "hide": [hidden] });
        sealed.write_file(".ralph/settings.json", &format!("{all:#}"));
        sealed.commit_all("Hide");
        build(&sealed, &["--jobs", "2", &format!("--sandbox={backend}")]).expect_code(0);
        // `landlock` cannot hide a file of the project.
        let expect = if backend == "landlock" { "of the user\n" } else { "" };
        assert_eq!(sealed.read_file("seen.txt"), expect, "{backend}");
    }
}

#[test]
fn warnings_about_the_work_reach_the_run() {
    let weaken = "echo '1 passed in 0.01s' > tests.out; cp /bin/true tool; chmod 4755 tool";
    let gate = "cat tests.out 2> /dev/null || echo '9 passed in 0.01s'";
    let further = json!({ "gates": [{ "name": "t", "kind": "test", "command": gate }] });
    let sealed = start_two(weaken, further);
    let finished = build(&sealed, &["--jobs", "2"]).expect_code(0);
    for text in ["a: gate t: tests: 9 before, 1 now", "a: the agent set setuid"] {
        assert!(finished.stderr.contains(text), "no {text:?} in {}", finished.stderr);
    }
}

#[test]
fn a_program_of_the_project_that_is_in_no_commit_is_that_of_the_run() {
    let tasks = [task("a", &[]), task("b", &["a"])];
    let sealed = project(&tasks, &json!([]), &settings(json!({})));
    let program = "#!/bin/sh\ncat > /dev/null\nmkdir -p tools\n\
        printf '#!/bin/sh\\necho evil > evil.txt\\n' > tools/coder\nchmod +x tools/coder\n\
        echo $RALPH_TASK > $RALPH_TASK.txt\necho Done.\n";
    sealed.write_file("tools/coder", program);
    let path = sealed.project_dir().join("tools/coder");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    sealed.write_file(".gitignore", "/.ralph/*\n!/.ralph/settings.json\n/tools/\n");
    let agent = json!({ "command": "./tools/coder", "kind": "text" });
    let all = json!({ "agent": agent, "review": { "enabled": false }, "preventSleep": false });
    sealed.write_file(".ralph/settings.json", &all.to_string());
    sealed.commit_all("Agent");
    sealed.trust_project(&[]);
    build(&sealed, &["--jobs", "2"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert!(!sealed.project_dir().join("evil.txt").exists());
}

#[test]
fn what_an_agent_left_in_its_clone_makes_no_later_task_done() {
    let tasks = [task("a", &[]), task("b", &["a"])];
    let gate = "test -f target/ok || test ! -f b.txt";
    let parallel = json!({ "mergeAttempts": 1, "flakeRetries": 0 });
    let further = json!({ "gates": [{ "name": "t", "command": gate }], "baseline": "off",
                          "tasks": { "maxAttempts": 1 }, "parallel": parallel });
    let command = "cat .envrc >> seen.txt 2> /dev/null; mkdir -p target; touch target/ok; \
        echo evil > .envrc; echo $RALPH_TASK > $RALPH_TASK.txt";
    let calls = json!([{ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] }]);
    let sealed = project(&tasks, &calls, &settings(further));
    sealed.write_file(".gitignore", "/.ralph/*\n!/.ralph/settings.json\n/target/\n.envrc\n");
    sealed.commit_all("Ignore");
    build(&sealed, &["--jobs", "2"]).expect_code(1);
    // The gate ran in the work tree of the run, where no agent has been.
    assert_statuses(&sealed, &[("a", "done"), ("b", "failed")]);
    assert_eq!(sealed.read_file("seen.txt"), "", "the next agent has the autorun file");
}
