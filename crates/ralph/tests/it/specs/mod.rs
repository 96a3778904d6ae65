//! Specification workflow, through the built binary with real git: `ralph plan`, `ralph build` and
//! `ralph prompt`, with agents that follow instructions, and with those that do not.

mod commits;
mod ends;
mod input;
mod plans;
mod resume;
mod templates;
mod whole;

use ralph_testkit::sealed::{Sealed, merge_into};
use serde_json::{Value, json};

use crate::repository;

/// The plan.
const PLAN: &str = ".ralph/implementation_plan.md";

/// The completion signal.
const SIGNAL: &str = "<promise>COMPLETE</promise>";

/// Returns a repository with a specification and the scripted agent, all of it committed.
fn specs(calls: &Value, further: &Value) -> Sealed {
    let sealed = repository();
    sealed.write_file("specs/greeting.md", "# Greeting\n\n`hello.txt` says hello.\n");
    with_agent(&sealed, calls, further);
    sealed
}

/// Returns the same with a plan of two open items.
fn planned(calls: &Value, further: &Value) -> Sealed {
    let sealed = repository();
    sealed.write_file("specs/greeting.md", "# Greeting\n\n`hello.txt` says hello.\n");
    sealed.write_file(PLAN, "# Plan\n\n- [ ] Greet\n- [ ] Part\n");
    with_agent(&sealed, calls, further);
    sealed
}

/// Writes the agent into the settings, and commits everything.
fn with_agent(sealed: &Sealed, calls: &Value, further: &Value) {
    let mut settings = json!({ "workflow": "specs" });
    merge_into(&mut settings, further);
    sealed.write_script(calls, &settings);
    sealed.write_file(".gitignore", "/.ralph/logs/\n/.ralph/state.json\n");
    commit_all(sealed, "Specify");
}

fn commit_all(sealed: &Sealed, message: &str) {
    sealed.run_git(&["add", "-A"]);
    sealed.run_git(&["commit", "--quiet", "--allow-empty", "-m", message]);
}

/// Writes the plan.
fn plan(text: &str) -> Value {
    json!({ "write": { "path": PLAN, "text": text } })
}

/// Commits everything there is.
fn commit(message: &str) -> Value {
    json!({ "run": { "command": format!("git add -A && git commit --quiet -m '{message}'") } })
}

/// Prints a text.
fn says(text: &str) -> Value {
    json!({ "text": text })
}

/// Reports that the work is complete.
fn complete() -> Value {
    says(SIGNAL)
}

/// Marks every item of the plan as done.
fn check_items() -> Value {
    json!({ "run": { "command": format!("sed -i 's/\\[ \\]/[x]/' {PLAN}") } })
}

/// Returns the prompt of a call, from 1.
#[track_caller]
fn prompt(sealed: &Sealed, call: usize) -> String {
    let prompts = sealed.prompts();
    prompts.get(call - 1).unwrap_or_else(|| panic!("there are {} prompts", prompts.len())).clone()
}

/// Returns the warnings that the last run recorded.
fn warnings(sealed: &Sealed) -> Vec<String> {
    let texts = sealed.find_events("warned").into_iter();
    texts.filter_map(|event| event["text"].as_str().map(str::to_owned)).collect()
}

/// Asserts that a warning was given exactly once.
#[track_caller]
fn expect_warning(sealed: &Sealed, text: &str) {
    let warnings = warnings(sealed);
    let count = warnings.iter().filter(|warning| warning.contains(text)).count();
    assert_eq!(count, 1, "{text:?} in {warnings:#?}");
}
