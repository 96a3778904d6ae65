//! The real Claude Code in a sandbox: it does its work through the proxy, and the walls hold.

use std::fs;

use ralph_testkit::models::ModelTurn;
use serde_json::json;

use crate::cli::Cli;
use crate::stage::{DONE, Stage};

#[test]
fn claude_works_in_a_native_sandbox_and_reaches_nothing_else() {
    let probe = "echo x > /usr/outside.txt; echo x > ../outside.txt; cat ~/secret.txt; \
                 git commit --allow-empty -m Mine; curl -sS --max-time 5 https://evil.example/; \
                 echo pro''bed";
    let turns = |project: &std::path::Path| {
        vec![
            Cli::Claude.writes(&project.join("hello.txt"), "hello\n"),
            Cli::Claude.runs(probe),
            ModelTurn::from_text(DONE),
        ]
    };
    let settings = json!({ "gates": [
        { "name": "test", "kind": "test", "command": "grep -q hello hello.txt" }
    ] });
    let Some(stage) = Stage::new(Cli::Claude, turns, &settings) else { return };
    let sealed = &stage.sealed;
    fs::write(sealed.root().join("home/secret.txt"), "canary of the home").expect("written");
    let settings = sealed.read_file(".ralph/settings.json");
    let allowed = format!("127.0.0.1:{}", stage.port());
    let end = stage.run_isolated_with(&[
        ("RALPH_SANDBOX_NETWORK_ALLOW", &allowed),
        ("RALPH_GUARD_MODE", "warn"),
    ]);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    assert_eq!(sealed.read_file("hello.txt"), "hello\n");
    assert!(!sealed.root().join("outside.txt").exists());
    assert_eq!(sealed.read_file(".ralph/settings.json"), settings);
    let last = stage.model.turn_requests().last().expect("a request").body.to_string();
    assert!(last.contains("probed"), "the command ran: {last}");
    assert!(!last.contains("canary of the home"), "{last}");
    assert!(last.contains("Read-only file system"), "{last}");
    assert_eq!(sealed.subjects().len(), 1, "the history is not the agent's to write");
    let warned = sealed.find_events("warned");
    let said: Vec<&str> = warned.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(said.iter().any(|text| text.contains("evil.example:443 refused")), "{said:?}");
    assert!(!said.iter().any(|text| text.contains("hooks did not run")), "{said:?}");
    stage.expect_silence();
}
