//! `ralph build` over task lists: whole runs through the built binary, with real git.

mod answers;
mod attempts;
mod branches;
mod context;
mod earlier_runs;
mod failure_branches;
mod fair_reviews;
mod gates;
mod git_tampering;
mod hand_in;
mod keeper;
mod lists;
mod outputs;
mod own_commits;
mod own_edits;
mod parallel;
mod parallel_faults;
mod parallel_queue;
mod parallel_rules;
mod parallel_trust;
mod prompt_facts;
mod prompts;
mod results;
mod resume;
mod review;
mod whole;

use serde_json::{Value, json};

use ralph_testkit::sealed::{Finished, Sealed, merge_into};

use crate::repository;

/// A task in the format of `plan.json`.
fn task(id: &str, depends_on: &[&str]) -> Value {
    json!({
        "id": id,
        "title": format!("The {id}"),
        "description": format!("Make {id}."),
        "status": "pending",
        "acceptance_criteria": [format!("{id} is there")],
        "depends_on": depends_on
    })
}

fn plan(tasks: &[Value]) -> Value {
    json!({ "project": "p", "tasks": tasks })
}

/// An agent that writes a file named after its task.
fn worker() -> Value {
    json!([writes("$RALPH_TASK.txt")])
}

/// A call in which the agent writes its iteration into a file.
fn writes(path: &str) -> Value {
    let command = format!("echo \"$RALPH_ITERATION\" > {path}");
    json!({ "do": [{ "run": { "command": command } }, handoff("Wrote it.")] })
}

/// A step that ends the turn with a handoff.
fn handoff(summary: &str) -> Value {
    json!({ "handoff": { "task_completed": { "summary": summary, "fully_complete": true } } })
}

/// Settings without review, merged with others.
fn settings(further: Value) -> Value {
    let mut settings = json!({ "review": { "enabled": false } });
    merge_into(&mut settings, &further);
    settings
}

/// Returns a repository with a committed `plan.json`, an agent and settings.
fn project(tasks: &[Value], calls: &Value, settings: &Value) -> Sealed {
    let sealed = repository();
    sealed.write_script(calls, settings);
    sealed.write_file("plan.json", &format!("{:#}\n", plan(tasks)));
    commit_all(&sealed);
    sealed
}

fn commit_all(sealed: &Sealed) {
    sealed.commit_all("Settings");
}

fn build(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.run_ralph(&[&["build"], words].concat())
}

/// The subjects of what the runs committed, oldest first.
fn made(sealed: &Sealed) -> Vec<String> {
    let mut subjects = sealed.subjects();
    subjects.reverse();
    subjects.split_off(2)
}

/// The list in the file.
#[track_caller]
fn list(sealed: &Sealed) -> Value {
    serde_json::from_str(&sealed.read_file("plan.json")).expect("a list")
}

/// Ids and statuses of the list.
#[track_caller]
fn statuses(sealed: &Sealed) -> Vec<(String, String)> {
    let list = list(sealed);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tasks = list["tasks"].as_array().expect("tasks");
    tasks.iter().map(|task| (word(&task["id"]), word(&task["status"]))).collect()
}

#[track_caller]
pub(crate) fn assert_statuses(sealed: &Sealed, expect: &[(&str, &str)]) {
    let statuses = statuses(sealed);
    let statuses: Vec<(&str, &str)> =
        statuses.iter().map(|(id, status)| (id.as_str(), status.as_str())).collect();
    assert_eq!(statuses, expect);
}

/// Failure branches.
fn failure_branches(sealed: &Sealed) -> Vec<String> {
    let branches = sealed.run_git(&["branch", "--list", "wip/*", "--format=%(refname:short)"]);
    branches.lines().map(str::to_owned).collect()
}

#[track_caller]
pub(crate) fn assert_clean(sealed: &Sealed) {
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
}
