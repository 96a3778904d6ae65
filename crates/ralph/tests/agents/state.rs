//! The directory that an agent has in a sandbox, in the hands of the real Claude Code: the login in
//! it is found, and the user's own directory is left alone.

use std::fs;

use ralph_io::agent_state;
use ralph_model::agent::AgentKind;
use ralph_testkit::models::ModelTurn;
use ralph_testkit::sealed::{Finished, Running};
use serde_json::json;

use crate::cli::Cli;
use crate::stage::{DONE, Stage};

/// Runs the CLI on a prompt with what was prepared for it, and no login in the environment.
fn claude(stage: &Stage, prepared: &agent_state::PreparedAgentState) -> Finished {
    let mut command = stage.sealed.build_command("claude");
    command
        .args(["-p", "Go."])
        .env("DISABLE_AUTOUPDATER", "1")
        .envs(stage.agent_env())
        .env_remove("CLAUDE_CODE_OAUTH_TOKEN")
        .envs(prepared.variables.iter().map(|(name, value)| (name, value)));
    Running::start_command(command).wait_for_end()
}

#[test]
fn claude_finds_its_login_in_a_directory_of_its_own() {
    let turns = vec![ModelTurn::from_text(DONE); 2];
    let Some(stage) = Stage::new(Cli::Claude, |_| turns, &json!({})) else { return };
    let home = stage.sealed.root().join("home");
    let env = [("HOME".into(), home.clone().into())];
    let prepare = || {
        agent_state::prepare_agent_state(AgentKind::Claude, &env, &stage.sealed.state_dir())
            .expect("prepared")
    };
    // Without one it asks nothing of the server.
    let end = claude(&stage, &prepare());
    assert_eq!(end.code, Some(1), "{}", end.stdout);
    assert_eq!(stage.model.requests().len(), 0);
    let login = json!({ "claudeAiOauth": {
        "accessToken": "dummy",
        "refreshToken": "dummy",
        "expiresAt": 4_102_444_800_000_u64,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    } });
    fs::create_dir(home.join(".claude")).expect("a directory");
    let file = home.join(".claude/.credentials.json");
    fs::write(&file, login.to_string()).expect("written");
    let prepared = prepare();
    let end = claude(&stage, &prepared).expect_code(0);
    assert!(end.stdout.contains(DONE), "{}", end.stdout);
    assert!(!stage.model.requests().is_empty());
    assert_eq!(prepared.return_credentials(), [], "nothing had to be refreshed");
    assert_eq!(fs::read_to_string(&file).expect("there"), login.to_string());
    let own = |path| fs::read_dir(path).expect("readable").count();
    assert_eq!(own(home.join(".claude")), 1, "the user's directory holds the login alone");
    assert!(!home.join(".claude.json").exists());
    assert!(own(prepared.directory.clone()) > 1, "its state is in its own");
}

#[test]
fn an_agent_in_a_sandbox_cannot_swap_the_users_login() {
    let login = |token: &str| {
        json!({ "claudeAiOauth": {
            "accessToken": token,
            "refreshToken": token,
            "expiresAt": 4_102_444_800_000_u64,
            "scopes": ["user:inference", "user:profile"],
            "subscriptionType": "max",
        } })
        .to_string()
    };
    let swap = format!("echo '{}' > $CLAUDE_CONFIG_DIR/.credentials.json", login("swapped"));
    let turns = vec![Cli::Claude.runs(&swap), ModelTurn::from_text(DONE)];
    let Some(stage) = Stage::new(Cli::Claude, |_| turns, &json!({})) else { return };
    let file = stage.sealed.root().join("home/.claude/.credentials.json");
    fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    fs::write(&file, login("mine")).expect("written");
    let allowed = format!("127.0.0.1:{}", stage.port());
    let end = stage.run_isolated_with(&[
        ("RALPH_SANDBOX_NETWORK_ALLOW", &allowed),
        ("RALPH_GUARD_MODE", "off"),
    ]);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    assert_eq!(fs::read_to_string(&file).expect("there"), login("mine"));
    let warned = stage.sealed.find_events("warned");
    let is_reported = |event: &serde_json::Value| {
        event["text"].as_str().is_some_and(|text| text.contains("has not expired"))
    };
    assert!(warned.iter().any(is_reported), "{warned:?}");
}
