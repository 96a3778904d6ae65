//! Inputs of hooks: transcripts of all sizes, and every line of the guard's tables.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ralph_model::hook_state::HookState;
use ralph_model::ids::RunId;
use ralph_model::units::Timestamp;
use ralph_testkit::measure::time_command;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

/// Runs a command with a file as its input.
pub(crate) fn give(command: &mut Command, input: &Path) {
    command.stdin(File::open(input).expect("opened")).stdout(Stdio::null()).stderr(Stdio::null());
    time_command(command);
}

/// Makes a run appear active, and returns the file with its hook state.
pub(crate) fn active(sealed: &Sealed) -> PathBuf {
    let active = sealed.state_dir().join("project-1/active.json");
    fs::create_dir_all(active.parent().expect("a parent")).expect("a directory");
    let run = HookState {
        project: Some(sealed.project_dir()),
        ..HookState::new(RunId("bench".into()), std::process::id(), Timestamp(1))
    };
    fs::write(&active, serde_json::to_string(&run).expect("serializable")).expect("written");
    active
}

/// Returns the input of the guard for each command of its tables, as files.
pub(crate) fn calls(sealed: &Sealed) -> Vec<PathBuf> {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph-guard/tests/data");
    let mut calls = Vec::new();
    for name in ["deny.txt", "allow.txt", "more-deny.txt", "more-allow.txt"] {
        let text = fs::read_to_string(tables.join(name)).expect("a table");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((_, command)) = line.split_once('\t') else { continue };
            let path = sealed.root().join(format!("call-{}.json", calls.len()));
            let input = json!({
                "session_id": "c28f6ce8-15f7-412d-bbe9-3da0bd9b52a6", "cwd": sealed.project_dir(),
                "tool_name": "Bash", "tool_input": {"command": command.replace('\u{23CE}', "\n")},
            });
            fs::write(&path, input.to_string()).expect("written");
            calls.push(path);
        }
    }
    calls
}

/// Writes the input of a hook to a file.
pub(crate) fn input(sealed: &Sealed, transcript: &Path) -> PathBuf {
    let name = transcript.file_name().unwrap_or_default().to_string_lossy();
    let path = sealed.root().join(format!("input-{name}"));
    let input = json!({
        "session_id": "c28f6ce8-15f7-412d-bbe9-3da0bd9b52a6",
        "transcript_path": transcript,
        "cwd": sealed.project_dir(),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "cargo test", "description": "Run the tests"},
        "tool_response": {"stdout": "ok\n".repeat(1000), "stderr": "", "interrupted": false},
    });
    fs::write(&path, input.to_string()).expect("written");
    path
}

/// Writes a transcript of answers and the outputs of tools.
pub(crate) fn transcript(sealed: &Sealed, megabytes: usize) -> PathBuf {
    let path = sealed.root().join(format!("transcript-{megabytes}.jsonl"));
    let mut file = BufWriter::new(File::create(&path).expect("created"));
    let output = json!({"type": "user", "message": {"content": "line of output\n".repeat(800)}});
    let answer = |tokens: usize| -> Value {
        json!({
            "isSidechain": false,
            "message": {
                "model": "claude-opus-5-5",
                "content": [{"type": "text", "text": "I look at the next file. ".repeat(20)}],
                "usage": {"input_tokens": 3, "cache_read_input_tokens": tokens, "output_tokens": 9},
            },
            "type": "assistant",
        })
    };
    let mut written = 0;
    while written < megabytes * 1_000_000 {
        let lines = format!("{}\n{output}\n", answer(written / 1_000));
        written += lines.len();
        file.write_all(lines.as_bytes()).expect("written");
    }
    path
}
