//! The workflows that are killed, with agents that do the same in every call.

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use super::user_state::{commit_all, in_the_middle, lived_in, with_submodule};

/// A workflow from start to end.
pub(super) struct Scene {
    pub(super) make: fn() -> Sealed,
    pub(super) words: &'static [&'static str],
    pub(super) code: i32,
    /// A file that appears in the project at a moment of interest.
    pub(super) trace: Option<&'static str>,
}

/// A call: it is counted, waits briefly before and after its action, and has a final answer.
fn call(when: &Value, command: &str, last: &Value) -> Value {
    let count = "echo \"$RALPH_ROLE $RALPH_ITERATION.$RALPH_ASK\" >> ../calls";
    json!({ "when": when, "do": [
        { "run": { "command": count } },
        { "sleep": 0.01 },
        { "run": { "command": format!("set -e; {command}") } },
        { "sleep": 0.01 },
        last
    ] })
}

fn done() -> Value {
    json!({ "claim": "DONE" })
}

fn says(text: &str) -> Value {
    json!({ "text": text })
}

/// Commits changes, if there are any: a repeated agent call finds its own work.
fn commit(message: &str) -> String {
    format!("git add -A; git diff --cached --quiet || git commit --quiet -m \"{message}\"")
}

/// Changes a file atomically: a killed `sed -i` leaves a temporary file in the project.
fn edit(script: &str, path: &str) -> String {
    format!("sed {script} {path} > ../edited && mv ../edited {path}")
}

/// Nothing is committed, and the user has uncommitted changes. One call fails at first, another
/// one leaves a process with its own session.
pub(super) fn a_plain_loop() -> Scene {
    fn make() -> Sealed {
        let sealed = lived_in();
        let mut daemon = call(&json!({ "iteration": 2 }), "echo 2 > two.txt", &says("Two."));
        let grandchild = json!({ "grandchild": { "kind": "ownSession", "pidFile": "../pid" } });
        if let Some(actions) = daemon["do"].as_array_mut() {
            actions.insert(1, grandchild);
        }
        let calls = json!([
            call(&json!({ "iteration": 1, "ask": 1 }), "echo 1 > one.txt", &json!({ "exit": 1 })),
            call(&json!({ "iteration": 1 }), "echo 1 > one.txt", &says("One.")),
            daemon,
            call(&json!({}), "echo 3 > three.txt", &done()),
        ]);
        sealed.write_script(&calls, &json!({}));
        in_the_middle(&sealed);
        sealed
    }
    Scene { make, words: &["run", "-p", "base"], code: 0, trace: None }
}

/// The work of the first iteration is rolled back, with uncommitted changes of the user.
pub(super) fn a_loop_that_goes_back() -> Scene {
    fn make() -> Sealed {
        let sealed = lived_in();
        let calls = json!([
            call(&json!({ "iteration": 1 }), "mkdir -p deep; echo x > deep/bad.txt", &done()),
            call(&json!({ "iteration": 2 }), "echo 2 > good.txt", &says("Better.")),
            call(&json!({}), "echo 3 > better.txt", &done()),
        ]);
        let gates = json!([{ "command": "sleep 0.02; test ! -f deep/bad.txt" }]);
        sealed.write_script(&calls, &json!({ "gates": gates, "onFailure": "rollback" }));
        in_the_middle(&sealed);
        sealed
    }
    Scene { make, words: &["run", "-p", "base"], code: 0, trace: None }
}

/// An agent writes the commit messages, and the commits are pushed; there is a submodule.
pub(super) fn a_loop_with_messages_and_pushes() -> Scene {
    fn make() -> Sealed {
        let sealed = lived_in();
        with_submodule(&sealed);
        let calls = json!([
            call(&json!({ "role": "message" }), "true", &says("Add a line")),
            call(&json!({ "iteration": 1 }), "echo 1 > one.txt", &says("One.")),
            call(&json!({}), "mkdir -p deep; echo 2 > deep/two.txt", &done()),
        ]);
        let settings = json!({
            "guardrails": [{ "command": "sleep 0.02; test -f one.txt" }],
            "scm": { "command": "git", "tasks": ["commit", "push --quiet origin main"] }
        });
        sealed.write_script(&calls, &settings);
        sealed.trust_project(&[]);
        let remote = sealed.root().join("remote.git").to_string_lossy().into_owned();
        sealed.run_git(&["init", "--bare", "--quiet", &remote]);
        sealed.run_git(&["remote", "add", "origin", &remote]);
        sealed
    }
    Scene { make, words: &["run", "-p", "base"], code: 0, trace: None }
}

/// ralph commits, without the user's uncommitted changes.
pub(super) fn changes_set_aside() -> Scene {
    fn make() -> Sealed {
        let sealed = lived_in();
        let calls = json!([
            call(&json!({ "iteration": 1 }), "echo 1 > one.txt", &says("One.")),
            call(&json!({}), "echo 2 > two.txt", &done()),
        ]);
        sealed.write_script(&calls, &json!({ "commit": "ralph" }));
        in_the_middle(&sealed);
        sealed
    }
    Scene {
        make,
        words: &["run", "-p", "base", "--set-aside"],
        code: 0,
        trace: Some(".git/refs/ralph/set-aside"),
    }
}

fn task(id: &str) -> Value {
    json!({
        "id": id, "title": format!("The {id}"), "description": format!("Make {id}."),
        "status": "pending", "acceptance_criteria": [format!("{id} is there")]
    })
}

/// Three tasks with reviews, an agent as a gate and compactions; one task fails and moves to a
/// failure branch, another one is skipped.
pub(super) fn a_task_list_that_ralph_keeps() -> Scene {
    fn make() -> Sealed {
        let sealed = lived_in();
        let verdict =
            json!({ "verdict": { "verdict": "approved", "feedback": "", "criteria": [] } });
        let memory = json!({ "structured": {
            "project_summary": "A project.", "completed_work": [], "active_constraints": [],
            "architectural_decisions": [], "file_knowledge": []
        } });
        let handoff = json!({
            "handoff": { "task_completed": { "summary": "Wrote it.", "fully_complete": true } }
        });
        let write = "echo \"$RALPH_ITERATION\" > $RALPH_TASK.txt";
        let calls = json!([
            call(&json!({ "role": "review" }), "true", &verdict),
            call(&json!({ "role": "compact" }), "true", &memory),
            call(&json!({}), write, &handoff),
        ]);
        let settings = json!({
            "gates": [
                { "command": "test ! -f b.txt" },
                { "name": "quality", "kind": "quality", "agent": {} }
            ],
            "tasks": { "maxAttempts": 2 },
            "memory": { "everyIterations": 2 }
        });
        sealed.write_script(&calls, &settings);
        // Large lists are written differently.
        let mut left_out = task("d");
        left_out["status"] = "skipped".into();
        left_out["description"] = "Too much to say. ".repeat(20_000).into();
        let list = json!({ "project": "p", "tasks": [task("a"), task("b"), task("c"), left_out] });
        sealed.write_file("plan.json", &format!("{list:#}\n"));
        sealed.write_file("progress.txt", "# Progress\n");
        commit_all(&sealed, "List");
        sealed
    }
    Scene { make, words: &["build"], code: 1, trace: None }
}

/// Two stories, whose list and commits the agent owns.
pub(super) fn a_task_list_that_the_agent_keeps() -> Scene {
    fn make() -> Sealed {
        let sealed = lived_in();
        let value = r#""/\"id\": \"$RALPH_TASK\"/,/}/ s|\"$1\": .*[^,]|\"$1\": $2|""#;
        let set = format!("set_in() {{ {}; }}", edit(value, "ralph/tasks.json"));
        let implement = format!(
            "{set}; echo \"$RALPH_ITERATION\" > $RALPH_TASK.txt; \
             set_in reviewStatus '\"needs_review\"'; {}",
            commit("feat: [$RALPH_TASK]")
        );
        let review = format!(
            "{set}; set_in reviewStatus '\"approved\"'; set_in reviewCount 1; set_in passes true; {}",
            commit("review: [$RALPH_TASK]")
        );
        let calls = json!([
            call(&json!({ "role": "review" }), &review, &says("Approved.")),
            call(&json!({}), &implement, &says("Did it.")),
        ]);
        let gates = json!([{ "command": "sleep 0.02" }]);
        sealed.write_script(&calls, &json!({ "tasks": { "keeper": "agent" }, "gates": gates }));
        let story = |id: &str| {
            json!({
                "id": id, "title": format!("Story {id}"), "description": format!("Make {id}."),
                "acceptanceCriteria": [format!("{id} is there")], "priority": 1, "passes": false,
                "reviewStatus": null, "reviewCount": 0, "reviewFeedback": "", "notes": "",
                "dependsOn": []
            })
        };
        let list = json!({
            "project": "p", "branchName": "ralph/p", "description": "d",
            "userStories": [story("US-1"), story("US-2")]
        });
        sealed.write_file("ralph/tasks.json", &format!("{list:#}\n"));
        sealed.write_file("ralph/progress.txt", "# Progress\n\n## Codebase Patterns\n\n---\n");
        commit_all(&sealed, "List");
        sealed
    }
    Scene { make, words: &["build"], code: 0, trace: None }
}

/// A task list is drafted; the first draft is invalid. The documents are not committed yet.
pub(super) fn a_draft_of_a_task_list() -> Scene {
    fn make() -> Sealed {
        let sealed = lived_in();
        let list = |depends_on: &str| {
            let story = json!({
                "id": "US-001", "title": "The first", "description": "Make it.",
                "acceptanceCriteria": ["It is there"], "priority": 1, "passes": false,
                "reviewStatus": null, "reviewCount": 0, "reviewFeedback": "", "notes": "",
                "dependsOn": if depends_on.is_empty() { json!([]) } else { json!([depends_on]) }
            });
            let list = json!({ "project": "notes", "userStories": [story] });
            format!("cat > ralph/tasks.json <<'END'\n{list:#}\nEND\n")
        };
        let calls = json!([
            call(&json!({ "iteration": 1 }), &list("US-009"), &says("That is it.")),
            call(&json!({}), &list(""), &says("That is it.")),
        ]);
        sealed.write_script(&calls, &json!({}));
        sealed.run_ralph(&["init", "--workflow", "tasks", "--name", "Notes"]).expect_code(0);
        sealed.write_file("ralph/prd.md", "# Notes\n\n## 1. Summary\n\nNotes can be searched.\n");
        sealed
    }
    Scene { make, words: &["plan"], code: 0, trace: None }
}

const PLAN: &str = ".ralph/implementation_plan.md";

/// Returns a repository with a specification.
fn specified(calls: &Value) -> Sealed {
    let sealed = lived_in();
    sealed.write_file("specs/greeting.md", "# Greeting\n\n`hello.txt` says hello.\n");
    sealed.write_script(calls, &json!({ "workflow": "specs" }));
    sealed
}

fn complete() -> Value {
    says("<promise>COMPLETE</promise>")
}

/// The plan is made in two iterations.
pub(super) fn a_plan_by_specifications() -> Scene {
    fn make() -> Sealed {
        let write = |items: &str, message: &str| {
            format!("printf -- '{items}' > {PLAN}; {}", commit(message))
        };
        let sealed = specified(&json!([
            call(&json!({ "iteration": 1 }), &write("- [ ] One\\n", "Plan"), &says("More.")),
            call(&json!({}), &write("- [ ] One\\n- [ ] Two\\n", "Plan more"), &complete()),
        ]));
        commit_all(&sealed, "Specify");
        sealed
    }
    Scene { make, words: &["plan"], code: 0, trace: None }
}

/// The plan is followed, an item at a time, with a gate.
pub(super) fn a_build_by_specifications() -> Scene {
    fn make() -> Sealed {
        let item = |name: &str| {
            let tick = edit(&format!("'s/\\[ \\] {name}/[x] {name}/'"), PLAN);
            format!("echo x > {name}.txt; {tick}; {}", commit(name))
        };
        let sealed = specified(&json!([
            call(&json!({ "iteration": 1 }), &item("One"), &says("One.")),
            call(&json!({ "iteration": 2 }), &item("Two"), &says("Two.")),
            call(&json!({}), &item("Three"), &complete()),
        ]));
        sealed.write_file(PLAN, "# Plan\n\n- [ ] One\n- [ ] Two\n- [ ] Three\n");
        commit_all(&sealed, "Specify");
        sealed
    }
    Scene { make, words: &["build"], code: 0, trace: None }
}
