//! Agents that replace files that ralph reads.

use std::fs;
use std::os::unix::net::UnixListener;

use ralph_testkit::effort;
use serde_json::{Value, json};

use super::{Cheat, Scene, Stage, handoff, try_all};

const WORDS: &str = "words-of-a-file-elsewhere";

pub(super) const CHEATS: &[Cheat] = &[
    Cheat {
        name: "puts a link where ralph reads",
        scene: Scene::Own(|stage| plants(stage, "ln -s @OUTSIDE/../elsewhere/words")),
    },
    Cheat {
        name: "puts a device where ralph reads",
        scene: Scene::Own(|stage| plants(stage, "ln -s /dev/zero")),
    },
    Cheat {
        name: "puts a pipe where ralph reads",
        scene: Scene::Own(|stage| plants(stage, "mkfifo")),
    },
    Cheat {
        name: "puts a socket where ralph reads",
        scene: Scene::Own(|stage| plants(stage, "ln @OUTSIDE/../elsewhere/socket")),
    },
    Cheat {
        name: "puts a huge file where ralph reads",
        scene: Scene::Own(|stage| plants(stage, "truncate -s @SIZE")),
    },
    Cheat {
        name: "makes a directory that ralph writes to a link",
        scene: Scene::Elsewhere("autorun.rs", "directory_replaced_by_a_link_is_not_followed"),
    },
    Cheat {
        name: "makes the prompt file something else",
        scene: Scene::Elsewhere("autorun.rs", "prompt_file_replaced_by_a_link_ends_the_run"),
    },
    Cheat {
        name: "adds files that tools run or load later",
        scene: Scene::Elsewhere("autorun.rs", "new_autorun_files_are_listed_at_the_end"),
    },
    Cheat { name: "lets the task file grow while it is read", scene: Scene::Own(grows) },
];

/// Files that ralph reads or writes, and that an agent can reach.
const PLACES: [&str; 16] = [
    "plan.json",
    "progress.txt",
    "prompt.md",
    "AGENTS.md",
    "base.md",
    ".gitignore",
    ".ralph/.gitignore",
    ".ralph/prompts/implement.md",
    ".ralph/skills/one/SKILL.md",
    ".ralph/implementation_plan.md",
    ".ralph/state.md",
    ".ralph/state.json",
    ".ralph/logs/ralph.log",
    ".ralph/handoffs/handoff-001.json",
    ".ralph/context/compacted-latest.json",
    ".ralph/guardrail_1_check_sh.log",
];

/// How large a huge file is. What git does not ignore is hashed and searched as well.
fn size_of(place: &str) -> &'static str {
    let is_ignored = [".ralph/state.", ".ralph/logs/", ".ralph/handoffs/", ".ralph/context/"];
    match place {
        _ if is_ignored.iter().any(|it| place.starts_with(it)) => "10G",
        _ if effort::is_quick() => "2M",
        _ => "20M",
    }
}

fn two_tasks(stage: &Stage, action: &str) {
    let task = |id: &str| {
        json!({ "id": id, "title": id, "description": "See AGENTS.md.", "status": "pending",
            "acceptance_criteria": ["made"], "skills": ["one"] })
    };
    let list: Value = json!({ "project": "p", "tasks": [task("a"), task("b")] });
    stage.sealed.write_file("plan.json", &format!("{list:#}\n"));
    stage.sealed.write_file("progress.txt", "# Progress\n");
    let calls = json!([
        { "when": { "task": "a" }, "do": [{ "run": { "command": action } }, handoff()] },
        { "do": [{ "run": { "command": "echo b > b.txt" } }, handoff()] }
    ]);
    let gate = json!([{ "command": "./check.sh; true" }]);
    stage.script(
        &calls,
        json!({ "review": { "enabled": false }, "baseline": "off", "guardrails": gate, "tasks": { "maxAttempts": 1 } }),
    );
}

/// An agent that replaces every such file. Nothing hangs, no other file is read or changed, and
/// the next task is done.
fn plants(stage: &Stage, with: &str) {
    let elsewhere = stage.sealed.root().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::write(elsewhere.join("words"), WORDS).expect("written");
    let _socket = UnixListener::bind(elsewhere.join("socket")).expect("a socket");
    // Without its rules git would hash the huge files of the run.
    let is_huge = with.contains("@SIZE");
    let places = PLACES.iter().filter(|it| !(is_huge && **it == ".ralph/.gitignore"));
    let plants = places.map(|place| {
        let with = with.replace("@SIZE", size_of(place));
        format!("rm -rf {place}; mkdir -p $(dirname {place}); {with} {place}")
    });
    let plants = stage.here(&plants.collect::<Vec<_>>().join("; "));
    two_tasks(stage, &format!("echo x > a.txt; {plants}; true"));
    let end = stage.ralph(&["build"]);
    let about = format!("{} ({})", stage.name, stage.backend);
    assert!(matches!(end.code, Some(0 | 1)), "{about}: {}", end.stderr);
    assert_eq!(stage.sealed.read_file("b.txt"), "b\n", "{about}");
    assert_eq!(fs::read_to_string(elsewhere.join("words")).expect("there"), WORDS, "{about}");
    let prompts = stage.sealed.prompts().join("\n");
    let report = stage.ralph(&["report"]).expect_code(0).stdout;
    let journal = json!(stage.sealed.events()).to_string();
    assert!(![prompts, report, journal].iter().any(|text| text.contains(WORDS)), "{about}");
    assert!(fs::read_dir(&elsewhere).expect("there").count() <= 2, "{about}");
    stage.is_intact();
}

/// An agent whose list is an endless file.
fn grows(stage: &Stage) {
    let action = "echo x > a.txt; (while :; do printf '%100000s' ' ' >> plan.json; sleep 0.01; done) \
        > /dev/null 2>&1 & sleep 0.2; true";
    two_tasks(stage, action);
    let end = stage.ralph(&["build"]);
    assert_eq!(end.code, Some(0), "{}: {}", stage.backend, end.stderr);
    assert_eq!(stage.made().len(), 2, "{}", stage.backend);
    let list: Value = serde_json::from_str(&stage.sealed.read_file("plan.json")).expect("a list");
    assert_eq!(list["tasks"][1]["status"], "done", "{}", stage.backend);
    stage.is_intact();
}

#[test]
fn replaced_files_neither_hang_nor_leak() {
    try_all(CHEATS);
    // Not a cheat, and as unexpected.
    plants(&Stage::new("makes directories where ralph reads", "none"), "mkdir");
}
