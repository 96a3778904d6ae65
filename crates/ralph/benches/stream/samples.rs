//! Streams to read: recorded ones, repeated, with long outputs of tools and answers in pieces.
//!
//! A sample is a few megabytes that are read over and over. Not here: how it is read.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_model::agent::AgentKind;
use serde::de::IgnoredAny;
use serde_json::json;

/// A stream.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) kind: AgentKind,
    /// The bytes of the agent.
    pub(crate) unit: Vec<u8>,
}

/// The names of the samples.
pub(crate) const NAMES: [&str; 3] = ["claude", "codex", "text"];

/// Returns a sample.
pub(crate) fn load_sample(name: &'static str) -> Sample {
    let (kind, unit) = match name {
        "claude" => (AgentKind::Claude, claude()),
        "codex" => (AgentKind::Codex, codex()),
        _ => (AgentKind::Text, text()),
    };
    Sample { name, kind, unit: unit.into_bytes() }
}

impl Sample {
    /// Returns the same as lines of JSON, for the reader it is compared with: events as they
    /// are, text as strings.
    pub(crate) fn as_json(&self) -> Vec<u8> {
        if self.kind != AgentKind::Text {
            return self.unit.clone();
        }
        let text = String::from_utf8_lossy(&self.unit);
        text.lines().map(|line| json!(line).to_string() + "\n").collect::<String>().into_bytes()
    }
}

/// How often the recorded streams are repeated in a sample.
const CYCLES: usize = 24;

/// The sizes of outputs: mostly small, some a whole file, few a whole log.
const OUTPUT_LINES: [usize; 8] = [3, 20, 8, 150, 40, 900, 5, 4_000];

fn claude() -> String {
    let recorded = recorded(
        "claude/2.1.325",
        &["tools-todo", "tools-tasks", "mcp-memory", "subagent", "text-complete-partial"],
    );
    let mut stream = String::new();
    for cycle in 0..CYCLES {
        stream.push_str(&recorded);
        for (at, lines) in OUTPUT_LINES.into_iter().enumerate() {
            let id = format!("toolu_{cycle}_{at}");
            let output = output(cycle + at, lines);
            stream.push_str(&tool_call(&id, cycle));
            stream.push_str(&tool_result(&id, &output));
            for piece in 0..40 {
                stream.push_str(&delta(cycle * 1_000 + piece));
            }
        }
    }
    stream
}

/// A line as the CLI writes it, with the type in front.
fn tool_call(id: &str, cycle: usize) -> String {
    let input = match cycle % 2 {
        0 => json!({ "command": "cargo test --workspace 2>&1", "description": "Run the tests" }),
        _ => json!({ "file_path": "/project/src/new.rs", "content": output(cycle, 60) }),
    };
    let name = if cycle.is_multiple_of(2) { "Bash" } else { "Write" };
    let message = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{ "type": "tool_use", "id": id, "name": name, "input": input }],
        "stop_reason": null,
        "usage": { "input_tokens": 5, "cache_read_input_tokens": 13_130, "output_tokens": 1 },
    });
    with_ids("assistant", &format!(r#""message":{message}"#))
}

/// The CLI prints an output twice: as the model gets it, and parsed.
fn tool_result(id: &str, output: &str) -> String {
    let message = json!({
        "role": "user",
        "content": [
            { "tool_use_id": id, "type": "tool_result", "content": output, "is_error": false }
        ],
    });
    let details = json!({ "stdout": output, "stderr": "", "interrupted": false });
    with_ids("user", &format!(r#""message":{message},"tool_use_result":{details}"#))
}

fn delta(number: usize) -> String {
    let words = format!(" and then word {number} comes");
    let event = json!({
        "type": "content_block_delta", "index": 0,
        "delta": { "type": "text_delta", "text": words },
    });
    with_ids("stream_event", &format!(r#""event":{event}"#))
}

fn with_ids(kind: &str, rest: &str) -> String {
    format!(
        "{{\"type\":\"{kind}\",{rest},\"parent_tool_use_id\":null,\
         \"session_id\":\"982d9bee-9980-4343-a55e-d57dde79ac78\",\
         \"uuid\":\"af221250-0ab7-4c07-99a2-594636902a03\"}}\n"
    )
}

fn codex() -> String {
    let recorded = recorded("codex/0.166.0", &["tools", "todo-list", "workspace-write"]);
    let mut stream = String::new();
    for cycle in 0..CYCLES {
        stream.push_str(&recorded);
        for (at, lines) in OUTPUT_LINES.into_iter().enumerate() {
            let id = format!("item_{cycle}_{at}");
            stream.push_str(&command("item.started", &id, "", "in_progress"));
            let output = output(cycle + at, lines);
            stream.push_str(&command("item.completed", &id, &output, "completed"));
            let message = format!("Step {at} of {cycle} is done.\nNext I look at the tests.");
            let item = json!({ "id": format!("{id}m"), "type": "agent_message", "text": message });
            stream.push_str(&format!("{{\"type\":\"item.completed\",\"item\":{item}}}\n"));
        }
    }
    stream
}

fn command(kind: &str, id: &str, output: &str, status: &str) -> String {
    let item = json!({
        "id": id, "type": "command_execution",
        "command": "/bin/bash -lc 'cargo test --workspace'",
        "aggregated_output": output, "exit_code": 0, "status": status,
    });
    format!("{{\"type\":\"{kind}\",\"item\":{item}}}\n")
}

fn text() -> String {
    let outputs = OUTPUT_LINES.into_iter().map(|lines| output(lines, lines));
    outputs.collect::<String>().repeat(CYCLES)
}

/// Lines as compilers and test runners print them: ASCII, but for some.
fn output(seed: usize, lines: usize) -> String {
    let mut text = String::new();
    for line in 0..lines {
        let number = seed * 31 + line;
        text.push_str(&match number % 7 {
            0 => format!("test module_{number}::works_as_said ... ok\n"),
            1 => format!("    let value: Option<&str> = map.get(\"key-{number}\").copied();\n"),
            2 => "\n".to_owned(),
            3 => format!("warning: unused variable: `x{number}` → see src/lib.rs:{number}:17\n"),
            4 => format!("\tif (index < {number}) {{ return fetch(`/api/${{index}}`); }}\n"),
            5 => format!("   Compiling crate-{number} v0.{number}.0 (/project/crates/{number})\n"),
            _ => format!("drwxr-xr-x 2 user user 4096 Nov 15 00:48 directory-{number}\n"),
        });
    }
    text
}

fn recorded(directory: &str, names: &[&str]) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph-agents/tests/data");
    let read = |name: &&str| {
        fs::read_to_string(data.join(directory).join(format!("{name}.ndjson"))).expect("recorded")
    };
    names.iter().map(read).collect()
}

/// Returns every line of JSON that was recorded of an agent.
pub(crate) fn all_recorded(agent: &str) -> Vec<u8> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph-agents/tests/data").join(agent);
    let entries = |path: &Path| {
        let entries = fs::read_dir(path).expect("recorded").flatten().map(|entry| entry.path());
        let mut entries: Vec<PathBuf> = entries.collect();
        entries.sort();
        entries
    };
    let files = entries(&data).into_iter().flat_map(|version| entries(&version));
    let streams = files.filter(|file| file.extension().is_some_and(|it| it == "ndjson"));
    let text: String = streams.map(|file| fs::read_to_string(file).expect("recorded")).collect();
    let is_json = |line: &&str| serde_json::from_str::<IgnoredAny>(line).is_ok();
    text.lines().filter(is_json).flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}
