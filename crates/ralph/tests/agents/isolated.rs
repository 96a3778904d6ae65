//! The real Claude Code in a sandbox: it does its work through the proxy, and the walls hold.

use std::fs;

use ralph_testkit::models::Turn;
use ralph_testkit::sealed::Running;
use serde_json::json;

use crate::cli::Cli;
use crate::stage::{DONE, Stage, find};

#[test]
fn claude_works_in_a_native_sandbox_and_reaches_nothing_else() {
    let probe = "echo x > /usr/outside.txt; echo x > ../outside.txt; cat ~/secret.txt; \
                 git commit --allow-empty -m Mine; curl -sS --max-time 5 https://evil.example/; \
                 echo pro''bed";
    let turns = |project: &std::path::Path| {
        vec![
            Cli::Claude.writes(&project.join("hello.txt"), "hello\n"),
            Cli::Claude.runs(probe),
            Turn::says(DONE),
        ]
    };
    let settings = json!({ "gates": [
        { "name": "test", "kind": "test", "command": "grep -q hello hello.txt" }
    ] });
    let Some(stage) = Stage::new(Cli::Claude, turns, &settings) else { return };
    let sealed = &stage.sealed;
    fs::write(sealed.root().join("home/secret.txt"), "canary of the home").expect("written");
    let settings = sealed.read(".ralph/settings.json");
    let port = stage.model.url().rsplit(':').next().expect("a port").to_owned();
    let installed = fs::canonicalize(sealed.bin().join("claude")).expect("a program");
    let installed = installed.ancestors().find(|it| it.join("package-lock.json").exists());
    let node = find("node").canonicalize().expect("a program");
    let shown = [installed.expect("an installation"), node.ancestors().nth(2).expect("a place")];
    let shown = shown.map(|path| path.display().to_string()).join(",");
    let mut command = sealed.command(env!("CARGO_BIN_EXE_ralph"));
    command
        .args(["run", "-p", "Do the work. Then say <response>DONE</response>."])
        .env("RALPH_SANDBOX_BACKEND", "native")
        .env("RALPH_SANDBOX_NETWORK_ALLOW", format!("127.0.0.1:{port}"))
        // It is installed where a test installs things.
        .env("RALPH_SANDBOX_RW", shown)
        .env("RALPH_GUARD_MODE", "warn");
    let end = Running::start(command).wait();
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    assert_eq!(sealed.read("hello.txt"), "hello\n");
    assert!(!sealed.root().join("outside.txt").exists());
    assert_eq!(sealed.read(".ralph/settings.json"), settings);
    let last = stage.model.turns().last().expect("a request").body.to_string();
    assert!(last.contains("probed"), "the command ran: {last}");
    assert!(!last.contains("canary of the home"), "{last}");
    assert!(last.contains("Read-only file system"), "{last}");
    assert_eq!(sealed.subjects().len(), 1, "the history is not the agent's to write");
    let warned = sealed.events_of("warned");
    let said: Vec<&str> = warned.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(said.iter().any(|text| text.contains("evil.example:443 refused")), "{said:?}");
    assert!(!said.iter().any(|text| text.contains("hooks did not run")), "{said:?}");
    stage.expect_silence();
}
