//! The list itself: errors in it, edits of it during a run, and changes that agents propose.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{assert_clean, assert_statuses, build, handoff, list, made, plan, project, settings};
use super::{task, worker, writes};

#[test]
fn list_errors_are_reported_and_nothing_is_started() {
    for (text, words, expect) in [
        (plan(&[]).to_string(), &[][..], "`plan.json` has no tasks"),
        ("{ \"tasks\": [".to_owned(), &[], "plan.json:1:"),
        (plan(&[task("a", &["b"]), task("b", &["a"])]).to_string(), &[], "waits for itself"),
        (plan(&[task("a", &["nope"])]).to_string(), &[], "nope"),
        (plan(&[task("a", &[]), task("a", &[])]).to_string(), &[], "a"),
        (plan(&[task("login", &[])]).to_string(), &["--task", "logni"], "did you mean `login`?"),
        (plan(&[task("a", &[])]).to_string(), &["--plan", "none.json"], "none.json"),
        (plan(&[task("a", &[])]).to_string(), &["3", "-m", "4"], "given twice"),
        (plan(&[task("a", &[])]).to_string(), &["--from-shelf"], "--task"),
    ] {
        let sealed = project(&[], &worker(), &settings(json!({})));
        sealed.write_file("plan.json", &text);
        build(&sealed, words).expect_code(2).expect_stderr(expect);
        assert_eq!(sealed.runs().len(), 0, "{text} {words:?}");
        assert_eq!(sealed.read_file("plan.json"), text);
    }
}

#[test]
fn a_dirty_tree_is_refused_included_or_set_aside() {
    let sealed = project(&[task("a", &[])], &worker(), &settings(json!({})));
    sealed.write_file("README.md", "mine\n");
    build(&sealed, &[]).expect_code(2).expect_stderr("  README.md").expect_stderr("--set-aside");
    assert_eq!(sealed.runs().len(), 0);
    build(&sealed, &["--set-aside"]).expect_code(0);
    assert_eq!(sealed.read_file("README.md"), "mine\n");
    assert_eq!(sealed.run_git(&["show", "HEAD:README.md"]), "# Project\n");
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), " M README.md\n");
    let sealed = project(&[task("a", &[])], &worker(), &settings(json!({})));
    sealed.write_file("README.md", "mine\n");
    build(&sealed, &["--include-dirty"]).expect_code(0);
    assert_eq!(sealed.run_git(&["show", "HEAD:README.md"]), "mine\n");
    assert_clean(&sealed);
}

#[test]
fn a_list_that_is_not_committed_yet_is_begun_with() {
    let sealed = project(&[], &worker(), &settings(json!({})));
    sealed.write_file("plan.json", &format!("{:#}", plan(&[task("a", &[]), task("b", &[])])));
    build(&sealed, &[]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_clean(&sealed);
}

#[test]
fn a_list_that_is_not_committed_yet_is_not_set_aside() {
    let sealed = project(&[task("a", &[])], &worker(), &settings(json!({})));
    sealed.write_file("plan.json", &format!("{:#}", plan(&[task("a", &[]), task("b", &[])])));
    sealed.write_file("README.md", "mine\n");
    build(&sealed, &["--set-aside"]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), " M README.md\n");
    assert_eq!(sealed.read_file("README.md"), "mine\n");
}

#[test]
fn the_backup_of_the_list_is_never_committed() {
    let sealed = project(&[task("a", &[]), task("b", &[])], &worker(), &settings(json!({})));
    sealed.run_ralph(&["tasks", "set-status", "b", "skipped"]).expect_code(0);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), " M plan.json\n");
    assert!(sealed.project_dir().join(".ralph/plan.json.bak").exists());
    // Earlier versions left the backup next to the list.
    sealed.write_file("plan.json.bak", "{}");
    build(&sealed, &[]).expect_code(0);
    let files = sealed.run_git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(files, ".ralph/settings.json\nREADME.md\na.txt\nplan.json\n");
    assert_statuses(&sealed, &[("a", "done"), ("b", "skipped")]);
    assert!(sealed.project_dir().join("plan.json.bak").exists(), "it is still the user's");
}

/// A call for task `a` that runs a command, and then works like any other.
fn editing(command: &str) -> Value {
    json!([
        { "when": { "task": "a" }, "do": [
            { "run": { "command": format!("{command}; echo > a.txt") } }, handoff("Wrote it.")
        ] },
        writes("$RALPH_TASK.txt")
    ])
}

fn remarks(sealed: &ralph_testkit::sealed::Sealed) -> String {
    let read = sealed.find_events("tasks_read");
    read.iter().map(|event| event["remarks"].to_string()).collect()
}

#[test]
fn a_task_that_is_added_by_hand_is_done_too() {
    let sealed = project(&[], &json!([]), &settings(json!({})));
    let longer = sealed.root().join("longer.json");
    let tasks = [task("a", &[]), task("n", &["a"])];
    std::fs::write(&longer, format!("{:#}", plan(&tasks))).expect("written");
    sealed.write_script(&editing("cp ../longer.json plan.json"), &settings(json!({})));
    sealed.write_file("plan.json", &format!("{:#}", plan(&tasks[..1])));
    super::commit_all(&sealed);
    build(&sealed, &[]).expect_code(0).expect_stderr("task `n` is new");
    assert_statuses(&sealed, &[("a", "done"), ("n", "done")]);
    assert_eq!(made(&sealed)[1..], ["ralph[1]: a — The a", "ralph[2]: n — The n"]);
    assert_clean(&sealed);
}

#[test]
fn lost_or_damaged_list_is_written_again() {
    for command in
        ["rm plan.json", "echo '{ damaged' > plan.json", "rm plan.json; mkfifo plan.json"]
    {
        let tasks = [task("a", &[]), task("b", &[])];
        let sealed = project(&tasks, &editing(command), &settings(json!({})));
        build(&sealed, &[]).expect_code(0).expect_stderr("was damaged and is rewritten");
        assert_statuses(&sealed, &[("a", "done"), ("b", "done")]);
        assert_eq!(made(&sealed).len(), 2, "{command}");
        assert_clean(&sealed);
    }
}

#[test]
fn an_agent_cannot_tick_its_tasks() {
    let tasks = [task("a", &[]), task("b", &[])];
    let tick = "sed -i 's/\"in_progress\"/\"done\"/; s/\"pending\"/\"done\"/' plan.json";
    let with = settings(json!({
        "guardrails": [{ "command": "test -f b.txt" }], "tasks": { "maxAttempts": 1 }
    }));
    let sealed = project(&tasks, &editing(tick), &with);
    build(&sealed, &[]).expect_code(1).expect_stderr("kept by ralph during a run");
    assert!(remarks(&sealed).contains("the status and notes of task `a`"), "{}", remarks(&sealed));
    assert_statuses(&sealed, &[("a", "failed"), ("b", "done")]);
}

#[test]
fn agent_cannot_weaken_the_criteria_of_its_task() {
    let ease = "sed -i 's/a is there/nothing/' plan.json";
    let sealed = project(&[task("a", &[])], &editing(ease), &settings(json!({})));
    build(&sealed, &[]).expect_code(0).expect_stderr("but it is being worked on");
    assert_eq!(list(&sealed)["tasks"][0]["acceptance_criteria"], json!(["a is there"]));
}

/// An agent that proposes list changes with its work on `a`, and then continues.
fn amending(amendments: &Value) -> Value {
    json!([
        { "when": { "task": "a" }, "do": [
            { "touch": "a.txt" },
            { "handoff": {
                "task_completed": { "summary": "Did a.", "fully_complete": true },
                "plan_amendments": amendments
            } }
        ] },
        writes("$RALPH_TASK.txt")
    ])
}

#[test]
fn amendments_change_the_list_if_the_settings_say_so() {
    let amends = json!([
        { "action": "add", "after": "a", "reason": "needed",
          "task": { "id": "n", "title": "The n", "description": "Make n.", "status": "done" } },
        { "action": "modify", "task_id": "b", "reason": "clearer",
          "changes": { "title": "A better b" } },
        { "action": "remove", "task_id": "a", "reason": "cheating" },
        { "action": "remove", "task_id": "d", "reason": "not needed" },
        { "action": "remove", "task_id": "c", "reason": "one too many" }
    ]);
    let tasks = [task("a", &[]), task("b", &[]), task("c", &[]), task("d", &[])];
    let with = settings(json!({ "tasks": { "amendments": "apply" } }));
    let sealed = project(&tasks, &amending(&amends), &with);
    let ran = build(&sealed, &[]).expect_code(0);
    assert_statuses(&sealed, &[("a", "done"), ("n", "done"), ("b", "done"), ("c", "done")]);
    assert_eq!(
        made(&sealed),
        [
            "ralph[1]: a — The a",
            "ralph[2]: n — The n",
            "ralph[3]: b — A better b",
            "ralph[4]: c — The c"
        ]
    );
    let log = sealed.read_file(".ralph/logs/amendments.log");
    for line in ["add n after a", "needed", "modify b: title", "remove a", "remove c"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(ran.stderr.contains("tasks: 3 of 4 done, 1 removed, 1 added"), "{}", ran.stderr);
    let status = sealed.run_ralph(&["status"]).stdout;
    assert!(status.contains("3 of 4 done, 1 removed, 1 added"), "{status}");
    assert!(sealed.prompts()[1].contains("- remove a: the task that is being worked on"));
    assert!(sealed.read_file(".ralph/plan.json.bak").contains("\"tasks\""));
    assert_clean(&sealed);
}

#[test]
fn agents_add_tasks_and_propose_everything_else() {
    let new = |id: &str| {
        json!({ "action": "add", "reason": "found", "task": {
            "id": id, "title": format!("The {id}"), "description": format!("Make {id}."),
            "acceptance_criteria": [format!("{id} is there")] } })
    };
    let amends = json!([
        { "action": "modify", "task_id": "b", "reason": "the other criteria are obvious",
          "changes": { "acceptance_criteria": ["nothing"] } },
        { "action": "remove", "task_id": "c", "reason": "not needed" },
        { "action": "reorder", "task_id": "d", "reason": "later" },
        new("n"), new("o")
    ]);
    let tasks = [task("a", &[]), task("b", &[]), task("c", &[]), task("d", &[])];
    let with = settings(json!({ "tasks": { "maxAmendments": 1 } }));
    let sealed = project(&tasks, &amending(&amends), &with);
    let ran = build(&sealed, &[]).expect_code(0);
    let done = ["a", "b", "c", "d", "n"].map(|id| (id, "done"));
    assert_statuses(&sealed, &done);
    assert_eq!(list(&sealed)["tasks"][1]["acceptance_criteria"], json!(["b is there"]));
    assert!(ran.stderr.contains("tasks: 4 of 4 done, 1 added"), "{}", ran.stderr);
    assert!(ran.stderr.contains("agents want 3 changes of the list"), "{}", ran.stderr);
    let prompt = &sealed.prompts()[0];
    assert!(prompt.contains("add at most 1 new tasks in `plan_amendments`"), "{prompt}");
    assert!(prompt.contains("You cannot change or remove tasks"), "{prompt}");
    let log = sealed.read_file(".ralph/logs/amendments.log");
    for line in ["modify b: acceptance_criteria", "remove c", "reorder", "add n", "add o"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(log.contains("refused: not understood"), "{log}");
    let report = sealed.run_ralph(&["report"]).stdout;
    assert!(report.contains("Amendments proposed, for you to decide: 3"), "{report}");
    for command in [&["status"][..], &["tasks"][..]] {
        let shown = sealed.run_ralph(command).stdout;
        assert!(shown.contains("3 proposals of agents wait for you"), "{shown}");
    }
}

#[test]
fn a_proposal_is_accepted_or_rejected_by_the_user() {
    let amends = json!([
        { "action": "modify", "task_id": "b", "reason": "clearer",
          "changes": { "acceptance_criteria": ["b is there", "b is good"] } },
        { "action": "remove", "task_id": "c", "reason": "not needed" }
    ]);
    let tasks = [task("a", &[]), task("b", &[]), task("c", &[])];
    let sealed = project(&tasks, &amending(&amends), &settings(json!({})));
    build(&sealed, &["-m", "1"]).expect_code(1);
    let shown = sealed.run_ralph(&["tasks", "proposals"]).expect_code(0).stdout;
    for line in ["acceptance_criteria: b is there → b is there; b is good", "remove c", "clearer"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let facts: Value =
        serde_json::from_str(&sealed.run_ralph(&["tasks", "proposals", "--json"]).stdout)
            .expect("JSON");
    let id = |at: usize| facts["proposals"][at]["id"].as_str().expect("an id").to_owned();
    sealed.run_ralph(&["tasks", "proposals", "accept", "P-0"]).expect_code(2);
    sealed.run_ralph(&["tasks", "proposals", "accept", &id(0)]).expect_code(0);
    sealed.run_ralph(&["tasks", "proposals", "reject", &id(1)]).expect_code(0);
    let none = sealed.run_ralph(&["tasks", "proposals"]).expect_code(0).stdout;
    assert_eq!(none, "No proposal waits for you.\n");
    sealed.run_ralph(&["resume", "-m", "9"]).expect_code(0);
    assert!(sealed.prompts()[1].contains("b is good"), "{}", sealed.prompts()[1]);
    assert_statuses(&sealed, &[("a", "done"), ("b", "done"), ("c", "done")]);
}

#[test]
fn a_proposal_is_not_decided_while_a_run_is_active() {
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let accept = format!("! {ralph} tasks proposals accept P-1 2> decided.txt");
    let calls = json!([{ "do": [{ "run": { "command": accept } }, handoff("Wrote it.")] }]);
    let sealed = project(&[task("a", &[])], &calls, &settings(json!({})));
    build(&sealed, &[]).expect_code(0);
    let refused = sealed.read_file("decided.txt");
    assert!(refused.contains("Another run is active"), "{refused}");
}

#[test]
fn amendments_of_work_that_failed_are_not_applied() {
    let calls = json!([{ "do": [
        { "touch": "a.txt" },
        { "handoff": {
            "task_completed": { "summary": "Did a.", "fully_complete": true },
            "plan_amendments": [{ "action": "remove", "task_id": "b", "reason": "hard" }]
        } }
    ] }]);
    let with = settings(json!({
        "guardrails": [{ "command": "false" }], "tasks": { "maxAttempts": 1 }
    }));
    let sealed = project(&[task("a", &[]), task("b", &["a"])], &calls, &with);
    build(&sealed, &[]).expect_code(1);
    assert_statuses(&sealed, &[("a", "failed"), ("b", "pending")]);
}

#[test]
fn a_task_that_is_added_while_the_last_one_is_pushed_is_done_too() {
    let message = json!({ "when": { "role": "message" }, "do": [{ "text": "Add it" }] });
    let calls = json!([message, writes("$RALPH_TASK.txt")]);
    let scm = json!({ "scm": { "command": "git", "tasks": ["commit", "push origin main"] } });
    let sealed = project(&[task("a", &[])], &calls, &settings(scm));
    sealed.trust_project(&[]);
    let remote = sealed.root().join("remote.git");
    sealed.run_git(&["init", "--bare", "--quiet", &remote.to_string_lossy()]);
    sealed.run_git(&["remote", "add", "origin", &remote.to_string_lossy()]);
    let plan = sealed.project_dir().join("plan.json");
    let added = format!("s/\"tasks\": \\[/\"tasks\": [{},/", task("b", &[]));
    let edit = format!(
        "#!/bin/sh\n[ -e edited ] || {{ touch edited; sed -i '{added}' '{}'; }}\n",
        plan.display()
    );
    let hook = remote.join("hooks/post-receive");
    fs::write(&hook, edit).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    build(&sealed, &[]).expect_code(0);
    assert_statuses(&sealed, &[("b", "done"), ("a", "done")]);
    assert_eq!(
        sealed.run_git(&["rev-parse", "origin/main"]),
        sealed.run_git(&["rev-parse", "HEAD"])
    );
    assert_clean(&sealed);
}
