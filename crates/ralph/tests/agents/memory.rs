//! A compaction with the real Claude Code: it gets ralph's memory server and uses it, and the one
//! for documentation where a task wants that; its answer becomes the memory of the run, and agents
//! that write code get no server at all.
//!
//! Not here: when a compaction comes and what is carried over; `it/compaction.rs` has that, with
//! the scripted agent.

use std::path::{Path, PathBuf};

use ralph_testkit::models::{ModelRequest, ModelTurn};
use ralph_testkit::sealed::Finished;
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::stage::{Stage, find, installed};

const CLI: Cli = Cli::Claude;
const LIMIT: &str = "SQLite has one writer";
const GRAPH: &str = ".ralph/memory.jsonl";

/// What the second task wants to be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    Nothing,
    Serde,
}

/// Two tasks, each of which makes a file; between them, a compaction does what it is given.
fn turns(project: &Path, compaction: Vec<ModelTurn>) -> Vec<ModelTurn> {
    let makes = |id: &str| {
        let handoff = json!({
            "task_completed": { "task_id": id, "summary": "Wrote it.", "fully_complete": true },
            "deviations": [],
            "bugs_encountered": [],
            "architectural_notes": [],
            "files_touched": [],
            "plan_amendments": [],
            "tests_added": [],
            "constraints_discovered": [],
        });
        let place = project.join(format!("{id}.txt"));
        [CLI.writes(&place, "hello"), CLI.hands_over(&handoff)]
    };
    makes("t1").into_iter().chain(compaction).chain(makes("t2")).collect()
}

/// A memory with one constraint.
fn memory() -> Value {
    json!({
        "project_summary": "Two files.",
        "completed_work": ["t1.txt"],
        "active_constraints": [{ "constraint": LIMIT, "source_iteration": "1" }],
        "architectural_decisions": [],
        "unresolved_issues": [],
        "file_knowledge": [],
        "library_docs": [],
        "resolved": [],
    })
}

fn stage(compaction: Vec<ModelTurn>, wants: Wants) -> Option<Stage> {
    let settings = json!({
        "review": { "enabled": false },
        "memory": { "everyIterations": 1 },
        "maximumIterations": 2,
    });
    let stage = Stage::new(CLI, |project| turns(project, compaction), &settings)?;
    let task = |id: &str, libraries: &[&str]| {
        json!({
            "id": id, "title": format!("Make {id}"), "description": format!("Make {id}.txt."),
            "status": "pending", "acceptance_criteria": [format!("{id}.txt is there")],
            "depends_on": [], "libraries": libraries,
        })
    };
    let libraries: &[&str] = match wants {
        Wants::Nothing => &[],
        Wants::Serde => &["serde"],
    };
    let plan = json!({ "project": "p", "tasks": [task("t1", &[]), task("t2", libraries)] });
    stage.sealed.write_file("plan.json", &format!("{plan:#}\n"));
    stage.sealed.commit_all("Settings");
    Some(stage)
}

/// Runs the loop to its end and asserts that a compaction came between the tasks.
#[track_caller]
fn build(stage: &Stage) -> Finished {
    let end = stage.sealed.run_ralph(&["build"]);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, stage.account());
    let started = stage.sealed.find_events("iteration_started");
    let roles: Vec<&Value> = started.iter().map(|event| &event["role"]).collect();
    assert_eq!(roles, ["implement", "compact", "implement"]);
    stage.expect_silence();
    end
}

/// Returns where servers of npm are installed; none where they are not and that may be.
fn installed_servers() -> Option<PathBuf> {
    let (variable, script) = ("RALPH_TEST_MEMORY_REFERENCE", "scripts/install-memory-reference");
    let program = installed(variable, "documentation server", script)?;
    program.ancestors().find(|place| place.join("package-lock.json").exists()).map(Path::to_owned)
}

/// The tools of servers that a request offers, without their lead.
fn server_tools(asked: &ModelRequest) -> Vec<&str> {
    let tools = asked.body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str()?.strip_prefix("mcp__")).collect()
}

/// What the last call of a tool gave, as the next request tells the model.
fn result(asked: &ModelRequest) -> String {
    let last = asked.body["messages"].as_array().and_then(|messages| messages.last());
    let content = last.and_then(|message| message["content"].as_array());
    let result = content.into_iter().flatten().find(|block| block["type"] == "tool_result");
    let content = &result.expect("a result")["content"];
    match content[0]["text"].as_str() {
        Some(text) => text.to_owned(),
        None => content.as_str().unwrap_or_default().to_owned(),
    }
}

#[test]
fn a_compaction_keeps_a_graph_and_leaves_a_memory() {
    let store = json!({ "name": "store", "entityType": "module", "observations": ["one WRITER"] });
    let compaction = vec![
        ModelTurn::from_tool_call("mcp__memory__create_entities", json!({ "entities": [store] })),
        ModelTurn::from_tool_call("mcp__memory__search_nodes", json!({ "query": "Writer" })),
        CLI.hands_over(&memory()),
    ];
    let Some(stage) = stage(compaction, Wants::Nothing) else { return };
    build(&stage);
    let asked = stage.model.turn_requests();
    assert_eq!(asked.len(), 7, "{}", stage.account());
    // Who writes code gets no server, who compacts gets ralph's own.
    for coding in [0, 1, 5, 6] {
        assert_eq!(server_tools(&asked[coding]), [""; 0], "request {coding}");
    }
    for compacting in &asked[2..5] {
        let mut tools = server_tools(compacting);
        tools.sort_unstable();
        let expect = [
            "add_observations",
            "create_entities",
            "create_relations",
            "delete_entities",
            "delete_observations",
            "delete_relations",
            "open_nodes",
            "read_graph",
            "search_nodes",
        ];
        assert_eq!(tools, expect.map(|name| format!("memory__{name}")));
    }
    // The server answers, and what it stored stays.
    let created: Value = serde_json::from_str(&result(&asked[3])).expect("JSON");
    let found: Value = serde_json::from_str(&result(&asked[4])).expect("JSON");
    assert_eq!(created, json!({ "entities": [store] }), "{}", result(&asked[3]));
    assert_eq!(found, json!({ "entities": [store], "relations": [] }), "{}", result(&asked[4]));
    let graph: Value = serde_json::from_str(&stage.sealed.read_file(GRAPH)).expect("one line");
    assert_eq!(graph["name"], "store");
    assert_eq!(graph["observations"], json!(["one WRITER"]));
    // The answer is the memory, and the next prompt has it.
    let latest = stage.sealed.read_file(".ralph/context/compacted-latest.json");
    let latest: Value = serde_json::from_str(&latest).expect("JSON");
    assert_eq!(latest["active_constraints"], memory()["active_constraints"]);
    assert_eq!(latest["carried_over"], json!([]));
    let prompts = stage.sealed.prompts();
    assert!(!prompts[0].contains(LIMIT), "{}", prompts[0]);
    assert!(prompts[2].contains(LIMIT), "{}", prompts[2]);
    let received = asked[5].body["messages"].to_string();
    assert!(received.contains(LIMIT), "{received}");
}

#[test]
fn a_documentation_server_that_cannot_start_is_said_and_costs_nothing_else() {
    let compaction = vec![CLI.hands_over(&memory())];
    let Some(stage) = stage(compaction, Wants::Serde) else { return };
    stage.sealed.write_program("npx", "#!/bin/sh\necho no registry >&2\nexit 1\n");
    let end = build(&stage);
    let asked = stage.model.turn_requests();
    assert_eq!(asked.len(), 5, "{}", stage.account());
    let tools = server_tools(&asked[2]);
    assert!(tools.iter().all(|tool| tool.starts_with("memory__")), "{tools:?}");
    assert_eq!(tools.len(), 9);
    let said = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let expect = "the MCP server `context7` (failed) did not come up";
    assert!(said.contains(expect), "{}", end.stderr);
    assert!(stage.sealed.prompts()[2].contains(LIMIT));
}

#[test]
fn the_documentation_server_of_npm_is_there_for_a_task_that_wants_it() {
    let asks = json!({ "libraryName": "serde", "query": "how to derive" });
    let compaction = vec![
        ModelTurn::from_tool_call("mcp__context7__resolve-library-id", asks),
        CLI.hands_over(&memory()),
    ];
    let Some(installed) = installed_servers() else { return };
    let Some(stage) = stage(compaction, Wants::Serde) else { return };
    // From where it is installed, npx takes what is there and asks no registry.
    let npx = find("npx");
    let script =
        format!("#!/bin/sh\ncd '{}' && exec '{}' \"$@\"\n", installed.display(), npx.display());
    stage.sealed.write_program("npx", &script);
    let end = build(&stage);
    let asked = stage.model.turn_requests();
    assert_eq!(asked.len(), 6, "{}", stage.account());
    let tools = server_tools(&asked[2]);
    assert!(tools.contains(&"context7__resolve-library-id"), "{tools:?}");
    assert!(tools.contains(&"memory__create_entities"), "{tools:?}");
    assert_eq!(server_tools(&asked[4]), [""; 0]);
    // There is no network here, and the server says so to the model.
    assert!(result(&asked[3]).contains("fetch failed"), "{}", result(&asked[3]));
    assert!(!end.stderr.contains("did not come up"), "{}", end.stderr);
}
