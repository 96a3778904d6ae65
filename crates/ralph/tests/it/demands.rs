//! What the settings of a cloned project may not run or read without trust.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use expect_test::expect;
use ralph_testkit::sealed::{Running, Sealed};
use serde_json::{Value, json};

use crate::{done, repository, run, sealed};

const REFUSED: &str = "settings of this project need your trust";

/// Writes a program into the project that leaves a trace outside of it.
fn write_evil(sealed: &Sealed, path: &str) {
    let trace = sealed.root().join("ran");
    sealed.write_file(path, &format!("#!/bin/sh\ntouch '{}'\n", trace.display()));
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(sealed.project_dir().join(path), mode).expect("a mode");
}

fn has_run(sealed: &Sealed) -> bool {
    sealed.root().join("ran").exists()
}

/// Returns a repository whose agent does some work and is done.
fn worker(settings: &Value) -> Sealed {
    let sealed = repository();
    write_evil(&sealed, "evil.sh");
    let message =
        json!({ "when": { "role": "message" }, "do": [{ "text": "<response>Work</response>" }] });
    let work =
        json!({ "do": [{ "write": { "path": "w.txt", "text": "w" } }, { "claim": "DONE" }] });
    sealed.write_script(&json!([message, work]), settings);
    sealed.commit_all("Settings");
    sealed
}

#[test]
fn version_control_of_a_project_runs_nothing_on_the_host_without_trust() {
    for (command, tasks) in [
        ("./evil.sh", json!(["push"])),
        ("sh", json!(["evil.sh"])),
        ("env", json!(["./evil.sh"])),
        ("git", json!(["-c alias.x=!./evil.sh x"])),
        ("git", json!(["-c core.fsmonitor=./evil.sh status"])),
        ("git", json!(["commit", "push --receive-pack=./evil.sh . HEAD:refs/heads/z"])),
    ] {
        let sealed =
            worker(&json!({ "scm": { "command": command, "tasks": tasks } })).with_sandbox();
        let end = run(&sealed, &[]).expect_code(2).expect_stderr(REFUSED);
        assert!(end.stderr.contains("evil.sh"), "{}", end.stderr);
        assert!(end.stderr.contains("outside of the sandbox, as you"), "{}", end.stderr);
        assert!(sealed.runs().is_empty() && !has_run(&sealed), "{command} {tasks}");
        sealed.trust_project(&[]);
        let end = run(&sealed, &[]);
        assert!(command == "git" || has_run(&sealed), "{command} {tasks}: {}", end.stderr);
    }
    for tasks in [json!(["commit"]), json!(["commit", "push"]), json!(["push origin"])] {
        let sealed = worker(&json!({ "scm": { "command": "git", "tasks": tasks } }));
        run(&sealed, &["--dry-run"]).expect_code(0);
    }
}

#[test]
fn git_inside_the_project_is_not_used() {
    let sealed = worker(&json!({ "scm": { "command": "git", "tasks": ["push"] } }));
    write_evil(&sealed, "bin/git");
    let path =
        format!("{}:/usr/local/bin:/usr/bin:/bin", sealed.project_dir().join("bin").display());
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).env("PATH", path);
    Running::start_command(command)
        .wait_for_end()
        .expect_code(2)
        .expect_stderr("`scm.command` would run `git`");
}

#[test]
fn files_outside_of_the_project_need_trust() {
    let sealed = sealed();
    sealed.write_program("helper", "#!/bin/sh\ncat > ../asked\necho '<response>DONE</response>'\n");
    let home = sealed.root().join("home");
    fs::create_dir_all(home.join(".ssh")).expect("a directory");
    fs::write(home.join(".ssh/id"), "PRIVATE KEY\n").expect("written");
    symlink(home.join(".ssh"), sealed.project_dir().join("notes")).expect("a link");
    sealed.write_file("inside.md", "Be brief.\n");
    let absolute = home.join(".ssh/id").to_string_lossy().into_owned();
    let with = |settings: Value| {
        let mut all = json!({ "agent": { "command": "helper" } });
        all.as_object_mut().expect("one").extend(settings.as_object().expect("one").clone());
        sealed.write_file(".ralph/settings.json", &all.to_string());
    };
    let agent = |file: &str| json!({ "agent": { "command": "helper", "systemPromptFile": file } });
    let directory = home.to_string_lossy().into_owned();
    for settings in [
        agent(&absolute),
        agent("../home/.ssh/id"),
        agent("notes/id"),
        json!({ "agents": { "review": { "systemPromptFile": absolute } } }),
        json!({ "mcp": { "coding": absolute } }),
        json!({ "mcp": { "memory": "../home/servers.json" } }),
        json!({ "skillsDir": directory }),
        json!({ "promptsDir": "../home" }),
        json!({ "specsDir": "notes" }),
        json!({ "tasks": { "file": absolute } }),
    ] {
        with(settings.clone());
        let end = run(&sealed, &[]).expect_code(2).expect_stderr(REFUSED);
        assert!(end.stderr.contains("/home"), "{settings}: {}", end.stderr);
        assert!(end.stderr.contains("outside of the project"), "{settings}: {}", end.stderr);
        assert!(!sealed.root().join("asked").exists(), "{settings}");
    }
    with(agent(&absolute));
    sealed.trust_project(&[]);
    run(&sealed, &[]).expect_code(0);
    let asked = fs::read_to_string(sealed.root().join("asked")).expect("it was asked");
    assert!(asked.starts_with("PRIVATE KEY"), "{asked}");
    sealed.run_ralph(&["trust", "--remove"]).expect_code(0);
    with(agent("inside.md"));
    run(&sealed, &[]).expect_code(0);
    // The user's own settings are not restricted.
    with(json!({}));
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).env("RALPH_AGENT_SYSTEM_PROMPT_FILE", &absolute);
    Running::start_command(command).wait_for_end().expect_code(0);
}

#[test]
fn a_program_of_the_project_gets_no_login_without_trust() {
    let sealed = sealed().with_sandbox();
    write_evil(&sealed, "tools/claude");
    let with = |settings: Value| sealed.write_file(".ralph/settings.json", &settings.to_string());
    let own = json!({ "command": "./tools/claude" });
    let absolute = sealed.project_dir().join("tools/claude");
    for (settings, key) in [
        (json!({ "agent": { "kind": "claude", "command": "./tools/claude" } }), "agent.command"),
        (json!({ "agent": own }), "agent.command"),
        (json!({ "agent": { "command": absolute } }), "agent.command"),
        (json!({ "agent": { "kind": "text", "command": "./tools/claude" } }), "agent.command"),
        (json!({ "agent": { "command": "true" }, "agents": { "fix": own } }), "agents.fix.command"),
        (
            json!({ "agent": { "command": "true" }, "gates": [{ "kind": "spec", "agent": own }] }),
            "gates[0].agent.command",
        ),
        // Another program of the machine would get the same login.
        (json!({ "agent": { "kind": "claude", "command": "sh" } }), "agent.command"),
        (json!({ "agent": { "kind": "claude", "command": "sh" } }), "agent.kind"),
    ] {
        with(settings.clone());
        let end = run(&sealed, &[]).expect_code(2).expect_stderr(REFUSED);
        assert!(end.stderr.contains(&format!("`{key}` would start")), "{key}: {}", end.stderr);
        let login = "with your login and keys for claude";
        assert!(end.stderr.contains(login), "{settings}: {}", end.stderr);
        // Not even to read its version.
        sealed.run_ralph(&["doctor"]).expect_code(2);
        assert!(!has_run(&sealed), "{settings}");
    }
    with(json!({ "agent": own, "retries": { "max": 0 } }));
    sealed.trust_project(&[]);
    let end = sealed.run_ralph(&["run", "-p", "base", "--no-sandbox"]);
    assert!(has_run(&sealed), "{}", end.stderr);
    // Changed content is another program.
    sealed.write_file("tools/claude", "#!/bin/sh\nexit 1\n");
    run(&sealed, &[]).expect_code(2).expect_stderr("`agent.command` would start");
}

#[test]
fn arguments_and_variables_of_an_agent_with_a_login_need_trust() {
    let sealed = sealed();
    sealed.write_program("claude", "#!/bin/sh\nexit 1\n");
    sealed.write_program("helper", "#!/bin/sh\necho '<response>DONE</response>'\n");
    for (agent, is_refused) in [
        (json!({ "command": "claude", "flags": ["--model opus", "--verbose"] }), false),
        (json!({ "command": "claude", "flags": ["--mcp-config", "x.json"] }), true),
        (json!({ "command": "claude", "flags": ["--settings={}"] }), true),
        (json!({ "kind": "acp", "command": "gemini", "flags": ["--acp"] }), false),
        (json!({ "kind": "text", "command": "claude", "flags": ["--settings={}"] }), true),
        (json!({ "command": "helper", "flags": ["--any", "thing"] }), false),
        (json!({ "command": "claude", "env": { "ANTHROPIC_BASE_URL": "http://x" } }), true),
        (json!({ "command": "helper", "env": { "LD_PRELOAD": "./evil.so" } }), true),
        (json!({ "command": "helper", "env": { "CI": "1", "LC_ALL": "C" } }), false),
        (json!({ "command": "claude", "model": "opus", "envDeny": ["*_API_KEY"] }), false),
    ] {
        sealed.write_file(".ralph/settings.json", &json!({ "agent": agent }).to_string());
        let end = sealed.run_ralph(&["run", "-p", "base", "--dry-run"]);
        let is_missing = end.code == Some(4);
        assert_eq!(end.stderr.contains(REFUSED), is_refused, "{agent}: {}", end.stderr);
        assert_eq!(end.code == Some(2), is_refused, "{agent}: {}", end.stderr);
        assert!(end.code == Some(0) || is_refused || is_missing, "{agent}: {}", end.stderr);
    }
    // The arguments are checked, no matter who chose the agent.
    let agent = json!({ "command": "helper", "flags": ["--settings={}"] });
    sealed.write_file(".ralph/settings.json", &json!({ "agent": agent }).to_string());
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).env("RALPH_AGENT_COMMAND", "claude");
    Running::start_command(command).wait_for_end().expect_code(2).expect_stderr(REFUSED);
}

#[test]
fn servers_are_listed_and_asked_about_again_when_they_change() {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({ "mcp": { "coding": "servers.json" } }));
    let write = |command: &str| {
        let server = json!({ "command": command, "args": ["--token", "s3cret", "a b"] });
        let docs = json!({ "url": "https://docs.example/mcp" });
        let servers = json!({ "mcpServers": { "one": server, "docs": docs } });
        sealed.write_file("servers.json", &servers.to_string());
    };
    write("./server.sh");
    let end = run(&sealed, &[]).expect_code(2).expect_stderr(REFUSED);
    for text in ["`./server.sh --token", "`https://docs.example/mcp`"] {
        assert!(end.stderr.contains(text), "{text}: {}", end.stderr);
    }
    assert!(!end.stderr.contains("s3cret"), "{}", end.stderr);
    sealed.trust_project(&[]);
    let recorded = fs::read_to_string(sealed.state_dir().join("trust.json")).expect("recorded");
    assert!(recorded.contains("mcp.coding") && !recorded.contains("s3cret"), "{recorded}");
    run(&sealed, &[]).expect_code(0);
    write("./other.sh");
    run(&sealed, &[]).expect_code(2).expect_stderr("./other.sh");
    write("./server.sh");
    run(&sealed, &[]).expect_code(0);
}

#[test]
fn agents_may_not_change_the_servers_that_settings_name() {
    let sealed = repository();
    let action = json!({ "run": { "command": "echo '{}' > servers.json" } });
    let calls = json!([{ "do": [action, { "claim": "DONE" }] }]);
    let settings =
        json!({ "mcp": { "coding": "servers.json" }, "guardrails": [{ "command": "true" }] });
    sealed.write_script(&calls, &settings);
    sealed.write_file("servers.json", r#"{ "mcpServers": {} }"#);
    sealed.commit_all("Servers");
    sealed.trust_project(&[]);
    let end = run(&sealed, &["-m", "1"]).expect_code(1);
    let refusal = "These paths are protected and were changed";
    assert!(end.stderr.contains(refusal) && end.stderr.contains("servers.json"), "{}", end.stderr);
}

#[test]
fn hooks_and_servers_that_an_agent_finds_in_the_project_need_trust() {
    let sealed = repository();
    sealed.write_program("claude", "#!/bin/sh\necho '2.1.325 (Claude Code)'\n");
    let start = ["run", "-p", "base", "--agent", "claude", "--dry-run"];
    sealed.write_file(".claude/settings.json", r#"{ "permissions": { "deny": ["WebFetch"] } }"#);
    sealed.run_ralph(&start).expect_code(0);
    for (file, keys, text) in [
        (".claude/settings.json", "`hooks`", r#"{ "hooks": { "Stop": [] } }"#),
        (".mcp.json", "`mcpServers`", r#"{ "mcpServers": { "x": { "command": "./x" } } }"#),
    ] {
        sealed.write_file(file, text);
        let named = format!("`{file}` has {keys}: claude would use them, with your login and keys");
        sealed.run_ralph(&start).expect_code(2).expect_stderr(REFUSED).expect_stderr(&named);
        sealed.trust_project(&[]);
        sealed.run_ralph(&start).expect_code(0);
        // Another content is another question.
        sealed.write_file(file, &text.replace('{', "{ "));
        sealed.run_ralph(&start).expect_code(2).expect_stderr(&named);
        sealed.trust_project(&[]);
    }
    // An agent that does not read them does not need it.
    sealed.run_ralph(&["trust", "--remove"]).expect_code(0);
    sealed.run_ralph(&["run", "-p", "base", "--agent", "/bin/true", "--dry-run"]).expect_code(0);
}

#[test]
fn trust_lists_what_would_run_or_be_read() {
    let sealed = sealed().with_sandbox();
    write_evil(&sealed, "evil.sh");
    sealed.write_script(
        &done(),
        &json!({
            "agent": { "kind": "claude", "command": "./evil.sh", "flags": ["--settings", "{}"],
                       "env": { "ANTHROPIC_BASE_URL": "http://x", "MY_TOKEN": "s3cret" } },
            "scm": { "command": "./evil.sh", "tasks": ["commit", "push -f"] },
            "skillsDir": "/etc",
            "sandbox": { "git": "agent" },
        }),
    );
    let shown = |text: &str| text.replace(&sealed.root().display().to_string(), "ROOT");
    let end = sealed.run_ralph(&["trust"]).expect_code(2);
    expect![[r#"
        The settings of ROOT/project need your trust:
          .ralph/settings.json:27:12: `sandbox.git` asks for "agent"; your bound is `not set` (default)
          .ralph/settings.json:19:16: `scm.command` would run `./evil.sh` outside of the sandbox, as you
          .ralph/settings.json:20:14: `scm.tasks` would run `./evil.sh push -f` outside of the sandbox, as you
          .ralph/settings.json:25:16: `skillsDir` would make ralph read `/etc`, outside of the project
          .ralph/settings.json:4:16: `agent.command` would start `./evil.sh`, a program of the project, as an agent, with your login and keys for claude
          .ralph/settings.json:3:13: `agent.kind` would start `./evil.sh` with your login and keys for claude
          .ralph/settings.json:5:14: `agent.flags` would call claude, which has your login, with `--settings {}`
          .ralph/settings.json:10:29: `agent.env.ANTHROPIC_BASE_URL` would set the variable ANTHROPIC_BASE_URL to "http://x" for an agent
          .ralph/settings.json:11:19: `agent.env.MY_TOKEN` would set the variable MY_TOKEN to "***" for an agent
        error: There is no terminal to ask on.
        hint: `ralph trust --yes` accepts what is shown above
    "#]]
    .assert_eq(&shown(&end.stderr));
    sealed.trust_project(&[]);
    let list = sealed.run_ralph(&["trust", "--list"]).expect_code(0).stdout;
    for text in ["scm.command: \"./evil.sh\"", "agent.env.MY_TOKEN: \"***\""] {
        assert!(list.contains(text), "{text}: {list}");
    }
    let kept = fs::read_to_string(sealed.state_dir().join("trust.json")).expect("a file");
    assert!(!kept.contains("s3cret"), "{kept}");
}

#[test]
fn a_project_does_not_lift_permissions_that_the_user_withholds() {
    let sealed = sealed();
    let directory = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&directory).expect("a directory");
    let user = json!({ "agent": { "skipPermissions": false } });
    fs::write(directory.join("settings.json"), user.to_string()).expect("written");
    let scripted = |further: Value| {
        sealed.write_script(&done(), &json!({ "agents": further }));
        run(&sealed, &["--dry-run"])
    };
    scripted(json!({})).expect_code(0);
    scripted(json!({ "fix": { "skipPermissions": true } }))
        .expect_code(2)
        .expect_stderr("`agents.fix.skipPermissions` would let");
}
