//! Previews show what a run then really does: command line, prompt, waits and ends, through the
//! built binary.

use std::fs;
use std::process::Command;

use ralph_testkit::sealed::{Sealed, merge_into};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{always, repository};

/// The agent call that a dry run shows.
#[derive(Debug, PartialEq)]
struct ShownCall {
    command: Vec<String>,
    prompt: Vec<String>,
}

/// Splits a command line as a shell does.
fn split_words(line: &str) -> Vec<String> {
    let script = format!("printf '%s\\0' {line}");
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Reads the call from the output of a dry run.
#[track_caller]
fn read_dry_run(text: &str) -> ShownCall {
    let (_, rest) = text.split_once(" asks\n  ").unwrap_or_else(|| panic!("no call:\n{text}"));
    let (command, rest) = rest.split_once("\nwith the prompt\n").expect("a prompt");
    let lines = rest.lines().map_while(|line| line.strip_prefix("  |"));
    let prompt = lines.map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect();
    ShownCall { command: split_words(command), prompt }
}

/// Returns a call of the last run as it was made, by its place among all calls.
#[track_caller]
fn read_made_call(sealed: &Sealed, at: usize) -> ShownCall {
    let asked = sealed.find_events("asked").get(at).expect("a call").clone();
    let words = asked["command"].as_array().expect("a command").iter();
    let words: Vec<String> = words.filter_map(Value::as_str).map(str::to_owned).collect();
    let prompt = sealed.prompts()[at].clone();
    assert_eq!(asked["prompt_chars"], prompt.chars().count());
    let prompt = prompt.lines().map(str::to_owned).collect();
    ShownCall { command: without_run(sealed, &words), prompt }
}

/// Returns a command line with the run named as in a dry run of a new run, and without the session
/// id, which is made from the id of the run.
fn without_run(sealed: &Sealed, words: &[String]) -> Vec<String> {
    let run = sealed.runs().pop().expect("a run");
    let id = run.file_name().expect("a name").to_string_lossy().into_owned();
    let directory = run.to_string_lossy().into_owned();
    let named = |word: &String| word.replace(&directory, "<state>").replace(&id, "<run>");
    let mut words: Vec<String> = words.iter().map(named).collect();
    if let Some(at) = words.iter().position(|word| word == "--json-schema") {
        "{schema}".clone_into(&mut words[at + 1]);
    }
    if let Some(at) = words.iter().position(|word| word == "--session-id") {
        words.remove(at + 1);
    }
    words
}

/// Asserts that a dry run shows the next call of the command, and returns its output.
#[track_caller]
fn expect_same(sealed: &Sealed, words: &[&str], at: usize) -> String {
    let shown = sealed.run_ralph(&[words, &["--dry-run"]].concat()).expect_code(0).stdout;
    sealed.run_ralph(words);
    let mut dry = read_dry_run(&shown);
    dry.command = without_run(sealed, &dry.command);
    let mut made = read_made_call(sealed, at);
    let token = sealed.find_events("asked")[at]["token"].clone();
    // A token is made for each call.
    if let Some(token) = token.as_str() {
        let places: Vec<usize> =
            (0..made.prompt.len()).filter(|at| made.prompt[*at].contains(token)).collect();
        for place in places.into_iter().rev() {
            dry.prompt.remove(place);
            made.prompt.remove(place);
        }
    }
    assert_eq!(dry, made, "{words:?}");
    shown
}

fn task(id: &str) -> Value {
    json!({
        "id": id, "title": format!("The {id}"), "description": format!("Make {id}."),
        "status": "pending", "acceptance_criteria": [format!("{id} is there")], "depends_on": []
    })
}

fn write_list(sealed: &Sealed, tasks: &[Value]) {
    let list = json!({ "project": "p", "tasks": tasks });
    sealed.write_file("plan.json", &format!("{list:#}\n"));
}

/// An agent that writes a file named after its task, and reports a constraint.
fn worker() -> Value {
    json!([
        { "when": { "role": "review" }, "do": [
            { "verdict": { "verdict": "approved", "criteria": [{ "criterion": 1, "met": true }] } }
        ] },
        { "do": [
            { "run": { "command": "echo x > $RALPH_TASK.txt" } },
            { "handoff": {
                "task_completed": { "summary": "Wrote it.", "fully_complete": true },
                "constraints_discovered": [{ "constraint": "One writer", "impact": "Wait" }]
            } }
        ] }
    ])
}

/// Returns a repository with a list, a scripted agent and settings, all of it committed.
fn project(tasks: &[Value], calls: &Value, further: Value) -> Sealed {
    let sealed = repository();
    let mut settings = json!({ "review": { "enabled": false } });
    merge_into(&mut settings, &further);
    sealed.write_script(calls, &settings);
    write_list(&sealed, tasks);
    sealed.commit_all("Settings");
    sealed
}

#[test]
fn each_workflow_is_shown_as_it_runs() {
    let calls = always(json!([{ "text": "Not yet." }]));
    let start = |settings: Value, files: &[(&str, &str)]| {
        let sealed = repository();
        sealed.write_script(&calls, &settings);
        for (path, text) in files {
            sealed.write_file(path, text);
        }
        sealed.commit_all("Settings");
        sealed
    };
    let gates =
        json!({ "guardrails": [{ "command": "true" }], "includeIterationCountInPrompt": true });
    expect_same(&start(gates.clone(), &[]), &["run", "-p", "Fix it.", "-m", "1"], 0);
    let prompt = [("task.md", "Fix ${RALPH_ITERATION}.\n\nAnswer ${SIGNAL}.\n")];
    expect_same(&start(gates.clone(), &prompt), &["run", "-f", "task.md", "-m", "1"], 0);
    expect_same(&start(gates, &prompt), &["prompt", "task.md", "1"], 0);
    let specs = json!({ "workflow": "specs" });
    let files = [("specs/a.md", "# A\n\n`a` is there.\n")];
    expect_same(&start(specs.clone(), &files), &["plan", "1"], 0);
    let plan = (".ralph/implementation_plan.md", "# Plan\n\n- [ ] Do a\n");
    expect_same(&start(specs, &[files[0], plan]), &["build", "1"], 0);
    let prd = [("ralph/prd.md", "# Notes\n\n## 1. Summary\n\nNotes can be searched.\n")];
    expect_same(&start(json!({ "workflow": "tasks" }), &prd), &["plan", "1"], 0);
    let sealed = project(&[task("a")], &worker(), json!({}));
    expect_same(&sealed, &["build", "1"], 0);
}

#[test]
fn an_agents_own_limits_and_instructions_are_shown() {
    let mut tasks = [task("a"), task("b")];
    tasks[0]["max_turns"] = json!(7);
    let sealed = project(&tasks, &worker(), json!({}));
    let scenario = sealed.root().join("claude.json");
    let calls = json!({ "dialect": "claude", "calls": worker() });
    fs::write(&scenario, calls.to_string()).expect("written");
    let version = "[ \"$1\" = --version ] && exec echo '2.1.325 (Claude Code)'";
    let play = format!("exec {} __sim {}", env!("CARGO_BIN_EXE_ralph"), scenario.display());
    sealed.write_program("claude", &format!("#!/bin/sh\n{version}\n{play}\n"));
    let agent = json!({ "command": "claude", "systemPromptFile": "rules.md" });
    let settings = json!({ "agent": agent, "maxTurns": 20, "review": { "enabled": false } });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    sealed.write_file("rules.md", "Be brief.\n");
    sealed.commit_all("Settings");
    // A run finds the version of the agent, which a dry run only knows afterwards.
    sealed.run_ralph(&["doctor"]);
    let shown = expect_same(&sealed, &["build", "1"], 0);
    assert!(shown.contains("--max-turns 7"), "{shown}");
    let shown = expect_same(&sealed, &["build", "1"], 0);
    assert!(shown.contains("--max-turns 20"), "{shown}");
}

#[test]
fn inherited_memory_is_shown() {
    let sealed = project(&[task("a"), task("b")], &worker(), json!({}));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    let shown = expect_same(&sealed, &["build", "1"], 0);
    assert!(shown.contains("One writer"), "{shown}");
}

#[test]
fn a_note_and_a_delay_are_shown_before_resume() {
    let calls = json!([
        { "when": { "call": 1 }, "do": [
            { "touch": "begun" },
            { "waitFor": { "path": "continue", "seconds": 50.0 } },
            { "text": "Not yet." }
        ] },
        { "do": [{ "text": "Not yet." }] }
    ]);
    let sealed = repository();
    sealed.write_script(&calls, &json!({ "delaySeconds": 4 }));
    sealed.write_file(".gitignore", "/begun\n/continue\n");
    sealed.commit_all("Settings");
    let running = sealed.start_ralph(&["run", "-p", "Fix it.", "-m", "3"]);
    sealed.wait_for("begun");
    sealed.run_ralph(&["note", "Use tabs."]).expect_code(0);
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    sealed.write_file("continue", "");
    let shown = expect_same(&sealed, &["resume", "-m", "1"], 1);
    assert!(shown.contains("| Use tabs."), "{shown}");
    assert!(shown.contains("look for the answer that was being written"), "{shown}");
    let shown = expect_same(&sealed, &["resume", "-m", "2"], 2);
    assert!(shown.contains("Before that: wait for "), "{shown}");
    assert!(!shown.contains("| Use tabs."), "{shown}");
}

#[test]
fn a_task_that_awaits_review_is_shown_with_its_patch() {
    let sealed = project(&[task("a")], &worker(), json!({ "review": { "enabled": true } }));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    let shown = expect_same(&sealed, &["resume", "-m", "2"], 1);
    assert!(shown.contains("\nIteration 2 (review a) asks\n"), "{shown}");
    assert!(shown.contains("| +x"), "{shown}");
}

#[test]
fn edits_of_the_list_between_stop_and_resume_are_shown() {
    let sealed = project(&[task("a"), task("b"), task("c")], &worker(), json!({}));
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    let list = sealed.read_file("plan.json").replace("\"The b\"", "\"The new b\"");
    sealed.write_file("plan.json", &list);
    let shown = expect_same(&sealed, &["resume", "-m", "2"], 1);
    assert!(shown.contains("The new b"), "{shown}");
}

#[test]
fn a_dry_run_reports_how_a_run_would_end() {
    let ended = |status: &str, words: &[&str]| {
        let mut tasks = [task("a")];
        tasks[0]["status"] = json!(status);
        let sealed = project(&tasks, &worker(), json!({}));
        let shown = sealed.run_ralph(&[words, &["--dry-run"]].concat()).expect_code(0).stdout;
        let code = sealed.run_ralph(words).code.expect("an exit code");
        (shown, code)
    };
    let (shown, code) = ended("done", &["build"]);
    assert!(shown.contains("No agent is asked. The run ends: ") && code == 0, "{shown}");
    assert!(shown.contains("(exit code 0)"), "{shown}");
    let (shown, code) = ended("failed", &["build"]);
    assert!(shown.contains(&format!("(exit code {code})")) && code != 0, "{shown}");
    let sealed = project(
        &[{
            let mut failed = task("a");
            failed["status"] = json!("failed");
            failed
        }],
        &worker(),
        json!({}),
    );
    let shown = expect_same(&sealed, &["build", "--retry-failed", "1"], 0);
    assert!(shown.contains("\nIteration 1 (implement a) asks\n"), "{shown}");
}

#[test]
fn a_dry_run_ends_as_a_refused_start_does() {
    let sealed = project(&[task("a")], &worker(), json!({}));
    sealed.write_file("mine.txt", "mine\n");
    let refused = sealed.run_ralph(&["build"]).expect_code(2);
    let shown = sealed.run_ralph(&["build", "--dry-run"]).expect_code(2);
    assert!(shown.stdout.contains("\nIteration 1 (implement a) asks\n"), "{}", shown.stdout);
    assert_eq!(shown.stderr, refused.stderr);
    sealed.run_ralph(&["build", "--dry-run", "--include-dirty"]).expect_code(0);
}

#[test]
fn a_dry_run_of_a_list_names_the_review_and_no_schema() {
    let sealed = repository();
    sealed.write_program("claude", "#!/bin/sh\nexit 1\n");
    let task = json!({
        "id": "T-1", "title": "One", "description": "Do it.", "status": "pending",
        "acceptance_criteria": ["it is there"], "depends_on": []
    });
    sealed.write_file("plan.json", &json!({ "project": "p", "tasks": [task] }).to_string());
    sealed.commit_all("A list");
    let shown =
        sealed.run_ralph(&["build", "--agent", "claude", "--dry-run"]).expect_code(0).stdout;
    assert!(shown.contains("until the task of the list is done"), "{shown}");
    assert!(shown.contains("is then reviewed by `claude`"), "{shown}");
    assert!(shown.contains("--json-schema {schema}"), "{shown}");
    assert!(!shown.contains("\"properties\""), "{shown}");
}
