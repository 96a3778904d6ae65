//! A real terminal as stderr: color, rewritten lines, and no escapes in a pipe.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use ralph_testkit::sealed::Sealed;
use serde_json::json;

use crate::typing::terminal;
use crate::{always, repository, sealed};

/// Runs `ralph run` with a terminal of 60 columns as its stderr, and returns what it wrote.
pub(crate) fn on_a_terminal(sealed: &Sealed, variables: &[(&str, &str)]) -> String {
    let (mut master, other) = terminal(60);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command
        .args(["run", "-p", "base"])
        .env("TERM", "xterm")
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::from(other));
    let mut child = command.spawn().expect("it starts");
    // The command also holds the other end open.
    drop(command);
    let mut seen = Vec::new();
    // Reading fails once the other end is closed everywhere.
    let _ = master.read_to_end(&mut seen);
    assert!(child.wait().expect("it ends").success());
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn a_terminal_gets_color_and_rewritten_lines() {
    let sealed = sealed();
    sealed.write_script(
        &always(json!([{ "claim": "DONE" }])),
        &json!({ "guardrails": [{ "command": "true" }] }),
    );
    let seen = on_a_terminal(&sealed, &[]);
    assert!(seen.contains("\u{1b}[32m"), "green: {seen:?}");
    let running = seen.find("Gate true: running").expect("the running line");
    let passed = seen.find("Gate true: passed").expect("the line that replaces it");
    assert!(seen[running..passed].contains('\r'), "it is rewritten: {seen:?}");
    let plain = on_a_terminal(&sealed, &[("NO_COLOR", "1")]);
    assert!(!plain.contains("\u{1b}[32m"), "{plain:?}");
    let dumb = on_a_terminal(&sealed, &[("TERM", "dumb")]);
    assert!(!dumb.contains('\u{1b}'), "{dumb:?}");
}

#[test]
fn ralphs_lines_fit_the_terminal_width() {
    let sealed = sealed();
    sealed.write_script(&always(json!([{ "claim": "DONE" }])), &json!({}));
    let seen = on_a_terminal(&sealed, &[("NO_COLOR", "1")]);
    let warning: Vec<&str> =
        seen.lines().skip_while(|line| !line.contains("no git")).take(2).collect();
    assert!(warning.iter().all(|line| line.chars().count() <= 61), "{warning:?}");
}

#[test]
fn an_agent_cannot_reach_the_terminal() {
    let sealed = sealed();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[H\u{1b}]52;c;aGk=\u{7}\u{9b}2Jwords";
    let actions = json!([
        { "text": evil },
        { "tool": { "name": evil, "summary": evil, "output": evil } },
        { "garbage": { "text": format!("{evil}\n") } },
        { "claim": "DONE" }
    ]);
    sealed.write_script(&always(actions), &json!({}));
    let seen = on_a_terminal(&sealed, &[]);
    assert!(seen.contains("words"), "{seen:?}");
    for sequence in ["\u{1b}]", "\u{1b}[2J", "\u{1b}[H", "\u{9b}", "\u{7}", "owned"] {
        assert!(!seen.contains(sequence), "{sequence:?}: {seen:?}");
    }
}

/// Returns the lines that a terminal shows after this output.
fn render_screen(output: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = output;
    let mut column = 0;
    while let Some(first) = rest.chars().next() {
        let last = lines.last_mut().expect("a line");
        if let Some(code) = rest.strip_prefix("\u{1b}[") {
            let end = code.find(|it: char| it.is_ascii_alphabetic()).expect("a code") + 1;
            if &code[..end] == "2K" {
                last.clear();
            }
            rest = &code[end..];
            continue;
        }
        match first {
            '\r' => column = 0,
            '\n' => lines.push(String::new()),
            _ => {
                *last = last.chars().take(column).collect();
                last.push(first);
                column += 1;
            }
        }
        rest = &rest[first.len_utf8()..];
    }
    lines
}

/// Reads from a terminal until it shows this, and returns its lines.
fn read_until(
    master: &mut File,
    seen: &mut Vec<u8>,
    ends: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    let mut bytes = [0; 4096];
    loop {
        let lines = render_screen(&String::from_utf8_lossy(seen));
        if ends(&lines) {
            return lines;
        }
        let count = master.read(&mut bytes).expect("more is shown");
        seen.extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn the_last_line_shows_what_the_agent_does_and_is_erased() {
    let sealed = sealed();
    let calls = json!([
        { "usage": { "input": 1200, "output": 300, "cost": 0.25 } },
        { "text": "I run the tests.\n\nThey take longer than this line of the terminal has columns." },
        { "waitFor": { "path": "continue", "seconds": 50.0 } },
        { "claim": "DONE" }
    ]);
    sealed.write_script(&always(calls), &json!({}));
    let (mut master, other) = terminal(60);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).env("TERM", "xterm").env("NO_COLOR", "1");
    command.stdout(Stdio::null()).stderr(Stdio::from(other));
    let mut child = command.spawn().expect("it starts");
    drop(command);
    let mut seen = Vec::new();
    let is_live =
        |lines: &[String]| lines.last().is_some_and(|it| it.contains("1.5K tokens, $0.25 "));
    let wide = read_until(&mut master, &mut seen, is_live);
    let live = wide.last().expect("a line");
    assert!(live.contains("0:0") && live.contains(" They take longer"), "{live}");
    assert!((50..60).contains(&live.chars().count()), "{live}");
    assert!(wide.iter().any(|line| line.contains("I run the tests.")), "{wide:?}");
    sealed.write_file("continue", "");
    let _ = master.read_to_end(&mut seen);
    assert!(child.wait().expect("it ends").success());
    let lines = render_screen(&String::from_utf8_lossy(&seen));
    assert!(!lines.iter().any(|line| line.contains(", $0.25 They")), "it is erased: {lines:?}");
    assert!(lines.iter().any(|line| line.contains("Complete")), "{lines:?}");
}

#[test]
fn the_last_line_shows_each_worker_of_a_parallel_run() {
    let sealed = repository();
    let go = sealed.root().join("go");
    let command =
        format!("while [ ! -e {} ]; do sleep 0.05; done; echo x > $RALPH_TASK.txt", go.display());
    let end = json!({ "task_completed": { "summary": "Wrote it.", "fully_complete": true } });
    let calls = always(json!([{ "run": { "command": command } }, { "handoff": end }]));
    sealed.write_script(&calls, &json!({ "review": { "enabled": false } }));
    let task = |id: &str| {
        json!({ "id": id, "title": id, "description": "Make it.", "status": "pending",
                "acceptance_criteria": ["it is there"], "depends_on": [] })
    };
    let plan = json!({ "project": "p", "tasks": [task("one"), task("two")] });
    sealed.write_file("plan.json", &plan.to_string());
    sealed.commit_all("Settings");
    let (mut master, other) = terminal(90);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["build", "--jobs", "2"]).env("TERM", "xterm").env("NO_COLOR", "1");
    command.stdout(Stdio::null()).stderr(Stdio::from(other));
    let mut child = command.spawn().expect("it starts");
    drop(command);
    let mut seen = Vec::new();
    let is_live = |line: &String| {
        line.contains("one implementing 0:") && line.contains(" | two implementing 0:")
    };
    read_until(&mut master, &mut seen, |lines| lines.last().is_some_and(is_live));
    std::fs::write(&go, "").expect("written");
    let _ = master.read_to_end(&mut seen);
    assert!(child.wait().expect("it ends").success());
    let lines = render_screen(&String::from_utf8_lossy(&seen));
    assert!(!lines.iter().any(is_live), "it is erased: {lines:?}");
    assert!(lines.iter().any(|line| line.contains("2 of 2 done")), "{lines:?}");
}
