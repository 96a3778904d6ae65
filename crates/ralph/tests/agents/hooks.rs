//! ralph's hooks in whole runs with the real Claude Code: they start, deny, warn and hold, and a
//! run says when they did not.

use std::fs;
use std::path::Path;

use ralph_testkit::models::ModelTurn;
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::stage::{DONE, Stage};

/// What the setting `streamAgentOutput` makes of the output: events, or plain text. Hooks run in
/// both.
const OUTPUTS: [bool; 2] = [true, false];

fn stage(turns: impl FnOnce(&Path) -> Vec<ModelTurn>, further: &Value) -> Option<Stage> {
    Stage::new(Cli::Claude, turns, further)
}

fn done() -> ModelTurn {
    ModelTurn::from_text(DONE)
}

/// Returns the lines of the agent's own stream in which a hook of one event answers.
pub(crate) fn answers(stage: &Stage, event: &str) -> Vec<Value> {
    let raw = stage.sealed.run_ralph(&["log", "--raw"]).expect_code(0).stdout;
    raw.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["subtype"] == "hook_response" && line["hook_event"] == event)
        .collect()
}

/// Asserts that the model received a text in one of its turns.
#[track_caller]
pub(crate) fn expect_received(stage: &Stage, turn: usize, words: &str) {
    let asked = stage.model.turn_requests();
    let received =
        asked.get(turn).map(|asked| asked.body["messages"].to_string()).unwrap_or_default();
    assert!(received.contains(words), "no {words:?} in turn {turn}: {}", stage.account());
}

#[test]
fn the_session_begins_with_the_run_and_nothing_is_missed() {
    let Some(stage) = stage(|_| vec![done()], &json!({})) else { return };
    let end = stage.run().expect_code(0);
    let answers = answers(&stage, "SessionStart");
    assert_eq!(answers.len(), 1, "{}", stage.account());
    let run = stage.sealed.runs().pop().expect("a run");
    let run = run.file_name().expect("an id").to_string_lossy().into_owned();
    assert!(answers[0]["stdout"].to_string().contains(&run), "{}", answers[0]);
    expect_received(&stage, 0, &format!("This session is part of a ralph run ({run})"));
    assert!(!end.stderr.contains("hooks did not run"), "{}", end.stderr);
    stage.expect_silence();
}

#[test]
fn an_installed_plugin_does_not_answer_a_second_time() {
    let Some(stage) = stage(|_| vec![done()], &json!({})) else { return };
    stage.sealed.run_ralph(&["plugin", "install"]).expect_code(0);
    stage.run().expect_code(0);
    for event in ["SessionStart", "Stop"] {
        assert_eq!(answers(&stage, event).len(), 1, "{event}: {}", stage.account());
    }
}

#[test]
fn ralphs_own_settings_are_denied_to_the_agent() {
    for streams in OUTPUTS {
        let turns = |project: &Path| {
            let settings = project.join(".ralph/settings.json");
            vec![Cli::Claude.writes(&settings, "{}"), done()]
        };
        let further = json!({ "streamAgentOutput": streams });
        let Some(stage) = stage(turns, &further) else { return };
        let before = stage.sealed.read_file(".ralph/settings.json");
        let end = stage.run().expect_code(0);
        assert_eq!(stage.sealed.read_file(".ralph/settings.json"), before);
        expect_received(&stage, 1, "PreToolUse:Write hook error");
        if streams {
            assert_eq!(
                end.stderr.matches("PreToolUse:Write hook error").count(),
                1,
                "{}",
                end.stderr
            );
        }
    }
}

#[test]
fn an_agent_cannot_switch_its_hooks_off() {
    let turns = |project: &Path| {
        let off = json!({ "disableAllHooks": true }).to_string();
        vec![
            Cli::Claude.writes(&project.join(".claude/settings.json"), &off),
            Cli::Claude.runs("echo '{}' > .ralph/settings.json"),
            done(),
        ]
    };
    let Some(stage) = stage(turns, &json!({})) else { return };
    let before = stage.sealed.read_file(".ralph/settings.json");
    stage.run().expect_code(0);
    assert_eq!(stage.sealed.read_file(".ralph/settings.json"), before);
    expect_received(&stage, 2, "PreToolUse:Bash hook error");
}

#[test]
fn a_context_that_fills_up_is_reported_once() {
    let turns = |_: &Path| vec![Cli::Claude.runs("exit 3"), Cli::Claude.runs("echo more"), done()];
    // Each answer of the scripted model leaves 110 tokens in the window: 55 of a hundred. On a
    // busy machine the CLI may write that down after the first batch; its file is larger still.
    let Some(stage) = stage(turns, &json!({ "context": { "window": 200 } })) else { return };
    stage.run().expect_code(0);
    expect_received(&stage, 1, "PostToolBatch hook additional context: ");
    expect_received(&stage, 1, " % of the context window is used");
    let last = stage.model.turn_requests().pop().expect("it was asked");
    let received =
        last.body["messages"].to_string().matches("of the context window is used").count();
    assert_eq!(received, 1, "{}", stage.account());
    assert_eq!(answers(&stage, "PostToolBatch").len(), 2, "{}", stage.account());
}

#[test]
fn an_agent_that_has_not_committed_may_not_stop() {
    let turns = |project: &Path| {
        vec![
            Cli::Claude.writes(&project.join("made.txt"), "hello"),
            done(),
            Cli::Claude.runs("git add -A && git commit --quiet -m 'Add a greeting'"),
            done(),
        ]
    };
    let settings = json!({ "commit": "agent", "maximumIterations": 1 });
    let Some(stage) = stage(turns, &settings) else { return };
    stage.sealed.run_git(&["add", "--force", ".ralph/settings.json"]);
    stage.sealed.run_git(&["commit", "--quiet", "-m", "Settings"]);
    let end = stage.run();
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    assert_eq!(stage.model.turn_requests().len(), 4, "{}", stage.account());
    expect_received(&stage, 2, "Stop hook feedback");
    expect_received(&stage, 2, "made.txt");
    assert_eq!(end.stderr.matches("Stop hook feedback").count(), 1, "{}", end.stderr);
    assert!(!end.stderr.contains("ctrl+o"), "{}", end.stderr);
    assert_eq!(answers(&stage, "Stop").len(), 2);
    assert!(stage.sealed.subjects().iter().any(|subject| subject == "Add a greeting"));
}

#[test]
fn a_dangerous_command_is_denied_and_the_agent_goes_another_way() {
    let turns = |_: &Path| {
        vec![
            Cli::Claude.runs("rm -rf ~/precious"),
            Cli::Claude.runs("d=precious; cd ~ && find \"$d\" -type f -exec rm {} +"),
            Cli::Claude.runs("mkdir -p out && echo fine > out/made.txt && rm -rf out/old"),
            done(),
        ]
    };
    let Some(stage) = stage(turns, &json!({})) else { return };
    let precious = stage.sealed.root().join("home/precious");
    fs::create_dir_all(&precious).expect("a directory");
    fs::write(precious.join("letter.txt"), "dear").expect("written");
    stage.run().expect_code(0);
    assert!(precious.join("letter.txt").exists(), "{}", stage.account());
    expect_received(&stage, 1, "ralph's guard (fs.remove-outside)");
    expect_received(&stage, 2, "ralph's guard (fs.remove-outside)");
    assert_eq!(stage.sealed.read_file("out/made.txt"), "fine\n");
}

#[test]
fn hooks_that_the_user_has_switched_off_run_all_the_same() {
    let turns = |_: &Path| vec![Cli::Claude.runs("rm -rf .ralph"), done()];
    let Some(stage) = stage(turns, &json!({})) else { return };
    let settings = stage.sealed.root().join("home/.claude");
    fs::create_dir_all(&settings).expect("a directory");
    fs::write(settings.join("settings.json"), r#"{"disableAllHooks": true}"#).expect("written");
    let end = stage.run().expect_code(0);
    assert!(!end.stderr.contains("ralph's hooks did not run"), "{}", end.stderr);
    expect_received(&stage, 1, "ralph's guard (loop.own-files)");
    assert!(stage.sealed.project_dir().join(".ralph/settings.json").exists());
}
