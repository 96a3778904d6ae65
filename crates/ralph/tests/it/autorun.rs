//! An agent replaces files that ralph reads or writes by something else: nothing hangs, no other
//! file is read or changed, and the run continues.

use std::fs;
use std::os::unix::net::UnixListener;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::repository;

/// Files outside of the project.
const SECRET: &str = "words-of-a-file-elsewhere";

/// Files that ralph reads or writes in a project, and that an agent can reach.
const PLACES: [&str; 14] = [
    "plan.json",
    "progress.txt",
    "prompt.md",
    "AGENTS.md",
    "base.md",
    ".gitignore",
    ".ralph/.gitignore",
    ".ralph/prompts/implement.md",
    ".ralph/implementation_plan.md",
    ".ralph/state.md",
    ".ralph/state.json",
    ".ralph/logs/ralph.log",
    ".ralph/handoffs/handoff-001.json",
    ".ralph/context/compacted-latest.json",
];

/// Returns a shell command that puts something at a path.
fn planting(shape: &str, place: &str, sealed: &Sealed) -> String {
    let outside = sealed.root().join("outside").display().to_string();
    let made = match shape {
        "link" => format!("ln -s {outside}/secret {place}"),
        "zero" => format!("ln -s /dev/zero {place}"),
        "pipe" => format!("mkfifo {place}"),
        "directory" => format!("mkdir {place}"),
        "socket" => format!("ln {outside}/socket {place}"),
        // git hashes all visible files, which this test is not about: without the ignore rule git
        // treats the runtime files as work and hashes them all.
        "huge" if place == ".ralph/.gitignore" => return "true".to_owned(),
        "huge" if place.starts_with(".ralph/") && !place.contains("impl") => {
            format!("truncate -s 10G {place}")
        }
        "huge" => format!("truncate -s 20M {place}"),
        other => panic!("{other}"),
    };
    format!("rm -rf {place}; mkdir -p $(dirname {place}); {made}")
}

fn scene(shape: &str, places: &[&str]) -> Sealed {
    let sealed = repository();
    fs::create_dir(sealed.root().join("outside")).expect("a directory");
    fs::write(sealed.root().join("outside/secret"), SECRET).expect("written");
    let plants: Vec<String> = places.iter().map(|place| planting(shape, place, &sealed)).collect();
    let handoff = json!({ "handoff": { "task_completed": { "summary": "Did it.", "fully_complete": true } } });
    let calls = json!([
        { "when": { "task": "a", "fileMissing": "a.txt" }, "do": [
            { "run": { "command": format!("echo a > a.txt; {}", plants.join("; ")) } }, handoff
        ] },
        { "do": [{ "run": { "command": "echo $RALPH_TASK > $RALPH_TASK.txt" } }, handoff] }
    ]);
    sealed.write_script(&calls, &json!({ "review": { "enabled": false } }));
    let task = |id: &str| {
        json!({
            "id": id, "title": id, "description": "Make it, see AGENTS.md.", "status": "pending", "acceptance_criteria": ["a"]
        })
    };
    let list: Value = json!({ "project": "p", "tasks": [task("a"), task("b")] });
    sealed.write_file("plan.json", &list.to_string());
    sealed.write_file("progress.txt", "# Progress\n");
    sealed.run_git(&["add", "-A"]);
    sealed.run_git(&["commit", "-qm", "Settings"]);
    sealed
}

#[track_caller]
fn assert_untouched(sealed: &Sealed, shape: &str) {
    let text = fs::read_to_string(sealed.root().join("outside/secret")).expect("there");
    assert_eq!(text, SECRET, "{shape}: the file elsewhere was changed");
    let left = fs::read_dir(sealed.root().join("outside")).expect("there").count();
    assert!(left <= 2, "{shape}: something was written elsewhere");
    for prompt in sealed.prompts() {
        assert!(!prompt.contains(SECRET), "{shape}: {prompt}");
    }
    let report = sealed.run_ralph(&["report"]);
    assert!(!report.stdout.contains(SECRET), "{shape}");
    for event in sealed.events() {
        assert!(!event.to_string().contains(SECRET), "{shape}: {event}");
    }
}

#[test]
fn replaced_files_neither_stop_nor_redirect_a_run() {
    for shape in ["link", "zero", "pipe", "directory", "socket", "huge"] {
        let sealed = scene(shape, &PLACES);
        let _socket = UnixListener::bind(sealed.root().join("outside/socket")).expect("a socket");
        let end = sealed.run_ralph(&["build"]);
        // A link at a protected path fails the task; later tasks do not fail.
        assert!(matches!(end.code, Some(0 | 1)), "{shape}: {}", end.stderr);
        assert_eq!(sealed.read_file("b.txt"), "b\n", "{shape}");
        assert_untouched(&sealed, shape);
    }
}

#[test]
fn directory_replaced_by_a_link_is_not_followed() {
    for directory in [".ralph/logs", ".ralph/handoffs", ".ralph/prompts", "docs"] {
        let sealed = scene("link", &[]);
        let outside = sealed.root().join("outside");
        let command = format!("rm -rf {directory}; ln -s {} {directory}", outside.display());
        let calls = json!([{ "do": [{ "run": { "command": command } }, { "text": "Did it." }, { "claim": "DONE" }] }]);
        sealed.write_script(&calls, &json!({ "gates": [{ "name": "g", "command": "echo fine" }] }));
        sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
        assert_untouched(&sealed, directory);
    }
}

#[test]
fn prompt_file_replaced_by_a_link_ends_the_run() {
    for shape in ["link", "zero", "pipe", "directory", "huge"] {
        let sealed = scene("link", &[]);
        let command = planting(shape, "base.md", &sealed);
        let calls = json!([{ "do": [{ "run": { "command": command } }, { "text": "On it." }] }]);
        sealed.write_script(&calls, &json!({}));
        sealed.write_file("base.md", "Do it.");
        let end = sealed.run_ralph(&["run", "--prompt-file", "base.md"]);
        assert_ne!(end.code, Some(0), "{shape}: {}", end.stderr);
        assert!(end.stderr.contains("base.md"), "{shape}: {}", end.stderr);
        assert_eq!(sealed.prompts().len(), 1, "{shape}");
        assert_untouched(&sealed, shape);
    }
}

#[test]
fn new_autorun_files_are_listed_at_the_end() {
    let sealed = scene("link", &[]);
    let command = "mkdir -p .vscode; echo '{}' > .vscode/tasks.json; echo x > run.sh; chmod +x run.sh; echo x > src.txt";
    let calls = json!([{ "do": [{ "run": { "command": command } }, { "text": "Did it." }, { "claim": "DONE" }] }]);
    sealed.write_script(&calls, &json!({ "commit": "ralph" }));
    sealed.run_git(&["add", "-A"]);
    sealed.run_git(&["commit", "-qm", "Agent"]);
    let end = sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    assert!(end.stderr.contains("2 changed autorun files"), "{}", end.stderr);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("- `.vscode/tasks.json`: editor settings"), "{report}");
    assert!(report.contains("- `run.sh`: a new executable"), "{report}");
    assert!(!report.contains("src.txt"), "{report}");
}
