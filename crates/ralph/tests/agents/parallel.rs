//! Several tasks at the same time, each done by a real CLI in a clone of its own.
//!
//! Not here: everything that goes wrong; `it/build` has that, with the scripted agent.

use ralph_testkit::models::{ModelTurn, TOKEN};
use ralph_testkit::sealed::Running;
use serde_json::json;

use crate::cli::Cli;
use crate::stage::Stage;

/// Does the task that the worker has. The pause lets both workers begin before one ends.
const WORKS: &str = "sleep 6; echo hello > \"$RALPH_TASK.txt\"";

fn works_on_two_tasks_at_once(cli: Cli, backend: &str) {
    let handoff = || {
        cli.hands_over(&json!({
            "token": TOKEN,
            "task_completed": { "summary": "Wrote the file.", "fully_complete": true },
        }))
    };
    let turns = |_: &std::path::Path| {
        let hands_over: [ModelTurn; 2] = [handoff(), handoff()];
        [cli.runs(WORKS), cli.runs(WORKS)].into_iter().chain(hands_over).collect()
    };
    let settings = json!({ "review": { "enabled": false }, "guard": { "mode": "warn" } });
    let Some(stage) = Stage::new(cli, turns, &settings) else { return };
    let task = |id: &str| {
        json!({
            "id": id,
            "title": format!("Greet {id}"),
            "description": format!("Write hello to {id}.txt."),
            "acceptanceCriteria": [format!("{id}.txt says hello")],
            "passes": false,
        })
    };
    let list = json!({ "userStories": [task("US-1"), task("US-2")] });
    stage.sealed.write_file("ralph/tasks.json", &format!("{list:#}\n"));
    stage.sealed.commit_all("Tasks");
    let mut command = stage.sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command
        .args(["build", "--jobs", "2"])
        .env("RALPH_SANDBOX_BACKEND", backend)
        .env("RALPH_SANDBOX_NETWORK_ALLOW", format!("127.0.0.1:{}", stage.port()))
        .env("RALPH_SANDBOX_RW", stage.installed_in());
    let end = Running::start_command(command).wait_for_end();
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    assert_eq!(stage.model.turn_requests().len(), 4, "{}", stage.account());
    for id in ["US-1", "US-2"] {
        assert_eq!(stage.sealed.read_file(&format!("{id}.txt")), "hello\n", "{}", end.stderr);
    }
    let log = stage.sealed.run_git(&["log", "--format=%(trailers:key=Ralph-Worker)"]);
    assert_eq!(log.matches("Ralph-Worker").count(), 2, "{log}");
    assert_eq!(stage.sealed.run_git(&["status", "--porcelain"]), "");
    stage.expect_silence();
}

#[test]
fn claude_works_on_two_tasks_at_once() {
    works_on_two_tasks_at_once(Cli::Claude, "native");
}

#[test]
fn codex_works_on_two_tasks_at_once() {
    works_on_two_tasks_at_once(Cli::Codex, "none");
}
