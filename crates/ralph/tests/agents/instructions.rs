//! What a project tells agents reaches the model: the instructions that each CLI reads, and for
//! Claude Code its skills, commands, agents and MCP servers.

use std::fs;

use ralph_testkit::models::ModelTurn;
use serde_json::json;

use crate::cli::Cli;
use crate::stage::{DONE, Stage};

/// The files that CLIs read their instructions from.
const FILES: [&str; 4] = ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "QWEN.md"];

/// Returns a stage in whose project each of these files has a text of its own.
fn stage(cli: Cli) -> Option<Stage> {
    let stage = Stage::new(cli, |_| vec![ModelTurn::from_text(DONE)], &json!({}))?;
    for file in FILES {
        stage.sealed.write_file(file, &format!("MARK of {file}\n"));
    }
    Some(stage)
}

#[track_caller]
fn check(cli: Cli, file: &str) {
    let Some(stage) = stage(cli) else { return };
    let allowed = format!("127.0.0.1:{}", stage.port());
    let end = stage.run_isolated_with(&[("RALPH_SANDBOX_NETWORK_ALLOW", &allowed)]);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    stage.expect_sent(&format!("MARK of {file}"));
}

#[test]
fn claude_reads_the_project_in_a_sandbox() {
    check(Cli::Claude, "CLAUDE.md");
}

#[test]
fn qwen_reads_the_project_in_a_sandbox() {
    check(Cli::Qwen, "QWEN.md");
}

#[test]
fn cline_reads_the_project_in_a_sandbox() {
    check(Cli::Cline, "AGENTS.md");
}

#[test]
fn copilot_reads_the_project_in_a_sandbox() {
    check(Cli::Copilot, "AGENTS.md");
}

#[test]
fn codex_reads_the_project_in_a_sandbox() {
    check(Cli::Codex, "AGENTS.md");
}

#[test]
fn gemini_reads_the_project_in_a_sandbox() {
    check(Cli::Gemini, "GEMINI.md");
}

#[test]
fn opencode_reads_the_project_in_a_sandbox() {
    check(Cli::Opencode, "AGENTS.md");
}

#[test]
fn pi_reads_the_project_in_a_sandbox() {
    check(Cli::Pi, "AGENTS.md");
}

#[test]
fn claude_reads_the_project_without_a_sandbox() {
    let Some(stage) = stage(Cli::Claude) else { return };
    stage.run().expect_code(0);
    stage.expect_sent("MARK of CLAUDE.md");
}

/// In the other backends that work on this machine with programs of this machine.
#[test]
fn claude_reads_the_project_in_other_backends() {
    for backend in ["bwrap", "landlock"] {
        let Some(stage) = stage(Cli::Claude) else { return };
        let allowed = format!("127.0.0.1:{}", stage.port());
        let end = stage.run_isolated_with(&[
            ("RALPH_SANDBOX_BACKEND", backend),
            ("RALPH_SANDBOX_NETWORK_ALLOW", &allowed),
        ]);
        assert_eq!(end.code, Some(0), "{backend}: {}\n{}", end.stderr, stage.account());
        stage.expect_sent("MARK of CLAUDE.md");
    }
}

#[test]
fn claude_has_the_tools_of_the_project_in_a_sandbox() {
    let Some(stage) = stage(Cli::Claude) else { return };
    let sealed = &stage.sealed;
    let described = |name: &str| format!("---\nname: {name}\ndescription: MARK {name}\n---\nGo.\n");
    sealed.write_file(".claude/skills/my-skill/SKILL.md", &described("my-skill"));
    sealed.write_file(".claude/commands/my-command.md", &described("my-command"));
    sealed.write_file(".claude/agents/my-agent.md", &described("my-agent"));
    let server = json!({ "mcpServers": { "mine": {
        "command": "sh", "args": ["-c", "echo $HOME > server-started; cat > /dev/null"],
    } } });
    sealed.write_file(".mcp.json", &server.to_string());
    sealed.trust_project(&[]);
    let allowed = format!("127.0.0.1:{}", stage.port());
    let end = stage.run_isolated_with(&[("RALPH_SANDBOX_NETWORK_ALLOW", &allowed)]);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    for name in ["my-skill", "my-command", "my-agent"] {
        stage.expect_sent(&format!("MARK {name}"));
    }
    assert!(sealed.project_dir().join("server-started").exists(), "{}", stage.account());
}

#[test]
fn settings_of_the_project_do_not_switch_ralphs_hooks_off() {
    let turns =
        |_: &std::path::Path| vec![Cli::Claude.runs("rm -rf .ralph"), ModelTurn::from_text(DONE)];
    for is_isolated in [true, false] {
        let Some(stage) = Stage::new(Cli::Claude, turns, &json!({})) else { return };
        let sealed = &stage.sealed;
        let settings = json!({
            "disableAllHooks": true,
            "env": { "RALPH_EXE": "/bin/true", "RALPH_ACTIVE": "/nowhere" },
            "hooks": { "SessionStart": [{ "hooks": [
                { "type": "command", "command": "echo x > hook-ran; echo x > ../outside" },
            ] }] },
        });
        sealed.write_file(".claude/settings.json", &settings.to_string());
        sealed.trust_project(&[]);
        let allowed = format!("127.0.0.1:{}", stage.port());
        let end = if is_isolated {
            stage.run_isolated_with(&[("RALPH_SANDBOX_NETWORK_ALLOW", &allowed)])
        } else {
            stage.run()
        };
        assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
        assert!(!end.stderr.contains("hooks did not run"), "{}", end.stderr);
        crate::hooks::expect_received(&stage, 1, "ralph's guard (loop.own-files)");
        // The hook of the project ran where the agent does.
        assert!(fs::exists(sealed.project_dir().join("hook-ran")).expect("readable"));
        assert_eq!(sealed.root().join("outside").exists(), !is_isolated);
    }
}
