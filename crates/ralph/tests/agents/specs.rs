//! From specifications by way of a plan to code, in whole runs with real CLIs: they plan, build
//! and commit, and what they leave behind is received.
//!
//! Not here: everything that goes wrong; `it/specs` has that, with the scripted agent.

use std::path::Path;

use ralph_testkit::models::ModelTurn;
use serde_json::json;

use crate::cli::Cli;
use crate::hooks::expect_received;
use crate::stage::Stage;

const PLAN: &str = ".ralph/implementation_plan.md";
const COMPLETE: &str = "All is well. <promise>COMPLETE</promise>";

fn stage(cli: Cli, turns: impl FnOnce(&Path) -> Vec<ModelTurn>) -> Option<Stage> {
    let stage = Stage::new(cli, turns, &json!({ "workflow": "specs", "maximumIterations": 3 }))?;
    stage.sealed.write_file("specs/greeting.md", "# Greeting\n\n`made.txt` says hello.\n");
    stage.sealed.commit_all("Settings");
    Some(stage)
}

fn plans(cli: Cli) -> ModelTurn {
    let plan = format!("printf -- '- [ ] Greet\\n' > {PLAN}");
    cli.runs(&format!("{plan} && git add {PLAN} && git commit --quiet -m 'Plan'"))
}

fn builds(cli: Cli) -> ModelTurn {
    cli.runs(&format!("echo hello > made.txt && printf -- '- [x] Greet\\n' > {PLAN}"))
}

fn commits(cli: Cli) -> ModelTurn {
    cli.runs("git add -A && git commit --quiet -m 'Greet'")
}

#[track_caller]
fn expect_end(stage: &Stage) {
    assert_eq!(stage.sealed.subjects()[..2], ["Greet", "Plan"], "{}", stage.account());
    assert_eq!(stage.sealed.run_git(&["status", "--porcelain"]), "");
    let status = stage.sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(status.contains("1 of 1 item"), "{status}");
    stage.expect_silence();
}

fn plan_and_build(cli: Cli) {
    let turns = |_: &Path| {
        vec![
            plans(cli),
            ModelTurn::from_text(COMPLETE),
            builds(cli),
            commits(cli),
            ModelTurn::from_text(COMPLETE),
        ]
    };
    let Some(stage) = stage(cli, turns) else { return };
    for words in [["plan", "2"], ["build", "3"]] {
        let end = stage.sealed.run_ralph(&words);
        assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    }
    assert_eq!(stage.sealed.find_events("iteration_started").len(), 1, "{}", stage.account());
    expect_end(&stage);
}

#[test]
fn codex_plans_and_builds() {
    plan_and_build(Cli::Codex);
}

#[test]
fn cline_plans_and_builds() {
    plan_and_build(Cli::Cline);
}

#[test]
fn claude_is_kept_from_stopping_with_work_that_is_not_committed() {
    let cli = Cli::Claude;
    let turns = |_: &Path| {
        vec![
            plans(cli),
            ModelTurn::from_text(COMPLETE),
            builds(cli),
            ModelTurn::from_text(COMPLETE),
            commits(cli),
            ModelTurn::from_text(COMPLETE),
        ]
    };
    let Some(stage) = stage(cli, turns) else { return };
    for words in [["plan", "2"], ["build", "1"]] {
        let end = stage.sealed.run_ralph(&words);
        assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    }
    expect_received(&stage, 4, "Stop hook feedback");
    expect_received(&stage, 4, "made.txt");
    expect_end(&stage);
}
