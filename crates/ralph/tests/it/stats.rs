//! `ralph stats`: figures over all runs, kept with each run.

use std::fs;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::{done, repository, run, sealed};

fn read_stats(sealed: &Sealed, words: &[&str]) -> Value {
    let end = sealed.run_ralph(&[&["stats", "--json"], words].concat()).expect_code(0);
    serde_json::from_str(&end.stdout).expect("JSON")
}

/// Builds two tasks; the first attempt breaks the gate.
fn build_two_tasks() -> Sealed {
    let sealed = repository();
    let usage = json!({ "usage": { "input": 100, "output": 10, "cost": 0.25 } });
    let handoff =
        json!({ "handoff": { "task_completed": { "summary": "Done.", "fully_complete": true } } });
    let write = |path: &str| json!({ "write": { "path": path, "text": "x" } });
    let delete = json!({ "delete": { "path": "broken.txt" } });
    let calls = json!([
        { "when": { "call": 1 }, "do": [usage, write("one.txt"), write("broken.txt"), handoff] },
        { "when": { "call": 2 }, "do": [usage, delete, handoff] },
        { "do": [usage, write("two.txt"), handoff] }
    ]);
    let gate = json!({ "name": "whole", "command": "test ! -e broken.txt" });
    let settings = json!({ "review": { "enabled": false }, "gates": [gate] });
    sealed.write_script(&calls, &settings);
    let task = |id: &str| json!({ "id": id, "title": id, "description": "Do it.", "status": "pending", "acceptance_criteria": ["It is there."] });
    let tasks = json!({ "project": "p", "tasks": [task("US-1"), task("US-2")] });
    sealed.write_file("plan.json", &format!("{tasks:#}\n"));
    sealed.commit_all("Plan");
    sealed.run_ralph(&["build", "--plan", "plan.json"]).expect_code(0);
    sealed
}

#[test]
fn figures_are_counted_per_agent_model_and_role() {
    let sealed = build_two_tasks();
    let summary = sealed.runs().pop().expect("a run").join("summary.json");
    assert!(summary.exists(), "kept at the end of the run");
    let stats = read_stats(&sealed, &[]);
    assert_eq!((&stats["runs"], &stats["completeRuns"]), (&json!(1), &json!(1)), "{stats:#}");
    let row = &stats["rows"][0];
    assert_eq!((&row["agent"], &row["role"]), (&json!("sim"), &json!("implement")), "{stats:#}");
    assert_eq!(row["figures"]["gateFailures"], json!({ "whole": 1 }), "{stats:#}");
    assert_eq!(stats["total"]["landed"], 2);
    assert_eq!(stats["attemptsPerTaskMilli"], 1500);
    assert_eq!(stats["costUsdMicrosPerTask"], 375_000);
    assert_eq!(stats["gates"]["whole"]["failed"], 1);
    let shown = sealed.run_ralph(&["stats"]).expect_code(0).stdout;
    for part in ["2 tasks landed, 1.5 attempts each", "$0.38 each", "Failed gates: whole 1 of "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Runs from before the figures were kept are counted once.
    fs::remove_file(&summary).expect("removed");
    assert_eq!(read_stats(&sealed, &[]), stats);
    assert!(summary.exists());
    for since in ["1h", "90m", "2w"] {
        assert_eq!(read_stats(&sealed, &["--since", since]), stats);
    }
    assert_eq!(read_stats(&sealed, &["--since", "2099-01-01"])["runs"], 0);
    sealed.run_ralph(&["stats", "--since", "soon"]).expect_code(2).expect_stderr("12h, 7d, 2w");
}

#[test]
fn several_runs_are_summed_up() {
    let sealed = sealed();
    sealed.run_ralph(&["stats"]).expect_code(0);
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0);
    run(&sealed, &[]).expect_code(0);
    let stats = read_stats(&sealed, &[]);
    assert_eq!((&stats["runs"], &stats["total"]["calls"]), (&json!(2), &json!(2)), "{stats:#}");
    assert_eq!(stats["costUsdMicrosPerTask"], Value::Null);
}
