//! An agent replaces directories and the prompt file by something else: nothing hangs, and no other
//! file is read or changed. Not here: all other files that ralph reads (`cheats::autorun`).

use std::fs;

use ralph_testkit::sealed::Sealed;
use serde_json::json;

use crate::repository;
use crate::users_refs::{all_backends, ralph_in};

/// Files outside of the project.
const SECRET: &str = "words-of-a-file-elsewhere";

/// Returns a shell command that puts something at a path.
fn planting(shape: &str, place: &str, sealed: &Sealed) -> String {
    let outside = sealed.root().join("outside").display().to_string();
    let made = match shape {
        "link" => format!("ln -s {outside}/secret {place}"),
        "zero" => format!("ln -s /dev/zero {place}"),
        "pipe" => format!("mkfifo {place}"),
        "directory" => format!("mkdir {place}"),
        "huge" => format!("truncate -s 17M {place}"),
        other => panic!("{other}"),
    };
    format!("rm -rf {place}; mkdir -p $(dirname {place}); {made}")
}

/// A repository, and a file outside of it.
fn scene() -> Sealed {
    let sealed = repository();
    fs::create_dir(sealed.root().join("outside")).expect("a directory");
    fs::write(sealed.root().join("outside/secret"), SECRET).expect("written");
    sealed
}

#[track_caller]
fn assert_untouched(sealed: &Sealed, shape: &str) {
    let text = fs::read_to_string(sealed.root().join("outside/secret")).expect("there");
    assert_eq!(text, SECRET, "{shape}: the file elsewhere was changed");
    let left = fs::read_dir(sealed.root().join("outside")).expect("there").count();
    assert_eq!(left, 1, "{shape}: something was written elsewhere");
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
fn directory_replaced_by_a_link_is_not_followed() {
    let directories = [".ralph/logs", ".ralph/handoffs", ".ralph/prompts", "docs"];
    let tried = all_backends().into_iter().flat_map(|it| directories.map(|at| (it, at)));
    for (backend, directory) in tried {
        let sealed = scene();
        let outside = sealed.root().join("outside");
        let command = format!("rm -rf {directory}; ln -s {} {directory}", outside.display());
        let calls = json!([{ "do": [{ "run": { "command": command } }, { "text": "Did it." }, { "claim": "DONE" }] }]);
        sealed.write_script(&calls, &json!({ "gates": [{ "name": "g", "command": "echo fine" }] }));
        ralph_in(&sealed, backend, &["run", "-p", "base"]).expect_code(0);
        assert_untouched(&sealed, &format!("{backend}, {directory}"));
    }
}

#[test]
fn prompt_file_replaced_by_a_link_ends_the_run() {
    let shapes = ["link", "zero", "pipe", "directory", "huge"];
    let tried = all_backends().into_iter().flat_map(|it| shapes.map(|shape| (it, shape)));
    for (backend, shape) in tried {
        let sealed = scene();
        let command = planting(shape, "base.md", &sealed);
        let calls = json!([{ "do": [{ "run": { "command": command } }, { "text": "On it." }] }]);
        sealed.write_script(&calls, &json!({}));
        sealed.write_file("base.md", "Do it.");
        let end = ralph_in(&sealed, backend, &["run", "--prompt-file", "base.md"]);
        assert_ne!(end.code, Some(0), "{shape}: {}", end.stderr);
        assert!(end.stderr.contains("base.md"), "{shape}: {}", end.stderr);
        assert_eq!(sealed.prompts().len(), 1, "{shape}");
        assert_untouched(&sealed, shape);
    }
}

#[test]
fn new_autorun_files_are_listed_at_the_end() {
    let sealed = scene();
    let command = "mkdir -p .vscode; echo '{}' > .vscode/tasks.json; echo x > run.sh; chmod +x run.sh; echo x > src.txt";
    let calls = json!([{ "do": [{ "run": { "command": command } }, { "text": "Did it." }, { "claim": "DONE" }] }]);
    sealed.write_script(&calls, &json!({ "commit": "ralph" }));
    sealed.commit_all("Agent");
    let end = sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    assert!(end.stderr.contains("2 changed autorun files"), "{}", end.stderr);
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("- `.vscode/tasks.json`: editor settings"), "{report}");
    assert!(report.contains("- `run.sh`: a new executable"), "{report}");
    assert!(!report.contains("- `src.txt`"), "{report}");
}
