//! The adapters for Amp, Cline and Codex through the built binary: a stand-in on the `PATH`
//! prints the stream that the real one prints.

use std::fs;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::sealed;

/// Returns an environment in which an agent plays these calls, and reads its prompt where the real
/// one does.
fn with_agent(name: &str, calls: &Value) -> Sealed {
    let sealed = sealed();
    let scenario = sealed.root().join("scenario.json");
    let text = json!({ "dialect": name, "calls": calls });
    fs::write(&scenario, text.to_string()).expect("written");
    let ralph = env!("CARGO_BIN_EXE_ralph");
    sealed.write_program(
        name,
        &format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exec echo '999.0.0'\nfor prompt do :; done\n\
             {{ printf '%s\\n\\n' \"$prompt\"; cat; }} | {ralph} __sim {}\n",
            scenario.display()
        ),
    );
    sealed
}

/// Runs a loop in which the tag is first only in the prompt and in a file, then a limit is hit.
#[track_caller]
fn check(name: &str, shown: &str) {
    let sealed = with_agent(
        name,
        &json!([
            { "when": { "call": 1, "promptContains": "say <response>DONE</response>" }, "do": [
                { "tool": { "name": "Bash", "summary": "ls", "output": "<response>DONE</response>" } },
                { "usage": { "input": 10, "output": 5 } },
                { "text": "More to do." }
            ] },
            { "when": { "call": 2 }, "do": [
                { "rateLimit": { "status": "rejected", "resets": { "in": 1 } } },
                { "result": { "error": { "class": "rateLimited", "words": "sorry" } } }
            ] },
            { "when": { "call": 3 }, "do": [{ "claim": "DONE" }] }
        ]),
    );
    let prompt = "When all is done, say <response>DONE</response>.";
    let end = sealed.run_ralph(&["run", "-p", prompt, "--agent", name]).expect_code(0);
    for text in [shown, "tokens: 10 in / 5 out", "sorry"] {
        assert!(end.stderr.contains(text), "{name}, {text}: {}", end.stderr);
    }
    assert_eq!(sealed.find_events("iteration_started").len(), 2, "{name}: {}", end.stderr);
    assert_eq!(sealed.find_events("waiting").len(), 1, "{name}: {}", end.stderr);
}

#[test]
fn a_whole_loop_with_amp() {
    check("amp", "⏺ Bash(ls)");
}

#[test]
fn a_whole_loop_with_cline() {
    check("cline", "⏺ run_commands(ls)");
}

#[test]
fn a_whole_loop_with_codex() {
    check("codex", "⏺ command(ls)");
}
