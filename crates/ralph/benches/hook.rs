//! What a hook costs: before and after every tool call of a session, so next to nothing is allowed.
//!
//! `ralph hook post-tool-use` stands beside `/bin/true`, in turns, with transcripts of 1, 10 and
//! 100 MB, whose last answer is near the end as in a real one, and without a transcript. The guard
//! (`ralph hook pre-tool-use`) is given every line of its tables within a run.
//! `cargo bench -p ralph --bench hook` prints the figures; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ralph_core::active::Active;
use ralph_core::ids::RunId;
use ralph_core::units::Timestamp;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// How often the guard is given each line.
const TIMES: usize = 3;

/// As many as a long session has tool calls.
const ROUNDS: usize = 300;

fn main() {
    let sealed = Sealed::new(RALPH);
    let mut inputs = vec![("no transcript".to_owned(), input(&sealed, Path::new("/nowhere")))];
    for megabytes in [1, 10, 100] {
        let path = transcript(&sealed, megabytes);
        inputs.push((format!("{megabytes} MB transcript"), input(&sealed, &path)));
    }
    let mut nothing = Vec::new();
    let mut version = Vec::new();
    let mut hooks: Vec<Vec<Duration>> = vec![Vec::new(); inputs.len()];
    for _ in 0..ROUNDS {
        nothing.push(timed(&mut Command::new("/bin/true"), &inputs[0].1));
        version.push(timed(sealed.command(RALPH).arg("--version"), &inputs[0].1));
        for (times, (_, input)) in hooks.iter_mut().zip(&inputs) {
            times.push(timed(sealed.command(RALPH).args(["hook", "post-tool-use"]), input));
        }
    }
    let nothing = median(nothing);
    println!("{:<32} {:>8.2} ms", "/bin/true", milliseconds(nothing));
    let told = inputs.iter().map(|(what, _)| format!("hook, {what}")).zip(hooks);
    for (what, times) in std::iter::once(("ralph --version".to_owned(), version)).chain(told) {
        let time = median(times);
        let ratio = time.as_secs_f64() / nothing.as_secs_f64();
        println!("{what:<32} {:>8.2} ms, ratio {ratio:.2}", milliseconds(time));
    }
    guard(&sealed);
}

/// Times the guard over its tables, in turns with a process that does nothing.
fn guard(sealed: &Sealed) {
    let project = sealed.project();
    let active = sealed.state().join("project-1/active.json");
    fs::create_dir_all(active.parent().expect("a parent")).expect("a directory");
    let run = Active {
        project: Some(project.clone()),
        ..Active::new(RunId("bench".into()), std::process::id(), Timestamp(1))
    };
    fs::write(&active, serde_json::to_string(&run).expect("serializable")).expect("written");
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph-core/tests/data/guard");
    let (mut guarded, mut nothing) = (Vec::new(), Vec::new());
    for name in ["deny.txt", "allow.txt", "more-deny.txt", "more-allow.txt"] {
        let text = fs::read_to_string(tables.join(name)).expect("a table");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((_, command)) = line.split_once('\t') else { continue };
            let path = sealed.root().join("call.json");
            let input = json!({
                "session_id": "c28f6ce8-15f7-412d-bbe9-3da0bd9b52a6", "cwd": project,
                "tool_name": "Bash", "tool_input": {"command": command.replace('\u{23CE}', "\n")},
            });
            fs::write(&path, input.to_string()).expect("written");
            for _ in 0..TIMES {
                nothing.push(timed(&mut Command::new("/bin/true"), &path));
                let mut hook = sealed.command(RALPH);
                hook.args(["hook", "pre-tool-use"]).env("RALPH_ACTIVE", &active);
                guarded.push(timed(hook.env("RALPH_RUN_ID", "bench"), &path));
            }
        }
    }
    println!("{:<32} {:>8} {:>8} {:>8} {:>8}", "the guard", "median", "p95", "p99", "max");
    for (what, mut times) in [("/bin/true", nothing), ("hook pre-tool-use", guarded)] {
        times.sort();
        let at =
            |part: usize| milliseconds(times[(times.len() * part / 1000).min(times.len() - 1)]);
        let figures = [500, 950, 990, 1000].map(|part| format!("{:>8.2}", at(part))).join(" ");
        println!("{what:<32} {figures} ms, {} calls", times.len());
    }
}

/// Writes what a hook is given to a file.
fn input(sealed: &Sealed, transcript: &Path) -> PathBuf {
    let name = transcript.file_name().unwrap_or_default().to_string_lossy();
    let path = sealed.root().join(format!("input-{name}"));
    let input = json!({
        "session_id": "c28f6ce8-15f7-412d-bbe9-3da0bd9b52a6",
        "transcript_path": transcript,
        "cwd": sealed.project(),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "cargo test", "description": "Run the tests"},
        "tool_response": {"stdout": "ok\n".repeat(1000), "stderr": "", "interrupted": false},
    });
    fs::write(&path, input.to_string()).expect("written");
    path
}

/// Writes a transcript of answers and the outputs of tools.
fn transcript(sealed: &Sealed, megabytes: usize) -> PathBuf {
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

fn timed(command: &mut Command, input: &Path) -> Duration {
    command.stdin(File::open(input).expect("opened")).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    assert!(command.status().expect("it starts").success());
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
