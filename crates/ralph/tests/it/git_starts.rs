//! How often git is started: before the first agent, and between two agents.

use std::fs;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::repository;

/// The starts of git before each agent, with their arguments.
type Starts = Vec<Vec<String>>;

/// A repository in which every start of git and of the agent is logged.
fn prepare(settings: Value) -> Sealed {
    let sealed = repository();
    let log = sealed.root().join("starts");
    let log = log.display();
    let work = format!("echo agent >> {log}; echo \"$RALPH_ITERATION\" > work.txt");
    let handoff = json!({ "task_completed": { "summary": "Done.", "fully_complete": true } });
    let calls = json!([{ "do": [{ "run": { "command": work } }, { "handoff": handoff }] }]);
    sealed.write_script(&calls, &settings);
    let task = |id: &str| {
        json!({
            "id": id,
            "title": format!("The {id}"),
            "description": "Make it.",
            "status": "pending",
            "acceptance_criteria": ["it is there"],
            "depends_on": [],
        })
    };
    let tasks = ["one", "two", "three", "four"].map(task);
    let plan = json!({ "project": "p", "tasks": tasks });
    sealed.write_file("plan.json", &format!("{plan:#}\n"));
    sealed.commit_all("Settings");
    sealed.write_program(
        "git",
        &format!(
            "#!/bin/sh\nprintf '%s\\n' \"git $*\" >> {log}\n\
             for directory in /usr/local/bin /usr/bin /bin; do\n\
             test -x $directory/git && exec $directory/git \"$@\"\ndone\n"
        ),
    );
    sealed
}

fn read_starts(sealed: &Sealed) -> Starts {
    let log = fs::read_to_string(sealed.root().join("starts")).expect("a log");
    let mut starts: Starts = vec![Vec::new()];
    for line in log.lines() {
        match (line, starts.last_mut()) {
            ("agent", _) => starts.push(Vec::new()),
            (line, Some(last)) => last.push(line.to_owned()),
            (_, None) => {}
        }
    }
    // What comes after the last agent is no gap.
    starts.pop();
    starts
}

#[track_caller]
fn check(sealed: &Sealed, most_before: usize, most_between: usize) {
    let starts = read_starts(sealed);
    assert_eq!(starts.len(), 4, "four agents: {starts:#?}");
    assert!(starts[0].len() <= most_before, "before the first agent: {:#?}", starts[0]);
    for between in &starts[1..] {
        assert!(between.len() <= most_between, "between two agents: {between:#?}");
    }
}

#[test]
fn building_with_a_gate_starts_git_three_times_and_then_four_times_a_task() {
    let gates = json!([{ "name": "test", "command": "test -s work.txt || test ! -e work.txt" }]);
    let sealed = prepare(json!({ "review": { "enabled": false }, "gates": gates }));
    sealed.run_ralph(&["build"]).expect_code(0);
    check(&sealed, 3, 4);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn a_prompt_starts_git_twice_and_then_once_an_iteration() {
    let sealed = prepare(json!({ "commit": "ralph" }));
    sealed.run_ralph(&["run", "-p", "work", "-m", "4"]).expect_code(1);
    check(&sealed, 2, 1);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn a_prompt_without_commits_starts_git_twice_and_then_once_an_iteration() {
    let sealed = prepare(json!({ "commit": "none" }));
    sealed.run_ralph(&["run", "-p", "work", "-m", "4"]).expect_code(1);
    check(&sealed, 2, 1);
}
