//! Tests through the built binary, in sealed environments, with the scripted agent.

#![expect(clippy::needless_pass_by_value, reason = "actions are written where they are used")]

mod acp;
mod agents;
mod archive;
mod autorun;
mod bad_input;
mod browser;
mod build;
mod cheats;
mod claude;
mod clean;
mod clones;
mod commits;
mod compaction;
mod control;
mod custom;
mod demands;
mod detection;
mod dialects;
mod examples;
mod failures;
mod faults;
mod git_programs;
mod git_starts;
mod guidance;
mod guides;
mod hook;
mod init;
mod kills;
mod landing;
mod loops;
mod memory;
mod migrating;
mod network;
mod notify;
mod old_journals;
mod other_agents;
mod outputs;
mod plan;
mod plugin;
mod presets;
mod previews;
mod projects;
mod prompt_snapshots;
mod report;
mod repository;
mod resume;
mod sandbox;
mod secrets;
mod serve;
mod session_log;
mod setuid;
mod signals;
mod signs_of_life;
mod specs;
mod stats;
mod status;
mod streams;
mod surroundings;
mod tasks;
mod telemetry;
mod terminal;
mod trust;
mod tui;
mod typing;
mod users_refs;
mod wizard;
mod worker_hosts;
mod worker_views;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

/// Returns a sealed environment for the built binary, without a repository.
fn sealed() -> Sealed {
    Sealed::new(env!("CARGO_BIN_EXE_ralph"))
}

/// Returns a sealed environment for the built binary, with a repository.
fn repository() -> Sealed {
    Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"))
}

/// Returns a prompt without its token, which no two calls share.
fn without_token(prompt: &str) -> String {
    let (before, rest) = prompt.split_once("\"token\": \"").expect("a token");
    let (_, after) = rest.split_once('"').expect("its end");
    format!("{before}{after}")
}

/// An agent that does the same in every call.
fn always(actions: Value) -> Value {
    json!([{ "do": actions }])
}

/// An agent that completes.
fn done() -> Value {
    always(json!([{ "claim": "DONE" }]))
}

/// An agent that does one thing in its first call and another in later ones.
fn first_then(first: Value, then: Value) -> Value {
    json!([{ "when": { "call": 1 }, "do": first }, { "do": then }])
}

/// Runs `ralph run -p base` with further arguments.
fn run(sealed: &Sealed, words: &[&str]) -> ralph_testkit::sealed::Finished {
    sealed.run_ralph(&[&["run", "-p", "base"], words].concat())
}

/// `./check` skips the scenes that take the longest by their names, so they must be right.
#[test]
fn every_listed_long_scene_exists() {
    let program = std::env::current_exe().expect("a test program");
    let found = std::process::Command::new(program).arg("--list").output().expect("a list").stdout;
    let found = String::from_utf8_lossy(&found);
    let found: std::collections::BTreeSet<&str> =
        found.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let listed = include_str!("../../../../scripts/long-scenes").lines();
    let unknown: Vec<&str> = listed.filter(|name| !found.contains(name)).collect();
    assert_eq!(unknown, Vec::<&str>::new());
}
