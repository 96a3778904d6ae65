//! Bad input: one clear message, the documented exit code, nothing half-written.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use crate::{always, done, first_then, repository, run, sealed};

#[test]
fn the_prompt_is_given_exactly_once() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({}));
    sealed.write_file("PROMPT.md", "text");
    for (words, expect) in [
        (["run"].as_slice(), "There is no prompt."),
        (&["run", "-p", "x", "-f", "PROMPT.md"], "exclude each other"),
        (&["run", "-p", "  \n"], "The prompt is empty."),
        (&["run", "-f", "missing.md"], "missing.md"),
        (&["run", "-f", "."], "it is a directory"),
        (&["run", "-p", "x", "-m", "0"], "0"),
        (&["run", "-p", "x", "--max-cost=-1"], "--max-cost"),
        (&["run", "-p", "x", "--max-cost", "-1"], "for example --max-cost 5"),
        (&["run", "-p", "x", "--max-tokens", "-1"], "'--max-tokens <N>': -1 is not in 1.."),
        (&["run", "-p", "x", "-m", "-5"], "invalid value '-5' for '--maximum-iterations <N>'"),
        (&["run", "-p", "x", "--max-time", "-90"], "--max-time: `-90` is not a duration"),
        (&["build", "-5"], "invalid value '-5' for '[N]'"),
        (&["run", "--sandbox", "native"], "write --sandbox=native"),
        (&["build", "--sandbox", "native"], "write --sandbox=native"),
        (&["build", "--branch", "foo"], "write --branch=foo"),
        (&["trust", "nonexist"], "Cannot open the project `nonexist`"),
        (&["run", "-p", "x", "--max-cost=nan"], "--max-cost"),
        (&["run", "-p", "x", "--max-cost=much"], "write an amount in US dollars, such as 20"),
        (&["run", "-p", "x", "--max-time", "soon"], "--max-time"),
        (&["run", "-p", "x", "--sandbox=nativ"], "a similar value exists: 'native'"),
        (&["run", "-p", "x", "--sandbox", "--no-sandbox"], "cannot be used with"),
        (&["run", "-p", "x", "--config", "missing.json"], "missing.json"),
        (&["run", "-p", "x", "-C", "nowhere"], "nowhere"),
        (&["run", "-p", "x", "--sand"], "--sand"),
        (&["fly"], "fly"),
        (&["resume"], "no run to resume"),
        (&["resume", "20260101-000000-xxxx"], "no run `20260101-000000-xxxx`"),
    ] {
        let end = sealed.run_ralph(words);
        assert_eq!(end.code, Some(2), "{words:?}: {}", end.stderr);
        assert!(end.stderr.contains(expect), "{words:?}: {}", end.stderr);
    }
    assert_eq!(sealed.runs().len(), 0, "nothing was begun");
}

#[test]
fn a_task_file_that_is_none_is_explained() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    fs::create_dir_all(sealed.project_dir().join("ralph")).expect("a directory");
    sealed.write_file("specs/overview.md", "# Search\n\nSearch in notes.\n");
    sealed.write_file("ralph/prd.md", "# Notes\n\nSearch in notes.\n");
    let link = sealed.project_dir().join("ralph/tasks.json");
    for (target, expect) in [
        ("../gone/tasks.json", "is a link to `../gone/tasks.json`, which does not exist"),
        ("tasks.json", "is a link to `tasks.json`, which cannot be followed"),
    ] {
        symlink(target, &link).expect("a link");
        for words in [&["build"][..], &["plan"], &["tasks", "list"], &["tasks", "validate"]] {
            sealed.run_ralph(words).expect_code(2).expect_stderr(expect);
        }
        fs::remove_file(&link).expect("removed");
    }
    sealed.write_file("docs/tasks.md", "- [ ] Search\n");
    sealed
        .run_ralph(&["build", "--plan", "docs/tasks.md"])
        .expect_code(2)
        .expect_stderr("`docs/tasks.md` is Markdown")
        .expect_stderr("`ralph init --from docs/tasks.md`");
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn a_misspelled_variable_is_warned_about_in_every_check() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    for words in [&["run", "-p", "x", "--dry-run"][..], &["doctor"], &["run", "-p", "x"]] {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(words).env("RALPH_MAX_TURN", "5");
        let end = ralph_testkit::sealed::Running::start_command(command).wait_for_end();
        let end = end.expect_code(0);
        let text = end.stdout + &end.stderr;
        assert!(
            text.contains("RALPH_MAX_TURN is not a setting (did you mean"),
            "{words:?}: {text}"
        );
    }
}

#[test]
fn a_number_is_a_duration_in_seconds() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({ "budget": { "maxTime": "90" } }));
    run(&sealed, &[]).expect_code(0);
    run(&sealed, &["--max-time", "90"]).expect_code(0);
    let words = ["clean", "--older-than", "30"];
    sealed.run_ralph(&words).expect_code(2).expect_stderr("--older-than 30d");
}

#[test]
fn a_home_that_cannot_be_used_is_named() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({}));
    let start = |home: &str| {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(["run", "-p", "base"]).env("HOME", home).env_remove("XDG_STATE_HOME");
        ralph_testkit::sealed::Running::start_command(command).wait_for_end().expect_code(2)
    };
    for home in ["", "relative"] {
        start(home).expect_stderr("neither HOME nor XDG_STATE_HOME is an absolute path");
    }
    start("/proc/home").expect_stderr("`stateDir` in the settings, or XDG_STATE_HOME");
}

#[test]
fn hints_name_what_helps() {
    let sealed = sealed();
    let end = run(&sealed, &["--agent", "/"]).expect_code(4);
    assert!(!end.stderr.contains("install `/`"), "{}", end.stderr);
    sealed.write_file(".ralph/settings.json", r#"{"agent": {"kind": "sim"}}"#);
    run(&sealed, &[]).expect_code(2).expect_stderr("needs a scenario file");
    let end = sealed.run_ralph(&["sandbox", "exec", "--backend", "sbx", "true"]);
    assert!(
        !end.stderr.contains("--sandbox=") && !end.stderr.contains("--no-sandbox"),
        "{}",
        end.stderr
    );
}

#[test]
fn all_settings_errors_are_reported_at_once() {
    let sealed = sealed();
    sealed.write_file(
        ".ralph/settings.json",
        "{\n  \"maxIterations\": 3,\n  \"agent\": { \"command\": 7 },\n  \"guardrails\": [{ \"command\": \"\", \"failAction\": \"SHOUT\" }]\n}\n",
    );
    let end = run(&sealed, &[]).expect_code(2);
    for text in [
        "\n  .ralph/settings.json:2:3: unknown key `maxIterations`",
        "maximumIterations",
        "settings.json:3:",
        "settings.json:4:",
        "APPEND",
    ] {
        assert!(end.stderr.contains(text), "{text}:\n{}", end.stderr);
    }
    sealed.write_file(".ralph/settings.json", "{ \"agent\": }");
    run(&sealed, &[]).expect_code(2).expect_stderr("settings.json:1:");
    sealed.write_file(".ralph/settings.json", "{}");
    run(&sealed, &[]).expect_code(2).expect_stderr("No agent is set.");
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn missing_agent_is_reported_at_once() {
    let sealed = sealed();
    run(&sealed, &["--agent", "no-such-agent"]).expect_code(4).expect_stderr("no-such-agent");
    run(&sealed, &["--agent", "claude"]).expect_code(4).expect_stderr("npm install");
    sealed.write_program("closed", "#!/bin/sh\n");
    let closed = sealed.bin_dir().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o644)).expect("a mode");
    let closed = closed.to_string_lossy().into_owned();
    run(&sealed, &["--agent", &closed]).expect_code(4).expect_stderr("may not be executed");
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn missing_gate_command_is_reported_before_the_first_agent_call() {
    let sealed = sealed();
    let gates = json!([{ "command": "test -d ." }, { "command": "no-such-runner --all" }]);
    sealed.write_script(&done(), &json!({ "guardrails": gates }));
    run(&sealed, &[]).expect_code(2).expect_stderr("`no-such-runner` was not found");
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn other_agent_does_not_get_the_configured_flags() {
    let sealed = sealed();
    sealed.write_program("one", "#!/bin/sh\necho one: \"$@\"; echo '<response>DONE</response>'\n");
    sealed.write_program("two", "#!/bin/sh\necho two: \"$@\"; echo '<response>DONE</response>'\n");
    sealed.write_file(
        ".ralph/settings.json",
        &json!({ "agent": { "command": "one", "flags": ["--only-one"] } }).to_string(),
    );
    let end = run(&sealed, &["--agent", "one"]).expect_code(0);
    assert!(end.stderr.contains("one: --only-one"), "{}", end.stderr);
    let end = run(&sealed, &["--agent", "two"]).expect_code(0);
    assert!(!end.stderr.contains("two: --only-one"), "{}", end.stderr);
    run(&sealed, &["--agent", "codex"]).expect_code(4).expect_stderr("@openai/codex");
}

#[test]
fn an_agent_that_vanishes_ends_the_run() {
    let sealed = sealed();
    sealed.write_program("fickle", "#!/bin/sh\nrm -- \"$0\"\necho working\n");
    run(&sealed, &["--agent", "fickle"]).expect_code(4).expect_stderr("fickle");
}

#[test]
fn commits_need_a_repository() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({ "scm": { "command": "git", "tasks": ["commit"] } }));
    run(&sealed, &[]).expect_code(5).expect_stderr("git init");
    sealed.write_script(&done(), &json!({ "onFailure": "rollback" }));
    run(&sealed, &[]).expect_code(5);
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0).expect_stderr("not a git repository");
}

#[test]
fn a_repository_that_git_cannot_use_is_refused() {
    let commands = [
        &["run", "-p", "base"][..],
        &["run", "-p", "base", "--dry-run"],
        &["build"],
        &["plan"],
        &["archive"],
    ];
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    sealed.write_file("plan.json", r#"{"project":"x","tasks":[{"id":"T1","title":"t","description":"d","status":"pending","order":1,"acceptance_criteria":["a"],"depends_on":[]}]}"#);
    sealed.write_file("ralph/prd.md", "# Notes\n\nSearch in notes.\n");
    let run_without_git = |words: &[&str]| {
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(words).env("PATH", sealed.bin_dir());
        ralph_testkit::sealed::Running::start_command(command).wait_for_end()
    };
    for words in commands {
        run_without_git(words).expect_code(5).expect_stderr("git cannot be started");
    }
    let doctor = run_without_git(&["doctor"]).expect_code(5);
    assert!(!doctor.stdout.contains("git init"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("✘ there is a repository"), "{}", doctor.stdout);

    sealed.write_file(".git/HEAD", "");
    for words in commands {
        sealed.run_ralph(words).expect_code(5).expect_stderr("/.git` is damaged");
    }
    let doctor = sealed.run_ralph(&["doctor"]).expect_code(5);
    assert!(!doctor.stdout.contains("git init"), "{}", doctor.stdout);
    sealed.write_file(".git/HEAD", "ref: refs/heads/main\n");
    sealed.run_ralph(&["doctor"]).expect_code(0);
    fs::remove_dir_all(sealed.project_dir().join(".git/objects")).expect("removed");
    run(&sealed, &[]).expect_code(5).expect_stderr("/.git` is damaged");
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn a_job_that_is_none_is_refused() {
    let sealed = repository();
    for job in ["refs/x", "jobs/x", "x/jobs/y"] {
        let words = ["worker", "--job", job, "--remote", "nope"];
        sealed.run_ralph(&words).expect_code(2).expect_stderr("is not the ref of a job");
    }
}

#[test]
fn a_bare_repository_is_refused() {
    let sealed = sealed();
    sealed.run_git(&["init", "--bare", "--quiet", "."]);
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(5).expect_stderr("bare");
}

#[test]
fn symlinks_in_ralphs_paths_are_not_followed() {
    let sealed = sealed();
    let target = sealed.root().join("target");
    fs::create_dir(&target).expect("a directory");
    symlink(&target, sealed.project_dir().join(".ralph")).expect("a link");
    let end = run(&sealed, &["--agent", "true"]).expect_code(2);
    assert!(end.stderr.contains(".ralph"), "{}", end.stderr);
    assert_eq!(fs::read_dir(&target).expect("readable").count(), 0);
}

#[test]
fn unwritable_state_is_reported_before_the_run() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({}));
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).env("RALPH_STATE_DIR", "/proc/ralph");
    let end = ralph_testkit::sealed::Running::start_command(command).wait_for_end();
    end.expect_code(2).expect_stderr("/proc/ralph");
}

#[test]
fn a_full_disk_stops_the_run_and_loses_nothing() {
    let sealed = sealed();
    // A file size limit is the only full disk that a test can create without root.
    let calls = first_then(json!([{ "text": "Hm." }]), json!([{ "claim": "DONE" }]));
    sealed.write_script(&calls, &json!({ "maximumIterations": 5 }));
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let mut command = sealed.build_command("sh");
    command.args(["-c", &format!("trap '' XFSZ; ulimit -f 16; exec {ralph} run -p \"$0\"")]);
    command.arg("x".repeat(5_000));
    let end = ralph_testkit::sealed::Running::start_command(command).wait_for_end();
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("journal"), "{}", end.stderr);
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn a_view_that_cannot_be_written_is_a_warning() {
    let sealed = repository();
    let actions = json!([{ "delete": { "path": ".ralph/logs" } }, { "write": { "path": ".ralph/logs", "text": "" } }, { "claim": "DONE" }]);
    sealed.write_script(&always(actions), &json!({ "guardrails": [{ "command": "true" }] }));
    run(&sealed, &[]).expect_code(0).expect_stderr("warning");
}

#[test]
fn without_arguments_a_hint_is_printed() {
    let end = sealed().run_ralph(&[]).expect_code(0);
    for command in ["ralph demo", "ralph init", "ralph run"] {
        assert!(end.stdout.contains(command), "{}", end.stdout);
    }
    sealed().run_ralph(&["--version"]).expect_code(0);
    sealed().run_ralph(&["-V"]).expect_code(0);
    sealed().run_ralph(&["run", "--help"]).expect_code(0);
}
