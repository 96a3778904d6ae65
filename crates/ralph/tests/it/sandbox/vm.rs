//! Docker Sandboxes: whole runs with a stand-in that executes everything on this machine.

use std::fs;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use rustix::process::Signal;
use serde_json::{Value, json};

const SBX: &str = concat!(include_str!("stand_in.py"), include_str!("sbx.py"));

fn scene() -> Sealed {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    sealed.write_program("sbx", SBX);
    sealed
}

fn start(sealed: &Sealed, backend: &str, words: &[&str]) -> Running {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("RALPH_SANDBOX_BACKEND", backend).env("MY_TOKEN", "canary");
    Running::start_command(command)
}

fn ralph(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    start(sealed, backend, words).wait_for_end()
}

fn vms(sealed: &Sealed) -> Vec<String> {
    let notes = fs::read_dir(sealed.bin_dir().join("vms")).into_iter().flatten().flatten();
    notes.map(|note| note.file_name().to_string_lossy().into_owned()).collect()
}

fn calls(sealed: &Sealed) -> String {
    fs::read_to_string(sealed.bin_dir().join("calls")).unwrap_or_default()
}

fn done() -> Value {
    json!({ "text": "<response>DONE</response>" })
}

const RUN: [&str; 6] = ["run", "-p", "Work.", "-m", "1", "--include-dirty"];

#[test]
fn run_uses_one_vm_and_removes_it() {
    let sealed = scene();
    sealed.write_script(
        &json!([{ "do": [
            { "write": { "path": "work.txt", "text": "done\n" } },
            { "run": { "command": "env > variables" } },
            done(),
        ] }]),
        &json!({
            "guardrails": [{ "command": "test \"$RALPH_SANDBOX\" = sbx && test -f work.txt" }],
            "scm": { "command": "git", "tasks": ["commit"] },
        }),
    );
    // `auto` prefers it.
    let end = ralph(&sealed, "auto", &RUN);
    assert_eq!(end.code, Some(0), "{}{}", end.stdout, end.stderr);
    assert_eq!(sealed.subjects().len(), 2);
    assert!(!sealed.read_file("variables").contains("canary"), "{}", sealed.read_file("variables"));
    let started = &sealed.find_events("run_started")[0];
    assert_eq!(started["recipe"]["sandbox"]["backend"], json!({ "this": "sbx" }));
    assert!(end.stderr.contains("shares the whole project"), "{}", end.stderr);
    let calls = calls(&sealed);
    assert_eq!(calls.matches("create --name").count(), 1, "{calls}");
    assert!(calls.contains("policy check"), "{calls}");
    assert!(calls.trim_end().ends_with("rm --force"), "{calls}");
    assert_eq!(vms(&sealed), [""; 0]);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn a_killed_run_finds_its_vm_again() {
    let sealed = scene();
    let hang = "test -e go || { echo x > ready; exec sleep 600; }";
    sealed.write_script(
        &json!([{ "do": [{ "run": { "command": hang } }, done()] }, { "do": [done()] }]),
        &json!({}),
    );
    let running = start(&sealed, "sbx", &["run", "-p", "Work.", "-m", "2"]);
    sealed.wait_for("ready");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    assert_eq!(vms(&sealed).len(), 1, "no process was left to remove it");
    sealed.write_file("go", "");
    let end = ralph(&sealed, "auto", &["resume"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let calls = calls(&sealed);
    assert_eq!(calls.matches("create --name").count(), 1, "{calls}");
    assert_eq!(vms(&sealed), [""; 0]);
    assert_eq!(sealed.survivors(), [""; 0]);
}

#[test]
fn a_vm_that_cannot_be_used_is_refused_and_auto_takes_another() {
    let sealed = scene();
    sealed.write_script(&json!([{ "do": [done()] }]), &json!({}));
    fs::write(sealed.bin_dir().join("signed-out"), "").expect("written");
    let end = ralph(&sealed, "sbx", &RUN);
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("not signed in") && end.stderr.contains("sbx login"));
    assert_eq!(sealed.runs().len(), 0, "no run was begun");
    fs::remove_file(sealed.bin_dir().join("signed-out")).expect("removed");
    fs::write(sealed.bin_dir().join("open"), "").expect("written");
    let end = ralph(&sealed, "sbx", &RUN);
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("lets connections to any host through"), "{}", end.stderr);
    // This version has no template.
    sealed.write_program("amp", "#!/bin/sh\nexit 1\n");
    sealed
        .write_file(".ralph/settings.json", &json!({ "agent": { "command": "amp" } }).to_string());
    let end = ralph(&sealed, "sbx", &RUN);
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("no template with this agent"), "{}", end.stderr);
}
