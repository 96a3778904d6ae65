//! Where settings come from, and what agents and the machine see of a run.

use serde_json::json;

use ralph_testkit::sealed::Running;

use crate::{always, done, repository, run, sealed};

#[test]
fn later_layers_win_up_to_the_flags() {
    let sealed = sealed();
    let hm = always(json!([{ "text": "Hm." }]));
    sealed.write_script(&hm, &json!({ "maximumIterations": 5 }));
    sealed.write_file(".ralph/settings.local.json", r#"{ "maximumIterations": 4 }"#);
    let iterations = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args([&["run", "-p", "base"], words].concat()).envs(variables.iter().copied());
        Running::start_command(command).wait_for_end().expect_code(1);
        sealed.find_events("iteration_started").len()
    };
    assert_eq!(iterations(&[], &[]), 4, "the local file");
    assert_eq!(iterations(&[], &[("RALPH_MAXIMUM_ITERATIONS", "3")]), 3, "the environment");
    assert_eq!(iterations(&[], &[("RALPH_MAX_ITERATIONS", "2")]), 2, "its other name");
    assert_eq!(iterations(&["-m", "1"], &[("RALPH_MAX_ITERATIONS", "2")]), 1, "the flag");
}

#[test]
fn a_key_value_file_is_read_and_never_executed() {
    let sealed = sealed();
    sealed.write_program("teller", "#!/bin/sh\necho \"$@\"; echo '<response>DONE</response>'\n");
    sealed.write_file(
        "conf",
        "AGENT_CLI=teller\nAGENT_ARGS=\"--loud 'a b'\"\nRALPH_MAX_ITERATIONS=1\n",
    );
    let end = run(&sealed, &["--config", "conf"]).expect_code(0);
    assert!(end.stderr.contains("--loud a b"), "{}", end.stderr);
    sealed.write_file("evil", "AGENT_CLI=teller\nX=$(touch pwned)\n");
    run(&sealed, &["--config", "evil"]).expect_code(2).expect_stderr("evil:2");
    assert!(!sealed.project_dir().join("pwned").exists());
}

#[test]
fn agents_see_the_variables_they_are_meant_to_see() {
    let sealed = sealed();
    sealed.write_program("teller", "#!/bin/sh\nenv | sort; echo '<response>DONE</response>'\n");
    let agent = json!({ "command": "teller", "env": { "ADDED": "yes" }, "envDeny": ["*_SECRET"] });
    sealed.write_file(".ralph/settings.json", &json!({ "agent": agent }).to_string());
    sealed.trust_project(&[]);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).env("MY_SECRET", "hunter2").env("MINE", "kept");
    let end = Running::start_command(command).wait_for_end().expect_code(0);
    for line in
        ["ADDED=yes", "MINE=kept", "RALPH_ROLE=prompt", "RALPH_ITERATION=1", "RALPH_RUN_ID="]
    {
        assert!(end.stderr.contains(line), "{line}:\n{}", end.stderr);
    }
    assert!(!end.stderr.contains("hunter2"), "{}", end.stderr);
}

#[test]
fn another_agent_may_write_commit_messages() {
    let sealed = repository();
    sealed.write_program("scribe", "#!/bin/sh\necho 'Written by the scribe'\n");
    let work = json!([{ "write": { "path": "work.txt", "text": "" } }, { "claim": "DONE" }]);
    let settings = json!({
        "agents": { "message": { "command": "scribe" } },
        "scm": { "command": "git", "tasks": ["commit"] }
    });
    sealed.write_script(&always(work), &settings);
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.commit_all("Settings");
    run(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.subjects()[0], "Written by the scribe");
}

#[test]
fn the_machine_is_kept_awake_and_let_go_again() {
    let sealed = sealed();
    sealed.write_program(
        "systemd-inhibit",
        "#!/bin/sh\necho \"$@\" > ../inhibited\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n",
    );
    let actions = json!([{ "waitFor": { "path": "../inhibited" } }, { "claim": "DONE" }]);
    sealed.write_script(&always(actions), &json!({ "preventSleep": true }));
    run(&sealed, &[]).expect_code(0);
    let words = std::fs::read_to_string(sealed.root().join("inhibited")).expect("it was called");
    assert!(words.contains("--what=idle:sleep"), "{words}");
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn iterations_wait_for_the_delay() {
    let sealed = sealed();
    let settings = json!({ "delaySeconds": 1, "maximumIterations": 2 });
    sealed.write_script(&always(json!([{ "text": "Hm." }])), &settings);
    let begun = std::time::Instant::now();
    run(&sealed, &[]).expect_code(1);
    assert!(begun.elapsed().as_secs() >= 1, "a second between the two");
    assert_eq!(sealed.find_events("waiting")[0]["reason"], "delay");
}

#[test]
fn gate_strategy_is_applied() {
    let gates =
        json!([{ "kind": "lint", "command": "false" }, { "kind": "test", "command": "true" }]);
    for (strategy, code) in [("strict", 1), ("lenient", 0), ("tests_only", 0)] {
        let sealed = sealed();
        let settings =
            json!({ "gates": gates, "validationStrategy": strategy, "maximumIterations": 1 });
        sealed.write_script(&done(), &settings);
        assert_eq!(run(&sealed, &[]).code, Some(code), "{strategy}");
    }
}

#[test]
fn doctor_reports_a_rust_toolchain_that_is_not_installed() {
    let sealed = repository();
    let toolchains = sealed.root().join("home/.rustup/toolchains");
    std::fs::create_dir_all(toolchains.join("1.80.0-x86_64-unknown-linux-gnu")).expect("made");
    for (file, text, missing) in [
        ("rust-toolchain.toml", "[toolchain]\nchannel = \"1.80.0\"\n", None),
        ("rust-toolchain.toml", "[toolchain]\nchannel = \"1.80\"\n", Some("1.80")),
        ("rust-toolchain", "nightly-2026-01-01\n", Some("nightly-2026-01-01")),
        ("rust-toolchain", "\u{1b}[31m; rm\n", None),
    ] {
        sealed.write_file(file, text);
        let shown = sealed.run_ralph(&["doctor"]).stdout;
        let line = missing.map(|it| format!("the Rust toolchain {it} of {file} is not installed"));
        assert_eq!(shown.contains("the Rust toolchain"), line.is_some(), "{text}: {shown}");
        assert!(line.is_none_or(|line| shown.contains(&line)), "{text}: {shown}");
        let hint = missing.map(|it| format!("rustup toolchain install {it}"));
        assert!(hint.is_none_or(|hint| shown.contains(&hint)), "{text}: {shown}");
        std::fs::remove_file(sealed.project_dir().join(file)).expect("removed");
    }
}

#[test]
fn toolchains_of_other_versions_are_reported_by_doctor_and_before_the_first_call() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    sealed.write_program("node", "#!/bin/sh\necho v18.1.0\n");
    sealed.write_file(".nvmrc", "v20\n");
    sealed.write_file(".python-version", "3.12\n");
    sealed.write_file(".venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.4\n");
    sealed.write_file(".venv/bin/python", "");
    let texts = [
        ".nvmrc asks for Node 20, and `node` is 18.1.0",
        ".python-version asks for 3.12, and the virtualenv .venv has Python 3.11.4",
    ];
    let shown = sealed.run_ralph(&["doctor"]).stdout;
    let end = run(&sealed, &[]).expect_code(0);
    for text in texts {
        assert!(shown.contains(text), "{text}: {shown}");
        let (before, _) = end.stderr.split_once("Iteration 1").expect("an iteration");
        assert!(before.contains(text), "{text}: {}", end.stderr);
    }
    std::fs::remove_file(sealed.project_dir().join(".venv/bin/python")).expect("removed");
    let shown = sealed.run_ralph(&["doctor"]).stdout;
    assert!(shown.contains("the virtualenv .venv has no Python"), "{shown}");
    sealed.write_file(".nvmrc", "lts/*\n");
    sealed.write_file(".venv/bin/python", "");
    sealed.write_file(".python-version", "3.11\n");
    let shown = sealed.run_ralph(&["doctor"]).stdout;
    assert!(!shown.contains("asks for") && !shown.contains("virtualenv"), "{shown}");
}
