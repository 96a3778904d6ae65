//! Compaction through the built binary: a long run that keeps its memory, the MCP servers of
//! agents, and what users see of it.

use std::fs;
use std::path::Path;

use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Running, Sealed, merge_into};
use serde_json::{Value, json};

use crate::{repository, sealed, without_token};

const LIMIT: &str = "SQLite has one writer";

fn task(id: &str) -> Value {
    json!({
        "id": id, "title": format!("The {id}"), "description": format!("Make {id}."),
        "status": "pending", "acceptance_criteria": [format!("{id} is there")], "depends_on": []
    })
}

fn write_plan(sealed: &Sealed, tasks: &[Value]) {
    sealed.write_file("plan.json", &format!("{:#}\n", json!({ "project": "p", "tasks": tasks })));
}

fn numbered(count: usize) -> Vec<Value> {
    (1..=count).map(|at| task(&format!("t{at}"))).collect()
}

/// A handoff of an iteration, with constraints.
fn handoff(found: &[&str]) -> Value {
    let found: Vec<Value> =
        found.iter().map(|it| json!({ "constraint": it, "impact": "writes wait" })).collect();
    json!({ "handoff": {
        "task_completed": { "summary": "Wrote it.", "fully_complete": true },
        "constraints_discovered": found
    } })
}

fn memory(more: Value) -> Value {
    let mut memory = json!({
        "project_summary": "A project.", "completed_work": [], "active_constraints": [],
        "architectural_decisions": [], "file_knowledge": []
    });
    merge_into(&mut memory, &more);
    json!({ "structured": memory })
}

/// Settings without review and commits, merged with others.
fn settings(further: Value) -> Value {
    let mut settings = json!({ "review": { "enabled": false }, "commit": "none" });
    merge_into(&mut settings, &further);
    settings
}

/// The stderr without line wrapping.
fn unwrapped_stderr(end: &Finished) -> String {
    end.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The roles of the last run's iterations.
fn roles(sealed: &Sealed) -> Vec<String> {
    let started = sealed.find_events("iteration_started");
    started.iter().map(|event| event["role"].as_str().unwrap_or_default().to_owned()).collect()
}

fn latest(sealed: &Sealed) -> Value {
    let text = sealed.read_file(".ralph/context/compacted-latest.json");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_constraint_of_iteration_3_is_in_the_prompt_of_the_last_iteration() {
    // With 33 compactions there are 200 iterations.
    let compactions = effort::choose_count(33, 5);
    let (tasks, iterations) = (5 * compactions + 2, 6 * compactions + 2);
    let sealed = sealed();
    let calls = json!([
        // Each compaction drops everything.
        { "when": { "role": "compact" }, "do": [memory(json!({}))] },
        { "when": { "iteration": 3 }, "do": [handoff(&[LIMIT])] },
        { "do": [handoff(&[])] }
    ]);
    sealed.write_script(&calls, &settings(json!({ "maximumIterations": tasks })));
    write_plan(&sealed, &numbered(tasks));
    let end = sealed.run_ralph(&["build", "--quiet"]).expect_code(0);
    assert_eq!(roles(&sealed).len(), iterations, "{}", end.stderr);
    assert_eq!(roles(&sealed).iter().filter(|role| *role == "compact").count(), compactions);
    let judged = sealed.find_events("judged");
    let last = judged.iter().rev().find(|it| !it["judgement"]["compacted"].is_null());
    let known = &last.expect("a compaction")["judgement"]["compacted"]["memory"];
    let constraint = "SQLite has one writer: writes wait";
    let held = json!([{ "constraint": constraint, "source_iteration": "3" }]);
    assert_eq!(known["active_constraints"], held);
    assert_eq!(known["carried_over"], json!([constraint]));
    assert_eq!(latest(&sealed)["active_constraints"], held);
    assert_eq!(latest(&sealed)["iteration"], iterations - 2);
    let history = sealed.project_dir().join(".ralph/context/compaction-history");
    assert_eq!(fs::read_dir(history).expect("a directory").count(), compactions - 1);
    let state: Value = serde_json::from_str(&sealed.read_file(".ralph/state.json")).expect("JSON");
    assert_eq!(state["current_iteration"], iterations);
    assert!(state["last_task_id"].is_string(), "{state}");
    assert_eq!(state["last_compaction_iteration"], iterations - 2);
    assert_eq!(state["coding_iterations_since_compaction"], 2);
    assert!(state["total_handoff_bytes_since_compaction"].as_u64() > Some(100));
    let prompts = sealed.prompts();
    let last = &prompts[iterations - 1];
    assert!(last.contains(constraint), "{last}");
    // The prompt size stays the same, however long the run is.
    let counted = |asked: &Value| -> u64 {
        let sections = asked["budget"].as_array().cloned().unwrap_or_default();
        let counted = sections.iter().filter(|section| section["name"] != "failure");
        counted.filter_map(|section| section["tokens"].as_u64()).sum()
    };
    let asked = sealed.find_events("asked");
    assert!(asked.iter().all(|asked| counted(asked) <= 8000));
    assert!(counted(&asked[iterations - 1]) > 100);
    assert!(last.len() < 2 * prompts[9].len(), "{last}");
}

#[test]
fn compaction_changes_are_reverted_and_its_template_is_configurable() {
    let sealed = repository();
    let calls = json!([
        { "when": { "role": "compact", "promptContains": "KEEP IT SHORT" }, "do": [
            { "write": { "path": "scribble.txt", "text": "x" } },
            memory(json!({ "resolved": [{ "item": LIMIT, "reason": "there is a queue now" }] }))
        ] },
        { "do": [{ "run": { "command": "echo x > $RALPH_TASK.txt" } }, handoff(&[LIMIT])] }
    ]);
    let further = json!({ "review": { "enabled": false }, "memory": { "everyIterations": 1 } });
    sealed.write_script(&calls, &further);
    sealed.write_file(".ralph/prompts/compact.md", "KEEP IT SHORT\n");
    write_plan(&sealed, &numbered(2));
    sealed.commit_all("Settings");
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(roles(&sealed), ["implement", "compact", "implement"]);
    for expect in [
        "Iteration 2/16: compact",
        "Compacting the handoffs: it is due",
        "Memory: 0 constraints, 0 open issues, 1 resolved",
        "files changed during the compaction: the changes, also any of yours, were undone; kept on refs/ralph/kept/",
        "Iteration 3/16: implement",
    ] {
        assert!(unwrapped_stderr(&end).contains(expect), "{expect}\n{}", end.stderr);
    }
    assert!(!sealed.project_dir().join("scribble.txt").exists());
    // Sections that its template lacks are added anyway.
    let prompt = &sealed.prompts()[1];
    assert!(prompt.contains("## Handoffs since then\nIteration 1:"), "{prompt}");
    assert_eq!(latest(&sealed)["resolved"][0]["item"], LIMIT);
    assert_eq!(sealed.subjects().len(), 4, "{:?}", sealed.subjects());
}

#[test]
fn known_bug_stays_open_until_a_handoff_fixes_it() {
    let sealed = sealed();
    let account = |is_fixed: bool| {
        let bug = json!({ "description": "the login test is flaky", "resolution": "", "resolved": is_fixed });
        json!({ "handoff": {
            "task_completed": { "summary": "Wrote it.", "fully_complete": true },
            "bugs_encountered": [bug]
        } })
    };
    let calls = json!([
        // Each compaction drops everything.
        { "when": { "role": "compact" }, "do": [memory(json!({}))] },
        { "when": { "iteration": 1 }, "do": [account(false)] },
        { "when": { "iteration": 5 }, "do": [account(true)] },
        { "do": [handoff(&[])] }
    ]);
    sealed.write_script(&calls, &settings(json!({ "memory": { "everyIterations": 1 } })));
    write_plan(&sealed, &numbered(4));
    sealed.run_ralph(&["build"]).expect_code(0);
    let open = |prompt: &str| prompt.contains("the login test is flaky (carried over)");
    let prompts = sealed.prompts();
    let open: Vec<bool> = prompts.iter().map(|prompt| open(prompt)).collect();
    // Implement and compact alternate; the third attempt fixes it.
    assert_eq!(open, [false, false, true, false, true, false, false], "{}", prompts[2]);
    assert_eq!(latest(&sealed)["unresolved_issues"], json!([]));
}

#[test]
fn failed_compaction_is_reported_and_the_run_continues() {
    let sealed = sealed();
    let calls = json!([
        { "when": { "role": "compact" }, "do": [{ "text": "I would rather not." }] },
        { "do": [handoff(&[])] }
    ]);
    sealed.write_script(&calls, &settings(json!({ "memory": { "everyIterations": 2 } })));
    write_plan(&sealed, &numbered(3));
    let end = sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(roles(&sealed), ["implement", "implement", "compact", "implement"]);
    let message = "compaction failed (malformed output): the answer contains no memory: it contains no JSON object of the requested form; the run continues";
    assert!(unwrapped_stderr(&end).contains(message), "{}", end.stderr);
    assert!(!sealed.project_dir().join(".ralph/context").exists());
}

#[test]
fn without_memory_nothing_is_compacted() {
    let sealed = sealed();
    let further = json!({ "memory": { "enabled": false, "everyIterations": 1 } });
    sealed.write_script(&json!([{ "do": [handoff(&[])] }]), &settings(further));
    let wanting = json!({ "libraries": ["serde"], "needs_docs": true });
    let mut tasks = numbered(3);
    if let (Some(task), Some(wanting)) = (tasks[0].as_object_mut(), wanting.as_object()) {
        task.extend(wanting.clone());
    }
    write_plan(&sealed, &tasks);
    sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(roles(&sealed), ["implement", "implement", "implement"]);
}

#[test]
fn a_new_run_knows_what_the_last_one_found() {
    let sealed = sealed();
    let calls = json!([
        { "when": { "role": "compact" }, "do": [memory(json!({}))] },
        { "do": [handoff(&[LIMIT])] }
    ]);
    sealed.write_script(&calls, &settings(json!({})));
    write_plan(&sealed, &numbered(3));
    sealed.run_ralph(&["build", "--maximum-iterations", "1"]).expect_code(1);
    sealed.write_script(
        &json!([
            { "when": { "role": "compact" }, "do": [memory(json!({}))] },
            { "do": [handoff(&[])] }
        ]),
        &settings(json!({ "memory": { "everyIterations": 1 } })),
    );
    sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(roles(&sealed), ["implement", "compact", "implement"]);
    assert!(sealed.prompts()[1].contains(LIMIT), "{}", sealed.prompts()[1]);
    let held = latest(&sealed)["active_constraints"][0]["constraint"].clone();
    assert_eq!(held, "SQLite has one writer: writes wait");
}

#[test]
fn context_shows_the_compaction_that_comes_first_and_what_follows() {
    let sealed = sealed();
    let calls = json!([
        { "when": { "role": "compact" }, "do": [memory(json!({}))] },
        { "do": [handoff(&[LIMIT])] }
    ]);
    sealed.write_script(&calls, &settings(json!({ "memory": { "everyIterations": 1 } })));
    write_plan(&sealed, &numbered(2));
    let looked_at =
        |words: &[&str]| sealed.run_ralph(&[&["context"], words].concat()).expect_code(0).stdout;
    let facts: Value = serde_json::from_str(&looked_at(&["--json"])).expect("JSON");
    assert_eq!(facts["compaction"], Value::Null);
    sealed.run_ralph(&["build", "--maximum-iterations", "1"]).expect_code(1);
    let facts: Value = serde_json::from_str(&looked_at(&["--json"])).expect("JSON");
    assert_eq!(
        (&facts["iteration"], &facts["role"], &facts["task"]),
        (&json!(3), &json!("implement"), &json!("t2"))
    );
    let first = &facts["compaction"];
    assert_eq!((&first["iteration"], &first["trigger"]), (&json!(2), &json!("periodic")));
    let shown = looked_at(&[]);
    for expect in [
        "Iteration 3: implement t2, in run ",
        "\nBefore that, iteration 2 compacts the handoffs: it is due.\n",
        "\nhandoffs ",
        "\ntotal ",
    ] {
        assert!(shown.contains(expect), "{expect}\n{shown}");
    }
    // Both match the run's prompts: the first exactly, the second as far as it is known.
    sealed.run_ralph(&["resume", "-m", "2"]).expect_code(0);
    let prompts: Vec<String> = sealed.prompts().iter().map(|it| without_token(it)).collect();
    assert_eq!(without_token(first["prompt"].as_str().expect("a prompt")), prompts[1]);
    let coding = &without_token(facts["prompt"].as_str().expect("a prompt"));
    let held = "\n- SQLite has one writer: writes wait (from 1) (carried over)\n";
    assert!(coding.contains(held) && prompts[2].contains(held), "{coding}");
    let after_memory = |text: &str| text.split_once(held).map(|(_, rest)| rest.to_owned());
    assert_eq!(after_memory(coding), after_memory(&prompts[2]));
}

/// Returns a project in which `claude` plays a compaction and two tasks, the second of which needs
/// documentation.
fn with_claude() -> Sealed {
    let sealed = sealed();
    let scenario = sealed.root().join("claude.json");
    let calls = json!([
        { "when": { "role": "compact" }, "do": [memory(json!({}))] },
        { "do": [handoff(&[])] }
    ]);
    fs::write(&scenario, json!({ "dialect": "claude", "calls": calls }).to_string())
        .expect("written");
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let version = "[ \"$1\" = --version ] && exec echo '2.1.325 (Claude Code)'";
    let argv = "echo \"$RALPH_ROLE $@\" | tr '\\n' ' ' >> ../argv; echo >> ../argv";
    let play = format!("exec {ralph} __sim {}", scenario.display());
    sealed.write_program("claude", &format!("#!/bin/sh\n{version}\n{argv}\n{play}\n"));
    let settings = settings(json!({
        "agent": { "command": "claude" }, "memory": { "everyIterations": 1 }
    }));
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    let mut tasks = numbered(3);
    tasks[1]["libraries"] = json!(["serde"]);
    write_plan(&sealed, &tasks);
    sealed
}

/// The command lines of the calls.
fn called(sealed: &Sealed) -> Vec<String> {
    let argv = fs::read_to_string(sealed.root().join("argv")).expect("it was called");
    argv.lines().map(str::to_owned).collect()
}

/// The servers in a file that a call names.
fn servers(call: &str) -> Value {
    let file = call.split("--mcp-config ").nth(1).and_then(|rest| rest.split(' ').next());
    let text = fs::read_to_string(Path::new(file.expect("a file"))).expect("it is there");
    serde_json::from_str::<Value>(&text).expect("JSON")["mcpServers"].clone()
}

#[test]
fn an_attempt_has_a_turn_limit_only_where_the_user_sets_one() {
    let sealed = with_claude();
    let mut tasks = numbered(3);
    tasks[0]["max_turns"] = json!(15);
    write_plan(&sealed, &tasks);
    let shown = sealed.run_ralph(&["build", "--dry-run"]).expect_code(0).stdout;
    assert!(shown.contains("--max-turns 15"), "{shown}");
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    let shown = sealed.run_ralph(&["resume", "--dry-run"]).expect_code(0).stdout;
    assert!(!shown.contains("--max-turns"), "{shown}");
    sealed.run_ralph(&["build", "1"]).expect_code(1);
    let mut limited = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    limited.env("RALPH_MAX_TURNS", "40").arg("build");
    assert!(limited.output().expect("it runs").status.success());
    let limits: Vec<Option<String>> = called(&sealed)
        .iter()
        .filter(|call| call.starts_with("implement"))
        .map(|call| call.split("--max-turns ").nth(1)?.split(' ').next().map(str::to_owned))
        .collect();
    assert_eq!(limits, [Some("15".to_owned()), None, Some("40".to_owned())]);
}

#[test]
fn a_compaction_has_a_turn_limit_only_where_the_user_sets_one() {
    for (limit, expect) in [(Value::Null, None), (json!(4), Some("4"))] {
        let sealed = with_claude();
        let path = ".ralph/settings.json";
        let mut settings: Value = serde_json::from_str(&sealed.read_file(path)).expect("JSON");
        if !limit.is_null() {
            settings["memory"]["maxTurns"] = limit;
        }
        sealed.write_file(path, &settings.to_string());
        sealed.run_ralph(&["build", "2"]);
        let calls = called(&sealed);
        let find = |role: &str| calls.iter().find(|call| call.starts_with(role)).expect("a call");
        let compact = find("compact").split("--max-turns ").nth(1);
        assert_eq!(compact.and_then(|rest| rest.split(' ').next()), expect, "{calls:#?}");
        assert!(!find("implement").contains("--max-turns"), "{calls:#?}");
    }
}

#[test]
fn each_role_gets_the_servers_that_are_for_it() {
    let sealed = with_claude();
    sealed.write_program("npx", "#!/bin/sh\nexit 1\n");
    sealed.run_ralph(&["build"]).expect_code(0);
    assert_eq!(roles(&sealed), ["implement", "compact", "implement", "compact", "implement"]);
    let called = called(&sealed);
    for call in &called {
        // Without servers of its own, a role has those of the project.
        let has_own = call.contains("--strict-mcp-config") && call.contains("--mcp-config");
        assert_eq!(has_own, call.starts_with("compact"), "{call}");
        assert!(!call.contains("--max-turns"), "no limit by default: {call}");
    }
    let names = |call: &str| -> Vec<String> {
        servers(call).as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&called[1]), ["memory", "context7"]);
    assert_eq!(names(&called[3]), ["memory"]);
    let own = &servers(&called[3])["memory"];
    let file =
        sealed.project_dir().canonicalize().expect("it is there").join(".ralph/memory.jsonl");
    assert_eq!(own["args"], json!(["mcp", "memory", "--file", file]));
    assert_eq!(own["command"], env!("CARGO_BIN_EXE_ralph"));
}

#[test]
fn missing_npx_is_reported() {
    let sealed = with_claude();
    for program in ["sh", "tr"] {
        let place = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(program));
        let place = place.iter().find(|place| place.exists()).expect("it is there");
        std::os::unix::fs::symlink(place, sealed.bin_dir().join(program)).expect("linked");
    }
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.arg("build").env("PATH", sealed.bin_dir());
    let end: Finished = Running::start_command(command).wait_for_end().expect_code(0);
    let message = "the libraries of t2 cannot be looked up: `npx` is not on the PATH";
    assert!(unwrapped_stderr(&end).contains(message), "{}", end.stderr);
    let called = called(&sealed);
    assert_eq!(servers(&called[1]).as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn user_servers_replace_ralphs() {
    let sealed = with_claude();
    let own = r#"{"mcpServers": {"notes": {"command": "notes"}}}"#;
    sealed.write_file("servers.json", own);
    let text = sealed.read_file(".ralph/settings.json");
    let mut settings: Value = serde_json::from_str(&text).expect("JSON");
    settings["mcp"] = json!({ "memory": "servers.json" });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    sealed.trust_project(&[]);
    sealed.run_ralph(&["build"]).expect_code(0);
    for call in [&called(&sealed)[1], &called(&sealed)[3]] {
        assert_eq!(servers(call), json!({ "notes": { "command": "notes" } }));
    }
}
