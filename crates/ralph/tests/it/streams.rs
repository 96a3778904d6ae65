//! Malformed streams, through the built binary: readable parts are read, the rest is kept and
//! shown, and memory stays bounded. Each row of the tables names the class of failure and the exit
//! code. Not here: streams that end because their process is ended.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Sealed, wait_until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::{run, sealed};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1","model":"m1"}"#;
const SAID: &str = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Fine. <response>DONE</response>"}]}}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Fine. <response>DONE</response>"}"#;
const CODEX: [&str; 4] = [
    r#"{"type":"thread.started","thread_id":"t1"}"#,
    r#"{"type":"turn.started"}"#,
    r#"{"type":"item.completed","item":{"id":"i1","type":"agent_message","text":"Fine. <response>DONE</response>"}}"#,
    r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#,
];

/// Returns an environment in which an agent of this name runs a shell script. The file `stream` is
/// next to the project.
fn with_agent(name: &str, script: &str, stream: &[u8]) -> Sealed {
    let sealed = sealed();
    fs::write(sealed.root().join("stream"), stream).expect("written");
    sealed.write_program(name, &format!("#!/bin/sh\n{script}\n"));
    let settings = json!({
        "agent": { "command": name },
        "retries": { "max": 0 },
        "maximumIterations": 1,
        "preventSleep": false,
    });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    sealed
}

/// Returns the journal event of the only call.
fn reply(sealed: &Sealed) -> Value {
    let mut replies = sealed.find_events("replied");
    assert_eq!(replies.len(), 1);
    replies.pop().expect("a reply")["reply"].clone()
}

/// Returns the raw stream of the only call.
fn raw(sealed: &Sealed) -> Vec<u8> {
    let path = sealed.runs().pop().expect("a run").join("agent-1.ndjson.zst");
    zstd::decode_all(File::open(path).expect("a raw stream")).expect("whole")
}

/// Plays a stream as an agent; `class` is that of the failure, or `null` for an answer.
#[track_caller]
fn check(agent: &str, name: &str, stream: &[u8], class: &str, code: i32) -> (Finished, Value) {
    let sealed = with_agent(agent, "cat ../stream", stream);
    let end = run(&sealed, &[]);
    let reply = reply(&sealed);
    let found = reply["failure"]["class"].as_str().unwrap_or("null").to_owned();
    assert_eq!((found.as_str(), end.code), (class, Some(code)), "{name}:\n{}", end.stderr);
    assert!(raw(&sealed) == stream, "{name}: the raw stream is not what was sent");
    let is_harmless = |it: char| it == '\n' || it == '\t' || !it.is_control();
    assert!(end.stderr.chars().all(is_harmless), "{name}:\n{:?}", end.stderr);
    assert_eq!(sealed.survivors(), [""; 0], "{name}");
    (end, reply)
}

#[test]
fn malformed_claude_stream_is_read_as_far_as_possible() {
    let lines = |lines: &[&str]| (lines.join("\n") + "\n").into_bytes();
    let many = effort::choose_count(100_000, 2_000);
    let unknown = "{\"type\":\"novelty\",\"payload\":{\"a\":[1,2,3]}}\n".repeat(many);
    let many = many as u64;
    let with = |before: &[u8], after: &[u8]| {
        [before, lines(&[INIT, SAID, RESULT]).as_slice(), after].concat()
    };
    let half = SAID.replace("Fine.", r"Fine \ud83d.");
    let nul = SAID.replace("Fine.", "Fine.\0");
    let rows: [(&str, Vec<u8>, &str, i32, u64); 13] = [
        ("empty", Vec::new(), "malformed", 4, 0),
        ("garbage", b"\x01\x02<html>\nno JSON at all\n\x1b[2J\n".to_vec(), "malformed", 4, 3),
        ("only unknown lines", unknown.clone().into_bytes(), "malformed", 4, many),
        ("unknown lines before", with(unknown.as_bytes(), b""), "null", 0, many),
        ("not UTF-8", with(b"\xff\xfe\x80\n\xc3\n", b""), "null", 0, 2),
        ("NUL between lines", with(b"\0\0\0\n", b"\0\n"), "null", 0, 2),
        ("NUL in a string", lines(&[INIT, &nul, RESULT]), "null", 0, 1),
        ("glued", [INIT, SAID, RESULT].concat().into_bytes(), "null", 0, 0),
        ("garbage after the result", with(b"", b"bye\n}\n[1]\n\"x\""), "null", 0, 4),
        ("no newline at the end", [INIT, SAID, RESULT].join("\n").into_bytes(), "null", 0, 0),
        ("cut in the result", lines(&[INIT, SAID, &RESULT[..60]]), "malformed", 4, 1),
        ("carriage returns", [INIT, SAID, RESULT].join("\r\n").into_bytes(), "null", 0, 0),
        ("half of a pair", lines(&[INIT, &half, RESULT]), "null", 0, 0),
    ];
    for (name, stream, class, code, unparsed) in rows {
        let (_, reply) = check("claude", name, &stream, class, code);
        assert_eq!(reply["unparsed"], unparsed, "{name}");
    }
}

#[test]
fn malformed_codex_stream_is_read_as_far_as_possible() {
    let whole = CODEX.join("\n");
    let unknown = "{\"type\":\"novelty\"}\n".repeat(1_000);
    let rows: [(&str, Vec<u8>, &str, i32, u64); 6] = [
        ("empty", Vec::new(), "malformed", 4, 0),
        ("garbage", b"<html>\xff\n{\"type\":\n".to_vec(), "malformed", 4, 2),
        ("unknown lines before", (unknown + &whole).into_bytes(), "null", 0, 1_000),
        ("glued", CODEX.concat().into_bytes(), "null", 0, 0),
        ("garbage after the result", (whole.clone() + "\nbye\0\n").into_bytes(), "null", 0, 1),
        ("half of a pair", whole.replace("Fine.", r"\udc00").into_bytes(), "null", 0, 0),
    ];
    for (name, stream, class, code, unparsed) in rows {
        let (_, reply) = check("codex", name, &stream, class, code);
        assert_eq!(reply["unparsed"], unparsed, "{name}");
    }
}

#[test]
fn any_bytes_are_text_of_a_plain_agent() {
    let done = "<response>DONE</response>";
    let rows: [(&str, Vec<u8>, &str, i32); 5] = [
        ("empty", Vec::new(), "empty", 4),
        ("only spaces and NUL", b" \n\t\n \n".to_vec(), "empty", 4),
        ("not UTF-8", [b"\xff\xfe\0\xc3(\n".as_slice(), done.as_bytes()].concat(), "null", 0),
        ("no newline at the end", done.as_bytes().to_vec(), "null", 0),
        ("an opened tag only", b"<response>DONE".to_vec(), "null", 1),
    ];
    for (name, stream, class, code) in rows {
        check("plainly", name, &stream, class, code);
    }
}

#[test]
fn escape_sequences_do_nothing_to_the_terminal() {
    let evil = "\x1b]0;owned\x07\x1b[2J\x1b[H\x1b[31mred\x1b]52;c;aGk=\x07\u{9b}2J\u{202e}end\r";
    let output_text = json!({ "type": "assistant", "message": { "content": [
        { "type": "text", "text": format!("{evil} <response>DONE</response>") },
        { "type": "tool_use", "id": evil, "name": evil, "input": { "command": evil } },
    ] } });
    let back = json!({ "type": "user", "message": { "content": [
        { "type": "tool_result", "tool_use_id": evil, "content": evil },
    ] } });
    let stream = format!("{INIT}\n{output_text}\n{back}\n{evil}\n{SAID}\n{RESULT}\n");
    let (end, _) = check("claude", "claude", stream.as_bytes(), "null", 0);
    assert!(end.stderr.contains("redend"), "the words stay: {}", end.stderr);
    let (end, _) = check(
        "plainly",
        "text",
        format!("{evil}\n<response>DONE</response>").as_bytes(),
        "null",
        0,
    );
    assert!(end.stderr.contains("redend"), "the words stay: {}", end.stderr);
}

#[test]
fn stderr_flood_loses_no_stdout_line() {
    let lines = effort::choose_count(200_000, 20_000);
    let script =
        format!("yes 'noise on stderr \\033[2J' | head -n {lines} >&2 &\ncat ../stream; wait");
    let stream = [INIT, SAID, RESULT].join("\n");
    let sealed = with_agent("claude", &script, stream.as_bytes());
    run(&sealed, &[]).expect_code(0);
    assert!(raw(&sealed) == stream.as_bytes());
    assert_eq!(reply(&sealed)["unparsed"], 0);
}

/// The last step of an agent: it records ralph's peak memory so far.
const NOTE_MEMORY: &str = "grep VmHWM /proc/$PPID/status > ../memory";

/// Returns the recorded memory in MiB.
fn noted_memory(sealed: &Sealed) -> u64 {
    let text = fs::read_to_string(sealed.root().join("memory")).expect("noted");
    let kibibytes: u64 =
        text.split_whitespace().nth(1).and_then(|it| it.parse().ok()).expect("KiB");
    kibibytes / 1024
}

#[test]
fn a_line_beyond_the_limit_is_kept_and_shown_as_such() {
    let size = effort::choose_count(64 << 20, 24 << 20);
    let script =
        format!("head -c {size} /dev/zero | tr '\\0' x; echo; cat ../stream; {NOTE_MEMORY}");
    let sealed = with_agent("claude", &script, [INIT, SAID, RESULT].join("\n").as_bytes());
    let end = run(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains(&format!("a line of {size} bytes")), "{}", end.stderr);
    let reply = reply(&sealed);
    assert_eq!((&reply["unparsed"], &reply["failure"]), (&json!(1), &Value::Null));
    let raw = raw(&sealed);
    assert_eq!(raw.iter().take_while(|&&byte| byte == b'x').count(), size);
    // A line may need its limit twice while the buffer grows.
    assert!(noted_memory(&sealed) < 80, "{} MiB", noted_memory(&sealed));
}

#[test]
fn a_line_within_the_limit_is_read() {
    let text = "word ".repeat(3_300_000);
    let output_text = SAID.replace("Fine.", &text);
    assert!(output_text.len() > 15 << 20 && output_text.len() < 16 << 20);
    let stream = [INIT, &output_text, RESULT].join("\n");
    let (_, reply) = check("claude", "long", stream.as_bytes(), "null", 0);
    assert_eq!((&reply["unparsed"], &reply["signal"]), (&json!(0), &json!("DONE")));
}

/// Prints several times the size of all buffers up to a terminal, then leaves a marker.
const LONG_ANSWER: &str = "yes 'a line for a terminal without a reader' | head -n 100000\n\
                           echo '<response>DONE</response>'; touch ../answered";

#[test]
fn unread_pipe_does_not_block_the_agent() {
    let sealed = with_agent("plainly", LONG_ANSWER, b"");
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    wait_until("the agent has said all", || sealed.root().join("answered").exists());
    wait_until("the run has ended", || child.try_wait().expect("it is waited for").is_some());
    assert_eq!(child.wait().expect("it ended").code(), Some(0));
    // The test reads only now: the pipe was full all the time.
    let mut seen = Vec::new();
    child.stderr.take().expect("a pipe").read_to_end(&mut seen).expect("read");
    assert!(seen.len() >= 4096, "{} bytes", seen.len());
    assert_eq!(reply(&sealed)["signal"], "DONE");
}

#[test]
fn stopped_terminal_does_not_block_the_agent() {
    let sealed = with_agent("plainly", LONG_ANSWER, b"");
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
    let slave = File::options().read(true).write(true).open(name).expect("the other end");
    // Ctrl-S: nothing goes out until Ctrl-Q.
    File::from(master.try_clone().expect("cloned")).write_all(b"\x13").expect("stopped");
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command
        .args(["run", "-p", "base"])
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(Stdio::from(slave));
    let mut child = command.spawn().expect("it starts");
    drop(command);
    wait_until("the agent has said all", || sealed.root().join("answered").exists());
    wait_until("the run has ended", || child.try_wait().expect("it is waited for").is_some());
    assert_eq!(child.wait().expect("it ended").code(), Some(0));
    assert_eq!(reply(&sealed)["signal"], "DONE");
    drop(master);
}

/// Output of an agent after it was asked to terminate is not an answer.
#[test]
fn result_after_termination_is_not_a_success() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../ralph-agents/tests/data");
    let pi = fs::read_to_string(format!("{data}/pi/0.73.1/text-complete.ndjson")).expect("data");
    for (name, lines) in [
        ("claude", vec![INIT, SAID, RESULT]),
        ("codex", CODEX.to_vec()),
        ("pi", pi.lines().collect()),
    ] {
        let (last, first) = lines.split_last().expect("lines");
        let script = "case \"$1\" in --version) echo 9.9.9; exit;; esac\n\
             cat > /dev/null\ntrap 'cat ../last; exit 0' TERM\ncat ../stream\n\
             while :; do sleep 0.05; done";
        let sealed = with_agent(name, script, format!("{}\n", first.join("\n")).as_bytes());
        fs::write(sealed.root().join("last"), format!("{last}\n")).expect("written");
        let settings = sealed.read_file(".ralph/settings.json");
        let mut settings: Value = serde_json::from_str(&settings).expect("JSON");
        settings["timeouts"] = json!({ "idle": "1s" });
        sealed.write_file(".ralph/settings.json", &settings.to_string());
        run(&sealed, &[]).expect_code(1).expect_stderr("idle timeout");
        let raw = String::from_utf8_lossy(&raw(&sealed)).into_owned();
        assert!(raw.contains(last), "{name} said it: {raw}");
        assert_eq!(reply(&sealed)["failure"]["class"], "idle_timeout", "{name}");
    }
}
