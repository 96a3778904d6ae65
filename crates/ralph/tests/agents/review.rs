//! A story from its first line to its approval, in whole runs with the real Claude Code: with a
//! list that the agent keeps, where cheating is held up and then undone, and with one that ralph
//! keeps and guards.
//!
//! Not here: every move that a role may not make; `it/build/keeper.rs` has those, with the
//! scripted agent.

use std::path::Path;

use ralph_testkit::models::{ModelAnswer, ModelToolUse, ModelTurn};
use ralph_testkit::sealed::{Finished, merge_into};
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::hooks::{answers, expect_received};
use crate::stage::Stage;

const LIST: &str = "ralph/tasks.json";
const PRD: &str = "ralph/prd.md";
const WANTED: &str = "# Greetings\n\nPeople are greeted.\n";

/// The story as it stands after some changes.
fn story(changes: &Value) -> Value {
    let mut story = json!({
        "id": "US-1",
        "title": "Greet",
        "description": "Write a greeting to made.txt.",
        "acceptanceCriteria": ["made.txt says hello"],
        "priority": 1,
        "passes": false,
        "reviewStatus": null,
        "reviewCount": 0,
        "reviewFeedback": "",
        "notes": "",
        "dependsOn": [],
    });
    merge_into(&mut story, changes);
    story
}

/// The list with the story after some changes.
fn list(changes: &Value) -> String {
    let list = json!({
        "project": "p",
        "branchName": "ralph/p",
        "description": "d",
        "userStories": [story(changes)],
    });
    format!("{list:#}\n")
}

/// What an implementer makes of the story.
fn handed_in() -> Value {
    json!({ "reviewStatus": "needs_review", "notes": "Wrote the file." })
}

/// What only a reviewer may make of it.
fn approved(count: u32) -> Value {
    json!({
        "passes": true,
        "reviewStatus": "approved",
        "reviewCount": count,
        "notes": "Wrote the file.",
    })
}

/// Returns a stage whose repository has the list and the requirements, committed.
fn stage(
    keeper: &str,
    iterations: u32,
    turns: impl FnOnce(&Path) -> Vec<ModelTurn>,
) -> Option<Stage> {
    let settings = json!({ "tasks": { "keeper": keeper }, "maximumIterations": iterations });
    let stage = Stage::new(Cli::Claude, turns, &settings)?;
    stage.sealed.write_file(LIST, &list(&json!({})));
    stage.sealed.write_file(PRD, WANTED);
    stage.sealed.commit_all("Settings");
    Some(stage)
}

/// Runs the loop over the list, to an end whose account is in the message if it is another.
#[track_caller]
fn build(stage: &Stage, words: &[&str], code: i32) -> Finished {
    let end = stage.sealed.run_ralph(words);
    assert_eq!(end.code, Some(code), "{}\n{}", end.stderr, stage.account());
    end
}

fn tool(name: &str, input: Value) -> ModelToolUse {
    ModelToolUse { name: name.to_owned(), input }
}

fn read(place: &Path) -> ModelToolUse {
    tool("Read", json!({ "file_path": place }))
}

fn write(place: &Path, text: &str) -> ModelToolUse {
    tool("Write", json!({ "file_path": place, "content": text }))
}

fn edit(place: &Path, old: &str, new: &str) -> ModelToolUse {
    tool("Edit", json!({ "file_path": place, "old_string": old, "new_string": new }))
}

fn shell(command: &str) -> ModelToolUse {
    tool("Bash", json!({ "command": command, "description": "Run it." }))
}

/// A turn in which the model calls several tools, one after the other.
fn uses(tools: impl Into<Vec<ModelToolUse>>) -> ModelTurn {
    ModelTurn::Answer(ModelAnswer { text: "Working.".to_owned(), tools: tools.into() })
}

/// A turn in which the model does something, writes down how the story stands, and commits.
fn keeps(project: &Path, command: &str, changes: &Value, subject: &str) -> ModelTurn {
    let file = project.join(LIST);
    let commit = format!("git add -A && git commit --quiet -m '{subject}'");
    uses([shell(command), read(&file), write(&file, &list(changes)), shell(&commit)])
}

/// A turn in which the model wants to stop.
fn stops() -> ModelTurn {
    ModelTurn::from_text("That is it.")
}

/// Asserts how the story stands in the work tree or in a commit.
#[track_caller]
fn expect_story(text: &str, changes: &Value) {
    let list: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(list["userStories"], json!([story(changes)]));
}

/// Asserts what was committed since the settings were, oldest first, and that nothing else is
/// left.
#[track_caller]
fn expect_commits(stage: &Stage, subjects: &[&str]) {
    let mut made = stage.sealed.subjects();
    made.reverse();
    assert_eq!(made[2..], *subjects, "{}", stage.account());
    assert_eq!(stage.sealed.run_git(&["status", "--porcelain"]), "");
}

/// Asserts that the hooks ran in every session, which received its role, that so many times an
/// agent wanted to stop, and that no hook was missed.
#[track_caller]
fn expect_hooks(stage: &Stage, end: &Finished, roles: &[&str], stops: usize) {
    assert!(!end.stderr.contains("hooks did not run"), "{}", end.stderr);
    let begun = answers(stage, "SessionStart");
    assert_eq!(begun.len(), roles.len(), "{}", stage.account());
    for (begun, role) in begun.iter().zip(roles) {
        let received = begun["stdout"].to_string();
        assert!(received.contains(&format!("in the role `{role}`")), "no {role} in {received}");
    }
    assert_eq!(answers(stage, "Stop").len(), stops, "{}", stage.account());
}

#[test]
fn the_agent_keeps_the_list_from_the_first_line_to_the_approval() {
    let feedback = "made.txt:1 says hallo; the story wants hello.";
    let asked = json!({
        "reviewStatus": "changes_requested",
        "reviewCount": 1,
        "reviewFeedback": feedback,
        "notes": "Wrote the file.",
    });
    let fixed = json!({
        "reviewStatus": "needs_review",
        "reviewCount": 1,
        "notes": "Wrote the file.",
    });
    let turns = |project: &Path| {
        let look = "cat made.txt";
        vec![
            keeps(project, "echo hallo > made.txt", &handed_in(), "feat: [US-1] - Greet"),
            stops(),
            keeps(project, look, &asked, "review: [US-1] - changes requested"),
            stops(),
            keeps(project, "echo hello > made.txt", &fixed, "fix: [US-1] - say hello"),
            stops(),
            keeps(project, look, &approved(2), "review: [US-1] - approved"),
            stops(),
        ]
    };
    let Some(stage) = stage("agent", 4, turns) else { return };
    let end = build(&stage, &["build"], 0);
    expect_commits(
        &stage,
        &[
            "feat: [US-1] - Greet",
            "review: [US-1] - changes requested",
            "fix: [US-1] - say hello",
            "review: [US-1] - approved",
        ],
    );
    expect_story(&stage.sealed.read_file(LIST), &approved(2));
    assert_eq!(stage.sealed.read_file("made.txt"), "hello\n");
    expect_hooks(&stage, &end, &["implement", "review", "review-fix", "review"], 4);
    expect_received(&stage, 4, feedback);
    assert!(!end.stderr.contains("reverted"), "{}", end.stderr);
    stage.expect_events(&[("asked", 4), ("iteration_started", 4)]);
    stage.expect_silence();
}

/// What an agent that approves its own work receives when it wants to stop.
const HELD_UP: [&str; 4] = [
    "Stop hook feedback:",
    "Story `US-1`: `passes` went from false to true, but implement iterations cannot approve",
    "Story `US-1`: `reviewStatus` went from null to \\\"approved\\\"",
    "Story `US-1`: `reviewCount` went from 0 to 1",
];

#[test]
fn an_agent_that_approves_its_own_work_is_held_up_and_puts_it_right() {
    let turns = |project: &Path| {
        vec![
            keeps(project, "echo hello > made.txt", &approved(1), "feat: [US-1] - all done"),
            stops(),
            keeps(project, "true", &handed_in(), "feat: [US-1] - ask for a review"),
            stops(),
            keeps(project, "cat made.txt", &approved(1), "review: [US-1] - approved"),
            stops(),
        ]
    };
    let Some(stage) = stage("agent", 2, turns) else { return };
    let end = build(&stage, &["build"], 0);
    for words in HELD_UP {
        expect_received(&stage, 2, words);
    }
    expect_hooks(&stage, &end, &["implement", "review"], 3);
    assert!(!end.stderr.contains("reverted"), "{}", end.stderr);
    expect_commits(
        &stage,
        &[
            "feat: [US-1] - all done",
            "feat: [US-1] - ask for a review",
            "review: [US-1] - approved",
        ],
    );
    expect_story(&stage.sealed.run_git(&["show", &format!("HEAD~1:{LIST}")]), &handed_in());
    expect_story(&stage.sealed.read_file(LIST), &approved(1));
    stage.expect_events(&[("asked", 2), ("iteration_started", 2)]);
    stage.expect_silence();
}

#[test]
fn an_agent_that_insists_is_let_go_and_undone() {
    let turns = |project: &Path| {
        vec![
            keeps(project, "echo hello > made.txt", &approved(1), "feat: [US-1] - all done"),
            stops(),
            stops(),
            stops(),
            keeps(project, "echo hello! > made.txt", &handed_in(), "feat: [US-1] - Greet"),
            stops(),
        ]
    };
    let Some(stage) = stage("agent", 1, turns) else { return };
    // The hook gives way two blocks before the CLI would overrule it: after the second here.
    let cap = json!({ "agent": { "env": { "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "4" } } });
    stage.sealed.write_file(".ralph/settings.local.json", &cap.to_string());
    stage.sealed.trust_project(&[]);
    let end = build(&stage, &["build"], 1);
    assert_eq!(stage.model.turn_requests().len(), 4, "{}", stage.account());
    for words in HELD_UP {
        expect_received(&stage, 3, words);
    }
    let said: Vec<Value> = answers(&stage, "Stop")
        .iter()
        .map(|answer| answer["stdout"].as_str().unwrap_or_default())
        .map(|said| serde_json::from_str(said).expect("JSON"))
        .collect();
    let blocks: Vec<bool> = said.iter().map(|said| said["decision"] == "block").collect();
    assert_eq!(blocks, [true, true, false], "{said:#?}");
    let given_way = "Stop says: ralph's hook lets this session stop despite open objections";
    let seen = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(seen.contains(given_way), "{seen}");
    assert_eq!(seen.matches("Stop says:").count(), 1, "{seen}");
    assert!(seen.contains("reverted in the task list: Story `US-1`: `passes` went"), "{seen}");
    expect_story(&stage.sealed.read_file(LIST), &json!({ "notes": "Wrote the file." }));
    expect_commits(&stage, &["feat: [US-1] - all done", "ralph[1]: the list after US-1 — Greet"]);
    expect_hooks(&stage, &end, &["implement"], 3);

    let end = build(&stage, &["resume", "-m", "2"], 1);
    expect_received(&stage, 4, "`passes` went from false to true");
    expect_story(&stage.sealed.read_file(LIST), &handed_in());
    expect_hooks(&stage, &end, &["implement", "implement"], 4);
    stage.expect_silence();
}

fn handoff(summary: &str) -> ModelTurn {
    Cli::Claude.hands_over(&json!({
        "task_completed": { "task_id": "US-1", "summary": summary, "fully_complete": true },
        "deviations": [],
        "bugs_encountered": [],
        "architectural_notes": [],
        "files_touched": [{ "path": "made.txt", "action": "created" }],
        "plan_amendments": [],
        "tests_added": [],
        "constraints_discovered": [],
    }))
}

fn verdict(verdict: &str, feedback: &str) -> ModelTurn {
    let is_met = feedback.is_empty();
    Cli::Claude.hands_over(&json!({
        "verdict": verdict,
        "feedback": feedback,
        "criteria": [{
            "criterion": "made.txt says hello",
            "met": is_met,
            "evidence": "made.txt:1",
        }],
    }))
}

#[test]
fn ralph_keeps_the_list_from_the_first_line_to_the_approval() {
    let feedback = "made.txt:1 says hallo; the story wants hello.";
    let turns = |_: &Path| {
        vec![
            uses([shell("echo hallo > made.txt")]),
            handoff("Wrote the file."),
            verdict("changes_requested", feedback),
            uses([shell("echo hello > made.txt")]),
            handoff("Fixed the file."),
            verdict("approved", ""),
        ]
    };
    let Some(stage) = stage("ralph", 4, turns) else { return };
    let end = build(&stage, &["build"], 0);
    expect_commits(
        &stage,
        &[
            "ralph[1]: US-1 — Greet",
            "ralph[2]: review: ask for changes in US-1 — Greet",
            "ralph[3]: US-1 — Greet (fix 1)",
            "ralph[4]: review: approve US-1 — Greet",
        ],
    );
    assert_eq!(stage.sealed.read_file("made.txt"), "hello\n");
    expect_received(&stage, 3, feedback);
    let list: Value = serde_json::from_str(&stage.sealed.read_file(LIST)).expect("JSON");
    let story = &list["userStories"][0];
    assert_eq!(
        [&story["passes"], &story["reviewStatus"], &story["reviewCount"]],
        [&json!(true), &json!("approved"), &json!(2)],
        "{story:#}"
    );
    expect_hooks(&stage, &end, &["implement", "review", "review-fix", "review"], 4);
    stage.expect_events(&[("asked", 4), ("iteration_started", 4)]);
    stage.expect_silence();
}

#[test]
fn the_list_that_ralph_keeps_and_the_requirements_are_denied_to_the_agent() {
    let turns = |project: &Path| {
        let (list_file, prd) = (project.join(LIST), project.join(PRD));
        vec![
            uses([
                read(&list_file),
                read(&prd),
                write(&list_file, &list(&approved(1))),
                edit(&list_file, "\"passes\": false", "\"passes\": true"),
                write(&prd, "# Nothing\n"),
                edit(&prd, "People are greeted.", "No one is greeted."),
                write(&project.join("made.txt"), "hello\n"),
            ]),
            handoff("Wrote the file."),
        ]
    };
    let Some(stage) = stage("ralph", 1, turns) else { return };
    build(&stage, &["build"], 1);
    let received =
        stage.model.turn_requests().pop().expect("it was asked").body["messages"].clone();
    let results = received.as_array().into_iter().flatten();
    let results = results.flat_map(|message| message["content"].as_array().into_iter().flatten());
    let refused: Vec<&str> = results
        .filter(|result| result["is_error"] == true)
        .map(|result| result["content"].as_str().unwrap_or_default())
        .collect();
    let expected =
        [("loop.task-file", LIST), ("loop.requirements", PRD)].map(|(category, file)| {
            let file = stage.sealed.project_dir().join(file);
            ["Write", "Edit"].map(|tool| {
                format!(
                    "PreToolUse:{tool} hook error: ralph's guard ({category}): `{}` has the ",
                    file.display()
                )
            })
        });
    let expected = expected.as_flattened();
    assert_eq!(refused.len(), expected.len(), "{refused:#?}");
    for (refused, expected) in refused.iter().zip(expected) {
        assert!(refused.starts_with(expected), "no {expected:?} in {refused:?}");
    }
    assert_eq!(stage.sealed.read_file(PRD), WANTED);
    assert_eq!(stage.sealed.read_file("made.txt"), "hello\n");
    let list: Value = serde_json::from_str(&stage.sealed.read_file(LIST)).expect("JSON");
    let story = &list["userStories"][0];
    assert_eq!(
        [&story["passes"], &story["reviewStatus"], &story["reviewCount"]],
        [&json!(false), &json!("needs_review"), &json!(0)],
        "{story:#}"
    );
    expect_commits(&stage, &["ralph[1]: US-1 — Greet"]);
    stage.expect_silence();
}
