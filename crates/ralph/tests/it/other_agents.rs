//! The adapters for Amp, Cline, Codex and `OpenCode` through the built binary: a stand-in on the `PATH`
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

/// `OpenCode` adds the key to a configuration without it, before it does anything else.
#[test]
fn a_schema_that_an_agent_adds_to_its_configuration_is_removed_again() {
    let sealed = crate::repository();
    let mine = "{\n  // mine\n  \"model\": \"corp/m\"\n}\n";
    sealed.write_file("opencode.json", mine);
    sealed.write_file(".ralph/settings.json", &json!({ "commit": "ralph" }).to_string());
    sealed.commit_all("Settings");
    let text = |text: &str| {
        json!({ "type": "text", "sessionID": "s", "part": {
            "type": "text", "text": text, "time": { "start": 1, "end": 2 } } })
    };
    let end = json!({ "type": "step_finish", "sessionID": "s", "part": {
        "type": "step-finish", "reason": "stop", "cost": 0,
        "tokens": { "input": 1, "output": 1, "reasoning": 0, "cache": { "read": 0, "write": 0 } } } });
    sealed.write_program(
        "opencode",
        &format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exec echo 1.0.0\n\
             sed -i '1s/.*/{{\\n  \"$schema\": \"https:..opencode.ai.config.json\",/' opencode.json\n\
             echo x >> work.txt\ncase $(wc -l < work.txt) in\n\
             1) echo '{}';;\n2) sed -i s,corp/m,corp/n, opencode.json; echo '{}';;\nesac\necho '{end}'\n",
            text("More to do."),
            text("<response>DONE</response>"),
        ),
    );
    let words = ["run", "-p", "base", "--agent", "opencode"];
    let end = sealed.run_ralph(&words).expect_code(0);
    let warning = "the agent added `$schema` to `opencode.json`, which was restored";
    assert_eq!(end.stderr.matches(warning).count(), 1, "{}", end.stderr);
    // The first commit does not contain it; a change of another value is part of the work.
    assert_eq!(sealed.run_git(&["show", "HEAD~1:opencode.json"]), mine);
    assert!(sealed.run_git(&["show", "HEAD:opencode.json"]).contains("$schema"));
}
