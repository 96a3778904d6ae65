//! The user's own configuration of an agent holds in a sandbox: provider, address, model, effort,
//! permissions and instructions. No setting of ralph's names the model's address here.

use std::fs;

use ralph_testkit::models::{ModelRequest, ModelTurn};
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::stage::{DONE, Stage};

/// Returns a stage on which only the user's own configuration points the CLI at its model, with
/// files in the user's home. `{url}` in them is the address of the model.
fn stage(cli: Cli, turns: Vec<ModelTurn>, files: &[(&str, Value)]) -> Option<Stage> {
    let stage = Stage::new(cli, |_| turns, &json!({}))?;
    let settings = stage.sealed.read_file(".ralph/settings.json");
    let mut settings: Value = serde_json::from_str(&settings).expect("JSON");
    settings["agent"]["flags"] = json!([]);
    let quiet =
        ["OPENCODE_DISABLE_MODELS_FETCH", "PI_OFFLINE", "CLINE_HUB_PORT", "CLINE_NO_AUTO_UPDATE"];
    if let Some(env) = settings["agent"]["env"].as_object_mut() {
        env.retain(|name, _| quiet.contains(&name.as_str()));
    }
    stage.sealed.write_file(".ralph/settings.json", &settings.to_string());
    stage.sealed.trust_project(&[]);
    for (name, document) in files {
        let path = stage.sealed.root().join("home").join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        let text = match document {
            Value::String(text) => text.clone(),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => document.to_string(),
        };
        fs::write(path, text.replace("{url}", &stage.model.url())).expect("written");
    }
    Some(stage)
}

/// Runs the loop in a sandbox, and returns the last request.
#[track_caller]
fn run(stage: &Stage, variables: &[(&str, &str)]) -> ModelRequest {
    let end = stage.run_isolated_with(variables);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    stage.model.turn_requests().pop().expect("a request")
}

#[test]
fn codex_uses_the_users_provider_model_and_effort() {
    let files = [
        (".codex/AGENTS.md", json!("MARK of the user")),
        (
            ".codex/config.toml",
            json!(
                "model = \"gpt-5.5\"\nmodel_provider = \"corp\"\nmodel_reasoning_effort = \"low\"\n\
                 notify = [\"touch\", \"notified\"]\n[mcp_servers.docs]\ncommand = \"docs\"\n\
                 [model_providers.corp]\nname = \"corp\"\nbase_url = \"{url}/v1\"\n\
                 env_key = \"CORP_KEY\"\nwire_api = \"responses\"\n"
            ),
        ),
    ];
    let Some(stage) = stage(Cli::Codex, vec![ModelTurn::from_text(DONE)], &files) else { return };
    // The key of the public API is there, too; without CORP_KEY codex stops before any request.
    let variables = [("CORP_KEY", "dummy"), ("OPENAI_API_KEY", "dummy")];
    let end = stage.run_isolated_with(&variables);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    let asked = stage.model.turn_requests().pop().expect("a request");
    assert_eq!(asked.body["model"], "gpt-5.5");
    assert_eq!(asked.body["reasoning"]["effort"], "low", "{}", asked.body["reasoning"]);
    stage.expect_sent("MARK of the user");
    assert!(!end.stderr.contains("api.openai.com"), "{}", end.stderr);
    let notice = "in the sandbox codex uses `~/.codex/config.toml` without `mcp_servers`";
    assert!(end.stderr.contains(notice), "{}", end.stderr);
}

#[test]
fn claude_uses_the_users_settings() {
    let settings = json!({
        "model": "sonnet",
        "permissions": { "deny": ["WebFetch"] },
        "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "touch hook-of-the-user" }] }] },
        "env": {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_AUTH_TOKEN": "dummy",
            "HTTPS_PROXY": "http://127.0.0.1:9",
        },
    });
    let files =
        [(".claude/settings.json", settings), (".claude/CLAUDE.md", json!("MARK of the user"))];
    let Some(stage) = stage(Cli::Claude, vec![ModelTurn::from_text(DONE)], &files) else { return };
    let asked = run(&stage, &[]);
    assert!(asked.body["model"].to_string().contains("sonnet"), "{}", asked.body["model"]);
    let tools = asked.body["tools"].to_string();
    assert!(tools.contains("\"Bash\"") && !tools.contains("\"WebFetch\""), "{tools}");
    stage.expect_sent("MARK of the user");
    assert!(!stage.sealed.project_dir().join("hook-of-the-user").exists());
}

#[test]
fn gemini_uses_the_login_that_the_user_selected() {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "model": { "name": "gemini-2.5-flash" },
    });
    let files = [
        (".gemini/settings.json", settings),
        (".gemini/.env", json!("GEMINI_API_KEY=dummy\nGOOGLE_GEMINI_BASE_URL={url}\n")),
    ];
    let Some(stage) = stage(Cli::Gemini, vec![ModelTurn::from_text(DONE)], &files) else { return };
    let asked = run(&stage, &[]);
    assert!(asked.path.contains("gemini-2.5-flash"), "{}", asked.path);
}

#[test]
fn qwen_uses_the_model_of_the_users_settings() {
    let settings = json!({
        "security": { "auth": { "selectedType": "openai" } },
        "model": { "name": "corp-model" },
        "memory": { "enableManagedAutoMemory": false },
        "env": { "OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": "{url}/v1" },
    });
    let files = [(".qwen/settings.json", settings)];
    let Some(stage) = stage(Cli::Qwen, vec![ModelTurn::from_text(DONE)], &files) else { return };
    assert_eq!(run(&stage, &[]).body["model"], "corp-model");
}

#[test]
fn opencode_uses_the_users_provider_and_finds_its_programs() {
    // The CLI's own configuration is written by the stage.
    let rg = json!("#!/bin/sh\ntouch rg-ran\nexit 1\n");
    let turns = vec![
        ModelTurn::from_tool_call("grep", json!({ "pattern": "needle" })),
        ModelTurn::from_text(DONE),
    ];
    let files = [(".cache/opencode/bin/rg", rg)];
    let Some(stage) = stage(Cli::Opencode, turns, &files) else { return };
    let rg = stage.sealed.root().join("home/.cache/opencode/bin/rg");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(rg, mode).expect("executable");
    let asked = run(&stage, &[("OPENAI_API_KEY", "dummy"), ("GEMINI_API_KEY", "dummy")]);
    assert_eq!(asked.body["model"], "scripted");
    assert!(stage.sealed.project_dir().join("rg-ran").exists(), "{}", stage.account());
}

#[test]
fn pi_uses_the_users_provider() {
    let settings = json!({ "defaultProvider": "scripted", "defaultModel": "scripted" });
    let files = [(".pi/agent/settings.json", settings)];
    let Some(stage) = stage(Cli::Pi, vec![ModelTurn::from_text(DONE)], &files) else { return };
    assert_eq!(run(&stage, &[("OPENAI_API_KEY", "dummy")]).body["model"], "scripted");
}

#[test]
fn cline_reaches_the_address_of_its_provider() {
    let Some(stage) = stage(Cli::Cline, vec![ModelTurn::from_text(DONE)], &[]) else { return };
    assert_eq!(run(&stage, &[]).body["model"], "scripted");
}

/// Asserts that a run ended after one call, because the sandbox does not allow an address.
#[track_caller]
fn expect_blocked(stage: &Stage, address: &str) {
    let end = stage.run_isolated_with(&[]);
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    let said = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("blocked by the sandbox"), "{said}");
    assert!(said.contains(&format!("does not let it connect to {address}")), "{said}");
    assert!(said.contains("to `sandbox.network.allow`"), "{said}");
    stage.expect_events(&[("asked", 1)]);
}

#[test]
fn a_host_that_is_not_allowed_is_named_and_asked_for_once() {
    let Some(stage) = stage(Cli::Codex, vec![], &[]) else { return };
    let settings = stage.sealed.read_file(".ralph/settings.json");
    let mut settings: Value = serde_json::from_str(&settings).expect("JSON");
    // The project's settings are not the user's own: the address in them is not allowed.
    settings["agent"]["flags"] = json!([
        "-c model_provider=other",
        "-c model_providers.other.name=other",
        "-c model_providers.other.base_url=https://model.invalid/v1",
        "-c model_providers.other.request_max_retries=0",
        "-c model_providers.other.stream_max_retries=0",
    ]);
    stage.sealed.write_file(".ralph/settings.json", &settings.to_string());
    stage.sealed.trust_project(&[]);
    expect_blocked(&stage, "model.invalid:443");
}

#[test]
fn a_port_of_this_machine_that_is_not_allowed_is_named_and_asked_for_once() {
    let Some(stage) = Stage::new(Cli::Claude, |_| vec![], &json!({})) else { return };
    expect_blocked(&stage, &format!("127.0.0.1:{}", stage.port()));
}
