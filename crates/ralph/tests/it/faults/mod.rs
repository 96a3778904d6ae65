//! Faults around a run: disks, system limits, clocks, stops, other git users, terminals. Each ends
//! as documented, and after the fault is fixed the run can be resumed. Not here: faults of agents
//! (`failures`, `autorun`), kills (`kills`), and the full-screen view.

mod clock;
mod disk;
mod limits;
mod starts;
mod stops;
mod terminal;
mod users_git;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

/// The binary, for scripts.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// Reports a skipped test if something is missing. CI skips nothing.
#[expect(clippy::print_stderr, reason = "what is left out must be seen")]
fn leave_out(what: &str, why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{what}: {why}");
    eprintln!("LEFT OUT: {what}: {why}");
}

/// Runs a shell script in the project, with `$RALPH`, `$ROOT` and `$STATE`.
fn script(sealed: &Sealed, launcher: &[&str], text: &str) -> Finished {
    let shell = ["sh", "-euc", text];
    let words = [launcher, &shell].concat();
    let mut command = sealed.build_command(words[0]);
    command
        .args(&words[1..])
        .env("RALPH", RALPH)
        .env("ROOT", sealed.root())
        .env("STATE", sealed.root().join("state"));
    Running::start_command(command).wait_for_end()
}

/// Counts a call of the agent.
fn counted() -> Value {
    json!({ "run": { "command": "echo call >> \"$ROOT/calls\"" } })
}

fn calls(sealed: &Sealed) -> usize {
    std::fs::read_to_string(sealed.root().join("calls")).unwrap_or_default().lines().count()
}

/// Asserts that a run ended with one of these codes, printed one of these texts, and did not
/// panic.
#[track_caller]
fn expect_clear_end(what: &str, end: &Finished, codes: &[i32], words: &[&str]) {
    let reported = format!("{what}: {:?}\n{}", end.code, end.stderr);
    assert!(end.code.is_some_and(|code| codes.contains(&code)), "{reported}");
    // Long lines are wrapped.
    let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.iter().any(|words| shown.contains(words)), "no {words:?}: {reported}");
    assert!(!end.stderr.contains("panicked"), "{reported}");
}
