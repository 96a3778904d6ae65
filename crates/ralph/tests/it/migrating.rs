//! `ralph init --from`: ralph takes over projects of other loops without changing their files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::{repository, sealed};

/// Returns every file below a directory, except git's and ralph's own.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                if entry.file_name() != ".git" {
                    directories.push(path);
                }
            } else {
                let name = path.strip_prefix(directory).expect("below").display().to_string();
                found.insert(name, fs::read(path).expect("readable"));
            }
        }
    }
    found
}

/// Runs `ralph init --from`, and checks that existing files are unchanged.
#[track_caller]
fn migrate(sealed: &Sealed, words: &[&str]) -> String {
    let before = files(&sealed.project_dir());
    let end = sealed.run_ralph(&[&["init", "--from"], words].concat()).expect_code(0);
    let after = files(&sealed.project_dir());
    for (name, bytes) in &before {
        assert_eq!(after.get(name), Some(bytes), "{name} was changed");
    }
    end.stdout
}

/// Lets the scripted agent follow every instruction.
fn with_sim(sealed: &Sealed) {
    let done = json!({ "task_completed": { "summary": "Did it.", "fully_complete": true } });
    let write = json!({ "append": { "path": "done.txt", "text": "one more\n" } });
    let calls = json!({ "calls": [
        { "when": { "role": "prompt" }, "do": [write, { "claim": "COMPLETE" }] },
        { "do": [write, { "handoff": done }] }
    ] });
    let scenario = sealed.root().join("scenario.json");
    fs::write(&scenario, calls.to_string()).expect("written");
    let settings = json!({
        "agent": { "command": "sim", "flags": [scenario] },
        "review": { "enabled": false },
        "memory": { "enabled": false },
        "preventSleep": false,
    });
    sealed.write_file(".ralph/settings.local.json", &settings.to_string());
}

#[track_caller]
fn build(sealed: &Sealed) {
    with_sim(sealed);
    sealed.commit_all("Let ralph continue");
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    let list: Value = serde_json::from_str(&sealed.read_file("ralph/tasks.json")).expect("JSON");
    let stories = list["userStories"].as_array().expect("stories");
    assert!(stories.iter().all(|story| story["passes"] == true), "{list:#}\n{}", end.stderr);
}

const STORIES: &str = r#"{
  "project": "Notes",
  "branchName": "ralph/search",
  "description": "Search",
  "userStories": [
    { "id": "US-001", "title": "Words", "description": "As a reader I find words.", "acceptanceCriteria": ["Found"], "priority": 1, "passes": true, "notes": "" },
    { "id": "US-002", "title": "Dates", "description": "As a reader I find dates.", "acceptanceCriteria": ["Found"], "priority": 2, "passes": false, "notes": "", "own": [1] }
  ]
}
"#;

const LOOP: &str = "#!/bin/bash\nset -e\nMAX_ITERATIONS=${1:-12}\nfor i in $(seq 1 $MAX_ITERATIONS); do\n  OUTPUT=$(claude --dangerously-skip-permissions --model opus --print < \"$SCRIPT_DIR/CLAUDE.md\" 2>&1 | tee /dev/stderr) || true\n  if echo \"$OUTPUT\" | grep -q \"<promise>COMPLETE</promise>\"; then exit 0; fi\n  sleep 2\ndone\n";

#[test]
fn stories_of_another_loop_are_done() {
    let sealed = repository();
    sealed.write_file("Makefile", "test:\n\ttrue\n");
    sealed.write_file("scripts/ralph/prd.json", STORIES);
    sealed
        .write_file("scripts/ralph/progress.txt", "# Log\n\n## Codebase Patterns\n- Mine\n\n---\n");
    sealed.write_file("scripts/ralph/prompt.md", "Read prd.json and do the next story.\n");
    sealed.write_file("scripts/ralph/ralph.sh", LOOP);
    let reported = migrate(&sealed, &["."]);
    for line in [
        "found   scripts/ralph/prd.json: 2 stories, 1 of them done, for the branch ralph/search\n",
        "found   scripts/ralph/progress.txt: is continued as ralph/progress.txt\n",
        "left    scripts/ralph/prompt.md: it tells the agent how to loop",
        "found   scripts/ralph/ralph.sh: the agent is claude with --model opus\n",
        "left    --dangerously-skip-permissions --print: ralph passes it itself\n",
        "found   scripts/ralph/ralph.sh: at most 12 iterations\n",
        "found   scripts/ralph/ralph.sh: 2 seconds between iterations\n",
        "left    scripts/ralph/ralph.sh, line 6: if echo",
        "found   make test (Makefile)\n",
        "After every story these must succeed: make test\n",
    ] {
        assert!(reported.contains(line), "{line}\n{reported}");
    }
    let list: Value = serde_json::from_str(&sealed.read_file("ralph/tasks.json")).expect("JSON");
    assert_eq!(list["verifyCommands"], json!(["make test"]));
    assert_eq!(list["userStories"][1]["own"], json!([1]), "what ralph does not know stays");
    let settings: Value =
        serde_json::from_str(&sealed.read_file(".ralph/settings.json")).expect("JSON");
    assert_eq!(settings["agent"], json!({ "command": "claude", "flags": ["--model", "opus"] }));
    assert_eq!(settings["maximumIterations"], 12);
    assert_eq!(settings["delaySeconds"], 2);
    assert!(sealed.read_file("ralph/progress.txt").contains("- Mine\n"));
    sealed.write_file(".ralph/settings.json", "{ \"workflow\": \"tasks\" }");
    build(&sealed);
    assert_eq!(sealed.read_file("scripts/ralph/prd.json"), STORIES);
    // The second time there are files to lose.
    let end = sealed.run_ralph(&["init", "--from", "."]).expect_code(2);
    end.expect_stderr("There is a task list already").expect_stderr("--force");
}

#[test]
fn items_of_a_fix_plan_become_stories_and_are_done() {
    let sealed = repository();
    let plan = "# Fix plan\n\n## High Priority\n- [x] Set up\n- [ ] Read dates\n  - [ ] ISO dates\n\n## Low\n- [ ] Tidy up\n";
    sealed.write_file("@fix_plan.md", plan);
    sealed.write_file("PROMPT.md", "Study specs/* and @fix_plan.md.\n");
    sealed.write_file("AGENT.md", "Build with `make`.\n");
    sealed.write_file("specs/dates.md", "# Dates\n");
    let reported = migrate(&sealed, &["@fix_plan.md", "--name", "Dates"]);
    for line in [
        "found   @fix_plan.md: 3 items, 1 of them done; each becomes a story\n",
        "found   specs: every agent is asked to read it\n",
        "left    PROMPT.md: it tells the agent how to loop",
        "found   AGENT.md: becomes project instructions in ralph/prompt.md\n",
        "Name your agent in .ralph/settings.json",
    ] {
        assert!(reported.contains(line), "{line}\n{reported}");
    }
    let list: Value = serde_json::from_str(&sealed.read_file("ralph/tasks.json")).expect("JSON");
    assert_eq!(list["branchName"], "ralph/dates");
    assert_eq!(list["userStories"][1]["id"], "FIX-002");
    assert_eq!(list["userStories"][1]["description"], "High Priority");
    assert_eq!(list["userStories"][1]["acceptanceCriteria"], json!(["ISO dates"]));
    assert_eq!(list["userStories"][0]["passes"], true);
    let orders = sealed.read_file("ralph/prompt.md");
    assert!(orders.contains("are in `specs`") && orders.contains("Build with `make`."), "{orders}");
    build(&sealed);
    assert_eq!(sealed.read_file("@fix_plan.md"), plan);
}

#[test]
fn a_loop_around_a_prompt_becomes_settings() {
    let sealed = repository();
    sealed.write_file(
        "loop.sh",
        "while :; do cat PROMPT.md | claude -p --dangerously-skip-permissions; git push; done\n",
    );
    sealed.write_file("PROMPT.md", "Do the next thing. <promise>COMPLETE</promise> when done.\n");
    let reported = migrate(&sealed, &["loop.sh"]);
    for line in [
        "found   loop.sh: the agent is claude\n",
        "left    loop.sh, line 1: while :; do",
        "found   PROMPT.md: stays, and says <promise>COMPLETE</promise>",
        "  1. ralph prompt PROMPT.md\n",
    ] {
        assert!(reported.contains(line), "{line}\n{reported}");
    }
    assert!(sealed.read_file(".ralph/settings.json").contains("\"workflow\": \"prompt\""));
    with_sim(&sealed);
    sealed.run_ralph(&["prompt", "PROMPT.md"]).expect_code(0);
    assert!(sealed.read_file("done.txt").contains("one more"));

    let sealed = repository();
    sealed.write_file("loop.sh", "for i in {1..3}; do codex exec - < PROMPT.md; done\n");
    let reported = migrate(&sealed, &["loop.sh"]);
    assert!(
        reported.contains("left    PROMPT.md: the script reads it, but it is not there\n"),
        "{reported}"
    );
    sealed.write_file("PROMPT.md", "Do the next thing.\n");
    let reported = migrate(&sealed, &["."]);
    assert!(
        reported.contains("Add to PROMPT.md: When all is done, answer <response>DONE"),
        "{reported}"
    );
    assert!(reported.contains("kept    .ralph/settings.json\n"), "{reported}");
}

#[test]
fn unknown_projects_are_refused() {
    let sealed = sealed();
    sealed.write_file("notes.md", "Nothing to do.\n");
    sealed.write_file("build.sh", "make\n");
    sealed.write_file("broken/prd.json", r#"{"userStories": [{"id": "A", "title": "x"}]}"#);
    for (from, reported) in [
        (".", "There is nothing of another loop in `.`"),
        ("nowhere", "Cannot read `nowhere`"),
        ("notes.md", "There is no list in `notes.md`"),
        ("build.sh", "There is nothing of another loop in `build.sh`"),
        ("broken", "userStories[0]"),
    ] {
        sealed.run_ralph(&["init", "--from", from]).expect_code(2).expect_stderr(reported);
        assert!(!sealed.project_dir().join(".ralph").exists(), "{from}");
        assert!(!sealed.project_dir().join("ralph").exists(), "{from}");
    }
}

#[test]
fn a_dry_run_shows_the_list() {
    let sealed = sealed();
    sealed.write_file("prd.json", STORIES);
    let end = sealed.run_ralph(&["init", "--from", ".", "--dry-run"]).expect_code(0);
    for part in ["would write  ralph/tasks.json\n", "      \"id\": \"US-002\",\n"] {
        assert!(end.stdout.contains(part.trim_start()), "{}", end.stdout);
    }
    assert!(!sealed.project_dir().join("ralph").exists());
}

const LIST: &str = r#"{"project": "p", "tasks": [{"id": "a", "title": "A", "description": "Make a.",
    "status": "pending", "acceptance_criteria": ["a"], "depends_on": []}]}"#;

#[test]
fn lists_that_ralph_finds_by_itself_stay_where_they_are() {
    for place in ["plan.json", "ralph/tasks.json"] {
        let sealed = repository();
        sealed.write_file(place, LIST);
        sealed.write_file(".ralph/config/ralph.conf", "RALPH_MAX_ITERATIONS=7\n");
        let reported = migrate(&sealed, &["."]);
        assert!(
            reported.contains(&format!("found   {place}: 1 story, 0 of them done")),
            "{reported}"
        );
        assert!(reported.contains("ralph.conf: its values become settings"), "{reported}");
        let settings = sealed.read_file(".ralph/settings.json");
        assert!(settings.contains("\"maximumIterations\": 7"), "{settings}");
        with_sim(&sealed);
        sealed.commit_all("Let ralph continue");
        sealed.run_ralph(&["build"]).expect_code(0);
        assert!(sealed.read_file(place).contains("done"), "{}", sealed.read_file(place));
    }
}

#[test]
fn a_plan_with_prompts_and_a_config_is_migrated() {
    let sealed = repository();
    sealed.write_file("implementation_plan.md", "# Plan\n\n- [x] Read dates\n- [ ] Write dates\n");
    sealed.write_file("config", "MAX_ITERATIONS=9 && rm x\n");
    sealed.write_file("prompts/build.md", "Always run `make generate` after changing api/.\n");
    let reported = migrate(&sealed, &["."]);
    assert!(reported.contains("implementation_plan.md: 2 items, 1 of them done"), "{reported}");
    assert!(reported.contains("left    config: "), "{reported}");
    assert!(sealed.read_file("ralph/prompt.md").contains("make generate"), "{reported}");
}

#[test]
fn gates_that_ask_an_agent_are_written_with_the_flag() {
    let sealed = sealed();
    sealed.write_file("Makefile", "test:\n\ttrue\n");
    let words = ["init", "--workflow", "tasks", "--gates", "spec,quality", "--no-try"];
    sealed.run_ralph(&words).expect_code(0);
    let settings = sealed.read_file(".ralph/settings.json");
    for part in ["make test", "\"kind\": \"spec\"", "\"kind\": \"quality\""] {
        assert!(settings.contains(part), "{part}: {settings}");
    }
    sealed.run_ralph(&["init", "--yes", "--gates", "taste"]).expect_code(2);
    // Existing settings are kept, so that they would not get the gate.
    let end = sealed.run_ralph(&["init", "--yes", "--gates", "spec", "--force"]).expect_code(2);
    assert!(
        end.stderr
            .contains(r#"add to the gates there: "gates": [{ "kind": "spec", "agent": {} }]"#),
        "{}",
        end.stderr
    );
    assert_eq!(sealed.read_file(".ralph/settings.json"), settings);
}
