//! The plugin in the hands of the real Claude Code: it finds no fault with it, installs it without
//! a network, and offers its skill.

use std::fs;
use std::path::Path;

use ralph_testkit::models::ModelTurn;
use ralph_testkit::sealed::{Finished, Running};
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::stage::{DONE, Stage};

fn stage() -> Option<Stage> {
    Stage::new(Cli::Claude, |_| vec![ModelTurn::from_text(DONE); 2], &json!({}))
}

/// Runs the CLI itself, as a user would.
#[track_caller]
fn claude(stage: &Stage, words: &[&str]) -> Finished {
    let mut command = stage.sealed.build_command("claude");
    command.args(words).env("DISABLE_AUTOUPDATER", "1").envs(stage.agent_env());
    Running::start_command(command).wait_for_end().expect_code(0)
}

#[track_caller]
fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn claude_finds_no_mistakes() {
    let Some(stage) = stage() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for place in ["plugin", ".", ".claude-plugin/marketplace.json"] {
        let place = root.join(place);
        let place = place.to_str().expect("a path in UTF-8");
        let end = claude(&stage, &["plugin", "validate", "--strict", "--json", place]);
        let found = json_of(&end.stdout);
        assert_eq!(found["success"], true, "{found:#}");
        assert_eq!(found["manifest"]["warnings"], json!([]), "{found:#}");
        assert_eq!(found["contents"], json!([]), "{found:#}");
    }
    let end = stage.sealed.run_ralph(&["plugin", "validate"]).expect_code(0);
    assert!(end.stdout.contains("ralph and Claude Code find no mistakes"), "{}", end.stdout);
}

#[test]
fn the_plugin_is_installed_for_a_user_and_offers_its_skill() {
    let Some(stage) = stage() else { return };
    for _ in 0..2 {
        stage.sealed.run_ralph(&["plugin", "install"]).expect_code(0);
    }
    let list = json_of(&claude(&stage, &["plugin", "list", "--json"]).stdout);
    let known: Vec<[&Value; 4]> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| [&it["id"], &it["version"], &it["scope"], &it["enabled"]])
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        known,
        [[&json!("ralph@ralph"), &json!(version), &json!("user"), &json!(true)]],
        "{list:#}"
    );
    // Without ralph on the PATH its hooks say nothing, and the session is as any other.
    let end = claude(
        &stage,
        &["-p", "Go.", "--output-format", "stream-json", "--verbose", "--include-hook-events"],
    );
    let lines: Vec<Value> = end.stdout.lines().map(json_of).collect();
    let init = lines.iter().find(|line| line["subtype"] == "init").expect("a session");
    let skills = init["skills"].as_array().expect("skills");
    assert!(skills.contains(&json!("ralph:ralph-plan")), "{skills:?}");
    let hooks: Vec<&Value> =
        lines.iter().filter(|line| line["subtype"] == "hook_response").collect();
    assert_eq!(hooks.len(), 2, "at the start and at the end: {hooks:?}");
    for hook in hooks {
        let said = [&hook["exit_code"], &hook["stdout"], &hook["stderr"]];
        assert_eq!(said, [&json!(0), &json!(""), &json!("")], "{hook}");
    }
    let result = lines.last().expect("a result");
    assert_eq!(result["result"], DONE, "{result}");
}

#[test]
fn a_project_names_the_plugin_and_no_path_of_this_machine() {
    let Some(stage) = stage() else { return };
    stage.sealed.run_ralph(&["plugin", "install", "--project"]).expect_code(0);
    assert_eq!(
        json_of(&stage.sealed.read_file(".claude/settings.json")),
        json!({ "enabledPlugins": { "ralph@ralph": true } })
    );
    let list = json_of(&claude(&stage, &["plugin", "list", "--json"]).stdout);
    assert_eq!((&list[0]["scope"], &list[0]["enabled"]), (&json!("project"), &json!(true)));
}

#[test]
fn marketplace_of_another_user_stays() {
    let Some(stage) = stage() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository");
    claude(&stage, &["plugin", "marketplace", "add", root.to_str().expect("UTF-8")]);
    stage.sealed.run_ralph(&["plugin", "install"]).expect_code(2).expect_stderr("already, from");
    let list = json_of(&claude(&stage, &["plugin", "marketplace", "list", "--json"]).stdout);
    assert_eq!(list[0]["path"], json!(root), "{list:#}");
}

#[test]
fn an_older_copy_of_ralphs_own_is_brought_to_this_version() {
    let Some(stage) = stage() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let old = "home/.local/share/ralph/claude-marketplace/0.0.1-0123456789abcdef";
    let old = stage.sealed.root().join(old);
    fs::create_dir_all(&old).expect("a directory");
    for part in [".claude-plugin", "plugin"] {
        let copied =
            stage.sealed.build_command("cp").arg("-r").arg(root.join(part)).arg(&old).status();
        assert!(copied.expect("cp runs").success());
    }
    for file in ["plugin/.claude-plugin/plugin.json", ".claude-plugin/marketplace.json"] {
        let text = fs::read_to_string(old.join(file)).expect("copied");
        fs::write(old.join(file), text.replace(env!("CARGO_PKG_VERSION"), "0.0.1")).expect("aged");
    }
    claude(&stage, &["plugin", "marketplace", "add", old.to_str().expect("UTF-8")]);
    claude(&stage, &["plugin", "install", "ralph@ralph"]);
    stage.sealed.run_ralph(&["plugin", "install"]).expect_code(0);
    let list = json_of(&claude(&stage, &["plugin", "list", "--json"]).stdout);
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list:#}");
    let read = list[0]["readFromFolder"].as_str().unwrap_or_default();
    assert!(!read.starts_with(old.to_str().expect("UTF-8")), "{list:#}");
    assert_eq!(list[0]["folderVersion"], env!("CARGO_PKG_VERSION"), "{list:#}");
}
