//! The Claude Code plugin through the built binary. A stand-in for `claude` records how it is
//! called; the agents' tests use the real one.

use std::fs;
use std::path::PathBuf;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::sealed;

/// The start of a stand-in: prints its version, and records every other call.
const CLAUDE: &str = "#!/bin/sh\n\
    [ \"$1\" = --version ] && exec echo '2.1.325 (Claude Code)'\n\
    echo \"$*\" >> \"$(dirname \"$0\")/../argv\"\n";

fn with_claude(rest: &str) -> Sealed {
    let sealed = sealed();
    sealed.write_program("claude", &format!("{CLAUDE}{rest}\n"));
    sealed
}

/// Returns how the stand-in was called, without the test's home.
fn calls(sealed: &Sealed) -> Vec<String> {
    let text = fs::read_to_string(sealed.root().join("argv")).unwrap_or_default();
    text.lines().map(|line| line.replace(&sealed.root().display().to_string(), "")).collect()
}

fn json_of(sealed: &Sealed, words: &[&str], code: i32) -> Value {
    let end = sealed.run_ralph(&[words, &["--json"]].concat()).expect_code(code);
    serde_json::from_str(&end.stdout).unwrap_or_else(|error| panic!("{error}: {}", end.stdout))
}

fn place(sealed: &Sealed) -> PathBuf {
    PathBuf::from(sealed.run_ralph(&["plugin", "path"]).expect_code(0).stdout.trim())
}

#[test]
fn the_path_holds_the_plugin_whatever_was_done_to_it() {
    let sealed = sealed();
    let facts = json_of(&sealed, &["plugin", "path"], 0);
    assert_eq!(facts["written"], true);
    let path = place(&sealed);
    assert_eq!(facts["path"], json!(path));
    assert!(path.starts_with(sealed.state_dir().join("plugin")), "{}", path.display());
    let hooks = path.join("hooks/hooks.json");
    let text = fs::read_to_string(&hooks).expect("written");
    assert_eq!(json_of(&sealed, &["plugin", "path"], 0)["written"], false);
    fs::write(&hooks, "{}").expect("tampered with");
    fs::write(path.join(".mcp.json"), "{}").expect("tampered with");
    assert_eq!(json_of(&sealed, &["plugin", "path"], 0)["written"], true);
    assert_eq!(fs::read_to_string(&hooks).expect("restored"), text);
    assert!(!path.join(".mcp.json").exists());
}

#[test]
fn unwritable_plugin_directory_is_reported() {
    let sealed = sealed();
    fs::create_dir_all(sealed.state_dir()).expect("a directory");
    fs::write(sealed.state_dir().join("plugin"), "in the way").expect("a file");
    sealed.run_ralph(&["plugin", "path"]).expect_code(2).expect_stderr("cannot be written to");
}

#[test]
fn install_without_claude_prints_the_commands() {
    let sealed = sealed();
    let end = sealed.run_ralph(&["plugin", "install"]).expect_code(0);
    let market = sealed.root().join("home/.local/share/ralph/claude-marketplace");
    assert!(
        end.stdout.contains("is not yet registered with Claude Code (`claude` was not found"),
        "{}",
        end.stdout
    );
    assert!(
        end.stdout.contains("claude plugin install ralph@ralph --scope user"),
        "{}",
        end.stdout
    );
    let copies: Vec<PathBuf> =
        fs::read_dir(&market).expect("written").flatten().map(|copy| copy.path()).collect();
    assert_eq!(copies.len(), 1);
    for file in [".claude-plugin/marketplace.json", "plugin/.claude-plugin/plugin.json"] {
        assert!(copies[0].join(file).is_file(), "{file}");
    }
    let facts = json_of(&sealed, &["plugin", "install", "--project"], 0);
    assert_eq!(
        (&facts["written"], &facts["installed"], &facts["scope"]),
        (&json!(false), &json!(false), &json!("project"))
    );
    // A plugin that the user has changed is kept.
    fs::write(copies[0].join("plugin/README.md"), "mine").expect("changed");
    sealed
        .run_ralph(&["plugin", "install"])
        .expect_code(2)
        .expect_stderr("is not as ralph wrote it");
    assert_eq!(fs::read_to_string(copies[0].join("plugin/README.md")).expect("kept"), "mine");
}

#[test]
fn install_runs_the_claude_commands() {
    let sealed = with_claude("[ \"$3\" = list ] && echo '[]' || echo done");
    for _ in 0..2 {
        sealed.run_ralph(&["plugin", "install", "--project"]).expect_code(0);
    }
    let once = [
        "plugin marketplace list --json",
        "plugin marketplace add",
        "plugin install ralph@ralph --scope project",
    ];
    let calls = calls(&sealed);
    assert_eq!(calls.len(), 6, "{calls:?}");
    for (call, expect) in calls.iter().zip(once.iter().chain(&once)) {
        assert!(call.starts_with(expect), "{call} is not {expect}");
    }
    assert!(
        calls[1].starts_with("plugin marketplace add /home/.local/share/ralph/claude-marketplace/"),
        "{calls:?}"
    );
}

#[test]
fn only_ralphs_own_old_plugin_is_replaced() {
    let ours = "$HOME/.local/share/ralph/claude-marketplace/0.0.1-0123456789abcdef";
    for (path, code) in [(ours, 0), ("/srv/other/ralph", 2), ("", 2)] {
        let sealed = with_claude(&format!(
            "[ \"$3\" = list ] && echo '[{{\"name\":\"other\",\"path\":\"/x\"}},{{\"name\":\"ralph\",\"path\":\"'\"{path}\"'\"}}]'; exit 0"
        ));
        let end = sealed.run_ralph(&["plugin", "install"]).expect_code(code);
        if code == 0 {
            let calls = calls(&sealed);
            assert_eq!(calls[3..], ["plugin update ralph@ralph --scope user"], "{calls:?}");
        } else {
            end.expect_stderr("has a marketplace `ralph` already, from ");
            assert_eq!(calls(&sealed), ["plugin marketplace list --json"], "{path}");
            assert!(!sealed.root().join("home/.local/share/ralph").exists(), "{path}");
        }
    }
}

#[test]
fn a_claude_that_refuses_is_quoted() {
    let sealed =
        with_claude("[ \"$3\" = list ] && exec echo '[]'; echo 'policy forbids it' >&2; exit 1");
    sealed.run_ralph(&["plugin", "install"]).expect_code(4).expect_stderr("policy forbids it");
    let sealed = with_claude("echo 'No marketplaces configured'");
    sealed.run_ralph(&["plugin", "install"]).expect_code(4).expect_stderr("update Claude Code");
    sealed.run_ralph(&["plugin", "install", "--user", "--project"]).expect_code(2);
}

#[test]
fn validating_finds_mistakes() {
    let sealed = sealed();
    let end = sealed.run_ralph(&["plugin", "validate"]).expect_code(0);
    assert!(end.stdout.contains("Claude Code is not installed"), "{}", end.stdout);
    let copy = sealed.project_dir().join("copy");
    let status = sealed.build_command("cp").arg("-r").arg(place(&sealed)).arg(&copy).status();
    assert!(status.expect("cp runs").success());
    sealed.run_ralph(&["plugin", "validate", "copy"]).expect_code(0);
    fs::write(copy.join("hooks/hooks.json"), "{").expect("broken");
    fs::remove_file(copy.join("LICENSE")).expect("removed");
    let end = sealed.run_ralph(&["plugin", "validate", "copy"]).expect_code(2);
    for words in ["hooks/hooks.json: EOF while parsing", "LICENSE: there is no such file"] {
        assert!(end.stderr.contains(words), "no {words:?} in {}", end.stderr);
    }
    let facts = json_of(&sealed, &["plugin", "validate", "copy"], 2);
    assert_eq!(facts["valid"], false);
    assert_eq!(facts["problems"].as_array().map(Vec::len), Some(2));

    let sealed = with_claude("echo 'unknown field' ; exit 1");
    sealed.run_ralph(&["plugin", "validate"]).expect_code(2).expect_stderr("unknown field");
    assert!(calls(&sealed)[0].starts_with("plugin validate /state/ralph/plugin/"));
}

/// A stand-in that answers in a session that began with these lines.
fn answering(lines: &str) -> Sealed {
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false, "num_turns": 1,
        "terminal_reason": "completed", "result": "More to do.",
    });
    with_claude(&format!("env > ../env\n{lines}\necho '{result}'"))
}

const INIT: &str = r#"echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'"#;

fn run(sealed: &Sealed) -> String {
    sealed.run_ralph(&["run", "-p", "base", "--agent", "claude", "-m", "2"]).expect_code(1).stderr
}

#[test]
fn run_passes_the_plugin_and_warns_once_if_no_hook_ran() {
    let sealed = answering(INIT);
    let message = run(&sealed);
    assert_eq!(
        message.matches("ralph's hooks did not run in `claude` 2.1.325").count(),
        1,
        "{message}"
    );
    let warned = sealed.find_events("warned");
    let warned = warned.iter().filter(|it| it["text"].to_string().contains("hooks did not run"));
    assert_eq!(warned.count(), 1);
    let expect = format!("--plugin-dir {} --include-hook-events", place(&sealed).display());
    let argv = fs::read_to_string(sealed.root().join("argv")).expect("it was called");
    assert_eq!(argv.matches(&expect).count(), 2, "{argv}");
    let env = fs::read_to_string(sealed.root().join("env")).expect("it was called");
    let exe = format!("RALPH_EXE={}", env!("CARGO_BIN_EXE_ralph"));
    assert!(env.lines().any(|line| line == exe), "{env}");
}

#[test]
fn hooks_that_ran_are_not_missed() {
    let hook = r#"echo '{"type":"system","subtype":"hook_response","hook_event":"SessionStart","exit_code":0,"stdout":"run '$RALPH_RUN_ID'"}'"#;
    let message = run(&answering(&format!("{hook}\n{INIT}")));
    assert!(!message.contains("hooks did not run"), "{message}");
}

#[test]
fn plugin_changes_of_an_agent_are_replaced() {
    let tampers = r#"for it; do [ -d "$it/hooks" ] && cat "$it/hooks/hooks.json" >> ../seen && echo '{}' > "$it/hooks/hooks.json"; done"#;
    let sealed = answering(&format!("{tampers}\n{INIT}"));
    run(&sealed);
    let seen = fs::read_to_string(sealed.root().join("seen")).expect("it was there");
    assert_eq!(seen.matches("hook session-start").count(), 2, "{seen}");
}

#[test]
fn read_only_commands_write_no_plugin() {
    let sealed = answering(INIT);
    let end =
        sealed.run_ralph(&["run", "-p", "base", "--agent", "claude", "--dry-run"]).expect_code(0);
    assert!(end.stdout.contains("--plugin-dir"), "{}", end.stdout);
    let hooks = |sealed: &Sealed| {
        let end = sealed.run_ralph(&["doctor", "--json"]);
        let facts: Value = serde_json::from_str(&end.stdout).expect("JSON");
        let checks = facts["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["name"] == "hooks").expect("it looks at hooks")
    };
    let found = hooks(&sealed);
    assert_eq!(found["health"], "good", "{found}");
    assert!(found["title"].to_string().contains("written by the next run"), "{found}");
    assert!(!sealed.state_dir().join("plugin").exists());

    sealed.write_program("claude", "#!/bin/sh\necho '2.1.90 (Claude Code)'\n");
    let found = hooks(&sealed);
    assert_eq!(found["health"], "doubtful", "{found}");
    assert!(found["title"].to_string().contains("2.1.90 is too old"), "{found}");
    assert!(found["hints"].to_string().contains("2.1.145 or newer"), "{found}");

    fs::remove_file(sealed.bin_dir().join("claude")).expect("removed");
    assert_eq!(hooks(&sealed)["health"], "absent");
}
