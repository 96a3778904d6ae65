//! Whole runs in a sandbox: agent, gates and git start inside, and what happened is reported.

use ralph_testkit::sealed::{Finished, Running, Sealed, wait_until};
use serde_json::{Value, json};

use super::backends;

/// Runs ralph with the user's choice of backend.
fn ralph(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command
        .args(words)
        .env("RALPH_SANDBOX_BACKEND", backend)
        .env("MY_SECRET_TOKEN", "canary-of-the-environment");
    Running::start_command(command).wait_for_end()
}

fn done() -> Value {
    json!({ "text": "<response>DONE</response>" })
}

#[test]
fn agent_gates_and_git_work_inside_and_reach_nothing_else() {
    for backend in backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        std::fs::write(sealed.root().join("home/secret.txt"), "canary of the home")
            .expect("written");
        let outside = sealed.root().join("outside");
        std::fs::create_dir(&outside).expect("a directory");
        let outside = outside.display();
        let probes = "{ echo x > $OUT/agent; } 2>/dev/null && touch agent-got-out; \
                      cat ~/secret.txt > agent-read 2>/dev/null; \
                      test -n \"$MY_SECRET_TOKEN\" && touch agent-knows; \
                      ls $STATE > agent-saw 2>/dev/null; true";
        let probes = probes.replace("$OUT", &outside.to_string());
        let probes = probes.replace("$STATE", &sealed.state_dir().join("..").display().to_string());
        let gate = format!(
            "test -f work.txt && ! {{ echo x > {outside}/gate; }} 2>/dev/null && \
             {{ test \"$RALPH_SANDBOX\" = landlock || ! {{ echo x > .ralph/settings.json; }} 2>/dev/null; }}"
        );
        sealed.write_script(
            &json!([{ "do": [
                { "write": { "path": "work.txt", "text": "done\n" } },
                { "run": { "command": probes } },
                done(),
            ] }]),
            &json!({
                "guardrails": [{ "command": gate }],
                "scm": { "command": "git", "tasks": ["commit"] },
            }),
        );
        let words = ["run", "-p", "Work.", "-m", "1", "--include-dirty"];
        let end = ralph(&sealed, backend, &words);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
        assert_eq!(sealed.subjects().len(), 2, "{backend}");
        for name in ["agent-got-out", "agent-knows"] {
            assert!(!sealed.project_dir().join(name).exists(), "{backend}: {name}");
        }
        assert!(!sealed.root().join("outside/agent").exists(), "{backend}");
        assert!(!sealed.root().join("outside/gate").exists(), "{backend}");
        assert!(!sealed.read_file("agent-read").contains("canary"), "{backend}");
        assert!(!end.stderr.contains("no sandbox"), "{}", end.stderr);
        let started = &sealed.find_events("run_started")[0];
        assert_eq!(
            started["recipe"]["sandbox"]["backend"],
            json!({ "this": backend }),
            "{started}"
        );
        assert_eq!(sealed.survivors(), [""; 0]);
        assert_eq!(
            sealed.run_git(&["status", "--short"]),
            "",
            "{backend}: nothing of the walls is left"
        );
    }
}

#[test]
fn refused_connections_are_in_the_summary_and_the_report() {
    for backend in backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let ralph_itself = env!("CARGO_BIN_EXE_ralph");
        let connect = format!(
            "echo | {ralph_itself} __connect evil.example 443 > said 2>&1 || true; \
             echo | {ralph_itself} __connect evil.example 443 >> said 2>&1 || true"
        );
        sealed.write_script(
            &json!([{ "do": [{ "run": { "command": connect } }, done()] }]),
            &json!({}),
        );
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        let words = "evil.example:443 refused: it is not on the list of allowed hosts (2 times)";
        let warned = sealed.find_events("warned");
        let message: Vec<&str> = warned.iter().filter_map(|event| event["text"].as_str()).collect();
        assert!(message.iter().any(|text| text.contains(words)), "{backend}: {message:?}");
        let report = ralph(&sealed, backend, &["report"]).stdout;
        assert!(report.contains(words), "{backend}: {report}");
        let message = sealed.read_file("said");
        assert!(message.contains("sandbox refused a connection"), "{backend}: {message}");
    }
}

#[test]
fn git_hooks_reach_neither_the_journal_nor_git_config() {
    for backend in backends().into_iter().filter(|backend| *backend != "landlock") {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let hook = sealed.project_dir().join(".git/hooks/pre-commit");
        std::fs::write(&hook, "#!/bin/sh\nsh ./check.sh\n").expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, mode).expect("a mode");
        let config = sealed.read_file(".git/config");
        let tampering = format!(
            "echo x >> .git/config; echo x > .git/hooks/added; \
             find {} -name journal.jsonl -exec sh -c 'echo garbage >> \"$1\"' - '{{}}' ';'; \
             echo ran > hook-ran; exit 0\n",
            sealed.state_dir().display()
        );
        sealed.write_script(
            &json!([{ "do": [{ "write": { "path": "check.sh", "text": tampering } }, done()] }]),
            &json!({ "scm": { "command": "git", "tasks": ["commit"] } }),
        );
        let words = ["run", "-p", "Work.", "-m", "1", "--include-dirty"];
        let end = ralph(&sealed, backend, &words);
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        assert_eq!(sealed.subjects().len(), 2, "{backend}");
        assert_eq!(sealed.read_file("hook-ran"), "ran\n", "{backend}: the hook ran");
        assert_eq!(sealed.read_file(".git/config"), config, "{backend}");
        assert!(!sealed.project_dir().join(".git/hooks/added").exists(), "{backend}");
        let run = sealed.runs().pop().expect("a run");
        let journal = std::fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
        assert!(!journal.contains("garbage"), "{backend}: {journal}");
    }
}

#[test]
fn endless_output_is_stopped() {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let backend = backends()[0];
    let limits = json!({ "sandbox": { "limits": { "output": "100k" } }, "retries": { "max": 0 } });
    let flood = json!({ "run": { "command": "yes | head -c 1000000", "show": "tool" } });
    sealed.write_script(&json!([{ "do": [flood, done()] }]), &limits);
    let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
    assert_ne!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.contains("printed too much"), "{}", end.stderr);
    let mut gated = limits.clone();
    gated["guardrails"] = json!([{ "command": "yes" }]);
    sealed.write_script(&json!([{ "do": [done()] }]), &gated);
    let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let log = sealed.find_events("gate_checked");
    assert!(log.iter().any(|it| it.to_string().contains("printed too much")), "{log:?}");
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn disk_flood_is_stopped() {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let backend = backends()[0];
    let limits = json!({ "sandbox": { "limits": { "growth": "4M" } }, "retries": { "max": 0 } });
    // Small files, so that no file size limit applies.
    let fill = "mkdir -p fill; for i in $(seq 64); do head -c 1000000 /dev/zero > fill/$i; done; \
                sleep 60";
    sealed.write_script(&json!([{ "do": [{ "run": { "command": fill } }, done()] }]), &limits);
    let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
    assert_ne!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.contains("sandbox.limits.growth"), "{}", end.stderr);
    assert!(ralph(&sealed, backend, &["report"]).stdout.contains("sandbox.limits.growth"));
    std::fs::remove_dir_all(sealed.project_dir().join("fill")).expect("removed");
    let mut gated = limits.clone();
    gated["guardrails"] = json!([{ "command": fill }]);
    sealed.write_script(&json!([{ "do": [done()] }]), &gated);
    let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let log = sealed.find_events("gate_checked");
    assert!(log.iter().any(|it| it.to_string().contains("sandbox.limits.growth")), "{log:?}");
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn run_without_a_sandbox_is_marked_everywhere() {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    sealed.write_script(&json!([{ "do": [done()] }]), &json!({}));
    for (backend, words) in [
        ("none", "there is no sandbox: agent and gates can do whatever you can"),
        ("guard", "only the command guard restricts the agent on this machine"),
    ] {
        let flag = format!("--sandbox={backend}");
        let end = ralph(&sealed, "auto", &["run", "-p", "Work.", "-m", "1", &flag]);
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let words_said: Vec<&str> = end.stderr.split_whitespace().collect();
        assert!(words_said.join(" ").contains(words), "{}", end.stderr);
        let report = ralph(&sealed, backend, &["report"]).stdout;
        assert!(report.contains(words), "{report}");
    }
}

#[test]
fn a_backend_that_does_not_work_is_refused_before_anything_happens() {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    sealed.write_script(&json!([{ "do": [done()] }]), &json!({}));
    // Either engine may be installed; there is no image.
    let end = ralph(&sealed, "container", &["run", "-p", "Work.", "-m", "1"]);
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("does not work here"), "{}", end.stderr);
    assert!(end.stderr.contains("--no-sandbox"), "{}", end.stderr);
    assert_eq!(sealed.runs().len(), 0, "no run was begun");
}

#[test]
fn resume_uses_the_same_sandbox() {
    for backend in backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let probe = "{ echo x > ../outside.txt; } 2>/dev/null; echo $RALPH_SANDBOX >> walls; true";
        sealed.write_script(
            &json!([{ "do": [{ "run": { "command": probe } }, { "text": "More to do." }] }]),
            &json!({}),
        );
        let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
        assert_eq!(end.code, Some(1), "{backend}: {}", end.stderr);
        let end = ralph(&sealed, "none", &["resume", "-m", "2"]);
        assert_eq!(end.code, Some(1), "{backend}: {}", end.stderr);
        assert!(!sealed.root().join("outside.txt").exists(), "{backend}");
        assert_eq!(sealed.read_file("walls"), format!("{backend}\n").repeat(2), "{}", end.stderr);
    }
}

/// A project whose gate reads a store in the home that the sandbox hides.
fn project_with_hidden_store() -> Sealed {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let store = sealed.root().join("home/.mystore");
    std::fs::create_dir_all(&store).expect("a directory");
    std::fs::write(store.join("lib.txt"), "a library").expect("written");
    let command = "touch called; echo done > work.txt";
    let handoff = json!({ "task_completed": { "summary": "Done.", "fully_complete": true } });
    sealed.write_script(
        &json!([{ "do": [{ "run": { "command": command } }, { "handoff": handoff }] }]),
        &json!({
            "review": { "enabled": false },
            "guardrails": [{ "command": "cat ~/.mystore/lib.txt" }],
        }),
    );
    let task = json!({ "id": "a", "title": "A", "description": "Make a.", "status": "pending",
        "acceptance_criteria": ["a"], "depends_on": [] });
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": [task] }).to_string());
    sealed.commit_all("Settings");
    sealed
}

#[test]
fn gate_that_fails_only_in_the_sandbox_ends_the_run_before_an_agent_call() {
    // Landlock refuses instead of hiding.
    for backend in backends().into_iter().filter(|backend| *backend != "landlock") {
        let sealed = project_with_hidden_store();
        let end = ralph(&sealed, backend, &["build"]);
        assert_eq!(end.code, Some(1), "{backend}: {}{}", end.stdout, end.stderr);
        assert_eq!(sealed.prompts().len(), 0, "{backend}: no agent is asked");
        assert!(!sealed.project_dir().join("called").exists(), "{backend}");
        let setting = r#"{"sandbox":{"home":[".mystore"]}}"#;
        for words in [
            "because `~/.mystore/lib.txt` is hidden in the sandbox",
            &format!("put this into your own settings: {setting}"),
            "ralph sandbox exec --as gate -- sh -c 'cat ~/.mystore/lib.txt'",
        ] {
            assert!(end.stderr.contains(words), "{backend}: {words}: {}", end.stderr);
        }
        assert!(!end.stderr.contains("ralph resume"), "{}", end.stderr);
        let own = sealed.root().join("home/.config/ralph");
        std::fs::create_dir_all(&own).expect("a directory");
        std::fs::write(own.join("settings.json"), setting).expect("written");
        let end = ralph(&sealed, backend, &["build"]);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
        assert!(sealed.project_dir().join("called").exists(), "{backend}");
    }
}

#[test]
fn init_tries_its_gates_once_in_the_sandbox() {
    for backend in backends().into_iter().filter(|backend| *backend != "landlock") {
        let sealed = project_with_hidden_store();
        std::fs::remove_file(sealed.project_dir().join(".ralph/settings.json")).expect("removed");
        sealed.write_file("Makefile", "test:\n\tcat ~/.mystore/lib.txt\nlint:\n\ttrue\n");
        let words = ["init", "--workflow", "prompt"];
        let end = ralph(&sealed, backend, &words);
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
        for words in [
            "passed  make lint",
            "BLOCKED make test: `~/.mystore/lib.txt` is hidden in the sandbox",
            r#"written with {"sandbox":{"home":[".mystore"]}}"#,
            "1. ralph trust ",
        ] {
            assert!(end.stdout.contains(words), "{backend}: {words}: {}", end.stdout);
        }
        // As written, the gate passes once the user trusts it.
        let run = ["run", "-p", "base", "-m", "1"];
        ralph(&sealed, backend, &run).expect_code(2).expect_stderr("sandbox.home");
        ralph(&sealed, backend, &["trust", "--yes"]).expect_code(0);
        let exec = ["sandbox", "exec", "--as", "gate", "--", "make", "test"];
        ralph(&sealed, backend, &exec).expect_code(0);
        std::fs::remove_file(sealed.project_dir().join(".ralph/settings.json")).expect("removed");
        let end = ralph(&sealed, backend, &[&words[..], &["--no-try"]].concat());
        assert!(!end.stdout.contains("in the sandbox"), "{backend}: {}", end.stdout);
    }
}

/// The file is read-only in a sandbox: the agent cannot restore it, and ralph's git must be able to.
#[test]
fn a_protected_file_that_the_user_edits_meanwhile_is_restored_and_the_work_continues() {
    for backend in backends() {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let wait = "touch started; until [ -e go ]; do sleep 0.05; done; echo x > work.txt";
        sealed.write_script(
            &json!([{ "do": [{ "run": { "command": wait } }, done()] }]),
            &json!({ "protect": ["rules.md"], "commit": "ralph", "guardrails": [{ "command": "test -f work.txt" }] }),
        );
        sealed.write_file("rules.md", "the rules\n");
        sealed.write_file(".gitignore", "/started\n/go\n");
        sealed.commit_all("Settings");
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(["run", "-p", "Work.", "-m", "2"]).env("RALPH_SANDBOX_BACKEND", backend);
        let run = Running::start_command(command);
        wait_until("the agent works", || sealed.project_dir().join("started").exists());
        sealed.write_file("rules.md", "other rules\n");
        sealed.write_file("go", "");
        let end = run.wait_for_end();
        assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
        assert_eq!(sealed.read_file("rules.md"), "the rules\n", "{backend}");
        let warnings = json!(sealed.find_events("warned")).to_string();
        let (_, kept) = warnings.split_once("`rules.md`; restored; kept on ").expect("a warning");
        let (kept, _) = kept.split_once('"').expect("the end of the text");
        assert_eq!(sealed.run_git(&["show", &format!("{kept}:rules.md")]), "other rules\n");
        assert_eq!(sealed.run_git(&["status", "--short"]), "", "{backend}");
    }
}
