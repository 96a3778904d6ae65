//! `ralph plan`: from the requirements to a task list, through the built binary with real git.

use std::fs;

use ralph_testkit::sealed::{Finished, Sealed};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{always, repository, sealed};

const PRD: &str = "# Notes\n\n## 1. Summary\n\nNotes can be searched.\n";

fn story(id: &str, depends_on: &[&str]) -> Value {
    json!({
        "id": id,
        "title": format!("The {id}"),
        "description": format!("Make {id}."),
        "acceptanceCriteria": [format!("{id} is there")],
        "priority": 1,
        "passes": false,
        "reviewStatus": null,
        "reviewCount": 0,
        "reviewFeedback": "",
        "notes": "",
        "dependsOn": depends_on
    })
}

fn list(stories: &[Value]) -> String {
    format!("{:#}\n", json!({ "project": "notes", "userStories": stories }))
}

fn good() -> String {
    list(&[story("US-001", &[]), story("US-002", &["US-001"])])
}

fn bad() -> String {
    list(&[story("US-001", &["US-009"])])
}

/// An action that writes the task file.
fn writes(text: &str) -> Value {
    json!({ "write": { "path": "ralph/tasks.json", "text": text } })
}

/// An agent that does one action per call, in this order.
fn calls(actions: &[Value]) -> Value {
    let entry = |(at, actions): (usize, &Value)| {
        let mut actions = actions.as_array().cloned().unwrap_or_default();
        actions.push(json!({ "text": "That is it." }));
        json!({ "when": { "call": at + 1 }, "do": actions })
    };
    actions.iter().enumerate().map(entry).collect()
}

/// A repository with committed agent settings and uncommitted documents.
fn project(calls: &Value, further: &Value) -> Sealed {
    let sealed = repository();
    sealed.write_script(calls, further);
    sealed.commit_all("Settings");
    sealed.run_ralph(&["init", "--workflow", "tasks", "--name", "Notes"]).expect_code(0);
    sealed.write_file("ralph/prd.md", PRD);
    sealed
}

fn plan(sealed: &Sealed, words: &[&str]) -> Finished {
    sealed.run_ralph(&[&["plan"], words].concat())
}

#[track_caller]
fn assert_clean(sealed: &Sealed) {
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
}

#[test]
fn a_good_list_is_committed_at_once_with_the_documents() {
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({}));
    let end = plan(&sealed, &[]).expect_code(0).expect_stderr("Iteration 1/3: plan");
    assert!(end.stderr.contains("Complete: the hard gates passed\n"), "{}", end.stderr);
    assert_eq!(sealed.subjects()[0], "ralph[1]: plan — 2 stories for notes");
    assert_eq!(sealed.read_file("ralph/tasks.json"), good());
    let files = sealed.run_git(&["show", "--name-only", "--format=", "HEAD"]);
    assert_eq!(
        files.lines().collect::<Vec<_>>(),
        [".gitignore", "ralph/prd.md", "ralph/progress.txt", "ralph/prompt.md", "ralph/tasks.json"]
    );
    assert_clean(&sealed);
    let prompt = &sealed.prompts()[0];
    assert!(prompt.contains("Read `ralph/prd.md` first"), "{prompt}");
    assert!(prompt.contains("Do not commit."), "{prompt}");
    sealed.run_ralph(&["tasks", "validate", "--untouched"]).expect_code(0);
}

#[test]
fn list_errors_are_fed_back_and_fixed() {
    let twice = list(&[story("US-001", &[]), story("US-001", &[])]);
    let actions = [json!([writes(&bad())]), json!([writes(&twice)]), json!([writes(&good())])];
    let sealed = project(&calls(&actions), &json!({}));
    plan(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.subjects()[0], "ralph[3]: plan — 2 stories for notes");
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("userStories[0].dependsOn[0]"), "{}", prompts[1]);
    assert!(prompts[1].contains("depends on an unknown task `US-009`"), "{}", prompts[1]);
    assert!(prompts[2].contains("has the id of another task"), "{}", prompts[2]);
    assert!(!prompts[2].contains("US-009"), "only the last mistakes are fed back: {}", prompts[2]);
    assert_clean(&sealed);
}

#[test]
fn a_plan_keeps_the_checks_that_the_list_had() {
    let with = |commands: &str| good().replacen('{', &format!("{{{commands}"), 1);
    let kept = with(r#""verifyCommands": ["true", "test -d ralph"],"#);
    let actions = [json!([writes(&with(""))]), json!([writes(&kept)])];
    let sealed = project(&calls(&actions), &json!({}));
    let list = with(r#""verifyCommands": ["test -d ralph"],"#);
    sealed.write_file("ralph/tasks.json", &list);
    plan(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[0].contains("must keep these: `test -d ralph`"), "{}", prompts[0]);
    assert!(prompts[1].contains("lacks `test -d ralph`, which the user chose"), "{}", prompts[1]);
    assert_eq!(sealed.read_file("ralph/tasks.json"), kept);
}

#[test]
fn last_draft_is_available_to_fix() {
    let fix = json!([{ "edit": {
        "path": "ralph/tasks.json", "find": "US-009", "replace": "US-002" } }]);
    let draft = list(&[story("US-001", &["US-009"]), story("US-002", &[])]);
    let sealed = project(&calls(&[json!([writes(&draft)]), fix]), &json!({}));
    plan(&sealed, &[]).expect_code(0);
    assert!(sealed.read_file("ralph/tasks.json").contains("\"US-002\""));
}

#[test]
fn list_that_stays_invalid_keeps_the_old_one() {
    let sealed = project(&always(json!([writes(&bad()), { "text": "Done." }])), &json!({}));
    let before = sealed.read_file("ralph/tasks.json");
    let end = plan(&sealed, &["2"]).expect_code(1);
    assert!(end.stderr.contains("The task file is restored"), "{}", end.stderr);
    assert_eq!(sealed.read_file("ralph/tasks.json"), before);
    assert_eq!(sealed.subjects()[0], "Settings", "nothing is committed");
    assert_eq!(sealed.find_events("iteration_started").len(), 2);
    sealed.write_file("ralph/tasks.json", &good());
    fs::remove_file(sealed.project_dir().join("ralph/tasks.json")).expect("removed");
    plan(&sealed, &["1"]).expect_code(1);
    assert!(!sealed.project_dir().join("ralph/tasks.json").exists(), "there was none before");
}

#[test]
fn resumed_run_continues_its_draft() {
    let fix = json!([{ "edit": {
        "path": "ralph/tasks.json", "find": "US-009", "replace": "US-002" } }]);
    let draft = list(&[story("US-001", &["US-009"]), story("US-002", &[])]);
    let sealed = project(&calls(&[json!([writes(&draft)]), fix]), &json!({}));
    let before = sealed.read_file("ralph/tasks.json");
    plan(&sealed, &["1"]).expect_code(1);
    assert_eq!(sealed.read_file("ralph/tasks.json"), before);
    sealed.run_ralph(&["resume", "-m", "2"]).expect_code(0);
    assert_eq!(sealed.read_file("ralph/tasks.json"), draft.replace("US-009", "US-002"));
    assert_eq!(sealed.subjects()[0], "ralph[2]: plan — 2 stories for notes");
    assert_clean(&sealed);
}

#[test]
fn interrupted_plan_keeps_the_old_list_until_resumed() {
    let waits = json!([
        writes(&good()), { "touch": "../at-work" }, { "waitFor": { "path": "../continue" } }
    ]);
    let sealed = project(&calls(&[waits.clone(), waits]), &json!({}));
    let before = sealed.read_file("ralph/tasks.json");
    let running = sealed.start_ralph(&["plan"]);
    sealed.wait_for("../at-work");
    running.stop_at_once().expect_code(130);
    assert_eq!(sealed.read_file("ralph/tasks.json"), before);
    fs::write(sealed.root().join("continue"), "").expect("written");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.read_file("ralph/tasks.json"), good());
    assert_clean(&sealed);
}

#[test]
fn killed_plan_can_be_resumed() {
    let waits = json!([
        writes(&bad()), { "touch": "../at-work" }, { "waitFor": { "path": "../continue" } }
    ]);
    let sealed = project(&calls(&[waits, json!([writes(&good())])]), &json!({}));
    let running = sealed.start_ralph(&["plan"]);
    sealed.wait_for("../at-work");
    running.send_signal(Signal::KILL);
    running.wait_for_end();
    plan(&sealed, &[]).expect_code(2).expect_stderr("`ralph resume` continues");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.read_file("ralph/tasks.json"), good());
    assert_clean(&sealed);
}

#[test]
fn other_changes_of_the_planner_are_reverted_and_refused() {
    let side_effects = json!([
        writes(&good()),
        { "write": { "path": "src/new.rs", "text": "fn main() {}" } },
        { "append": { "path": "README.md", "text": "More.\n" } },
        { "write": { "path": "ralph/prd.md", "text": "# Easier\n" } },
        { "append": { "path": "ralph/progress.txt", "text": "Planned.\n" } }
    ]);
    let sealed = project(&calls(&[side_effects, json!([{ "text": "I am sorry." }])]), &json!({}));
    let end = plan(&sealed, &[]).expect_code(0);
    assert!(end.stderr.contains("the agent changed files outside its scope"), "{}", end.stderr);
    let prompt = &sealed.prompts()[1];
    for path in ["- README.md", "- ralph/prd.md", "- src/new.rs"] {
        assert!(prompt.contains(path), "{prompt}");
    }
    assert_eq!(sealed.read_file("ralph/prd.md"), PRD);
    assert_eq!(sealed.read_file("README.md"), "# Project\n");
    assert!(!sealed.project_dir().join("src").exists());
    assert!(sealed.read_file("ralph/progress.txt").ends_with("Planned.\n"));
    assert_eq!(sealed.subjects()[0], "ralph[2]: plan — 2 stories for notes");
    let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept"]);
    let kept = kept.lines().next().expect("a ref");
    assert_eq!(sealed.run_git(&["show", &format!("{kept}:src/new.rs")]), "fn main() {}");
    assert_clean(&sealed);
}

#[test]
fn commit_of_the_planner_is_undone() {
    let actions =
        json!([writes(&good()), { "run": { "command": "git add -A; git commit -qm mine" } }]);
    let sealed = project(&calls(&[actions]), &json!({}));
    plan(&sealed, &[]).expect_code(0).expect_stderr("the agent made a commit");
    assert_eq!(sealed.subjects(), ["ralph[1]: plan — 2 stories for notes", "Settings", "Begin"]);
    assert_clean(&sealed);
}

#[test]
fn started_stories_are_rejected_as_a_plan() {
    let mut done = story("US-001", &[]);
    done["passes"] = json!(true);
    done["notes"] = json!("Done.");
    let mut counted = story("US-002", &[]);
    counted["reviewCount"] = json!(2);
    let actions = [
        json!([writes(&list(&[]))]),
        json!([writes(&list(&[done, counted]))]),
        json!([writes(&good())]),
    ];
    let sealed = project(&calls(&actions), &json!({}));
    plan(&sealed, &[]).expect_code(0);
    let prompts = sealed.prompts();
    assert!(prompts[1].contains("userStories: holds no task"), "{}", prompts[1]);
    assert!(
        prompts[2].contains("userStories[0].passes: task `US-001` was begun"),
        "{}",
        prompts[2]
    );
    assert!(prompts[2].contains("its count of reviews is 2"), "{}", prompts[2]);
}

#[test]
fn missing_requirements_stop_before_the_first_agent_call() {
    let sealed = repository();
    sealed.write_script(&calls(&[json!([writes(&good())])]), &json!({}));
    plan(&sealed, &[]).expect_code(2).expect_stderr("neither `specs/` nor `ralph/prd.md`");
    sealed.run_ralph(&["init", "--workflow", "tasks"]).expect_code(0);
    plan(&sealed, &[]).expect_code(2).expect_stderr("still the bare template");
    sealed.write_file("ralph/prd.md", " \n");
    plan(&sealed, &[]).expect_code(2).expect_stderr("it is empty");
    fs::remove_file(sealed.project_dir().join("ralph/prd.md")).expect("removed");
    fs::create_dir(sealed.project_dir().join("ralph/prd.md")).expect("a directory");
    plan(&sealed, &[]).expect_code(2).expect_stderr("it is a directory");
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn progress_is_not_thrown_away() {
    let mut begun = story("US-001", &[]);
    begun["reviewStatus"] = json!("needs_review");
    for (text, message) in [
        (list(&[begun.clone(), story("US-002", &[])]), "has begun (0 of 2 done)"),
        ("{ broken".to_owned(), "not valid JSON"),
    ] {
        let sealed = project(&calls(&[json!([writes(&good())])]), &json!({}));
        sealed.write_file("ralph/tasks.json", &text);
        plan(&sealed, &[]).expect_code(2).expect_stderr(message).expect_stderr("--force");
        assert_eq!(sealed.read_file("ralph/tasks.json"), text);
        plan(&sealed, &["--force"]).expect_code(0).expect_stderr("is kept as .ralph/tasks-");
        assert_eq!(sealed.read_file("ralph/tasks.json"), good());
        let backups = fs::read_dir(sealed.project_dir().join(".ralph")).expect("readable");
        let backup = backups
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().ends_with(".json.bak"))
            .expect("a backup");
        assert_eq!(fs::read_to_string(backup.path()).expect("readable"), text);
        assert_clean(&sealed);
    }
}

#[test]
fn an_untouched_list_is_refreshed() {
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({}));
    sealed.write_file("ralph/tasks.json", &list(&[story("OLD-1", &[])]));
    plan(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.read_file("ralph/tasks.json"), good());
}

#[test]
fn uncommitted_user_changes_are_refused() {
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({}));
    sealed.write_file("README.md", "# Mine\n");
    let end = plan(&sealed, &[]).expect_code(2).expect_stderr("README.md");
    assert!(!end.stderr.contains("prd.md"), "{}", end.stderr);
    plan(&sealed, &["--set-aside"]).expect_code(0).expect_stderr("are restored");
    assert_eq!(sealed.read_file("README.md"), "# Mine\n");
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), " M README.md\n");
    assert_eq!(sealed.subjects()[0], "ralph[1]: plan — 2 stories for notes");
    assert!(sealed.run_git(&["show", "HEAD:ralph/prd.md"]).contains("searched"));
}

#[test]
fn build_accepts_uncommitted_documents() {
    let actions = json!([{ "do": [
        { "run": { "command": "echo x > $RALPH_TASK.txt" } },
        { "handoff": { "task_completed": { "summary": "Done.", "fully_complete": true } } }
    ] }]);
    let sealed = project(&actions, &json!({ "review": { "enabled": false } }));
    sealed.write_file("ralph/tasks.json", &good());
    sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(
        sealed.subjects()[..2],
        ["ralph[2]: US-002 — The US-002", "ralph[1]: US-001 — The US-001"]
    );
    assert!(sealed.run_git(&["show", "--name-only", "HEAD~1"]).contains("ralph/prd.md"));
    assert_clean(&sealed);
}

#[test]
fn settings_select_committer_and_agent() {
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({ "commit": "none" }));
    plan(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.subjects()[0], "Settings");
    assert_eq!(sealed.read_file("ralph/tasks.json"), good());

    let other = json!({ "agents": { "plan": { "command": "no-such-agent" } } });
    let sealed = project(&calls(&[json!([writes(&good())])]), &other);
    plan(&sealed, &[]).expect_code(4).expect_stderr("no-such-agent");
}

#[test]
fn code_gates_do_not_run_for_plans() {
    let further = json!({
        "guardrails": [{ "command": "false" }],
        "gates": [{ "name": "few", "command": "test $(grep -c title ralph/tasks.json) -lt 2",
            "when": { "roles": ["plan"] } }],
        "baseline": "require",
        "validationStrategy": "tests_only"
    });
    let one = list(&[story("US-001", &[])]);
    let sealed = project(&calls(&[json!([writes(&good())]), json!([writes(&one)])]), &further);
    let end = plan(&sealed, &[]).expect_code(0);
    assert!(!end.stderr.contains("Gate false"), "{}", end.stderr);
}

#[test]
fn a_dry_run_shows_prompt_and_gate() {
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({}));
    let before = sealed.run_git(&["status", "--porcelain"]);
    let end = plan(&sealed, &["--dry-run"]).expect_code(0);
    assert!(end.stdout.contains("Up to 3 iterations, until the gates pass."), "{}", end.stdout);
    assert!(end.stdout.contains("| Read `ralph/prd.md` first, completely."), "{}", end.stdout);
    assert!(
        end.stdout.contains("tasks validate --untouched --plan ralph/tasks.json"),
        "{}",
        end.stdout
    );
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), before);
    assert_eq!(sealed.runs().len(), 0);
}

#[test]
fn the_project_may_have_a_prompt_of_its_own() {
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({}));
    sealed.write_file(".ralph/prompts/plan.md", "Cut ${PRD_FILE} into ${TASKS_FILE}.\n");
    plan(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.prompts()[0].trim_end(), "Cut ralph/prd.md into ralph/tasks.json.");
}

#[test]
fn plans_of_another_kind_and_wrong_numbers_are_refused() {
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({ "workflow": "specs" }));
    plan(&sealed, &[]).expect_code(2).expect_stderr("no directory `specs` with specifications");
    let sealed = project(&calls(&[json!([writes(&good())])]), &json!({}));
    plan(&sealed, &["0"]).expect_code(2);
    plan(&sealed, &["3", "-m", "4"]).expect_code(2).expect_stderr("given twice");
    let outside = json!({ "tasks": { "file": "../tasks.json" } });
    let sealed = repository();
    sealed.write_script(&calls(&[]), &outside);
    plan(&sealed, &[]).expect_code(2).expect_stderr("`tasks.file` is \"../tasks.json\"");
    sealed.trust_project(&[]);
    plan(&sealed, &[]).expect_code(2).expect_stderr("is not in the project directory");
}

#[test]
fn without_a_repository_there_is_nothing_to_commit_to() {
    let sealed = sealed();
    sealed.write_script(&calls(&[json!([writes(&good())])]), &json!({}));
    sealed.write_file("ralph/prd.md", PRD);
    plan(&sealed, &[]).expect_code(5).expect_stderr("git init");
    sealed.write_script(
        &calls(&[json!([writes(&bad())]), json!([writes(&good())])]),
        &json!({ "commit": "none" }),
    );
    plan(&sealed, &[]).expect_code(0);
    assert_eq!(sealed.read_file("ralph/tasks.json"), good());
}

#[test]
fn a_project_within_a_repository_is_planned_in() {
    let sealed = repository();
    let actions = json!([writes(&good()), { "write": { "path": "../other.txt", "text": "x" } }]);
    sealed.write_script(&calls(&[actions, json!([{ "text": "Sorry." }])]), &json!({}));
    sealed.write_file("sub/.ralph/settings.json", &sealed.read_file(".ralph/settings.json"));
    sealed.commit_all("Settings");
    sealed.write_file("sub/ralph/prd.md", PRD);
    plan(&sealed, &["-C", "sub"]).expect_code(0);
    assert_eq!(sealed.read_file("sub/ralph/tasks.json"), good());
    assert!(!sealed.project_dir().join("other.txt").exists());
    assert_clean(&sealed);
}

#[test]
fn link_instead_of_the_list_is_refused() {
    let actions = json!([
        { "write": { "path": ".git/elsewhere.json", "text": good() } },
        { "delete": { "path": "ralph/tasks.json" } },
        { "symlink": { "path": "ralph/tasks.json", "to": "../.git/elsewhere.json" } }
    ]);
    let sealed = project(&calls(&[actions]), &json!({}));
    let before = sealed.read_file("ralph/tasks.json");
    plan(&sealed, &["1"]).expect_code(1);
    assert!(
        sealed.project_dir().join("ralph/tasks.json").symlink_metadata().expect("there").is_file()
    );
    assert_eq!(sealed.read_file("ralph/tasks.json"), before);
}
